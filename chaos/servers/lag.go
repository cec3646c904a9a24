package servers

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/chaos/origin"
)

// lookEvery is how often the lag is looked at.
const lookEvery = 100 * time.Millisecond

// Lag is how old the newest heartbeat is that can be read downstream: the lag as
// somebody sees it who knows nothing of Sluice.
type Lag struct {
	db    *sql.DB
	beats int

	mu      sync.Mutex // guards what follows
	samples []sample   // ten a second, for as long as a test takes
}

// sample is one look.
type sample struct {
	at   time.Time
	beat time.Time // the oldest of all tables' newest heartbeats
}

func (s sample) lag() time.Duration { return s.at.Sub(s.beat) }

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
		s, ok := l.look(ctx)
		l.mu.Lock()
		if n := len(l.samples); !ok && n > 0 {
			s.beat, ok = l.samples[n-1].beat, true // nobody can read, and nobody has read a newer one
		}
		if ok {
			l.samples = append(l.samples, s)
		}
		l.mu.Unlock()
	}
}

// look reads the heartbeat. A table that is not there yet has none.
func (l *Lag) look(ctx context.Context) (sample, bool) {
	var tables []string
	for i := range l.beats {
		tables = append(tables, fmt.Sprintf("SELECT at FROM %s.b%d", origin.BeatDB, i))
	}
	var ms sql.NullInt64
	err := l.db.QueryRowContext(ctx, "SELECT MIN(at) FROM ("+strings.Join(tables, " UNION ALL ")+") beats").Scan(&ms)
	return sample{time.Now(), time.UnixMilli(ms.Int64)}, err == nil && ms.Valid
}

// small is what a lag has to return to.
const small = 2 * time.Second

// returned tells when, after a moment, a heartbeat was read that is younger than
// the moment and was not late; and what the most was until then, or until now.
func (l *Lag) returned(since time.Time) (at time.Time, most time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.samples) - 1; i >= 0 && l.samples[i].at.After(since); i-- {
		s := l.samples[i]
		if s.lag() <= small && s.beat.After(since) {
			at, ok = s.at, true
		}
	}
	for _, s := range l.samples {
		if s.at.After(since) && (!ok || !s.at.After(at)) {
			most = max(most, s.lag())
		}
	}
	return at, most, ok
}
