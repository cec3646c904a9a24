package owner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

var two = []capture.ID{"a", "b"}

// at is how far a table is downstream, in milliseconds.
func (w *world) at(id int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down.at[span.TableID(id)].Physical()
}

// change is done under the world's lock.
func (w *world) change(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

func (w *world) saved() tso.TS {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.durable.Checkpoint
}

// later lets some time of the bubble go by.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// ends waits for a run's end, which has to be of this kind, and gives its words.
func ends(t *testing.T, end func() error, want func(error) bool) string {
	t.Helper()
	err := end()
	if !want(err) {
		t.Errorf("the run ends with %v", err)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

func canceled(err error) bool { return errors.Is(err, context.Canceled) }

// A changefeed of two tables is spread over two captures, and its watermark follows.
func TestLeads(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		l, stop, end := w.lead(5, nil)
		w.to(ms(10))
		if p := l.Progress(); p.Saved.Checkpoint != ms(10) || p.Watermark.Checkpoint != ms(10) || !l.Settled() || l.Rebuilding() {
			t.Errorf("%+v, settled: %v", p, l.Settled())
		}
		sets := l.Sets()
		if len(sets) != 2 || sets[0].Primary == sets[1].Primary || sets[0].State != scheduler.ReplicatingState {
			t.Errorf("%+v", sets)
		}
		moves, trace := l.History()
		if len(moves) == 0 || len(trace) == 0 || l.Term().Owner() != 5 || l.Resolved() != ms(10) {
			t.Errorf("moves %v, spans %v, term %d, resolved %d", moves, trace, l.Term(), l.Resolved())
		}
		stop()
		ends(t, end, canceled)
	})
}

// A DDL holds its own table alone, for as long as it takes, and the watermark below it. A
// second one of another table waits its turn, one of the same table until the first is
// done; one that has no table to wait for is the first of those; each is carried out once.
func TestDDLsHoldTheirTables(t *testing.T) {
	cluster(t, two, []int64{1, 2, 3}, func(w *world) {
		l, stop, end := w.lead(5, nil)
		w.to(ms(10))
		go1 := make(chan struct{})
		w.change(func() {
			w.down.ddl = func(ctx context.Context, d *event.DDL) error {
				if d.JobID == 1 {
					<-go1
				}
				return nil
			}
		})
		t1, t2 := table(1, "t1"), table(2, "t2")
		w.to(ms(20), alter(1, ms(20), t1))
		w.expect("", "DDL 1 is begun")
		w.to(ms(30), alter(2, ms(22), t2), alter(3, ms(25), t1), create(4, ms(27), table(9, "t9")))
		if got := []int64{w.at(1), w.at(2), w.at(3)}; !slices.Equal(got, []int64{20, 22, 30}) {
			t.Errorf("tables are at %v", got)
		}
		if p := l.Progress(); p.Watermark.Checkpoint != ms(20).Prev() || p.Saved.Checkpoint != ms(20).Prev() || l.Settled() {
			t.Errorf("%+v", p)
		}
		w.expect("the first takes long")
		close(go1)
		w.to(ms(31))
		w.expect("the first is done", "DDL 1 is done", "DDL 4 is begun", "DDL 4 is done", "DDL 2 is begun", "DDL 2 is done", "DDL 3 is begun", "DDL 3 is done")
		if got := []int64{w.at(1), w.at(2), w.at(3), w.at(9)}; !slices.Equal(got, []int64{31, 31, 31, 31}) || w.saved() != ms(31) {
			t.Errorf("tables are at %v, saved %d", got, w.saved())
		}
		if p := l.Progress(); p.DDLs != 4 || !l.Settled() {
			t.Errorf("%+v", p)
		}
		stop()
		ends(t, end, canceled)
	})
}

// Captures go on from a sync point once it is noted and the watermark at it durable; a
// DDL above waits, also one that holds no table.
func TestSyncPoints(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		_, stop, end := w.lead(5, func(c *owner.Config) { c.Scheduler.SyncEvery, c.SaveEvery = 10, time.Minute })
		w.to(ms(15), create(1, ms(12), table(9, "t9")))
		w.expect("", "sync point 10", "DDL 1 is begun", "DDL 1 is done")
		if w.at(1) != 15 || w.at(2) != 15 || w.at(9) != 15 {
			t.Errorf("tables are at %d, %d and %d", w.at(1), w.at(2), w.at(9))
		}
		w.change(func() { w.saving = func(tso.TS) error { return cdcerr.MetaUnreachable.New("away") } })
		w.to(ms(25))
		w.expect("", "sync point 20")
		if w.at(1) != 20 || w.at(2) != 20 {
			t.Errorf("tables are at %d and %d, sync point 20 is noted, and not durable", w.at(1), w.at(2))
		}
		w.change(func() { w.saving = nil })
		later(2 * time.Minute)
		if w.at(1) != 25 || w.at(2) != 25 {
			t.Errorf("tables are at %d and %d", w.at(1), w.at(2))
		}
		stop()
		ends(t, end, canceled)
	})
}

