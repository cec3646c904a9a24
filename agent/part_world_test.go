package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// owned is a part between doubles, and an owner whose words the test says, in a bubble.
type owned struct {
	*testing.T
	part *agent.Part
	line *line
	path *path
	seq  uint64
	gate tso.TS // what was told last
	head scheduler.Head

	liveness capture.Liveness
	deaf     atomic.Bool
	lease    time.Time
	opened   []agent.Opening
	done     chan error
}

const (
	startTS = tso.TS(100)
	owner1  = scheduler.Revision(5)
	owner2  = scheduler.Revision(9)
)

// startPart runs a part that has nothing yet. The test has to be in a bubble.
func startPart(t *testing.T, configure func(*agent.PartConfig)) *owned {
	t.Helper()
	w := &owned{
		T: t, line: &line{ready: make(chan struct{}, 1)}, path: &path{now: 1000}, done: make(chan error, 1),
		head: scheduler.Head{Owner: owner1, Epoch: 3, Capture: "c", Incarnation: 1, Term: 50},
	}
	cfg := agent.PartConfig{
		Name: "test", ID: "c", Epoch: 3, Floor: owner1, StartTS: startTS, Checkpoint: startTS.Prev(), ForceReplicate: true,
		Line: w.line, CountEvery: 30 * time.Second,
		Liveness: func() capture.Liveness { return w.liveness },
		Deaf:     func() bool { return w.deaf.Load() },
		Lease:    func() time.Time { return w.lease },
		Open: func(_ context.Context, o agent.Opening) (sink.Sink, error) {
			w.opened = append(w.opened, o)
			return nil, nil
		},
		Encode: func(err error) string { return "told: " + err.Error() },
	}
	if configure != nil {
		configure(&cfg)
	}
	var err error
	w.part, err = agent.NewPart(cfg, w.path)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { w.done <- w.part.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-w.done; !errors.Is(err, context.Canceled) {
			t.Errorf("the part ended with %v", err)
		}
		for _, e := range w.path.engines() {
			if e.running.Load() {
				t.Error("an engine runs on")
			}
		}
	})
	synctest.Wait()
	return w
}

// say gives the part orders of the owner, at a barrier that lets everything pass that
// the schema knows.
func (w *owned) say(orders ...scheduler.Order) {
	w.sayAt(scheduler.Barrier{Known: true, Passed: startTS.Prev(), Sync: tso.Max, Gate: w.gate}, orders...)
}

func (w *owned) sayAt(b scheduler.Barrier, orders ...scheduler.Order) {
	w.seq++
	h := w.head
	h.Seq, w.gate = w.seq, b.Gate
	w.line.give(scheduler.Orders{Head: h, Barrier: b, Orders: orders})
	synctest.Wait()
}

// heard lets time pass until what is news, or that there is none, must have been told,
// and gives the last report.
func (w *owned) heard() scheduler.Report {
	w.Helper()
	w.line.forget()
	for range 21 {
		pass(10 * time.Millisecond)
		synctest.Wait()
		if all := w.line.reports(); len(all) > 0 {
			return all[len(all)-1]
		}
	}
	w.Fatal("no report within 210 ms")
	panic("unreachable")
}

// phase is what the last report says of a span.
func (w *owned) phase(id int64) scheduler.Phase {
	w.Helper()
	for _, s := range w.heard().Statuses {
		if s.Span.TableID == id {
			return s.Phase
		}
	}
	return scheduler.Absent
}

// did compares what the last engine was told since the last did.
func (w *owned) did(want ...string) {
	w.Helper()
	synctest.Wait()
	if got := w.engine().take(); !slices.Equal(got, want) {
		w.Fatalf("the engine was told %q, want %q", got, want)
	}
}

func (w *owned) engine() *engine {
	w.Helper()
	if len(w.path.engines()) == 0 {
		w.Fatal("there is no engine")
	}
	return w.path.engines()[len(w.path.engines())-1]
}

func (w *owned) feed() *feed { return w.path.feeds()[len(w.path.feeds())-1] }

// tell lets the engine say something.
func (w *owned) tell(t pipeline.Told) {
	w.engine().cfg.Tell(t)
	synctest.Wait()
}

func (w *owned) arrived(id int64, resolved tso.TS) {
	w.tell(pipeline.Told{Span: span.OfTable(id), What: pipeline.Arrived, Resolved: resolved})
}

func (w *owned) moved(id int64, checkpoint tso.TS) {
	w.tell(pipeline.Told{Span: span.OfTable(id), What: pipeline.Moved, Checkpoint: checkpoint, Resolved: checkpoint})
}

func (w *owned) ended(id int64, checkpoint tso.TS) {
	w.tell(pipeline.Told{Span: span.OfTable(id), What: pipeline.Ended, Checkpoint: checkpoint})
}

// writes brings a span to where it is written.
func (w *owned) writes(id int64) {
	w.Helper()
	w.say(prepare(id))
	w.arrived(id, 120)
	w.say(write(id, 110))
	if p := w.phase(id); p != scheduler.Writing {
		w.Fatalf("the span is %v", p)
	}
	w.engine().take()
}

// pass lets time go by, the bubble's.
func pass(d time.Duration) { <-time.After(d) }

func prepare(id int64) scheduler.Order {
	return scheduler.Order{Verb: scheduler.Prepare, Span: span.OfTable(id), From: startTS}
}

