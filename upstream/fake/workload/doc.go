// Package workload owns what happens on a fake cluster while something is
// tested or shown on it: tables, writers that change their rows at a bounded
// rate, and DDL that runs meanwhile.
//
//	SQL ─▶ catalog ─▶ step ─▶ transaction ─▶ cluster
//	          │                   ▲
//	       Shape ─▶ Session ──────┘      writers know the schema of now, or that of the step before
//	                   │
//	                   └─▶ what was written, by key and start-ts: Wrote
//
// A Server stands for all of a cluster's TiDB servers. It carries out DDL one
// step at a time, and from a step on lets writers use either version of the
// schema, until the last that uses the old one is done: only then comes the next
// step, as TiDB's metadata lock has it.
//
// The workloads: bank (transfers between accounts in several tables; their sum
// never changes), rows (inserts, updates and deletes over every type of column
// and every kind of key), ddl (rows, while a storm of DDL changes the tables
// under the writers) and drill (a bank, and rows beside it, under DDL of which each
// statement can be told from every other). Each is decided by its seed, but for what the machine
// interleaves.
//
// Goroutines: Run has one for each writer and one for each stream of DDL, and
// waits for them. The Server may be used by all of them; a Session by one.
package workload
