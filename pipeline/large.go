package pipeline

import (
	"context"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// large is a transaction that is too large to be held. Its rows are read to their
// end once to know it, and then again to be delivered in pieces.
type large struct {
	commit, start tso.TS
	rows          int
	bytes         int64
	rivals        bool // one row may take the key that another one gives up
}

func (l *large) is(raw *event.RawKV) bool {
	return l != nil && l.commit == raw.CommitTS && l.start == raw.StartTS
}

// rivals tells whether a row of t with an old value may stand in another row's
// way: where rows are stored under a hidden id and not under their key, one that
// gives a key up and one that takes it are told apart by nothing downstream. In
// all other tables a key has one row, and that one change a transaction.
func rivals(t *event.Table) bool { return t.Handle.Kind == event.RowIDHandle && len(t.Key) > 0 }

// beginLarge gives up holding the transaction that the change belongs to, which the
// batch has already. What comes before it is queued.
//
// Where it is crowded the turn ends before the transaction. Another one of the same
// commit-ts may be queued already, and comes again.
func (c *cutter) beginLarge(ctx context.Context, t *turn, raw *event.RawKV) (state, error) {
	txn, bytes := c.batch.lastTxn()
	l := &large{commit: txn.CommitTS, start: txn.StartTS, rows: len(txn.Rows), bytes: bytes}
	for _, row := range txn.Rows {
		l.rivals = l.rivals || row.Before != nil && rivals(row.Table)
	}
	c.batch.dropTxn(raw)
	if err := c.flush(ctx, t, t.before(raw)); err != nil {
		return turnOver, err
	}
	if c.most > 0 && c.larges >= c.most {
		return turnCrowded, nil
	}
	c.larges++
	t.large = l
	c.took(t, raw)
	return turnOver, nil
}

// survey counts a change of the large transaction. What an expression leaves out
// is counted with it: that shows when it is delivered.
func (c *cutter) survey(t *turn, raw *event.RawKV) error {
	of, _, err := c.countedTable(raw)
	if of == nil || err != nil {
		return err
	}
	if raw.Op == event.Delete && len(raw.Old) == 0 {
		return nil // of a row that never was
	}
	l := t.large
	l.rows++
	values := 0
	if len(raw.Old) > 0 {
		values += len(of.Columns)
		l.rivals = l.rivals || rivals(of)
	}
	if raw.Op == event.Put {
		values += len(of.Columns)
	}
	l.bytes += heldBytes(raw, values)
	return nil
}

// deliver begins to queue the large transaction in pieces: what gives up keys first, if
// others may take them.
func (c *cutter) deliver(t *turn) error {
	l := t.large
	if c.whole() {
		return cdcerr.TxnTooLarge.New("the transaction of start-ts %d and commit-ts %d has %d rows that take %d bytes, at most %d can be held",
			l.start, l.commit, l.rows, l.bytes, c.txnBytes)
	}
	c.log.Info("a transaction is written in pieces: it is too large to be held", "changefeed", c.changefeed,
		"start-ts", l.start, "commit-ts", l.commit, "rows", l.rows, "bytes", l.bytes, "most", c.txnBytes)
	t.pieces = &pieces{cutter: c, turn: t, passes: []func(*event.Row) *event.Row{taken}}
	if l.rivals {
		t.pieces.passes = []func(*event.Row) *event.Row{given, taken}
	}
	return nil
}

// pieces queues a transaction piece by piece, one behind what it has read, since
// the last one has to say that it is.
type pieces struct {
	*cutter
	turn   *turn
	passes []func(*event.Row) *event.Row // the part that each picks; those to come
	stream                               // of the first of passes, without an iterator before it begins
	last   *item
	count  int
}

// run goes on with it; open says that it was interrupted.
func (p *pieces) run(ctx context.Context, most int) (open bool, err error) {
	for ; len(p.passes) > 0; p.passes = p.passes[1:] {
		if open, err := p.pass(ctx, most); open || err != nil {
			return open, err
		}
		p.close()
	}
	return false, p.end(ctx)
}

// pass reads the transaction and delivers the part of it that the first of passes picks.
func (p *pieces) pass(ctx context.Context, most int) (open bool, err error) {
	l := p.turn.large
	if p.it == nil {
		it, err := p.turn.rows.Fetch(l.commit.Prev(), l.commit)
		if err != nil {
			return false, err
		}
		p.stream = stream{it: it, raws: make([]*event.RawKV, rawsLen)}
	}
	for {
		raw, err := p.peek()
		if raw == nil || err != nil {
			return false, err
		}
		if p.turn.spent(most) && p.batch.empty() {
			return true, nil
		}
		p.next++
		p.worked(p.turn)
		if !l.is(raw) {
			continue // another transaction has the same commit-ts
		}
		if err := p.take(ctx, raw, p.passes[0]); err != nil {
			return false, err
		}
	}
}

func (p *pieces) close() {
	if p.it != nil {
		p.it.Close()
		p.it = nil
	}
}

func (p *pieces) take(ctx context.Context, raw *event.RawKV, part func(*event.Row) *event.Row) error {
	t, v, err := p.tableOf(raw)
	if t == nil || !v.wanted || err != nil {
		return err
	}
	row, err := p.mount(raw, t, v.rows)
	if row == nil || err != nil {
		return err
	}
	if row = part(row); row == nil {
		return nil
	}
	p.batch.add(row)
	if p.batch.full() {
		return p.cut(ctx)
	}
	return nil
}

// cut makes a piece of what has been gathered.
func (p *pieces) cut(ctx context.Context) error {
	txns, rows := p.batch.take()
	p.count++
	txns[0].Piece, txns[0].More = p.count, true
	p.turn.batches, p.turn.idle = p.turn.batches+1, 0
	before := p.last
	p.last = &item{txns: txns, rows: rows}
	if before == nil {
		return nil
	}
	return p.put(ctx, *before)
}

func (p *pieces) end(ctx context.Context) error {
	if !p.batch.empty() {
		if err := p.cut(ctx); err != nil {
			return err
		}
	}
	if p.last == nil {
		return nil
	}
	p.last.txns[0].More = false
	return p.put(ctx, *p.last)
}

// given is the part of a change that gives a key up for others to take.
func given(row *event.Row) *event.Row {
	switch {
	case !rivals(row.Table) || row.Before == nil:
		return nil
	case row.After == nil:
		return row
	case keepsKey(row):
		return nil
	}
	half := *row
	half.After = nil
	return &half
}

// taken is the rest of it.
func taken(row *event.Row) *event.Row {
	switch {
	case !rivals(row.Table) || row.Before == nil:
		return row
	case row.After == nil:
		return nil
	case keepsKey(row):
		return row
	}
	half := *row
	half.Before = nil
	return &half
}

func keepsKey(row *event.Row) bool {
	return !slices.ContainsFunc(row.Table.Key, func(column int) bool { return !row.Before[column].Equal(row.After[column]) })
}
