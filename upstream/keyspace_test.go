package upstream

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/lock"
)

func TestKeyspaceKeys(t *testing.T) {
	for id, want := range map[uint32]string{0: "x\x00\x00\x01", 0x0102FF: "x\x01\x03\x00", 0xFFFFFF: "y\x00\x00\x00"} {
		k := newKeyspace("k", id)
		if got := string(k.end()); got != want {
			t.Errorf("keyspace %d ends at %X, want %X", id, got, want)
		}
		for _, s := range []span.Span{{}, span.OfTable(7), {Start: span.EncodeKey([]byte("t")), TableID: 3}} {
			on, err := k.span(s)
			if err != nil || on.Empty() || !(span.Span{Start: span.EncodeKey(k.prefix), End: span.EncodeKey(k.end())}).Covers(on) {
				t.Errorf("%v is on the wire %v, %v", s, on, err)
			}
			if back := k.inner(on); back != s {
				t.Errorf("%v comes back as %v", s, back)
			}
		}
	}
	k := newKeyspace("k", 5)
	if got, err := k.cut(k.full([]byte("abc"))); err != nil || string(got) != "abc" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := k.cut([]byte("x\x00\x00\x06abc")); !cdcerr.Unexpected.Is(err) {
		t.Errorf("got %v", err)
	}
	if _, err := k.span(span.Span{Start: "not encoded"}); !cdcerr.InvalidArgument.Is(err) {
		t.Errorf("got %v", err)
	}
}

// TestKeyspace reads, follows and unlocks keys of a keyspace: the prefix stands on
// the wire and nowhere else.
func TestKeyspace(t *testing.T) {
	p := startPuppet(t, nil)
	p.spaces = map[string]*keyspacepb.KeyspaceMeta{
		"mine": {Keyspace: &keyspacepb.KeyspaceMeta_Id{Id: 5}, Name: "mine"},
		"off":  {Keyspace: &keyspacepb.KeyspaceMeta_Id{Id: 6}, Name: "off", State: keyspacepb.KeyspaceState_DISABLED},
	}
	cfg := p.config()
	for _, name := range []string{"none", "off"} {
		cfg.Keyspace = name
		if _, err := Open(t.Context(), cfg); !cdcerr.KeyspaceNotFound.Is(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	const prefix = "x\x00\x00\x05"
	cfg.Keyspace = "mine"
	c := open(t, cfg)
	p.kv[1].answers(map[string]string{"x\x00\x00\x04z": "other", prefix + "a": "1", prefix + "b": "2", "x\x00\x00\x06a": "other"}, map[uint64]span.Span{1: {}})
	spoken := func(in *kvrpcpb.Context) {
		if in.ApiVersion != kvrpcpb.APIVersion_V2 || in.GetKeyspaceId() != 5 || in.KeyspaceName != "mine" {
			t.Errorf("context %v", in)
		}
	}
	scan0, get0 := p.kv[1].scan, p.kv[1].get
	p.kv[1].scan = func(q *kvrpcpb.ScanRequest) *kvrpcpb.ScanResponse { spoken(q.Context); return scan0(q) }
	p.kv[1].get = func(q *kvrpcpb.GetRequest) *kvrpcpb.GetResponse { spoken(q.Context); return get0(q) }
	for _, r := range []struct{ start, end, want string }{{"", "", "a=1 b=2"}, {"b", "", "b=2"}, {"", "b", "a=1"}} {
		if got := scan(t, c, r.start, r.end); got != r.want {
			t.Errorf("[%s,%s): got %q, want %q", r.start, r.end, got, r.want)
		}
	}
	if v, err := c.Get(t.Context(), []byte("b"), 100); err != nil || string(v) != "2" {
		t.Errorf("got %q, %v", v, err)
	}

	w := subscribe(t, c, Subscription{Span: span.Span{TableID: 7, Start: span.EncodeKey([]byte("a"))}, StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	if !bytes.Equal(q.StartKey, []byte(span.EncodeKey([]byte(prefix+"a")))) || !bytes.Equal(q.EndKey, []byte(span.EncodeKey([]byte("x\x00\x00\x06")))) {
		t.Errorf("request %v", q)
	}
	f.rows(q, committed(prefix+"b", "1", 11, 12), prewrite(prefix+"c", "2", 13), initialized, commit(prefix+"c", 13, 14), &cdcpb.Event_Row{})
	f.resolved(20, q)
	same(t, w.until(20), "b=1 (was ) 11-12", "c=2 (was ) 13-14")
	if s := c.Status().Subscriptions[0].Span; s.Start != span.EncodeKey([]byte("a")) || s.End != "" {
		t.Errorf("status of %v", s)
	}

	k := keepLocks(p, written(prefix+"d", prefix+"d", longAgo(9000)))
	k.status = func(q *kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse {
		spoken(q.Context)
		return &kvrpcpb.CheckTxnStatusResponse{}
	}
	all, err := c.keyspace.span(keys("a", "z"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.visit(t.Context(), lock.Visit{Region: 1, Span: all, Target: tso.New(puppetNow, 0)}); err != nil {
		t.Fatal(err)
	}
	wantTook(t, k, strings.ReplaceAll("scan Pa-Pz; status Pd; resolve Pd at 0", "P", prefix))

	if _, err := c.HoldGC(t.Context(), "sluice", time.Hour, 100); err != nil || !slices.Equal(p.scopes, []uint32{5}) {
		t.Errorf("%v; asked about keyspaces %v", err, p.scopes)
	}
	// A key of somebody else's breaks a belief.
	f.rows(q, committed("x\x00\x00\x06b", "1", 21, 22))
	if err := w.end(); !cdcerr.Unexpected.Is(err) {
		t.Errorf("ended with %v", err)
	}
}
