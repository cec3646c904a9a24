package shells_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flags are which seeds are played. A single one is told in full.
func flags() (runs, seed *uint64) {
	return flag.Uint64("runs", 1000, "how many seeds"), flag.Uint64("seed", 1, "the first seed")
}

var runs, seed = flags()

// steps is how many things befall a cluster, with some ten milliseconds in between.
const steps = 40

// calm is how long everything may take, once nothing befalls the cluster any more, until
// all of it is downstream, durably known, and replicated: leases end, an owner is
// elected, and every table is placed.
const calm = 30 * time.Second

// tally is what the seeds of a run have seen together.
type tally struct {
	rows, ddls, syncs, owners, nodes, runs, faults, late, refused, lost, sent, failures, turns, drained, metas, files, removed, losses, virtual, parts atomic.Int64

	mu  sync.Mutex
	err map[uint64]error // guarded by mu
}

// TestSchedules plays seeds, as many at a time as there are cores.
func TestSchedules(t *testing.T) {
	n := *runs
	if testing.Short() && n > 100 {
		n = 100
	}
	all := &tally{err: map[uint64]error{}}
	var next atomic.Uint64
	t.Run("seeds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < n && all.ok(); i = next.Add(1) - 1 {
					play(t, *seed+i, all)
				}
			})
		}
	})
	for s, err := range all.err {
		t.Errorf("seed %d, %v (once more: go test ./sim/shells -run Schedules -count=1 -seed=%d -runs=1)", s, err, s)
	}
	if parts := all.parts.Load(); n >= 100 && parts == 0 {
		t.Error("no table was ever in parts")
	} else {
		t.Logf("in the end %d spans are parts of their table", parts)
	}
	t.Logf("in the midst of what somebody did %d owners or nodes went; %d times an operator drained; redo logs: %d metas, %d files, %d of them removed, %d times the upstream was lost", all.turns.Load(), all.drained.Load(), all.metas.Load(), all.files.Load(), all.removed.Load(), all.losses.Load())
	t.Logf("%d schedules, %d s of the clusters' time: %d nodes, %d owners, %d more runs, %d of them after a fault, %d rows, %d of them refused, %d late; %d DDLs, %d sync points; %d messages, %d lost; %d saves failed",
		n, all.virtual.Load()/1000, all.nodes.Load(), all.owners.Load(), all.runs.Load(), all.faults.Load(), all.rows.Load(), all.refused.Load(), all.late.Load(), all.ddls.Load(), all.syncs.Load(), all.sent.Load(), all.lost.Load(), all.failures.Load())
}

func (a *tally) ok() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.err) == 0
}

// add takes in what a world has seen.
func (a *tally) add(w *world) {
	a.rows.Add(int64(w.down.rows))
	a.ddls.Add(int64(w.down.ddls))
	a.syncs.Add(int64(w.down.syncs))
	a.owners.Add(int64(w.owners))
	a.nodes.Add(int64(w.born))
	a.runs.Add(int64(w.runs))
	a.parts.Add(int64(w.parts))
	a.turns.Add(int64(w.turns))
	a.drained.Add(int64(w.drained))
	a.faults.Add(int64(w.faults))
	if s := w.storage; s != nil {
		a.metas.Add(int64(s.metas))
		a.files.Add(int64(s.files))
		a.removed.Add(int64(s.removed))
		a.losses.Add(int64(s.losses))
	}
	a.late.Add(int64(w.late))
	a.refused.Add(int64(w.down.refused))
	a.lost.Add(int64(w.lost))
	a.sent.Add(int64(w.sent))
	a.failures.Add(int64(w.failures))
	a.virtual.Add(time.Since(w.up.begin).Milliseconds())
}

// play is one seed.
func play(t *testing.T, seed uint64, all *tally) {
	synctest.Test(t, func(*testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0x5_4E11))
		w := newWorld(rng)
		ctx, end := context.WithCancel(context.Background())
		for range 2 + rng.IntN(2) {
			w.start()
		}
		w.elect()
		w.all.Go(func() error { return w.keep(ctx) })
		for range steps {
			if w.failed() != nil {
				break
			}
			w.befall(rng)
			w.operate(rng)
			for range rng.IntN(6) {
				w.mu.Lock()
				w.up.commit(rng)
				w.mu.Unlock()
			}
			<-time.After(time.Duration(5+rng.IntN(150)) * time.Millisecond)
			if w.storage != nil && rng.IntN(steps/3) == 0 {
				w.lose()
			}
		}
		if w.failed() == nil {
			w.settle()
		}
		if w.failed() == nil {
			w.straggle()
		}
		if w.storage != nil && w.failed() == nil {
			w.lose()
		}
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		end()
		for _, n := range w.nodes {
			n.end()
			if l := n.lead; l != nil {
				l.end()
			}
		}
		_ = w.all.Wait()
		if w.first != nil {
			all.mu.Lock()
			all.err[seed] = w.first
			all.mu.Unlock()
		}
		all.add(w)
	})
}

