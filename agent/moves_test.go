package agent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// change is one commit of one key.
type change struct {
	key string
	at  tso.TS
}

// ledger is a downstream of several writers that is told what was committed upstream.
type ledger struct {
	t *testing.T

	mu        sync.Mutex
	committed []change
	took      map[change]capture.ID
	latest    map[string]tso.TS
	writers   map[int64][]capture.ID // of a physical table, one after the other
}

// take is a row that comes. Nothing fails in these tests, so a second time would be by
// two writers, or a place that was lost; and no row comes after a later one of its key.
func (d *ledger) take(by capture.ID, table int64, c change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if other, ok := d.took[c]; ok {
		d.t.Errorf("%s writes %X at %d, which %s has written", by, c.key, c.at, other)
	}
	if d.latest[c.key] > c.at {
		d.t.Errorf("%s writes %X at %d after %d", by, c.key, c.at, d.latest[c.key])
	}
	d.took[c], d.latest[c.key] = by, c.at
	if w := d.writers[table]; len(w) == 0 || w[len(w)-1] != by {
		d.writers[table] = append(w, by)
	}
}

// has tells what is missing up to ts, of keys with a prefix.
func (d *ledger) missing(upto tso.TS) (out []change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.committed {
		if _, ok := d.took[c]; !ok && c.at <= upto {
			out = append(out, c)
		}
	}
	return out
}

// ready is what a DDL needs (P6): of its tables all rows at or below its switch-ts, and none
// above.
func (d *ledger) ready(x *scheduler.DDL) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.committed {
		id, _, _ := mount.ParseRecordKey([]byte(c.key))
		if _, took := d.took[c]; slices.Contains(x.Tables, id) && took != (c.at <= x.TS) {
			d.t.Errorf("DDL %d at %d is to be carried out: %X at %d is downstream: %v", x.Job, x.TS, c.key, c.at, took)
		}
	}
}

// hand is one capture's sink.
type hand struct {
	*blackhole.Sink
	by capture.ID
	to *ledger
}

func (h hand) Write(_ context.Context, leave sink.Leave, txns []event.Txn) error {
	if g := leave(); g.Fence == 0 || g.Epoch != 1 {
		h.to.t.Errorf("%s writes under %+v", h.by, g)
	}
	for i := range txns {
		for _, r := range txns[i].Rows {
			h.to.take(h.by, r.Table.ID, change{string(r.Key), r.CommitTS})
		}
	}
	return nil
}

// crew is two captures in one process, what they write to, and the owner that leads
// them.
type crew struct {
	*testing.T
	server *workload.Server
	ledger *ledger
	lines  map[capture.ID]*line
	owner  *scheduler.Owner
	feed   *schemafeed.Feed
	scope  filter.Scope

	mu     sync.Mutex // held by the owner's loop while it works, and to ask it for something
	ddls   int
	marked tso.TS
}

// patience is far longer than anything here takes.
const patience = 3 * time.Minute

