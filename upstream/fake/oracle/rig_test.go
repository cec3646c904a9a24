package oracle_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/oracle"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
	"github.com/sluice-cdc/sluice/verify"
)

// rig is a living cluster with a whole changefeed behind it, from before the
// first table on, into nothing but the judges.
type rig struct {
	t       *testing.T
	ctx     context.Context
	rng     *rand.Rand
	server  *workload.Server
	tables  *filter.Filter
	into    *judged
	changes *pipeline.Pipeline
	stop    func()
	ended   chan error

	moments     []moment            // between steps
	hanging     []*workload.Session // that began a step ago and are not committed
	kept        int                 // numbers of rows that only hanging sessions write
	wrote, hung int                 // transactions committed: between two steps, and across one
	old, steps  int
}

// judged is a sink that keeps what it is given for the judges.
type judged struct {
	mu     sync.Mutex // guards what follows: the test asks while the pipeline writes
	judge  *verify.Judge
	oracle *oracle.Oracle
	want   *verify.Expected // filled before the judge is asked
	ddls   []*event.DDL
}

func (j *judged) Write(_ context.Context, _ sink.Leave, txns []event.Txn) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range txns {
		j.judge.Txn(&txns[i])
		j.oracle.Txn(&txns[i])
	}
	return nil
}

func (j *judged) DDL(_ context.Context, _ sink.Leave, d *event.DDL) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.judge.DDL(d)
	j.oracle.DDL(d.JobID)
	j.ddls = append(j.ddls, d)
	return nil
}

func (j *judged) Checkpoint(_ context.Context, ts tso.TS) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.judge.Checkpoint(ts)
	j.oracle.Checkpoint(ts)
	return nil
}

func (*judged) Flush(context.Context) error                                  { return nil }
func (*judged) SyncPoint(context.Context, sink.Leave, event.SyncPoint) error { return nil }

func (*judged) Whole() bool  { return false }
func (*judged) Close() error { return nil }

func newRig(t *testing.T, seed uint64) *rig {
	t.Helper()
	cluster, err := fake.Start(fake.Config{ResolvedInterval: 5 * time.Millisecond})
	must(t, err)
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	services, ctx := errgroup.WithContext(ctx)
	services.Go(func() error { return cluster.Run(ctx) })
	r := &rig{t: t, ctx: ctx, stop: stop, rng: rand.New(rand.NewPCG(seed, 1)), ended: make(chan error, 1), kept: 1000}
	r.server, err = workload.NewServer(ctx, live.New(cluster))
	must(t, err)
	cfg := upstream.Default()
	cfg.PD = cluster.PD()
	client, err := upstream.Open(ctx, cfg)
	must(t, err)
	services.Go(func() error { return client.Run(ctx) })
	rows := ingest.New(client, sorter.NewMemory(sorter.Default().MemoryQuota))
	services.Go(func() error { return rows.Run(ctx) })
	start, err := client.TS(ctx)
	must(t, err)
	feed := schemafeed.New(schemafeed.Config{StartTS: start}, client)
	must(t, feed.Load(ctx))
	services.Go(func() error { return feed.Run(ctx) })
	r.tables, err = filter.New(filter.Config{})
	must(t, err)
	want := &verify.Expected{}
	r.into = &judged{
		judge:  verify.NewJudge(verify.Config{StartTS: start, Databases: []string{"test"}, Expected: want}),
		want:   want,
		oracle: oracle.OfServer(r.server, r.tables.Table),
	}
	r.changes = pipeline.New(pipeline.Config{Changefeed: "rig", StartTS: start, Filter: r.tables, ForceReplicate: true}, rows, feed, r.into)
	services.Go(func() error { return r.changes.Run(ctx) })
	go func() {
		err := services.Wait()
		client.Close()
		r.ended <- err
	}()
	return r
}

// storm lets faults strike until it is told to end.
func (r *rig) storm(on bool, seed uint64) (calm func()) {
	if !on {
		return func() {}
	}
	ctx, cancel := context.WithCancel(r.ctx)
	var struck errgroup.Group
	struck.Go(func() error {
		return r.server.Cluster().Storm(ctx, fake.Storm{Seed: seed, For: 50 * time.Millisecond})
	})
	return func() {
		cancel()
		must(r.t, struck.Wait())
	}
}

// exec runs DDL in a database, with writers between all steps.
func (r *rig) exec(db, sql string) error {
	defer r.release()
	return r.server.Exec(r.ctx, sql, catalog.Session{DB: db}, r.noting)
}

