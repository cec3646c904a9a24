package coordinator_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/api"
)

// What an earlier run has written is not known to the next one, also under the next
// owner: it counts as written at the checkpoint from which the run begins, so that
// nobody is told that all is quiet who has not been quiet for long enough.
func TestSyncedFromTheBeginOfARun(t *testing.T) {
	s := newSite(t)
	n, ctx := s.node(), t.Context()
	begun := s.cluster.TS()
	_, err := n.Create(ctx, api.Creation{ID: feed, SinkURI: "blackhole://"})
	must(t, err)
	if f := s.get(n); f.SyncedAt.Before(begun.Time()) {
		t.Errorf("created: %v", f.SyncedAt)
	}
	must(t, s.bank.Prepare(ctx))
	s.caught(n)
	if f := s.get(n); !f.SyncedAt.After(begun.Time()) {
		t.Errorf("rows were written, and it is synced at %v", f.SyncedAt)
	}
	must(t, n.Pause(ctx, feed))
	s.until("its run has ended", func() bool { return len(s.get(n).Tasks) == 0 })
	stopped := s.get(n)
	if !stopped.SyncedAt.Equal(stopped.Checkpoint.Time()) {
		t.Errorf("stopped: %v, checkpoint %v", stopped.SyncedAt, stopped.Checkpoint.Time())
	}
	must(t, n.Resume(ctx, feed, 0))
	s.caught(n)
	if f := s.get(n); !f.SyncedAt.Equal(stopped.Checkpoint.Time()) {
		t.Errorf("resumed: %v, began from %v", f.SyncedAt, stopped.Checkpoint.Time())
	}
	last := s.get(n).Checkpoint
	n.end(s)
	n = s.node()
	s.caught(n)
	if f := s.get(n); f.SyncedAt.Before(last.Time()) {
		t.Errorf("under the next owner: %v, its run began at or above %v", f.SyncedAt, last.Time())
	}
}
