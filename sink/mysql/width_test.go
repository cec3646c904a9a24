package mysql

import (
	"testing"
	"time"
)

// A database that works on so many transactions at once, of which each takes it
// that long, beside a wait that costs it nothing.
type database struct {
	cores      int
	work, wait time.Duration
	// jam is how much longer everything takes for each transaction more than
	// there are cores for, as a part of the work.
	jam float64
}

func (d database) takes(busy int) time.Duration {
	work := float64(d.work) * max(1, float64(busy)/float64(d.cores)) * (1 + d.jam*float64(max(0, busy-d.cores)))
	return max(d.work+d.wait, time.Duration(work))
}

func (w *width) run(d database, txns int) {
	for range txns {
		busy := w.lanes()
		w.done(1000, d.takes(busy), busy)
	}
}

// The width becomes what the database can use, from wherever it stood before.
func TestWidthFollowsTheDatabase(t *testing.T) {
	small := database{cores: 2, work: 3 * time.Millisecond, jam: 0.1}
	far := database{cores: 64, work: time.Millisecond, wait: 50 * time.Millisecond}
	slowDisk := database{cores: 2, work: time.Millisecond, wait: 9 * time.Millisecond}
	for _, c := range []struct {
		name     string
		of       int
		through  []database
		from, to float64
	}{
		{"two cores", 16, []database{small}, 2, 4},
		{"two cores that jam badly", 64, []database{{cores: 2, work: time.Millisecond, jam: 0.5}}, 2, 4},
		{"one core", 16, []database{{cores: 1, work: time.Millisecond, jam: 0.1}}, 2, 4},
		{"far away", 64, []database{far}, 64, 64},
		{"a slow disk", 64, []database{slowDisk}, 15, 30}, // twenty keep both cores busy
		{"one worker", 1, []database{small}, 1, 1},
		{"far, then two cores", 64, []database{far, small}, 2, 4},
		{"two cores, then far", 64, []database{small, far}, 64, 64},
	} {
		w := newWidth(c.of)
		for _, d := range c.through {
			w.run(d, 40_000)
		}
		if w.limit < c.from || w.limit > c.to {
			t.Errorf("%s: %.1f, want %v to %v", c.name, w.limit, c.from, c.to)
		}
	}
}

// Transactions of all sizes are held against those of their own size, and one
// that waited for long says little.
func TestWidthIsNotMisledBySizes(t *testing.T) {
	w := newWidth(16)
	for n := range 40_000 {
		busy := w.lanes()
		size := int64(1) << (n % 7)
		took := time.Duration(size) * time.Millisecond
		if n%100 == 0 {
			took = time.Minute
		}
		w.done(size, took, busy)
	}
	if w.limit < 14 {
		t.Errorf("%.1f of 16 lanes", w.limit)
	}
}

// What waits for somebody else's lock takes no place from others.
func TestStuckLanesDoNotCount(t *testing.T) {
	lanes := make([]*lane, 8)
	for i := range lanes {
		lanes[i] = new(lane)
	}
	g := newGraph(lanes, newWidth(len(lanes)), 1)
	g.width.probe = 0
	for _, l := range lanes[:4] {
		l.load, l.since = 1, time.Now().Add(-2*stuckAfter)
	}
	lanes[4].load = 1
	if l := g.freeLaneLocked(1); l == lanes[4] || l.load != 0 {
		t.Errorf("a lane with %d rows", l.load)
	}
}
