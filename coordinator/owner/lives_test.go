package owner_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// An owner is deposed before each thing that it does outside, in turn. It ends, by
// whichever of them tells it, and the next one brings everything to an end; what holds
// meanwhile is looked at by the fakes.
func TestDeposedAtEachStep(t *testing.T) {
	for _, kind := range []string{"open", "who has floors", "read the record", "load", "save", "DDL", "note that the DDL is done", "sync point", "fence off"} {
		t.Run(kind, func(t *testing.T) {
			n := 1
			for deposedBefore(t, kind, n) {
				n++
			}
			if n == 1 {
				t.Error("nobody was")
			}
		})
	}
}

// deposedBefore deposes an owner before the nth of its calls of a kind; false: there are
// not so many.
func deposedBefore(t *testing.T, kind string, n int) (deposed bool) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		sync := func(c *owner.Config) { c.Scheduler.SyncEvery = 10 }
		var next *owner.Loop
		calls := 0
		w.asked = func(rev scheduler.Revision, what string) {
			if rev != 5 || what != kind {
				return
			}
			if calls++; calls == n {
				next, _, _ = w.lead(6, sync)
				later(50 * time.Millisecond) // it may come as far as it can with us in the way
			}
		}
		_, stop, end := w.lead(5, sync)
		w.to(ms(10))
		w.to(ms(25), alter(1, ms(15), table(1, "t1")), create(2, ms(17), table(9, "t9")), alter(3, ms(21), table(2, "t2")))
		w.change(func() { w.parts["b"].deaf = true })
		w.to(ms(27))
		w.change(func() { w.parts["b"].deaf = false })
		w.to(ms(28), truncate(4, ms(28), table(9, "t9"), table(10, "t9")))
		w.to(ms(29))
		if w.saved() != ms(29) || len(w.down.done) != 4 || w.at(10) != 29 {
			t.Errorf("deposed before the %d. time: saved %d, %d DDLs, table 10 is at %d", n, w.saved(), len(w.down.done), w.at(10))
		}
		stop() // who has nothing to save hears of it from its session
		if err := end(); !cdcerr.NotOwner.Is(err) && !cdcerr.Fenced.Is(err) && !canceled(err) {
			t.Errorf("deposed before the %d. time: %v", n, err)
		}
		if deposed = next != nil; deposed && !next.Settled() {
			t.Errorf("deposed before the %d. time: %+v", n, next.Sets())
		}
	})
	return deposed
}

// A DDL that was begun in one life is carried out first in the next, and no row from
// before it comes again, although the watermark is far below.
func TestDDLBegunInTheLifeBefore(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		_, _, end := w.lead(5, nil)
		w.to(ms(10))
		w.change(func() {
			w.parts["a"].stuck = ms(12) // one of the tables holds the watermark
			w.parts["b"].stuck = ms(12)
		})
		w.to(ms(20))
		w.change(func() {
			w.saving = func(tso.TS) error { return cdcerr.MetaUnreachable.New("away") }
			w.down.ddl = func(context.Context, *event.DDL) error { return cdcerr.MySQLConnection.New("gone") }
			w.parts["a"].stuck, w.parts["b"].stuck = 0, 0
		})
		w.to(ms(30), alter(1, ms(25), table(1, "t1")))
		ends(t, end, cdcerr.MySQLConnection.Is)
		w.expect("", "DDL 1 is begun")
		// All captures are lost with the owner, so that nothing is where it was.
		w.change(func() {
			w.saving, w.down.ddl = nil, nil
			for _, p := range w.parts {
				p.deaf = true
			}
			w.members = nil
			w.up.ddls = slices.Insert(w.up.ddls, 0, create(2, ms(14), table(9, "t9")))
		})
		if w.saved() != ms(12) {
			t.Fatalf("saved %d", w.saved())
		}
		w.join("c")
		_, stop, end := w.lead(6, nil)
		w.to(ms(31))
		got := w.saw("saved")
		if i := slices.Index(got, "DDL 1 is begun"); i < 0 || slices.ContainsFunc(got[:i], func(x string) bool { return x == "DDL 2 is begun" }) {
			t.Errorf("happened: %q", got)
		}
		if !slices.Contains(got, "-> c prepare 1 from "+ms(25).String()) || !slices.Contains(got, "-> c prepare 2 from "+ms(12).String()) {
			t.Errorf("happened: %q", got)
		}
		if w.saved() != ms(31) {
			t.Errorf("saved %d", w.saved())
		}
		stop()
		ends(t, end, canceled)
	})
}

