// Package mvcc owns the data of the fake cluster: for every raw key its
// committed versions, its lock and its rollbacks, as TiKV's three column
// families hold them.
//
//	LockAll ─▶ pessimistic lock ─▶ Unlock
//	                 │
//	PrewriteAll ─▶ lock ─▶ Commit ─▶ version
//	       │         └───▶ Rollback, Cleanup, Inquire ─▶ rollback record
//	       └ one phase ─────▶ version
//
// Prewrite, Commit, Rollback and Put write single keys, as a replay does that
// knows how each transaction ended; the others are TiKV's requests with all
// their checks. Whoever commits at a ts of the store's choice (async commit, one
// phase) commits above every ts that was read at or promised: See.
//
// Every write returns the Change that a change stream shows for it, old value
// included. Reads go through a Snapshot: entries are replaced, never edited, so
// that a snapshot costs one lazy tree clone and later writes do not reach it.
//
// Pure: no goroutine, no lock, no clock. One caller at a time writes; Snapshots
// may be read by anyone at any time.
package mvcc
