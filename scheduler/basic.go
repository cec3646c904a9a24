package scheduler

import (
	"slices"

	"github.com/sluice-cdc/sluice/capture"
)

// basic places what nobody has, each on the capture with the fewest spans. It waits for
// those who are about to take some: of captures that were met together the first one to
// answer would get everything.
func (o *Owner) basic() {
	if slices.ContainsFunc(o.members, o.joins) {
		return
	}
	n := 0
	for ; n < len(o.absent) && n < o.cfg.BatchMax; n++ {
		s := o.absent[n]
		if s.State != AbsentState || !s.counted {
			s.queued = false
			continue
		}
		if s.table.busy(s.Span) { // comes again when they have let go
			s.queued = false
			continue
		}
		m := o.idlest(nil)
		if m == nil {
			break
		}
		s.queued = false
		o.place(s, m, "nobody has it")
	}
	clear(o.absent[:n])
	if o.absent = o.absent[n:]; len(o.absent) == 0 {
		o.absent = nil
	}
}

// idlest is the capture with the fewest spans of those that take some, beside not. If
// there is none, one that an operator drains is better than nobody.
func (o *Owner) idlest(not *member) *member {
	var best *member
	for _, m := range o.members {
		if m != not && m.takes() && (best == nil || len(m.sets) < len(best.sets)) {
			best = m
		}
	}
	if best == nil && not == nil {
		return o.drained()
	}
	return best
}

// drained is the capture with the fewest spans of those that would take some if no
// operator drained them.
func (o *Owner) drained() *member {
	var best *member
	for _, m := range o.members {
		if m.draining && m.told && m.term != 0 && m.raising == 0 && m.liveness == capture.Alive && (best == nil || len(m.sets) < len(best.sets)) {
			best = m
		}
	}
	return best
}
