// Package mvcc owns the data of the fake cluster: for every raw key its
// committed versions, its lock and its rollbacks, as TiKV's three column
// families hold them.
//
//	Prewrite ─▶ lock ─▶ Commit ─▶ version
//	              └───▶ Rollback ─▶ rollback record
//	Put (one-phase commit) ─────▶ version
//
// Every write returns the Change that a change stream shows for it, old value
// included. Reads go through a Snapshot: entries are replaced, never edited, so
// that a snapshot costs one lazy tree clone and later writes do not reach it.
//
// Pure: no goroutine, no lock, no clock. One caller at a time writes; Snapshots
// may be read by anyone at any time.
package mvcc
