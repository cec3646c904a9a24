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
	lateOdds    = 3  // a scan starts late
	slowOdds    = 4  // a scan rests between two chunks
	restMax     = 5 * time.Millisecond
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
	c.deliverLocked(&again)
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

// rest lets a scan wait a little, one time in so many, while live rows pass.
func (h *hazards) rest(ctx context.Context, odds int) {
	if !h.one(odds) {
		return
	}
	h.mu.Lock()
	pause := time.Duration(h.rng.Int64N(int64(restMax)))
	h.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// chunk is how much of a scan is told at once.
func (h *hazards) chunk() int64 {
	if h.rng == nil {
		return eventBytes
	}
	return scanChunkHazard
}
