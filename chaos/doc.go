// Package chaos runs a capture through everything that TiKV, PD, etcd and the
// machine may do to it, and judges what arrives downstream.
//
//	this process                                     a process of its own, killed with -9
//	fake cluster ◀─ storm: splits, merges, leaders,  ──gRPC──▶ capture: meta, agent
//	 replays a      stops, freezes, cuts, PD away               │
//	 recording, or  ◀─ locks that nobody ends                   ▼
//	 a workload                                       journal: every delivery, in a file
//	      │                                                     │      └─ and a database, where wanted
//	      └── what TiDB had, what was meant ──▶ verdict ◀───────┘ of all lives
//
// A Plan follows from its seed: what is replayed or written, which faults strike,
// when the capture is killed, where metadata lives, how much memory there is. How
// they fall together is the machine's.
//
// Whatever happens, the end is equal. What a life delivered is judged by itself,
// row by row, and so is what all lives delivered: each row as it was, none missing,
// none before its time (P3, P4, P6), a life begins no later than what was persisted,
// and no earlier than what the one before had persisted (P7).
//
// Goroutines: Run has one for each of the cluster, the storm, PD's absence, the
// locks, the workload and the capture's process, in errgroups that it waits for.
package chaos
