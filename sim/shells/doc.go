// Package shells owns the simulated cluster of the shells: the owner's loop, the captures'
// parts and their engines as they ship, under a seeded schedule of faults and in virtual
// time. It has tests only.
//
//	seed ─▶ driver: commits, DDLs, moves, drains, pauses; crashes, elections, cuts, errors
//	           │
//	           ▼
//	node: coordinator/owner.Loop ◀── network ──▶ agent.Part ─▶ pipeline.Spans ─▶ ingest
//	        │ save        │ DDLs, sync points, fences   │ rows                      │
//	       etcd           └──────▶ downstream ◀─────────┘                        upstream
//	                      └─ DDLs, metas ─▶ storage ◀─ pipeline.LogFeed ─▶ redo.Writer
//
// Package sim shows that the halves of scheduler are right with shells that are the least
// that the protocol asks for; this one, that the shells are no less. What holds is
// checked where it happens: P1 and P6 when a row or a DDL becomes durable downstream, P3
// and that nothing is missing when a watermark does, the order of durable and sent when
// something is sent; P2, and that everything arrives, when the faults are over. Of a
// redo log, which a third of the seeds have, P5 is checked at every write downstream and
// every meta, and at some moments the upstream is lost: the log is applied to a copy of
// the downstream, which has to become the upstream's snapshot.
//
// wrong_test.go has wrong lines of the shells, each of which some kind of trouble has to
// find.
//
// Goroutines: the shells' own, and those of the nodes that drive them; a seed ends after
// all of them.
//
// A seed fixes what befalls the cluster and when, not which goroutine runs first.
package shells
