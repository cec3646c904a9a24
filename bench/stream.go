package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// errEnough ends a run that has seen what it came for.
var errEnough = errors.New("the run has seen enough")

// capture is one upstream client with one changefeed to a sink.
type capture struct {
	client *upstream.Client
	p      *pipeline.Pipeline
}

// run replicates from now, or from start if it is not zero, until ctx ends,
// something fails or watch returns. watch is called once everything runs.
func run(ctx context.Context, pd string, rows *sorter.Sorter, most int64, start tso.TS, out sink.Sink, tap func(upstream.Batch), watch func(context.Context, capture) error) error {
	cfg := upstream.Default()
	cfg.PD = []string{pd}
	client, err := upstream.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return client.Run(ctx) })
	g.Go(func() error {
		if start == 0 {
			if start, err = client.TS(ctx); err != nil {
				return err
			}
		}
		feed := schemafeed.New(schemafeed.Config{StartTS: start}, client)
		if err := feed.Load(ctx); err != nil {
			return err
		}
		rules, err := filter.New(filter.Config{})
		if err != nil {
			return err
		}
		pc := pipeline.Default()
		pc.Changefeed, pc.StartTS, pc.Filter, pc.ForceReplicate, pc.Log = "bench", start, rules, true, slog.Default()
		pc.TxnBytes = most
		in := ingest.New(tapped{client, tap}, rows)
		g.Go(func() error { return in.Run(ctx) })
		p := pipeline.New(pc, in, feed, out)
		g.Go(func() error { return feed.Run(ctx) })
		g.Go(func() error { return p.Run(ctx) })
		if err := watch(ctx, capture{client, p}); err != nil {
			return err
		}
		return errEnough
	})
	if err := g.Wait(); !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

// tapped shows what comes from upstream.
type tapped struct {
	*upstream.Client
	tap func(upstream.Batch)
}

func (t tapped) Subscribe(ctx context.Context, s upstream.Subscription, out func(upstream.Batch) error) error {
	return t.Client.Subscribe(ctx, s, func(b upstream.Batch) error {
		t.tap(b)
		return out(b)
	})
}

// stream follows the load through the whole pipeline into a blackhole.
func stream(ctx context.Context, o options) (used Usage, err error) {
	hole, err := blackhole.Open(blackhole.Scheme + "://")
	if err != nil {
		return used, err
	}
	counted := &watched{Sink: hole, until: uint64(o.rows), done: make(chan struct{})}
	stop, err := o.startProfile()
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var began sync.Once
	var watch stopwatch
	tap := func(b upstream.Batch) {
		if len(b.Rows) > 0 {
			began.Do(func() { watch = startWatch() })
		}
	}
	err = run(ctx, o.pd, inMemory(), 0, 0, counted, tap, func(ctx context.Context, _ capture) error {
		select {
		case <-counted.done:
			used = watch.stop()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return used, fmt.Errorf("%+v: %w", hole.Counts(), err)
	}
	return used, nil
}

// startProfile writes a CPU profile until stop is called, where one is wanted.
func (o options) startProfile() (stop func() error, err error) {
	if o.profile == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(o.profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// inMemory is a sorter with the quota that captures have.
func inMemory() *sorter.Sorter { return sorter.NewMemory(sorter.Default().MemoryQuota) }

// watched tells when a blackhole has so many rows.
type watched struct {
	*blackhole.Sink
	until uint64
	done  chan struct{}
	once  sync.Once
}

func (w *watched) Write(ctx context.Context, g sink.Leave, txns []event.Txn) error {
	if err := w.Sink.Write(ctx, g, txns); err != nil {
		return err
	}
	if w.Counts().Rows >= w.until {
		w.once.Do(func() { close(w.done) })
	}
	return nil
}

// Lag is how late a changefeed was under a steady load.
type Lag struct {
	Rows       int
	Row        Spread // from a row's commit-ts to when the sink had it
	Checkpoint Spread // from the checkpoint to the upstream's clock, sampled
}

// Spread is some percentiles.
type Spread struct{ P50, P99, Max time.Duration }

func spread(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	slices.Sort(all)
	return Spread{P50: all[len(all)/2], P99: all[len(all)*99/100], Max: all[len(all)-1]}
}

// lagSkip is left out at the start: the changefeed has to catch up first.
const lagSkip = 3 * time.Second

// lag follows a cluster that lives at its own speed, for a while. All times are
// the upstream's.
func lag(ctx context.Context, pd string, start tso.TS, length time.Duration) (Lag, error) {
	out := Lag{}
	late := &lateness{}
	var checkpoints []time.Duration
	err := run(ctx, pd, inMemory(), 0, start, late, func(upstream.Batch) {}, func(ctx context.Context, c capture) error {
		late.set(c.client)
		began := time.Now()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			now, err := c.client.TS(ctx)
			if err != nil {
				return err
			}
			past := time.Since(began)
			late.keep(past > lagSkip)
			if past > lagSkip {
				checkpoints = append(checkpoints, now.Sub(c.p.Checkpoint()))
			}
			if past > lagSkip+length {
				return nil
			}
		}
	})
	if err != nil {
		return out, err
	}
	return Lag{Rows: len(late.rows), Row: spread(late.rows), Checkpoint: spread(checkpoints)}, nil
}

// lateness is a sink that notes how old rows are when they come.
type lateness struct {
	mu     sync.Mutex
	client *upstream.Client
	on     bool
	rows   []time.Duration
}

func (l *lateness) set(c *upstream.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client = c
}

func (l *lateness) keep(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = on
}

func (l *lateness) Write(ctx context.Context, _ sink.Leave, txns []event.Txn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on {
		return nil
	}
	now, err := l.client.TS(ctx)
	if err != nil {
		return err
	}
	for i := range txns {
		for range txns[i].Rows {
			l.rows = append(l.rows, now.Sub(txns[i].CommitTS))
		}
	}
	return nil
}

func (l *lateness) Flush(context.Context) error                                  { return nil }
func (l *lateness) Whole() bool                                                  { return false }
func (l *lateness) SyncPoint(context.Context, sink.Leave, event.SyncPoint) error { return nil }
func (l *lateness) DDL(context.Context, sink.Leave, *event.DDL) error            { return nil }
func (l *lateness) Checkpoint(context.Context, tso.TS) error                     { return nil }
func (l *lateness) Close() error                                                 { return nil }
