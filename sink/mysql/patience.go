package mysql

import (
	"context"
	"errors"
	"time"
)

// tries is how often a statement that met somebody else's lock is attempted.
// What does not pass by then is for the changefeed's own backoff.
const tries = 8

// The pauses between attempts: short at first, since most of what fails is a
// connection that idled away or a lost deadlock, and never so long that a
// downstream that is back waits for us.
const (
	pauseMin = 100 * time.Millisecond
	pauseMax = 5 * time.Second
)

// patience is how long one piece of work waits for a downstream that went away.
// It counts from the first failure on, so that a statement that took long before
// it failed is tried again at least once.
type patience struct {
	budget time.Duration
	began  time.Time // zero: nothing has failed yet
	pause  time.Duration
	lost   int // failures that are an absence
	tries  int // failures that are no absence
	// warn is told of what is being ridden out, before the pause. May be nil.
	warn func(error)
}

// warnAfter is from how many failures on over others' locks on somebody should know.
const warnAfter = 3

// again tells whether an error is worth another attempt, and pauses before it.
func (p *patience) again(ctx context.Context, err error) bool {
	if p.began.IsZero() {
		p.began, p.pause = time.Now(), pauseMin
	}
	kind := faultOf(err)
	switch kind {
	case gone:
		left := p.budget - time.Since(p.began)
		if left <= 0 {
			return false
		}
		// A connection that idled away, a clean restart: the first retry does it. Who
		// does not answer has been waited for long enough.
		if p.lost++; p.lost > 1 || errors.As(err, new(silence)) {
			p.tell(err)
		}
		return p.wait(ctx, min(p.pause, left))
	case contention:
		if p.tries++; p.tries >= tries {
			return false
		}
		if p.tries >= warnAfter || p.lost > 0 { // what was lost may be what holds the lock
			p.tell(err)
		}
		return p.wait(ctx, p.pause)
	}
	return false
}

func (p *patience) tell(err error) {
	if p.warn != nil {
		p.warn(coded(err, "tried again"))
	}
}

// wait pauses, and is false if ctx ends before.
func (p *patience) wait(ctx context.Context, d time.Duration) bool {
	p.pause = min(2*p.pause, pauseMax)
	return pause(ctx, d) == nil
}

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