func newCrew(t *testing.T) (c *crew, end func()) {
	cluster, err := fake.Start(fake.Config{ResolvedInterval: 5 * time.Millisecond})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return cluster.Run(ctx) })
	c = &crew{T: t, ledger: &ledger{t: t, took: map[change]capture.ID{}, latest: map[string]tso.TS{}, writers: map[int64][]capture.ID{}}, lines: map[capture.ID]*line{}}
	client := live.New(cluster)
	c.server, err = workload.NewServer(ctx, client)
	must(t, err)
	for i := range 4 {
		c.exec(ctx, fmt.Sprintf("create table t%d (id int primary key, v varchar(20))", i))
	}
	start, err := clusterTS(ctx, cluster)
	must(t, err)
	rules, err := filter.New(filter.Config{Rules: []string{"test.*"}})
	must(t, err)
	c.scope = filter.Scope{Rules: rules}
	var captures []*agent.Capture
	for _, id := range []capture.ID{"a", "b"} {
		node := agent.DefaultCapture()
		node.Upstream.PD = cluster.PD()
		one, err := agent.Open(ctx, node)
		must(t, err)
		captures = append(captures, one)
		g.Go(func() error { return one.Run(ctx) })
		l := &line{ready: make(chan struct{}, 1)}
		c.lines[id] = l
		p, err := one.Part(agent.PartConfig{
			Name: "test", ID: id, Epoch: 1, StartTS: start, Checkpoint: start.Prev(), Filter: filter.Config{Rules: []string{"test.*"}},
			Line: l, Liveness: func() capture.Liveness { return capture.Alive }, Lease: func() time.Time { return time.Time{} },
			Open: func(context.Context, agent.Opening) (sink.Sink, error) {
				s, err := blackhole.Open("blackhole://")
				return hand{s, id, c.ledger}, err
			},
		})
		must(t, err)
		g.Go(func() error { return p.Run(ctx) })
	}
	c.feed = schemafeed.New(schemafeed.Config{StartTS: start}, captures[0].Client)
	must(t, c.feed.Load(ctx))
	g.Go(func() error { return c.feed.Run(ctx) })
	cfg := scheduler.Default()
	cfg.Owner, cfg.Epoch = 1, 1
	at := start.Prev()
	r := scheduler.Resume{Watermark: scheduler.Watermark{Checkpoint: at, Resolved: at}}
	for _, x := range c.feed.Tables(at) {
		if c.scope.Table(x) == filter.Wanted {
			r.Tables = append(r.Tables, x.PhysicalIDs()...)
		}
	}
	c.owner, err = scheduler.New(cfg, r)
	must(t, err)
	g.Go(func() error { return c.lead(ctx) })
	return c, func() {
		stop()
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		for _, x := range captures {
			must(t, x.Close())
		}
	}
}

func clusterTS(ctx context.Context, cluster *fake.Cluster) (tso.TS, error) {
	node := agent.DefaultCapture()
	node.Upstream.PD = cluster.PD()
	c, err := agent.Open(ctx, node)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	return c.Client.TS(ctx)
}

func (c *crew) exec(ctx context.Context, sql string) {
	c.Helper()
	must(c.T, c.server.Exec(ctx, sql, catalog.Session{DB: "test"}, func(context.Context, *catalog.Step) error { return nil }))
}

// lead is an owner's loop: the least that does.
func (c *crew) lead(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := c.turn(); err != nil {
			return err
		}
	}
}

func (c *crew) turn() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		for _, r := range l.reports() {
			if r.Fault != "" {
				c.Errorf("capture %s: %s", r.Capture, r.Fault)
			}
			c.owner.Step(r)
		}
		l.forget()
	}
	known := c.feed.Resolved()
	for _, d := range c.feed.DDLs(known) {
		turn := c.scope.Turn(d, func() []*event.Table { return c.feed.Tables(d.SwitchTS.Prev()) })
		if turn.Counts() {
			var names []scheduler.Name
			for _, n := range turn.Names {
				names = append(names, scheduler.Name(n))
			}
			c.owner.Schema(d.SwitchTS, scheduler.DDL{Job: d.JobID, TS: d.SwitchTS, Tables: turn.Tables, Added: turn.Added, Removed: turn.Removed, Names: names})
		}
	}
	c.owner.Schema(known)
	r := c.owner.Tick(scheduler.View{Members: []scheduler.Member{{ID: "a"}, {ID: "b"}}})
	if r.Err != nil {
		return r.Err
	}
	if r.Watermark.Checkpoint < c.marked {
		c.Errorf("the watermark goes back from %d to %d", c.marked, r.Watermark.Checkpoint)
	}
	c.marked = r.Watermark.Checkpoint
	if lost := c.ledger.missing(c.marked); len(lost) > 0 {
		c.Errorf("the watermark is at %d, and %d changes below are not downstream, the first %X at %d", c.marked, len(lost), lost[0].key, lost[0].at)
	}
	c.owner.Saved(r.Watermark)
	for _, d := range r.DDLs {
		c.ddls++
		c.ledger.ready(&d)
		c.owner.Executed(d.Job)
	}
	for _, m := range r.Messages {
		c.lines[m.Capture].give(m)
	}
	return nil
}

