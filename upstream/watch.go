package upstream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/region"
)

const (
	// urgentFactor is how many times the window of scans urgent ones may fill.
	urgentFactor = 4
	// hushesMax is the last doubling of the time that a silent stream is given:
	// from half a minute, a quarter of an hour. Opening it again costs a scan of
	// all its regions.
	hushesMax = 5
	// allSilentFactor is how much longer a stream may be silent while no other one
	// is heard: then it is likely not the store's fault.
	allSilentFactor = 4
	// busyFactor is how much longer a scan may be unheard of while others are heard
	// on the same stream: the store works, and asking again costs the place in line.
	busyFactor = 6
	// lagLogEvery bounds the lines about laggards.
	lagLogEvery = 30 * time.Second
)

// follows are the subscriptions at work.
type follows struct {
	mu sync.Mutex
	by map[uint64]*feed // guarded by mu; by number
}

func (c *Client) follow(f *feed) {
	c.follows.mu.Lock()
	defer c.follows.mu.Unlock()
	if c.follows.by == nil {
		c.follows.by = map[uint64]*feed{}
	}
	c.follows.by[f.number] = f
}

func (c *Client) unfollow(f *feed) {
	c.follows.mu.Lock()
	defer c.follows.mu.Unlock()
	delete(c.follows.by, f.number)
}

// all are the subscriptions in the order in which they began.
func (t *follows) all() []*feed {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*feed, 0, len(t.by))
	for _, f := range t.by {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *feed) int { return int(a.number) - int(b.number) })
	return out
}

// watch looks at PD's clock and lets laggards be judged, until ctx ends. While PD
// gives no time nobody is judged: regions and streams may then stand still for
// the same reason.
func (c *Client) watch(ctx context.Context) error {
	ticker := time.NewTicker(c.cfg.lookEvery())
	defer ticker.Stop()
	var logged lagLog
	away := false
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		feeds, streams := c.follows.all(), c.streams.all()
		for _, f := range feeds {
			if f.memory != nil {
				f.tight.Store(f.memory.Tight())
			}
		}
		for _, s := range streams {
			s.signal() // memory may have room again for calm scans
		}
		pd, err := c.lookAtClock(ctx)
		if err != nil {
			for _, s := range streams {
				s.pulse.heardNow() // nobody can be expected to be heard
			}
			c.ears.forgive()
			if !away && ctx.Err() == nil {
				c.log.Warn("PD gives no time; until it does nobody is judged for standing still", "error", err)
			}
			away = true
			continue
		}
		if away {
			c.log.Info("PD gives time again")
		}
		away = false
		var fastest tso.TS
		for _, f := range feeds {
			fastest = max(fastest, tso.TS(f.fastest.Load()))
		}
		for _, f := range feeds {
			f.inbox.tell(clock{pd: pd, fastest: fastest})
		}
		c.judgeStreams(streams)
		logged.tell(c, feeds)
	}
}

// lookAtClock asks PD for the time, for no longer than until the next look.
func (c *Client) lookAtClock(ctx context.Context) (tso.TS, error) {
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, c.cfg.lookEvery()))
	defer cancel()
	return c.TS(ctx)
}

// judgeStreams gives up streams that are silent, and scans that are overdue.
func (c *Client) judgeStreams(streams []*stream) {
	for _, s := range streams {
		s.giveUpOverdue()
		silence := s.pulse.silence()
		patience := c.cfg.SilentAfter << min(c.streams.silences(s.store), hushesMax)
		if !slices.ContainsFunc(streams, func(o *stream) bool { return o != s && o.expected() && o.pulse.silence() < c.cfg.SilentAfter/2 }) {
			patience *= allSilentFactor
		}
		if silence >= patience && s.expected() && c.streams.hush(s) {
			c.counts.streamsSilent.Add(1)
			c.log.Warn("a store's stream is open but silent; opening it again", "store", s.store, "stream", s.id, "silence", silence.Round(time.Millisecond))
			close(s.silent)
		}
	}
}

// expected tells whether resolved-ts are expected over the stream: it has a
// registration that is scanned.
func (s *stream) expected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live) > 0
}

// giveUpOverdue ends scans of which nothing was heard for long.
func (s *stream) giveUpOverdue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := map[*feed][]region.Ticket{}
	now, patience := time.Since(s.began), s.client.cfg.UnansweredAfter
	if s.pulse.starvedSince(time.Now().Add(-patience)) {
		return
	}
	if s.scans > 0 && now-s.scans < patience {
		patience *= busyFactor
	}
	for _, k := range s.gate.Overdue(now, patience) {
		if f := s.feeds[feedNumber(k.Request)]; f != nil {
			s.gate.Heard(k, now) // until the feed has ended it
			by[f] = append(by[f], k)
		}
	}
	for f, late := range by { // each feed alone: the order does not matter
		s.client.counts.unanswered.Add(uint64(len(late)))
		f.inbox.put(delivery{stream: s.id, overdue: late})
	}
}

// all are the streams that are open or being opened.
func (t *streams) all() []*stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*stream, 0, len(t.by))
	for _, s := range t.by {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *stream) int { return int(a.id) - int(b.id) })
	return out
}

// silences is how many streams of a store were given up in a row.
func (t *streams) silences(store uint64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hushes[store]
}

// hush counts that a stream is given up; false where it was before.
func (t *streams) hush(s *stream) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by[s.store] != s {
		return false
	}
	select {
	case <-s.silent:
		return false
	default:
		t.hushes[s.store]++
		return true
	}
}

// speaks notes that a store was heard.
func (t *streams) speaks(store uint64) {
	t.mu.Lock()
	delete(t.hushes, store)
	t.mu.Unlock()
}

// lagLog says who lags, and when nobody does any more.
type lagLog struct {
	last time.Time
	some bool
}

func (l *lagLog) tell(c *Client, feeds []*feed) {
	slow := 0
	var worst []region.Laggard
	for _, f := range feeds {
		s := f.state.Load()
		slow += s.Slow
		worst = append(worst, s.Laggards...)
	}
	switch {
	case slow == 0 && l.some:
		c.log.Info("no region lags any more")
	case slow > 0 && time.Since(l.last) > lagLogEvery:
		slices.SortFunc(worst, func(a, b region.Laggard) int { return int(b.Behind - a.Behind) })
		w := worst[0]
		c.log.Warn("regions lag; the furthest behind is named", "regions", slow, "region", w.Region.ID, "store", w.Region.Store,
			"table", w.Span.TableID, "resolvedTS", w.Resolved, "behind", w.Behind, "still", w.Still.Round(time.Millisecond),
			"renewals", w.Renewals, "heldBy", w.HeldBy)
		l.last = time.Now()
	}
	l.some = slow > 0
}
