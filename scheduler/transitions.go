package scheduler

import "github.com/sluice-cdc/sluice/tso"

// reported steps a set by what a capture with a part in it says. One switch a state;
// every case is disabled once by itself to see that the simulator notices.
func (o *Owner) reported(s *ReplicationSet, m *member, st *Status) {
	switch s.State {
	case PrepareState:
		o.inPrepare(s, m, st)
	case CommitState:
		o.inCommit(s, m, st)
	case ReplicatingState:
		o.inReplicating(s, m, st)
	case RemovingState:
		o.inRemoving(s, m, st)
	case AbsentState: // nobody has a part in it
	}
}

func (o *Owner) inPrepare(s *ReplicationSet, m *member, st *Status) {
	if s.secondary.m == m {
		switch st.Phase {
		case Prepared:
			if !s.givenUp { // else it is about to stop
				s.ready = true
				o.commit(s)
			}
		case Stopped:
			o.dropSecondary(s)
			o.settle(s, "the secondary stopped")
		case Preparing, Absent, Stopping, Writing: // on the way, or on the way out
		}
		return
	}
	switch st.Phase {
	case Writing:
		o.writes(s, st)
	case Stopped:
		o.dropPrimary(s, st.Checkpoint)
	case Stopping:
		o.raise(s, st.Checkpoint)
	case Absent, Preparing, Prepared: // not what a primary says
	}
}

func (o *Owner) inCommit(s *ReplicationSet, m *member, st *Status) {
	if s.secondary.m == m {
		switch st.Phase {
		case Prepared:
			o.promote(s)
		case Stopped:
			// The primary was told to stop: whether it did is not known before it
			// says so.
			o.dropSecondary(s)
			if s.primary.m == nil {
				o.settle(s, "the secondary stopped")
			}
		case Preparing, Absent, Stopping, Writing:
		}
		return
	}
	switch st.Phase {
	case Writing:
		o.writes(s, st)
		switch {
		case s.promoted:
			s.promoted = false
			o.settle(s, "it writes")
		case s.secondary.m == nil && s.reshape == nil && !s.dissolves():
			o.settle(s, "the secondary is gone, the primary writes on")
		}
	case Stopped:
		o.dropPrimary(s, st.Checkpoint)
		switch {
		case s.dissolves():
			o.dissolve(s.table)
		case s.secondary.m == nil:
			o.settle(s, "the primary stopped")
		default:
			o.promote(s)
		}
	case Stopping:
		o.raise(s, st.Checkpoint)
	case Absent, Preparing, Prepared: // promoted, and not begun
	}
}

func (o *Owner) inReplicating(s *ReplicationSet, _ *member, st *Status) {
	switch st.Phase {
	case Writing:
		o.writes(s, st)
	case Stopped:
		o.dropPrimary(s, st.Checkpoint)
		o.settle(s, "the primary stopped")
	case Stopping:
		o.raise(s, st.Checkpoint)
	case Absent, Preparing, Prepared:
	}
}

func (o *Owner) inRemoving(s *ReplicationSet, m *member, st *Status) {
	switch st.Phase {
	case Stopped:
		o.part(s, m)
		o.removed(s)
	case Absent, Preparing, Prepared, Writing, Stopping: // told again when it is due
	}
}

// gone steps a set whose capture m can write no more: its lease is over, it was fenced
// off, or its half began anew.
func (o *Owner) gone(s *ReplicationSet, m *member) {
	if s.secondary.m == m {
		o.reported(s, m, &Status{Phase: Stopped})
	}
	if s.primary.m == m {
		o.reported(s, m, &Status{Phase: Stopped, Checkpoint: o.known(s)})
	}
}

// place begins to get a span ready on m.
func (o *Owner) place(s *ReplicationSet, m *member, why string) {
	s.secondary.join(s, m)
	s.ready = false
	o.become(s, PrepareState, why)
	o.order(m, s, Prepare)
}

