// Package playground is a whole Sluice in one command: a recording of a real
// TiDB is replayed by a fake upstream, travels over gRPC through one capture's
// pipeline into a database, and what arrives is compared with what TiDB had.
//
//	recording ─▶ upstream/fake ─gRPC─▶ upstream, schemafeed, pipeline ─▶ tee ─▶ sink ─▶ database
//	   │                                                                  │               │
//	   └── expected, history, commits ──▶ verify.Judge ◀──────────────────┘◀── read back ─┘
//
// Each recording has a fresh fake, a fresh store and a fresh changefeed, from
// the recording's start-ts until its checkpoint reaches the end-ts. The
// downstream is a database in this process by default, so that nothing has to be
// installed; it keeps what it was given until the command ends.
//
// With --workload the upstream is a fake cluster that lives: writers, DDL and
// faults, and every row that arrives is held against what its writer meant.
//
// With --captures servers replicate that cluster, each what `sluice server` is, with an
// etcd of their own, and a script has them come and go:
//
//	workload ─▶ upstream/fake ─▶ server 1, 2, 3 … ─▶ database ─▶ read back ─▶ verdict
//	script ── API, signals ────────▲    ▲── etcd
//
// Rows then go past nobody who could judge each: the end is judged, and the sum of a
// bank's accounts. The database in this process takes one transaction after the other,
// since its engine does not keep those of several captures apart.
//
// With --pd the upstream is a TiDB that runs: its wanted tables are copied as of
// now and then followed, until the command is told to end, without a verdict.
//
// Verdicts judge P4 and P6 from outside: rows by the contents that TiDB had at
// their commit-ts, the end by the contents that TiDB had last.
//
// Goroutines: Main's caller waits in Main; one errgroup for each recording holds
// the fake, the client, the schema feed, the pipeline and the progress line; the
// embedded database serves in one of its own until Main ends. Servers are each in one
// of a group that ends before the fake does.
package playground
