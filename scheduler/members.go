package scheduler

import (
	"cmp"
	"slices"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// member is what the owner knows of one capture, in one life of its half and under one
// term. When either is over, what it holds goes to Owner.lost with it, and a new member
// takes its name.
type member struct {
	id          capture.ID
	incarnation uint64
	term        Term
	liveness    capture.Liveness
	draining    bool

	gone    bool // its lease is over; it is here until its fence is raised
	told    bool // it has reported all that it holds
	raising Term // the floor that is being raised against it; 0 for none
	broken  bool // its stream broke
	heard   uint64
	asked   uint64 // the tick at which it was given its first term, for what it had said; 0 for none

	seqIn, seqOut uint64
	ack           uint64
	acked         uint64 // the ack that was sent last
	spoke         uint64 // the tick of the last message to it
	barrierNo     uint64 // of the barrier that was sent last

	hearing hearing
	ail     ailment

	rows    uint64 // what it told of itself
	written tso.TS
	warning string

	floor     Progress
	covers    int  // sets under the floor
	tainted   bool // the floor counts spans that are not wanted any more
	removing  int  // those of them that it has not stopped
	joining   []*ReplicationSet
	sets      []*ReplicationSet // those in which it has a part
	primaries int               // of those, that it may write
	orders    []Order
}

// Fence is a floor to be raised downstream: writes of this capture under a lower term
// are refused from then on, and those that were begun are over.
type Fence struct {
	Capture capture.ID
	Term    Term
}

// takes tells whether new spans may be given to it.
func (m *member) takes() bool {
	return m.told && m.term != 0 && m.raising == 0 && m.liveness == capture.Alive && !m.draining && !m.hearing.poor &&
		!m.ail.out && (!m.ail.one || len(m.sets) == 0)
}

// joins tells whether it has just said that it is there, and will take spans as soon as
// it has answered under its term. Who does not is not waited for longer than a stream
// that broke.
func (o *Owner) joins(m *member) bool {
	return m.asked != 0 && !m.told && !m.broken && m.raising == 0 && m.liveness == capture.Alive && !m.draining && !m.hearing.poor && !m.ail.out && o.now-m.asked <= o.cfg.BrokenTicks
}

func (o *Owner) member(id capture.ID) *member {
	i, ok := slices.BinarySearchFunc(o.members, id, func(m *member, id capture.ID) int { return cmp.Compare(m.id, id) })
	if !ok {
		return nil
	}
	return o.members[i]
}

// meet takes in who is there. Who is not in etcd any more has no lease, and begins no
// write any more. Where the downstream can tell, it is fenced off all the same: what it
// began may still be on its way, if it was stopped in between.
func (o *Owner) meet(v View) {
	for i := 0; i < len(o.members); {
		m := o.members[i]
		switch {
		case m.gone || slices.ContainsFunc(v.Members, func(x Member) bool { return x.ID == m.id }):
			i++
		case o.cfg.Fenced:
			m.gone = true
			o.fenceOff(m)
			i++
		default:
			o.members = slices.Delete(o.members, i, i+1)
			o.lose(m)
			o.told(m.id)
		}
	}
	for _, x := range v.Members {
		m := o.member(x.ID)
		if m == nil {
			m = o.enter(x.ID)
		}
		m.liveness, m.draining = max(m.liveness, x.Liveness), x.Draining
	}
	if !o.started {
		for _, id := range o.writers {
			if o.member(id) == nil {
				m := o.enter(id)
				m.gone = true
				o.fenceOff(m)
			}
		}
		o.started = true
	}
}

// enter begins to know a capture.
func (o *Owner) enter(id capture.ID) *member {
	m := &member{id: id, heard: o.now}
	i, _ := slices.BinarySearchFunc(o.members, id, func(m *member, id capture.ID) int { return cmp.Compare(m.id, id) })
	o.members = slices.Insert(o.members, i, m)
	if !o.started {
		o.waits = append(o.waits, id)
	}
	return m
}

// fenceOff asks for a capture's floor to be raised.
func (o *Owner) fenceOff(m *member) {
	if m.raising == 0 {
		m.raising = o.nextTerm()
		o.fences = append(o.fences, Fence{m.id, m.raising})
	}
}

// lose takes over from a member that can write no more.
func (o *Owner) lose(m *member) {
	m.orders, m.joining = nil, nil
	if len(m.sets) > 0 {
		o.lost = append(o.lost, m)
	}
}

// renew puts a member of the same name in the place of one that is lost.
func (o *Owner) renew(m *member) *member {
	n := &member{
		id: m.id, incarnation: m.incarnation, term: m.term, liveness: m.liveness, draining: m.draining,
		hearing: m.hearing, ail: m.ail, heard: o.now, seqIn: m.seqIn, seqOut: m.seqOut, rows: m.rows, written: m.written, warning: m.warning,
	}
	n.ail.stuck = 0
	o.members[slices.Index(o.members, m)] = n
	o.lose(m)
	return n
}

// takeOver steps the sets of those who are lost, some at a tick.
func (o *Owner) takeOver() {
	for n := o.cfg.BatchMax; n > 0 && len(o.lost) > 0; {
		m := o.lost[0]
		for ; n > 0 && len(m.sets) > 0; n-- {
			s := m.sets[len(m.sets)-1]
			if o.gone(s, m); s.holds(m) {
				o.err = cdcerr.Bug("%v in state %v keeps capture %s, which is gone", s.Span, s.State, m.id)
				o.part(s, m)
			}
		}
		if len(m.sets) == 0 {
			o.lost = slices.Delete(o.lost, 0, 1)
		}
	}
}

// watch looks for captures that say nothing. Where the downstream refuses them, they
// are fenced off; else they keep what they have until their lease is over.
func (o *Owner) watch() {
	if !o.cfg.Fenced {
		return
	}
	for _, m := range o.members {
		patience := o.cfg.SilentTicks
		if m.broken {
			patience = o.cfg.BrokenTicks
		}
		if o.now-m.heard > patience && (o.rebuilding || len(m.sets) > 0) {
			o.fenceOff(m)
		}
	}
}

// silent is for how long a member was waited for in vain: it has spans, or may have, or
// there is nobody else who could take those that nobody has.
func (o *Owner) silent(m *member) uint64 {
	if m.gone || len(m.sets) == 0 && !slices.Contains(o.waits, m.id) &&
		(len(o.absent) == 0 || slices.ContainsFunc(o.members, (*member).takes)) {
		return 0
	}
	return o.now - m.heard
}

// Raised says that a floor stands downstream.
func (o *Owner) Raised(f Fence) {
	m := o.member(f.Capture)
	if m == nil || m.raising != f.Term {
		return
	}
	if m.gone {
		o.members = slices.DeleteFunc(o.members, func(x *member) bool { return x == m })
		o.lose(m)
	} else {
		o.renew(m).term = o.nextTerm() // not the floor: it may have got a higher one meanwhile
	}
	o.told(f.Capture)
}

// Broken says that the stream to a capture broke: if it is not heard soon, it counts
// as silent.
func (o *Owner) Broken(id capture.ID) {
	if m := o.member(id); m != nil && !m.broken {
		m.broken, m.heard = true, o.now
	}
}

// Step takes a report.
func (o *Owner) Step(r Report) {
	if deposed(r.Owner, o.cfg.Owner) || elected(r.Owner, o.cfg.Owner) || otherEpoch(r.Epoch, o.cfg.Epoch) {
		return
	}
	m := o.member(r.Capture)
	if m == nil || m.gone || overtaken(r.Incarnation, m.incarnation) {
		return
	}
	met := m.incarnation != 0
	if reborn(r.Incarnation, m.incarnation) {
		if m.incarnation != 0 {
			// Under a term of its own, above all that it may have been given: what its
			// last life wrote under may be what the downstream refuses.
			m = o.renew(m)
			m.term = o.nextTerm()
		}
		m.incarnation, m.seqIn, m.rows, m.warning = r.Incarnation, 0, 0, ""
		m.term = max(m.term, r.Term)
		if r.Fault != "" {
			o.fails(m, r.Fault)
			o.told(m.id) // it has nothing, and need not say so in full
		}
	}
	if late(r.Seq, m.seqIn) || outgrown(r.Term, m.term) {
		return
	}
	m.seqIn, m.heard, m.broken = r.Seq, o.now, false
	m.liveness = max(m.liveness, r.Liveness)
	o.listened(m, r.Deaf)
	if !met {
		m.rows = r.Rows // written before, and counted by the owner before
	}
	o.noteWork(m, &r)
	if len(r.Extents) > 0 {
		// Before the floor that counts on them. They are kept by whoever is told of
		// them: what a capture that is gone has logged is needed as before.
		o.log.Extents = append(o.log.Extents, r.Extents)
	}
	for i := range r.Statuses {
		if st := &r.Statuses[i]; st.Change > m.ack {
			o.status(m, st)
		}
	}
	m.ack = max(m.ack, r.Upto)
	if !r.Complete {
		return
	}
	m.feels(o, &r)
	o.complete(m, r.Floor)
	o.recount(m, r.Writes)
	m.told = true
	o.told(m.id)
	if m.term == 0 {
		m.term = o.nextTerm() // it holds nothing: who holds has a term
		m.told = false        // and will tell under it
		m.asked, m.spoke = o.now, 0
	}
}

// recount holds what a complete report counts against what the owner has (P8). Every span
// that begins or ends to be written was told by then: a floor over others than those that
// rest on it says nothing of them, and a writer of what nobody gave it is not the only one.
// An owner that asks has yet to find out who writes what.
func (o *Owner) recount(m *member, writes int) {
	switch {
	case writes < m.covers:
		o.err = cdcerr.Bug("capture %s says that it writes %d spans, and %d that it was said to write rest on its floor", m.id, writes, m.covers)
	case writes > m.primaries && !o.rebuilding:
		o.err = cdcerr.Bug("capture %s says that it writes %d spans and has told all, and the owner knows of %d (P1)", m.id, writes, m.primaries)
	}
}

// noteWork takes what a capture tells for whoever looks on.
func (o *Owner) noteWork(m *member, r *Report) {
	if r.Rows > m.rows {
		o.rows += r.Rows - m.rows
		m.rows = r.Rows
	}
	m.written = max(m.written, r.Written)
	o.written = max(o.written, r.Written)
	if r.Warning != m.warning {
		if m.warning = r.Warning; m.warning != "" {
			o.warnings = append(o.warnings, Fault{m.id, m.warning})
		}
	}
}

// status takes one span's news.
func (o *Owner) status(m *member, st *Status) {
	t := o.tables[st.Span.TableID]
	if t != nil {
		if s := t.find(st.Span, m); s != nil && (!o.rebuilding || s.State == RemovingState) {
			o.reported(s, m, st)
			return
		}
	}
	if o.rebuilding {
		o.heard(t, m, st)
		return
	}
	o.stray(m, st)
}

// stray deals with a span that a capture has and nobody gave it: it has to let go, and
// nobody else gets those keys before it did.
func (o *Owner) stray(m *member, st *Status) {
	if st.Phase == Stopped || st.Phase == Absent {
		return
	}
	t := o.tables[st.Span.TableID]
	if t == nil {
		t = &table{id: st.Span.TableID}
		o.tables[t.id] = t
	}
	s := &ReplicationSet{Span: st.Span, table: t, Checkpoint: st.Checkpoint, State: RemovingState}
	s.primary.join(s, m)
	m.tainted = true // the floor at hand may count it
	m.removing++
	t.others = append(t.others, s)
	o.order(m, s, Stop)
}

// speak writes what every capture has to be told.
func (o *Owner) speak() {
	for _, m := range o.members {
		if m.gone {
			continue
		}
		if len(m.orders) == 0 && m.ack == m.acked && m.barrierNo == o.barrierNo && o.now-m.spoke < o.cfg.HeartbeatTicks && m.spoke != 0 {
			continue
		}
		for {
			n := min(len(m.orders), o.cfg.OrdersMax)
			m.seqOut++
			o.out = append(o.out, Orders{
				Head: Head{Owner: o.cfg.Owner, Epoch: o.cfg.Epoch, Capture: m.id, Incarnation: m.incarnation, Term: m.term, Seq: m.seqOut},
				Ack:  m.ack, Barrier: o.barrier, Orders: m.orders[:n:n],
			})
			if m.orders = m.orders[n:]; len(m.orders) == 0 {
				break
			}
		}
		m.orders, m.acked, m.spoke, m.barrierNo = nil, m.ack, o.now, o.barrierNo
	}
}
