package scheduler

import (
	"slices"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// DDL is what placement has to know of one.
type DDL struct {
	Job int64
	TS  tso.TS // the rows at or below it come before
	// Tables are the physical ids whose rows it parts: those above TS wait for it.
	// Added begin at TS, Removed end there; an id that is Removed is one of Tables too.
	Tables  []span.TableID
	Added   []span.TableID
	Removed []span.TableID
	// Of Tables and Added, in order: Whole may not be in parts above TS, and Divisible may.
	// Those in neither stay as they were, and what is added may.
	Whole, Divisible []span.TableID
	// Names are what it changes. Of two DDLs that share one the earlier is done first.
	Names []Name
	// AddedAt is where the rows of those that are Added begin, if that is above TS: what
	// a table that was recovered held before it was dropped comes from no event.
	AddedAt tso.TS
	// Done tells a new owner that the record of executed DDLs has it. Begun, that it was
	// begun and may be done: rows of its tables at or below TS are downstream and must
	// not come again, and nothing else is carried out before it was carried out again.
	Done, Begun bool
	// Unrecorded tells that once it is done nothing but the watermark will tell a new
	// owner so, who would carry it out again: no row above it, and none of what it adds,
	// may be downstream before that is durable.
	Unrecorded bool
}

// Name is a table's, or with an empty Table a schema's and all that is in it; the empty
// one is that of everything.
type Name struct{ Schema, Table string }

func (n Name) overlaps(m Name) bool {
	return n == (Name{}) || m == (Name{}) || n.Schema == m.Schema && (n.Table == m.Table || n.Table == "" || m.Table == "")
}

// pending is a DDL that is not done.
type pending struct {
	DDL
	ids     []span.TableID // all that it has to do with, in order
	reached int            // how many of Tables are known to be at TS
	running bool           // the shell has it
	behind  uint64         // of those in Owner.later that it need not wait for, the last
}

func newPending(d *DDL) *pending {
	ids := slices.Concat(d.Tables, d.Added, d.Removed)
	slices.Sort(ids)
	return &pending{DDL: *d, ids: ids}
}

// unripe is a DDL that is done, which nothing but the watermark tells, and which is not
// durable there. What it adds is not placed yet.
type unripe struct {
	*pending
	number uint64 // in the order in which they were done
}

// ahead is how many DDLs are looked at: those behind wait for one of these. Each pair
// is compared, which with so many takes some hundred microseconds.
const ahead = 256

// syncState is where the next sync point is.
type syncState uint8

const (
	syncAhead syncState = iota
	syncAsked
	syncDone // noted downstream, the watermark at it not yet durable
)

// Schema says up to where every DDL is known, and which have come since, in order.
func (o *Owner) Schema(resolved tso.TS, ddls ...DDL) {
	for _, d := range ddls {
		if d.Done {
			o.done(newPending(&d))
			continue
		}
		if d.Begun {
			o.raiseTo(&d)
			o.form(&d, d.Tables) // they had been joined when it was begun
			o.begun++
		}
		o.pending = append(o.pending, newPending(&d))
		o.barrierMoved = true
		o.addEarly(&d)
	}
	o.schema = max(o.schema, resolved)
}

// Executed says that a DDL is done and on record.
func (o *Owner) Executed(job int64) {
	i := slices.IndexFunc(o.pending, func(p *pending) bool { return p.Job == job })
	if i < 0 || !o.pending[i].running {
		return
	}
	p := o.pending[i]
	o.pending = slices.Delete(o.pending, i, i+1)
	if p.Begun {
		o.begun--
	}
	o.done(p)
}

// raiseTo lets the sets of a DDL's tables be at it: everything up to there was
// downstream before it was begun; a row of before must not come again, it would not fit
// any more.
func (o *Owner) raiseTo(d *DDL) {
	for _, id := range d.Tables {
		if t := o.tables[id]; t != nil {
			for _, s := range t.sets {
				o.raise(s, d.TS)
			}
		}
	}
}

// form takes note of which tables may be in parts from a DDL on.
func (o *Owner) form(d *DDL, ids []span.TableID) {
	if len(d.Whole)+len(d.Divisible) == 0 {
		return
	}
	for _, id := range ids {
		t := o.tables[id]
		if t == nil {
			continue
		}
		if has(d.Whole, id) {
			t.whole = true
		} else if has(d.Divisible, id) {
			t.whole = false
		}
	}
}

// has tells whether an id is in a list that is in order.
func has(ids []span.TableID, id span.TableID) bool {
	_, ok := slices.BinarySearch(ids, id)
	return ok
}

// done is what follows from a DDL: its tables go on, new ones begin, old ones end.
func (o *Owner) done(p *pending) {
	d := &p.DDL
	for _, id := range d.Tables {
		t := o.tables[id]
		if t == nil || !t.wanted {
			continue
		}
		t.passed = d.TS
	}
	o.raiseTo(d)
	o.form(d, d.Tables)
	for _, id := range d.Removed {
		o.dropTable(id)
	}
	if len(d.Removed) > 0 {
		for _, p := range o.pending { // one of them may bring back what is gone now
			o.addEarly(&p.DDL)
		}
	}
	o.moves = append(o.moves, tso.Move{Stage: tso.StageBarrier, From: d.TS.Prev(), To: d.TS, Cause: "a DDL is done"})
	o.barrierMoved = true
	if d.Unrecorded && d.TS > o.saved.Checkpoint {
		o.unripe++
		o.later = append(o.later, unripe{p, o.unripe})
		return
	}
	o.begins(d)
}

// ripen lets go on what waited for a DDL's being done to be durable.
func (o *Owner) ripen() {
	o.later = slices.DeleteFunc(o.later, func(d unripe) bool {
		ripe := d.TS <= o.saved.Checkpoint
		if ripe {
			o.begins(&d.DDL)
			o.barrierMoved = true // a DDL may have waited for it
		}
		return ripe
	})
}

// begins lets the rows above a DDL be written.
func (o *Owner) begins(d *DDL) {
	for _, id := range d.Added {
		o.addTable(id, max(d.TS, d.AddedAt))
	}
	o.form(d, d.Added)
	tables := slices.Clone(o.barrier.Tables) // messages hold the old one
	for _, id := range d.Tables {
		tables = append(tables, Passed{id, d.TS})
	}
	if o.cfg.Gated {
		for _, id := range d.Added {
			tables = append(tables, Passed{id, d.TS})
		}
	}
	o.barrier.Tables = tables
	o.tellBarrier()
}

// addEarly places the tables that a DDL brings before it is done: with a redo log their
// rows have to be in the log before anything above the DDL may be downstream, and a
// downstream that is behind must not hold the log back. Captures hold the rows back at
// the DDL (Block.Added).
func (o *Owner) addEarly(d *DDL) {
	if !o.cfg.Gated {
		return
	}
	for _, id := range d.Added {
		o.addTable(id, max(d.TS, d.AddedAt))
	}
	o.form(d, d.Added)
}

// stepBarrier hands out the DDLs whose time has come: every row of their tables at or
// below them is downstream, and no earlier one has to do with them whose tables have
// not begun (P6). What lies above
// the next sync point, or above the target, is of a downstream that is not wanted yet.
func (o *Owner) stepBarrier() {
	if !o.barrierMoved || o.rebuilding {
		return
	}
	o.barrierMoved = false
	for i, p := range o.pending {
		if i == ahead && o.begun == 0 {
			break
		}
		if !p.running && o.dueNow(i, p) {
			p.running = true
			o.run = append(o.run, p.DDL)
		}
	}
}

// dueNow tells whether the time of the DDL at a place among those that wait has come.
// One that was begun waits for nothing: its time had come when it was begun.
func (o *Owner) dueNow(i int, p *pending) bool {
	switch {
	case p.Begun:
		return true
	case o.cfg.Gated && p.TS > o.barrier.Gate:
		return false // it may wait for no row of anybody's (P5)
	case o.begun > 0 || i >= ahead || p.TS > o.limit():
		return false
	}
	return !slices.ContainsFunc(o.pending[:i], func(e *pending) bool { return e.conflicts(p) }) && o.ripe(p) && o.reached(p) && o.joined(p)
}

// ripe tells whether nothing that was done before a DDL and has to do with it is still to
// become durable: a table that it brought is not there yet, and so no row of it that has
// to come before this one. Each pair is found to be independent once.
func (o *Owner) ripe(p *pending) bool {
	for i := len(o.later) - 1; i >= 0 && o.later[i].number > p.behind; i-- {
		if e := o.later[i]; e.TS < p.TS && e.conflicts(p) {
			return false
		}
	}
	p.behind = o.unripe
	return true
}

// joined tells whether the tables that may not be in parts above a DDL are in none.
func (o *Owner) joined(p *pending) bool {
	return !slices.ContainsFunc(p.Whole, func(id span.TableID) bool {
		t := o.tables[id]
		return t != nil && has(p.Tables, id) && (len(t.sets) > 1 || t.shape != nil)
	})
}

// reached tells whether the tables of a DDL are there. What was once there stays.
func (o *Owner) reached(p *pending) bool {
	for ; p.reached < len(p.Tables); p.reached++ {
		t := o.tables[p.Tables[p.reached]]
		if t == nil {
			continue
		}
		for _, s := range t.sets {
			if s.Checkpoint < p.TS {
				return false
			}
		}
	}
	return true
}

// conflicts tells whether two DDLs have to be done in their order.
func (p *pending) conflicts(q *pending) bool {
	return meet(p.ids, q.ids) || slices.ContainsFunc(p.Names, func(n Name) bool {
		return slices.ContainsFunc(q.Names, n.overlaps)
	})
}

// meet tells whether two lists in order have an element in common.
func meet(a, b []span.TableID) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			return true
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// blocked tells whether a DDL of a table is not done.
func (o *Owner) blocked(id span.TableID) bool {
	return slices.ContainsFunc(o.pending, func(p *pending) bool { return slices.Contains(p.Tables, id) }) ||
		slices.ContainsFunc(o.later, func(d unripe) bool { return slices.Contains(d.Tables, id) })
}

// askSync lets a sync point be noted: everything up to it is downstream, and nothing
// above.
func (o *Owner) askSync() {
	if o.syncAt == syncAhead {
		o.syncAt = syncAsked
		o.note = o.sync
	}
}

// Synced says that a sync point is noted downstream.
func (o *Owner) Synced(ts tso.TS) {
	if ts == o.sync && o.syncAt == syncAsked {
		o.syncAt = syncDone
	}
}

// limit is up to where anything may be downstream: the next sync point, or the target.
func (o *Owner) limit() tso.TS {
	if o.cfg.Target != 0 {
		return min(o.sync, o.cfg.Target)
	}
	return o.sync
}

// tellBarrier is what captures are told from now on. It passes only what is durable: an
// owner after this one begins there.
func (o *Owner) tellBarrier() {
	tables := o.barrier.Tables
	if slices.ContainsFunc(tables, func(p Passed) bool { return p.TS <= o.saved.Checkpoint }) {
		// Another slice: messages hold the old one.
		var left []Passed
		for _, p := range tables {
			if p.TS > o.saved.Checkpoint {
				left = append(left, p)
			}
		}
		tables = left
	}
	o.barrier = Barrier{Known: true, Passed: o.saved.Checkpoint, Sync: o.limit(), Gate: o.barrier.Gate, Tables: tables}
	o.barrierNo++
}
