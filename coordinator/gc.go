package coordinator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// gcEvery is how often the hold on GC is renewed; PD is asked at once when a
// changefeed comes, goes or is resumed. A request of the owner before, who was stopped in
// the midst of it, may come late and change the hold: until this one's next.
const gcEvery = 10 * time.Second

// gcAgain is after how long a hold that could not be renewed is tried again.
const gcAgain = 5 * time.Second

// gcHold is what the owner keeps the upstream from collecting.
type gcHold struct {
	now   chan struct{} // one signal: more than one reason is still one
	held  atomic.Uint64 // from where on; 0: nothing
	first chan struct{} // closed when what all changefeeds need is held for the first time
	mu    sync.Mutex
	free  bool // nothing is held, not by an owner before this one either; guarded by mu
	// passed is below what GC has taken, as far as is known; guarded by mu
	passed tso.TS
}

// renewGC has the hold looked at now.
func (r *reign) renewGC() {
	select {
	case r.gc.now <- struct{}{}:
	default:
	}
}

// holdGC keeps the upstream's garbage collection below what every changefeed that
// may be resumed has still to read (P7).
func (r *reign) holdGC(ctx context.Context) error {
	renewed, held := r.cfg.Now(), false
	timer := time.NewTimer(gcEvery)
	defer timer.Stop()
	for {
		next := gcEvery
		switch err := r.holdNow(ctx); {
		case err == nil:
			if renewed = r.cfg.Now(); !held {
				held = true
				close(r.gc.first)
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			next = gcAgain
			r.cfg.Log.Warn("the hold on GC cannot be renewed; trying again", "for", r.cfg.Now().Sub(renewed), "error", err)
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-r.gc.now:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// holdNow renews the hold, or releases it where nothing is to be held. A changefeed
// that GC was faster than fails by itself: what the others need is held all the
// same, and the error is of the hold alone.
func (r *reign) holdNow(ctx context.Context) error {
	r.gc.mu.Lock()
	defer r.gc.mu.Unlock()
	var passed tso.TS // GC has taken what lies below
	for {
		low, holders := r.lowest(passed)
		if len(holders) == 0 {
			return r.releaseNow(ctx)
		}
		r.gc.free = false
		leave, end, err := r.leave(ctx)
		if err != nil {
			return err
		}
		_, err = r.cfg.Capture.Client.HoldGC(leave, r.cfg.GCService, r.cfg.GCTTL, low)
		end()
		if err == nil {
			r.gc.held.Store(uint64(low))
		}
		if !cdcerr.SnapshotLostByGC.Is(err) {
			return err
		}
		passed = low.Next()
		r.gc.passed = max(r.gc.passed, passed)
		for _, f := range holders {
			f.passed(passed, cdcerr.Detail(err))
		}
	}
}

// holdFor is holdNow for who reads from at on; SnapshotLostByGC where that is gone.
func (r *reign) holdFor(ctx context.Context, at tso.TS) error {
	if err := r.holdNow(ctx); err != nil {
		return err
	}
	r.gc.mu.Lock()
	defer r.gc.mu.Unlock()
	if at < r.gc.passed {
		return cdcerr.SnapshotLostByGC.New("what is to be read from %d (%s) on lies below what GC has taken, %d", at, at.Time(), r.gc.passed)
	}
	return nil
}

// releaseNow takes the hold back, also one that an owner before has left. Its caller
// holds the lock.
func (r *reign) releaseNow(ctx context.Context) error {
	if r.gc.free {
		return nil
	}
	leave, end, err := r.leave(ctx)
	if err != nil {
		return err
	}
	defer end()
	_, err = r.cfg.Capture.Client.ReleaseGC(leave, r.cfg.GCService)
	if r.gc.free = err == nil; err == nil {
		r.gc.held.Store(0)
	}
	return err
}

// leave is for one request to PD, which compares nothing: after the session's end another
// owner may hold less, or what this one knows nothing of (P7).
func (r *reign) leave(ctx context.Context) (context.Context, context.CancelFunc, error) {
	left := r.cfg.Session.Left()
	if left <= 0 {
		return nil, nil, cdcerr.SessionLost.New("capture %s holds no GC any more: another owner does", r.cfg.Self.ID)
	}
	ctx, end := context.WithTimeout(ctx, left)
	return ctx, end, nil
}

// lowest is the least that a changefeed needs of what GC has not passed, and who
// needs it.
func (r *reign) lowest(passed tso.TS) (low tso.TS, holders []*feed) {
	for _, f := range r.all() {
		at, ok := f.holds(passed)
		switch {
		case !ok || len(holders) > 0 && at > low:
		case len(holders) > 0 && at == low:
			holders = append(holders, f)
		default:
			low, holders = at, []*feed{f}
		}
	}
	return low, holders
}
