// Package sorter owns rows between their arrival, in any order, and their
// reading, in one order: commit-ts, start-ts, key.
//
//	Input.Add ──▶ pending blocks ──resolved-ts──▶ closed chunks ─┐
//	              (any order)                     (sorted once)  ├─Fetch─▶ Reader
//	                    └──────── over quota: runs on disk ──────┘         Forget
//
// Everything at or below an input's resolved-ts is complete (P4), so it is sorted
// once, when the resolved-ts passes it, and never again. A row that comes twice
// (same key, start-ts and commit-ts) is read once, also where the second arrives
// after the first was closed, read or written to disk. A row that comes late and
// was never seen breaks P4 and is an error.
//
// An input is one subscription to a span; a reader has a seat at some inputs, and
// an input may have many readers. A fetch of (lower, upper] gives the same rows
// however often it is asked, until the reader's Forget gives them up: a reader that
// failed half way begins again at any border. Rows are kept for the slowest
// reader of their input.
//
// # Memory
//
// The quota bounds the bytes that rows keep alive. Over it, Add waits as long as
// every reader can still give something up without any further Add: while a row
// that it has not forgotten stands at or below both its Resolved and what it called
// Readable. Then the readers are what everything waits for, and writing to disk
// would only cost. As soon as one reader has nothing left, only more input can help
// it on, and what is held goes to disk, the oldest first: a transaction larger than
// the quota, a span that lags behind the others, a reader that is slower than
// another one. An Add without rows never waits.
//
// # Disk
//
// An epoch of rows, a sixteenth of the quota, becomes a segment: one file with a
// sorted run for each input that had any. A fetch merges the runs with what is in
// memory; how much it reads at once depends on how many runs there are, so that it
// has a bound too. A segment is removed with the last of its runs. A segment is
// never merged into another: its rows are written once and read once.
//
// What is on disk is a cache. It is made anew at each start, never synced, and
// never trusted: blocks have checksums, a file's size and end are compared with
// what was written, and whatever does not fit is an error of class Retry, upon
// which the rows are pulled from upstream again. A full device or quota is the
// same where no reader can free anything; else it is waited for.
//
// # Prewrites
//
// What a subscription holds of transactions that are not committed counts against
// the same quota (Prewrites); rows make room for it, down to a quarter of the quota.
// Where all subscriptions together hold more than a quarter, those that hold most
// put theirs away, a registration at a time, and look for them again when the
// commits come, in the order of the keys.
//
// The package starts no goroutine. An input's Add is for one goroutine, an
// iterator too; all other methods are safe from any.
package sorter
