package playground

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/tso"
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
	pulse     *pulse
	log       *slog.Logger
}

// status is what a watcher of a run may ask, from any goroutine.
type status struct {
	now      func() (tso.TS, error) // upstream's clock
	progress func() pipeline.Progress
	start    time.Time
	pulse    *pulse // nil: what the sink is at is not known
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
	var a attached
	defer func() {
		stop()
		if served := services.Wait(); served != nil && !errors.Is(served, context.Canceled) {
			err = served // the cause: err only says that everything was told to end
		}
		err = errors.Join(err, a.close())
	}()

	cfg := upstream.Default()
	cfg.PD, cfg.Log = cluster.PD(), c.log
	feed := changefeed(c.log)
	feed.StartTS, feed.TargetTS = c.recording.StartTS, c.recording.EndTS
	if err = a.attach(ctx, services, cfg, feed); err != nil {
		return nil, err
	}
	judge = verify.NewJudge(verify.Config{
		StartTS: a.start, Databases: a.names(), Tables: a.before,
		Expected: c.outcome.expected, History: c.outcome.history, Stream: c.outcome.stream,
	})
	a.recorded = true
	sink, err := c.target.open(ctx, &a)
	if err != nil {
		return nil, err
	}
	watched := &tee{Sink: sink, judge: judge, pulse: c.pulse}
	defer func() { err = errors.Join(err, watched.Close()) }()

	if c.progress != nil {
		services.Go(func() error {
			now := func() (tso.TS, error) { return cluster.TS(), nil }
			return c.progress(ctx, status{now: now, progress: a.Progress, start: time.Now(), pulse: c.pulse})
		})
	}
	services.Go(func() error { return outcomeUnknown(ctx, cluster, a.feed, c.recording.EndTS) })
	return judge, a.Run(ctx, watched)
}

// resolvedInterval: at recorded speed TiKV's own; a replay as fast as it goes
// would otherwise spend its time waiting for timers.
func (c *capture) resolvedInterval() time.Duration {
	if c.speed == 0 {
		return 10 * time.Millisecond
	}
	return 200 * time.Millisecond
}
