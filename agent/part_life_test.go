package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/tso"
)

// Whatever fails, wherever: everything has ended before the next life says a word, the
// owner is told why, if it is not that somebody else has the place; and it begins anew.
func TestLives(t *testing.T) {
	boom := errors.New("boom")
	engineFails := func(err error) func(w *owned) {
		return func(w *owned) { w.engine().failed <- err }
	}
	for name, c := range map[string]struct {
		fail  func(w *owned)
		fault string
	}{
		"engine":          {engineFails(boom), "told: boom"},
		"engine for good": {engineFails(nil), "told: [CDC:ErrUnexpected]"},
		"fenced":          {engineFails(fmt.Errorf("writing: %w", cdcerr.Fenced.New("a later one"))), ""},
		"leave ended":     {engineFails(cdcerr.LeaveEnded.New("at noon")), ""},
		"feed":            {func(w *owned) { w.feed().failed <- boom }, "told: boom"},
	} {
		for phase, to := range phases {
			if phase == scheduler.Absent {
				continue
			}
			t.Run(fmt.Sprintf("%s fails, %v", name, phase), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *owned) {
					to(w)
					old, feed := w.engine(), w.feed()
					w.line.forget()
					began := time.Now()
					c.fail(w)
					synctest.Wait()
					if old.running.Load() || !feed.ended.Load() {
						t.Error("something runs on")
					}
					w.say(prepare(1)) // for the life that is over
					pass(10 * time.Millisecond)
					synctest.Wait()
					r := w.heardLast()
					if r.Incarnation != 2 || len(r.Statuses) > 0 || len(r.Fault) < len(c.fault) || r.Fault[:len(c.fault)] != c.fault || c.fault == "" && r.Fault != "" {
						t.Fatalf("told %+v", r)
					}
					w.head.Incarnation, w.head.Term = 2, 61
					w.say(prepare(1))
					if w.heard().Fault != "" {
						t.Error("the fault is told to who knows it")
					}
					for len(w.path.engines()) < 2 {
						pass(time.Millisecond)
						synctest.Wait()
					}
					if rest := time.Since(began); rest < 100*time.Millisecond {
						t.Errorf("begun anew after %v", rest)
					}
					w.did("prepare 1 from 100")
					w.arrived(1, 140)
					w.say(write(1, 130))
					if g := w.engine().cfg.Grant(); g.Fence != 61 {
						t.Errorf("grant %+v", g)
					}
				})
			})
		}
	}
}

// A schema that cannot be read is told; where the changefeed has gone on meanwhile, so
// that GC may have too, it is read further on without a word.
func TestSchemaCannotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		w.path.loadErr = errors.New("no snapshot")
		w.say(prepare(1))
		pass(10 * time.Millisecond)
		w.say()
		if r := w.heard(); r.Incarnation != 2 || r.Fault != "told: no snapshot" {
			t.Errorf("told %+v", r)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := startPart(t, nil)
		gate := make(chan struct{})
		w.path.loading = func(f *feed) error {
			if len(w.path.feeds()) > 1 {
				return nil
			}
			<-gate
			return errors.New("GC has passed")
		}
		w.say(prepare(1))
		w.sayAt(scheduler.Barrier{Known: true, Passed: 170, Sync: tso.Max})
		close(gate)
		synctest.Wait()
		w.say()
		if r := w.heard(); r.Incarnation != 2 || r.Fault != "" {
			t.Errorf("told %+v", r)
		}
		w.head.Incarnation, w.head.Term = 2, 61
		w.say(prepare(1))
		pass(time.Second)
		synctest.Wait()
		if at := w.feed().cfg.StartTS; at != 171 {
			t.Errorf("the next feed begins at %d", at)
		}
	})
}

// What fails again and again is begun less and less often.
func TestRestsGrow(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		var began []time.Time
		for life := uint64(1); life <= 9; life++ {
			w.head.Incarnation, w.head.Term = life, scheduler.Term(50+life)
			w.say(prepare(1))
			for len(w.path.engines()) < int(life) {
				pass(time.Millisecond)
				synctest.Wait()
			}
			began = append(began, time.Now())
			w.engine().failed <- errors.New("boom")
			synctest.Wait()
		}
		for i, want := range []int64{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			if got := began[i+1].Sub(began[i]).Milliseconds(); got < want || got > want+50 {
				t.Errorf("life %d begins %d ms after the one before, want %d", i+2, got, want)
			}
		}
	})
}

// That the downstream refuses one life after the other is told, and not that it refused
// one or two.
func TestRefusedAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *owned) {
		for life := uint64(1); life <= 6; life++ {
			w.head.Incarnation, w.head.Term = life, scheduler.Term(50+life)
			w.say(prepare(1))
			for len(w.path.engines()) < int(life) {
				pass(time.Millisecond)
				synctest.Wait()
			}
			w.line.forget()
			w.engine().failed <- cdcerr.Fenced.New("a later one")
			synctest.Wait()
			pass(100 * time.Millisecond)
			synctest.Wait()
			w.head.Incarnation, w.head.Term = life+1, scheduler.Term(51+life)
			w.say()
			r := w.heard()
			if r.Incarnation != life+1 || r.Fault != "" || strings.Contains(r.Warning, "a later one") != (life >= 5) {
				t.Errorf("after %d: told %+v", life, r)
			}
		}
	})
}
