// Package verify owns the user's guarantees as running code: validators that
// watch what a sink is given, and verdicts that compare it with what a real
// TiDB held.
//
//	recording's expected, history, stream ──Read…──▶ Expected, History, Stream (its commits)
//	                                             │
//	event.Txn, event.DDL ──▶ Judge ─┬─ Order ────┤   P4, P6: no row out of order
//	  (what the sink was given)     ├─ Resolved ─┤   P4: no new row at or below a checkpoint
//	                                ├─ Transaction   whole transactions, once
//	                                ├─ Rows ─────┤   each row as TiDB had it at its commit-ts
//	                                └─ Model ────┘   all of it folded: the contents at the end
//
// Two verdicts come out and are kept apart. Rows judges decoding: every row,
// read with the schema in force at its commit-ts, stands in TiDB's own contents
// at that ts, and no deleted one does; every row comes at a commit of the recorded
// stream, and every commit of the history comes. What the history says that a commit
// did to a table (two states with nothing between) is answered for, row by row. End judges the outcome: the contents
// equal TiDB's. What no event carries can only be listed, cell by cell, each
// with one of four reasons (Reason); a cell is listed only where the reason was
// seen to apply to it, else it is a difference (P8: nothing silent).
//
// The package is pure: no goroutine, clock, file, socket or logger. It reads
// from io.Reader only, and nothing in it is safe for concurrent use.
package verify
