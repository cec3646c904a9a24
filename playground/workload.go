package playground

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/oracle"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
	"github.com/sluice-cdc/sluice/verify"
)

// catchUp is how long a changefeed may take to reach what a workload wrote last.
const catchUp = 5 * time.Minute

// abandoned is the part of a workload's transactions whose client dies.
const abandoned = 0.002

// perform is the whole of a run of a workload.
func (p *player) perform(ctx context.Context) int {
	o := p.options.Workload
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	fmt.Fprintf(p.words, "%s: %d transactions a second for %v; --seed %d\n", o.Kind, o.Rate, o.Duration, o.Seed)
	v, err := p.stage(ctx, o)
	status := allEqual
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(p.words, "%s: interrupted\n", o.Kind)
		return couldNotRun
	case err != nil:
		fmt.Fprintf(p.words, "%s: could not run: %s\n", o.Kind, cdcerr.Explain(err))
		status = couldNotRun
	default:
		p.report(o.Kind, v)
		if !v.equal() {
			status = differs
		}
	}
	p.excuse(ctx, status)
	if !p.options.Verify {
		p.stay(ctx)
	}
	return status
}

// stage runs a workload on a live cluster, with a changefeed from before its
// first table on, and compares once the changefeed has reached its end.
func (p *player) stage(ctx context.Context, o Workload) (v *verdicts, err error) {
	began := time.Now()
	cluster, err := fake.Start(fake.Config{PDs: 3, Seed: o.Seed})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	services, ctx := errgroup.WithContext(ctx) // what serves until the changefeed is done
	services.Go(func() error { return cluster.Run(ctx) })
	var a attached
	defer func() {
		stop()
		if served := services.Wait(); served != nil && !errors.Is(served, context.Canceled) {
			v, err = nil, served // the cause: err only says that everything was told to end
		}
		err = errors.Join(err, a.close())
	}()
	w, err := workload.New(ctx, live.New(cluster), workload.Config{
		Kind: o.Kind, Seed: o.Seed, Rate: o.Rate, Abandon: abandoned, Tables: p.options.Captures * tablesEach,
		Told: func(db, sql string, refused error) { p.log.Info("DDL", "database", db, "sql", sql, "refused", refused) },
	})
	if err != nil {
		return nil, err
	}
	databases := databasesOf(w)
	if p.options.Captures > 0 {
		databases = w.Databases() // what else stands upstream was there before the changefeed
	}
	if err := p.target.claim(ctx, databases); err != nil {
		return nil, err
	}
	s := &scene{player: p, options: o, cluster: cluster, workload: w, attached: &a, expected: &verify.Expected{}}
	if p.options.Captures > 0 {
		v, err = s.together(ctx)
	} else {
		v, err = s.alone(ctx, services)
	}
	if err == nil {
		v.took = time.Since(began)
	}
	return v, err
}

// tablesEach is how many tables of a bank there are for each capture: enough that some
// can move. Without captures it is the workload's own number.
const tablesEach = 4

// alone has one capture of this process replicate, past a judge of every row.
func (s *scene) alone(ctx context.Context, services *errgroup.Group) (*verdicts, error) {
	cfg := upstream.Default()
	cfg.PD, cfg.Log = s.cluster.PD(), s.player.log
	if err := s.attached.attach(ctx, services, cfg, changefeed(s.player.log)); err != nil {
		return nil, err
	}
	s.tellPD(s.attached.start)
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s.compare(ctx)
}

func (s *scene) tellPD(start tso.TS) {
	fmt.Fprintf(s.player.words, "PD at %s; all tables come after start-ts %d\n", strings.Join(s.cluster.PD(), ","), start)
}

// scene is one run of a workload.
type scene struct {
	player   *player
	options  Workload
	cluster  *fake.Cluster
	workload *workload.Workload
	attached *attached
	expected *verify.Expected // filled when the run is over
	judge    *verify.Judge
	oracle   *oracle.Oracle
	end      tso.TS // everything at or below it has happened, nothing above
}

// run lets the workload and the changefeed run until the changefeed has
// delivered everything.
func (s *scene) run(ctx context.Context) (err error) {
	a := s.attached
	s.judge = verify.NewJudge(verify.Config{StartTS: a.start, Databases: a.names(), Tables: a.before, Expected: s.expected})
	s.oracle = oracle.New(s.workload, a.tables.Table)
	into, err := s.player.target.open(ctx, a)
	if err != nil {
		return err
	}
	watched := &tee{Sink: into, judge: s.judge, oracle: s.oracle}
	defer func() { err = errors.Join(err, watched.Close()) }()
	tasks, ctx := errgroup.WithContext(ctx)
	following, done := context.WithCancel(ctx)
	tasks.Go(func() error {
		if err := a.Run(following, watched); following.Err() == nil {
			return err
		}
		return nil // it was told to end
	})
	if !s.player.options.Verify {
		now := func() (tso.TS, error) { return s.cluster.TS(), nil }
		tasks.Go(func() error {
			return s.player.watch(following, status{now: now, progress: a.Progress, start: time.Now()})
		})
	}
	tasks.Go(func() error {
		defer done()
		if err := s.act(ctx, nil); err != nil {
			return err
		}
		return s.reach(ctx, func() tso.TS { return a.Progress().Checkpoint })
	})
	return tasks.Wait()
}

// act runs the workload, and faults beside it, and what else is to happen.
func (s *scene) act(ctx context.Context, beside func(ctx context.Context) error) error {
	if err := s.workload.Prepare(ctx); err != nil {
		return err
	}
	tasks, ctx := errgroup.WithContext(ctx)
	bad, calm := context.WithCancel(ctx)
	if s.options.Storm {
		tasks.Go(func() error {
			return s.cluster.Storm(bad, fake.Storm{Seed: s.options.Seed, Every: 200 * time.Millisecond, Told: func(name, what string) {
				s.player.log.Info("fault", "name", name, "what", what)
			}})
		})
	}
	tasks.Go(func() error {
		defer calm()
		return s.workload.Run(ctx, s.options.Duration)
	})
	if beside != nil {
		tasks.Go(func() error { return beside(ctx) })
	}
	err := tasks.Wait()
	s.end = s.cluster.TS()
	n := s.workload.Counts()
	fmt.Fprintf(s.player.words, "%s: %d transactions, %d clients that died, %d DDLs, %d refused\n", s.options.Kind, n.Txns, n.Abandoned, n.DDLs, n.Refused)
	return err
}

// reach waits for the checkpoint to reach the end.
func (s *scene) reach(ctx context.Context, checkpoint func() tso.TS) error {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for checkpoint() < s.end {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("checkpoint %d, %v after the last write at %d or below: %w", checkpoint(), catchUp, s.end, ctx.Err())
		}
	}
	return nil
}

// compare has both verdicts: rows against what was written, the end against
// what the fake's own store holds.
func (s *scene) compare(ctx context.Context) (*verdicts, error) {
	if err := oracle.Store(s.cluster, s.end, s.attached.tables, s.expected); err != nil {
		return nil, err
	}
	v := &verdicts{rows: s.judge.Rows()}
	meant := s.oracle.Verdict(s.end)
	v.rows.Differences += meant.Differences
	v.rows.First = append(v.rows.First, meant.First...)
	v.rows.Notes = append(v.rows.Notes, meant.Notes...)
	var err error
	v.end, err = s.player.target.end(ctx, s.judge, outcome{expected: s.expected, databases: databasesOf(s.workload)})
	return v, err
}

// databasesOf are those of the workload, and the empty one that every cluster has.
func databasesOf(w *workload.Workload) []string { return append(w.Databases(), "test") }
