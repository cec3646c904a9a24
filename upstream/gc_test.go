package upstream

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tikv/pd/client/constants"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// TestHoldGC sets and compares by barriers and, with an older PD, by service
// safepoints.
func TestHoldGC(t *testing.T) {
	for name, old := range map[string]bool{"barrier": false, "service safepoint": true} {
		t.Run(name, func(t *testing.T) {
			p := startPuppet(t, nil)
			p.mu.Lock()
			p.oldPD = old
			p.mu.Unlock()
			c := open(t, p.config())
			hold := func(ts tso.TS, want tso.Move) {
				t.Helper()
				got, err := c.HoldGC(t.Context(), "sluice-test", time.Hour, ts)
				if err != nil || got != want {
					t.Errorf("got %v, %v; want %v", got, err, want)
				}
				if held := p.held(); held["sluice-test"] != uint64(ts) {
					t.Errorf("services %v", held)
				}
			}
			hold(100, tso.Move{Stage: tso.StageGC, To: 100, Cause: causeHeld})
			hold(120, tso.Move{Stage: tso.StageGC, From: 100, To: 120, Cause: causeHeld})
			hold(120, tso.Move{Stage: tso.StageGC, From: 120, To: 120, Cause: causeHeld})
			// The collection went on between somebody's check and our set.
			p.mu.Lock()
			p.safepoint = uint64(tso.New(1_700_000_000_000, 0))
			p.mu.Unlock()
			if _, err := c.HoldGC(t.Context(), "sluice-test", time.Hour, 200); !cdcerr.SnapshotLostByGC.Is(err) {
				t.Errorf("got %v", err)
			}
			if m, err := c.ReleaseGC(t.Context(), "sluice-test"); err != nil || m.From != 120 || m.To != 0 {
				t.Fatalf("got %v, %v", m, err)
			}
			if held := p.held(); len(held) != 0 {
				t.Errorf("services %v", held)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			asked := len(p.scopes)
			if !slices.Equal(slices.Compact(p.scopes), []uint32{constants.NullKeyspaceID}) || old && asked != 1 {
				t.Errorf("asked about keyspaces %v", p.scopes)
			}
		})
	}
}

// TestKeepGC renews a hold, at once when told to, rides PD's absence out and tells
// every move.
func TestKeepGC(t *testing.T) {
	p := startPuppet(t, nil)
	c := open(t, p.config())
	at, moves := make(chan tso.TS, 1), make(chan tso.Move, 10)
	at <- 100
	now := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	k := DefaultGCKeeper()
	k.Service, k.Now = "sluice-test", now
	k.At = func() tso.TS { ts := <-at; at <- ts; return ts }
	k.Moved = func(m tso.Move) { moves <- m }
	go func() { done <- c.KeepGC(ctx, k) }()
	want := func(from, to tso.TS) {
		t.Helper()
		select {
		case m := <-moves:
			if m.From != from || m.To != to || m.Stage != tso.StageGC {
				t.Errorf("moved %v", m)
			}
		case <-time.After(patience):
			t.Fatal("the hold does not move")
		}
	}
	want(0, 100)
	<-at
	at <- 130
	now <- struct{}{}
	want(100, 130)
	now <- struct{}{} // nothing has moved
	p.mu.Lock()
	p.noGC = true
	p.mu.Unlock()
	<-at
	at <- 150
	now <- struct{}{}
	p.mu.Lock()
	p.noGC = false
	p.mu.Unlock()
	now <- struct{}{}
	want(130, 150)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	// A renewal may still be under way at PD: it was asked for twice.
	if held := p.held(); held["sluice-test"] != 150 {
		t.Errorf("services %v", held)
	}
}

// TestKeepGCEnds: the collection was faster; or PD is away for as long as a hold lives.
func TestKeepGCEnds(t *testing.T) {
	p := startPuppet(t, nil)
	c := open(t, p.config())
	k := DefaultGCKeeper()
	k.Service, k.At = "sluice-test", func() tso.TS { return 100 }
	p.mu.Lock()
	p.safepoint = 101
	p.mu.Unlock()
	if err := c.KeepGC(t.Context(), k); !cdcerr.SnapshotLostByGC.Is(err) {
		t.Errorf("ended with %v", err)
	}
	p.mu.Lock()
	p.noGC = true
	p.mu.Unlock()
	k.TTL, k.Every = time.Second, 10*time.Millisecond
	if err := c.KeepGC(t.Context(), k); !cdcerr.GCHold.Is(err) {
		t.Errorf("ended with %v", err)
	}
	for name, change := range map[string]func(*GCKeeper){
		"Service": func(k *GCKeeper) { k.Service = "gc_worker" },
		"TTL":     func(k *GCKeeper) { k.TTL = time.Millisecond },
		"Every":   func(k *GCKeeper) { k.Every = k.TTL },
		"At":      func(k *GCKeeper) { k.At = nil },
	} {
		bad := k
		change(&bad)
		if err := c.KeepGC(t.Context(), bad); !cdcerr.InvalidArgument.Is(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
