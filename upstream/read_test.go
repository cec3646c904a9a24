package upstream

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
)

// answers makes a store serve the pairs of one region, as TiKV would: only keys
// of the region, whatever the range asked for.
func (s *puppetStore) answers(all map[string]string, regions map[uint64]span.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scan = func(q *kvrpcpb.ScanRequest) *kvrpcpb.ScanResponse {
		in, ok := regions[q.Context.RegionId]
		if !ok {
			return &kvrpcpb.ScanResponse{RegionError: &errorpb.Error{RegionNotFound: &errorpb.RegionNotFound{}}}
		}
		var keys []string
		for k := range all {
			if k >= string(q.StartKey) && (len(q.EndKey) == 0 || k < string(q.EndKey)) && in.Contains(span.EncodeKey([]byte(k))) {
				keys = append(keys, k)
			}
		}
		sort.Strings(keys)
		resp := &kvrpcpb.ScanResponse{}
		for _, k := range keys[:min(len(keys), int(q.Limit))] {
			resp.Pairs = append(resp.Pairs, &kvrpcpb.KvPair{Key: []byte(k), Value: []byte(all[k])})
		}
		return resp
	}
	s.get = func(q *kvrpcpb.GetRequest) *kvrpcpb.GetResponse {
		v, ok := all[string(q.Key)]
		return &kvrpcpb.GetResponse{Value: []byte(v), NotFound: !ok}
	}
}

// twoRegions puts [-, m) on store 1 and [m, -) on store 2.
func twoRegions(p *puppet, all map[string]string) {
	border := span.EncodeKey([]byte("m"))
	p.setRegions(puppetRegion(1, 1, 1, "", border), puppetRegion(2, 1, 2, border, ""))
	p.kv[1].answers(all, map[uint64]span.Span{1: {End: border}})
	p.kv[2].answers(all, map[uint64]span.Span{2: {Start: border}})
}

