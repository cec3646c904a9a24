package mysql

import (
	"sync"
	"time"
)

// A graph orders units. A unit goes to a lane when nothing that it claims is
// claimed by a unit before it that is not done; or when all of those are on one
// lane, to that lane, which works in order. Only the last unit that claimed
// something is waited for: it waited for the one before.
type graph struct {
	mu     sync.Mutex
	last   map[uint64]*unit  // guarded by mu, like all below
	wholes map[uint64]*whole // indexes of which some units claim all
	lanes  []*lane
	width  *width // how many of them are given units that have a choice
	next   *lane  // where units without ties are gathered, until it has enough
	enough int    // rows that fill a downstream transaction

	live        int // units that are not done
	rows        int
	bytes       int64
	freed       chan struct{} // gets a token when units are done
	closed      bool
	recheckList []*unit // scratch
}

// whole is an index that units claim: for itself one of them, or shared by many.
type whole struct {
	sole   *unit
	shared map[*unit]struct{}
}

// A lane writes its units one after the other, over a connection of its own.
type lane struct {
	session *session
	queue   []*unit       // guarded by the graph's mu, like load
	load    int           // rows in queue and being written
	wake    chan struct{} // has a token when there may be something to do
	started bool

	since time.Time // when what it writes was taken; zero: it writes nothing
	busy  int       // lanes at work then, this one too
}

// stuckAfter is how long a lane may take for its transaction before another one is
// used in its stead: what waits for somebody else's lock must not hold all others up.
const stuckAfter = time.Second

func newGraph(lanes []*lane, w *width, enough int) *graph {
	for _, l := range lanes {
		l.queue, l.load, l.started, l.wake = nil, 0, false, make(chan struct{}, 1)
		l.since = time.Time{}
	}
	return &graph{last: map[uint64]*unit{}, wholes: map[uint64]*whole{}, lanes: lanes, width: w, enough: enough, freed: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a token already
	}
}

// room tells whether more may be taken on: one unit of any size, or many up to
// the bounds.
func (g *graph) room(rows int, bytes int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.live == 0 || g.rows < rows && g.bytes < bytes
}

// left is how many units are not done.
func (g *graph) left() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.live
}

// add puts a unit behind those before it. It returns lanes that have got their
// first work, to be started.
func (g *graph) add(u *unit) []*lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live++
	g.rows += len(u.txn.Rows)
	g.bytes += u.bytes
	for _, h := range u.keys {
		g.waitLocked(u, g.last[h])
		g.last[h] = u
	}
	for _, h := range u.shared {
		w := g.wholeLocked(h)
		g.waitLocked(u, w.sole)
		w.shared[u] = struct{}{}
	}
	for _, h := range u.sole {
		w := g.wholeLocked(h)
		g.waitLocked(u, w.sole)
		for other := range w.shared {
			g.waitLocked(u, other)
		}
		w.sole = u
		clear(w.shared)
	}
	return g.assignLocked(u)
}

func (g *graph) wholeLocked(h uint64) *whole {
	w := g.wholes[h]
	if w == nil {
		w = &whole{shared: map[*unit]struct{}{}}
		g.wholes[h] = w
	}
	return w
}

// waitLocked makes u wait for another unit, once.
func (g *graph) waitLocked(u, other *unit) {
	if other == nil || other == u || other.noted == u {
		return
	}
	other.noted = u
	u.waits++
	u.after = append(u.after, other)
	other.before = append(other.before, u)
}

// assignLocked gives a unit to a lane if it can, and then those that waited for
// nothing else than to know its lane.
func (g *graph) assignLocked(u *unit) []*lane {
	var fresh []*lane
	todo := append(g.recheckList[:0], u)
	for len(todo) > 0 {
		u := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		l := g.laneLocked(u)
		if u.lane != nil || l == nil {
			continue
		}
		u.lane = l
		l.queue = append(l.queue, u)
		l.load += len(u.txn.Rows)
		if l.load >= g.enough {
			signal(l.wake)
		}
		if !l.started {
			l.started = true
			fresh = append(fresh, l)
		}
		todo = append(todo, u.before...)
	}
	g.recheckList = todo[:0]
	return fresh
}

