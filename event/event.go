package event

import "github.com/sluice-cdc/sluice/tso"

// Op is what a change does to its key.
type Op uint8

// The operations.
const (
	Put Op = iota + 1
	Delete
)

// RawKV is one committed change of one key. Key is raw (not memcomparable).
// Value is empty for Delete; Old is empty where the key did not exist before.
type RawKV struct {
	Op       Op
	StartTS  tso.TS
	CommitTS tso.TS
	Key      []byte
	Value    []byte
	Old      []byte
}

// Prewrite is a change whose transaction has not been committed, or not as far as
// is known. What it does to its key stands in the commit.
type Prewrite struct {
	StartTS    tso.TS
	Generation uint64 // of a pipelined transaction's flush: the highest one counts
	Key        []byte
	Value      []byte
	Old        []byte
}

// overhead is what a RawKV costs beside its bytes: the struct itself.
const overhead = 96

// Size is what the change costs in memory, in bytes.
func (r *RawKV) Size() int64 {
	return int64(len(r.Key)+len(r.Value)+len(r.Old)) + overhead
}

// Less is the order of delivery: commit-ts, start-ts, key.
func (r *RawKV) Less(o *RawKV) bool {
	if r.CommitTS != o.CommitTS {
		return r.CommitTS < o.CommitTS
	}
	if r.StartTS != o.StartTS {
		return r.StartTS < o.StartTS
	}
	return string(r.Key) < string(o.Key)
}

// RowKind is what a Row does to its table.
type RowKind uint8

// The kinds. A row image is absent (nil) on the side that has none.
const (
	Insert    RowKind = iota + 1 // After only
	Update                       // Before and After
	DeleteRow                    // Before only
)

// String is the word for logs and verdicts.
func (k RowKind) String() string {
	switch k {
	case Insert:
		return "insert"
	case Update:
		return "update"
	case DeleteRow:
		return "delete"
	}
	return "unknown"
}

// Image is one side of a row: a Value for each of Table.Columns, by the same
// index; nil where the row did not exist on that side.
type Image []Value

// Row is one change of one row, decoded by the schema in force at CommitTS.
type Row struct {
	StartTS    tso.TS
	CommitTS   tso.TS
	Table      *Table
	PhysicalID int64  // the table's id, or its partition's
	Key        []byte // raw record key
	Before     Image
	After      Image
	Raw        *RawKV // the change as it came
}

// Kind tells inserts, updates and deletes apart.
func (r *Row) Kind() RowKind {
	switch {
	case r.Before == nil:
		return Insert
	case r.After == nil:
		return DeleteRow
	}
	return Update
}

// Txn is all rows of one upstream transaction that this changefeed wants, or a
// piece of them.
type Txn struct {
	StartTS  tso.TS
	CommitTS tso.TS
	Rows     []*Row
	// Piece is 0 for a transaction that is whole. One that is too large to be held
	// comes as pieces 1, 2, …, with nothing of its span in between; all but the last
	// have More. Where its span is given up it breaks off, and comes anew elsewhere.
	Piece int
	More  bool
}

// SyncPoint asks the sink to record that everything up to TS is downstream and
// nothing above it.
type SyncPoint struct{ TS tso.TS }
