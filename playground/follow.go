package playground

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// releaseTimeout bounds the farewell to PD.
const releaseTimeout = 3 * time.Second

// follow replicates a running TiDB from now on, until ctx ends. A downstream
// database is first given what the wanted tables hold now. There is nothing to
// compare with, so there is no verdict.
func (p *player) follow(ctx context.Context) (err error) {
	outer := ctx
	ctx, stop := context.WithCancel(ctx)
	services, ctx := errgroup.WithContext(ctx)
	var a attached
	defer func() {
		stop()
		if served := services.Wait(); served != nil && !errors.Is(served, context.Canceled) {
			err = served // the cause: err only says that everything was told to end
		}
		err = errors.Join(err, a.close())
		if outer.Err() != nil && (errors.Is(err, context.Canceled) || err == nil) {
			err = nil // it was asked to end
		}
	}()

	cfg := upstream.Default()
	cfg.PD, cfg.TLS, cfg.Log = p.options.PD, p.options.TLS, p.log
	feed := changefeed(p.log)
	feed.Filter.Rules = p.options.Filter
	if err = a.attach(ctx, services, cfg, feed); err != nil {
		return err
	}
	defer func() {
		farewell, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if failed := a.Release(farewell); failed != nil {
			p.log.Warn("PD keeps history for this playground for some minutes more", "error", failed)
		}
	}()
	fmt.Fprintf(p.words, "Following cluster %d from %s on (%d): %s.\n", a.client.ClusterID(),
		a.start.Time().Format(time.RFC3339), a.start, tableCount(len(a.before)))

	if err = p.target.claim(ctx, a.names()); err != nil {
		return err
	}
	into, err := p.target.open(ctx, &a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	services.Go(func() error {
		now := func() (tso.TS, error) { return a.client.TS(ctx) }
		return p.watch(ctx, status{now: now, progress: a.Progress, start: time.Now()})
	})
	return a.Run(ctx, into)
}

func tableCount(n int) string {
	if n == 1 {
		return "1 table matches"
	}
	return fmt.Sprintf("%d tables match", n)
}
