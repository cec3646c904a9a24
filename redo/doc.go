// Package redo owns the redo log: how it is written, what its meta says, what is
// removed of it, and how it is read and applied.
//
//	captures                     owner                            sinks
//	changes ─▶ Writer ─Durable─▶ Meta.Advance ─persisted─▶ Gate ─▶ up to here
//	DDLs ────────────▶ DDLWriter ─┘   │
//	                        GC: each writer's first files, at or below the persisted checkpoint
//
//	after the disaster:  Find ─▶ Open ─▶ Inventory ─▶ Merge ─▶ transactions and DDLs in order
//
// P5: a sink writes up to the Gate, and the Gate opens to the resolved-ts of a meta
// that is on the storage. A meta's resolved-ts is at or below what every Writer has
// made durable, and every DDL at or below it is durable too, whether it has been
// carried out or not. So after a crash at any point everything in (checkpoint-ts,
// resolved-ts] is in the log, and nothing above is downstream.
//
// A meta never goes back (P3). There is always a valid one; of two owners that both
// believe to be one, the later wins and the earlier is told so (cdcerr.NotOwner)
// before its Gate opens (P1).
//
// A storage that does not answer is asked again, for as long as the changefeed runs;
// meanwhile rows wait in memory up to the quota, and then whoever brings them waits.
// Nothing is put while a lock is held.
//
// Goroutines: those of Writer.Run (one that ends files, and the flush workers), of
// Keeper.Run (one that puts metas, one that removes those behind, one that removes files),
// and of Merge (those that fetch ahead) and Apply (one that merges, one that gives to the
// sink). Each returns after all of its own.
package redo
