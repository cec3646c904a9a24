package agent_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// inBubble runs a part in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, w *owned)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, startPart(t, nil)) })
}

// A part that nobody gave anything says so, and neither reads the schema nor anything
// else; before an owner was heard it says nothing at all.
func TestNothingIsBegunForNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		pass(time.Second)
		if n := len(w.line.reports()); n > 0 {
			t.Fatalf("%d reports to nobody", n)
		}
		w.say()
		pass(time.Second)
		synctest.Wait()
		if n := len(w.line.reports()); n < 5 || n > 7 {
			t.Errorf("%d reports in a second without news", n)
		}
		if len(w.path.feeds())+len(w.path.engines()) > 0 {
			t.Error("something was begun")
		}
	})
}

// phases brings a span to each phase.
var phases = map[scheduler.Phase]func(w *owned){
	scheduler.Absent:    func(*owned) {},
	scheduler.Preparing: func(w *owned) { w.say(prepare(1)) },
	scheduler.Prepared:  func(w *owned) { w.say(prepare(1)); w.arrived(1, 120) },
	scheduler.Writing:   func(w *owned) { w.writes(1) },
	scheduler.Stopping:  func(w *owned) { w.writes(1); w.say(stop(1)) },
	scheduler.Stopped:   func(w *owned) { w.writes(1); w.say(stop(1)); w.ended(1, 130) },
}

// Every order in every phase: what the engine is told, and what the owner.
func TestOrdersInEveryPhase(t *testing.T) {
	none := []string(nil)
	cases := []struct {
		in    scheduler.Phase
		order scheduler.Order
		calls []string
		then  scheduler.Phase
	}{
		{scheduler.Absent, prepare(1), []string{"prepare 1 from 100"}, scheduler.Preparing},
		{scheduler.Absent, write(1, 110), none, scheduler.Stopped},
		{scheduler.Absent, stop(1), none, scheduler.Stopped},
		{scheduler.Preparing, prepare(1), none, scheduler.Preparing},
		{scheduler.Preparing, write(1, 110), none, scheduler.Preparing},
		{scheduler.Preparing, stop(1), []string{"stop 1"}, scheduler.Stopped},
		{scheduler.Prepared, prepare(1), none, scheduler.Prepared},
		{scheduler.Prepared, write(1, 110), []string{"write 1 from 110"}, scheduler.Writing},
		{scheduler.Prepared, stop(1), []string{"stop 1"}, scheduler.Stopped},
		{scheduler.Writing, prepare(1), none, scheduler.Writing},
		{scheduler.Writing, write(1, 110), none, scheduler.Writing},
		{scheduler.Writing, stop(1), []string{"stop 1"}, scheduler.Stopping},
		{scheduler.Stopping, prepare(1), none, scheduler.Stopping},
		{scheduler.Stopping, write(1, 110), none, scheduler.Stopping},
		{scheduler.Stopping, stop(1), none, scheduler.Stopping},
		{scheduler.Stopped, prepare(1), none, scheduler.Stopped},
		{scheduler.Stopped, write(1, 110), none, scheduler.Stopped},
		{scheduler.Stopped, stop(1), none, scheduler.Stopped},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%v when %v", c.order.Verb, c.in), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *owned) {
				phases[c.in](w)
				if len(w.path.engines()) > 0 {
					w.engine().take()
				}
				w.say(c.order)
				if got := w.phase(1); got != c.then {
					t.Errorf("it is %v, want %v", got, c.then)
				}
				if len(w.path.engines()) > 0 || len(c.calls) > 0 {
					w.did(c.calls...)
				}
				w.seq-- // the same message comes again, and does nothing
				w.say(c.order)
				if len(w.path.engines()) > 0 {
					w.did()
				}
			})
		})
	}
}

