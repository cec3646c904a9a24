package owner

import (
	"context"
	"fmt"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/tso"
)

// Redo is the owner's hand on the changefeed's redo log.
type Redo interface {
	// DDLs returns when the DDLs are in the log, durably.
	DDLs(ctx context.Context, ddls ...*event.DDL) error
	// Advance says what the log's meta may say: everything at or below resolved is in the
	// log, in the files of these extents or of earlier ones, and everything at or below
	// checkpoint is durable downstream. It does not wait.
	Advance(checkpoint, resolved tso.TS, extents [][]byte) error
	// Limit is what the meta on the storage says. Moved gets a token when that has risen.
	Limit() tso.TS
	Moved() <-chan struct{}
	// Run puts metas on the storage until ctx ends; cdcerr.NotOwner where a later owner has.
	Run(ctx context.Context) error
}

// lesson is what is new of the schema.
type lesson struct {
	known tso.TS
	ddls  []scheduler.DDL
	log   []*event.DDL // of these, what the redo log needs
}

// note takes a DDL into a lesson's part for the redo log: as it goes downstream.
func (s *lesson) note(t *filter.Turn) {
	if t.Err == nil && t.Send != nil {
		s.log = append(s.log, t.Send)
	}
}

// teach gives scheduler what is new of the schema, once the redo log has it: what counts
// as known is what the log's meta may pass.
func (l *Loop) teach(s lesson) {
	if l.redo == nil {
		l.owner.Schema(s.known, s.ddls...)
		return
	}
	l.teaching = true
	l.lessons <- s // holds one
}

// runLessons puts DDLs into the redo log, until ctx ends or that fails for good.
func (l *Loop) runLessons(ctx context.Context) error {
	for {
		var s lesson
		select {
		case s = <-l.lessons:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := l.redo.DDLs(ctx, s.log...); err != nil {
			return fmt.Errorf("DDLs up to %d: %w", s.known, err)
		}
		l.mu.Lock()
		l.owner.Schema(s.known, s.ddls...)
		l.teaching = false
		l.mu.Unlock()
		l.look()
	}
}

// openRedo takes the redo log over. Its meta is this owner's before anything is read
// that it guards.
func (l *Loop) openRedo(ctx context.Context, r *scheduler.Resume) (err error) {
	if l.cfg.Redo == nil {
		return nil
	}
	if l.redo, err = l.cfg.Redo(ctx, r.Watermark.Checkpoint); err != nil {
		return fmt.Errorf("taking over the redo log: %w", err)
	}
	r.Gate = l.redo.Limit()
	return nil
}

// gated gets a token when the log's meta has moved.
func (l *Loop) gated() <-chan struct{} {
	if l.redo == nil {
		return nil
	}
	return l.redo.Moved()
}

// gate takes in what the log's meta says.
func (l *Loop) gate() {
	if l.redo == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner.Gate(l.redo.Limit())
}

// advanceLog says what the log's meta may say now. It does not pass a DDL with which the
// changefeed ends: what comes after it is nobody's downstream.
func (l *Loop) advanceLog(g scheduler.Log) error {
	if l.redo == nil {
		return nil
	}
	l.mu.Lock()
	saved, end := l.saved.Checkpoint, l.endsAt
	l.mu.Unlock()
	resolved := g.Resolved
	if end != 0 {
		resolved = min(resolved, end)
	}
	return l.redo.Advance(saved, resolved, g.Extents)
}
