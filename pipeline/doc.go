// Package pipeline owns one changefeed's stages on one capture, from the
// upstream's streams to the downstream's transactions.
//
//	           Schema (DDLs, table versions, resolved-ts)   Gate
//	              │                                          │
//	ingest ───▶ reader ───────────queue─────────▶ writer ─▶ sink
//	rows of all   mount, filter,  bounded         Write, DDL,
//	spans in      cut into batches                Checkpoint
//	order
//
// The reader goes from one bound to the next: the least of the spans'
// resolved-ts, the schema's resolved-ts, the gate, the target-ts, and the
// switch-ts of the next DDL. Rows of all spans up to the bound are merged in
// commit order, each decoded by the schema in force at its commit-ts. A DDL at T
// stands in the queue after every row at or below T and before any above, and
// the queue is worked off by one goroutine: that is P6. Physical ids that a DDL
// brings are followed from T on, before anything above T is read, and hold the
// bound at T until their first resolved-ts.
//
// The writer moves the checkpoint to a bound once everything at or below it is
// downstream: rows and DDLs. On the way there it moves with the batches, to just
// below the first row that is not in them: from one bound to the next may be hours
// of rows after a stop. It never goes back, and never passes the resolved-ts (P3).
// It goes to T − 1 before the DDLs at T run, and to T once all
// of them are done: a changefeed that is resumed carries out the DDLs above its
// checkpoint and none at or below it. A new one, whose checkpoint is start-ts − 1,
// carries out those at its start-ts as well; its rows are those above. Nothing
// above the gate is read, so nothing above it is written (P5).
//
// A sync point bounds the reader like a DDL. It stands behind the DDLs of its
// timestamp, so that at it the downstream is one exact snapshot of the upstream,
// and the checkpoint follows it: a crash in between asks for it again.
//
// What no row event can be right about stops the pipeline with a code: a
// rename into scope, a table that loses or gains its key (P8). Rows whose
// physical id no schema knows at their commit-ts are dropped and counted: TiDB
// fills new partitions with such rows before they are anybody's.
//
// Memory: the quota of the capture's sorter bounds what waits for the reader and
// for the writer, who forgets rows as they are written; the queue holds views of
// it. A transaction of more than Config.TxnBytes is not held: its rows are passed
// over once, to know its size and whether rows of it want each other's keys, and
// read again to be queued in pieces (large.go); or it ends the changefeed, where
// the sink wants transactions whole.
//
// Goroutines, all in one errgroup whose end is Run's: the reader, the writer, and
// one that waits for a subscription to fail. Everything wakes by event; there is
// no timer.
package pipeline