// fill writes some rows of every table.
func (r *rig) fill() {
	r.t.Helper()
	x, err := r.server.Begin(r.ctx, live.Options{}, false)
	must(r.t, err)
	defer x.End()
	number := 0
	for range 6 {
		must(r.t, r.write(r.ctx, x, func() int { number++; return number % 12 }))
	}
	_, err = x.Commit(r.ctx)
	must(r.t, err)
}

// between writes as servers of either version of the schema do. Some begin here
// and commit one step later.
func (r *rig) between(ctx context.Context, step *catalog.Step) error {
	r.steps++
	for _, x := range r.hanging {
		done, err := r.commit(ctx, x)
		x.End()
		if err != nil {
			return err
		}
		if done {
			r.hung++
		}
	}
	r.hanging = nil
	for _, late := range []bool{true, false} {
		x, err := r.server.Begin(ctx, live.Options{Pessimistic: r.rng.IntN(2) == 0, OnePhase: r.rng.IntN(2) == 0, AsyncCommit: r.rng.IntN(2) == 0}, late)
		if err != nil {
			return err
		}
		err = r.write(ctx, x, func() int { return r.rng.IntN(12) })
		done := false
		if err == nil {
			done, err = r.commit(ctx, x)
		}
		x.End()
		if err != nil {
			return err
		}
		if done {
			r.wrote++
			if late {
				r.old++
			}
		}
	}
	x, err := r.server.Begin(ctx, live.Options{}, false)
	if err != nil {
		return err
	}
	r.hanging = append(r.hanging, x)
	if err := r.write(ctx, x, func() int { r.kept++; return r.kept }); err != nil {
		return err
	}
	if step.Backfill != nil {
		return nil // its reads would wait for the locks
	}
	return forgiven(x.Prewrite(ctx))
}

// write changes rows of all tables that a session knows.
func (r *rig) write(ctx context.Context, x *workload.Session, number func() int) error {
	for _, shape := range x.Tables("") {
		for range 2 {
			rec, key, err := x.Draw(shape, number(), r.rng)
			if refused, ok := errors.AsType[*catalog.Error](err); ok && refused.Code == 1526 {
				continue // no partition takes it any more
			}
			if err != nil {
				return err
			}
			there, err := x.Exists(ctx, key)
			if err != nil {
				return err
			}
			if there && r.rng.IntN(3) == 0 {
				err = x.Delete(shape, rec)
			} else {
				err = x.Put(shape, rec)
			}
			if forgiven(err) != nil {
				return fmt.Errorf("%s: %w", shape.Table.FullName(), err)
			}
		}
	}
	return nil
}

func (r *rig) commit(ctx context.Context, x *workload.Session) (bool, error) {
	_, err := x.Commit(ctx)
	if err != nil && x.CommitTS() == 0 {
		return false, errors.Join(forgiven(err), forgiven(x.Rollback(ctx)))
	}
	return err == nil, forgiven(err)
}

// forgiven: a statement that is refused, or has to be tried again, writes nothing.
func forgiven(err error) error {
	var refused *catalog.Error
	if live.Retry(err) || errors.As(err, &refused) {
		return nil
	}
	return err
}

// release lets what hangs go, uncommitted, where a job has ended early.
func (r *rig) release() {
	for _, x := range r.hanging {
		must(r.t, forgiven(x.Rollback(r.ctx)))
		x.End()
	}
	r.hanging = nil
}

// finish waits for the changefeed to reach what happened last, and judges.
func (r *rig) finish() {
	r.t.Helper()
	end := r.server.Cluster().TS()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for r.changes.Checkpoint() < end {
		select {
		case err := <-r.ended:
			r.t.Fatalf("the changefeed has ended: %v", err)
		case <-tick.C:
		}
	}
	r.stop()
	if err := <-r.ended; err != nil && !errors.Is(err, context.Canceled) {
		r.t.Fatal(err)
	}
	must(r.t, oracle.Store(r.server.Cluster(), end, r.tables, r.into.want))
	for what, v := range map[string]*verify.Verdict{"deliveries": r.into.oracle.Verdict(end), "rows": r.into.judge.Rows(), "end": r.into.judge.End()} {
		for _, d := range v.First[:min(len(v.First), 10)] {
			r.t.Errorf("%s: %s", what, d)
		}
		if len(v.First) == 0 && !v.Equal() {
			r.t.Errorf("%s: %s", what, v.Word())
		}
		r.t.Logf("%s: %s %s", what, v.Word(), v.Notes)
	}
	r.t.Logf("%d steps, %d transactions between them, %d of the old version, %d across one; %d rows of unknown ids, %d that reach nobody",
		r.steps, r.wrote, r.old, r.hung, r.changes.Progress().Unknown, r.into.oracle.Strays())
}
