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
// # Spans
//
// Spans is the same for a changefeed that several captures share: each span that the
// capture has is at a place of its own, and one reader and one writer serve all.
//
//	Prepare, Write, Stop, Look ─▶ orders ┐
//	sorter: a span was resolved ─▶ ready ┴▶ rounds ──queue──▶ settler ─▶ sink
//	                                        slices  bounded   Write, Flush, Tell
//
// A span is read up to the least of its resolved-ts, the schema's, the gate, and its
// Limit, where DDLs and sync points of others hold it: neither is in the queue. Each span
// that has something to read gets a slice of a few batches in turn, cut at a commit-ts or
// between pieces of a large transaction; a span without rows moves with its bound. What is
// promised to the sorter as readable ends at the Limit, and all spans are one group there:
// rows of one that is held go to disk, those of the others go on. A span that waits costs
// no goroutine and is in no loop: the sorter says which were resolved, and those at their
// limit are looked at when Look is called.
//
// A partitioned table with one unique index over all of its partitions is one span, a
// unit, that is known by the table's id. Its place follows all partitions, with one
// reader, which merges them in commit order; at a DDL that changes them it goes on with
// those of after (cover.go). Rows whose table is known by another id at their commit-ts
// are not the place's. Until the schema is known above where a span begins, nothing of it
// is followed.
//
// Transactions are whole within a span. What was written of a span is flushed before
// it is told as its checkpoint, and before it has Ended.
//
// Goroutines, all in one errgroup whose end is Run's: the reader, the writer, and, of a
// whole changefeed, one that waits for a subscription to fail. Everything wakes by event; there is
// no timer.
package pipeline
