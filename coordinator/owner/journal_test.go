package owner_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
)

// journaled is a downstream that keeps a journal.
type journaled struct {
	fullSink
	kept  *sink.Journal // guarded by the world's lock, as what follows
	notes *int
	away  *error // what a note ends with
}

func (s journaled) Journals() bool                                 { return true }
func (s journaled) Journal(context.Context) (*sink.Journal, error) { return s.kept, nil }
func (s journaled) Note(_ context.Context, leave sink.Leave, change func(*sink.Journal) bool) error {
	if err := leave.Check(); err != nil {
		return err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if *s.away != nil {
		return *s.away
	}
	*s.notes++
	change(s.kept)
	return nil
}

func journaling(w *world, rev scheduler.Revision, kept *sink.Journal, notes *int, away *error) (sink.Sink, error) {
	s, err := w.open(rev)
	if err != nil {
		return nil, err
	}
	return journaled{s.(fullSink), kept, notes, away}, nil
}

// The downstream tells by which log it is written, before anything is let through, and then
// how far that was; what an apply has noted goes with the next run. A changefeed without a
// log notes that it has none, where it had.
func TestTheDownstreamTellsByWhichLogItIsWritten(t *testing.T) {
	cluster(t, nil, []int64{1}, func(w *world) {
		r := withLog(w, "a")
		kept, notes, away := sink.Journal{Log: "before", Passed: ms(90), Applied: &sink.JournalApplied{Log: "before"}}, 0, error(nil)
		with := func(rev scheduler.Revision, change func(*owner.Config)) func(*owner.Config) {
			return func(c *owner.Config) {
				change(c)
				c.Open = func(context.Context) (sink.Sink, error) { return journaling(w, rev, &kept, &notes, &away) }
			}
		}
		mine := sink.Journal{Log: "mine", Storage: "s3://here"}
		_, stop, over := w.lead(5, with(5, func(c *owner.Config) { r.open(c); c.Journal = mine }))
		synctest.Wait()
		at := func(passed int64) {
			t.Helper()
			w.mu.Lock()
			defer w.mu.Unlock()
			want := mine
			want.Passed = ms(passed)
			if kept != want {
				t.Errorf("%+v, want %+v", kept, want)
			}
		}
		at(1)
		w.to(ms(5))
		later(time.Second)
		at(5)
		w.change(func() { away = errors.New("it does not answer") })
		w.to(ms(9))
		later(10 * time.Second)
		at(5)
		if r.Limit() != ms(9) {
			t.Errorf("the log waits for the journal at %d", r.Limit())
		}
		w.change(func() { away = nil })
		later(10 * time.Second)
		at(9)
		before := notes
		later(time.Minute)
		if notes != before {
			t.Errorf("%d notes of a gate that stands", notes-before)
		}
		stop()
		ends(t, over, canceled)
		// The newest meta is gone: what was let through stays.
		w.change(func() { r.meta = ms(7) })
		_, stop, over = w.lead(6, with(6, func(c *owner.Config) { r.open(c); c.Journal = mine }))
		synctest.Wait()
		at(9)
		stop()
		ends(t, over, canceled)
		w.redo = nil
		_, stop, over = w.lead(7, with(7, func(*owner.Config) {}))
		synctest.Wait()
		mine = sink.Journal{}
		at(9)
		w.change(func() { kept = sink.Journal{} })
		stop()
		ends(t, over, canceled)
		_, stop, over = w.lead(8, with(8, func(*owner.Config) {}))
		synctest.Wait()
		at(0)
		stop()
		ends(t, over, canceled)
	})
}

// Who may not see the journal has no use for it without a log, and cannot do without it
// with one.
func TestAJournalThatMayNotBeSeen(t *testing.T) {
	cluster(t, nil, []int64{1}, func(w *world) {
		kept, notes, away := sink.Journal{}, 0, error(cdcerr.MySQLAccessDenied.New("no"))
		with := func(rev scheduler.Revision) func(*owner.Config) {
			return func(c *owner.Config) {
				c.Open = func(context.Context) (sink.Sink, error) { return journaling(w, rev, &kept, &notes, &away) }
			}
		}
		_, stop, over := w.lead(5, with(5))
		synctest.Wait()
		stop()
		ends(t, over, canceled)
		r := withLog(w, "a")
		_, stop, over = w.lead(6, func(c *owner.Config) { with(6)(c); r.open(c) })
		ends(t, over, cdcerr.MySQLAccessDenied.Is)
		stop()
	})
}