// Messages of the owner before, of another run, of a capture that was here before and
// of a life that is over do nothing; the owner after goes on with what there is.
func TestOwners(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.writes(1)
		w.feed().resolve(200)
		was := w.head
		for _, h := range []scheduler.Head{
			{Owner: owner1 - 1, Epoch: 3, Capture: "c", Incarnation: 1, Term: 50},
			{Owner: owner1, Epoch: 2, Capture: "c", Incarnation: 1, Term: 50},
			{Owner: owner1, Epoch: 3, Capture: "b", Incarnation: 1, Term: 50},
			{Owner: owner1, Epoch: 3, Capture: "c", Incarnation: 2, Term: 50},
			{Owner: owner1, Epoch: 3, Capture: "c", Incarnation: 1, Term: 49},
		} {
			w.head = h
			w.say(stop(1), prepare(2))
			w.did()
		}
		w.head = was
		if w.engine().limit(1) != 200 {
			t.Errorf("limit %d", w.engine().limit(1))
		}
		// A new owner asks; what is written goes on meanwhile, up to where it may.
		w.head.Owner, w.head.Incarnation, w.head.Term, w.seq = owner2, 0, 0, 0
		w.line.forget()
		w.sayAt(scheduler.Barrier{})
		pass(10 * time.Millisecond)
		synctest.Wait()
		r := w.line.reports()
		if len(r) != 1 || r[0].Owner != owner2 || !r[0].Complete || len(r[0].Statuses) != 1 || r[0].Statuses[0].Phase != scheduler.Writing {
			t.Fatalf("the new owner hears %+v", r)
		}
		w.feed().resolve(300)
		if got := w.engine().limit(1); got != 300 {
			t.Errorf("limit %d while an owner looks around", got)
		}
		w.moved(1, 300)
		if f := w.heard().Floor; f.Checkpoint != 300 {
			t.Errorf("floor %v", f)
		}
		// The owner before does not count any more.
		w.head.Owner, w.seq = owner1, 1000
		w.head.Incarnation, w.head.Term = 1, 50
		w.say(stop(1))
		w.did()
	})
}

// News is told soon, and however much it is, in one report every ten milliseconds.
func TestNewsIsGathered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.writes(1)
		w.line.forget()
		begun := time.Now()
		for i := range 1000 {
			w.moved(1, tso.TS(200+i))
			pass(100 * time.Microsecond)
		}
		synctest.Wait()
		if n := len(w.line.when); n < 9 || n > 11 {
			t.Errorf("%d reports in 100 ms", n)
		}
		if first := w.line.when[0].Sub(begun); first > 10*time.Millisecond {
			t.Errorf("the first after %v", first)
		}
		pass(10 * time.Millisecond)
		synctest.Wait()
		if f := w.heardLast().Floor; f.Checkpoint != 1199 {
			t.Errorf("floor %v", f)
		}
	})
}

func (w *owned) heardLast() scheduler.Report {
	all := w.line.reports()
	return all[len(all)-1]
}

// A barrier that comes alone is no reason to answer, and every one for the engine to look.
func TestHeartbeats(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.writes(1)
		w.heard()
		w.engine().looked()
		w.line.forget()
		for i := range 15 {
			w.sayAt(scheduler.Barrier{Known: true, Passed: tso.TS(100 + i), Sync: tso.Max})
			pass(10 * time.Millisecond)
		}
		if n := len(w.line.when); n > 1 {
			t.Errorf("%d reports in 150 ms without news", n)
		}
		if n := w.engine().looked(); n != 15 {
			t.Errorf("%d looks at limits that have moved 15 times", n)
		}
		for range 10 {
			w.sayAt(scheduler.Barrier{Known: true, Passed: 114, Sync: tso.Max})
		}
		if n := w.engine().looked(); n != 0 {
			t.Errorf("%d looks at limits that have not moved", n)
		}
	})
}

func alter(id int64, at tso.TS) *event.DDL {
	t := &event.Table{ID: id, Schema: "d", Name: fmt.Sprint("t", id)}
	return &event.DDL{JobID: int64(at), Action: event.ActionAddIndex, SwitchTS: at, FinishedTS: at, Tables: []event.TableChange{{Before: t, After: t}}}
}

// Rows wait at the DDL of their table until it is done, and the others' go on; that it
// was reached is told. DDLs and the sync point come before the resolved-ts that passes
// them. What lies below the barrier is forgotten, and no earlier.
func TestRowsWaitForTheirTablesDDL(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.writes(1)
		w.writes(2)
		w.feed().resolve(200, alter(1, 150))
		if a, b := w.engine().limit(1), w.engine().limit(2); a != 150 || b != 200 {
			t.Fatalf("limits %d and %d", a, b)
		}
		if w.engine().looked() == 0 {
			t.Error("the engine does not look")
		}
		w.moved(2, 200)
		w.moved(1, 150)
		if r := w.heard(); r.Floor.Checkpoint != 150 {
			t.Errorf("floor %v", r.Floor)
		} else if s := r.Statuses[len(r.Statuses)-1]; s.Span.TableID != 1 || s.Checkpoint != 150 {
			t.Errorf("last news %+v", s)
		}
		w.sayAt(scheduler.Barrier{Known: true, Passed: 149, Sync: 180, Tables: []scheduler.Passed{{Table: 1, TS: 150}}})
		if a, b := w.engine().limit(1), w.engine().limit(2); a != 180 || b != 180 {
			t.Errorf("limits %d and %d, the sync point is at 180", a, b)
		}
		if at := w.feed().forgotten(); at != 149 {
			t.Errorf("forgotten below %d", at)
		}
		w.sayAt(scheduler.Barrier{Known: true, Passed: 1000, Sync: tso.Max})
		if at := w.feed().forgotten(); at != 200 {
			t.Errorf("forgotten below %d, known up to 200", at)
		}
	})
}

