// Package sorter owns rows between their arrival, in any order, and their
// reading, in one order: commit-ts, start-ts, key.
//
//	Input.Add ──▶ pending blocks ──resolved-ts──▶ closed chunks ──Fetch──▶ reader
//	              (any order)                     (sorted once)            Forget
//
// Everything at or below a span's resolved-ts is complete (P4), so it is sorted
// once, when the resolved-ts passes it, and never again. A row that comes twice
// (same key, start-ts and commit-ts) is read once, also where the second arrives
// after the first was closed or read. A row that comes late and was never seen
// breaks P4 and is an error.
//
// A fetch of (lower, upper] gives the same rows however often it is asked, until
// Forget gives them up: a reader that failed half way begins again at any border.
//
// Memory is counted in bytes of rows. Over its quota a sorter makes Add wait, but
// only while its reader can still free something without any further Add: while
// an unforgotten row stands at or below both Resolved and what the reader called
// Readable. With nothing left to free Add always gets in, whatever the quota, since only more
// input can then complete what is held: a transaction larger than the quota, or
// a span that lags behind the others. An Add without rows never waits.
//
// The package starts no goroutine. Inputs are used by one goroutine each; every
// other method is safe from any.
package sorter
