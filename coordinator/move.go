package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
)

// Drain implements api.Node. It stands in etcd until the capture has left, or it is
// undone, whoever leads; an owner that is drained itself resigns where somebody else
// stands for election.
func (c *Coordinator) Drain(ctx context.Context, id capture.ID) (out api.Drained, err error) {
	r, err := c.owner()
	if err != nil {
		return out, err
	}
	all, err := c.Captures(ctx)
	if err != nil {
		return out, err
	}
	r.forgetDrained(all)
	if err := r.mayDrain(id, all); err != nil {
		return out, err
	}
	if err := c.cfg.Store.Drain(ctx, r.fence.Fence, id); err != nil {
		return out, err
	}
	r.drain(id, true)
	if id == c.cfg.Self.ID {
		// It may be the only one that stands for election, and would be elected again.
		standing, err := c.cfg.Store.Candidates(ctx)
		if err != nil {
			return out, err
		}
		if !slices.ContainsFunc(standing, func(other capture.ID) bool { return other != id }) {
			return out, cdcerr.ServerNotReady.New("capture %s is the owner, and nobody stands for election who could follow it: ask again", id)
		}
	}
	n, known := r.has(id)
	if id == c.cfg.Self.ID {
		r.resign()
	}
	if !known {
		return out, cdcerr.ServerNotReady.New("capture %s is being drained; how many tables it has is not known, since captures are being asked what they have: ask again", id)
	}
	return api.Drained{CurrentTableCount: n, Reason: r.why(id)}, nil
}

// Undrain implements api.Node.
func (c *Coordinator) Undrain(ctx context.Context, id capture.ID) error {
	r, err := c.owner()
	if err != nil {
		return err
	}
	if err := c.cfg.Store.Undrain(ctx, r.fence.Fence, id); err != nil {
		return err
	}
	r.drain(id, false)
	return nil
}

// mayDrain refuses to drain who is not there, and the last one that takes tables.
func (r *reign) mayDrain(id capture.ID, all []capture.Info) error {
	there, takers := false, 0
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, info := range all {
		switch {
		case info.ID == id:
			there = true
		case info.Liveness == capture.Alive && !info.NoUpstream && !r.drained[info.ID]:
			takers++
		}
	}
	switch {
	case !there:
		return cdcerr.CaptureNotFound.New("%s", id)
	case len(all) == 1:
		return cdcerr.SchedulerRequest.New("capture %s is the only one: nobody could take its tables over", id)
	case takers == 0:
		return cdcerr.SchedulerRequest.New("capture %s is the only one that takes tables: nobody could take its tables over", id)
	}
	return nil
}

// forgetDrained forgets who has left.
func (r *reign) forgetDrained(all []capture.Info) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.drained, func(id capture.ID, _ bool) bool {
		return !slices.ContainsFunc(all, func(i capture.Info) bool { return i.ID == id })
	})
}

// drain has every run empty a capture, those too that begin later, or lets it have spans
// again.
func (r *reign) drain(id capture.ID, is bool) {
	r.mu.Lock()
	if is {
		r.drained[id] = true
	} else {
		delete(r.drained, id)
	}
	r.mu.Unlock()
	r.member.changed()
}

// members are the captures as scheduler sees them, by id, with who is to be empty. Every
// run reads it at each step: one that begins misses none.
func (r *reign) members() []scheduler.Member {
	out := r.member.members()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range out {
		out[i].Draining = r.drained[out[i].ID]
	}
	return out
}

// has is how many tables a capture has a part in, if every run knows.
func (r *reign) has(id capture.ID) (n int, known bool) {
	known = true
	for _, f := range r.all() {
		l := f.leads()
		if l == nil {
			known = known && !f.begins()
			continue
		}
		known = known && !l.Rebuilding()
		for _, s := range l.Standings() {
			if s.ID == id {
				n += s.Sets
			}
		}
	}
	return n, known
}

// why says what keeps tables on a capture that is drained: of each changefeed how many are
// how far, and whether anybody takes them.
func (r *reign) why(id capture.ID) string {
	var all []string
	for _, f := range r.all() {
		l := f.leads()
		if l == nil {
			continue
		}
		var parts []string
		states := l.States(id)
		for _, s := range slices.Sorted(maps.Keys(states)) {
			parts = append(parts, fmt.Sprintf("%d %v", states[s], s))
		}
		if len(parts) == 0 {
			continue
		}
		text := fmt.Sprintf("changefeed %s: %s", f.id, strings.Join(parts, ", "))
		if !slices.ContainsFunc(l.Standings(), func(s scheduler.Standing) bool { return s.ID != id && s.Takes }) {
			text += ", and no other capture takes tables at the moment"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// begins tells whether there is a run, or is to be one.
func (f *feed) begins() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.run != nil && !f.run.applies || f.ready.Start != nil || f.life != nil && f.life.State().Running()
}

// MoveTable implements api.Node.
func (c *Coordinator) MoveTable(ctx context.Context, id api.FeedID, table int64, to capture.ID) (shown int64, err error) {
	l, err := c.running(id)
	if err != nil {
		return 0, err
	}
	all, err := c.Captures(ctx)
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(all, func(i capture.Info) bool { return i.ID == to }) {
		return 0, cdcerr.CaptureNotFound.New("%s", to)
	}
	moved, err := l.Move(span.TableID(table), to)
	return int64(moved), err
}

// Rebalance implements api.Node.
func (c *Coordinator) Rebalance(_ context.Context, id api.FeedID) error {
	l, err := c.running(id)
	if err != nil {
		return err
	}
	return l.Rebalance()
}

// running is the loop of a changefeed that runs.
func (c *Coordinator) running(id api.FeedID) (*owner.Loop, error) {
	f, err := c.find(id)
	if err != nil {
		return nil, err
	}
	l := f.leads()
	if l == nil {
		return nil, cdcerr.SchedulerRequest.New("changefeed %s does not run: no capture has a table of it", f.id)
	}
	return l, nil
}
