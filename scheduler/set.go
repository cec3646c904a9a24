package scheduler

import (
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// State is how far a replication set is.
type State uint8

// The states. Beside them a set has a primary, who may write, and a secondary, who
// gets its rows ready:
//
//	            place                ready                 primary gone, or none
//	AbsentState ─────▶ PrepareState ─────▶ CommitState ────────────────────────▶ ReplicatingState
//	      ▲                │ ▲ secondary gone   │ promoted writer reports                │
//	      └────────────────┘ └──────────────────┼──────────────── move ──────────────────┘
//	                                            ▼ table dropped, from any state
//	                                      RemovingState ─▶ deleted
const (
	AbsentState State = iota
	PrepareState
	CommitState
	ReplicatingState
	RemovingState
)

func (s State) String() string {
	return [...]string{"Absent", "Prepare", "Commit", "Replicating", "Removing"}[s]
}

// ReplicationSet is one span and who does what with it. A span that is wanted is in
// exactly one (P2), beside those that are Removing and those that a split or a merge
// has yet to bring.
type ReplicationSet struct {
	Span       span.Span
	Checkpoint tso.TS // every row at or below is downstream, as far as is known
	State      State

	table     *table
	primary   place
	secondary place
	grant     Term // of the primary
	due       uint64
	reshape   *reshape // of which it is a child; nil once it counts
	traffic   uint64
	regions   uint32

	counted  bool // it is one of its table's sets, and so in the watermark
	cover    cover
	ready    bool // the secondary is prepared
	givenUp  bool // the secondary was told to stop before it was
	promoted bool // the primary was told to write and has not said that it does
	queued   bool // in Owner.absent
	moving   bool // counted in Owner.moving
	large    bool // in Owner.large
}

// cover is what a set's part of the watermark rests on.
type cover uint8

const (
	loose   cover = iota // its own checkpoint, in Owner.loose
	joining              // the same, until the primary's next complete report
	covered              // the primary's floor
)

// place is a role and where the set stands in its member's list.
type place struct {
	m  *member
	at int32
}

// Primary is who writes the span, "" for nobody.
func (s *ReplicationSet) Primary() capture.ID { return s.primary.id() }

// Secondary is who gets ready to write it, "" for nobody.
func (s *ReplicationSet) Secondary() capture.ID { return s.secondary.id() }

func (p place) id() capture.ID {
	if p.m == nil {
		return ""
	}
	return p.m.id
}

// holds tells whether m has a part in the set.
func (s *ReplicationSet) holds(m *member) bool { return s.primary.m == m || s.secondary.m == m }

// table is what is wanted of one physical id, and what is on its way in or out.
type table struct {
	id     span.TableID
	wanted bool
	sets   []*ReplicationSet // in key order, together the whole table; empty if not wanted
	others []*ReplicationSet // Removing
	shape  *reshape          // at work on it
	found  []found           // parts that captures reported to a new owner; see rebuild.go
	passed tso.TS            // the last DDL of it that is done
	cut    uint64            // the tick at which it was split last
	whole  bool              // it may not be in parts
}

// find is the set of this very span in which m has a part.
func (t *table) find(s span.Span, m *member) *ReplicationSet {
	for _, z := range t.others {
		if z.holds(m) && z.Span == s {
			return z
		}
	}
	if t.shape != nil {
		for _, z := range t.shape.children {
			if z.holds(m) && z.Span == s {
				return z
			}
		}
	}
	if z := t.exact(s); z != nil && z.holds(m) {
		return z
	}
	return nil
}

// exact is the set of this very span, whoever has it.
func (t *table) exact(s span.Span) *ReplicationSet {
	lo, hi := 0, len(t.sets)
	for lo < hi {
		mid := (lo + hi) / 2
		if t.sets[mid].Span.Start < s.Start {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(t.sets) && t.sets[lo].Span == s {
		return t.sets[lo]
	}
	return nil
}

// busy tells whether somebody may not have let go of keys of s yet.
func (t *table) busy(s span.Span) bool {
	for _, z := range t.others {
		if z.Span.Overlaps(s) {
			return true
		}
	}
	return false
}

// join gives m a role, and leave takes it.
func (p *place) join(s *ReplicationSet, m *member) {
	p.m, p.at = m, int32(len(m.sets))
	m.sets = append(m.sets, s)
	if p == &s.primary {
		m.primaries++
	}
}

func (p *place) leave() {
	m := p.m
	if p == &m.sets[p.at].primary {
		m.primaries--
	}
	last := len(m.sets) - 1
	moved := m.sets[last]
	m.sets[last] = nil
	m.sets = m.sets[:last]
	if int(p.at) < last {
		m.sets[p.at] = moved
		if moved.primary.m == m && int(moved.primary.at) == last {
			moved.primary.at = p.at
		} else {
			moved.secondary.at = p.at
		}
	}
	p.m, p.at = nil, 0
}
