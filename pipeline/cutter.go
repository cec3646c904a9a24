package pipeline

import (
	"context"
	"log/slog"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/tso"
)

// cutter cuts rows in commit order into batches of whole transactions: it knows
// each row's table, leaves out what nobody wants, and decodes the rest. It takes one
// turn after the other. Between two only large transactions are under way.
type cutter struct {
	changefeed string
	log        *slog.Logger
	schema     Schema
	scope      filter.Scope
	txnBytes   int64
	whole      func() bool // whether the sink wants transactions whole
	put        func(context.Context, item) error
	note       func(func(*Progress))

	raws    []*event.RawKV // of a turn that has ended
	span    int64          // whose rows are read now, by event.Table.SpanIDs; 0: anybody's
	mounter *mount.Mounter
	batch   batch
	unknown uint64
	leftOut uint64
	larges  int // turns with a large transaction under way
	most    int // of them; 0: there is one turn only

	// The last answer of the schema, for rows of tableID committed at tableTS.
	tableID int64
	tableTS tso.TS
	table   *event.Table
	wanted  map[*event.Table]verdict
}

// verdict is what is wanted of a table's rows.
type verdict struct {
	wanted    bool
	unit      bool // its rows are in one order, whichever partition they are in
	elsewhere bool // the change is another span's
	rows      *filter.RowRule
}

// wantedMax bounds the verdicts that are kept. Each DDL makes another version of its
// table; ten thousand are two megabytes with what they hold.
const wantedMax = 10_000

// rawsLen is how many rows are taken from the sorter at once: enough to make a
// call nothing, few enough to stay in the processor's cache.
const rawsLen = 256

func newCutter(cfg *Config, schema Schema, whole func() bool, put func(context.Context, item) error, note func(func(*Progress))) *cutter {
	return &cutter{
		changefeed: cfg.Changefeed, log: cfg.Log, schema: schema, txnBytes: cfg.TxnBytes,
		scope: filter.Scope{Rules: cfg.Filter, ForceReplicate: cfg.ForceReplicate, PrimaryOnly: cfg.FilterLoop},
		whole: whole, put: put, note: note,
		mounter: mount.New(),
		batch:   batch{rowsMax: cfg.BatchRows, bytesMax: cfg.BatchBytes},
		wanted:  map[*event.Table]verdict{},
	}
}

// turn is the reading of one reader's rows up to a bound, as far as it has come.
type turn struct {
	stream
	rows *ingest.Reader
	last tso.TS // the commit-ts of the last row that was taken
	upto tso.TS // where the checkpoint is, or will be once the queue is worked off

	large  *large // a transaction that is too large for the batch
	pieces *pieces

	batches int    // queued since the turn was taken up, or as much work
	idle    int    // rows taken since the last of them
	bytes   uint64 // of rows taken
}

// stream is rows as they come from the sorter.
type stream struct {
	it    rowIterator
	raws  []*event.RawKV
	next  int // the first of raws that was not taken
	n     int
	ended bool // there are no more behind raws
}

// rowIterator is a sorter's.
type rowIterator interface {
	Next(dst []*event.RawKV) (int, error)
	Close()
}

// peek is the next row, nil at the end.
func (s *stream) peek() (_ *event.RawKV, err error) {
	if s.next == s.n && !s.ended {
		s.next = 0
		if s.n, err = s.it.Next(s.raws); err != nil {
			s.n = 0
			return nil, err
		}
		s.ended = s.n < len(s.raws)
	}
	if s.next == s.n {
		return nil, nil
	}
	return s.raws[s.next], nil
}

// state is how a turn stands.
type state uint8

const (
	// turnOver: everything is read; the last of it may still be in the batch.
	turnOver state = iota
	// turnOpen: it goes on where it stands. Nothing is in the batch.
	turnOpen
	// turnCrowded: a large transaction comes next, and as many as may be are under way.
	// The turn has to end, and what is left be read in another. Nothing is in the batch.
	turnCrowded
)

