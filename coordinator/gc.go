package coordinator

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// gcEvery is how often the hold on GC is renewed; PD is asked at once when a
// changefeed comes, goes or is resumed.
const gcEvery = time.Minute

// gcHold is what the owner keeps the upstream from collecting.
type gcHold struct {
	now  chan struct{} // one signal: more than one reason is still one
	mu   sync.Mutex
	held tso.TS // 0: nothing; guarded by mu
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
	renewed := r.cfg.Now()
	timer := time.NewTicker(gcEvery)
	defer timer.Stop()
	for {
		switch err := r.holdNow(ctx); {
		case err == nil:
			renewed = r.cfg.Now()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			r.cfg.Log.Warn("the hold on GC cannot be renewed; trying again", "for", r.cfg.Now().Sub(renewed), "error", err)
		}
		select {
		case <-timer.C:
		case <-r.gc.now:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// holdNow renews the hold, or releases it where nothing is to be held.
func (r *reign) holdNow(ctx context.Context) error {
	r.gc.mu.Lock()
	defer r.gc.mu.Unlock()
	low := tso.Max
	var lowest *feed
	for _, f := range r.all() {
		if at, ok := f.holds(); ok && at < low {
			low, lowest = at, f
		}
	}
	if lowest == nil {
		if r.gc.held == 0 {
			return nil
		}
		r.gc.held = 0
		_, err := r.cfg.Capture.Client.ReleaseGC(ctx, r.cfg.GCService)
		return err
	}
	_, err := r.cfg.Capture.Client.HoldGC(ctx, r.cfg.GCService, r.cfg.GCTTL, low)
	if cdcerr.SnapshotLostByGC.Is(err) {
		// It was faster than we: what the changefeed has still to read is gone. The
		// others are held the next time round.
		lowest.passed(low.Next())
		r.renewGC()
		return err
	}
	if err == nil {
		r.gc.held = low
	}
	return err
}
