package coordinator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// pd is what others do to the upstream's garbage collection.
type pd struct {
	pdpb.PDClient
	s      *site
	header *pdpb.RequestHeader
}

func (s *site) pd() *pd {
	s.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(s.cluster.PD()[0], "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(s.T, err)
	s.Cleanup(func() { must(s.T, conn.Close()) })
	return &pd{PDClient: pdpb.NewPDClient(conn), s: s, header: &pdpb.RequestHeader{ClusterId: s.cluster.ClusterID()}}
}

// held is what the changefeeds hold, 0 for nothing.
func (p *pd) held() tso.TS {
	p.s.Helper()
	state, err := p.GetGCState(p.s.Context(), &pdpb.GetGCStateRequest{Header: p.header})
	must(p.s.T, err)
	for _, b := range state.GcState.GcBarriers {
		if b.BarrierId == "sluice-test" {
			return tso.TS(b.BarrierTs)
		}
	}
	return 0
}

// collect moves GC as far as it may, and says how far that is.
func (p *pd) collect(to tso.TS) tso.TS {
	p.s.Helper()
	res, err := p.AdvanceTxnSafePoint(p.s.Context(), &pdpb.AdvanceTxnSafePointRequest{Header: p.header, Target: uint64(to)})
	must(p.s.T, err)
	return tso.TS(res.NewTxnSafePoint)
}

var other = api.FeedID{Keyspace: "default", Name: "aa"} // comes first

// runs waits until the other changefeed has gone on.
func (s *site) runs(n *node) {
	s.Helper()
	now := s.cluster.TS()
	s.until("the other one goes on", func() bool {
		f, err := n.Get(s.Context(), other)
		return err == nil && f.Checkpoint >= now
	})
}

// What one changefeed holds stays held while others run, through a change of
// owners; one that GC was faster than fails alone; and what an owner has left that
// nobody needs is released.
func TestHold(t *testing.T) {
	s := newSite(t)
	p, ctx := s.pd(), t.Context()
	_, err := p.SetGCBarrier(ctx, &pdpb.SetGCBarrierRequest{Header: p.header, BarrierId: "sluice-test", BarrierTs: uint64(s.cluster.TS()), TtlSeconds: 3600})
	must(t, err)
	n := s.node()
	s.until("what is left is released", func() bool { return p.held() == 0 })
	for _, id := range []api.FeedID{feed, other} {
		_, err = n.Create(ctx, api.Creation{ID: id, SinkURI: "blackhole://"})
		must(t, err)
	}
	s.runs(n)
	must(t, n.Pause(ctx, feed))
	low := s.get(n).Checkpoint.Prev()
	s.runs(n)
	n.end(s)
	n = s.node()
	s.runs(n)
	if got := p.collect(s.cluster.TS()); got > low || p.held() != low {
		t.Errorf("GC is at %d, the hold at %d; %d is needed", got, p.held(), low)
	}
	n.end(s)
	_, err = p.DeleteGCBarrier(ctx, &pdpb.DeleteGCBarrierRequest{Header: p.header, BarrierId: "sluice-test"})
	must(t, err)
	gone := low + 3
	p.collect(gone)
	n = s.node()
	s.until("it is lost", func() bool { return s.get(n).State == "failed" })
	if f := s.get(n); f.Error == nil || f.Error.Code != cdcerr.SnapshotLostByGC.ID || !strings.Contains(f.Error.Message, fmt.Sprintf("GC safepoint %d", gone)) {
		t.Errorf("%+v", f)
	}
	s.runs(n)
	if f, err := n.Get(ctx, other); err != nil || f.State != "normal" || f.Error != nil {
		t.Errorf("%+v, %v", f, err)
	}
	if held := p.held(); held <= low {
		t.Errorf("held: %d", held)
	}
	_, err = n.Create(ctx, api.Creation{ID: api.FeedID{Keyspace: "default", Name: "third"}, SinkURI: "blackhole://"})
	must(t, err)
}

// What etcd cannot keep is refused, or fails the changefeed that it is about; the
// others run, under the same owner.
func TestWhatCannotBeKept(t *testing.T) {
	s := newSite(t)
	n, ctx := s.node(), t.Context()
	for _, id := range []api.FeedID{feed, other} {
		_, err := n.Create(ctx, api.Creation{ID: id, SinkURI: "blackhole://"})
		must(t, err)
	}
	s.runs(n)
	must(t, n.Pause(ctx, feed))
	rules, err := json.Marshal([]string{"bank." + strings.Repeat("a", meta.ValueMax)})
	must(t, err)
	large := json.RawMessage(`{"filter":{"rules":` + string(rules) + `}}`)
	if _, err := n.Update(ctx, feed, api.Change{Config: large}); !cdcerr.InvalidArgument.Is(err) {
		t.Errorf("too large: %v", err)
	}
	if f := s.get(n); f.State != "stopped" || f.Error != nil || len(f.Config) > 1<<16 {
		t.Errorf("after it was refused: %s, %+v, %d bytes", f.State, f.Error, len(f.Config))
	}
	// Somebody writes past the owner what must never be taken back.
	kept, err := n.store.Changefeed(ctx, meta.ChangefeedID{Namespace: feed.Keyspace, Name: feed.Name})
	must(t, err)
	st := kept.Status
	st.CheckpointTS += tso.New(3_600_000, 0)
	st.ResolvedTS = st.CheckpointTS
	_, err = n.store.PutStatus(ctx, meta.Fence{}, kept, st)
	must(t, err)
	if err := n.Resume(ctx, feed, 0); !cdcerr.MetaConflict.Is(err) {
		t.Errorf("resumed: %v", err)
	}
	s.until("it fails", func() bool { return s.get(n).State == "failed" })
	if f := s.get(n); f.Error == nil || f.Error.Code != cdcerr.Unexpected.ID {
		t.Errorf("%+v", f)
	}
	s.runs(n)
	if all, err := n.List(ctx); err != nil || len(all) != 2 || !n.Self().Owner {
		t.Errorf("%v, %v", all, err)
	}
	must(t, n.Remove(ctx, feed))
	if _, err := n.Get(ctx, feed); !cdcerr.ChangefeedNotFound.Is(err) {
		t.Errorf("removed: %v", err)
	}
}
