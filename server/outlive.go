package server

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/upstream"
)

// backEvery is how often a server without an upstream looks whether it is there again.
const backEvery = 2 * time.Second

// outlive is a server's life while its upstream cannot be reached, if there is something to
// do in it; else it is the cause. Again says that the upstream is there, or that it should
// be looked for.
func (n *node) outlive(ctx, opening context.Context, leave <-chan struct{}, cause error) (again bool, err error) {
	if !cdcerr.PDUnreachable.Is(cause) || n.cfg.MetadataUpstream() || n.parts.Outlives == nil {
		return false, cause
	}
	store, err := meta.Open(opening, n.cfg.Metadata(n.log.Logger))
	if err != nil {
		n.log.Warn("the upstream does not answer, and whether there is something to do without it is not known", "error", err)
		return false, cause
	}
	defer store.Close()
	all, err := store.Changefeeds(opening)
	if err != nil {
		return false, err
	}
	cluster, wanted, err := n.parts.Outlives(all)
	if err != nil || !wanted {
		if err == nil {
			err = cause
		}
		return false, err
	}
	shared, err := agent.Absent(n.sharing(), cluster)
	if err != nil {
		return false, err
	}
	n.log.Warn("the upstream does not answer: nothing is replicated until it does; changefeeds with consistent.on-upstream-loss = \"apply\" are looked after", "cluster", cluster, "error", cause)
	back, end := make(chan struct{}), make(chan struct{})
	g, watching := errgroup.WithContext(ctx)
	g.Go(func() error {
		if n.returns(watching, shared, store) {
			close(back)
		}
		return nil
	})
	g.Go(func() error {
		defer close(end)
		select {
		case <-back:
		case <-leave:
		case <-watching.Done():
		}
		return nil
	})
	g.Go(func() error { return last(n.follow(ctx, end, shared, store)) })
	err = ended(g.Wait())
	select {
	case <-back:
		return err == nil && ctx.Err() == nil, err
	default:
		return false, err
	}
}

// returns waits until the upstream can be opened, and nothing goes on that is not to be
// disturbed; false where ctx ends first.
func (n *node) returns(ctx context.Context, shared *agent.Capture, store *meta.Store) bool {
	look := time.NewTicker(backEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
		if !shared.Client.Reached(ctx, upstream.Addresses{}) {
			continue
		}
		all, err := store.Changefeeds(ctx)
		if err != nil || n.parts.Applies != nil && n.parts.Applies(all) {
			continue
		}
		found, err := upstream.Open(ctx, n.cfg.Reach(n.log.Logger))
		if err != nil {
			n.log.Info("the upstream answers, and cannot be used yet", "error", err)
			continue
		}
		found.Close()
		n.log.Info("the upstream is there again")
		return true
	}
}
