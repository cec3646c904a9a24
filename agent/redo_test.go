package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

func (p *path) LogFeed(cfg pipeline.LogFeedConfig, _ pipeline.Schema) agent.LogFeed {
	f := &logFeed{cfg: cfg, path: p, least: tso.Max}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ls = append(p.ls, f)
	return f
}

// logFeed notes what it is told among what the engine is told.
type logFeed struct {
	cfg  pipeline.LogFeedConfig
	path *path

	mu    sync.Mutex
	least tso.TS // what it says of the log
	ended bool
	looks int
}

func (f *logFeed) Run(ctx context.Context) error {
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	return ctx.Err()
}

func (f *logFeed) note(format string, args ...any) {
	es := f.path.engines()
	es[len(es)-1].note(format, args...)
}
func (f *logFeed) Write(s span.Span, from tso.TS) { f.note("log %d from %d", s.TableID, from) }
func (f *logFeed) Stop(s span.Span)               { f.note("unlog %d", s.TableID) }
func (f *logFeed) Look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
}

func (f *logFeed) Logged(durable tso.TS) tso.TS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(durable, f.least)
}

// redoLog is a writer whose storage the test is.
type redoLog struct {
	trouble func(error)
	failed  chan error
	moved   chan struct{}

	mu    sync.Mutex
	upto  tso.TS
	bad   error
	ended bool
}

func (l *redoLog) Append(context.Context, *event.RawKV, *event.Table) error { return nil }
func (l *redoLog) Resolve(tso.TS)                                           {}
func (l *redoLog) Moved() <-chan struct{}                                   { return l.moved }

func (l *redoLog) Run(ctx context.Context) error {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended = true
	}()
	select {
	case err := <-l.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *redoLog) Durable() (tso.TS, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.upto, fmt.Appendf(nil, "files up to %d", l.upto), l.bad
}

// durable lets the storage have everything up to ts.
func (l *redoLog) durable(ts tso.TS) {
	l.mu.Lock()
	l.upto = ts
	l.mu.Unlock()
	l.moved <- struct{}{}
	synctest.Wait()
}

// startLogged is startPart of a changefeed with a redo log, whose writers are in logs.
func startLogged(t *testing.T) (w *owned, logs *[]*redoLog) {
	logs = new([]*redoLog)
	w = startPart(t, func(cfg *agent.PartConfig) {
		cfg.Redo = func(trouble func(error)) agent.RedoWriter {
			l := &redoLog{trouble: trouble, failed: make(chan error, 1), moved: make(chan struct{}, 1)}
			*logs = append(*logs, l)
			return l
		}
	})
	return w, logs
}

func gate(ts tso.TS) scheduler.Barrier {
	return scheduler.Barrier{Known: true, Passed: startTS.Prev(), Sync: tso.Max, Gate: ts}
}

// Rows wait for the log, the log for nobody; what the owner hears is what is durable.
func TestPartWritesWhatIsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, logs := startLogged(t)
		w.sayAt(gate(105), prepare(1))
		w.feed().resolve(500)
		w.arrived(1, 400)
		w.did("prepare 1 from 100")
		w.sayAt(gate(115), write(1, 110))
		w.did("log 1 from 115", "write 1 from 110") // below the gate it is in the log
		r := w.heard()
		if want := (scheduler.Progress{Checkpoint: 110, Resolved: 115}); r.Floor != want {
			t.Errorf("it has told %v, want %v", r.Floor, want)
		}
		if got := w.engine().limit(1); got != 115 {
			t.Errorf("rows may be written up to %d", got)
		}
		(*logs)[0].durable(300)
		r = w.heard()
		if r.Floor.Resolved != 300 || string(r.Extents) != "files up to 300" {
			t.Errorf("it has told %v of %q", r.Floor, r.Extents)
		}
		if got := w.engine().limit(1); got != 115 {
			t.Errorf("rows may be written up to %d: that is for the meta to say", got)
		}
		w.sayAt(gate(290))
		if got := w.engine().limit(1); got != 290 {
			t.Errorf("rows may be written up to %d", got)
		}
		w.moved(1, 290)
		if r = w.heard(); r.Floor.Checkpoint != 290 || r.Floor.Resolved != 300 {
			t.Errorf("it has told %v", r.Floor)
		}
	})
}