// begin reads (lower, upper]; the turn must be ended.
func (c *cutter) begin(rows *ingest.Reader, lower, upper, upto tso.TS) (*turn, error) {
	it, err := rows.Fetch(lower, upper)
	if err != nil {
		return nil, err
	}
	raws := c.raws
	if c.raws = nil; raws == nil {
		raws = make([]*event.RawKV, rawsLen)
	}
	return &turn{stream: stream{it: it, raws: raws}, rows: rows, last: lower, upto: upto}, nil
}

// end gives up what the turn has not read.
func (c *cutter) end(t *turn) {
	t.it.Close()
	if t.pieces != nil {
		t.pieces.close()
	}
	if t.large != nil {
		c.larges--
	}
	c.raws = t.raws
}

// run goes on with a turn until it is over, or at the first good place after so many
// batches; 0 is no number.
func (c *cutter) run(ctx context.Context, t *turn, most int) (state, error) {
	for t.batches, t.idle = 0, 0; ; {
		if t.pieces != nil {
			if open, err := t.pieces.run(ctx, most); open || err != nil {
				return turnOpen, err
			}
			t.pieces, t.large = nil, nil
			c.larges--
		}
		raw, err := t.peek()
		if err != nil {
			return turnOver, err
		}
		switch {
		case raw != nil:
			if s, err := c.step(ctx, t, raw, most); s != turnOver || err != nil {
				return s, err
			}
		case t.large == nil:
			return turnOver, nil
		default:
			if err := c.deliver(t); err != nil {
				return turnOver, err
			}
		}
	}
}

// step takes one change into the batch, or into what is known of a transaction
// that is too large for it, unless something else comes first. It is turnOver where
// the turn goes on.
func (c *cutter) step(ctx context.Context, t *turn, raw *event.RawKV, most int) (state, error) {
	switch {
	case t.spent(most) && (t.large != nil || raw.CommitTS > t.last):
		return turnOpen, c.flush(ctx, t, t.before(raw))
	case t.large.is(raw):
		c.took(t, raw)
		return turnOver, c.survey(t, raw)
	case t.large != nil:
		return turnOver, c.deliver(t)
	case c.batch.full() && !c.batch.inLastTxn(raw):
		if err := c.flush(ctx, t, t.before(raw)); err != nil {
			return turnOver, err
		}
	}
	if err := c.row(raw); err != nil {
		c.batch.dropTxn(raw) // its other rows are not whole without this one
		if stopped := c.flush(ctx, t, item{}); stopped != nil {
			return turnOver, stopped
		}
		return turnOver, err
	}
	if _, bytes := c.batch.lastTxn(); bytes > c.txnBytes {
		return c.beginLarge(ctx, t, raw)
	}
	c.took(t, raw)
	return turnOver, nil
}

// spent tells whether the turn has had its share of work.
func (t *turn) spent(most int) bool { return most > 0 && t.batches >= most }

// took counts a row. Rows that nobody wants are work too.
func (c *cutter) took(t *turn, raw *event.RawKV) {
	t.next++
	t.last = raw.CommitTS
	t.bytes += uint64(raw.Size())
	c.worked(t)
}

func (c *cutter) worked(t *turn) {
	if t.idle++; t.idle >= c.batch.rowsMax {
		t.idle = 0
		t.batches++
	}
}

// row mounts one change, unless nobody wants it.
func (c *cutter) row(raw *event.RawKV) error {
	t, rows, err := c.countedTable(raw)
	if t == nil || err != nil {
		return err
	}
	row, err := c.mount(raw, t, rows)
	if err != nil || row == nil {
		return err
	}
	c.batch.add(row)
	return nil
}

// mount decodes one change; nil where there is nothing to it, or an expression of
// an event filter leaves it out.
func (c *cutter) mount(raw *event.RawKV, t *event.Table, rows *filter.RowRule) (*event.Row, error) {
	row, err := c.mounter.Row(raw, t)
	if row == nil || err != nil || rows == nil {
		return row, err
	}
	ignored, err := rows.Ignores(row)
	if ignored {
		c.leftOut++
		return nil, nil
	}
	return row, err
}

