package upstream

import (
	"time"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/region"
)

// Status is what a Client is at, as things stood at the last look at the clock,
// a few seconds ago at most.
type Status struct {
	Subscriptions []SubscriptionStatus // in the order in which they began
	Streams       []StreamStatus
	// LockSearches is how many regions wait to be searched for locks.
	LockSearches int
}

// SubscriptionStatus is one subscription.
type SubscriptionStatus struct {
	Span     span.Span
	Resolved tso.TS
	Regions  int // registered
	Scanned  int // of these, up to date: their resolved-ts moves
	Held     region.Held
	Slow     int              // regions that lag
	Laggards []region.Laggard // the slowest of them
}

// StreamStatus is the change stream with one store.
type StreamStatus struct {
	Store         uint64
	Subscriptions int
	Waiting       int // registrations that wait for their scan
	Scanning      int
	Live          int           // registrations that are scanned
	Silence       time.Duration // since a resolved-ts came
}

// Status tells what the client is at.
func (c *Client) Status() Status {
	var out Status
	for _, f := range c.follows.all() {
		out.Subscriptions = append(out.Subscriptions, *f.state.Load())
	}
	for _, s := range c.streams.all() {
		s.mu.Lock()
		out.Streams = append(out.Streams, StreamStatus{Store: s.store, Subscriptions: len(s.feeds),
			Waiting: s.gate.Waiting(), Scanning: s.gate.Running(), Live: len(s.live), Silence: s.pulse.silence()})
		s.mu.Unlock()
	}
	out.LockSearches, _ = c.visits.state()
	return out
}

// publish lets others see where the feed stands.
func (f *feed) publish(lag *region.Lag) {
	space := &f.client.keyspace
	s := &SubscriptionStatus{Span: space.inner(f.tracker.Span()), Resolved: f.tracker.Resolved(), Held: f.tracker.Held()}
	s.Regions, s.Scanned = f.tracker.Regions()
	if lag != nil {
		s.Slow, s.Laggards = lag.Slow, lag.Named
		for i := range s.Laggards {
			s.Laggards[i].Span = space.inner(s.Laggards[i].Span)
		}
	}
	f.state.Store(s)
	now := f.tracker.Counts()
	f.client.counts.add(now, f.counted)
	f.counted = now
}