// A writer's grants are of the term, and as long as the lease is at that moment. Rows of
// a span wait until it is known up to where others may have written it.
func TestGrants(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.path.present(0, errors.New("PD is away"))
		w.say(prepare(1))
		w.feed().resolve(500)
		w.arrived(1, 120)
		w.lease = time.Now().Add(time.Second)
		w.say(write(1, 110))
		_, err := w.engine().cfg.Open(t.Context())
		must(t, err)
		o := w.opened[0]
		if o.Term != 50 || o.Filter == nil {
			t.Errorf("opened with %+v", o)
		}
		if got := w.engine().limit(1); got != 0 {
			t.Errorf("limit %d before it is known what was written", got)
		}
		w.path.present(1000, nil)
		w.engine().looked()
		pass(200 * time.Millisecond)
		synctest.Wait()
		if got := w.engine().limit(1); got != 500 || o.Replayed() != 1000 || w.engine().looked() == 0 {
			t.Errorf("limit %d, replayed up to %d", got, o.Replayed())
		}
		if g := w.engine().cfg.Grant(); g.Fence != 50 || g.Epoch != 3 || !g.Deadline.Equal(w.lease) {
			t.Errorf("grant %+v", g)
		}
		w.lease = w.lease.Add(time.Second)
		if g := w.engine().cfg.Grant(); !g.Deadline.Equal(w.lease) {
			t.Errorf("grant %+v", g)
		}
		// Spans that come later raise it.
		w.path.present(2000, nil)
		w.writes(2)
		if o.Replayed() != 2000 {
			t.Errorf("replayed up to %d", o.Replayed())
		}
	})
}

// The engine speaks of what was stopped until it has ended, and so does not end, or get
// ready, what was begun under the same name since.
func TestWordsOfWhatWasStopped(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.say(prepare(1))
		w.say(stop(1))
		n := w.heard().Upto
		w.seq++
		h := w.head
		h.Seq = w.seq
		w.line.give(scheduler.Orders{Head: h, Ack: n})
		w.say(prepare(1))
		w.arrived(1, 150) // of the first
		if p := w.phase(1); p != scheduler.Preparing {
			t.Fatalf("it is %v by the word of what was stopped", p)
		}
		w.ended(1, 0)
		w.arrived(1, 150)
		w.say(write(1, 110))
		w.say(stop(1))
		if p := w.phase(1); p != scheduler.Stopping {
			t.Fatalf("it is %v", p)
		}
		w.ended(1, 170)
		r := w.heard()
		if s := r.Statuses[0]; s.Phase != scheduler.Stopped || s.Checkpoint != 170 {
			t.Errorf("it is %+v", s)
		}
	})
}

// A part that was fenced off ends engine and sink before it does or says anything under
// its new term, and heeds nothing that the old engine says. The schema stays.
func TestReset(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.path.endSlow = make(chan struct{})
		w.writes(1)
		w.say(prepare(2))
		first := w.engine()
		w.head.Term = 60
		w.line.forget()
		w.say()
		w.say(prepare(3), prepare(2))
		first.cfg.Tell(pipeline.Told{Span: span.OfTable(2), What: pipeline.Arrived, Resolved: 200})
		pass(time.Minute)
		synctest.Wait()
		if n := len(w.line.reports()); n > 0 || !first.running.Load() || len(w.path.engines()) > 1 {
			t.Fatalf("%d reports, %d engines while the old one still ends", n, len(w.path.engines()))
		}
		if g := first.cfg.Grant(); g.Fence != 50 {
			t.Errorf("the old engine writes under %d", g.Fence)
		}
		close(w.path.endSlow)
		w.did("prepare 3 from 100", "prepare 2 from 100")
		r := w.heard()
		if r.Term != 60 || r.Fault != "" || r.Writes != 0 || len(r.Statuses) != 2 {
			t.Errorf("told %+v", r)
		}
		for _, s := range r.Statuses {
			if s.Phase != scheduler.Preparing {
				t.Errorf("told %+v", s)
			}
		}
		if len(w.path.feeds()) != 1 {
			t.Errorf("%d feeds", len(w.path.feeds()))
		}
		w.arrived(2, 150)
		w.say(write(2, 120))
		if g := w.engine().cfg.Grant(); g.Fence != 60 {
			t.Errorf("the new engine writes under %d", g.Fence)
		}
	})
}