func scan(t *testing.T, c *Client, start, end string) string {
	t.Helper()
	var out []string
	err := c.Scan(t.Context(), []byte(start), []byte(end), 100, func(k, v []byte) error {
		out = append(out, string(k)+"="+string(v))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func TestScan(t *testing.T) {
	p := startPuppet(t, nil)
	twoRegions(p, map[string]string{"a": "1", "l": "2", "m": "3", "z": "4"})
	c := open(t, p.config())
	for _, r := range []struct{ start, end, want string }{
		{"", "", "a=1 l=2 m=3 z=4"}, {"b", "", "l=2 m=3 z=4"}, {"a", "m", "a=1 l=2"}, {"m", "z", "m=3"}, {"x", "y", ""}, {"b", "n", "l=2 m=3"},
	} {
		if got := scan(t, c, r.start, r.end); got != r.want {
			t.Errorf("[%s,%s): got %q, want %q", r.start, r.end, got, r.want)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lookups > 2 {
		t.Errorf("PD was asked %d times for regions that do not move", p.lookups)
	}
}

// Borders are where regions meet inside a span, and not its own; what is no key of a row's
// form is none.
func TestBorders(t *testing.T) {
	p := startPuppet(t, nil)
	c := open(t, p.config())
	b, m, x := span.EncodeKey([]byte("b")), span.EncodeKey([]byte("m")), span.EncodeKey([]byte("x"))
	p.setRegions(puppetRegion(1, 1, 1, "", b), puppetRegion(2, 1, 2, b, m), puppetRegion(3, 1, 1, m, "mnop"), puppetRegion(4, 1, 2, "mnop", x), puppetRegion(5, 1, 1, x, ""))
	for _, q := range []struct {
		of   span.Span
		want []span.Key
	}{
		{span.Span{}, []span.Key{b, m, x}},
		{span.Span{Start: b, End: x}, []span.Key{m}},
		{span.Span{Start: span.EncodeKey([]byte("c")), End: span.EncodeKey([]byte("y"))}, []span.Key{m, x}},
		{span.Span{Start: span.EncodeKey([]byte("c")), End: span.EncodeKey([]byte("d"))}, nil},
	} {
		got, err := c.Borders(t.Context(), q.of)
		if err != nil || !slices.Equal(got, q.want) {
			t.Errorf("in %v: %q, %v; want %q", q.of, got, err, q.want)
		}
	}
}

func TestScanPages(t *testing.T) {
	p := startPuppet(t, nil)
	all := map[string]string{}
	for i := range 4 * pageMax {
		all[fmt.Sprintf("k%05d", i)] = "v"
	}
	p.kv[1].answers(all, map[uint64]span.Span{1: {}})
	var limits []uint32
	after := p.kv[1].scan
	p.kv[1].scan = func(q *kvrpcpb.ScanRequest) *kvrpcpb.ScanResponse {
		limits = append(limits, q.Limit)
		return after(q)
	}
	c := open(t, p.config())
	n, last := 0, ""
	err := c.Scan(t.Context(), nil, nil, 100, func(k, _ []byte) error {
		if n++; string(k) <= last {
			t.Errorf("%s after %s", k, last)
		}
		last = string(k)
		return nil
	})
	if err != nil || n != len(all) {
		t.Errorf("%d pairs, %v", n, err)
	}
	if want := []uint32{pageFirst, 4 * pageFirst, pageMax, pageMax, pageMax, pageMax}; !slices.Equal(limits, want) {
		t.Errorf("pages of %d, want %d", limits, want)
	}
}

// TestScanOfLargePairs reads values of which few fit a page after small ones: what
// is too large to come is asked for in smaller pieces.
func TestScanOfLargePairs(t *testing.T) {
	p := startPuppet(t, nil)
	all := map[string]string{}
	for i := range 200 {
		all[fmt.Sprintf("a%05d", i)] = "v"
	}
	large := strings.Repeat("v", 300<<10)
	for i := range 100 {
		all[fmt.Sprintf("b%05d", i)] = large
	}
	p.kv[1].answers(all, map[uint64]span.Span{1: {}})
	after, refused := p.kv[1].scan, 0
	p.kv[1].scan = func(q *kvrpcpb.ScanRequest) *kvrpcpb.ScanResponse {
		resp := after(q)
		if resp.Size() > 8<<20 {
			refused++
			return nil // gRPC: larger than may come
		}
		return resp
	}
	c := open(t, p.config())
	n := 0
	err := c.Scan(t.Context(), nil, nil, 100, func([]byte, []byte) error { n++; return nil })
	if err != nil || n != len(all) || refused == 0 {
		t.Errorf("%d pairs, %d pages refused, %v", n, refused, err)
	}
	one := []*kvrpcpb.KvPair{{Key: []byte("k"), Value: []byte(large)}}
	if got := nextLimit(one, 256); got != 13 {
		t.Errorf("the next page after one of 300 KiB pairs has %d", got)
	}
	if got := nextLimit(nil, 7); got != 7 {
		t.Errorf("the next page after an empty one has %d", got)
	}
}

func TestGet(t *testing.T) {
	p := startPuppet(t, nil)
	twoRegions(p, map[string]string{"a": "1", "z": "4"})
	c := open(t, p.config())
	for key, want := range map[string]string{"a": "1", "z": "4", "n": ""} {
		got, err := c.Get(t.Context(), []byte(key), 100)
		if err != nil || string(got) != want || (want == "") != (got == nil) {
			t.Errorf("%s: got %q, %v", key, got, err)
		}
	}
}

// TestReadMoves reads while regions split, leaders move, and a store is busy or away.
func TestReadMoves(t *testing.T) {
	p := startPuppet(t, nil)
	all := map[string]string{"a": "1", "n": "3"}
	p.kv[1].answers(all, map[uint64]span.Span{1: {}})
	c := open(t, p.config())
	if got := scan(t, c, "", ""); got != "a=1 n=3" {
		t.Errorf("got %q", got)
	}
	// A split: what is remembered is too old.
	twoRegions(p, all)
	p.kv[1].mu.Lock()
	after, tries := p.kv[1].scan, 0
	p.kv[1].scan = func(q *kvrpcpb.ScanRequest) *kvrpcpb.ScanResponse {
		switch tries++; tries {
		case 1:
			return &kvrpcpb.ScanResponse{RegionError: &errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}}
		case 2:
			return &kvrpcpb.ScanResponse{RegionError: &errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{BackoffMs: 1}}}
		}
		return after(q)
	}
	p.kv[1].mu.Unlock()
	if got := scan(t, c, "", ""); got != "a=1 n=3" {
		t.Errorf("got %q", got)
	}
	// The leader moves: the store names it.
	p.kv[2].mu.Lock()
	p.kv[2].scan = func(*kvrpcpb.ScanRequest) *kvrpcpb.ScanResponse {
		return &kvrpcpb.ScanResponse{RegionError: &errorpb.Error{NotLeader: &errorpb.NotLeader{Leader: &metapb.Peer{Id: 21, StoreId: 1}}}}
	}
	p.kv[2].mu.Unlock()
	p.kv[1].answers(all, map[uint64]span.Span{1: {End: span.EncodeKey([]byte("m"))}, 2: {Start: span.EncodeKey([]byte("m"))}})
	if got := scan(t, c, "", ""); got != "a=1 n=3" {
		t.Errorf("got %q", got)
	}
	// A store goes away: another one leads.
	p.kv[1].stop()
	p.setRegions(puppetRegion(1, 2, 2, "", ""))
	p.kv[2].answers(all, map[uint64]span.Span{1: {}})
	if got := scan(t, c, "", ""); got != "a=1 n=3" {
		t.Errorf("got %q", got)
	}
}

func TestReadLocks(t *testing.T) {
	p := startPuppet(t, nil)
	all := map[string]string{"a": "1", "b": "2", "c": "3"}
	p.kv[1].answers(all, map[uint64]span.Span{1: {}})
	lock := &kvrpcpb.KeyError{Locked: &kvrpcpb.LockInfo{Key: []byte("b"), PrimaryLock: []byte("pp"), LockVersion: 99, LockTtl: 3000}}
	p.kv[1].mu.Lock()
	after, locked := p.kv[1].scan, 2
	p.kv[1].scan = func(q *kvrpcpb.ScanRequest) *kvrpcpb.ScanResponse {
		resp := after(q)
		for i, kv := range resp.Pairs {
			if string(kv.Key) == "b" && locked != 0 {
				resp.Pairs[i] = &kvrpcpb.KvPair{Error: lock}
				if locked > 0 {
					locked--
				}
			}
		}
		return resp
	}
	p.kv[1].get = func(*kvrpcpb.GetRequest) *kvrpcpb.GetResponse { return &kvrpcpb.GetResponse{Error: lock} }
	p.kv[1].mu.Unlock()
	cfg := p.config()
	cfg.LockWaitMax = 200 * time.Millisecond
	c := open(t, cfg)
	if got := scan(t, c, "", ""); got != "a=1 b=2 c=3" {
		t.Errorf("got %q", got)
	}
	// One that never goes.
	p.kv[1].mu.Lock()
	locked = -1
	p.kv[1].mu.Unlock()
	err := c.Scan(t.Context(), nil, nil, 100, func(k, _ []byte) error {
		if string(k) != "a" {
			t.Errorf("%s was read past the lock", k)
		}
		return nil
	})
	if !cdcerr.SnapshotRead.Is(err) || !strings.Contains(err.Error(), "start-ts 99, primary key 7070") {
		t.Errorf("got %v", err)
	}
	if _, err = c.Get(t.Context(), []byte("b"), 100); !cdcerr.SnapshotRead.Is(err) {
		t.Errorf("got %v", err)
	}
}
