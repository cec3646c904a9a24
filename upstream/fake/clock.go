package fake

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/tso"
)

// reserve is how far below its limit a replay's clock stays where it can, so
// that timestamps can still be handed out while the replay stands: two
// milliseconds hold half a million of them.
const reserve = tso.TS(2 << 18)

// patience is how long a ts may be waited for while a replay stands below a
// commit to come. Then it is handed out from above that commit: a client that
// only wants to know the time must not hang. It is no promise: who reads there
// reads before the recorded past is complete.
const patience = time.Second

// clock is the cluster's timestamp oracle. Every ts at or below Now is settled:
// whoever commits later commits above it.
//
// It follows the wall from a base, at a speed, or stands where it was set. While
// a recording is replayed it has a limit: the commit-ts that is still to come
// and that no promise may reach.
type clock struct {
	mu    sync.Mutex
	last  tso.TS // the newest ts promised
	taken tso.TS // the newest ts handed out
	base  tso.TS // where the wall is counted from
	since time.Time
	speed float64 // recorded milliseconds per wall millisecond; 0 = stands
	limit tso.TS  // nothing above it leaves the clock
	moved chan struct{}
}

func newClock(start tso.TS) *clock {
	return &clock{last: start, base: start, limit: tso.Max, moved: make(chan struct{})}
}

// Now is the newest settled ts.
func (c *clock) Now() tso.TS {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowLocked()
}

// Wall is where the clock would be without its limit.
func (c *clock) Wall() tso.TS {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wallLocked()
}

// Take hands out n timestamps that nobody had before, the last of which it
// returns. It waits a little where a recorded commit would be overtaken.
func (c *clock) Take(ctx context.Context, n uint32) (tso.TS, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for late := false; ; {
		ts, moved := c.take(n, late)
		if moved == nil {
			return ts, nil
		}
		select {
		case <-moved:
		case <-deadline.C:
			late = true
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// take tries once; with late it does not mind the limit.
func (c *clock) take(n uint32, late bool) (tso.TS, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ts := max(c.nowLocked(), c.taken) + tso.TS(n)
	// The n timestamps share one physical part: a client counts back from the last.
	if int64(n) > ts.Logical() {
		ts = tso.New(ts.Physical(), int64(n))
	}
	if ts > c.limit && !late {
		return 0, c.moved
	}
	c.taken = ts
	return ts, nil
}

// Reach moves a standing clock to ts, but not up to the limit.
func (c *clock) Reach(ts tso.TS) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = max(c.base, ts)
	c.wakeLocked()
}

// Limit says that the least commit-ts still to come is next.
func (c *clock) Limit(next tso.TS) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = next.Prev()
	c.wakeLocked()
}

// Free takes the limit away: no commit is to come that a promise could contradict.
func (c *clock) Free() { c.Limit(tso.Max) }

// Start lets the clock follow the wall from where it stands.
func (c *clock) Start(speed float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = max(c.wallLocked(), c.last, min(c.taken, c.limit))
	c.since, c.speed = time.Now(), speed
	c.wakeLocked()
}

func (c *clock) wakeLocked() {
	close(c.moved)
	c.moved = make(chan struct{})
}

func (c *clock) wallLocked() tso.TS {
	if c.speed == 0 {
		return c.base
	}
	elapsed := time.Since(c.since).Seconds() * c.speed
	return c.base + tso.TS(elapsed*1000*(1<<18))
}

func (c *clock) nowLocked() tso.TS {
	ts := c.wallLocked()
	if c.limit < reserve {
		return c.last
	}
	c.last = max(c.last, min(ts, c.limit-reserve))
	return c.last
}
