package scheduler

import "github.com/sluice-cdc/sluice/capture"

// drain moves spans off captures that are on their way out, that an operator wants
// empty, or that cannot follow the upstream. Where nobody else can take them they stay: they are written while they can.
// Who is on its way out leaves them to one that an operator drains rather than to nobody.
func (o *Owner) drain() {
	for _, m := range o.members {
		why := "its capture is drained"
		switch {
		case o.deaf(m):
			why = "its capture does not hear all of the upstream, and another does"
			o.giveUp(m)
		case m.liveness == capture.Alive && !m.draining:
			continue
		}
		// Those at the front that are under way already are at most as many again.
		for i := 0; i < len(m.sets) && i < 2*o.cfg.MovesMax && o.moving < o.cfg.MovesMax; i++ {
			to := o.idlest(m)
			if to == nil && m.liveness != capture.Alive {
				to = o.drained()
			}
			if to == nil {
				break
			}
			o.moveSet(m.sets[i], to, why)
		}
	}
}

// giveUp has a capture let go of what it gets ready and has not: what it does not hear may
// never be there, and the spans, and what may move at a time, would wait for it.
func (o *Owner) giveUp(m *member) {
	if to := o.idlest(m); to == nil || len(m.sets) == m.primaries {
		return
	}
	for _, s := range m.sets {
		if s.State == PrepareState && s.secondary.m == m && !s.ready && !s.givenUp {
			s.givenUp = true
			o.order(m, s, Stop)
		}
	}
}

// moveSet begins to move a set, if it rests.
func (o *Owner) moveSet(s *ReplicationSet, to *member, why string) bool {
	if s.State != ReplicatingState || s.table.shape != nil || s.primary.m == to || o.moving >= o.cfg.MovesMax || o.uniting(s.table) {
		return false
	}
	s.moving = true
	o.moving++
	o.place(s, to, why)
	return true
}
