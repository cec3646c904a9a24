package owner

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// Whoever applies the redo log holds it against what the downstream keeps of it. That
// follows the gate: soon after a run has begun, when the metas of before are still there to
// be taken for the newest, and then at leisure.
const (
	journalFirst = 500 * time.Millisecond
	journalEvery = 5 * time.Second
)

// openJournal notes downstream, before anything is let through, by which redo log it is
// written from now on. A changefeed that never had one notes nothing.
func (l *Loop) openJournal(ctx context.Context, checkpoint tso.TS) error {
	j, ok := l.sink.(sink.Journaler)
	if !ok || !j.Journals() {
		return nil
	}
	l.journal = j
	now := l.cfg.Journal
	now.Passed = checkpoint
	if l.redo != nil {
		now.Passed = l.redo.Limit()
	}
	err := j.Note(ctx, l.cfg.Grant, func(kept *sink.Journal) bool {
		if now.Log == "" && *kept == (sink.Journal{}) {
			return false
		}
		next := now
		if kept.Log == now.Log && kept.Passed > next.Passed {
			// What was let through before stays downstream: a meta that tells of less is not
			// the newest that there was. The log makes a snapshot again once it has come to there.
			if l.redo != nil {
				l.cfg.Log.Warn("the redo log's newest meta was removed from the storage: the downstream was let further than the log's gate; until that has come to there again the log makes no snapshot",
					"changefeed", l.cfg.Changefeed, "downstream", kept.Passed, "gate", now.Passed)
			}
			next.Passed = kept.Passed
		}
		*kept = next
		return true
	})
	if l.redo == nil && cdcerr.MySQLAccessDenied.Is(err) {
		// A user that may not see the table never had one made.
		l.cfg.Log.Debug("whether the downstream was written with a redo log before is not seen", "changefeed", l.cfg.Changefeed, "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("noting downstream by which redo log it is written: %w", err)
	}
	return nil
}

// keepJournal notes downstream how far the gate is, until ctx ends. Rows do not wait for
// it; what is not noted is tried again.
func (l *Loop) keepJournal(ctx context.Context) error {
	if l.journal == nil {
		return nil
	}
	var noted tso.TS
	for wait := journalFirst; ; wait = min(2*wait, journalEvery) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		gate := l.redo.Limit()
		if gate <= noted {
			continue
		}
		err := l.journal.Note(ctx, l.cfg.Grant, func(kept *sink.Journal) bool {
			if kept.Log != l.cfg.Journal.Log || kept.Passed >= gate {
				return false
			}
			kept.Passed = gate
			return true
		})
		switch {
		case err == nil:
			noted = gate
		case ctx.Err() != nil:
			return ctx.Err()
		case cdcerr.Fenced.Is(err):
			return err
		default:
			l.cfg.Log.Info("how far the redo log lets rows through is not noted downstream; trying again", "changefeed", l.cfg.Changefeed, "error", err)
		}
	}
}