// What is on record as done is not carried out again, by name or, as earlier releases
// noted it, by all that lies below.
func TestDDLsOnRecord(t *testing.T) {
	for name, record := range map[string][]sink.Recorded{
		"each":  {{Job: 1, TS: ms(15), Done: true, Tables: []int64{1}}, {Job: 3, TS: ms(17), Done: true, Tables: []int64{1}}},
		"below": {{TS: ms(18)}, {Job: 4, TS: ms(18), Done: true, Tables: []int64{2}}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster(t, two, []int64{1, 2}, func(w *world) {
				t1, t2 := table(1, "t1"), table(2, "t2")
				w.change(func() {
					w.down.at[1] = ms(17)
					if name == "below" {
						w.down.at[2] = ms(18)
					}
				})
				_, stop, end := w.lead(5, func(c *owner.Config) {
					open := c.Open
					c.Open = func(ctx context.Context) (sink.Sink, error) {
						to, err := open(ctx)
						return recorded{to.(fullSink), record}, err
					}
				})
				w.change(func() {
					for _, job := range []int64{1, 3, 4}[:map[string]int{"each": 2, "below": 3}[name]] {
						w.down.done[job] = 1
					}
				})
				w.to(ms(5))
				if got := w.saw(); len(got) > 0 {
					t.Errorf("before the schema is known up to the record: %q", got)
				}
				w.to(ms(30), alter(1, ms(15), t1), alter(3, ms(17), t1), alter(4, ms(18), t2))
				got := w.saw("saved")
				if begun := slices.Contains(got, "DDL 4 is begun"); begun != (name == "each") || slices.Contains(got, "DDL 1 is begun") || slices.Contains(got, "DDL 3 is begun") {
					t.Errorf("happened: %q", got)
				}
				from := "-> b prepare 1 from " + ms(17).String()
				if !slices.Contains(got, from) && !slices.Contains(got, "-> a"+from[len("-> b"):]) {
					t.Errorf("happened: %q", got)
				}
				if w.saved() != ms(30) {
					t.Errorf("saved %d", w.saved())
				}
				stop()
				ends(t, end, canceled)
			})
		})
	}
}

// recorded is a sink with another record.
type recorded struct {
	fullSink
	all []sink.Recorded
}

func (r recorded) Keeps() bool { return true }

func (r recorded) Recorded(context.Context) ([]sink.Recorded, error) { return r.all, nil }

// A DDL that failed and that an operator has left out since is not carried out, and rows
// from before it do not come again.
func TestDDLLeftOutSince(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		d := alter(1, ms(15), table(1, "t1"))
		w.change(func() { w.down.ddl = func(context.Context, *event.DDL) error { return cdcerr.MySQLQuery.New("no") } })
		_, _, end := w.lead(5, nil)
		w.to(ms(20), d)
		ends(t, end, cdcerr.MySQLQuery.Is)
		w.saw()
		rules, err := filter.New(filter.Config{Rules: []string{"d.*"}, EventFilters: []filter.EventFilter{{Matcher: []string{"d.t1"}, IgnoreEvent: []string{"add column"}}}})
		must(t, err)
		w.change(func() {
			w.scope.Rules = rules
			w.down.begun = nil // its rows are looked at by what is prepared
			for _, p := range w.parts {
				p.deaf = true
			}
			w.members = nil
		})
		w.join("c")
		_, stop, end := w.lead(6, func(c *owner.Config) {
			open := c.Open
			c.Open = func(ctx context.Context) (sink.Sink, error) {
				to, err := open(ctx)
				return recorded{to.(fullSink), []sink.Recorded{{Job: 1, TS: ms(15), Tables: []int64{1}}}}, err
			}
		})
		w.to(ms(30))
		if got := w.saw("saved"); !slices.Contains(got, "-> c prepare 1 from "+ms(15).String()) || slices.Contains(got, "DDL 1 is begun") {
			t.Errorf("happened: %q", got)
		}
		if w.saved() != ms(30) {
			t.Errorf("saved %d", w.saved())
		}
		stop()
		ends(t, end, canceled)
	})
}

// Two runs of one reign share no term: what a capture wrote under in the first is below
// all of the second.
func TestRunsOfOneReign(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		l, stop, end := w.lead(5, nil)
		w.to(ms(10))
		stop()
		ends(t, end, canceled)
		w.change(func() {
			for id, p := range w.parts {
				half, err := scheduler.NewCapture(scheduler.CaptureConfig{ID: id, Epoch: 2, Incarnation: 1, StatusesMax: 100})
				must(t, err)
				p.half, p.ddls = half, 0
				clear(p.at)
			}
		})
		first := l.Term()
		_, stop, end = w.lead(5, func(c *owner.Config) { c.Term, c.Scheduler.Epoch = first, 2 })
		w.to(ms(20))
		w.change(func() {
			for id, p := range w.parts {
				if p.half.Term() <= first {
					t.Errorf("%s has term %d, and %d was given in the run before", id, p.half.Term(), first)
				}
			}
		})
		if w.saved() != ms(20) {
			t.Errorf("saved %d", w.saved())
		}
		stop()
		ends(t, end, canceled)
	})
}

// What cannot be begun ends the run, and leaves no connection behind.
func TestBeginningFails(t *testing.T) {
	fails := errors.New("it fails")
	for name, change := range map[string]func(*owner.Config){
		"open": func(c *owner.Config) { c.Open = func(context.Context) (sink.Sink, error) { return nil, fails } },
		"load": func(c *owner.Config) {
			c.Load = func(context.Context, tso.TS) (owner.Feed, error) { return nil, fails }
		},
		"record": func(c *owner.Config) {
			open := c.Open
			c.Open = func(ctx context.Context) (sink.Sink, error) {
				to, err := open(ctx)
				return refusing{to.(fullSink), fails}, err
			}
		},
	} {
		cluster(t, two, []int64{1}, func(w *world) {
			l, _, end := w.lead(5, change)
			if err := end(); !errors.Is(err, fails) {
				t.Errorf("%s: %v", name, err)
			}
			if l.Term() != 0 {
				t.Errorf("%s: term %d", name, l.Term())
			}
		})
	}
}

// refusing is a sink that cannot tell what is on record.
type refusing struct {
	fullSink
	err error
}

func (r refusing) Keeps() bool { return true }

func (r refusing) Recorded(context.Context) ([]sink.Recorded, error) { return nil, r.err }
