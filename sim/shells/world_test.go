package shells_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

const (
	leaseTTL    = 2 * time.Second
	leaseMargin = 300 * time.Millisecond
	renewEvery  = 200 * time.Millisecond
)

// world is a cluster, all that it talks to, and what has gone wrong.
type world struct {
	scope filter.Scope
	all   errgroup.Group // every goroutine of the world

	mu      sync.Mutex
	rng     *rand.Rand // guarded by mu, like all below
	up      database
	down    downstream
	storage *storage // nil: there is no redo log
	splits  bool     // tables are cut; set once
	local   bool     // what rows' sinks fail of is the trouble of one capture; set once
	nodes   []*node  // those that run
	dead    []*node  // whose keys are still in etcd
	born    int
	changed map[*node]chan struct{}

	rev     scheduler.Revision
	reign   scheduler.Revision // of the owner of the moment, 0 for none
	leader  *node
	durable scheduler.Watermark
	status  status
	news    chan struct{} // closed when status is another
	owners  int
	parts   int // of tables, in the end
	runs    int
	faults  int // of runs
	drained int // by an operator
	points  int // to the next at which something happens
	turns   int // points at which something has

	weather weather
	cuts    map[[2]*node]time.Time // until when nothing gets from one to the other
	late    int

	stragglers []batch // of dead processes, that arrive when nobody expects them any more

	sent     int
	lost     int
	over     bool
	first    error
	failures int // of saves
}

// weather is how the network, etcd, the downstream and the log's storage are.
type weather struct {
	drop, double, slow, save, sink, fence, store float64
}

// node is one run of one server.
type node struct {
	w   *world
	id  capture.ID
	end context.CancelFunc // of all of it
	run *errgroup.Group

	in *ingest.Ingest

	// Guarded by the world's mu.
	part    *agent.Part // nil: it takes part in no run
	line    *partLine
	lead    *lead
	floor   scheduler.Revision // the least owner who may be obeyed
	dead    bool
	stuck   bool // what it writes is on its way, and stays so
	life    capture.Liveness
	lease   time.Time // until when it may write
	expires time.Time // etcd's
	away    time.Time // until when it does not reach etcd
}

// spans are what a node has something of.
func (n *node) spans() []scheduler.Status {
	if n.part == nil {
		return nil
	}
	return n.part.Spans()
}

func text(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func (w *world) failLocked(format string, args ...any) {
	if w.first == nil {
		w.first = fmt.Errorf("after %v: %s", time.Since(w.up.begin).Round(time.Millisecond), text(format, args...))
	}
}

func (w *world) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

func (w *world) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first
}

// pass lets up to so many milliseconds go by, a tenth of them at least.
func (w *world) pass(ctx context.Context, ms int) error {
	w.mu.Lock()
	d := time.Duration(ms)*time.Millisecond/10 + time.Duration(w.rng.IntN(ms*900))*time.Microsecond
	if w.rng.Float64() < w.weather.slow/4 {
		d *= 20
	}
	w.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newWorld(rng *rand.Rand) *world {
	rules, err := filter.New(filter.Config{Rules: []string{"d.*"}})
	if err != nil {
		panic(err)
	}
	w := &world{
		scope: filter.Scope{Rules: rules}, rng: rand.New(rand.NewPCG(rng.Uint64(), 2)),
		up: database{begin: time.Now(), all: map[int64]*source{}}, changed: map[*node]chan struct{}{}, cuts: map[[2]*node]time.Time{}, rev: 1,
		down:   downstream{floors: map[capture.ID]scheduler.Term{}, fenced: rng.IntN(2) == 0},
		status: status{1, true}, news: make(chan struct{}),
	}
	if rng.IntN(2) == 0 {
		w.points = 1 + rng.IntN(pointsEvery)
	}
	if rng.IntN(3) == 0 {
		w.storage = newStorage(w, rng)
	}
	w.splits = rng.IntN(3) == 0
	w.local = rng.IntN(2) == 0
	for i := range 1 + rng.IntN(3) {
		w.up.create(text("t%d", i))
	}
	at := w.up.next()
	w.durable = scheduler.Watermark{Checkpoint: at, Resolved: at}
	w.down.synced = at
	if rng.IntN(3) == 0 {
		w.down.syncEvery = int64(300 + rng.IntN(700))
	}
	return w
}

// start begins a node.
func (w *world) start() {
	rows := sorter.NewMemory(1 << 20)
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	w.born++
	ctx, end := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	n := &node{w: w, id: capture.ID(text("c%02d", w.born)), end: end, run: g, in: ingest.New(stream{w}, rows)}
	w.rev++
	// The owner of the moment, or whoever comes after this moment.
	if n.floor = w.reign; n.floor == 0 {
		n.floor = w.rev + 1
	}
	w.renewLocked(n)
	w.nodes = append(w.nodes, n)
	w.changed[n] = make(chan struct{}, 1)
	w.joinedLocked()
	w.mu.Unlock()
	g.Go(func() error { return n.in.Run(ctx) })
	g.Go(func() error { return n.sit(ctx) })
	w.all.Go(func() error {
		_ = g.Wait()
		return rows.Close()
	})
}

func (w *world) joinedLocked() {
	for _, c := range w.changed {
		signal(c)
	}
}

func (w *world) renewLocked(n *node) {
	n.expires = time.Now().Add(leaseTTL)
	n.lease = n.expires.Add(-leaseMargin)
}

func (w *world) leaseOf(n *node) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return n.lease
}

