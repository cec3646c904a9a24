// Package disaster owns the loss of an upstream, and whether what is left of it makes the
// downstream one exact snapshot of it.
//
//	upstream, a process ──▶ sluice servers ──▶ MariaDB, slow or not
//	 load, DDL, journal  ✗        │                    ▲
//	        │ killed with -9      └─▶ redo log ─▶ sluice redo apply, killed and run again
//	        ▼                         (a directory, or an S3)            │
//	 what it held at the meta's resolved-ts ◀──── every table is equal ──┘
//
// The upstream writes down what it commits before anybody is told of it. That journal is
// for the verdict alone: after the process is gone it says what every table held at any
// moment. Nothing is written downstream after the log was applied.
//
// Or the servers live, and do it themselves: nobody runs the command, and the changefeed
// ends with what the log holds (consistent.on-upstream-loss).
//
// A Plan is drawn from a seed: who applies the log, where the log is, how slow the downstream is, when the
// upstream is killed, and what befalls the servers and the command before, meanwhile and
// after. Before it tables are drained and moved, the changefeed is paused, the owner
// hands over, and the downstream is away for more than a minute.
//
// Goroutines: an attempt to apply the log among servers that live has one, which ends
// with that attempt; Run waits for it.
package disaster
