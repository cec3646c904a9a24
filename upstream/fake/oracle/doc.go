// Package oracle owns the judgement on what a changefeed delivers of a workload:
// every row as its writer meant it, no row that nobody wrote, none lost.
//
//	workload.Server: what was meant ─────────┐
//	fake.Cluster: what was committed ───────┐│
//	deliveries, checkpoints, DDLs ─▶ Oracle ◀┘─▶ verify.Verdict
//
// It knows nothing of schemas that a changefeed would have to work out: writers
// have said which cells they write under which column ids, and the steps of DDL
// jobs when which physical ids were those of tables. Deliveries may come more
// than once, in any order, from several lives of a changefeed and from another
// process: Delivery is plain data. Checkpoints judge P4 from outside: what is at
// or below one has come by then. Of the bank the sum is judged in every snapshot.
//
// Store reads what a changefeed has of a cluster at a ts, for verdicts on contents: the
// rows as they stood, and of DDL jobs those alone that count by then (Past).
//
// It has no goroutines. An Oracle is for one goroutine at a time.
package oracle
