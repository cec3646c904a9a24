package owner

import (
	"cmp"
	"slices"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Move asks for a table, all its spans, to be moved to a capture, and says by which id
// Shown has it. A partition of a unit has the unit moved, as its own id does.
func (l *Loop) Move(table span.TableID, to capture.ID) (shown span.TableID, err error) {
	defer l.look()
	l.mu.Lock()
	begun := l.owner != nil
	l.mu.Unlock()
	if !begun {
		return 0, errNotYet()
	}
	table, shown = l.placed(table)
	l.mu.Lock()
	defer l.mu.Unlock()
	return shown, l.owner.Move(table, to)
}

// Rebalance asks for an even spread now.
func (l *Loop) Rebalance() error {
	defer l.look()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == nil {
		return errNotYet()
	}
	l.owner.Rebalance()
	return nil
}

func errNotYet() error {
	return cdcerr.SchedulerRequest.New("the changefeed's run has only begun, and knows no tables yet: ask again")
}

// Progress is how far the run is.
func (l *Loop) Progress() Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.progress
	p.Watermark, p.Saved = l.mark, l.saved
	return p
}

// Term is the last that was given: the next run of this reign begins above it.
func (l *Loop) Term() scheduler.Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

// Settled tells whether nothing is under way: every span replicates, no DDL waits.
func (l *Loop) Settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owner != nil && l.owner.Settled()
}

// Rebuilding tells whether the owner still asks captures what they have.
func (l *Loop) Rebuilding() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owner == nil || l.owner.Rebuilding()
}

// Standings are the captures that the owner knows, by id.
func (l *Loop) Standings() []scheduler.Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == nil {
		return nil
	}
	return l.owner.Standings()
}

// States are how many spans a capture has a part in, by their state.
func (l *Loop) States(id capture.ID) map[scheduler.State]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == nil {
		return nil
	}
	return l.owner.States(id)
}

// Set is one span and who has it.
type Set struct {
	Span               span.Span
	State              scheduler.State
	Primary, Secondary capture.ID
	Checkpoint         tso.TS // as far as its owner knows it by itself: its capture's floor may be above
}

// Sets are the spans of all tables, in order. It walks all of them.
func (l *Loop) Sets() (out []Set) {
	l.mu.Lock()
	if l.owner != nil {
		l.owner.All(func(s *scheduler.ReplicationSet) {
			out = append(out, Set{s.Span, s.State, s.Primary(), s.Secondary(), s.Checkpoint})
		})
	}
	l.mu.Unlock()
	slices.SortFunc(out, func(a, b Set) int {
		return cmp.Or(cmp.Compare(a.Span.TableID, b.Span.TableID), cmp.Compare(a.Span.Start, b.Span.Start))
	})
	return out
}

// History is the last moves of the changefeed's timestamps, and what has become of its
// spans, oldest first.
func (l *Loop) History() (moves []tso.Move, trace []scheduler.Transition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history.moves.all(), l.history.trace.all()
}
