package playground

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// gcTTL is how long the upstream keeps what the changefeed has still to read
// when this process dies; the hold is renewed ten times as often.
const gcTTL = 10 * time.Minute

// attached is a capture with the one changefeed that a run has, as its schema is
// known at the start.
type attached struct {
	*agent.Changefeed
	capture *agent.Capture
	client  *upstream.Client
	feed    *schemafeed.Feed
	tables  *filter.Filter
	start   tso.TS
	stood   []*event.Database // those with wanted tables, or room for them, just before the start
	before  []*event.Table    // the wanted ones just before the start
	// recorded: upstream is a recording, and what a server wrote by itself when it
	// rewrote a column is in none.
	recorded bool
}

// changefeed is what all runs have in common.
func changefeed(log *slog.Logger) agent.Config {
	cfg := agent.Default()
	cfg.Name, cfg.GCService, cfg.GCTTL, cfg.ForceReplicate, cfg.Log = "playground", gcService(), gcTTL, true, log
	return cfg
}

// attach opens the upstream and reads its schema at the start-ts, 0 standing for
// now. What serves until the changefeed is done runs in services; close comes
// after they have ended, also after an error.
func (a *attached) attach(ctx context.Context, services *errgroup.Group, from upstream.Config, cfg agent.Config) error {
	// What was typed wrong is said before anybody is waited for.
	_, err := filter.New(cfg.Filter)
	if err != nil {
		return err
	}
	node := agent.DefaultCapture()
	node.Upstream = from
	if a.capture, err = agent.Open(ctx, node); err != nil {
		return err
	}
	services.Go(func() error { return a.capture.Run(ctx) })
	if a.Changefeed, err = a.capture.Load(ctx, cfg); err != nil {
		return err
	}
	a.client, a.feed, a.tables, a.start = a.capture.Client, a.Feed, a.Filter, a.StartTS
	a.stood, a.before = a.Databases, a.Tables
	return nil
}

// names are the databases' names.
func (a *attached) names() []string {
	var out []string
	for _, db := range a.stood {
		out = append(out, db.Name)
	}
	return out
}

// close lets the upstream go.
func (a *attached) close() error {
	if a.capture == nil {
		return nil
	}
	return a.capture.Close()
}

// gcService names this process among those that hold PD's safepoint.
func gcService() string { return fmt.Sprintf("sluice-playground-%d", os.Getpid()) }
