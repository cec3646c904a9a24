package pipeline

import (
	"context"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/mount"
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

	raws    []*event.RawKV
	mounter *mount.Mounter
	batch   batch
	large   *large // a transaction that is too large for the batch, while its rows are passed over
	unknown uint64
	leftOut uint64

	// The last answer of the schema, for rows of tableID committed at tableTS.
	tableID int64
	tableTS tso.TS
	table   *event.Table
	wanted  map[*event.Table]verdict // since the last DDL
}

// verdict is what is wanted of a table's rows.
type verdict struct {
	wanted bool
	rows   *filter.RowRule
}

// rawsLen is how many rows are taken from the sorter at once: enough to make a
// call nothing, few enough to stay in the processor's cache.
const rawsLen = 256

func newReader(p *Pipeline, queue chan<- item) *reader {
	last := max(p.cfg.StartTS, p.cfg.Checkpoint)
	return &reader{
		Pipeline: p, queue: queue,
		scope:   filter.Scope{Rules: p.cfg.Filter, ForceReplicate: p.cfg.ForceReplicate, PrimaryOnly: p.cfg.FilterLoop},
		last:    last,
		upto:    last,
		skipped: map[int64]bool{},
		sync:    p.cfg.syncPointAbove(p.cfg.Checkpoint),
		raws:    make([]*event.RawKV, rawsLen),
		mounter: mount.New(),
		batch:   batch{rowsMax: p.cfg.BatchRows, bytesMax: p.cfg.BatchBytes},
		wanted:  map[*event.Table]verdict{},
	}
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
	it, err := r.rows.Fetch(r.last, upper)
	if err != nil {
		return err
	}
	defer it.Close()
	for {
		n, err := it.Next(r.raws)
		if err != nil {
			return err
		}
		for _, raw := range r.raws[:n] {
			if err := r.next(ctx, raw); err != nil {
				return err
			}
		}
		if n == len(r.raws) {
			continue
		}
		if err := r.deliverLarge(ctx); err != nil {
			return err
		}
		return r.flush(ctx, item{forget: upper})
	}
}

// next takes one change into the batch, or into what is known of a transaction
// that is too large for it.
func (r *reader) next(ctx context.Context, raw *event.RawKV) error {
	if r.large.is(raw) {
		return r.survey(raw)
	}
	if err := r.deliverLarge(ctx); err != nil {
		return err
	}
	if r.batch.full() && !r.batch.inLastTxn(raw) {
		if err := r.flush(ctx, r.before(raw)); err != nil {
			return err
		}
	}
	if err := r.row(raw); err != nil {
		r.batch.dropTxn(raw) // its other rows are not whole without this one
		if stopped := r.flush(ctx, item{}); stopped != nil {
			return stopped
		}
		return err
	}
	if _, bytes := r.batch.lastTxn(); bytes > r.cfg.TxnBytes {
		return r.beginLarge(ctx, raw)
	}
	return nil
}

// row mounts one change, unless nobody wants it.
func (r *reader) row(raw *event.RawKV) error {
	t, rows, err := r.countedTable(raw)
	if t == nil || err != nil {
		return err
	}
	row, err := r.mount(raw, t, rows)
	if err != nil || row == nil {
		return err
	}
	r.batch.add(row)
	return nil
}

// mount decodes one change; nil where there is nothing to it, or an expression of
// an event filter leaves it out.
func (r *reader) mount(raw *event.RawKV, t *event.Table, rows *filter.RowRule) (*event.Row, error) {
	row, err := r.mounter.Row(raw, t)
	if row == nil || err != nil || rows == nil {
		return row, err
	}
	ignored, err := rows.Ignores(row)
	if ignored {
		r.leftOut++
		return nil, nil
	}
	return row, err
}

// countedTable is tableOf, and counts what is not wanted.
func (r *reader) countedTable(raw *event.RawKV) (*event.Table, *filter.RowRule, error) {
	t, v, err := r.tableOf(raw)
	switch {
	case err != nil:
		return nil, nil, err
	case t == nil:
		r.unknown++
	case !v.wanted:
		r.leftOut++
		return nil, nil, nil
	}
	return t, v.rows, nil
}

// tableOf is the table by which the change is decoded, nil where no schema knows
// it, and what is wanted of it. The schema is asked once for all rows of a table
// in one transaction.
func (r *reader) tableOf(raw *event.RawKV) (t *event.Table, v verdict, err error) {
	id, _, ok := mount.ParseRecordKey(raw.Key)
	if !ok {
		return nil, v, cdcerr.CorruptKey.New("key %X among the rows of a table is no record key", raw.Key)
	}
	if id != r.tableID || raw.CommitTS != r.tableTS {
		r.tableID, r.tableTS = id, raw.CommitTS
		r.table, _ = r.schema.TableAt(id, raw.CommitTS)
	}
	if r.table == nil {
		return nil, v, nil
	}
	v, judged := r.wanted[r.table]
	if !judged {
		if v.wanted = r.scope.Table(r.table) == filter.Wanted; v.wanted {
			if v.rows, err = r.scope.Rules.Rows(r.table); err != nil {
				return nil, v, err
			}
		}
		r.wanted[r.table] = v
	}
	if v.wanted && (r.scope.Rules.IgnoresTxn(raw.StartTS) || v.rows.IgnoresKind(kindOf(raw))) {
		v.wanted = false
	}
	return r.table, v, nil
}

// kindOf is the kind that the row of the change will have.
func kindOf(raw *event.RawKV) event.RowKind {
	switch {
	case raw.Op == event.Delete:
		return event.DeleteRow
	case len(raw.Old) == 0:
		return event.Insert
	}
	return event.Update
}

// before is the item of what comes before a change. The checkpoint goes with it: a
// step may be hours long, of a changefeed that was stopped, and what is downstream
// of it is not to be written again. Another transaction of the change's commit-ts
// may be in the batch already, so it goes no further than just below. That is below
// the step's bound, and so below any DDL and sync point that are still to come.
func (r *reader) before(raw *event.RawKV) item {
	it := item{forget: raw.CommitTS.Prev()}
	if it.forget > r.upto {
		it.upto = it.forget
	}
	return it
}

// flush queues the batch as the rows of an item. All rows at or below its forget
// are in it or before it.
func (r *reader) flush(ctx context.Context, it item) error {
	if r.unknown > 0 || r.leftOut > 0 {
		r.note(func(p *Progress) { p.Unknown += r.unknown; p.LeftOut += r.leftOut })
		r.unknown, r.leftOut = 0, 0
	}
	if r.batch.empty() {
		return nil // the bound's own item forgets what was dropped
	}
	it.txns, it.rows = r.batch.take()
	return r.put(ctx, it)
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
