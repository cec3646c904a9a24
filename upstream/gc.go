package upstream

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/tikv/pd/client/clients/gc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// gcTries is how often a hold is written before giving up: with pauses that double
// from a quarter of a second, about a minute.
const gcTries = 9

// The causes of a hold's moves.
const (
	causeHeld     = "PD keeps everything from here on"
	causeReleased = "nothing is kept any more"
)

// holds are what this client keeps from being collected, by service.
type holds struct {
	mu  sync.Mutex
	by  map[string]tso.TS // guarded by mu
	old bool              // guarded by mu: PD knows service safepoints only
}

// HoldGC keeps the upstream's garbage collection from taking anything at or
// above ts, in the name of service, for ttl; it must be renewed before.
//
// It sets first and compares afterwards: only then can the collection no longer
// have been faster (P7). If it was the error is SnapshotLostByGC, and nothing is
// held. PD is told by a GC barrier, an older one by a service safepoint; both
// are the same to a PD that knows both.
func (c *Client) HoldGC(ctx context.Context, service string, ttl time.Duration, ts tso.TS) (tso.Move, error) {
	err := c.gcRetry(ctx, func() error { return c.setHold(ctx, service, ttl, ts) })
	if err != nil {
		return tso.Move{}, err
	}
	return c.holds.move(service, ts, causeHeld), nil
}

// ReleaseGC takes a service's hold back.
func (c *Client) ReleaseGC(ctx context.Context, service string) (tso.Move, error) {
	if err := c.gcRetry(ctx, func() error { return c.dropHold(ctx, service) }); err != nil {
		return tso.Move{}, err
	}
	return c.holds.move(service, 0, causeReleased), nil
}

// GCKeeper says what KeepGC holds.
type GCKeeper struct {
	Service string
	TTL     time.Duration // how long the hold outlives the last renewal
	Every   time.Duration // between renewals
	// At is what to hold: nothing at or above it is collected.
	At func() tso.TS
	// Now, where not nil, asks for a renewal at once.
	Now <-chan struct{}
	// Moved, where not nil, is told every move of the hold.
	Moved func(tso.Move)
}

// DefaultGCKeeper is a GCKeeper that lacks its service and its At.
func DefaultGCKeeper() GCKeeper {
	// A day is time enough to repair what keeps a changefeed from running.
	return GCKeeper{TTL: 24 * time.Hour, Every: time.Minute}
}

// Validate names the first field that cannot be used.
func (k *GCKeeper) Validate() error {
	switch {
	case k.Service == "" || k.Service == "gc_worker":
		return cdcerr.InvalidArgument.New("Service %q: want a name of one's own", k.Service)
	case k.TTL < time.Second:
		return cdcerr.InvalidArgument.New("TTL %v: PD counts in seconds", k.TTL)
	case k.Every <= 0 || k.Every >= k.TTL:
		return cdcerr.InvalidArgument.New("Every %v: must be positive and below TTL %v", k.Every, k.TTL)
	case k.At == nil:
		return cdcerr.InvalidArgument.New("At: nothing says what to hold")
	}
	return nil
}

