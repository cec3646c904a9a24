package fake

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// How often a hazard strikes, one in so many.
const (
	repeatOdds  = 12 // after a change, an open lock is written again
	unknownOdds = 40 // after a change, a lock-only commit shows as an empty row
	meetOdds    = 2  // a registration waits for a lock in its range
	lateOdds    = 3  // a scan starts late
	slowOdds    = 4  // a scan rests between two chunks
	restMax     = 5 * time.Millisecond
	restStep    = 200 * time.Microsecond
	// scanChunkHazard is the size of a scan's chunks then: small, so that live
	// rows come between them.
	scanChunkHazard = 1 << 10
)

// recentLocks is how many prewrites are remembered for repeating.
const recentLocks = 64

// hazards does what TiKV may do to a subscriber but seldom does. The live ones
// run under Cluster.mu; rest is called by scans.
type hazards struct {
	mu     sync.Mutex // guards rng: scans draw from it too
	rng    *rand.Rand // nil = calm
	recent [recentLocks]struct {
		key   []byte
		start tso.TS
	}
	next int
}

func (h *hazards) one(in int) bool {
	if h.rng == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rng.IntN(in) == 0
}

// before may repeat the PREWRITE of a lock that is still held, as heartbeats
// and pushes of min-commit-ts do; a long value may be missing from it then. The
// lock that the change ends is gone from the store already, so that no PREWRITE
// can follow its COMMIT.
func (h *hazards) before(c *Cluster) {
	if !h.one(repeatOdds) {
		return
	}
	h.mu.Lock()
	lock := h.recent[h.rng.IntN(recentLocks)]
	bare := h.rng.IntN(2) == 0
	h.mu.Unlock()
	if lock.key == nil {
		return
	}
	again, ok := c.store.Repeat(lock.key, lock.start)
	if !ok {
		return
	}
	// Only a value that is too long for the lock itself is stored beside it.
	if bare && len(again.Value) > mvcc.ShortValue {
		again.Value = nil
	}
	if c.breaks.row(c, &again) > 0 {
		c.deliverLocked(&again)
	}
}

// after remembers prewrites, and may show the empty row that committing a
// lock-only key leaves.
func (h *hazards) after(c *Cluster, ch *mvcc.Change) {
	if h.rng == nil {
		return
	}
	if ch.Kind == mvcc.Prewrite {
		h.recent[h.next%recentLocks].key = ch.Key
		h.recent[h.next%recentLocks].start = ch.StartTS
		h.next++
	}
	if ch.Kind != mvcc.Nothing && !h.one(unknownOdds) {
		return
	}
	for _, sub := range c.byRegion[c.regionOfLocked(ch.Key).ID] {
		sub.conn.live(sub, &cdcpb.Event_Row{Type: cdcpb.Event_UNKNOWN})
	}
}

// meet lets a registration wait a little for a lock to appear in its range, so
// that it falls between the two phases of a transaction. Only a running replay
// makes locks.
func (h *hazards) meet(ctx context.Context, c *Cluster, region uint64) {
	if !c.replaying.Load() || !h.one(meetOdds) {
		return
	}
	h.until(ctx, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		r := c.regions.ByID(region)
		return r == nil || c.lockedLocked(r.RawStart, r.RawEnd)
	})
}

// snapshot takes the snapshot of a scan. If a lock is open in the range, then
// by the toss of a coin
//
//   - it is taken at once, and the scan rests until the lock is gone: the live
//     COMMIT comes before the PREWRITE of the scan;
//   - it is taken only when the lock is gone: the live COMMIT comes, and its
//     PREWRITE never does, because the scan has it as COMMITTED.
//
// ok is false when the subscription has ended.
func (h *hazards) snapshot(ctx context.Context, c *Cluster, sub *subscription) (snapshot mvcc.Snapshot, ok bool) {
	h.rest(ctx, lateOdds)
	take := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		snapshot, ok = c.store.Snapshot(), !sub.dead
		return !ok || h.rng == nil || !c.lockedLocked(sub.start, sub.end)
	}
	if take() {
		return snapshot, ok
	}
	first, had := snapshot, ok
	h.until(ctx, take)
	if h.one(2) {
		return first, had && ok
	}
	return snapshot, ok
}

func (c *Cluster) lockedLocked(start, end []byte) bool {
	_, locked := c.store.MinLock(start, end)
	return locked
}

// rest lets a scan wait a little, one time in so many, while live rows pass.
func (h *hazards) rest(ctx context.Context, odds int) {
	if h.one(odds) {
		h.until(ctx, func() bool { return false })
	}
}

// until waits for done, but only for a short while.
func (h *hazards) until(ctx context.Context, done func() bool) {
	h.mu.Lock()
	pause := time.Duration(h.rng.Int64N(int64(restMax)))
	h.mu.Unlock()
	timeout := time.NewTimer(pause)
	defer timeout.Stop()
	again := time.NewTicker(restStep)
	defer again.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-timeout.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// chunk is how much of a scan is told at once.
func (h *hazards) chunk() int64 {
	if h.rng == nil {
		return eventBytes
	}
	return scanChunkHazard
}
