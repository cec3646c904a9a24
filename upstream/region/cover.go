package region

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/google/btree"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// phase is where a hold stands.
type phase uint8

const (
	vacant     phase = iota // no region; to be looked up when due
	asked                   // no region; being looked up
	waiting                 // locked by a region; to be requested when due
	subscribed              // locked by a region; requested
)

// never is the due time of a hold that waits for an event, not for the time.
const never time.Duration = -1

// hold is one piece of the span with everything that is known of it.
type hold struct {
	start, end span.Key
	ts         tso.TS // resolved-ts of all its keys
	phase      phase
	due        time.Duration // vacant, waiting: when; else never
	fails      int           // failures since the resolved-ts last moved
	refused    uint64        // the newest version that TiKV did not know any more
	moved      time.Duration // when the resolved-ts last moved, or the scan ended
	renewals   int           // registrations given up for their slowness since then
	scanned    bool          // some registration of all its keys was scanned to the end
	cuts       int           // registrations since the resolved-ts last moved that news of the region ended
	alone      bool          // to be registered by itself until its resolved-ts moves: see parts.go
	why        string        // why the next registration is made: the cause of its Move

	// Of the region that locks it.
	region Region
	part   bool   // it waits with other keys of the region for its turn: see parts.go
	from   tso.TS // checkpoint-ts of the request
	stream uint64 // 0 until the request is placed on one
	slot   uint8
	match  *matcher

	byTS, byDue int // indexes in the heaps; byDue is -1 outside
}

func (h *hold) locked() bool { return h.phase >= waiting }

func (h *hold) span(table span.TableID) span.Span {
	return span.Span{TableID: table, Start: h.start, End: h.end}
}

// cover holds every key of one span in exactly one hold (P2). It is the range
// lock: a region locks the keys that it will report, and only vacant ones.
type cover struct {
	whole span.Span
	holds *btree.BTreeG[*hold]
	byTS  tsHeap
	byDue dueHeap
}

func newCover(s span.Span, ts tso.TS) *cover {
	c := &cover{
		whole: s,
		holds: btree.NewG(16, func(a, b *hold) bool { return a.start < b.start }),
	}
	c.add(&hold{start: s.Start, end: s.End, ts: ts, due: 0, why: causeFirst})
	return c
}

// min is the resolved-ts of the whole span.
func (c *cover) min() tso.TS { return c.byTS[0].ts }

// slowest is a hold whose resolved-ts is min.
func (c *cover) slowest() *hold { return c.byTS[0] }

func (c *cover) add(h *hold) {
	h.byDue = -1
	c.holds.ReplaceOrInsert(h)
	heap.Push(&c.byTS, h)
	c.schedule(h, h.phase, h.due)
}

// remove takes a hold out and leaves it as it was.
func (c *cover) remove(h *hold) {
	if h.byDue >= 0 {
		heap.Remove(&c.byDue, h.byDue)
	}
	c.holds.Delete(h)
	heap.Remove(&c.byTS, h.byTS)
}

// shorten ends a hold at an earlier key. The keys behind are in no hold then.
func (c *cover) shorten(h *hold, end span.Key) { h.end = end }

// forward raises a hold's resolved-ts.
func (c *cover) forward(h *hold, ts tso.TS) {
	h.ts = ts
	heap.Fix(&c.byTS, h.byTS)
}

// schedule sets phase and due time together.
func (c *cover) schedule(h *hold, p phase, due time.Duration) {
	h.phase, h.due = p, due
	switch {
	case due == never && h.byDue >= 0:
		heap.Remove(&c.byDue, h.byDue)
	case due != never && h.byDue >= 0:
		heap.Fix(&c.byDue, h.byDue)
	case due != never:
		heap.Push(&c.byDue, h)
	}
}

// nextDue is the hold whose time comes first, nil where none waits for the time.
func (c *cover) nextDue() *hold {
	if len(c.byDue) == 0 {
		return nil
	}
	return c.byDue[0]
}

// lock gives the keys of r to a new hold, which starts from the least
// resolved-ts of the keys it takes over; some of them only where parts have to
// take turns. It refuses (nil) when some of them are locked: by the same region or
// one as new, then r is old news; by an older one, then that one's own end is still
// to come.
func (c *cover) lock(r Region) *hold {
	want, ok := c.whole.Intersect(r.Span)
	if !ok {
		return nil
	}
	over := c.overlapping(want)
	if slices.ContainsFunc(over, (*hold).locked) {
		return nil
	}
	next := &hold{start: want.Start, end: want.End, ts: tso.Max, phase: waiting, due: never, scanned: true, region: r}
	if turn := inTurn(over); turn != nil {
		want, _ = want.Intersect(turn.span(want.TableID))
		next.start, next.end, next.alone, next.part = want.Start, want.End, turn.alone, len(over) > 1
		over = []*hold{turn}
	}
	for _, h := range over {
		if h.ts < next.ts {
			next.ts, next.why = h.ts, h.why
		}
		next.fails = max(next.fails, h.fails)
		next.refused = max(next.refused, h.refused)
		next.renewals = max(next.renewals, h.renewals)
		next.cuts = max(next.cuts, h.cuts)
		next.scanned = next.scanned && h.scanned
	}
	for _, h := range over {
		c.remove(h)
		for _, rest := range h.span(0).Subtract(want) {
			c.add(h.piece(rest))
		}
	}
	c.add(next)
	return next
}

