package bench

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// hello is what an upstream process says when it answers.
type hello struct {
	PD      string
	StartTS tso.TS
}

// cut makes the regions of an idle cluster, spread over tables and stores.
func cut(c *fake.Cluster, o options) error {
	if o.spans == 0 {
		return nil
	}
	each := o.regions / o.spans
	for table := range o.spans {
		for region := range each {
			c.Split(span.AppendInt(span.RecordPrefix(span.TableID(table+1)), int64(region)*1000))
		}
	}
	for i, r := range c.Regions() {
		if err := c.Lead(r.ID, uint64(i%3)+1); err != nil {
			return err
		}
	}
	return nil
}

// serve is an upstream process: the load, or a recording at recorded speed.
func serve(ctx context.Context, o options, say func(any) error) error {
	cfg := fake.Config{Calm: true, ResolvedInterval: o.interval}
	if o.recording != "" {
		rec, err := fake.LoadRecording(o.recording)
		if err != nil {
			return err
		}
		cfg.Recording, cfg.Speed, cfg.HoldForSubscriber = rec, 1, true
	} else if o.made {
		rec, err := madeTables(o.creates)
		if err != nil {
			return err
		}
		cfg.Recording, cfg.HoldForSubscriber = rec, true
	} else if o.spans == 0 && !o.steady {
		b, err := load(o.rows)
		if err != nil {
			return err
		}
		b.OneTxn = o.oneTxn
		if o.hot {
			b.Regions = 1
		}
		cfg.Bulk, cfg.StartTS = b, tso.At(time.Now())
	}
	c, err := fake.Start(cfg)
	if err != nil {
		return err
	}
	if err := cut(c, o); err != nil {
		return err
	}
	h := hello{PD: c.PD()[0]}
	if cfg.Recording != nil {
		h.StartTS = cfg.Recording.StartTS
	}
	if cfg.Bulk != nil {
		// All rows are above.
		h.StartTS = cfg.StartTS.Prev()
	}
	if err := say(h); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.Run(ctx) })
	if o.steady {
		g.Go(func() error { return writeSteadily(ctx, c) })
	}
	return g.Wait()
}
