package chaos

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/oracle"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
	"github.com/sluice-cdc/sluice/verify"
)

// subject is what happens upstream, and what has to come of it.
type subject interface {
	cluster() *fake.Cluster
	// start is the changefeed's start-ts, target its target-ts, 0 where the end is not
	// known beforehand.
	start() tso.TS
	target() tso.TS
	// play lets it happen, and returns where it has ended.
	play(ctx context.Context) (tso.TS, error)
	// expect is what a judge of rows and contents is told, once the end is known.
	expect(end tso.TS) (verify.Config, error)
	// oracle judges rows by what was meant, nil where nobody knows.
	oracle() *oracle.Oracle
}

// resolvedInterval is short: a run has a few seconds.
const resolvedInterval = 20 * time.Millisecond

// newSubject sets the cluster of a plan up. Where recordings lie is dir.
func newSubject(ctx context.Context, p Plan, dir string, serve func(*fake.Cluster)) (subject, error) {
	cfg := fake.Config{PDs: 3, ResolvedInterval: resolvedInterval, PDLag: p.PDLag, Seed: p.Seed}
	if kind, ok := strings.CutPrefix(p.Subject, workloadPrefix); ok {
		return newPerformance(ctx, p, kind, cfg, serve)
	}
	path := dir + "/" + p.Subject
	rec, err := fake.LoadRecording(path + ".jsonl.gz")
	if err != nil {
		return nil, err
	}
	cfg.Recording, cfg.HoldForSubscriber = rec, true
	cfg.Speed = max(rec.EndTS.Sub(rec.StartTS), 100*time.Millisecond).Seconds() / p.Lasts.Seconds()
	c, err := fake.Start(cfg)
	if err != nil {
		return nil, err
	}
	serve(c)
	return &replay{path: path, recording: rec, on: c}, nil
}

// replay is a recording.
type replay struct {
	path      string
	recording *fake.Recording
	on        *fake.Cluster
}

func (r *replay) cluster() *fake.Cluster { return r.on }
func (r *replay) start() tso.TS          { return r.recording.StartTS }
func (r *replay) target() tso.TS         { return r.recording.EndTS }
func (r *replay) oracle() *oracle.Oracle { return nil }

func (r *replay) play(ctx context.Context) (tso.TS, error) {
	select {
	case <-r.on.Replayed():
		return r.recording.EndTS, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (r *replay) expect(tso.TS) (c verify.Config, err error) {
	if c.Expected, err = readFile(r.path, ".expected", verify.ReadExpected); err != nil {
		return c, err
	}
	if c.Stream, err = readFile(r.path, "", verify.ReadStream); err != nil {
		return c, err
	}
	if c.History, err = readFile(r.path, ".history", verify.ReadHistory); os.IsNotExist(err) {
		c.History, err = nil, nil
	}
	return c, err
}

// readFile reads a file of a recording, which may be compressed.
func readFile[T any](path, word string, read func(name string, r io.Reader) (T, error)) (T, error) {
	var none T
	name := path + word + ".jsonl.gz"
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		name = strings.TrimSuffix(name, ".gz")
		f, err = os.Open(name)
	}
	if err != nil {
		return none, err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return none, fmt.Errorf("%s: %w", name, err)
		}
	}
	return read(name, in)
}

// performance is a workload on a living cluster.
type performance struct {
	on    *fake.Cluster
	work  *workload.Workload
	from  tso.TS
	lasts time.Duration
	judge *oracle.Oracle
	all   *filter.Filter
}

func newPerformance(ctx context.Context, p Plan, kind string, cfg fake.Config, serve func(*fake.Cluster)) (*performance, error) {
	c, err := fake.Start(cfg)
	if err != nil {
		return nil, err
	}
	serve(c)
	w := workload.Config{Kind: kind, Seed: p.Seed, Rate: 150, Size: 100}
	if p.Locks {
		w.Abandon = 0.03
	}
	all, err := filter.New(filter.Config{})
	if err != nil {
		return nil, err
	}
	s := &performance{on: c, lasts: p.Lasts, all: all}
	if s.work, err = workload.New(ctx, live.New(c), w); err != nil {
		return nil, err
	}
	// Not what the clock has settled: the cluster's own tables may be above that.
	s.judge = oracle.New(s.work, all.Table)
	s.from, err = c.Timestamp(ctx)
	return s, err
}

func (s *performance) cluster() *fake.Cluster { return s.on }
func (s *performance) start() tso.TS          { return s.from }
func (s *performance) target() tso.TS         { return 0 }
func (s *performance) oracle() *oracle.Oracle { return s.judge }

func (s *performance) play(ctx context.Context) (tso.TS, error) {
	if err := s.work.Prepare(ctx); err != nil {
		return 0, fmt.Errorf("preparing the workload: %w", err)
	}
	if err := s.work.Run(ctx, s.lasts); err != nil {
		return 0, fmt.Errorf("the workload: %w", err)
	}
	return s.on.TS(), nil
}

func (s *performance) expect(end tso.TS) (verify.Config, error) {
	c := verify.Config{Expected: &verify.Expected{}}
	return c, oracle.Store(s.on, end, s.all, c.Expected)
}