// countedTable is tableOf, and counts what is not wanted.
func (c *cutter) countedTable(raw *event.RawKV) (*event.Table, *filter.RowRule, error) {
	t, v, err := c.tableOf(raw)
	switch {
	case err != nil:
		return nil, nil, err
	case t == nil:
		c.unknown++
	case v.elsewhere:
		return nil, nil, nil
	case !v.wanted:
		c.leftOut++
		return nil, nil, nil
	}
	return t, v.rows, nil
}

// tableOf is the table by which the change is decoded, nil where no schema knows
// it, and what is wanted of it. The schema is asked once for all rows of a table
// in one transaction.
func (c *cutter) tableOf(raw *event.RawKV) (t *event.Table, v verdict, err error) {
	id, _, ok := mount.ParseRecordKey(raw.Key)
	if !ok {
		return nil, v, cdcerr.CorruptKey.New("key %X among the rows of a table is no record key", raw.Key)
	}
	if id != c.tableID || raw.CommitTS != c.tableTS {
		c.tableID, c.tableTS = id, raw.CommitTS
		c.table, _ = c.schema.TableAt(id, raw.CommitTS)
	}
	if c.table == nil {
		return nil, v, nil
	}
	v, judged := c.wanted[c.table]
	if !judged {
		if v.wanted = c.scope.Table(c.table) == filter.Wanted; v.wanted {
			if v.rows, err = c.scope.Rules.Rows(c.table); err != nil {
				return nil, v, err
			}
		}
		v.unit = c.table.Unit()
		if len(c.wanted) >= wantedMax {
			clear(c.wanted)
		}
		c.wanted[c.table] = v
	}
	if c.span != 0 && (v.unit && c.span != c.table.ID || !v.unit && c.span != id) {
		// A DDL has made the table a unit, or not one any more, or has put the rows into
		// one: whoever has them from there on has another name, and may be writing them.
		v.wanted, v.elsewhere = false, true
	}
	if v.wanted && (c.scope.Rules.IgnoresTxn(raw.StartTS) || v.rows.IgnoresKind(kindOf(raw))) {
		v.wanted = false
	}
	return c.table, v, nil
}

// loggedTable is the table by which the redo log keeps the change, nil where nobody wants
// it. Only what an expression is about has to be decoded for that.
func (c *cutter) loggedTable(raw *event.RawKV) (*event.Table, error) {
	t, v, err := c.tableOf(raw)
	if t == nil || !v.wanted || err != nil {
		return nil, err
	}
	if v.rows == nil {
		return t, nil
	}
	row, err := c.mount(raw, t, v.rows)
	if row == nil || err != nil {
		return nil, err
	}
	return t, nil
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
// turn may be hours long, of a changefeed that was stopped, and what is downstream
// of it is not to be written again. Another transaction of the change's commit-ts
// may be in the batch already, so it goes no further than just below. That is below
// the turn's bound, and so below any DDL and sync point that are still to come.
func (t *turn) before(raw *event.RawKV) item {
	it := item{forget: raw.CommitTS.Prev()}
	if it.forget > t.upto {
		it.upto = it.forget
	}
	return it
}

// flush queues the batch as the rows of an item, if there is anything in it. All rows at
// or below its forget are in it or before it.
func (c *cutter) flush(ctx context.Context, t *turn, it item) error {
	if c.unknown > 0 || c.leftOut > 0 {
		c.note(func(p *Progress) { p.Unknown += c.unknown; p.LeftOut += c.leftOut })
		c.unknown, c.leftOut = 0, 0
	}
	if c.batch.empty() {
		return nil // the bound's own item forgets what was dropped
	}
	it.txns, it.rows = c.batch.take()
	t.batches, t.idle = t.batches+1, 0
	t.upto = max(t.upto, it.upto)
	return c.put(ctx, it)
}
