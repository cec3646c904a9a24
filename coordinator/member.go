package coordinator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/scheduler"
)

// member is what every capture does, whoever leads: it follows the cluster's keys, says
// to transport who the others are, and has a part in each changefeed that runs.
type member struct {
	*Coordinator
	wake chan struct{} // one signal: more than one reason to look is still one

	mu       sync.Mutex
	captures map[capture.ID]capture.Info            // guarded by mu
	feeds    map[meta.ChangefeedID]*meta.Changefeed // guarded by mu
	owner    capture.ID                             // guarded by mu: "" while there is none
	revision scheduler.Revision                     // guarded by mu: the owner's
	floor    scheduler.Revision                     // guarded by mu: the least owner who may be obeyed; 0: nothing is known yet
	news     chan struct{}                          // guarded by mu: closed when any of these is another
	watchers map[chan struct{}]struct{}             // guarded by mu: who wants a token when the captures are others
	seats    map[meta.ChangefeedID]sitting          // guarded by mu
}

// sitting is a seat in the changefeed that was created in a revision, and in no other one
// of its name.
type sitting struct {
	*seat
	created int64
}

func newMember(c *Coordinator) *member {
	return &member{
		Coordinator: c, wake: make(chan struct{}, 1), news: make(chan struct{}),
		captures: map[capture.ID]capture.Info{}, feeds: map[meta.ChangefeedID]*meta.Changefeed{},
		watchers: map[chan struct{}]struct{}{}, seats: map[meta.ChangefeedID]sitting{},
	}
}

// run takes part until ctx ends. Nothing of it writes when it returns.
func (m *member) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.cfg.Store.Watch(ctx, m.follow) })
	g.Go(func() error {
		for {
			m.settle(ctx, g)
			select {
			case <-m.wake:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return g.Wait()
}

// signal leaves a token where there is none.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// follow takes in what has changed in the cluster.
func (m *member) follow(u meta.Update) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u.All {
		clear(m.captures)
		clear(m.feeds)
	}
	for _, c := range u.Captures {
		switch {
		case c.Gone:
			delete(m.captures, c.ID)
		default:
			if c.Err != nil { // it may be alive, whatever it says of itself
				m.cfg.Log.Warn("what a capture says of itself cannot be read", "peer", c.ID, "error", c.Err)
			}
			c.Info.ID = c.ID
			m.captures[c.ID] = c.Info
		}
	}
	for _, f := range u.Changefeeds {
		if f.Gone {
			delete(m.feeds, f.ID)
			m.forgetTally(f.ID)
		} else {
			m.feeds[f.ID] = f.Now
		}
	}
	if u.OwnerMoved {
		m.owner, m.revision = u.Owner, scheduler.Revision(u.OwnerRevision)
	}
	// This capture's own key was there before the first look: an owner that was elected
	// later knows of it.
	if m.floor = max(m.floor, m.revision); m.floor == 0 {
		m.floor = scheduler.Revision(u.Revision + 1)
	}
	if u.All || len(u.Captures) > 0 {
		m.cfg.Transport.SetPeers(m.peersLocked())
		m.changedLocked()
	}
	close(m.news)
	m.news = make(chan struct{})
	signal(m.wake)
	return nil
}

// peersLocked are the captures that can be called.
func (m *member) peersLocked() []capture.Info {
	all := slices.Collect(maps.Values(m.captures))
	return slices.DeleteFunc(all, func(c capture.Info) bool { return c.Address == "" })
}

// members are the captures as scheduler sees them, by id. Who came without an upstream
// never has spans, and is not asked for any.
func (m *member) members() []scheduler.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]scheduler.Member, 0, len(m.captures))
	for id, c := range m.captures {
		if !c.NoUpstream {
			out = append(out, scheduler.Member{ID: id, Liveness: c.Liveness})
		}
	}
	slices.SortFunc(out, func(a, b scheduler.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// watch gives a channel that gets a token when the captures are others, until end.
func (m *member) watch() (changed <-chan struct{}, end func()) {
	c := make(chan struct{}, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers[c] = struct{}{}
	return c, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, c)
	}
}

// changed has those who watch look at the captures again.
func (m *member) changed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changedLocked()
}

func (m *member) changedLocked() {
	for w := range m.watchers {
		signal(w)
	}
}

// sees waits until what is known of the cluster is from when this capture led by a
// revision, or later: then no capture that an earlier owner knew is missing.
func (m *member) sees(ctx context.Context, revision scheduler.Revision) error {
	return m.until(ctx, func() bool {
		return m.owner == m.cfg.Self.ID && m.revision == revision || m.revision > revision
	})
}

// until waits for something to be known of the cluster, which is looks at while mu is held.
func (m *member) until(ctx context.Context, is func() bool) error {
	for {
		m.mu.Lock()
		seen, news := is(), m.news
		m.mu.Unlock()
		if seen {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// idle tells whether nothing keeps this capture: nobody is there who could take over
// what it has, or it has nothing.
func (m *member) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := false
	for id, c := range m.captures {
		others = others || id != m.cfg.Self.ID && c.Liveness == capture.Alive && !c.NoUpstream
	}
	if !others {
		return true
	}
	for _, s := range m.seats {
		if p := s.part.Load(); p != nil && p.Len() > 0 {
			return false
		}
	}
	return true
}

// part is this capture's part in a changefeed, nil where it has none.
func (m *member) part(id meta.ChangefeedID) *agent.Part {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.seats[id]; s.seat != nil {
		return s.part.Load()
	}
	return nil
}

// settle ends parts that are not wanted any more, and begins those that are.
func (m *member) settle(ctx context.Context, g *errgroup.Group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.seats {
		switch now := m.feeds[id]; {
		case s.ended():
			delete(m.seats, id)
		case now == nil || !runs(now) || now.Status.Run != s.run || now.Created != s.created:
			s.stop()
		}
	}
	for id, now := range m.feeds {
		// The next one waits for the end of the last one: they write the same rows.
		// Without an upstream there is nothing to take part in.
		if m.seats[id].seat != nil || !runs(now) || ctx.Err() != nil || m.cfg.Capture.Client.Absent() {
			continue
		}
		s := newSeat(now.Status.Run)
		own, stop := context.WithCancel(ctx)
		s.stop, m.seats[id] = stop, sitting{s, now.Created}
		floor := m.floor
		g.Go(func() error {
			defer signal(m.wake)
			defer close(s.done)
			defer stop()
			m.attend(own, s, now, floor)
			return nil
		})
	}
}

// leaves waits until this capture's part in a changefeed that runs no more has ended.
func (m *member) leaves(ctx context.Context, id meta.ChangefeedID) {
	for {
		m.mu.Lock()
		s, now, news := m.seats[id], m.feeds[id], m.news
		m.mu.Unlock()
		if now == nil && s.seat == nil {
			return
		}
		var done <-chan struct{}
		if s.seat != nil {
			done = s.done
		}
		select {
		case <-news:
		case <-done:
			if now == nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// runs tells whether captures are to take part in a changefeed. One without a run is led
// by a release that has it on the owner alone.
func runs(f *meta.Changefeed) bool {
	return f.Err == nil && changefeed.State(f.Status.State).Running() && f.Status.Run != 0
}
