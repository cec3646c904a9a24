package servers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/chaos/origin"
)

// lookEvery is how often the lag is looked at.
const lookEvery = 100 * time.Millisecond

// Lag is how far behind the newest moment is that can be seen of something, look by
// look.
type Lag struct {
	look func(context.Context) (moment time.Time, ok bool)

	mu      sync.Mutex // guards what follows
	samples []sample   // ten a second, for as long as a test takes
}

// sample is one look, and the newest moment that it has seen.
type sample struct{ at, moment time.Time }

func (s sample) lag() time.Duration { return s.at.Sub(s.moment) }

// run looks until ctx ends. A look that takes longer than the time between two says
// nothing at those that it has missed.
func (l *Lag) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var looks errgroup.Group
	seen := make(chan struct{}, 1) // holds a token when no look is under way
	seen <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			_ = looks.Wait() // a look has no errors
			return ctx.Err()
		case <-tick.C:
		}
		select {
		case <-seen:
			looks.Go(func() error {
				l.add(l.look(ctx))
				seen <- struct{}{}
				return nil
			})
		default:
			l.add(time.Time{}, false)
		}
	}
}

// add takes in what was seen just now. Where that is nothing, it is what was seen
// before, which has become older.
func (l *Lag) add(moment time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.samples); !ok && n > 0 {
		moment, ok = l.samples[n-1].moment, true
	}
	if ok {
		l.samples = append(l.samples, sample{time.Now(), moment})
	}
}

// beat reads the heartbeat of every table, and is the oldest of them. A table that is
// not there yet has none. It is the lag as somebody sees it who knows nothing of Sluice.
func (s *Site) beat(ctx context.Context) (oldest time.Time, ok bool) {
	moments, err := s.newest(ctx)
	ok = err == nil && len(moments) == len(s.beats)
	for i, l := range s.beats {
		moment, known := moments[i]
		l.add(moment, known)
		if oldest.IsZero() || moment.Before(oldest) {
			oldest = moment
		}
	}
	return oldest, ok
}

// newest is the newest heartbeat downstream, by the number of its table.
func (s *Site) newest(ctx context.Context) (map[int]time.Time, error) {
	var tables []string
	for i := range s.cfg.Origin.Beats {
		tables = append(tables, fmt.Sprintf("SELECT %[1]d, at FROM %[2]s.b%[1]d", i, origin.BeatDB))
	}
	rows, err := s.db.QueryContext(ctx, strings.Join(tables, " UNION ALL "))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int]time.Time{}
	for rows.Next() {
		var number int
		var ms int64
		if err := rows.Scan(&number, &ms); err != nil {
			return nil, err
		}
		out[number] = time.UnixMilli(ms)
	}
	return out, rows.Err()
}

// checkpoint asks for the changefeed's: the lag as an operator sees it.
func (s *Site) checkpoint(ctx context.Context) (time.Time, bool) {
	f, err := s.Feed(ctx)
	return f.Checkpoint.Time(), err == nil && f.Checkpoint != 0
}

// small is what a lag has to return to.
const small = 2 * time.Second

// all are the looks.
func (l *Lag) all() []sample {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.samples)
}

// returned tells since when after a moment it is small again: a look that saw a
// moment after that one, and not late.
func (l *Lag) returned(since time.Time) (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.samples) - 1; i >= 0 && l.samples[i].at.After(since); i-- {
		if s := l.samples[i]; s.lag() <= small && s.moment.After(since) {
			at, ok = s.at, true
		}
	}
	return at, ok
}

// late is the last look between two moments at which the lag was not small; the first
// moment where there is none.
func (l *Lag) late(since, until time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.samples) - 1; i >= 0 && l.samples[i].at.After(since); i-- {
		if s := l.samples[i]; s.lag() > small && !s.at.After(until) {
			return s.at
		}
	}
	return since
}

// steady tells whether the lag has been small for some time, and newer than a moment.
func (l *Lag) steady(since time.Time, d time.Duration) bool {
	now := time.Now()
	l.mu.Lock()
	newest := len(l.samples) > 0 && l.samples[len(l.samples)-1].moment.After(since)
	l.mu.Unlock()
	return newest && now.Sub(since) >= d && l.late(now.Add(-d), now).Equal(now.Add(-d))
}

// between is the lag at every look after a moment, up to another.
func (l *Lag) between(since, until time.Time) (out []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.samples) - 1; i >= 0 && l.samples[i].at.After(since); i-- {
		if s := l.samples[i]; !s.at.After(until) {
			out = append(out, s.lag())
		}
	}
	slices.Sort(out)
	return out
}

// most is the largest of lags that are sorted.
func most(lags []time.Duration) time.Duration { return part(lags, 1) }

// part is what so many of lags that are sorted do not exceed.
func part(lags []time.Duration, of float64) time.Duration {
	if len(lags) == 0 {
		return 0
	}
	return lags[min(int(float64(len(lags))*of), len(lags)-1)]
}