// manyWaits is from how many units on nobody looks whether they happen to be on
// one lane.
const manyWaits = 16

// laneLocked is where a unit can go now, nil for nowhere.
func (g *graph) laneLocked(u *unit) *lane {
	switch {
	case u.waits == 0:
		return g.freeLaneLocked(len(u.txn.Rows))
	case u.waits > manyWaits:
		return nil
	}
	var only *lane
	for _, a := range u.after {
		switch {
		case a.done:
		case a.lane == nil, only != nil && only != a.lane:
			return nil
		default:
			only = a.lane
		}
	}
	return only
}

// freeLaneLocked is a lane for a unit without ties: the one that is being
// filled, so that small units share a commit, or else the emptiest within the width.
func (g *graph) freeLaneLocked(rows int) *lane {
	if g.next != nil && g.next.load+rows <= g.enough {
		return g.next
	}
	now, width := time.Now(), g.width.lanes()
	g.next = g.lanes[0]
	for _, l := range g.lanes {
		if width == 0 {
			break
		}
		if l.since.IsZero() || now.Sub(l.since) < stuckAfter {
			width--
		}
		if l.load < g.next.load {
			g.next = l
		}
	}
	return g.next
}

// nudge wakes every lane that has something to do, however little.
func (g *graph) nudge() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.lanes {
		if len(l.queue) > 0 {
			signal(l.wake)
		}
	}
}

// close says that nothing more comes: lanes end when everything is done.
func (g *graph) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, l := range g.lanes {
		signal(l.wake)
	}
}

// take hands a lane the units that make its next downstream transaction; over
// says that there will be no more.
func (g *graph) take(l *lane, cfg *Config) (units []*unit, over bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(l.queue) == 0 {
		return nil, g.closed && g.live == 0
	}
	n := cfg.group(l.queue)
	units = l.queue[:n:n]
	l.queue = l.queue[n:]
	l.since, l.busy = time.Now(), 0
	for _, other := range g.lanes {
		if !other.since.IsZero() {
			l.busy++
		}
	}
	return units, false
}

// finish says that a lane has written units. It returns lanes to be started.
func (g *graph) finish(l *lane, units []*unit) []*lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	var fresh []*lane
	size := int64(0)
	for _, u := range units {
		size += u.bytes
	}
	g.width.done(size, time.Since(l.since), l.busy)
	l.since = time.Time{}
	for _, u := range units {
		u.done = true
		g.live--
		g.rows -= len(u.txn.Rows)
		g.bytes -= u.bytes
		l.load -= len(u.txn.Rows)
		g.forgetLocked(u)
	}
	for _, u := range units {
		for _, b := range u.before {
			if b.waits--; b.lane == nil {
				fresh = append(fresh, g.assignLocked(b)...)
			}
			if b.lane != nil {
				signal(b.lane.wake)
			}
		}
		u.before, u.after = nil, nil
	}
	signal(g.freed)
	if g.closed && g.live == 0 {
		for _, l := range g.lanes {
			signal(l.wake)
		}
	}
	return fresh
}

// forgetLocked gives up what a unit claimed, unless others have claimed it since.
func (g *graph) forgetLocked(u *unit) {
	for _, h := range u.keys {
		if g.last[h] == u {
			delete(g.last, h)
		}
	}
	forget := func(h uint64) {
		w := g.wholes[h]
		if w == nil {
			return
		}
		if w.sole == u {
			w.sole = nil
		}
		delete(w.shared, u)
		if w.sole == nil && len(w.shared) == 0 {
			delete(g.wholes, h)
		}
	}
	for _, h := range u.shared {
		forget(h)
	}
	for _, h := range u.sole {
		forget(h)
	}
}
