package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// The steady load: small transactions, as a busy service commits them, and a row
// that says when it was written.
const (
	steadyRate    = 1000 // rows a second
	steadyTxn     = 5    // rows
	steadyWriters = 4
	steadyRows    = 10_000 // that are written again and again
	heartbeat     = 100 * time.Millisecond
	steadySkip    = 1500 * time.Millisecond // left out at the start: the changefeed has to catch up first
)

// What the lag under it is held to, on top of the resolved-ts interval.
const (
	steadyP50 = 100 * time.Millisecond
	steadyP99 = 500 * time.Millisecond
)

// Steady is how late a changefeed was under the steady load.
type Steady struct {
	Rows       int           // that came while it was watched
	Length     time.Duration // of that
	Checkpoint Spread        // from the checkpoint to the upstream's clock, sampled
	Row        Spread        // from just before a heartbeat's commit to when the sink had it, by the machine's clock
}

// steadies watches how late a changefeed is under a steady load, for each
// resolved-ts interval: by what it says itself, and from outside.
func (o options) steadies(ctx context.Context, out io.Writer) error {
	if o.lagFor == 0 {
		return nil
	}
	fmt.Fprintf(out, "\nlag at %d rows a second, written and followed by processes of their own (hold: p50 ≤ interval + %v, p99 ≤ interval + %v)\n%10s  %-12s %10s %10s %10s %8s\n",
		steadyRate, steadyP50, steadyP99, "interval", "from", "p50", "p99", "max", "rows/s")
	for _, interval := range []time.Duration{200 * time.Millisecond, time.Second} {
		o.interval = interval
		var s Steady
		if err := o.measure(ctx, "steady", &s); err != nil {
			return fmt.Errorf("steady: %w", err)
		}
		rate := float64(s.Rows) / s.Length.Seconds()
		for _, line := range []struct {
			from string
			s    Spread
		}{{"checkpoint", s.Checkpoint}, {"heartbeats", s.Row}} {
			ok := line.s.P50 <= interval+steadyP50 && line.s.P99 <= interval+steadyP99 && rate > 0.9*steadyRate
			fmt.Fprintf(out, "%10v  %-12s %10v %10v %10v %8.0f %s\n", interval, line.from, line.s.P50.Round(time.Millisecond), line.s.P99.Round(time.Millisecond), line.s.Max.Round(time.Millisecond), rate,
				o.judge.held(fmt.Sprintf("lag at %d rows a second, interval %v, %s", steadyRate, interval, line.from), ok))
		}
	}
	return nil
}

// writeSteadily is the load: it writes to a cluster until ctx ends.
func writeSteadily(ctx context.Context, c *fake.Cluster) error {
	s, err := workload.NewServer(ctx, live.New(c))
	if err != nil {
		return err
	}
	for _, sql := range []string{
		"CREATE TABLE steady (id bigint NOT NULL PRIMARY KEY, v varchar(200) NOT NULL)",
		"CREATE TABLE heartbeat (id bigint NOT NULL PRIMARY KEY, at bigint NOT NULL)",
	} {
		if err := s.Exec(ctx, sql, catalog.Session{DB: "test"}, nil); err != nil {
			return err
		}
	}
	tasks, ctx := errgroup.WithContext(ctx)
	for n := range steadyWriters {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		tasks.Go(func() error {
			return every(ctx, time.Second*steadyTxn*steadyWriters/steadyRate, func() error {
				rows := map[int]string{}
				for len(rows) < steadyTxn {
					// Each writer has rows of its own: what meets has to be done again.
					rows[rng.IntN(steadyRows/steadyWriters)*steadyWriters+n] = strings.Repeat(strconv.FormatUint(rng.Uint64(), 36), 15)
				}
				return put(ctx, s, "steady", rows)
			})
		})
	}
	tasks.Go(func() error {
		return every(ctx, heartbeat, func() error {
			return put(ctx, s, "heartbeat", map[int]string{1: strconv.FormatInt(time.Now().UnixNano(), 10)})
		})
	})
	return tasks.Wait()
}

// every calls do at a pace, until ctx ends.
func every(ctx context.Context, pace time.Duration, do func() error) error {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := do(); err != nil && ctx.Err() == nil && !live.Retry(err) {
			return err
		}
	}
}

// put commits rows of an id and another column.
func put(ctx context.Context, s *workload.Server, table string, rows map[int]string) error {
	x, err := s.Begin(ctx, live.Options{OnePhase: true, AsyncCommit: true}, false)
	if err != nil {
		return err
	}
	defer x.End()
	shape := x.Table("test", table)
	for id, text := range rows {
		r := &workload.Record{}
		for i, text := range []string{strconv.Itoa(id), text} {
			cell, err := workload.Text(&shape.Table.Columns[i], text)
			if err != nil {
				return err
			}
			r.Cells = append(r.Cells, cell)
		}
		if err := x.Put(shape, r); err != nil {
			return err
		}
	}
	_, err = x.Commit(ctx)
	return err
}

// steady follows the load for a while.
func steady(ctx context.Context, o options) (Steady, error) {
	heard := &hearer{}
	var checkpoints []time.Duration
	var out Steady
	err := run(ctx, o.pd, inMemory(), 0, 0, heard, func(upstream.Batch) {}, func(ctx context.Context, c capture) error {
		began := time.Now()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			now, err := c.client.TS(ctx)
			if err != nil {
				return err
			}
			past := time.Since(began)
			if past > steadySkip {
				heard.keep()
				checkpoints = append(checkpoints, now.Sub(c.p.Checkpoint()))
			}
			// An interval may be longer than what is watched: then until something comes.
			if past > steadySkip+o.lagFor && heard.any() {
				out.Length = past - steadySkip
				return nil
			}
		}
	})
	if err != nil {
		return out, err
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	out.Rows, out.Row, out.Checkpoint = heard.rows, spread(heard.late), spread(checkpoints)
	return out, nil
}

// hearer is a sink that notes how old heartbeats are when they come.
type hearer struct {
	mu   sync.Mutex // guards all
	on   bool
	rows int
	late []time.Duration
}

// any tells whether a heartbeat has come.
func (h *hearer) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.late) > 0
}

func (h *hearer) keep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = true
}

func (h *hearer) Write(_ context.Context, _ sink.Leave, txns []event.Txn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.on {
		return nil
	}
	for i := range txns {
		for _, r := range txns[i].Rows {
			if r.Table.Name == "steady" {
				h.rows++
			} else if r.After != nil {
				h.late = append(h.late, time.Since(time.Unix(0, r.After[1].Int())))
			}
		}
	}
	return nil
}

func (h *hearer) Flush(context.Context) error                                  { return nil }
func (h *hearer) Whole() bool                                                  { return false }
func (h *hearer) SyncPoint(context.Context, sink.Leave, event.SyncPoint) error { return nil }
func (h *hearer) DDL(context.Context, sink.Leave, *event.DDL) error            { return nil }
func (h *hearer) Checkpoint(context.Context, tso.TS) error                     { return nil }
func (h *hearer) Close() error                                                 { return nil }
