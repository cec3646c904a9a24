package servers_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/chaos/servers"
)

// What the end of the only server costs, by the real command with metadata in the
// process: killed with -9 it leads again at once, without its earlier life's session
// running out first, which is five seconds here; told to end it is gone before
// anybody who supervises it grows impatient. The bounds are what nobody may be
// above; the figures are in the log.
func TestEndOfAServer(t *testing.T) {
	cfg := config(t)
	cfg.Servers, cfg.Origin.DDLEvery = 1, 0
	s, err := servers.Open(t.Context(), cfg)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	moves := func(after servers.Feed) servers.Feed {
		t.Helper()
		for ctx, end := t.Context(), time.Now().Add(cfg.Patience); ; {
			if f, err := s.Feed(ctx); err == nil && f.Checkpoint > after.Checkpoint && f.State == "normal" {
				return f
			}
			if time.Now().After(end) {
				t.Fatalf("the checkpoint stands at %v", after)
			}
			breathe(ctx)
		}
	}
	last := moves(moves(servers.Feed{}))
	for _, how := range []struct {
		sent syscall.Signal
		most time.Duration // until it has ended
	}{{syscall.SIGKILL, 2 * time.Second}, {syscall.SIGTERM, 2 * time.Second}, {syscall.SIGKILL, 2 * time.Second}} {
		begun := time.Now()
		must(t, s.Nodes[0].Send(t.Context(), how.sent))
		ended := time.Since(begun)
		last = moves(last)
		again := time.Since(begun)
		t.Logf("%v: ended after %v, the checkpoint moves after %v", how.sent, ended.Round(time.Millisecond), again.Round(time.Millisecond))
		if ended > how.most && !testing.Short() {
			t.Errorf("%v: ended after %v, at most %v", how.sent, ended, how.most)
		}
	}
	if fell := s.Nodes[0].Fell(); len(fell) != 0 {
		t.Error(fell)
	}
}

// breathe waits a moment between two questions.
func breathe(ctx context.Context) {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