// What cannot be saved for a while is saved later; meanwhile rows are written on, and a
// DDL that is on record lets its table go on.
func TestSavingFailsForAWhile(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		_, stop, end := w.lead(5, nil)
		w.to(ms(10))
		tried := 0
		w.change(func() {
			w.saving = func(tso.TS) error {
				tried++
				return []error{cdcerr.MetaUnreachable.New("away"), cdcerr.MetaConflict.New("lost")}[tried%2]
			}
		})
		w.to(ms(20), alter(1, ms(15), table(1, "t1")))
		if w.at(1) != 20 || w.at(2) != 20 || w.saved() != ms(10) {
			t.Errorf("tables are at %d and %d, saved %d", w.at(1), w.at(2), w.saved())
		}
		if tried < 5 || tried > 12 {
			t.Errorf("tried %d times in five seconds", tried)
		}
		w.change(func() { w.saving = nil })
		w.to(ms(21))
		if w.saved() != ms(21) {
			t.Errorf("saved %d", w.saved())
		}
		w.change(func() { w.saving = func(tso.TS) error { return cdcerr.MetaCorrupted.New("no such key") } })
		w.to(ms(22))
		ends(t, end, cdcerr.MetaCorrupted.Is)
		stop()
	})
}

// Somebody who waits has what cannot be saved tried no more often.
func TestSavingFailsForWhoWaits(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		w.down.plain = true
		_, stop, end := w.lead(5, nil)
		w.to(ms(10))
		tried := 0
		w.change(func() {
			w.saving = func(tso.TS) error {
				tried++
				return cdcerr.MetaUnreachable.New("away")
			}
		})
		w.to(ms(20), alter(1, ms(15), table(1, "t1")))
		w.expect("")
		if tried < 5 || tried > 12 {
			t.Errorf("tried %d times in five seconds", tried)
		}
		stop()
		ends(t, end, canceled)
	})
}

// How often is bounded, and what is saved is the newest.
func TestSavesAreCoalesced(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		_, stop, end := w.lead(5, nil)
		w.to(ms(10))
		w.saw()
		for i := range 100 {
			w.change(func() {
				w.up.now = ms(11 + int64(i))
				signal(w.up.feeds[0].advanced)
			})
			later(10 * time.Millisecond)
		}
		var saves []string
		for _, x := range w.saw() {
			if strings.HasPrefix(x, "saved") {
				saves = append(saves, x)
			}
		}
		if len(saves) < 2 || len(saves) > 4 {
			t.Errorf("in a second: %v", saves)
		}
		stop()
		ends(t, end, canceled)
		if w.saved() < ms(108) {
			t.Errorf("the run has ended, and %d is saved", w.saved())
		}
	})
}

// A DDL that fails ends the run, at a watermark below it, which is saved.
func TestDDLFails(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		_, _, end := w.lead(5, nil)
		w.change(func() {
			w.down.ddl = func(context.Context, *event.DDL) error { return cdcerr.MySQLAccessDenied.New("no space left") }
		})
		w.to(ms(10))
		w.to(ms(20), alter(1, ms(15), table(1, "t1")))
		text := ends(t, end, cdcerr.MySQLAccessDenied.Is)
		if !strings.Contains(text, "DDL job 1 at") || w.saved() < ms(10) || w.saved() >= ms(15) {
			t.Errorf("%s, saved %d", text, w.saved())
		}
	})
}

