package scheduler

import (
	"slices"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/span"
)

// found is a part of a table that a capture reported to a new owner.
type found struct {
	m  *member
	st Status
}

// told crosses a member off those for whom a new owner waits.
func (o *Owner) told(id capture.ID) {
	o.waits = slices.DeleteFunc(o.waits, func(w capture.ID) bool { return w == id })
}

// heard takes what a capture reports to a new owner. Nothing is decided before all
// members have told: who is silent may have anything.
func (o *Owner) heard(t *table, m *member, st *Status) {
	switch {
	case t == nil || !t.wanted:
		o.strange = note(o.strange, found{m, *st})
	case t.exact(st.Span) != nil:
		o.attach(t.exact(st.Span), m, st)
	default:
		if len(t.found) == 0 {
			o.mixed = append(o.mixed, t)
		}
		t.found = note(t.found, found{m, *st})
	}
}

// note keeps the last that a capture told of each span.
func note(all []found, f found) []found {
	for i := range all {
		if all[i].m == f.m && all[i].st.Span == f.st.Span {
			all[i] = f
			return all
		}
	}
	return append(all, f)
}

// attach gives a capture the part in a set that it says it has. Of two who write, the
// one that was placed later does; the other one was fenced off, and does not know.
func (o *Owner) attach(s *ReplicationSet, m *member, st *Status) {
	if s.holds(m) { // it has told before, and something has changed since
		o.detach(s, m)
	}
	o.raise(s, st.Checkpoint)
	switch st.Phase {
	case Writing:
		if st.Checkpoint < o.saved.Checkpoint {
			// Somebody else has written it since, and is gone: this one was fenced off and
			// does not know. What it writes is refused, and where it is says nothing.
			o.stray(m, st)
			return
		}
		if old := s.primary.m; old != nil {
			if !newer(st.Grant, s.grant) {
				o.stray(m, st)
				return
			}
			o.detach(s, old)
			o.stray(old, &Status{Span: s.Span, Phase: Writing, Checkpoint: s.Checkpoint})
		}
		s.primary.join(s, m)
		s.grant = st.Grant
		o.writes(s, st)
	case Preparing, Prepared:
		if s.secondary.m != nil {
			o.stray(m, st)
			return
		}
		s.secondary.join(s, m)
		s.ready = st.Phase == Prepared
	case Stopping:
		o.stray(m, st)
	case Stopped, Absent: // it only told up to where it came
	}
	o.infer(s)
}

// detach takes a part away again.
func (o *Owner) detach(s *ReplicationSet, m *member) {
	if s.secondary.m == m {
		o.dropSecondary(s)
	}
	if s.primary.m == m {
		o.dropPrimary(s, 0)
	}
	o.infer(s)
}

// infer is the state that follows from who has a part.
func (o *Owner) infer(s *ReplicationSet) {
	state := AbsentState
	switch {
	case s.secondary.m != nil && s.ready:
		state = CommitState
	case s.secondary.m != nil:
		state = PrepareState
	case s.primary.m != nil:
		state = ReplicatingState
	}
	o.become(s, state, "reported to a new owner")
	switch state {
	case AbsentState: // it waits in Owner.absent since it was made
	case PrepareState, CommitState: // goes on once all have told
		s.due = o.now + 1
		o.due = append(o.due, deadline{s.due, s})
	case ReplicatingState, RemovingState:
	}
}

// rebuilt ends the asking once everybody has told, and sorts out what was found.
func (o *Owner) rebuilt() {
	if len(o.waits) > 0 || len(o.lost) > 0 || o.schema < o.recorded || slices.ContainsFunc(o.strange, func(f found) bool { return f.st.Checkpoint > o.schema }) {
		return
	}
	o.rebuilding = false
	for _, t := range o.mixed {
		o.piece(t)
	}
	o.mixed = nil
	o.dismiss()
}

// piece makes the sets of a table of which captures reported parts: those that are
// written first, the later placement before the earlier; then those that are got
// ready; what is left becomes spans of their own. A part that overlaps one that
// counts has to be let go.
func (o *Owner) piece(t *table) {
	parts := slices.DeleteFunc(t.found, func(f found) bool { return !slices.Contains(o.members, f.m) })
	t.found = nil
	if !t.wanted || t.whole { // what has parts of what is whole was fenced off, and does not know
		for _, f := range parts {
			o.stray(f.m, &f.st)
		}
		return
	}
	slices.SortStableFunc(parts, func(a, b found) int {
		if a.st.Phase == Writing != (b.st.Phase == Writing) {
			if a.st.Phase == Writing {
				return -1
			}
			return 1
		}
		if newer(a.st.Grant, b.st.Grant) {
			return -1
		}
		if newer(b.st.Grant, a.st.Grant) {
			return 1
		}
		return 0
	})
	if whole := t.sets[0]; whole.primary.m != nil && !slices.ContainsFunc(parts, func(f found) bool {
		return f.st.Phase == Writing && newer(f.st.Grant, whole.grant)
	}) {
		for _, f := range parts {
			o.stray(f.m, &f.st)
		}
		return
	}
	o.cutUp(t, parts)
}

// cutUp puts the parts in the place of the one set of a table.
func (o *Owner) cutUp(t *table, parts []found) {
	whole := t.sets[0]
	start := whole.Checkpoint
	o.retire(whole)
	var sets []*ReplicationSet
	for _, f := range parts {
		same := slices.IndexFunc(sets, func(s *ReplicationSet) bool { return s.Span == f.st.Span })
		switch {
		case f.st.Phase == Stopped || f.st.Phase == Absent:
		case same >= 0:
			o.attach(sets[same], f.m, &f.st)
		case f.st.Phase == Stopping || slices.ContainsFunc(sets, func(s *ReplicationSet) bool { return s.Span.Overlaps(f.st.Span) }):
			o.stray(f.m, &f.st)
		default:
			s := &ReplicationSet{Span: f.st.Span, table: t, Checkpoint: start}
			o.count(s)
			sets = append(sets, s)
			o.attach(s, f.m, &f.st)
		}
	}
	left := []span.Span{span.OfTable(t.id)}
	for _, s := range sets {
		var rest []span.Span
		for _, l := range left {
			rest = append(rest, l.Subtract(s.Span)...)
		}
		left = rest
	}
	for _, l := range left {
		s := &ReplicationSet{Span: l, table: t, Checkpoint: start}
		o.count(s)
		o.queue(s)
		sets = append(sets, s)
	}
	o.replace(t, sets)
}

// retire takes a set out, whoever has a part in it having to let go.
func (o *Owner) retire(s *ReplicationSet) {
	for _, m := range []*member{s.primary.m, s.secondary.m} {
		if m != nil {
			o.detach(s, m)
			o.stray(m, &Status{Span: s.Span, Phase: Preparing, Checkpoint: s.Checkpoint})
		}
	}
	o.uncount(s)
}

// claim gives a table that a DDL has just brought to those who have it already.
func (o *Owner) claim(t *table) {
	if len(o.strange) == 0 {
		return
	}
	all := o.strange
	o.strange = nil
	for _, f := range all {
		if f.st.Span.TableID != t.id {
			o.strange = append(o.strange, f)
		} else if slices.Contains(o.members, f.m) {
			o.heard(t, f.m, &f.st)
		}
	}
}

// dismiss lets spans of tables that nobody wants be let go: the schema is known up to
// where they are.
func (o *Owner) dismiss() {
	for _, f := range o.strange {
		if slices.Contains(o.members, f.m) {
			o.stray(f.m, &f.st)
		}
	}
	o.strange = nil
}
