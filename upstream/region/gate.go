package region

import (
	"cmp"
	"slices"
	"time"
)

// Window is how many scans a store does for us at a time. Urgent ones count with
// the others but may be more.
type Window struct {
	Calm   int
	Urgent int
}

// Ticket names a registration at its store's gate.
type Ticket struct {
	Request uint64 // the request id on the wire
	Region  uint64
}

// Gate lets registrations into one store as fast as it scans: urgent ones first,
// each kind in the order in which they came. T is what is sent for one.
type Gate[T any] struct {
	window  Window
	urgent  []*scan[T]
	calm    []*scan[T]
	waiting map[Ticket]*scan[T]
	running map[Ticket]*scan[T]
}

type scan[T any] struct {
	ticket Ticket
	what   T
	gone   bool          // done before it began; still in its line
	heard  time.Duration // when it was sent, or something of it last came
}

// lookAhead is how many calm scans are looked at for one that may go in.
const lookAhead = 64

// NewGate makes an open gate.
func NewGate[T any](w Window) *Gate[T] {
	return &Gate[T]{window: w, waiting: map[Ticket]*scan[T]{}, running: map[Ticket]*scan[T]{}}
}

// Push lines a registration up. One that is at the gate already is replaced.
func (g *Gate[T]) Push(k Ticket, what T, urgent bool) {
	g.Done(k)
	s := &scan[T]{ticket: k, what: what}
	g.waiting[k] = s
	if urgent {
		g.urgent = append(g.urgent, s)
		return
	}
	g.calm = append(g.calm, s)
}

// Next takes the registration to be sent next, if there is room for one. Of calm
// ones only those that admit lets pass.
func (g *Gate[T]) Next(now time.Duration, admit func(T) bool) (what T, ok bool) {
	g.urgent = trim(g.urgent)
	if len(g.urgent) > 0 {
		if len(g.running) >= g.window.Urgent {
			return what, false
		}
		s := g.urgent[0]
		g.urgent = g.urgent[1:]
		return g.begin(s, now), true
	}
	if len(g.running) >= g.window.Calm {
		return what, false
	}
	g.calm = trim(g.calm)
	for i, s := range g.calm[:min(len(g.calm), lookAhead)] {
		if !s.gone && admit(s.what) {
			if i == 0 {
				g.calm = g.calm[1:] // mostly, and the line may be long
			} else {
				g.calm = slices.Delete(g.calm, i, i+1)
			}
			return g.begin(s, now), true
		}
	}
	return what, false
}

// trim drops what is gone from the front of a line.
func trim[T any](line []*scan[T]) []*scan[T] {
	for len(line) > 0 && line[0].gone {
		line[0] = nil
		line = line[1:]
	}
	return line
}

func (g *Gate[T]) begin(s *scan[T], now time.Duration) T {
	delete(g.waiting, s.ticket)
	g.running[s.ticket] = s
	s.heard = now
	return s.what
}

// Done takes a registration away: its scan is through, or it is over. Sent tells
// whether it had been sent, known whether it was at the gate at all.
func (g *Gate[T]) Done(k Ticket) (sent, known bool) {
	if _, ok := g.running[k]; ok {
		delete(g.running, k)
		return true, true
	}
	s, ok := g.waiting[k]
	if ok {
		s.gone = true
		delete(g.waiting, k)
	}
	return false, ok
}

// DoneAll takes every registration away.
func (g *Gate[T]) DoneAll() {
	g.urgent, g.calm = nil, nil
	clear(g.running)
	clear(g.waiting)
}

// Heard notes that something of a registration came, and tells whether it is
// being scanned.
func (g *Gate[T]) Heard(k Ticket, now time.Duration) bool {
	s := g.running[k]
	if s != nil {
		s.heard = now
	}
	return s != nil
}

// Overdue are the scans of which nothing was heard for so long, in order.
func (g *Gate[T]) Overdue(now, after time.Duration) []Ticket {
	var late []Ticket
	for k, s := range g.running {
		if now-s.heard >= after {
			late = append(late, k)
		}
	}
	slices.SortFunc(late, func(a, b Ticket) int {
		return cmp.Or(cmp.Compare(a.Request, b.Request), cmp.Compare(a.Region, b.Region))
	})
	return late
}

// Waiting is how many registrations wait, Running how many are being scanned.
func (g *Gate[T]) Waiting() int { return len(g.waiting) }

// Running is how many are being scanned.
func (g *Gate[T]) Running() int { return len(g.running) }
