package owner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a cluster without sockets: an upstream's schema, captures that have
// scheduler's halves and write at once whatever they may, a downstream, and an etcd that
// keeps a watermark for whoever is the owner.
type world struct {
	t      *testing.T
	ends   sync.WaitGroup
	join   func(capture.ID)
	within func() (context.Context, context.CancelFunc) // the world's end
	scope  filter.Scope

	mu      sync.Mutex
	log     []string // what became durable, was carried out, or was told, in order
	up      upstream
	parts   map[capture.ID]*part
	members []scheduler.Member
	changed chan struct{}
	lines   map[scheduler.Revision]*line
	down    downstream
	durable scheduler.Watermark
	reign   scheduler.Revision // of whom etcd obeys
	saving  func(tso.TS) error // what a save meets; nil: nothing
	leave   time.Time          // until when the owner may lead; zero: for ever
	warned  []scheduler.Fault
	redo    *redoLog                                  // nil: there is none
	asked   func(rev scheduler.Revision, what string) // before everything that an owner does outside
}

// foreign is told of everything that an owner does outside, before it does.
func (w *world) foreign(rev scheduler.Revision, what string) {
	w.mu.Lock()
	asked := w.asked
	w.mu.Unlock()
	if asked != nil {
		asked(rev, what)
	}
}

// upstream is what the schema's feeds follow.
type upstream struct {
	now   tso.TS
	ddls  []*event.DDL
	base  []*event.Table
	feeds []*feed
}

// downstream is what all sinks of the world write to.
type downstream struct {
	plain  bool // it keeps no record and fences nobody
	noKept bool // it fences, and keeps no record
	at     map[span.TableID]tso.TS
	begun  *event.DDL
	done   map[int64]tso.TS
	ddl    func(context.Context, *event.DDL) error // what a DDL meets after it was begun
	sync   func(context.Context, tso.TS) error
	floors map[capture.ID]scheduler.Term
	raise  func(context.Context, capture.ID) error
	open   int
}

// cluster plays fn in a world with these captures and tables, and ends all of it.
func cluster(t *testing.T, captures []capture.ID, tables []int64, fn func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rules, err := filter.New(filter.Config{Rules: []string{"d.*"}})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{
			t: t, scope: filter.Scope{Rules: rules, ForceReplicate: true}, changed: make(chan struct{}, 1),
			parts: map[capture.ID]*part{}, lines: map[scheduler.Revision]*line{},
			down:    downstream{at: map[span.TableID]tso.TS{}, done: map[int64]tso.TS{}, floors: map[capture.ID]scheduler.Term{}},
			durable: scheduler.Watermark{Checkpoint: ms(1), Resolved: ms(1)}, up: upstream{now: ms(1)},
		}
		for _, id := range tables {
			w.up.base = append(w.up.base, table(id, fmt.Sprintf("t%d", id)))
			w.down.at[id] = ms(1)
		}
		w.within = func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }
		w.join = func(id capture.ID) { w.enter(ctx, id) }
		for _, id := range captures {
			w.join(id)
		}
		fn(w)
		cancel()
		w.ends.Wait()
		if w.down.open != 0 {
			t.Errorf("%d sinks were left open", w.down.open)
		}
	})
}

// ms is a timestamp: sync points stand at whole milliseconds.
func ms(n int64) tso.TS { return tso.New(n, 0) }

func table(id int64, name string) *event.Table {
	return &event.Table{ID: id, Schema: "d", Name: name, Kind: event.BaseTable}
}

func (w *world) happened(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// saw is what happened since it was asked last, less what has one of the words.
func (w *world) saw(without ...string) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.log {
		if !slices.ContainsFunc(without, func(s string) bool { return strings.Contains(x, s) }) {
			out = append(out, x)
		}
	}
	w.log = nil
	return out
}

