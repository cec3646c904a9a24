package coordinator_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// P7 at every step of a life: PD holds below the checkpoint of a changefeed that may be
// resumed, whatever collects meanwhile, and nothing once nobody can be.
func TestHoldAtEveryStep(t *testing.T) {
	s := newSite(t)
	n, p, ctx := s.node(), s.pd(), t.Context()
	safe := func(step string) {
		t.Helper()
		f := s.get(n) // first: the checkpoint only moves on
		passed := p.collect(s.cluster.TS())
		if held := p.held(); held == 0 || held >= f.Checkpoint || passed > held {
			t.Errorf("%s: GC is at %d and held at %d, the checkpoint is %d", step, passed, held, f.Checkpoint)
		}
	}
	start := s.cluster.TS()
	_, err := n.Create(ctx, api.Creation{ID: feed, SinkURI: s.down.URI(), StartTS: start})
	must(t, err)
	safe("created")
	s.caught(n)
	safe("running")
	must(t, n.Pause(ctx, feed))
	safe("paused")
	s.until("its run has ended", func() bool { return len(s.get(n).Tasks) == 0 })
	stopped := s.get(n).Checkpoint
	must(t, n.Resume(ctx, feed, 0))
	safe("resumed")
	s.caught(n)
	must(t, s.down.Kill())
	must(t, s.bank.Prepare(ctx))
	s.until("its downstream is missed", func() bool { return s.get(n).State != "normal" })
	safe("in trouble")
	must(t, s.down.Restart())
	s.caught(n)
	n.end(s)
	held := p.held()
	if passed := p.collect(s.cluster.TS()); passed > held || held == 0 {
		t.Errorf("without an owner GC is at %d, held at %d", passed, held)
	}
	n = s.node()
	safe("under the next owner")
	s.caught(n)
	must(t, n.Pause(ctx, feed))
	safe("paused under it")
	// Further back than what is held is refused if it is gone, and held if not.
	at := p.held()
	if err := n.Resume(ctx, feed, at.Next()); err != nil {
		t.Errorf("resumed from what is held: %v", err)
	}
	safe("resumed from an earlier checkpoint")
	must(t, n.Pause(ctx, feed))
	s.until("its run has ended", func() bool { return len(s.get(n).Tasks) == 0 })
	if passed := p.collect(s.cluster.TS()); passed > stopped {
		if err := n.Resume(ctx, feed, stopped); !cdcerr.StartTSBeforeGC.Is(err) {
			t.Errorf("resumed from %d, GC is at %d: %v", stopped, passed, err)
		}
		safe("a resumption was refused")
	}
	must(t, n.Remove(ctx, feed))
	s.until("nothing is held", func() bool { return p.held() == 0 })
}
