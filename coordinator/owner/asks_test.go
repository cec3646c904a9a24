package owner_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// What a capture cannot go on with ends the run with it; what it rides out is passed on,
// again and again.
func TestFaultsAndWarnings(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		_, _, end := w.lead(5, func(c *owner.Config) {
			c.Fault = func(f scheduler.Fault) error { return cdcerr.MySQLAccessDenied.New("%s of %s", f.Err, f.Capture) }
		})
		w.to(ms(10))
		w.change(func() {
			w.parts["b"].report = func(r *scheduler.Report) { r.Warning, r.Rows, r.Written = "slow", 7, ms(9) }
		})
		later(25 * time.Second)
		if n := len(w.warned); n < 3 || n > 4 || w.warned[0] != (scheduler.Fault{Capture: "b", Err: "slow"}) {
			t.Errorf("warned: %v", w.warned)
		}
		w.change(func() {
			b := w.parts["b"]
			b.half, b.at, b.ddls, b.report = b.half.Next("disk"), map[span.Span]tso.TS{}, 0, nil
		})
		text := ends(t, end, cdcerr.MySQLAccessDenied.Is)
		if !strings.Contains(text, "disk of b") {
			t.Error(text)
		}
	})
}

// What may be one capture's own trouble has its tables go elsewhere within seconds, and the
// run goes on, without it for a while; when the one that took over meets the same, the run ends.
func TestTroubleOfOneCapture(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		fails := func(id capture.ID, why string) {
			w.change(func() {
				p := w.parts[id]
				p.half, p.at, p.ddls = p.half.Next(why), map[span.Span]tso.TS{}, 0
			})
		}
		l, _, end := w.lead(5, func(c *owner.Config) {
			c.Scheduler.Local = func(text string) bool { return strings.Contains(text, "disk") }
			c.Fault = func(f scheduler.Fault) error { return cdcerr.DiskFull.New("%s of %s", f.Err, f.Capture) }
		})
		w.to(ms(10))
		fails("b", "disk")
		w.to(ms(20))
		if w.saved() != ms(20) {
			t.Errorf("saved %d", w.saved())
		}
		for _, s := range l.Standings() {
			if want := map[capture.ID]int{"a": 2}[s.ID]; s.Sets != want || (s.Ails == "disk") != (s.ID == "b") {
				t.Errorf("%+v", s)
			}
		}
		later(40 * time.Second)
		w.to(ms(30))
		for _, s := range l.Standings() {
			if s.Sets != 1 || s.Ails != "" {
				t.Errorf("after its rest: %+v", s)
			}
		}
		fails("b", "disk")
		w.to(ms(40))
		fails("a", "disk")
		if text := ends(t, end, cdcerr.DiskFull.Is); !strings.Contains(text, "disk of a") {
			t.Error(text)
		}
	})
}

// A DDL that waits for some seconds says for what, and no longer when it is done.
func TestDDLThatWaitsSaysForWhat(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		l, stop, end := w.lead(5, nil)
		w.to(ms(10))
		w.change(func() {
			for _, p := range w.parts {
				p.stuck = ms(12)
			}
		})
		w.to(ms(20), alter(7, ms(15), table(1, "t1")))
		later(11 * time.Second)
		if why := l.Waits(); !strings.Contains(why, "DDL job 7 at") || !strings.Contains(why, "waits for rows of table 1, which capture") {
			t.Errorf("%q", why)
		}
		w.change(func() {
			for _, p := range w.parts {
				p.stuck = 0
			}
		})
		later(6 * time.Second)
		if why := l.Waits(); why != "" {
			t.Errorf("done, and waits: %q", why)
		}
		stop()
		_ = end()
	})
}

// A floor that goes back is a belief that does not hold: the run ends with what led
// there, and saves nothing any more.
func TestBrokenBelief(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		_, _, end := w.lead(5, func(c *owner.Config) { c.SaveEvery = time.Minute })
		w.to(ms(10))
		w.change(func() {
			w.parts["b"].report = func(r *scheduler.Report) { r.Floor.Checkpoint = min(r.Floor.Checkpoint, ms(2)) }
		})
		was := w.saved()
		w.to(ms(20))
		text := ends(t, end, cdcerr.Unexpected.Is)
		for _, part := range []string{"went back", "every span is downstream", "it writes", "primary \"b\""} {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in: %s", part, text)
			}
		}
		if w.saved() != was {
			t.Errorf("saved %d after %d", w.saved(), was)
		}
	})
}