// KeepGC renews a hold until ctx ends; it leaves the hold in place, for whoever
// goes on. That PD cannot be reached is ridden out as long as the last renewal
// lives; then the hold is lost and the error GCHold. That the collection was
// faster is SnapshotLostByGC.
func (c *Client) KeepGC(ctx context.Context, k GCKeeper) error {
	if err := k.Validate(); err != nil {
		return err
	}
	renewed := time.Now()
	for {
		begun, ts := time.Now(), k.At()
		next := k.Every
		switch err := c.setHold(ctx, k.Service, k.TTL, ts); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			renewed = begun
			if m := c.holds.move(k.Service, ts, causeHeld); m.From != m.To && k.Moved != nil {
				k.Moved(m)
			}
		case cdcerr.Fate(err) >= cdcerr.Terminal:
			return err
		case time.Since(renewed) >= k.TTL:
			return cdcerr.GCHold.New("%s could not be renewed for %v, which is as long as it lives: %v", k.Service, time.Since(renewed).Round(time.Second), err)
		default:
			c.log.Info("the hold on GC cannot be renewed; trying again", "service", k.Service, "ts", ts, "error", err)
			next = min(k.Every, gcPauseMax, k.TTL/4)
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-k.Now:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// gcPauseMax bounds the pause after a renewal that failed.
const gcPauseMax = 10 * time.Second

// gcRetry tries until it works, or cannot work, or was tried often enough.
func (c *Client) gcRetry(ctx context.Context, do func() error) error {
	pause := 250 * time.Millisecond
	for try := 1; ; try++ {
		err := do()
		if err == nil || cdcerr.Fate(err) >= cdcerr.Terminal || try == gcTries || ctx.Err() != nil {
			return err
		}
		if wait(ctx, pause) != nil {
			return err
		}
		pause *= 2
	}
}

// setHold tries once to set a hold, and compares.
func (c *Client) setHold(ctx context.Context, service string, ttl time.Duration, ts tso.TS) error {
	ttl = max(ttl, time.Second)
	if states := c.gcStates(); states != nil {
		_, err := states.SetGCBarrier(ctx, service, uint64(ts), ttl)
		switch {
		case err == nil:
			return nil
		case status.Code(err) == codes.Unimplemented:
			c.holds.goOld()
		default:
			// Refused because it comes too late, or not answered at all: the state tells.
			if s, err := states.GetGCState(ctx); err == nil && tso.TS(s.TxnSafePoint) > ts {
				return lost(ts, tso.TS(s.TxnSafePoint))
			}
			return c.pdError(ctx, err, cdcerr.PDUnreachable, "the GC barrier of %s cannot be set", service)
		}
	}
	least, err := c.pd.UpdateServiceGCSafePoint(ctx, service, int64(ttl/time.Second), uint64(ts)) //nolint:staticcheck // all that the older PDs have
	switch {
	case err != nil:
		return c.pdError(ctx, err, cdcerr.PDUnreachable, "the GC safepoint of %s cannot be set", service)
	case tso.TS(least) > ts:
		return lost(ts, tso.TS(least))
	}
	return nil
}

func lost(ts, safepoint tso.TS) error {
	return cdcerr.SnapshotLostByGC.New("timestamp %d (%v) is below the GC safepoint %d (%v)",
		ts, ts.Time().Format(time.RFC3339), safepoint, safepoint.Time().Format(time.RFC3339))
}

func (c *Client) dropHold(ctx context.Context, service string) error {
	if states := c.gcStates(); states != nil {
		_, err := states.DeleteGCBarrier(ctx, service)
		switch {
		case err == nil:
			return nil
		case status.Code(err) == codes.Unimplemented:
			c.holds.goOld()
		default:
			return c.pdError(ctx, err, cdcerr.PDUnreachable, "the GC barrier of %s cannot be taken away", service)
		}
	}
	_, err := c.pd.UpdateServiceGCSafePoint(ctx, service, 0, math.MaxUint64) //nolint:staticcheck // all that the older PDs have
	return c.pdError(ctx, err, cdcerr.PDUnreachable, "the GC safepoint of %s cannot be taken away", service)
}

// gcStates is PD's newer interface to GC, nil where PD does not have it.
func (c *Client) gcStates() gc.GCStatesClient {
	c.holds.mu.Lock()
	defer c.holds.mu.Unlock()
	if c.holds.old {
		return nil
	}
	return c.pd.GetGCStatesClient(c.keyspace.gcScope())
}

// goOld notes that PD has the older interface only. One that is upgraded later
// takes it for the same.
func (h *holds) goOld() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.old = true
}

// move is a hold's step to ts; 0 is no hold.
func (h *holds) move(service string, ts tso.TS, cause string) tso.Move {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := tso.Move{Stage: tso.StageGC, From: h.by[service], To: ts, Cause: cause}
	if h.by == nil {
		h.by = map[string]tso.TS{}
	}
	if ts == 0 {
		delete(h.by, service)
	} else {
		h.by[service] = ts
	}
	return m
}
