package scheduler

import (
	"container/heap"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Watermark is how far a changefeed is: what is made durable, and resumed from. With a
// redo log both are at or below what the log's meta on the storage says.
type Watermark struct {
	Checkpoint tso.TS
	Resolved   tso.TS
}

// tally is a multiset of timestamps that knows its least: many spans share few values.
type tally struct {
	count map[tso.TS]int
	least order
}

func newTally() tally { return tally{count: map[tso.TS]int{}} }

func (t *tally) add(ts tso.TS) {
	t.count[ts]++
	if t.count[ts] == 1 {
		heap.Push(&t.least, ts)
	}
	if len(t.least) > 2*len(t.count)+slack {
		t.shrink()
	}
}

// slack is how many values that are gone a heap may hold beside as many as there are.
const slack = 1024

// shrink drops values that are gone and never came to the top. What is sorted is a heap.
func (t *tally) shrink() {
	slices.Sort(t.least)
	t.least = slices.DeleteFunc(slices.Compact(t.least), func(ts tso.TS) bool { return t.count[ts] == 0 })
}

func (t *tally) remove(ts tso.TS) {
	if t.count[ts]--; t.count[ts] == 0 {
		// Its place in the heap is found when it comes to the top; until then a value
		// that comes back is in the heap twice, which harms nobody.
		delete(t.count, ts)
	}
}

// min is the least, tso.Max of nothing.
func (t *tally) min() tso.TS {
	for len(t.least) > 0 {
		if t.count[t.least[0]] > 0 {
			return t.least[0]
		}
		heap.Pop(&t.least)
	}
	return tso.Max
}

// order is a heap of timestamps.
type order []tso.TS

func (h order) Len() int           { return len(h) }
func (h order) Less(i, j int) bool { return h[i] < h[j] }
func (h order) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *order) Push(x any)        { *h = append(*h, x.(tso.TS)) }
func (h *order) Pop() any {
	old := *h
	ts := old[len(old)-1]
	*h = old[:len(old)-1]
	return ts
}

// count puts a set into the watermark by its own checkpoint.
func (o *Owner) count(s *ReplicationSet) {
	s.counted, s.cover = true, loose
	o.loose.add(s.Checkpoint)
}

// uncount takes it out.
func (o *Owner) uncount(s *ReplicationSet) {
	if s.counted {
		o.uncover(s)
		o.loose.remove(s.Checkpoint)
		s.counted = false
	}
}

// raise takes note of a checkpoint. What was once downstream stays there: a lower one
// is only older news.
func (o *Owner) raise(s *ReplicationSet, checkpoint tso.TS) {
	if checkpoint <= s.Checkpoint {
		return
	}
	if s.counted && s.cover != covered {
		o.loose.remove(s.Checkpoint)
		o.loose.add(checkpoint)
	}
	s.Checkpoint = checkpoint
	if s.counted {
		o.barrierMoved = true
	}
}

// known is the checkpoint of a set, its primary's floor counted.
func (o *Owner) known(s *ReplicationSet) tso.TS {
	if s.cover == covered {
		return max(s.Checkpoint, s.primary.m.floor.Checkpoint)
	}
	return s.Checkpoint
}

// writes takes note that the primary writes. Its floor counts for the set from the
// next complete report on, which may be the one at hand: an older floor is one
// without this span.
func (o *Owner) writes(s *ReplicationSet, st *Status) {
	o.raise(s, st.Checkpoint)
	s.regions, s.traffic = st.Regions, st.Traffic
	o.weigh(s)
	if s.cover == loose && s.counted {
		s.cover = joining
		m := s.primary.m
		m.joining = append(m.joining, s)
	}
}

// complete takes a floor, and those that joined under it.
func (o *Owner) complete(m *member, floor Progress) {
	m.floor, m.tainted = floor, m.removing > 0
	for i, s := range m.joining {
		m.joining[i] = nil
		if s.primary.m == m && s.cover == joining {
			s.cover = covered
			m.covers++
			o.loose.remove(s.Checkpoint)
		}
	}
	m.joining = m.joining[:0]
}

// uncover lets a set stand by its own checkpoint again.
func (o *Owner) uncover(s *ReplicationSet) {
	if s.cover == covered {
		m := s.primary.m
		s.Checkpoint = o.known(s)
		m.covers--
		o.loose.add(s.Checkpoint)
	}
	s.cover = loose
}

// advance is how far everything is (P3): the least of what no floor covers and of the
// floors, and nothing at or above a DDL that is not done, a sync point that is not
// noted, or what the schema is not known up to.
func (o *Owner) advance() {
	if o.err != nil {
		return // nothing rests on what may not hold
	}
	at, resolved := o.least()
	if at < o.mark.Checkpoint && !o.rebuilding && !o.lettingGo() {
		o.err = cdcerr.Bug("the spans' least checkpoint went back from %d to %d", o.mark.Checkpoint, at)
		return
	}
	at, resolved = min(at, o.schema), min(resolved, o.schema)
	if o.cfg.Target != 0 {
		at, resolved = min(at, o.cfg.Target), min(resolved, o.cfg.Target)
	}
	if o.cfg.Gated {
		// What this owner knows to be in the log is the log's to make durable; it counts
		// once it is. The next owner begins with the log's meta, so nothing may be above.
		o.log.Resolved = max(o.log.Resolved, resolved)
		at, resolved = min(at, o.barrier.Gate), min(resolved, o.barrier.Gate)
	}
	if len(o.pending) > 0 {
		at = min(at, o.pending[0].TS.Prev())
	}
	for i := range o.later {
		at = min(at, o.later[i].TS) // what they add begins there once they are durably done
	}
	if at >= o.sync {
		at = o.sync.Prev()
		o.askSync()
		if o.syncAt == syncDone {
			at = o.sync
		}
	}
	o.move(at, max(at, resolved))
}

// least is the minimum over all spans. While nobody has told what it holds, nothing is
// known.
func (o *Owner) least() (at, resolved tso.TS) {
	if o.rebuilding {
		return 0, 0
	}
	at = o.loose.min()
	resolved = at
	for _, m := range o.members {
		if m.covers > 0 {
			at, resolved = min(at, m.floor.Checkpoint), min(resolved, m.floor.Resolved)
		}
	}
	for _, m := range o.lost {
		if m.covers > 0 {
			at, resolved = min(at, m.floor.Checkpoint), min(resolved, m.floor.Resolved)
		}
	}
	return at, resolved
}

// lettingGo tells whether a floor that is below the watermark may be that of a span
// that does not count any more: its table is dropped, its capture had not stopped yet.
func (o *Owner) lettingGo() bool {
	return o.loose.min() >= o.mark.Checkpoint && !slices.ContainsFunc(o.members, func(m *member) bool {
		return m.covers > 0 && m.floor.Checkpoint < o.mark.Checkpoint && !m.tainted
	})
}

func (o *Owner) move(at, resolved tso.TS) {
	if at > o.mark.Checkpoint {
		o.moves = append(o.moves, tso.Move{Stage: tso.StageCheckpoint, From: o.mark.Checkpoint, To: at, Cause: "every span is downstream up to here"})
		o.mark.Checkpoint = at
	}
	if resolved > o.mark.Resolved {
		o.moves = append(o.moves, tso.Move{Stage: tso.StageGlobal, From: o.mark.Resolved, To: resolved, Cause: "every span is resolved up to here"})
		o.mark.Resolved = resolved
	}
}