// Tables are moved when an operator asks, captures are drained and filled again.
func TestOperators(t *testing.T) {
	cluster(t, two, []int64{1, 2, 3, 4}, func(w *world) {
		l, stop, end := w.lead(5, nil)
		w.to(ms(10))
		of := func(c capture.ID) (n int) {
			for _, s := range l.Standings() {
				if s.ID == c {
					n = s.Sets
				}
			}
			return n
		}
		w.drain("a")
		w.to(ms(11))
		if of("a") != 0 || of("b") != 4 {
			t.Errorf("%d and %d spans after a was drained", of("a"), of("b"))
		}
		if _, err := l.Move(1, "a"); !cdcerr.SchedulerRequest.Is(err) {
			t.Errorf("a move to a capture that is drained: %v", err)
		}
		w.drain("")
		later(100 * time.Millisecond)
		move(t, l, 1, "a")
		later(500 * time.Millisecond)
		if sets := l.Sets(); sets[0].Primary != "a" {
			t.Errorf("%+v", sets[0])
		}
		must(t, l.Rebalance())
		w.to(ms(12))
		if of("a") != 2 || of("b") != 2 || !l.Settled() {
			t.Errorf("%d and %d spans", of("a"), of("b"))
		}
		stop()
		ends(t, end, canceled)
	})
}

// Before a run knows its tables it says so.
func TestAskedTooEarly(t *testing.T) {
	cluster(t, two, []int64{1}, func(w *world) {
		hang := make(chan struct{})
		l, stop, end := w.lead(5, func(c *owner.Config) {
			load := c.Load
			c.Load = func(ctx context.Context, at tso.TS) (owner.Feed, error) {
				<-hang
				return load(ctx, at)
			}
		})
		later(time.Second)
		if _, err := l.Move(1, "a"); !cdcerr.SchedulerRequest.Is(err) {
			t.Error(err)
		}
		if err := l.Rebalance(); !cdcerr.SchedulerRequest.Is(err) {
			t.Error(err)
		}
		if l.Settled() || !l.Rebuilding() || l.Sets() != nil || l.Standings() != nil || l.Resolved() != 0 {
			t.Error("a run that has not begun knows something")
		}
		close(hang)
		w.to(ms(5))
		move(t, l, 1, "a")
		stop()
		ends(t, end, canceled)
	})
}

// Where nobody is fenced off a capture that says nothing keeps its spans, and a new owner
// waiting: that is told again and again. Where it can be fenced off nobody waits.
func TestSilentCaptures(t *testing.T) {
	for _, plain := range []bool{true, false} {
		cluster(t, two, []int64{1, 2}, func(w *world) {
			w.down.plain = plain
			w.parts["b"].deaf = true
			told := map[capture.ID]int{}
			begun := time.Now()
			l, stop, end := w.lead(5, func(c *owner.Config) {
				c.Silent = func(id capture.ID, since time.Time) {
					w.mu.Lock()
					defer w.mu.Unlock()
					if told[id]++; since.Before(begun.Add(-time.Second)) || since.After(begun.Add(time.Second)) {
						t.Errorf("%s is silent since %v, and the run began at %v", id, since, begun)
					}
				}
			})
			of := func() (a, b int) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return told["a"], told["b"]
			}
			w.to(ms(10))
			if a, b := of(); a+b != 0 {
				t.Errorf("plain %v: told at once: %v", plain, told)
			}
			later(time.Minute)
			if a, b := of(); a != 0 || (b > 2) != plain || l.Rebuilding() != plain {
				t.Errorf("plain %v: told %d times of a, %d of b, rebuilding: %v", plain, a, b, l.Rebuilding())
			}
			_, before := of()
			w.change(func() { w.parts["b"].deaf = false })
			w.to(ms(20))
			later(time.Minute)
			if _, b := of(); b != before || w.saved() != ms(20) {
				t.Errorf("plain %v: it is back: told %d times more, saved %d", plain, b-before, w.saved())
			}
			stop()
			ends(t, end, canceled)
		})
	}
}

