// Package coordinator owns what only the owner of a cluster may do: it leads the
// life of every changefeed, and runs them on its own capture.
//
//	Session.Campaign ─▶ reign ─┬─ feed ─ changefeed.Life ─▶ etcd, then run or end of run
//	                           ├─ feed …      ▲                     │
//	                           │              └── report ◀── agent.Changefeed ─▶ sink
//	                           └─ hold on GC below what all of them have still to read
//
// The coordinator is the control plane of one session, as server.Plane; for the API
// it is the node. A capture that is not the owner knows the members and who leads,
// and nothing of the changefeeds.
//
// A changefeed's loop asks its life what follows, persists it under the owner's
// fence, and only then acts (P3): what is not persisted has not happened. A run
// writes by the leave of the session, which ends before etcd may give the cluster
// to somebody else (P1). A run's checkpoints are persisted through the life too: one
// writer of one key.
//
// The hold on GC stands before a run's first read, and before a changefeed is made
// or resumed, and is the least of what every changefeed may still need: its life, and
// an owner that would take it up where etcd has it (P7). An owner knows all of them
// and holds that before the first one runs.
//
// What etcd keeps of a changefeed and nobody can read is that changefeed's error;
// the others run (P8). So is what it has come to and etcd cannot keep. An owner that is not the owner any more ends its reign, and
// everything in it.
//
// Goroutines: Run has two, a reign has one for GC, one that waits for its end, and
// one for each changefeed's loop and run, all in the reign's group; a run's are
// those of agent.Changefeed.
package coordinator