// expect compares what happened, less the messages and saves if they are not asked for.
func (w *world) expect(what string, want ...string) {
	w.t.Helper()
	if got := w.saw("->", "saved"); !slices.Equal(got, want) {
		w.t.Errorf("%s: happened\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// to lets the upstream's clock be at ts, with these DDLs on the way.
func (w *world) to(ts tso.TS, ddls ...*event.DDL) {
	w.mu.Lock()
	w.up.now = ts
	w.up.ddls = append(w.up.ddls, ddls...)
	for _, f := range w.up.feeds {
		signal(f.advanced)
	}
	w.mu.Unlock()
	<-time.After(5 * time.Second) // of the bubble's
	synctest.Wait()
}

func alter(job int64, ts tso.TS, t *event.Table) *event.DDL {
	return &event.DDL{JobID: job, Action: event.ActionAddColumn, SwitchTS: ts, FinishedTS: ts, Schema: "d", Tables: []event.TableChange{{Before: t, After: t}}}
}

func create(job int64, ts tso.TS, t *event.Table) *event.DDL {
	return &event.DDL{JobID: job, Action: event.ActionCreateTable, SwitchTS: ts, FinishedTS: ts, Schema: "d", Tables: []event.TableChange{{After: t}}}
}

func truncate(job int64, ts tso.TS, was, is *event.Table) *event.DDL {
	return &event.DDL{JobID: job, Action: event.ActionTruncateTable, SwitchTS: ts, FinishedTS: ts, Schema: "d", Tables: []event.TableChange{{Before: was, After: is}}}
}

// feed is a schema's, as schemafeed.Feed gives it.
type feed struct {
	w        *world
	advanced chan struct{}
	given    int
	forgot   tso.TS
}

func (f *feed) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
func (f *feed) Advanced() <-chan struct{} { return f.advanced }
func (f *feed) Resolved() tso.TS {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.up.now
}

func (f *feed) DDLs(upto tso.TS) (out []*event.DDL) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for ; f.given < len(f.w.up.ddls) && f.w.up.ddls[f.given].SwitchTS <= upto; f.given++ {
		out = append(out, f.w.up.ddls[f.given])
	}
	return out
}

func (f *feed) Tables(ts tso.TS) []*event.Table {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.up.tables(ts)
}

func (f *feed) Forget(below tso.TS) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if f.forgot = max(f.forgot, below); f.forgot > f.w.durable.Checkpoint {
		f.w.t.Errorf("what lies below %d is forgotten, and %d is durable", f.forgot, f.w.durable.Checkpoint)
	}
}

func (u *upstream) tables(ts tso.TS) []*event.Table {
	all := slices.Clone(u.base)
	for _, d := range u.ddls {
		if d.SwitchTS > ts {
			break
		}
		for _, c := range d.Tables {
			if c.Before != nil {
				all = slices.DeleteFunc(all, func(t *event.Table) bool { return t.ID == c.Before.ID })
			}
			if c.After != nil {
				all = append(all, c.After)
			}
		}
	}
	return all
}

// line is one owner's.
type line struct {
	w     *world
	ready chan struct{}
	heard []owner.Heard
}

func (l *line) Ready() <-chan struct{} { return l.ready }
func (l *line) Take() []owner.Heard {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	all := l.heard
	l.heard = nil
	return all
}

func (l *line) Send(m scheduler.Orders) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	w := l.w
	if !w.leave.IsZero() && time.Now().After(w.leave) { // at that moment they were on their way
		w.t.Errorf("orders to %s are sent after the leave has ended", m.Capture)
	}
	if m.Barrier.Passed > w.durable.Checkpoint {
		w.t.Errorf("capture %s hears that %d is passed, and %d is durable", m.Capture, m.Barrier.Passed, w.durable.Checkpoint)
	}
	for _, x := range m.Orders {
		w.happened("-> %s %v %d from %d", m.Capture, x.Verb, x.Span.TableID, x.From)
	}
	if p := w.parts[m.Capture]; p != nil {
		p.in = append(p.in, m)
		signal(p.wake)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// part is one capture's, which does all work at once.
type part struct {
	w      *world
	id     capture.ID
	half   *scheduler.Capture
	life   capture.Liveness
	wake   chan struct{}
	in     []scheduler.Orders
	deaf   bool
	stuck  tso.TS // it writes nothing above; 0: all
	report func(*scheduler.Report)
	ddls   int
	at     map[span.Span]tso.TS
}

func (w *world) enter(ctx context.Context, id capture.ID) {
	half, err := scheduler.NewCapture(scheduler.CaptureConfig{ID: id, Epoch: 1, Incarnation: 1, Gated: w.redo != nil, StatusesMax: 100})
	must(w.t, err)
	p := &part{w: w, id: id, half: half, wake: make(chan struct{}, 1), at: map[span.Span]tso.TS{}}
	w.mu.Lock()
	w.parts[id] = p
	w.members = append(w.members, scheduler.Member{ID: id})
	slices.SortFunc(w.members, func(a, b scheduler.Member) int { return strings.Compare(string(a.ID), string(b.ID)) })
	w.mu.Unlock()
	signal(w.changed)
	w.ends.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-p.wake:
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			w.mu.Lock()
			p.turn()
			w.mu.Unlock()
		}
	})
}

// turn takes what has come, writes, and reports. Its caller holds the world's lock.
func (p *part) turn() {
	w := p.w
	if p.deaf {
		p.in = nil
		return
	}
	for ; p.ddls < len(w.up.ddls); p.ddls++ {
		d := w.up.ddls[p.ddls]
		if t := w.scope.Turn(d, func() []*event.Table { return w.up.tables(d.SwitchTS.Prev()) }); t.Counts() {
			p.half.Schema(d.SwitchTS, scheduler.Block{TS: d.SwitchTS, Tables: t.Tables, Added: t.Added})
		}
	}
	p.half.Schema(w.up.now)
	for _, m := range p.in {
		p.half.Step(m)
	}
	p.in = nil
	r := p.half.Tick(p.life)
	for _, x := range r.Work {
		p.work(x)
	}
	p.write()
	p.record()
	if r = p.half.Tick(p.life); r.Report == nil {
		return
	}
	if p.report != nil {
		p.report(r.Report)
	}
	if l := w.lines[r.Report.Owner]; l != nil {
		l.heard = append(l.heard, owner.Heard{From: p.id, Report: r.Report})
		signal(l.ready)
	}
}

