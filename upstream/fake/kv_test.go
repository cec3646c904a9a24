package fake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// context is what a well-informed client sends along.
func kvContext(r *pdpb.Region) *kvrpcpb.Context {
	return &kvrpcpb.Context{RegionId: r.Region.Id, RegionEpoch: r.Region.RegionEpoch, Peer: r.Leader}
}

func (cl *client) kv(r *pdpb.Region) tikvpb.TikvClient {
	return tikvpb.NewTikvClient(cl.conns[r.Leader.StoreId])
}

func pairsText(pairs []*kvrpcpb.KvPair) string {
	var out []string
	for _, p := range pairs {
		s := string(p.Key) + "=" + string(p.Value)
		if l := p.GetError().GetLocked(); l != nil {
			s = fmt.Sprintf("%s locked by %d", l.Key, l.LockVersion)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestReadsAtATimestamp(t *testing.T) {
	c, cl := calm(t)
	ctx := within(t, guard)
	for i, v := range []string{"a", "b"} {
		start := uint64(10 * (i + 1))
		for _, k := range []string{"t1", "t2", "t3"} {
			must(t, c.Prewrite(put(k, k+v, ts(start))))
			must(t, c.Commit([]byte(k), ts(start), ts(start+5)))
		}
	}
	must(t, c.Prewrite(mvcc.Lock{Op: mvcc.Delete, Key: []byte("t2"), StartTS: 30}))
	must(t, c.Commit([]byte("t2"), 30, 35))
	r := cl.regionOf(t, "t1")
	scan := func(at uint64, edit func(*kvrpcpb.ScanRequest)) string {
		t.Helper()
		req := &kvrpcpb.ScanRequest{Context: kvContext(r), StartKey: []byte("t"), Limit: 100, Version: at}
		if edit != nil {
			edit(req)
		}
		resp, err := cl.kv(r).KvScan(ctx, req)
		must(t, err)
		if resp.RegionError != nil {
			return resp.RegionError.Message
		}
		return pairsText(resp.Pairs)
	}
	eq := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	eq(scan(14, nil), "")
	eq(scan(15, nil), "t1=t1a t2=t2a t3=t3a")
	eq(scan(25, nil), "t1=t1b t2=t2b t3=t3b")
	eq(scan(99, nil), "t1=t1b t3=t3b")
	eq(scan(99, func(q *kvrpcpb.ScanRequest) { q.Limit = 1 }), "t1=t1b")
	eq(scan(99, func(q *kvrpcpb.ScanRequest) { q.KeyOnly = true }), "t1= t3=")
	eq(scan(25, func(q *kvrpcpb.ScanRequest) { q.StartKey, q.EndKey = []byte("t2"), []byte("t3") }), "t2=t2b")
	eq(scan(25, func(q *kvrpcpb.ScanRequest) {
		q.Reverse, q.StartKey, q.EndKey = true, []byte("t3"), []byte("t1")
	}), "t2=t2b t1=t1b")

	must(t, c.Prewrite(put("t1", "new", 40)))
	must(t, c.Prewrite(mvcc.Lock{Op: mvcc.Pessimistic, Key: []byte("t3"), StartTS: 41}))
	eq(scan(39, nil), "t1=t1b t3=t3b")
	eq(scan(40, nil), "t1 locked by 40 t3=t3b")
	eq(scan(99, func(q *kvrpcpb.ScanRequest) { q.Context.ResolvedLocks = []uint64{40} }), "t1=t1b t3=t3b")

	get := func(key string, at uint64) string { return cl.get(t, r, key, at) }
	eq(get("t1", 39), "t1b at 25")
	eq(get("t1", 40), "locked by 40")
	eq(get("t2", 99), "not found")
	eq(get("t9", 99), "not found")
	eq(get("a", 99), "key not in region")
	batch, err := cl.kv(r).KvBatchGet(ctx, &kvrpcpb.BatchGetRequest{
		Context: kvContext(r), Keys: [][]byte{[]byte("t3"), []byte("t2"), []byte("t1")}, Version: 50,
	})
	must(t, err)
	eq(pairsText(batch.Pairs), "t3=t3b t1 locked by 40")
}

func TestReadsOfTheWrongRegionAreRefused(t *testing.T) {
	c, cl := calm(t)
	ctx := within(t, guard)
	r := cl.regionOf(t, "t1")
	other := r.Leader.StoreId%3 + 1
	read := func(store uint64, edit func(*kvrpcpb.Context)) string {
		t.Helper()
		rc := kvContext(r)
		edit(rc)
		resp, err := tikvpb.NewTikvClient(cl.conns[store]).KvScan(ctx, &kvrpcpb.ScanRequest{
			Context: rc, StartKey: []byte("t1"), Limit: 9, Version: 50,
		})
		must(t, err)
		return resp.RegionError.GetMessage()
	}
	leader := r.Leader.StoreId
	for _, tc := range []struct {
		want, got string
	}{
		{"", read(leader, func(*kvrpcpb.Context) {})},
		{"store id does not match", read(other, func(*kvrpcpb.Context) {})},
		{"not leader", read(other, func(rc *kvrpcpb.Context) { rc.Peer = &metapb.Peer{StoreId: other} })},
		{"region not found", read(leader, func(rc *kvrpcpb.Context) { rc.RegionId = 5 })},
		{"epoch not match", read(leader, func(rc *kvrpcpb.Context) { rc.RegionEpoch = &metapb.RegionEpoch{Version: 1, ConfVer: 3} })},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
	c.Split([]byte("t5"))
	if got := read(leader, func(*kvrpcpb.Context) {}); got != "epoch not match" {
		t.Errorf("after a split: %q", got)
	}
	// A scan ends with its region.
	must(t, c.Prewrite(put("t4", "l", 5)))
	must(t, c.Commit([]byte("t4"), 5, 6))
	must(t, c.Prewrite(put("t6", "r", 5)))
	must(t, c.Commit([]byte("t6"), 5, 6))
	r = cl.regionOf(t, "t1")
	resp, err := cl.kv(r).KvScan(ctx, &kvrpcpb.ScanRequest{Context: kvContext(r), StartKey: []byte("t1"), Limit: 9, Version: 50})
	must(t, err)
	if got := pairsText(resp.Pairs); got != "t4=l" {
		t.Errorf("scan of the left part: %q", got)
	}
}

func ts(v uint64) tso.TS { return tso.TS(v) }

// get reads one key and says what came of it.
func (cl *client) get(t *testing.T, r *pdpb.Region, key string, at uint64) string {
	t.Helper()
	resp, err := cl.kv(r).KvGet(within(t, guard), &kvrpcpb.GetRequest{
		Context: kvContext(r), Key: []byte(key), Version: at, NeedCommitTs: true,
	})
	must(t, err)
	switch {
	case resp.RegionError != nil:
		return resp.RegionError.Message
	case resp.Error.GetLocked() != nil:
		return fmt.Sprintf("locked by %d", resp.Error.Locked.LockVersion)
	case resp.NotFound:
		return "not found"
	}
	return fmt.Sprintf("%s at %d", resp.Value, resp.CommitTs)
}