// commit follows when the secondary is ready: the primary has to stop now.
func (o *Owner) commit(s *ReplicationSet) {
	if s.reshape != nil {
		o.reshapeReady(s.reshape)
		return
	}
	o.become(s, CommitState, "the secondary is ready")
	o.promote(s)
}

// promote lets the secondary write, if nobody else may: not before a primary has
// stopped, nor while a capture that once had keys of it has not said so (P1).
func (o *Owner) promote(s *ReplicationSet) {
	switch {
	case o.rebuilding || s.reshape != nil:
		return
	case s.primary.m != nil:
		o.halt(s)
		return
	case s.table.busy(s.Span):
		return
	}
	m := s.secondary.m
	s.secondary.leave()
	s.primary.join(s, m)
	s.ready, s.promoted = false, true
	s.grant = o.nextTerm()
	o.order(m, s, Write)
}

// halt tells the primary to stop.
func (o *Owner) halt(s *ReplicationSet) {
	o.order(s.primary.m, s, Stop)
}

// settle puts a set with nothing under way into the state that it is in.
func (o *Owner) settle(s *ReplicationSet, why string) {
	switch {
	case s.reshape != nil:
		o.abort(s.reshape)
	case s.primary.m != nil:
		o.become(s, ReplicatingState, why)
	default:
		if s.table.shape != nil {
			o.abort(s.table.shape)
		}
		o.become(s, AbsentState, why)
		o.queue(s)
	}
}

// become changes the state, and counts what is under way.
func (o *Owner) become(s *ReplicationSet, to State, why string) {
	if s.moving && to != PrepareState && to != CommitState {
		s.moving = false
		o.moving--
	}
	if to == ReplicatingState || to == AbsentState {
		s.due = 0
	}
	if s.State != to {
		o.trace = append(o.trace, Transition{Span: s.Span, From: s.State, To: to, Primary: s.Primary(), Secondary: s.Secondary(), Checkpoint: s.Checkpoint, Why: why})
		s.State = to
	}
}

// remind tells again what was told and not answered.
func (o *Owner) remind(s *ReplicationSet) {
	switch s.State {
	case PrepareState:
		switch {
		case s.givenUp:
			o.order(s.secondary.m, s, Stop)
		case s.secondary.m != nil:
			o.order(s.secondary.m, s, Prepare)
		}
	case CommitState:
		switch {
		case s.promoted, s.primary.m != nil && s.secondary.m == nil && !s.dissolves():
			// Without a secondary this is a question: did it hear that it should stop?
			o.order(s.primary.m, s, Write)
		case s.primary.m != nil:
			o.halt(s)
		case s.secondary.m != nil:
			o.promote(s)
		default: // it has stopped, and waits for the others from which a new one is made
		}
	case RemovingState:
		o.stopAll(s)
	case AbsentState, ReplicatingState: // nothing was told
	}
}

// remove lets a set go for good.
func (o *Owner) remove(s *ReplicationSet, why string) {
	o.uncount(s)
	s.reshape = nil
	o.become(s, RemovingState, why)
	s.table.others = append(s.table.others, s)
	if m := s.primary.m; m != nil {
		m.removing++
		m.tainted = true
	}
	o.stopAll(s)
	o.removed(s)
}

func (o *Owner) stopAll(s *ReplicationSet) {
	if m := s.primary.m; m != nil {
		o.order(m, s, Stop)
	}
	if m := s.secondary.m; m != nil && m != s.primary.m {
		o.order(m, s, Stop)
	}
}

func (o *Owner) part(s *ReplicationSet, m *member) {
	if s.primary.m == m {
		m.removing--
		s.primary.leave()
	}
	if s.secondary.m == m {
		s.secondary.leave()
	}
}

func (o *Owner) dropSecondary(s *ReplicationSet) {
	s.secondary.leave()
	s.ready, s.givenUp = false, false
}

func (o *Owner) dropPrimary(s *ReplicationSet, checkpoint tso.TS) {
	o.uncover(s)
	o.raise(s, checkpoint)
	s.primary.leave()
	s.promoted, s.grant = false, 0
}
