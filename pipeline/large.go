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

// beginLarge gives up holding the transaction that the change belongs to. What
// comes before it is queued.
func (r *reader) beginLarge(ctx context.Context, raw *event.RawKV) error {
	txn, bytes := r.batch.lastTxn()
	r.large = &large{commit: txn.CommitTS, start: txn.StartTS, rows: len(txn.Rows), bytes: bytes}
	for _, row := range txn.Rows {
		r.large.rivals = r.large.rivals || row.Before != nil && rivals(row.Table)
	}
	r.batch.dropTxn(raw)
	return r.flush(ctx, r.before(raw))
}

// survey counts a change of the large transaction. What an expression leaves out
// is counted with it: that shows when it is delivered.
func (r *reader) survey(raw *event.RawKV) error {
	t, _, err := r.countedTable(raw)
	if t == nil || err != nil {
		return err
	}
	if raw.Op == event.Delete && len(raw.Old) == 0 {
		return nil // of a row that never was
	}
	l := r.large
	l.rows++
	values := 0
	if len(raw.Old) > 0 {
		values += len(t.Columns)
		l.rivals = l.rivals || rivals(t)
	}
	if raw.Op == event.Put {
		values += len(t.Columns)
	}
	l.bytes += heldBytes(raw, values)
	return nil
}

// deliverLarge queues the large transaction, if there is one, in pieces: what
// gives up keys first, if others may take them.
func (r *reader) deliverLarge(ctx context.Context) error {
	l := r.large
	if l == nil {
		return nil
	}
	r.large = nil
	if r.sink.Whole() {
		return cdcerr.TxnTooLarge.New("the transaction of start-ts %d and commit-ts %d has %d rows that take %d bytes, at most %d can be held",
			l.start, l.commit, l.rows, l.bytes, r.cfg.TxnBytes)
	}
	r.cfg.Log.Info("a transaction is written in pieces: it is too large to be held", "changefeed", r.cfg.Changefeed,
		"start-ts", l.start, "commit-ts", l.commit, "rows", l.rows, "bytes", l.bytes, "most", r.cfg.TxnBytes)
	p := &pieces{reader: r}
	if l.rivals {
		if err := p.pass(ctx, l, given); err != nil {
			return err
		}
	}
	if err := p.pass(ctx, l, taken); err != nil {
		return err
	}
	return p.end(ctx)
}

// pieces queues a transaction piece by piece, one behind what it has read, since
// the last one has to say that it is.
type pieces struct {
	*reader
	last *item
	n    int
}

// pass reads the transaction once and delivers the part of it that part picks.
func (p *pieces) pass(ctx context.Context, l *large, part func(*event.Row) *event.Row) error {
	it, err := p.rows.Fetch(l.commit.Prev(), l.commit)
	if err != nil {
		return err
	}
	defer it.Close()
	raws := make([]*event.RawKV, rawsLen)
	for {
		n, err := it.Next(raws)
		if err != nil {
			return err
		}
		for _, raw := range raws[:n] {
			if !l.is(raw) {
				continue // another transaction has the same commit-ts
			}
			if err := p.take(ctx, raw, part); err != nil {
				return err
			}
		}
		if n < len(raws) {
			return nil
		}
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
	p.n++
	txns[0].Piece, txns[0].More = p.n, true
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
