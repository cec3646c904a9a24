package sorter

import "github.com/sluice-cdc/sluice/tso"

// Group is readers that one worker reads in turns, each at a place of its own. When
// there is no room they count as one: while one of them is at work the others are not
// kept waiting by the lack of it.
type Group struct {
	sorter *Sorter

	// Guarded by Sorter.mu.
	readers int // open ones
	seats   int // of all of them
	holding map[*Reader]struct{}
}

// NewGroup makes a group without readers.
func (s *Sorter) NewGroup() *Group {
	return &Group{sorter: s, holding: make(map[*Reader]struct{})}
}

// NewReader makes a reader without inputs, which is a group by itself.
func (s *Sorter) NewReader() *Reader { return s.NewGroup().NewReader(nil) }

// NewReader makes a reader without inputs. Whenever Advanced gets a token wake is
// called as well, unless it is nil; it is called in the midst of the sorter's work,
// and may neither wait nor call back.
func (g *Group) NewReader(wake func()) *Reader {
	s := g.sorter
	r := &Reader{
		sorter: s, group: g, advanced: make(chan struct{}, 1), wake: wake,
		seats: make(map[*Input]*seat), holding: make(map[*Input]*seat),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.readers++
	s.groups[g] = struct{}{}
	return r
}

// leaveLocked ends a reader that has given its inputs up.
func (g *Group) leaveLocked(r *Reader) {
	if r.closed {
		return
	}
	r.closed = true
	if g.readers--; g.readers == 0 {
		delete(g.sorter.groups, g)
	}
}

// holdLocked notes that there may be something to read at the seat.
func (r *Reader) holdLocked(t *seat) {
	r.holding[t.input] = t
	r.group.holding[r] = struct{}{}
}

// letGoLocked notes that there is not.
func (r *Reader) letGoLocked(in *Input) {
	delete(r.holding, in)
	if len(r.holding) == 0 {
		delete(r.group.holding, r)
	}
}

// canFreeLocked tells whether the group can give up enough to be waited for, and
// whether anything. Of a single reader anything is enough.
//
// Of several, one may be told not to read on for hours while its rows fill the memory,
// and the others would go on with what little is left: so it has to be as much as would
// be written to disk instead. What they read from disk frees no memory, and does not count.
func (g *Group) canFreeLocked() (enough, any bool) {
	if g.readers == 1 || g.sorter.disk == nil {
		for r := range g.holding {
			if r.canFreeLocked() {
				return true, true
			}
		}
		return false, false
	}
	least, sum := g.sorter.quota/epochs, int64(0)
	for r := range g.holding {
		any = any || r.canFreeLocked()
		if sum += r.freeableLocked(least - sum); sum >= least {
			return true, true
		}
	}
	return false, any
}

// freeableLocked is about how many bytes in memory the reader can give up, counted
// no further than enough.
func (r *Reader) freeableLocked(enough int64) (sum int64) {
	bound := min(r.readable, r.resolvedLocked())
	for in, t := range r.holding {
		sum += in.closed.bytes(max(r.forgotten, t.from), bound, enough-sum)
		if sum >= enough {
			break
		}
	}
	return sum
}

// bytes is what the rows in (lower, upper] cost, counted no further than enough. Of a
// chunk that has others too it is a guess.
func (z *closed) bytes(lower, upper tso.TS, enough int64) (sum int64) {
	for _, c := range z.chunks[z.from(lower):] {
		n := after(c.entries, upper) - after(c.entries, lower)
		if n == 0 || sum >= enough {
			break
		}
		sum += c.bytes * int64(n) / int64(len(c.entries))
	}
	return sum
}