// write commits n transactions of a few rows each.
func (c *crew) write(ctx context.Context, rng *rand.Rand, n int) error {
	for range n {
		x, err := c.server.Begin(ctx, live.Options{}, rng.IntN(4) == 0)
		if err != nil {
			return err
		}
		var keys []string
		all := x.Tables("test")
		for range 1 + rng.IntN(4) {
			shape := all[rng.IntN(len(all))]
			r, key, err := x.Draw(shape, rng.IntN(50), rng)
			if err != nil {
				return err
			}
			if slices.Contains(keys, string(key)) {
				continue
			}
			if err := x.Put(shape, r); err != nil {
				return err
			}
			keys = append(keys, string(key))
		}
		// Noted before it can be delivered: with the ledger locked nothing is.
		c.ledger.mu.Lock()
		at, err := x.Commit(ctx)
		for _, k := range keys {
			if err == nil {
				c.ledger.committed = append(c.ledger.committed, change{k, at})
			}
		}
		c.ledger.mu.Unlock()
		x.End()
		if err != nil && !live.Retry(err) {
			return err
		}
	}
	return nil
}

// caughtUp waits until the watermark is at ts.
func (c *crew) caughtUp(ts tso.TS) {
	c.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		at := c.marked
		c.mu.Unlock()
		if at >= ts {
			return
		}
		select {
		case <-deadline:
			c.Fatalf("the watermark is at %d after %v, want %d", at, patience, ts)
		case <-time.After(time.Millisecond):
		}
	}
}

// Two captures, between which an operator moves tables back and forth while they are
// written and change: no row is lost, none comes twice or out of order, and the
// watermark never passes one that is missing.
func TestTablesMoveUnderLoad(t *testing.T) {
	c, end := newCrew(t)
	defer end()
	rounds := 40
	if testing.Short() {
		rounds = 12
	}
	rng := rand.New(rand.NewPCG(7, 7))
	moved := 0
	for i := range rounds {
		must(t, c.write(t.Context(), rng, 20))
		switch i % 10 {
		case 3:
			c.exec(t.Context(), fmt.Sprintf("alter table t%d add column c%d int", i%4, i))
		case 5:
			c.exec(t.Context(), fmt.Sprintf("create table n%d (id int primary key)", i))
		case 7:
			c.exec(t.Context(), fmt.Sprintf("rename table t%d to r%d, r%d to t%d", (i+1)%4, i, i, (i+1)%4))
		}
		c.mu.Lock()
		for _, x := range c.feed.Tables(c.feed.Resolved()) {
			if c.scope.Table(x) == filter.Wanted && c.owner.Move(x.ID, []capture.ID{"a", "b"}[rng.IntN(2)]) == nil {
				moved++
			}
		}
		c.mu.Unlock()
		c.ledger.mu.Lock()
		last := c.ledger.committed[len(c.ledger.committed)-1].at
		c.ledger.mu.Unlock()
		if i%3 == 0 {
			c.caughtUp(last)
		}
	}
	c.ledger.mu.Lock()
	last := c.ledger.committed[len(c.ledger.committed)-1].at
	c.ledger.mu.Unlock()
	c.caughtUp(last)
	if lost := c.ledger.missing(tso.Max); len(lost) > 0 {
		t.Errorf("%d changes are lost", len(lost))
	}
	changes := 0
	for _, w := range c.ledger.writers {
		changes += len(w) - 1
	}
	t.Logf("%d changes of %d tables, %d moves asked for, %d times another writer, %d DDLs", len(c.ledger.took), len(c.ledger.writers), moved, changes, c.ddls)
	if changes < rounds/4 || c.ddls < rounds/5 {
		t.Errorf("only %d changes of writers and %d DDLs", changes, c.ddls)
	}
}
