package servers

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

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

// run looks until ctx ends.
func (l *Lag) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		moment, ok := l.look(ctx)
		l.mu.Lock()
		if n := len(l.samples); !ok && n > 0 {
			moment, ok = l.samples[n-1].moment, true // nobody tells, and nobody has told a newer one
		}
		if ok {
			l.samples = append(l.samples, sample{time.Now(), moment})
		}
		l.mu.Unlock()
	}
}

// beat reads the oldest of all tables' newest heartbeats. A table that is not there
// yet has none. It is the lag as somebody sees it who knows nothing of Sluice.
func (s *Site) beat(ctx context.Context) (time.Time, bool) {
	var tables []string
	for i := range s.cfg.Origin.Beats {
		tables = append(tables, fmt.Sprintf("SELECT at FROM %s.b%d", origin.BeatDB, i))
	}
	var ms sql.NullInt64
	err := s.db.QueryRowContext(ctx, "SELECT MIN(at) FROM ("+strings.Join(tables, " UNION ALL ")+") beats").Scan(&ms)
	return time.UnixMilli(ms.Int64), err == nil && ms.Valid
}

// checkpoint asks for the changefeed's: the lag as an operator sees it.
func (s *Site) checkpoint(ctx context.Context) (time.Time, bool) {
	f, err := s.Feed(ctx)
	return f.Checkpoint.Time(), err == nil && f.Checkpoint != 0
}

// small is what a lag has to return to.
const small = 2 * time.Second

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