// hang keeps what a node writes on its way for a while.
func (w *world) hang(rng *rand.Rand, n *node) {
	w.mu.Lock()
	n.stuck = true
	for range 10 {
		w.up.commit(rng)
	}
	w.mu.Unlock()
	<-time.After(time.Duration(50+rng.IntN(600)) * time.Millisecond)
}

// hangLocked waits for the end of who is stuck.
func (w *world) hangLocked(ctx context.Context) error {
	w.mu.Unlock()
	<-ctx.Done()
	w.mu.Lock()
	return ctx.Err()
}

// straggle has what a process sent before it died arrive when all is as it should be: as
// late as a connection likes, where it is not its lease that keeps it from writing.
func (w *world) straggle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.stragglers {
		_ = w.arriveLocked(&w.stragglers[i]) // who would hear of it is gone
	}
}

// crash ends a node; its key is in etcd for as long as its lease.
func (w *world) crash(n *node) {
	w.mu.Lock()
	if n.dead {
		w.mu.Unlock()
		return
	}
	n.dead = true
	w.nodes = slices.DeleteFunc(w.nodes, func(x *node) bool { return x == n })
	w.dead = append(w.dead, n)
	delete(w.changed, n)
	l := n.lead
	w.mu.Unlock()
	n.end()
	if l != nil {
		l.end()
	}
}

// keep renews leases, ends those that are over, and sees to it that there is an owner.
func (w *world) keep(ctx context.Context) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		w.mu.Lock()
		now := time.Now()
		var over []*node
		for _, n := range w.nodes {
			switch {
			case now.Before(n.away):
			case now.Before(n.expires):
				w.renewLocked(n)
			}
			if !now.Before(n.expires) {
				over = append(over, n)
			}
		}
		w.dead = slices.DeleteFunc(w.dead, func(n *node) bool {
			if now.Before(n.expires) {
				return false
			}
			if w.leader == n {
				w.leader, w.reign = nil, 0
			}
			w.joinedLocked()
			return true
		})
		w.mu.Unlock()
		for _, n := range over { // its session is over: it begins anew under another name
			w.crash(n)
			w.start()
		}
		w.elect()
	}
}

// elect gives the cluster to a node if nobody has it.
func (w *world) elect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var can []*node
	for _, n := range w.nodes {
		if n.lead == nil && time.Now().After(n.away) && n.life == capture.Alive {
			can = append(can, n)
		}
	}
	if w.leader != nil || len(can) == 0 || w.over {
		return
	}
	n := can[w.rng.IntN(len(can))]
	w.rev++
	w.reign, w.leader = w.rev, n
	w.owners++
	w.leadLocked(n, w.rev)
}