// A DDL that brings rows into the changefeed which nobody replicated ends it, in its
// turn: what comes before it is done, and the watermark is just below.
func TestRenameIntoScope(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		_, _, end := w.lead(5, nil)
		out := table(7, "t7")
		out.Schema = "elsewhere"
		rename := &event.DDL{JobID: 2, Action: event.ActionRenameTable, SwitchTS: ms(15), FinishedTS: ms(15), Schema: "d",
			Tables: []event.TableChange{{Before: table(2, "t2"), After: table(2, "old")}, {Before: out, After: table(7, "t2")}}}
		w.to(ms(20), alter(1, ms(13), table(2, "t2")), rename)
		ends(t, end, cdcerr.RenameIntoScope.Is)
		w.expect("", "DDL 1 is begun", "DDL 1 is done")
		if w.saved() != ms(15).Prev() {
			t.Errorf("saved %d", w.saved())
		}
	})
}

// Everything up to the target is downstream, and that is saved, when a run ends there;
// nothing above is carried out.
func TestTarget(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		_, _, end := w.lead(5, func(c *owner.Config) { c.Scheduler.Target, c.SaveEvery = ms(20), time.Minute })
		begun := time.Now()
		w.to(ms(30), alter(1, ms(20), table(1, "t1")), create(2, ms(21), table(9, "t9")))
		ends(t, end, func(err error) bool { return err == nil })
		w.expect("", "DDL 1 is begun", "DDL 1 is done")
		if w.saved() != ms(20) || time.Since(begun) > 10*time.Second {
			t.Errorf("saved %d, after %v", w.saved(), time.Since(begun))
		}
	})
}

// While the leave to write has ended nothing is sent and nothing begun downstream, and no
// capture is taken for silent; with a new one all goes on.
func TestLeaveEnds(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		l, stop, end := w.lead(5, nil)
		w.to(ms(10))
		w.saw()
		w.change(func() { w.leave = time.Now().Add(-time.Second) })
		w.to(ms(20), alter(1, ms(15), table(1, "t1"))) // Line.Send and the sink look at the leave
		w.change(func() { w.parts["b"].deaf = true })
		later(time.Minute)
		w.change(func() { w.parts["b"].deaf = false })
		later(time.Second)
		if got := w.saw("saved"); len(got) > 0 {
			t.Errorf("happened: %v", got)
		}
		w.change(func() { w.leave = time.Now().Add(time.Hour) })
		later(5 * time.Second)
		w.expect("", "DDL 1 is begun", "DDL 1 is done")
		if w.at(1) != 20 || w.saved() != ms(20) || !l.Settled() {
			t.Errorf("table 1 is at %d, saved %d", w.at(1), w.saved())
		}
		stop()
		ends(t, end, canceled)
	})
}

// A DDL whose turn has come behind another one is not begun when the leave has ended
// meanwhile.
func TestLeaveEndsBetweenErrands(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		_, stop, end := w.lead(5, nil)
		w.to(ms(10))
		w.change(func() {
			w.down.ddl = func(context.Context, *event.DDL) error {
				w.change(func() { w.leave = time.Now() })
				return nil
			}
		})
		w.to(ms(20), alter(1, ms(15), table(1, "t1")), alter(2, ms(15), table(2, "t2")))
		if got := w.saw("->", "saved"); len(got) != 2 || len(w.down.done) != 1 {
			t.Errorf("happened: %q", got)
		}
		w.change(func() { w.leave, w.down.ddl = time.Time{}, nil })
		later(time.Second)
		if got := w.saw("->", "saved"); len(got) != 2 || len(w.down.done) != 2 {
			t.Errorf("happened: %q", got)
		}
		stop()
		ends(t, end, canceled)
	})
}

