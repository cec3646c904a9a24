package scheduler

import (
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
)

// Check holds the whole value against what it promises. It walks everything: it is for
// tests and for who looks into a fault.
func (o *Owner) Check() error {
	if o.err != nil {
		return o.err
	}
	for id, t := range o.tables {
		if err := t.check(id); err != nil {
			return err
		}
	}
	for _, m := range o.members {
		primaries := 0
		for i, s := range m.sets {
			if !(s.primary.m == m && int(s.primary.at) == i) && !(s.secondary.m == m && int(s.secondary.at) == i) {
				return cdcerr.Bug("capture %s lists %v at %d, which is not its", m.id, s.Span, i)
			}
			if s.primary.m == m && int(s.primary.at) == i {
				primaries++
			}
		}
		if primaries != m.primaries {
			return cdcerr.Bug("capture %s may write %d spans, and %d are counted", m.id, primaries, m.primaries)
		}
	}
	if o.mark.Checkpoint > o.mark.Resolved {
		return cdcerr.Bug("P3: checkpoint %d is above resolved-ts %d", o.mark.Checkpoint, o.mark.Resolved)
	}
	return nil
}

// CheckTable holds the sets of one table against what they promise: after a transition
// of one of them that is all that can have changed.
func (o *Owner) CheckTable(id span.TableID) error {
	if t := o.tables[id]; t != nil {
		return t.check(id)
	}
	return nil
}

// check holds a table's sets against P2.
func (t *table) check(id span.TableID) error {
	whole := span.OfTable(id)
	if !t.wanted {
		if len(t.sets) > 0 {
			return cdcerr.Bug("P2: table %d is not wanted and has sets", id)
		}
		return nil
	}
	if t.whole && len(t.sets) > 1 {
		return cdcerr.Bug("table %d may not be in parts, and is in %d", id, len(t.sets))
	}
	from := whole.Start
	for _, s := range t.sets {
		if s.Span.Start != from || s.Span.Empty() {
			return cdcerr.Bug("P2: %v does not begin where the one before ends", s.Span)
		}
		from = s.Span.End
		if err := s.check(); err != nil {
			return err
		}
	}
	if from != whole.End {
		return cdcerr.Bug("P2: the sets of table %d end before it", id)
	}
	return nil
}

// check holds a set's roles against its state.
func (s *ReplicationSet) check() error {
	p, q := s.primary.m != nil, s.secondary.m != nil
	ok := true
	switch s.State {
	case AbsentState:
		ok = !p && !q
	case PrepareState:
		ok = q
	case CommitState:
		ok = p || q || s.dissolves() // it has stopped, other parents have not
	case ReplicatingState:
		ok = p && !q
	case RemovingState:
		ok = false // not among those that are wanted
	}
	if !ok {
		return cdcerr.Bug("%v is %v with primary %q and secondary %q", s.Span, s.State, s.Primary(), s.Secondary())
	}
	if s.promoted && s.ready {
		return cdcerr.Bug("%v: promoted and ready at the same time", s.Span)
	}
	return nil
}