// befall is one thing that happens to the cluster.
func (w *world) befall(rng *rand.Rand) {
	w.mu.Lock()
	var n, o *node
	if len(w.nodes) > 0 {
		n, o = w.nodes[rng.IntN(len(w.nodes))], w.nodes[rng.IntN(len(w.nodes))]
	}
	count := len(w.nodes)
	w.mu.Unlock()
	x := rng.IntN(100)
	switch {
	case x < 12:
		w.mu.Lock()
		w.up.ddl(rng)
		w.mu.Unlock()
	case n == nil:
		w.start()
	case x < 34:
		w.move(rng, n)
	case x < 44:
		w.mu.Lock()
		w.weather = weather{drop: rng.Float64() / 3, double: rng.Float64() / 3, slow: rng.Float64() / 2, save: rng.Float64() / 2, sink: rng.Float64() / 8, fence: rng.Float64() / 2, store: rng.Float64() / 2}
		if rng.IntN(2) == 0 {
			w.weather = weather{}
		}
		w.mu.Unlock()
	case x < 52:
		w.mu.Lock()
		until := time.Now().Add(time.Duration(rng.IntN(2500)) * time.Millisecond)
		w.cuts[[2]*node{n, o}] = until
		if rng.IntN(2) == 0 {
			w.cuts[[2]*node{o, n}] = until
		}
		w.breakLocked(n.id)
		w.mu.Unlock()
	case x < 56:
		w.mu.Lock()
		n.away = time.Now().Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
		w.mu.Unlock()
	case x < 60:
		if rng.IntN(2) == 0 {
			w.hang(rng, n)
		}
		w.crash(n)
		if count == 1 || rng.IntN(3) > 0 {
			w.start()
		}
	case x < 64 && count < 4:
		w.start()
	case x < 70:
		w.resign(rng.IntN(2) == 0)
		if rng.IntN(2) == 0 {
			w.elect() // before anybody does anything else
		}
	case x < 72 && count > 1:
		w.mu.Lock()
		n.life = capture.Stopping
		w.mu.Unlock()
	}
}

// move asks for a table to be moved, as an operator does.
func (w *world) move(rng *rand.Rand, to *node) {
	w.mu.Lock()
	l := w.loopLocked()
	var id span.TableID
	if len(w.up.live) > 0 {
		id = w.up.live[rng.IntN(len(w.up.live))].shape.ID
	}
	w.mu.Unlock()
	if l != nil {
		_, _ = l.Move(id, to.id) // refused is an answer
	}
}

// loopLocked is the owner's loop, nil where there is none.
func (w *world) loopLocked() *owner.Loop {
	if w.leader == nil || w.leader.lead == nil {
		return nil
	}
	return w.leader.lead.loop
}

func (w *world) loopOf() *owner.Loop {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.loopLocked()
}

// settle ends all faults, and waits until everything is as it should be.
func (w *world) settle() {
	w.mu.Lock()
	w.weather, w.points = weather{}, 0
	clear(w.cuts)
	var leaving []*node
	for _, n := range w.nodes {
		n.away = time.Time{}
		if n.life == capture.Stopping {
			leaving = append(leaving, n)
		}
	}
	w.mu.Unlock()
	for _, n := range leaving {
		w.crash(n)
	}
	w.start()
	why := ""
	for begun := time.Now(); time.Since(begun) < calm; <-time.After(50 * time.Millisecond) {
		if w.failed() != nil {
			return
		}
		w.resume() // if what failed before was fatal
		if why = w.unsettled(); why == "" {
			return
		}
	}
	why += w.state()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked("liveness: %v after the last fault %s", calm, why)
}

// state is who has what, as owner and captures see it.
func (w *world) state() string {
	var b strings.Builder
	w.mu.Lock()
	nodes := slices.Clone(w.nodes)
	loop := w.loopLocked()
	if loop != nil {
		fmt.Fprintf(&b, "; %s leads at revision %d", w.leader.id, w.reign)
	}
	fmt.Fprintf(&b, "; fenced %v, floors %v", w.down.fenced, w.down.floors)
	w.mu.Unlock()
	if loop != nil {
		fmt.Fprintf(&b, ", rebuilding %v, settled %v, schema %d, sets %+v, standings %+v", loop.Rebuilding(), loop.Settled(), loop.Resolved(), loop.Sets(), loop.Standings())
	}
	for _, n := range nodes {
		w.mu.Lock()
		p := n.part
		w.mu.Unlock()
		if p != nil {
			fmt.Fprintf(&b, "; %s under term %d has %+v", n.id, p.Term(), p.Spans())
		}
	}
	return b.String()
}

// unsettled tells what is not as it should be, "" for nothing.
func (w *world) unsettled() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.up.last
	if n := len(w.up.log); n > 0 {
		last = w.up.log[n-1].CommitTS
	}
	if n := len(w.up.ddls); n > 0 {
		last = max(last, w.up.ddls[n-1].SwitchTS)
	}
	switch {
	case w.loopLocked() == nil:
		return text("there is no owner, or no run: %+v", w.status)
	case w.durable.Checkpoint < last && (len(w.up.log) > 0 || len(w.up.ddls) > 0):
		return text("%d is durable of %d; without %q", w.durable.Checkpoint, last, w.wholeLocked(last))
	}
	writers := map[span.TableID]*span.Set{}
	parts := 0
	for _, n := range w.nodes {
		if len(n.spans()) > 0 && slices.Contains(w.leader.lead.drains, n.id) {
			return text("%s is drained, and has %d spans", n.id, len(n.spans()))
		}
		for _, s := range n.spans() {
			if s.Phase != scheduler.Writing {
				return text("%s is %v with table %d", n.id, s.Phase, s.Span.TableID)
			}
			of := writers[s.Span.TableID]
			if of == nil {
				of = &span.Set{}
				writers[s.Span.TableID] = of
			}
			if missing := of.Missing(s.Span); len(missing) != 1 || missing[0] != s.Span {
				return text("P2: %v is written by two", s.Span)
			}
			if of.Add(s.Span); s.Span != span.OfTable(s.Span.TableID) {
				parts++
			}
		}
	}
	for id, s := range w.up.all {
		of := writers[id]
		if (of != nil) == s.dropped || of != nil && len(of.Missing(span.OfTable(id))) > 0 {
			return text("P2: table %d, dropped %v, is written in %v", id, s.dropped, of)
		}
	}
	w.parts = parts
	return ""
}
