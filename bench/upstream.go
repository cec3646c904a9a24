package bench

import (
	"context"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// hello is what an upstream process says when it answers.
type hello struct {
	PD      string
	StartTS tso.TS
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
	} else {
		b, err := load(o.rows)
		if err != nil {
			return err
		}
		cfg.Bulk = b
	}
	c, err := fake.Start(cfg)
	if err != nil {
		return err
	}
	h := hello{PD: c.PD()[0]}
	if cfg.Recording != nil {
		h.StartTS = cfg.Recording.StartTS
	}
	if err := say(h); err != nil {
		return err
	}
	return c.Run(ctx)
}
