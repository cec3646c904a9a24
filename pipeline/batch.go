package pipeline

import (
	"slices"
	"unsafe"

	"github.com/sluice-cdc/sluice/event"
)

// batch gathers rows into whole transactions. Its memory is used again: what it
// hands out is copied to size.
type batch struct {
	rowsMax  int
	bytesMax int64

	rows  []*event.Row
	txns  []event.Txn // without their rows
	ends  []int       // index in rows behind each transaction
	bytes int64
	began int64 // bytes before the last transaction
}

// What mounting adds to a raw change, in bytes.
const (
	rowCost   = int64(unsafe.Sizeof(event.Row{}))
	valueCost = int64(unsafe.Sizeof(event.Value{}))
)

func (b *batch) empty() bool { return len(b.rows) == 0 }

// full tells whether the next transaction should begin another batch.
func (b *batch) full() bool { return len(b.rows) >= b.rowsMax || b.bytes >= b.bytesMax }

// inLastTxn tells whether the change belongs to the transaction at the end.
func (b *batch) inLastTxn(raw *event.RawKV) bool {
	if len(b.txns) == 0 {
		return false
	}
	last := &b.txns[len(b.txns)-1]
	return last.CommitTS == raw.CommitTS && last.StartTS == raw.StartTS
}

// heldBytes is what a row takes with so many values.
func heldBytes(raw *event.RawKV, values int) int64 {
	return raw.Size() + rowCost + int64(values)*valueCost
}

// lastTxn is the transaction at the end, with its rows so far and what they take.
func (b *batch) lastTxn() (txn event.Txn, bytes int64) {
	if len(b.txns) == 0 {
		return event.Txn{}, 0
	}
	txn = b.txns[len(b.txns)-1]
	txn.Rows = b.rows[b.startOf(len(b.txns)-1):]
	return txn, b.bytes - b.began
}

// startOf is the index in rows at which a transaction begins.
func (b *batch) startOf(txn int) int {
	if txn == 0 {
		return 0
	}
	return b.ends[txn-1]
}

func (b *batch) add(row *event.Row) {
	b.rows = append(b.rows, row)
	before := b.bytes
	b.bytes += heldBytes(row.Raw, len(row.Before)+len(row.After))
	if b.inLastTxn(row.Raw) {
		b.ends[len(b.ends)-1] = len(b.rows)
		return
	}
	b.began = before
	b.txns = append(b.txns, event.Txn{StartTS: row.StartTS, CommitTS: row.CommitTS})
	b.ends = append(b.ends, len(b.rows))
}

// dropTxn takes the change's transaction out again, if its rows stand at the end.
func (b *batch) dropTxn(raw *event.RawKV) {
	if !b.inLastTxn(raw) {
		return
	}
	n := len(b.txns) - 1
	start := b.startOf(n)
	clear(b.rows[start:])
	b.rows, b.txns, b.ends, b.bytes = b.rows[:start], b.txns[:n], b.ends[:n], b.began
}

// take empties the batch.
func (b *batch) take() (txns []event.Txn, count int) {
	rows := slices.Clone(b.rows)
	txns = slices.Clone(b.txns)
	start := 0
	for i, end := range b.ends {
		txns[i].Rows = rows[start:end:end]
		start = end
	}
	clear(b.rows)
	b.rows, b.txns, b.ends, b.bytes, b.began = b.rows[:0], b.txns[:0], b.ends[:0], 0, 0
	return txns, len(rows)
}
