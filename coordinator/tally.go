package coordinator

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/sink"
)

// tally counts what this capture's work on a changefeed comes to: its part in it, and
// what it leads of it.
type tally struct {
	mu      sync.Mutex
	counted api.Tally // guarded by mu
}

func newTally() *tally {
	return &tally{counted: api.Tally{Batches: api.Spread{Upto: []float64{1, 4, 16, 64, 256, 1024, 2048, 8192}},
		DDLs: api.Spread{Upto: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120, 600, 3600}}}}
}

func (t *tally) add(count func(c *api.Tally)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count(&t.counted)
}

// read is what was counted until now.
func (t *tally) read() api.Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.counted
	out.Batches, out.DDLs = out.Batches.Clone(), out.DDLs.Clone()
	return out
}

func (t *tally) sinkError() { t.add(func(c *api.Tally) { c.SinkErrors++ }) }
func (t *tally) runError()  { t.add(func(c *api.Tally) { c.RunErrors++ }) }

// tallyOf is the one of a changefeed.
func (c *Coordinator) tallyOf(id meta.ChangefeedID) *tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tallies[id]
	if t == nil {
		t = newTally()
		c.tallies[id] = t
	}
	return t
}

// forgetTally forgets that of a changefeed that is no more.
func (c *Coordinator) forgetTally(id meta.ChangefeedID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tallies, id)
}

// failed counts what a sink says, but for what only says that the run ends.
func (t *tally) failed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && !cdcerr.LeaveEnded.Is(err) {
		t.sinkError()
	}
	return err
}

// counted is a sink that counts what it is given.
type counted struct {
	sink.Sink
	in  *tally
	now func() time.Time
}

// Write implements sink.Sink.
func (c counted) Write(ctx context.Context, leave sink.Leave, txns []event.Txn) error {
	rows := 0
	for i := range txns {
		rows += len(txns[i].Rows)
	}
	c.in.add(func(t *api.Tally) { t.Batches.Add(float64(rows)) })
	return c.in.failed(ctx, c.Sink.Write(ctx, leave, txns))
}

// Flush implements sink.Sink.
func (c counted) Flush(ctx context.Context) error { return c.in.failed(ctx, c.Sink.Flush(ctx)) }

// DDL implements sink.Sink.
func (c counted) DDL(ctx context.Context, leave sink.Leave, d *event.DDL) error {
	begun := c.now()
	c.in.add(func(t *api.Tally) { t.DDLsRunning++ })
	err := c.Sink.DDL(ctx, leave, d)
	c.in.add(func(t *api.Tally) {
		t.DDLsRunning--
		if err == nil {
			t.DDLs.Add(c.now().Sub(begun).Seconds())
		}
	})
	return c.in.failed(ctx, err)
}

// SyncPoint implements sink.Sink.
func (c counted) SyncPoint(ctx context.Context, leave sink.Leave, p event.SyncPoint) error {
	return c.in.failed(ctx, c.Sink.SyncPoint(ctx, leave, p))
}

// asOwner is a sink that counts, and has beside what only an owner asks of its sink.
func asOwner(s sink.Sink, c counted) sink.Sink {
	f, fences := s.(sink.Fencer)
	r, records := s.(sink.Recorder)
	j, journals := s.(sink.Journaler)
	switch {
	case fences && records && journals:
		return struct {
			counted
			sink.Fencer
			sink.Recorder
			sink.Journaler
		}{c, f, r, j}
	case fences && records:
		return struct {
			counted
			sink.Fencer
			sink.Recorder
		}{c, f, r}
	case fences:
		return struct {
			counted
			sink.Fencer
		}{c, f}
	case records:
		return struct {
			counted
			sink.Recorder
		}{c, r}
	}
	return c
}