// resign takes the cluster from its owner, who learns of it or not. Where nobody would
// refuse it, it is given back by an owner who has ended what it did.
func (w *world) resign(tell bool) {
	w.mu.Lock()
	n := w.leader
	if n == nil {
		w.mu.Unlock()
		return
	}
	l := n.lead
	if w.down.fenced || l == nil {
		w.leader, w.reign = nil, 0
	} else {
		tell = true
	}
	w.mu.Unlock()
	if tell && l != nil {
		l.end()
	}
}

// members are the captures in etcd, by id; who does not reach etcd knows what it knew.
func (w *world) members(*node) (out []scheduler.Member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range slices.Concat(w.nodes, w.dead) {
		out = append(out, scheduler.Member{ID: n.id, Liveness: n.life})
	}
	slices.SortFunc(out, func(a, b scheduler.Member) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// save makes a watermark durable, for the owner of the moment.
func (w *world) save(ctx context.Context, n *node, rev scheduler.Revision, run uint64, to scheduler.Watermark) error {
	w.at(n)
	defer w.at(n)
	if err := w.pass(ctx, 10); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	away := time.Now().Before(n.away) || w.rng.Float64() < w.weather.save
	if away && w.rng.IntN(2) == 0 {
		w.failures++
		return cdcerr.MetaUnreachable.New("etcd is away")
	}
	if w.reign != rev {
		return cdcerr.NotOwner.New("%d is, not %d", w.reign, rev)
	}
	if w.status != (status{run, true}) {
		return errRunOver
	}
	if w.storage != nil && to.Checkpoint > w.storage.meta.Resolved {
		w.failLocked("P5: %d is to be durable, and the log's meta says %d", to.Checkpoint, w.storage.meta.Resolved)
	}
	if to.Checkpoint < w.durable.Checkpoint || to.Resolved < w.durable.Resolved || to.Checkpoint > to.Resolved {
		w.failLocked("P3: %v is to be durable after %v", to, w.durable)
	}
	if missing := w.wholeLocked(to.Checkpoint); missing != "" {
		w.failLocked("P3: %d is to be durable without %s", to.Checkpoint, missing)
	}
	if to.Checkpoint >= w.down.nextSync() {
		w.failLocked("P6: %d is to be durable, sync point %d is not noted", to.Checkpoint, w.down.nextSync())
	}
	w.durable = to
	if away { // it was made durable, and nobody heard
		w.failures++
		return cdcerr.MetaUnreachable.New("etcd is away")
	}
	return nil
}

// path is a node's data path.
type path struct{ n *node }

func (p path) TS(ctx context.Context) (tso.TS, error) {
	if err := p.n.w.pass(ctx, 3); err != nil {
		return 0, err
	}
	p.n.w.mu.Lock()
	defer p.n.w.mu.Unlock()
	return p.n.w.up.next(), nil
}

func (p path) Feed(cfg schemafeed.Config) agent.Feed { return p.n.w.feed(cfg) }

func (p path) Engine(cfg pipeline.SpansConfig, s pipeline.Schema) agent.Engine {
	cfg.FlushEvery = 20 * time.Millisecond
	cfg.Log = slog.New(slog.DiscardHandler)
	return pipeline.NewSpans(cfg, p.n.in, s)
}

func (p path) Snapshot() *agent.Snapshot { return nil }

// Regions are one for each key of a table.
func (p path) Regions() map[span.Span]int {
	w, out := p.n.w, map[span.Span]int{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.up.all {
		all := borders(span.OfTable(id))
		for i := range len(all) + 1 {
			for j := i; j < len(all)+1; j++ {
				s := span.OfTable(id)
				if i > 0 {
					s.Start = all[i-1]
				}
				if j < len(all) {
					s.End = all[j]
				}
				out[s] = j - i + 1
			}
		}
	}
	return out
}

// borders are the keys inside a span but the first of its table.
func borders(s span.Span) (out []span.Key) {
	for k := int64(1); k < keys; k++ {
		if b := span.EncodeKey(span.AppendInt(span.RecordPrefix(s.TableID), k)); b > s.Start && s.Contains(b) {
			out = append(out, b)
		}
	}
	return out
}

func (p path) LogFeed(cfg pipeline.LogFeedConfig, s pipeline.Schema) agent.LogFeed {
	return pipeline.NewLogFeed(cfg, p.n.in, s)
}
