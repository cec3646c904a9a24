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

func (b *batch) add(row *event.Row) {
	b.rows = append(b.rows, row)
	b.bytes += row.Raw.Size() + rowCost + int64(len(row.Before)+len(row.After))*valueCost
	if b.inLastTxn(row.Raw) {
		b.ends[len(b.ends)-1] = len(b.rows)
		return
	}
	b.txns = append(b.txns, event.Txn{StartTS: row.StartTS, CommitTS: row.CommitTS})
	b.ends = append(b.ends, len(b.rows))
}

// dropTxn takes the change's transaction out again, if its rows stand at the end.
func (b *batch) dropTxn(raw *event.RawKV) {
	if !b.inLastTxn(raw) {
		return
	}
	n := len(b.txns) - 1
	b.txns, b.ends = b.txns[:n], b.ends[:n]
	start := 0
	if n > 0 {
		start = b.ends[n-1]
	}
	b.rows = b.rows[:start]
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
	b.rows, b.txns, b.ends, b.bytes = b.rows[:0], b.txns[:0], b.ends[:0], 0
	return txns, len(rows)
}
