package owner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// redoLog is a log whose storage the test is.
type redoLog struct {
	w     *world
	moved chan struct{}

	// Guarded by the world's lock.
	meta    tso.TS // on the storage
	wanted  tso.TS // what the meta is to say
	from    tso.TS // ... is downstream
	stuck   bool   // nothing gets to the storage
	extents map[string]bool
	logged  map[int64]bool
	failed  chan error
}

// withLog gives the world's changefeed a redo log, and then its captures.
func withLog(w *world, captures ...capture.ID) *redoLog {
	w.redo = &redoLog{w: w, moved: make(chan struct{}, 1), meta: ms(1), extents: map[string]bool{}, logged: map[int64]bool{}, failed: make(chan error, 1)}
	for _, id := range captures {
		w.join(id)
	}
	return w.redo
}

func (r *redoLog) open(c *owner.Config) {
	c.Redo = func(_ context.Context, at tso.TS) (owner.Redo, error) {
		r.w.mu.Lock()
		defer r.w.mu.Unlock()
		r.meta = max(r.meta, at)
		return r, nil
	}
}

func (r *redoLog) DDLs(ctx context.Context, ddls ...*event.DDL) error {
	for {
		r.w.mu.Lock()
		stuck := r.stuck
		if !stuck {
			for _, d := range ddls {
				r.logged[d.JobID] = true
				r.w.happened("DDL %d is logged", d.JobID)
			}
		}
		r.w.mu.Unlock()
		if !stuck {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.moved:
		}
	}
}

func (r *redoLog) Advance(checkpoint, resolved tso.TS, extents [][]byte) error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if checkpoint > r.meta || resolved < r.wanted && resolved != 0 {
		r.w.t.Errorf("the meta is to say %d–%d; it says %d, and was to say %d", checkpoint, resolved, r.meta, r.wanted)
	}
	for _, e := range extents {
		r.extents[string(e)] = true
	}
	for _, d := range r.w.up.ddls {
		if d.SwitchTS <= resolved && !r.logged[d.JobID] && r.w.scope.Turn(d, func() []*event.Table { return nil }).Send != nil {
			r.w.t.Errorf("the meta is to say %d, and DDL %d at %d is not in the log", resolved, d.JobID, d.SwitchTS)
		}
	}
	r.wanted, r.from = max(r.wanted, resolved), checkpoint
	if !r.stuck && r.meta < r.wanted {
		r.meta = r.wanted
		signal(r.moved)
	}
	return nil
}

func (r *redoLog) Limit() tso.TS {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.meta
}

func (r *redoLog) Moved() <-chan struct{} { return r.moved }

func (r *redoLog) Run(ctx context.Context) error {
	select {
	case err := <-r.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// record logs what the upstream has. Its caller holds the world's lock.
func (p *part) record() {
	if p.w.redo != nil {
		p.half.Logged(max(p.w.up.now, p.half.Gate()), fmt.Appendf(nil, "%s %d", p.id, p.w.up.now))
	}
}

// Rows, DDLs and sync points wait for the log's meta, whether or not they have anything
// to wait for beside it (P5); the log waits for no downstream.
func TestNothingPassesTheLog(t *testing.T) {
	cluster(t, nil, []int64{1, 2}, func(w *world) {
		r := withLog(w, two...)
		l, stop, over := w.lead(5, func(c *owner.Config) {
			c.Scheduler.SyncEvery = 10
			r.open(c)
		})
		w.to(ms(5), alter(1, ms(3), table(1, "t1")))
		w.expect("the storage works", "DDL 1 is logged", "DDL 1 is begun", "DDL 1 is done")
		if w.saved() != ms(5) || r.Limit() != ms(5) || !r.extents["a "+ms(5).String()] || !r.extents["b "+ms(5).String()] {
			t.Errorf("saved %d, meta %d, extents %v", w.saved(), r.Limit(), r.extents)
		}
		w.change(func() { r.stuck = true })
		w.to(ms(15), alter(2, ms(7), table(1, "t1")), create(3, ms(8), table(9, "t9")))
		w.expect("nothing gets to the storage")
		if w.at(1) != 5 || w.at(2) != 5 || w.saved() != ms(5) {
			t.Errorf("tables are at %d and %d, saved %d", w.at(1), w.at(2), w.saved())
		}
		w.change(func() { r.stuck = false })
		signal(r.moved)
		later(5 * time.Second)
		w.expect("it works again", "DDL 2 is logged", "DDL 3 is logged", "DDL 3 is begun", "DDL 3 is done", "DDL 2 is begun", "DDL 2 is done", "sync point 10")
		if w.at(1) != 15 || w.at(9) != 15 || w.saved() != ms(15) || r.from < ms(10) {
			t.Errorf("tables are at %d and %d, saved %d, the log begins at %d", w.at(1), w.at(9), w.saved(), r.from)
		}
		if !l.Settled() {
			t.Error("it is not settled")
		}
		w.change(func() { w.parts["a"].stuck, w.parts["b"].stuck = ms(15), ms(15) })
		w.to(ms(20), truncate(4, ms(17), table(1, "t1"), table(11, "t1")))
		if r.Limit() != ms(20) {
			t.Errorf("nothing is written, and the log stands at %d", r.Limit())
		}
		w.change(func() { w.parts["a"].stuck, w.parts["b"].stuck = 0, 0 })
		stop()
		ends(t, over, canceled)
	})
}

// Whose meta is not the last is no owner.
func TestALogThatIsAnothersEndsTheRun(t *testing.T) {
	cluster(t, nil, []int64{1}, func(w *world) {
		r := withLog(w, "a")
		_, _, over := w.lead(5, r.open)
		w.to(ms(5))
		r.failed <- cdcerr.NotOwner.New("revision 9 has written it")
		synctest.Wait()
		ends(t, over, func(err error) bool { return cdcerr.NotOwner.Is(err) })
	})
}

// The log ends where the changefeed ends, and the changefeed ends with its own error.
func TestTheLogEndsWithTheChangefeed(t *testing.T) {
	cluster(t, nil, []int64{1}, func(w *world) {
		r := withLog(w, "a")
		_, _, over := w.lead(5, r.open)
		other := table(7, "t7")
		other.Schema = "elsewhere"
		rename := alter(1, ms(7), other)
		rename.Action = event.ActionRenameTable
		rename.Tables[0].After = table(7, "t7")
		w.to(ms(10), rename)
		ends(t, over, func(err error) bool { return err != nil && !cdcerr.NotOwner.Is(err) && !canceled(err) })
		if r.meta > ms(7) || slices.Contains(w.saw(), "DDL 1 is logged") {
			t.Errorf("the log goes on to %d", r.meta)
		}
	})
}
