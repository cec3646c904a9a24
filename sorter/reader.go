package sorter

import (
	"container/heap"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Reader reads the rows of some inputs in one order. It is used by one
// goroutine, and by another one that calls Forget.
type Reader struct {
	sorter   *Sorter
	group    *Group
	advanced chan struct{} // one token: a reader that takes it looks at everything
	wake     func()        // nil: nobody's

	// Guarded by Sorter.mu.
	seats     map[*Input]*seat
	lowest    lowest           // the seats by resolved-ts
	holding   map[*Input]*seat // those that may have something to read
	readable  tso.TS
	forgotten tso.TS
	fetched   tso.TS // the greatest bound that was read to
	broken    *Input // one that was closed under the reader
	closed    bool
}

// seat is a reader's place at an input.
type seat struct {
	reader *Reader
	input  *Input
	from   tso.TS // rows at or below are not for this reader
	at     int    // index in Reader.lowest
}

// position is up to where the seat needs nothing any more.
func (t *seat) position() tso.TS { return max(t.reader.forgotten, t.from) }

// Attach gives the reader the input's rows with commit-ts > from. It refuses
// where the input has forgotten some of them, or is closed.
func (r *Reader) Attach(in *Input, from tso.TS) bool {
	s := r.sorter
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := r.seats[in]; there || in.gone || max(from, r.forgotten) < in.floor {
		return false
	}
	r.sitLocked(in, from)
	return true
}

func (r *Reader) sitLocked(in *Input, from tso.TS) {
	t := &seat{reader: r, input: in, from: from}
	r.seats[in] = t
	r.group.seats++
	in.seats = append(in.seats, t)
	heap.Push(&r.lowest, t)
	if r.hasMoreLocked(t) {
		r.holdLocked(t)
	}
	r.sorter.wakeLocked()
}

// Detach gives the input up.
func (r *Reader) Detach(in *Input) {
	s := r.sorter
	s.mu.Lock()
	r.riseLocked(func() { r.leaveLocked(in) })
	s.mu.Unlock()
	s.sweep()
}

func (r *Reader) leaveLocked(in *Input) {
	t := r.seats[in]
	if t == nil {
		return
	}
	delete(r.seats, in)
	r.group.seats--
	r.letGoLocked(in)
	heap.Remove(&r.lowest, t.at)
	in.seats = slices.DeleteFunc(in.seats, func(o *seat) bool { return o == t })
	in.trimLocked()
	r.sorter.wakeLocked()
}

// Swap puts the reader from one input of a span to another one of the same
// span, if everything that it still needs is there or will come there.
func (r *Reader) Swap(from, to *Input) bool {
	s := r.sorter
	s.mu.Lock()
	defer func() {
		s.mu.Unlock()
		s.sweep()
	}()
	t := r.seats[from]
	if _, there := r.seats[to]; there || t == nil || to.gone || to.floor > t.position() || to.resolved < r.fetched {
		return false
	}
	r.riseLocked(func() {
		r.leaveLocked(from)
		r.sitLocked(to, t.from)
	})
	return true
}

// Close gives all inputs up.
func (r *Reader) Close() {
	s := r.sorter
	s.mu.Lock()
	for in := range r.seats {
		r.leaveLocked(in)
	}
	r.group.leaveLocked(r)
	s.wakeLocked()
	s.mu.Unlock()
	s.sweep()
}

// Resolved is the least resolved-ts of all inputs, tso.Max without any. It falls
// when an input below it is attached, never otherwise.
func (r *Reader) Resolved() tso.TS {
	r.sorter.mu.Lock()
	defer r.sorter.mu.Unlock()
	return r.resolvedLocked()
}

func (r *Reader) resolvedLocked() tso.TS {
	if len(r.lowest) == 0 {
		return tso.Max
	}
	return r.lowest[0].input.resolved
}

// Advanced gets a token when Resolved has risen since the last one was taken.
func (r *Reader) Advanced() <-chan struct{} { return r.advanced }

// raisedLocked is told that the resolved-ts of the seat's input has risen.
func (r *Reader) raisedLocked(t *seat, from tso.TS) {
	lowest := t.at == 0 // else another one holds the least where it is
	heap.Fix(&r.lowest, t.at)
	if lowest && r.resolvedLocked() > from {
		r.tell()
	}
}

// riseLocked makes a change that may raise Resolved.
func (r *Reader) riseLocked(change func()) {
	before := r.resolvedLocked()
	change()
	if r.resolvedLocked() > before {
		r.tell()
	}
}

func (r *Reader) tell() {
	select {
	case r.advanced <- struct{}{}:
	default: // a token is there already
	}
	if r.wake != nil {
		r.wake()
	}
}

// Readable says that the reader will read and forget everything at or below
// upto that is resolved, without waiting for any further Add.
func (r *Reader) Readable(upto tso.TS) {
	r.sorter.mu.Lock()
	defer r.sorter.mu.Unlock()
	r.readable = upto
	r.sorter.wakeLocked()
}

// Look is Readable, and says up to where all inputs are resolved, and whether there
// may be a row above lower and at or below both.
func (r *Reader) Look(lower, upto tso.TS) (resolved tso.TS, rows bool) {
	r.sorter.mu.Lock()
	defer r.sorter.mu.Unlock()
	if upto != r.readable {
		r.readable = upto
		r.sorter.wakeLocked()
	}
	resolved = r.resolvedLocked()
	return resolved, r.mayHaveLocked(lower, min(upto, resolved))
}

// Forget gives up all rows at or below upto. What no other reader needs is freed.
func (r *Reader) Forget(upto tso.TS) {
	s := r.sorter
	s.mu.Lock()
	if upto <= r.forgotten {
		s.mu.Unlock()
		return
	}
	r.forgotten = upto
	for in, t := range r.holding {
		in.trimLocked()
		if !r.hasMoreLocked(t) {
			r.letGoLocked(in)
		}
	}
	s.wakeLocked()
	s.mu.Unlock()
	s.sweep()
}

// hasMoreLocked tells whether the input holds anything above the seat's position
// other than rows that are not closed yet.
func (r *Reader) hasMoreLocked(t *seat) bool {
	position := t.position()
	if t.input.closed.last() > position {
		return true
	}
	return slices.ContainsFunc(t.input.runs, func(u *run) bool { return u.most > position })
}

// mayHaveLocked tells whether there may be a row in (lower, upper].
func (r *Reader) mayHaveLocked(lower, upper tso.TS) bool {
	for in, t := range r.holding {
		above := max(lower, t.from)
		if in.closed.next(above) <= upper || slices.ContainsFunc(in.runs, func(u *run) bool { return u.least <= upper && u.most > above }) {
			return true
		}
	}
	return false
}

// canFreeLocked tells whether the reader can give anything up as things stand.
func (r *Reader) canFreeLocked() bool {
	bound := min(r.readable, r.resolvedLocked())
	for in, t := range r.holding {
		position := t.position()
		if in.closed.next(position) <= bound {
			return true
		}
		// Of a run only its ends are known to be rows.
		if slices.ContainsFunc(in.runs, func(u *run) bool {
			return u.least > position && u.least <= bound || u.most > position && u.most <= bound
		}) {
			return true
		}
	}
	return false
}

// Fetch reads the rows with lower < commit-ts <= upper. It gives the same rows
// however often it is asked. Reading below what was forgotten, or above the
// resolved-ts of an input, is a broken belief.
func (r *Reader) Fetch(lower, upper tso.TS) (*Iterator, error) {
	s := r.sorter
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.broken != nil:
		return nil, cdcerr.Bug("sorter: fetch of %v, which was closed", r.broken.span)
	case lower < r.forgotten || upper < lower:
		return nil, cdcerr.Bug("sorter: fetch of (%d, %d] when all up to %d is forgotten", lower, upper, r.forgotten)
	case upper > lower && upper > r.resolvedLocked():
		in := r.lowest[0].input
		return nil, cdcerr.Bug("sorter: fetch up to %d, but %v is resolved up to %d only", upper, in.span, in.resolved)
	}
	r.fetched = max(r.fetched, upper)
	var parts []cursor
	disks := 0
	for in, t := range r.holding { // in any order: the merge orders rows of different inputs
		above := max(lower, t.from)
		if above >= upper {
			continue
		}
		parts = in.closed.between(parts, above, upper)
		for _, u := range in.runs {
			if u.least <= upper && u.most > above {
				parts = append(parts, u.between(above, upper))
				disks++
			}
		}
	}
	return newIterator(s, parts, disks), nil
}

// lowest is a heap of seats by their inputs' resolved-ts.
type lowest []*seat

func (h lowest) Len() int           { return len(h) }
func (h lowest) Less(i, j int) bool { return h[i].input.resolved < h[j].input.resolved }
func (h lowest) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *lowest) Push(x any) {
	t := x.(*seat)
	t.at = len(*h)
	*h = append(*h, t)
}
func (h *lowest) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}
