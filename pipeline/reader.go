package pipeline

import (
	"context"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// item is one entry of the queue between reader and writer. Its fields are
// worked off in the order in which they stand here.
type item struct {
	txns []event.Txn
	rows int
	// forget says that all rows at or below it are downstream after txns.
	forget tso.TS
	ddl    *event.DDL
	sync   *event.SyncPoint
	// upto says that everything at or below it, DDLs too, is downstream now.
	upto tso.TS
	// err ends the changefeed, after everything before it is downstream.
	err error
}

// reader turns what has arrived into items, in commit order.
type reader struct {
	*Pipeline
	scope filter.Scope
	queue chan<- item

	last    tso.TS    // everything at or below has been read
	upto    tso.TS    // where the checkpoint is, or will be once the queue is worked off
	ddls    []planned // known and not carried out; see take
	skipped map[int64]bool
	sync    tso.TS // the next sync point; tso.Max where there are none

	cutter *cutter
}

func newReader(p *Pipeline, queue chan<- item) *reader {
	last := max(p.cfg.StartTS, p.cfg.Checkpoint)
	r := &reader{
		Pipeline: p, queue: queue,
		last:    last,
		upto:    last,
		skipped: map[int64]bool{},
		sync:    p.cfg.syncPointAbove(p.cfg.Checkpoint),
	}
	r.cutter = newCutter(&p.cfg, p.schema, p.sink.Whole, r.put, p.note)
	r.scope = r.cutter.scope
	return r
}

// run goes from bound to bound until the target-ts.
func (r *reader) run(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	for r.cfg.TargetTS == 0 || r.last < r.cfg.TargetTS {
		advanced, moved := r.schema.Advanced(), r.cfg.Gate.Moved()
		upper, cause, err := r.bound(ctx)
		if err != nil {
			return err
		}
		due := len(r.ddls) > 0 && r.ddls[0].SwitchTS <= upper
		if upper > r.last || upper == r.last && due {
			if err := r.step(ctx, upper, cause); err != nil {
				return err
			}
			continue
		}
		select {
		case <-r.rows.Advanced():
		case <-advanced:
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// start follows the tables of the checkpoint: DDLs up to there are in them,
// those above are still to come.
func (r *reader) start(ctx context.Context) error {
	for r.schema.Resolved() < r.cfg.Checkpoint {
		select {
		case <-r.schema.Advanced():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.schema.DDLs(r.cfg.Checkpoint) // of a feed that began further back: they are downstream
	for _, t := range r.schema.Tables(r.cfg.Checkpoint) {
		switch r.scope.Table(t) {
		case filter.Wanted:
			if _, err := r.scope.Rules.Rows(t); err != nil {
				return err
			}
			for _, id := range t.PhysicalIDs() {
				if err := r.rows.Follow(ctx, span.OfTable(id), r.last); err != nil {
					return err
				}
			}
		case filter.Keyless:
			r.skip(t)
		case filter.OutOfRule:
		}
	}
	return nil
}

// skip says once that a table is not replicated although the rules take it.
func (r *reader) skip(t *event.Table) {
	if !r.skipped[t.ID] {
		r.skipped[t.ID] = true
		r.cfg.Log.Warn("table is not replicated: no key names its rows", "changefeed", r.cfg.Changefeed,
			"table", t.FullName(), "remedy", cdcerr.TableIneligible.Remedy)
	}
}

// syncPointAbove is the first sync point above ts. They lie at multiples of the
// interval, so that a changefeed that is resumed goes on with the same ones, and
// changefeeds that share an interval share them.
func (c *Config) syncPointAbove(ts tso.TS) tso.TS {
	every := c.SyncPoints.Milliseconds()
	if every == 0 {
		return tso.Max
	}
	return tso.New((ts.Physical()/every+1)*every, 0)
}

// The causes of bounds.
const (
	causeSpans  = "the slowest span is resolved up to here"
	causeSchema = "the schema is known up to here"
	causeGate   = "the gate is open up to here"
	causeTarget = "target-ts"
	causeDDL    = "a DDL comes next"
	causeSync   = "a sync point comes next"
)

// bound is up to where everything can be read now, and what stops it there.
func (r *reader) bound(ctx context.Context) (upper tso.TS, cause string, err error) {
	known := r.schema.Resolved()
	if err := r.take(ctx, known); err != nil {
		return 0, "", err
	}
	upper, cause = known, causeSchema
	lower := func(ts tso.TS, why string) {
		if ts < upper {
			upper, cause = ts, why
		}
	}
	lower(r.cfg.Gate.Limit(), causeGate)
	if r.cfg.TargetTS != 0 {
		lower(r.cfg.TargetTS, causeTarget)
	}
	// What is resolved up to here will be read whatever comes, a DDL in between
	// or not: the sorter may count on it.
	r.rows.Readable(upper)
	lower(r.sync, causeSync)
	lower(r.rows.Resolved(), causeSpans)
	if len(r.ddls) > 0 {
		lower(r.ddls[0].SwitchTS, causeDDL)
	}
	return upper, cause, nil
}

// step reads (last, upper], carries out the DDLs at upper, and then notes the sync
// point there.
//
// The checkpoint goes to just below a DDL before the DDL runs. Whether a DDL was
// done is not known after a lost answer; if it was, rows before it no longer fit
// what is downstream, and must not come again.
func (r *reader) step(ctx context.Context, upper tso.TS, cause string) error {
	if upper > r.last {
		r.cfg.Recorder.Record(tso.Move{Stage: tso.StageGlobal, From: r.last, To: upper, Cause: cause})
		r.note(func(p *Progress) { p.Resolved = upper })
		if err := r.read(ctx, upper); err != nil {
			return r.fail(ctx, err)
		}
	}
	if before := upper.Prev(); before > r.upto && len(r.ddls) > 0 && r.ddls[0].SwitchTS <= upper {
		if err := r.put(ctx, item{forget: upper, upto: before}); err != nil {
			return err
		}
	}
	for len(r.ddls) > 0 && r.ddls[0].SwitchTS <= upper {
		if err := r.carryOut(ctx, &r.ddls[0]); err != nil {
			return r.fail(ctx, err)
		}
		r.ddls[0] = planned{}
		r.ddls = r.ddls[1:]
	}
	r.last = upper
	done := item{forget: upper, upto: upper}
	if upper == r.sync {
		done.sync = &event.SyncPoint{TS: upper}
		r.sync = r.cfg.syncPointAbove(upper)
	}
	return r.put(ctx, done)
}

// read queues all rows in (last, upper].
func (r *reader) read(ctx context.Context, upper tso.TS) error {
	t, err := r.cutter.begin(r.rows, r.last, upper, r.upto)
	if err != nil {
		return err
	}
	defer r.cutter.end(t)
	if _, err := r.cutter.run(ctx, t, 0); err != nil {
		return err
	}
	return r.cutter.flush(ctx, t, item{forget: upper})
}

// fail hands an error on to the writer, who raises it once everything before it
// is downstream.
func (r *reader) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if err := r.put(ctx, item{err: err}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (r *reader) put(ctx context.Context, it item) error {
	r.upto = max(r.upto, it.upto)
	select {
	case r.queue <- it:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
