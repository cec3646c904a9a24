// Package schema owns what every table looked like at every timestamp, and the
// JSON forms in which TiDB keeps its metadata and its DDL jobs.
//
//	m keys at start-ts − 1 ──Load──▶ ┌───────┐ ◀──Step── rows of the DDL job tables
//	                                 │ Store │ ◀──Resolve(ts)
//	  TableAt, Tables ◀───────────── └───────┘ ──Ready──▶ DDLs, resolved-ts
//
// A job counts from its switch-ts: the first moment at which TiDB's writers used
// the new shape. For most kinds that is the commit-ts of the job's done row; for
// some it is an earlier step of the job (see switched). From such a switch until
// the job ends the resolved-ts stays just below it: whether it is carried out is
// not known yet (P4), and no row above it may be decoded by either shape. So at
// every resolved-ts the store shows what the metadata in TiKV showed, and a
// changefeed that is resumed reads the same schema as one that never stopped.
//
// The store is pure: it is given job rows and resolved-ts's, and hands back
// what follows from them in Ready. It keeps versions by physical id, so that
// names may be swapped, and ids exchanged, without confusion. P6 rests on the
// order of its DDLs (by switch-ts), P4 on its resolved-ts, P8 on its refusal to
// guess: an action, a database or a table that it does not know is an error.
package schema