func write(id int64, from tso.TS) scheduler.Order {
	return scheduler.Order{Verb: scheduler.Write, Span: span.OfTable(id), From: from, Grant: 77}
}

func stop(id int64) scheduler.Order {
	return scheduler.Order{Verb: scheduler.Stop, Span: span.OfTable(id)}
}

// line is a part's line whose other end the test holds.
type line struct {
	ready chan struct{}
	mu    sync.Mutex
	in    []scheduler.Orders
	out   []scheduler.Report
	when  []time.Time
}

func (l *line) Ready() <-chan struct{} { return l.ready }

func (l *line) Take() []scheduler.Orders {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.in
	l.in = nil
	return in
}

func (l *line) give(m ...scheduler.Orders) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in = append(l.in, m...)
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

func (l *line) Report(r scheduler.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out, l.when = append(l.out, r), append(l.when, time.Now())
}

func (l *line) reports() []scheduler.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.out)
}

func (l *line) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out, l.when = nil, nil
}

// path makes doubles.
type path struct {
	loadErr error
	loading func(*feed) error
	endSlow chan struct{} // nil: engines end at once

	mu     sync.Mutex
	now    tso.TS
	nowErr error
	fs     []*feed
	es     []*engine
	ls     []*logFeed

	regions atomic.Int32 // of table 1
}

func (p *path) TS(context.Context) (tso.TS, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.nowErr
}

// present sets what TS answers.
func (p *path) present(ts tso.TS, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.nowErr = ts, err
}

func (p *path) feeds() []*feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fs
}

func (p *path) engines() []*engine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.es
}

func (p *path) Snapshot() *agent.Snapshot { return nil }

func (p *path) Regions() map[span.Span]int {
	return map[span.Span]int{span.OfTable(1): int(p.regions.Load())}
}

func (p *path) Feed(cfg schemafeed.Config) agent.Feed {
	f := &feed{cfg: cfg, path: p, at: cfg.StartTS.Prev(), advanced: make(chan struct{}, 1), failed: make(chan error, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fs = append(p.fs, f)
	return f
}

func (p *path) Engine(cfg pipeline.SpansConfig, schema pipeline.Schema) agent.Engine {
	e := &engine{cfg: cfg, schema: schema, slow: p.endSlow, failed: make(chan error, 1)}
	e.running.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.es = append(p.es, e)
	return e
}

// feed is a schema that the test knows.
type feed struct {
	cfg      schemafeed.Config
	path     *path
	advanced chan struct{}
	failed   chan error

	mu     sync.Mutex
	at     tso.TS
	ddls   []*event.DDL
	below  tso.TS // forgotten
	ended  atomic.Bool
	tables []*event.Table
}

func (f *feed) Load(context.Context) error {
	if f.path.loading != nil {
		return f.path.loading(f)
	}
	return f.path.loadErr
}

func (f *feed) Run(ctx context.Context) error {
	defer f.ended.Store(true)
	select {
	case err := <-f.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resolve lets the schema be known up to ts, with DDLs before.
func (f *feed) resolve(ts tso.TS, ddls ...*event.DDL) {
	f.mu.Lock()
	f.at, f.ddls = ts, append(f.ddls, ddls...)
	f.mu.Unlock()
	f.advanced <- struct{}{}
	synctest.Wait()
}

func (f *feed) Resolved() tso.TS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

func (f *feed) Advanced() <-chan struct{} { return f.advanced }

func (f *feed) DDLs(upto tso.TS) []*event.DDL {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(f.ddls) && f.ddls[n].SwitchTS <= upto {
		n++
	}
	out := f.ddls[:n]
	f.ddls = f.ddls[n:]
	return out
}

func (f *feed) Version(int64, tso.TS) (*event.Table, tso.TS) { return nil, tso.Max }

func (f *feed) TableAt(int64, tso.TS) (*event.Table, bool) { return nil, false }
func (f *feed) Tables(tso.TS) []*event.Table               { return f.tables }

func (f *feed) Forget(below tso.TS) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.below = below
}

func (f *feed) forgotten() tso.TS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.below
}

// engine notes what it is told.
type engine struct {
	cfg     pipeline.SpansConfig
	schema  pipeline.Schema
	slow    chan struct{} // ends when told to only once this is closed
	failed  chan error
	running atomic.Bool

	mu       sync.Mutex
	calls    []string
	looks    int
	progress pipeline.Progress
}

func (e *engine) Run(ctx context.Context) error {
	defer e.running.Store(false)
	select {
	case err := <-e.failed:
		return err
	case <-ctx.Done():
		if e.slow != nil {
			<-e.slow
		}
		return ctx.Err()
	}
}

func (e *engine) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, fmt.Sprintf(format, args...))
}

func (e *engine) Prepare(s span.Span, from tso.TS) { e.note("prepare %d from %d", s.TableID, from) }
func (e *engine) Write(s span.Span, from tso.TS)   { e.note("write %d from %d", s.TableID, from) }
func (e *engine) Stop(s span.Span)                 { e.note("stop %d", s.TableID) }

func (e *engine) Look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looks++
}

func (e *engine) Counts() pipeline.Progress {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.progress
}

func (e *engine) done(p pipeline.Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.progress = p
}

func (e *engine) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.calls
	e.calls = nil
	return out
}

// looked tells how often it was told to look since the last looked.
func (e *engine) looked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.looks
	e.looks = 0
	return n
}

func (e *engine) limit(id int64) tso.TS { return e.cfg.Limit(span.OfTable(id)) }
