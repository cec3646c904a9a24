// Package live owns a client of the fake cluster that runs transactions the
// way TiDB's own client does: two phases over the cluster's write requests, with
// all that can go wrong left to whoever uses it.
//
//	Begin ─▶ Get, Scan, Lock, Put, Delete ─▶ Prewrite ─▶ CommitPrimary ─▶ CommitSecondaries
//	             └ a lock in the way ─▶ its primary's fate ─▶ resolve, pass, or wait
//
// Commit does the last three steps. A client that dies is one that does not
// take the next step: its locks stay, for others to find.
//
// Transactions are optimistic or pessimistic; they commit in two phases, by
// async commit or in one phase. They read a snapshot, and of two that write the
// same key at the same time one fails (ConflictError): the history of a cluster
// that only this package writes is snapshot-isolated, which its tests show.
//
// Requests go to the stores of this process, not over a wire: a store that is
// stopped refuses them, a frozen one keeps them waiting.
//
// Goroutines: none of its own. A Client may be used by many, a Txn by one.
package live
