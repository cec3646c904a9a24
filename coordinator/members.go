package coordinator

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// Self implements api.Node.
func (c *Coordinator) Self() api.Self {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := api.Self{Info: c.cfg.Self, ClusterID: c.cfg.ClusterID, Owner: c.reign != nil, Liveness: c.liveness}
	if c.reign != nil {
		out.GCHold = tso.TS(c.reign.gc.held.Load())
	}
	return out
}

// Owner implements api.Node.
func (c *Coordinator) Owner(ctx context.Context) (capture.Info, error) {
	id, _, err := c.cfg.Store.Owner(ctx)
	if err != nil {
		return capture.Info{}, err
	}
	if id == "" {
		return capture.Info{}, cdcerr.OwnerNotFound.New("nobody is elected yet")
	}
	all, err := c.cfg.Store.Captures(ctx)
	if err != nil {
		return capture.Info{}, err
	}
	for _, info := range all {
		if info.ID == id {
			return info, nil
		}
	}
	return capture.Info{}, cdcerr.OwnerNotFound.New("capture %s leads, and is not a member any more: its session ends", id)
}

// Captures implements api.Node.
func (c *Coordinator) Captures(ctx context.Context) ([]capture.Info, error) {
	return c.cfg.Store.Captures(ctx)
}

// Health implements api.Node: whether metadata and upstream answer.
func (c *Coordinator) Health(ctx context.Context) error {
	if c.cfg.Session.Left() <= 0 {
		return cdcerr.SessionLost.New("capture %s", c.cfg.Self.ID)
	}
	if _, _, err := c.cfg.Store.Owner(ctx); err != nil {
		return err
	}
	_, err := c.cfg.Capture.Client.TS(ctx)
	return err
}

// Resign implements api.Node.
func (c *Coordinator) Resign(context.Context) error {
	r, err := c.owner()
	if err != nil {
		return err
	}
	r.resign()
	return nil
}

// Work is what this capture does for changefeeds, by namespace and name.
func (c *Coordinator) Work() (out []api.Work) {
	c.mu.Lock()
	ids := slices.SortedFunc(maps.Keys(c.tallies), func(a, b meta.ChangefeedID) int { return strings.Compare(a.String(), b.String()) })
	c.mu.Unlock()
	for _, id := range ids {
		w := api.Work{ID: api.FeedID{Keyspace: id.Namespace, Name: id.Name}, Tally: c.tallyOf(id).read()}
		if p := c.member.part(id); p != nil {
			w.Rows = p.Progress().Rows
		}
		out = append(out, w)
	}
	return out
}
