package servers_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/chaos/servers"
)

// The only server, by the real command with metadata in the process: killed with -9 it
// leads again without its earlier life's session running out first, told to end it
// ends by itself, and each time the checkpoint goes on. How long that took is in the
// log: it is the machine's, too.
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
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		begun := time.Now()
		must(t, s.Nodes[0].Send(t.Context(), signal))
		ended := time.Since(begun)
		last = moves(last)
		again := time.Since(begun)
		t.Logf("%v: ended after %v, the checkpoint moves after %v", signal, ended.Round(time.Millisecond), again.Round(time.Millisecond))
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