// Two resets at once are one, and orders between them are of nobody.
func TestResetTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.path.endSlow = make(chan struct{})
		w.writes(1)
		for term := scheduler.Term(60); term < 63; term++ {
			w.head.Term = term
			w.say(prepare(int64(term)))
		}
		close(w.path.endSlow)
		w.did("prepare 62 from 100")
		if r := w.heard(); len(r.Statuses) != 1 || r.Term != 62 {
			t.Errorf("told %+v", r)
		}
	})
}

// What the sink rides out is told until what had been read is downstream. What was done
// is counted over engines, and told by lives.
func TestWarningsAndCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.writes(1)
		_, err := w.engine().cfg.Open(t.Context())
		must(t, err)
		w.tell(pipeline.Told{Span: span.OfTable(1), What: pipeline.Moved, Checkpoint: 200, Resolved: 300})
		w.opened[0].Warn(errors.New("slow"))
		w.engine().done(pipeline.Progress{Rows: 7, Written: 190})
		w.moved(1, 250)
		w.deaf.Store(true)
		if r := w.heard(); r.Warning != "told: slow" || !r.Deaf || r.Rows != 7 || r.Written != 190 {
			t.Errorf("told %+v", r)
		}
		w.moved(1, 300)
		if r := w.heard(); r.Warning != "told: slow" { // as where nothing more has come, and nothing moves
			t.Errorf("told %+v", r)
		}
		w.moved(1, 301)
		w.deaf.Store(false)
		if r := w.heard(); r.Warning != "" || r.Deaf {
			t.Errorf("told %+v", r)
		}
		if p := w.part.Progress(); p.Rows != 7 || p.Checkpoint != 301 {
			t.Errorf("progress %+v", p)
		}
		w.engine().failed <- errors.New("boom")
		synctest.Wait()
		w.say()
		if r := w.heard(); r.Rows != 0 || r.Incarnation != 2 {
			t.Errorf("told %+v", r)
		}
		if p := w.part.Progress(); p.Rows != 7 || p.Checkpoint != 99 {
			t.Errorf("progress %+v", p)
		}
	})
}

// How a span is loaded is told once it was written for all of the time that was counted:
// its regions, and its traffic with what came before it, each when it is another.
func TestLoad(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.path.regions.Store(7)
		w.writes(1)
		for i, c := range []struct {
			bytes, want uint64
			regions     int32 // are counted every 30 s
		}{{8000, 0, 0}, {1000, 100, 7}, {4000, 190, 7}, {1900, 190, 9}, {0, 133, 9}, {1340, 133, 9}} {
			if i == 2 {
				w.path.regions.Store(9)
			}
			for range 2 {
				w.tell(pipeline.Told{Span: span.OfTable(1), What: pipeline.Moved, Checkpoint: tso.TS(200 + i), Resolved: 300, Traffic: c.bytes / 2})
			}
			pass(10 * time.Second)
			s := w.heard().Statuses
			if len(s) != 1 || s[0].Traffic < c.want*9/10 || s[0].Traffic > c.want || s[0].Regions != uint32(c.regions) {
				t.Errorf("%d: %d bytes in 10 s: told %+v, want %d of %d regions", i, c.bytes, s, c.want, c.regions)
			}
		}
	})
}

// A capture on its way out says so in every report; its part is empty when it is.
func TestStopping(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.writes(1)
		w.liveness = capture.Stopping
		w.moved(1, 200)
		if r := w.heard(); r.Liveness != capture.Stopping {
			t.Errorf("told %+v", r)
		}
		if w.part.Len() != 1 || len(w.part.Spans()) != 1 {
			t.Errorf("%d spans", w.part.Len())
		}
		w.say(stop(1))
		w.ended(1, 210)
		n := w.heard().Upto
		w.seq++
		h := w.head
		h.Seq = w.seq
		w.line.give(scheduler.Orders{Head: h, Ack: n})
		synctest.Wait()
		if w.part.Len() != 0 {
			t.Errorf("%d spans", w.part.Len())
		}
	})
}

func TestPartConfig(t *testing.T) {
	if _, err := agent.NewPart(agent.PartConfig{}, &path{}); !cdcerr.InvalidArgument.Is(err) {
		t.Errorf("got %v", err)
	}
	if _, err := (&agent.Capture{}).Part(agent.PartConfig{Name: "a", ID: "c", Epoch: 1, StartTS: 100, Checkpoint: 98}); !cdcerr.InvalidArgument.Is(err) {
		t.Errorf("got %v", err)
	}
}
