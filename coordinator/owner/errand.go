package owner

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/tso"
)

// errand is a DDL or a sync point that is to be carried out downstream.
type errand struct {
	ddl  *scheduler.DDL // nil: a sync point
	turn filter.Turn
	sync tso.TS
	// after is what has to be durable before: a watermark; 0 for nothing.
	after tso.TS
}

// handOut queues what scheduler lets be carried out.
func (l *Loop) handOut(r scheduler.Ready) {
	if len(r.DDLs) == 0 && r.Sync == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range r.DDLs {
		d := &r.DDLs[i]
		e := errand{ddl: d, turn: l.turns[d.Job]}
		delete(l.turns, d.Job)
		switch {
		case e.turn.Err != nil:
			// The changefeed ends here: what comes before is to be downstream, of all tables.
			e.after = d.TS.Prev()
		case !d.Begun && d.Unrecorded:
			// Nobody but the watermark tells the next owner that it is done. Rows of a
			// table that it ends would come again, after those of one that it begins.
			e.after = d.TS.Prev()
		}
		l.errands = append(l.errands, e)
	}
	if r.Sync != 0 {
		l.errands = append(l.errands, errand{sync: r.Sync})
	}
	signal(l.todo)
}

// waitsLocked tells whether an errand waits for the watermark to be durable.
func (l *Loop) waitsLocked() bool {
	for i := range l.errands {
		if l.errands[i].after > l.saved.Checkpoint {
			return true
		}
	}
	return false
}

// runErrands carries out one after the other, until ctx ends or one fails.
func (l *Loop) runErrands(ctx context.Context) error {
	for {
		e, ok := l.nextErrand()
		if !ok {
			select {
			case <-l.todo:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := l.alive(ctx); err != nil {
			return err
		}
		var err error
		if e.ddl != nil {
			err = l.execute(ctx, &e)
		} else {
			err = l.note(ctx, e.sync)
		}
		if err != nil {
			return err
		}
		l.look()
	}
}

// nextErrand takes the first whose time has come. Those that wait for the watermark hold
// none behind them: these may be what it waits for.
func (l *Loop) nextErrand() (e errand, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.errands {
		if e = l.errands[i]; e.after <= l.saved.Checkpoint {
			l.errands = append(l.errands[:i:i], l.errands[i+1:]...)
			return e, true
		}
	}
	return errand{}, false
}

// execute carries out a DDL, or ends the run where the changefeed cannot go on with it.
func (l *Loop) execute(ctx context.Context, e *errand) error {
	if e.turn.Err != nil {
		return e.turn.Err
	}
	if e.turn.Send != nil {
		if err := l.sink.DDL(ctx, l.cfg.Grant, e.turn.Send); err != nil {
			return fmt.Errorf("DDL job %d at %d: %w", e.ddl.Job, e.ddl.TS, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner.Executed(e.ddl.Job)
	l.progress.DDLs++
	return nil
}

// note notes a sync point.
func (l *Loop) note(ctx context.Context, ts tso.TS) error {
	if err := l.sink.SyncPoint(ctx, l.cfg.Grant, event.SyncPoint{TS: ts}); err != nil {
		return fmt.Errorf("sync point at %d: %w", ts, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner.Synced(ts)
	l.progress.SyncPoint = ts
	return nil
}

// waiting is a DDL that is not done, and since when that is known.
type waiting struct {
	job   int64
	since time.Time
}

// waitBeats is how many beats go by before what a DDL waits for is looked at again: five
// seconds, and so it is told of one that waits for five at least.
const waitBeats = 100

// tellWait logs what the first DDL waits for, if it was the first one the last time too.
func (l *Loop) tellWait() {
	l.mu.Lock()
	job, why := l.owner.Waits()
	if job == 0 || job != l.first.job {
		l.first, why = waiting{job, time.Now()}, ""
	} else {
		why = fmt.Sprintf("%s, for %v", why, time.Since(l.first.since).Round(time.Second))
	}
	l.waits = why
	l.mu.Unlock()
	if why != "" {
		l.cfg.Log.Info("a DDL is not done yet", "changefeed", l.cfg.Changefeed, "job", job, "why", why)
	}
}

// Waits is what the first DDL waits for that is not done for some seconds, "" for none.
func (l *Loop) Waits() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits
}