// The log has a span until nothing of it is written any more, and longer where it is
// written anew.
func TestPartLeavesTheLogLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := startLogged(t)
		w.writes(1)
		w.say(stop(1))
		w.did("stop 1")
		w.ended(1, 130)
		w.did("unlog 1")
		w.writes(2)
		w.say(prepare(3))
		w.say(stop(3)) // of which nothing was ever written
		w.heard()
		w.gate = 105
		w.line.give(scheduler.Orders{Head: w.next(), Ack: 100, Barrier: gate(w.gate), Orders: []scheduler.Order{prepare(3)}})
		synctest.Wait()
		w.did("prepare 3 from 100", "stop 3", "prepare 3 from 100")
		w.ended(3, 0)
		w.arrived(3, 130)
		w.did("unlog 3")
		w.say(write(3, 120))
		w.did("log 3 from 120", "write 3 from 120")
	})
}

// next is the head of one more message.
func (w *owned) next() scheduler.Head {
	w.seq++
	h := w.head
	h.Seq = w.seq
	return h
}

// A log is one term's, as the engine is: what was fenced off begins another.
func TestPartBeginsAnotherLogWithATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, logs := startLogged(t)
		w.writes(1)
		w.head.Term = 60
		w.say(prepare(2))
		if len(*logs) != 2 || !(*logs)[0].ended || (*logs)[1].ended {
			t.Fatalf("%d logs", len(*logs))
		}
		if first := w.path.ls[0]; !first.ended {
			t.Error("the first log is fed on")
		}
		w.did("prepare 2 from 100")
	})
}

func TestPartTellsOfTheLogsTroubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, logs := startLogged(t)
		w.writes(1)
		log := (*logs)[0]
		log.trouble(errors.New("no bucket"))
		if r := w.heard(); r.Warning != "told: no bucket" {
			t.Errorf("it warns of %q", r.Warning)
		}
		w.moved(1, 400) // does not end it
		if r := w.heard(); r.Warning != "told: no bucket" {
			t.Errorf("it warns of %q", r.Warning)
		}
		log.trouble(nil)
		if r := w.heard(); r.Warning != "" {
			t.Errorf("it warns of %q", r.Warning)
		}
		log.failed <- errors.New("a file is there that nobody else can have written")
		w.line.forget()
		pass(time.Second)
		w.head.Incarnation = 0
		w.say()
		if r := w.heard(); !strings.Contains(r.Fault, "nobody else can have written") {
			t.Errorf("its fault is %q", r.Fault)
		}
	})
}

// Whoever has no log is not told to wait for one, and one that has waits for its meta.
func TestPartWithALogWaitsForItsMeta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := startLogged(t)
		w.writes(1)
		w.feed().resolve(500)
		if got := w.engine().limit(1); got != 0 {
			t.Errorf("rows may be written up to %d, and nobody has told of a meta", got)
		}
		if w.path.ls[0].looks == 0 {
			t.Error("the log does not know that the schema has advanced")
		}
	})
}

// A meta that goes back was lost: what was written by it may not be in the log.
func TestPartEndsByAMetaThatWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, logs := startLogged(t)
		w.writes(1)
		w.sayAt(gate(400))
		w.head.Owner++
		w.sayAt(gate(399))
		if !(*logs)[0].ended {
			t.Error("the engine goes on")
		}
		w.line.forget()
		pass(time.Second)
		w.head.Incarnation = 0
		w.say()
		if r := w.heard(); !strings.Contains(r.Fault, "everything up to 400, and owner") {
			t.Errorf("its fault is %q", r.Fault)
		}
	})
}