// piece is a vacant hold for a part of h's keys.
func (h *hold) piece(s span.Span) *hold {
	return &hold{start: s.Start, end: s.End, ts: h.ts, phase: h.phase, due: h.due, fails: h.fails, refused: h.refused,
		renewals: h.renewals, scanned: h.scanned, cuts: h.cuts, alone: h.alone, why: h.why}
}

// unlock makes a region's keys vacant. They keep the resolved-ts that they had.
func (c *cover) unlock(h *hold, due time.Duration) {
	h.region, h.stream, h.from = Region{}, 0, 0
	c.schedule(h, vacant, due)
}

// below calls fn with every hold whose resolved-ts is below ts, in no order that
// matters, until fn returns false.
func (c *cover) below(ts tso.TS, fn func(*hold) bool) {
	c.byTS.below(0, ts, fn)
}

// run is the longest span of vacant holds, not being looked up, around h.
func (c *cover) run(h *hold) []*hold {
	run := []*hold{h}
	c.holds.DescendLessOrEqual(h, func(o *hold) bool {
		if o == h {
			return true
		}
		if o.phase != vacant {
			return false
		}
		run = append(run, o)
		return true
	})
	for i, j := 0, len(run)-1; i < j; i, j = i+1, j-1 {
		run[i], run[j] = run[j], run[i]
	}
	c.holds.AscendGreaterOrEqual(h, func(o *hold) bool {
		if o == h {
			return true
		}
		if o.phase != vacant {
			return false
		}
		run = append(run, o)
		return true
	})
	return run
}

// overlapping are the holds that share keys with s, in order.
func (c *cover) overlapping(s span.Span) []*hold {
	var out []*hold
	from := &hold{start: s.Start}
	c.holds.DescendLessOrEqual(from, func(h *hold) bool {
		if h.end == "" || h.end > s.Start {
			out = append(out, h)
		}
		return false
	})
	c.holds.AscendGreaterOrEqual(from, func(h *hold) bool {
		if s.End != "" && h.start >= s.End {
			return false
		}
		if len(out) == 0 || out[0] != h {
			out = append(out, h)
		}
		return true
	})
	return out
}

// check verifies that every key is in exactly one hold (P2).
func (c *cover) check() error {
	want, first := c.whole.Start, true
	var err error
	c.holds.Ascend(func(h *hold) bool {
		if h.start != want || (!first && want == "") {
			err = fmt.Errorf("cover of %v: a hold starts at %X, the one before ends at %X", c.whole, string(h.start), string(want))
		}
		want, first = h.end, false
		return err == nil
	})
	if err == nil && want != c.whole.End {
		err = fmt.Errorf("cover of %v: the last hold ends at %X", c.whole, string(want))
	}
	return err
}

// tsHeap orders holds by resolved-ts, then by key so that equals have an order.
type tsHeap []*hold

func (h tsHeap) Len() int { return len(h) }
func (h tsHeap) Less(i, j int) bool {
	return h[i].ts < h[j].ts || (h[i].ts == h[j].ts && h[i].start < h[j].start)
}
func (h tsHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].byTS, h[j].byTS = i, j }
func (h *tsHeap) Push(x any)   { v := x.(*hold); v.byTS = len(*h); *h = append(*h, v) }
func (h *tsHeap) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return v
}

// below walks the part of the heap under i that is below ts.
func (h tsHeap) below(i int, ts tso.TS, fn func(*hold) bool) bool {
	if i >= len(h) || h[i].ts >= ts {
		return true
	}
	return fn(h[i]) && h.below(2*i+1, ts, fn) && h.below(2*i+2, ts, fn)
}

// dueHeap orders holds by due time, then by key.
type dueHeap []*hold

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].due < h[j].due || (h[i].due == h[j].due && h[i].start < h[j].start)
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].byDue, h[j].byDue = i, j }
func (h *dueHeap) Push(x any)   { v := x.(*hold); v.byDue = len(*h); *h = append(*h, v) }
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	(*h)[last] = nil
	v.byDue = -1
	*h = (*h)[:last]
	return v
}
