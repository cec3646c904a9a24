package coordinator

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/meta"
)

// campaign waits to be elected. Who leaves that to others does not stand for election.
func (c *Coordinator) campaign(ctx context.Context) (*meta.Leadership, error) {
	m := c.member
	for c.cfg.Capture.Client.Absent() {
		if err := m.until(ctx, func() bool { return m.floor != 0 && !m.yieldsLocked() }); err != nil {
			return nil, err
		}
		standing, stop := context.WithCancel(ctx)
		g := new(errgroup.Group)
		g.Go(func() error {
			defer stop()
			return m.until(standing, m.yieldsLocked)
		})
		l, err := c.cfg.Session.Campaign(standing)
		stop()
		if yields := g.Wait() == nil; l == nil && yields && ctx.Err() == nil {
			continue
		}
		return l, err
	}
	return c.cfg.Session.Campaign(ctx)
}

// yields tells whether this capture has to leave leading to others: it came without an
// upstream, and knows no schema, while another one has one, and has not lost it.
func (m *member) yields() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.yieldsLocked()
}

func (m *member) yieldsLocked() bool {
	if !m.cfg.Capture.Client.Absent() {
		return false
	}
	for id, c := range m.captures {
		if id != m.cfg.Self.ID && !c.NoUpstream && c.Liveness == capture.Alive && c.Upstream != capture.Unreached {
			return true
		}
	}
	return false
}
