// Package bench owns the measuring of the data path against what the wire and
// the machine allow.
//
//	parent ──starts──▶ upstream   a fake cluster, in a process of its own
//	       ──starts──▶ client     bare: a ChangeData client that throws rows away
//	                              stream: upstream to blackhole, the whole pipeline
//	                              large: the same with one transaction larger than memory
//	                              tables: the same over thousands of new tables
//	                              idle: many regions in which nothing happens
//	                              lag: the same under a recorded load at recorded speed
//	                              steady: the same at 1000 rows a second
//	                              database: the whole pipeline into a MariaDB
//	                              outside: the steady load into it, seen by who reads there
//	                              served: a whole server with an etcd beside it, with a redo log or not
//	                              logged, applied: a redo log of the load is written, and applied
//	                              direct: the load into a MariaDB from memory, as it is applied
//	                              protected: the steady load through a server with a redo log into a MariaDB
//
// Both clients get the same PREWRITE and COMMIT bytes. A machine's speed changes
// from minute to minute, so they run in pairs, one after the other, each with a
// fresh upstream, and the median of the pairs' ratios is what counts. Time and
// CPU of a client count from its first row to its last.
//
// Where something does not hold the parent ends with an error, after all else is
// measured. What needs a count is held by counts, not by time.
//
// A child says one line of JSON on its standard output and ends with its
// standard input; nothing is left behind where the parent dies.
//
// Goroutines: those of the stages that are measured, in one errgroup a run.
package bench
