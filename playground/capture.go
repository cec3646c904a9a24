package playground

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/verify"
)

// capture is one capture with one changefeed over one replayed recording.
type capture struct {
	recording *fake.Recording
	outcome   outcome
	target    target
	speed     float64
	progress  func(ctx context.Context, s status) error // watches until ctx ends; nil: nobody
	log       *slog.Logger
}

// status is what a watcher of a run may ask, from any goroutine.
type status struct {
	cluster  *fake.Cluster
	pipeline *pipeline.Pipeline
	tee      *tee
	start    time.Time
}

// run replays the recording from its start-ts until the checkpoint has reached
// its end-ts. The judge that it returns has watched all of it.
func (c *capture) run(ctx context.Context) (judge *verify.Judge, err error) {
	cluster, err := fake.Start(fake.Config{
		Recording: c.recording, Speed: c.speed, ResolvedInterval: c.resolvedInterval(), HoldForSubscriber: true,
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	services, ctx := errgroup.WithContext(ctx) // what serves until the changefeed is done
	services.Go(func() error { return cluster.Run(ctx) })
	var client *upstream.Client
	defer func() {
		stop()
		if served := services.Wait(); served != nil && !errors.Is(served, context.Canceled) {
			err = served // the cause: err only says that everything was told to end
		}
		if client != nil {
			client.Close()
		}
	}()

	cfg := upstream.Default()
	cfg.PD, cfg.Log = cluster.PD(), c.log
	if client, err = upstream.Open(ctx, cfg); err != nil {
		return nil, err
	}
	services.Go(func() error { return client.Run(ctx) })

	start := c.recording.StartTS
	feed := schemafeed.New(schemafeed.Config{StartTS: start}, client)
	if err = feed.Load(ctx); err != nil {
		return nil, err
	}
	services.Go(func() error { return feed.Run(ctx) })

	tables, err := filter.New(filter.Config{}) // every table but those of system schemas
	if err != nil {
		return nil, err
	}
	before := wanted(tables, feed.Tables(start.Prev()))
	judge = verify.NewJudge(verify.Config{StartTS: start, Tables: before, Expected: c.outcome.expected, History: c.outcome.history})
	sink, err := c.target.open(ctx, client, start, before)
	if err != nil {
		return nil, err
	}
	watched := &tee{Sink: sink, judge: judge}
	defer func() { err = errors.Join(err, watched.Close()) }()

	changefeed := pipeline.New(pipeline.Config{
		Changefeed: "playground", StartTS: start, TargetTS: c.recording.EndTS, Filter: tables, ForceReplicate: true, Log: c.log,
	}, client, feed, watched)
	if c.progress != nil {
		services.Go(func() error {
			return c.progress(ctx, status{cluster: cluster, pipeline: changefeed, tee: watched, start: time.Now()})
		})
	}
	return judge, changefeed.Run(ctx)
}

// resolvedInterval: at recorded speed TiKV's own; a replay as fast as it goes
// would otherwise spend its time waiting for timers.
func (c *capture) resolvedInterval() time.Duration {
	if c.speed == 0 {
		return 10 * time.Millisecond
	}
	return 200 * time.Millisecond
}

func wanted(f *filter.Filter, all []*event.Table) []*event.Table {
	var out []*event.Table
	for _, t := range all {
		if f.Table(t.Schema, t.Name) {
			out = append(out, t)
		}
	}
	return out
}