// A capture that is not heard is fenced off, and its spans go on elsewhere, under a long
// DDL too.
func TestSilentCaptureIsFencedOff(t *testing.T) {
	cluster(t, two, []int64{1, 2, 3, 4}, func(w *world) {
		l, stop, end := w.lead(5, nil)
		w.to(ms(10))
		hang := make(chan struct{})
		w.change(func() { w.down.ddl = func(context.Context, *event.DDL) error { <-hang; return nil } })
		w.to(ms(12), alter(1, ms(11), table(1, "t1")))
		w.change(func() { w.parts["b"].deaf = true })
		w.to(ms(20))
		if w.at(2) != 20 || w.at(3) != 20 || w.at(4) != 20 || w.at(1) != 11 {
			t.Errorf("tables are at %d, %d, %d, %d", w.at(1), w.at(2), w.at(3), w.at(4))
		}
		if got := w.saw("->", "saved"); !slices.Equal(got[:2], []string{"DDL 1 is begun", "b is fenced off"}) {
			t.Errorf("happened: %v", got)
		}
		close(hang)
		w.change(func() { w.parts["b"].deaf = false })
		w.to(ms(30))
		if w.saved() != ms(30) || !l.Settled() {
			t.Errorf("saved %d, settled: %v", w.saved(), l.Settled())
		}
		// A fence that cannot be raised ends the run.
		w.change(func() {
			w.parts["b"].deaf = true
			w.down.raise = func(context.Context, capture.ID) error { return cdcerr.MySQLAccessDenied.New("read only") }
		})
		if _, err := l.Move(1, "b"); err != nil && !cdcerr.SchedulerRequest.Is(err) {
			t.Error(err)
		}
		w.to(ms(31))
		stop()
		ends(t, end, cdcerr.MySQLAccessDenied.Is)
	})
}

// Where nobody keeps a record of DDLs, each waits until the watermark just below it is
// durable, and those that wait hold nothing that the watermark waits for.
func TestNoRecord(t *testing.T) {
	for _, plain := range []bool{true, false} {
		noRecord(t, plain)
	}
}

func noRecord(t *testing.T, plain bool) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		w.down.plain, w.down.noKept = plain, !plain
		_, stop, end := w.lead(5, func(c *owner.Config) { c.SaveEvery = time.Minute })
		w.to(ms(10))
		w.change(func() { w.parts["a"].stuck, w.parts["b"].stuck = ms(12), ms(12) })
		// Of the DDLs those of no table are handed out first.
		w.to(ms(20), alter(1, ms(14), table(1, "t1")), create(2, ms(16), table(9, "t9")), alter(3, ms(18), table(2, "t2")))
		w.expect("")
		w.change(func() { w.parts["a"].stuck, w.parts["b"].stuck = 0, 0 })
		w.to(ms(21))
		w.expect("", "DDL 1 is begun", "DDL 1 is done", "DDL 2 is begun", "DDL 2 is done", "DDL 3 is begun", "DDL 3 is done")
		if w.saved() < ms(18).Prev() || w.at(1) != 21 {
			t.Errorf("saved %d, table 1 is at %d", w.saved(), w.at(1))
		}
		stop()
		ends(t, end, canceled)
	})
}

// What is not sent downstream is on no record there: a TRUNCATE that is ignored lets the
// rows of its new table go on only when the next owner would know of it.
func TestIgnoredTruncateWaits(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		rules, err := filter.New(filter.Config{Rules: []string{"d.*"}, EventFilters: []filter.EventFilter{{Matcher: []string{"d.t1"}, IgnoreEvent: []string{"truncate table"}}}})
		must(t, err)
		w.scope.Rules = rules
		l, stop, end := w.lead(5, nil)
		w.to(ms(10))
		w.change(func() { w.saving = func(tso.TS) error { return cdcerr.MetaUnreachable.New("away") } })
		w.to(ms(20), truncate(1, ms(15), table(1, "t1"), table(8, "t1")))
		if w.at(1) != 15 || w.at(2) != 20 || w.at(8) != 0 {
			t.Errorf("tables 1, 2 and 8 are at %d, %d and %d, saved %d", w.at(1), w.at(2), w.at(8), w.saved())
		}
		w.change(func() { w.saving = nil })
		w.to(ms(21))
		if w.at(8) != 21 || w.saved() != ms(21) || !l.Settled() {
			t.Errorf("table 8 is at %d, saved %d", w.at(8), w.saved())
		}
		w.expect("")
		stop()
		ends(t, end, canceled)
	})
}