func (p *part) work(x scheduler.Work) {
	switch x.Verb {
	case scheduler.Reset:
		p.w.happened("%s drops everything", p.id)
		clear(p.at)
	case scheduler.Prepare:
		p.half.Prepared(x.Span, x.From)
	case scheduler.Write:
		p.at[x.Span] = x.From
	case scheduler.Stop:
		p.half.Ended(x.Span, p.at[x.Span])
		delete(p.at, x.Span)
	}
}

// write takes every span to where it may be. What the downstream refuses ends the life.
func (p *part) write() {
	d := &p.w.down
	if len(p.at) > 0 && p.half.Term() < d.floors[p.id] {
		p.half, p.ddls = p.half.Next(""), 0
		clear(p.at)
	}
	for s, at := range p.at {
		limit := min(p.w.up.now, p.half.Limit(s))
		if p.stuck != 0 {
			limit = min(limit, p.stuck)
		}
		if b := d.begun; b != nil && at < b.SwitchTS && slices.Contains(p.w.scope.Turn(b, nil).Tables, s.TableID) {
			p.w.t.Errorf("capture %s writes table %d from %d on, and DDL %d at %d is begun", p.id, s.TableID, at, b.JobID, b.SwitchTS)
		}
		p.at[s] = max(at, limit)
		d.at[s.TableID] = max(d.at[s.TableID], p.at[s])
		p.half.Progress(s, scheduler.Progress{Checkpoint: p.at[s], Resolved: max(p.at[s], p.w.up.now)})
	}
}

// drain has an operator want one capture empty, and no other.
func (w *world) drain(id capture.ID) {
	w.mu.Lock()
	for i := range w.members {
		w.members[i].Draining = w.members[i].ID == id
	}
	w.mu.Unlock()
	signal(w.changed)
}

// lead runs an owner of this revision beside the test. What it gives is the loop, what
// ends it, and a function that waits for its end.
func (w *world) lead(rev scheduler.Revision, change func(*owner.Config)) (l *owner.Loop, stop context.CancelFunc, end func() error) {
	w.t.Helper()
	w.mu.Lock()
	w.reign = rev
	ln := &line{w: w, ready: make(chan struct{}, 1)}
	w.lines[rev] = ln
	at := w.durable
	w.mu.Unlock()
	cfg := owner.Default()
	cfg.Changefeed, cfg.Scope, cfg.Line, cfg.Changed, cfg.Watermark = "default/test", w.scope, ln, w.changed, at
	cfg.Scheduler.Owner, cfg.Scheduler.Epoch = rev, 1
	cfg.Members = func() []scheduler.Member {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Clone(w.members)
	}
	cfg.Open = func(context.Context) (sink.Sink, error) { return w.open(rev) }
	cfg.Load = func(_ context.Context, at tso.TS) (owner.Feed, error) {
		w.foreign(rev, "load")
		w.mu.Lock()
		defer w.mu.Unlock()
		f := &feed{w: w, advanced: make(chan struct{}, 1), forgot: at}
		w.up.feeds = append(w.up.feeds, f)
		return f, nil
	}
	cfg.Save = func(_ context.Context, checkpoint, resolved tso.TS) error { return w.keep(rev, checkpoint, resolved) }
	cfg.Grant = func() sink.Grant {
		w.mu.Lock()
		defer w.mu.Unlock()
		return sink.Grant{Deadline: w.leave, Epoch: 1, Fence: uint64(rev)}
	}
	cfg.Warn = func(f scheduler.Fault) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.warned = append(w.warned, f)
	}
	if change != nil {
		change(&cfg)
	}
	l, err := owner.New(cfg)
	must(w.t, err)
	ctx, stop := w.within()
	done := make(chan error, 1)
	w.ends.Go(func() { done <- l.Run(ctx) })
	return l, stop, func() error { return <-done }
}

// keep is etcd.
func (w *world) keep(rev scheduler.Revision, checkpoint, resolved tso.TS) error {
	w.foreign(rev, "save")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reign != rev {
		return cdcerr.NotOwner.New("%d is, not %d", w.reign, rev)
	}
	if w.saving != nil {
		if err := w.saving(checkpoint); err != nil {
			return err
		}
	}
	if checkpoint <= w.durable.Checkpoint || resolved < checkpoint {
		w.t.Errorf("%d–%d is to be saved after %v", checkpoint, resolved, w.durable)
	}
	for _, d := range w.up.ddls {
		if _, ok := w.down.done[d.JobID]; !ok && d.SwitchTS <= checkpoint && w.scope.Turn(d, func() []*event.Table { return nil }).Send != nil {
			w.t.Errorf("%d is to be saved, and DDL %d at %d is not done", checkpoint, d.JobID, d.SwitchTS)
		}
	}
	w.durable = scheduler.Watermark{Checkpoint: checkpoint, Resolved: resolved}
	w.happened("saved %d", checkpoint.Physical())
	return nil
}
