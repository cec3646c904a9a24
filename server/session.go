package server

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
)

// anew is how long a node waits that begins anew: whoever loses sessions in a row
// must not spend its time on beginning them.
const anew = time.Second

// sessions lives one after another until leave is closed. The store is opened
// once: an embedded etcd is a member of its cluster, whatever becomes of a session.
func (n *node) sessions(ctx context.Context, leave <-chan struct{}, g Given) error {
	opening, done := until(ctx, leave)
	defer done()
	store := g.Store
	if store == nil {
		var err error
		if store, err = meta.Open(opening, n.cfg.Metadata(n.log.Logger)); err != nil {
			return leftFirst(opening, err)
		}
		defer store.Close()
	}
	g.Store = store
	// The data directory is locked, and no copy: whoever had the session that is noted
	// there is dead, and writes no more. Without this nobody leads until it has run out.
	if token, ok := earlierSession(n.sessionFile(), n.cfg.DataDir); ok {
		if err := store.EndEarlier(opening, token); err != nil {
			n.log.Info("the session of an earlier life runs out by itself", "error", err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return store.Run(ctx) })
	group.Go(func() error { return last(n.oneAfterAnother(ctx, opening, leave, g)) })
	return ended(group.Wait())
}

// sessionFile is where the present session is noted, for the next life.
func (n *node) sessionFile() string { return filepath.Join(n.cfg.DataDir, "session") }

// oneAfterAnother begins sessions until one ends in good order, or in vain.
func (n *node) oneAfterAnother(ctx, opening context.Context, leave <-chan struct{}, g Given) error {
	for {
		err := n.session(ctx, leave, g)
		if err == nil || cdcerr.Fate(err) == cdcerr.Terminal || opening.Err() != nil {
			return err
		}
		n.log.Warn("beginning anew with a new capture ID", "error", err)
		timer := time.NewTimer(anew)
		select {
		case <-timer.C:
		case <-opening.Done():
			timer.Stop()
			return nil
		}
	}
}

// session is one life as a member of the cluster: from a lease to its end. When
// it returns nothing writes by that lease.
func (n *node) session(ctx context.Context, leave <-chan struct{}, g Given) error {
	g.Self = capture.Info{ID: capture.ID(api.NewID()), Address: n.cfg.AdvertiseAddr, Version: n.parts.Version, Since: time.Now(), NoUpstream: g.Capture.Client.Absent()}
	g.Log = n.log.With(slog.String("capture", string(g.Self.ID)))
	opening, done := until(ctx, leave)
	defer done()
	session, err := g.Store.NewSession(opening, g.Self.ID, time.Duration(n.cfg.CaptureSessionTTL)*time.Second)
	if err != nil {
		return leftFirst(opening, err)
	}
	g.Session = session
	n.present.Store(session)
	if err := noteSession(n.sessionFile(), n.cfg.DataDir, session.Token()); err != nil {
		g.Log.Info("the session is not noted: after a crash it has to run out", "error", err)
	}
	if g.Transport, err = n.newTransport(g); err != nil {
		return err
	}
	group, inner := errgroup.WithContext(ctx)
	// The lease is given back when nothing writes by it any more, whatever ends that (P1).
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group.Go(func() error {
		if err := session.Run(alive); alive.Err() == nil {
			return err
		}
		return nil
	})
	group.Go(func() error { return n.converse(inner, g.Transport) })
	group.Go(func() error {
		defer end()
		if err := n.register(inner, opening, session, g.Self); err != nil {
			return last(leftFirst(opening, err))
		}
		g.Log.Info("joined the cluster", "cluster", n.cfg.ClusterID, "metadata", g.Store.Endpoints())
		return last(n.control(inner, leave, g))
	})
	return ended(group.Wait())
}

// register makes a member of us, at an address that is nobody else's: before, and, for
// who begins at the same time, afterwards.
func (n *node) register(ctx, opening context.Context, session *meta.Session, self capture.Info) error {
	if err := session.ClaimAddress(opening, self.Address, n.earlier); err != nil {
		return err
	}
	n.earlier[self.ID] = true
	if err := session.Register(ctx, self); err != nil {
		return err
	}
	return session.ClaimAddress(opening, self.Address, n.earlier)
}

// control runs the control plane, which the API speaks for meanwhile.
func (n *node) control(ctx context.Context, leave <-chan struct{}, g Given) error {
	if n.parts.Plane == nil {
		g.Log.Warn("this server has no control plane: it is a member of the cluster and replicates nothing")
		select {
		case <-leave:
		case <-ctx.Done():
		}
		return nil
	}
	opening, done := until(ctx, leave)
	defer done()
	plane, err := n.parts.Plane(opening, g)
	if err != nil {
		return leftFirst(opening, err)
	}
	n.api.Join(plane)
	n.meter.join(plane)
	defer func() {
		n.api.Join(nil)
		n.meter.join(nil)
	}()
	return plane.Run(ctx, leave)
}