// Where nobody is left who could take spans, whoever could is missed, fenced off or not.
func TestNobodyTakes(t *testing.T) {
	cluster(t, []capture.ID{"a"}, []int64{1}, func(w *world) {
		w.parts["a"].deaf = true
		told := 0
		_, stop, end := w.lead(5, func(c *owner.Config) {
			c.Silent = func(capture.ID, time.Time) {
				w.mu.Lock()
				defer w.mu.Unlock()
				told++
			}
		})
		w.to(ms(10))
		later(time.Minute)
		w.change(func() {
			if told < 2 {
				t.Errorf("told %d times", told)
			}
		})
		stop()
		ends(t, end, canceled)
	})
}

func TestConfig(t *testing.T) {
	good := func() owner.Config {
		c := owner.Default()
		c.Changefeed = "x"
		return c
	}
	for name, c := range map[string]owner.Config{
		"nothing":      {},
		"no watermark": good(),
	} {
		if _, err := owner.New(c); !cdcerr.InvalidArgument.Is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A capture that does not hear all of the upstream loses its spans while another does, and
// one that leads is told so: somebody else should.
func TestDeafCaptures(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		told := 0
		l, stop, end := w.lead(5, func(c *owner.Config) {
			c.Self, c.Deaf = "a", func() { told++ }
		})
		w.to(ms(10))
		deaf := func(id capture.ID, is bool) {
			w.change(func() { w.parts[id].report = func(r *scheduler.Report) { r.Deaf = is } })
			later(3 * time.Second)
		}
		sets := func(id capture.ID) (n int) {
			for _, s := range l.Standings() {
				if s.ID == id {
					n = s.Sets
				}
			}
			return n
		}
		deaf("b", true)
		if told != 0 || sets("a") != 2 || sets("b") != 0 {
			t.Errorf("b is deaf: told %d times, %d and %d sets", told, sets("a"), sets("b"))
		}
		deaf("a", true)
		if told != 0 || sets("a") == 0 {
			t.Errorf("nobody hears: told %d times, a has %d sets", told, sets("a"))
		}
		deaf("b", false)
		later(20 * time.Second)
		if told == 0 || sets("a") != 0 {
			t.Errorf("a is deaf: told %d times, it has %d sets", told, sets("a"))
		}
		stop()
		_ = end()
	})
}

// move moves what is shown by its own id.
func move(t *testing.T, l *owner.Loop, table span.TableID, to capture.ID) {
	t.Helper()
	if shown, err := l.Move(table, to); err != nil || shown != table {
		t.Fatalf("table %d, shown as %d: %v", table, shown, err)
	}
}

// A unit is shown as its partitions, and moves whichever of them, or its own id, is named.
func TestUnitIsMovedByAnyOfItsIDs(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		unit := table(5, "t5")
		unit.Partitions = []event.Partition{{ID: 7}, {ID: 8}}
		unit.Indexes = []event.Index{{Unique: true, Global: true}}
		w.up.base, w.down.at[5] = append(w.up.base, unit), ms(1)
		l, stop, end := w.lead(5, nil)
		w.to(ms(10))
		on := func() (id capture.ID) {
			for _, s := range l.Sets() {
				if s.Span.TableID == 5 {
					id = s.Primary
				}
			}
			return id
		}
		if got := l.Shown()(5); !slices.Equal(got, []int64{7, 8}) || !slices.Equal(l.Shown()(1), []int64{1}) {
			t.Errorf("5 is shown as %v", got)
		}
		for _, c := range [][2]span.TableID{{7, 7}, {8, 8}, {5, 7}} {
			to := capture.ID("a")
			if on() == to {
				to = "b"
			}
			if shown, err := l.Move(c[0], to); err != nil || shown != c[1] {
				t.Errorf("%d is shown as %d: %v", c[0], shown, err)
			}
			later(500 * time.Millisecond)
			if on() != to {
				t.Errorf("%d was to be moved to %s, and the unit is on %s", c[0], to, on())
			}
		}
		if _, err := l.Move(9, "a"); !cdcerr.SchedulerRequest.Is(err) {
			t.Errorf("what is nobody's: %v", err)
		}
		stop()
		ends(t, end, canceled)
	})
}
