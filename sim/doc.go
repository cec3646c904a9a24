// Package sim owns the simulated cluster: the pure cores under a seeded schedule of
// faults, and what has to hold after every step.
//
//	seed ─▶ actions ─▶ world: nodes (owner's and capture's halves with their shells),
//	                          network, leases, upstream and downstream
//	                     │
//	                     ▼ after each step
//	          P1 one writer, P2 whole cover, P3 no regress, P6 barrier, nothing lost;
//	          once faults end: everything replicates again within a bound
//
// A schedule is a list of actions, each a kind and two numbers that pick among what
// there is when its turn comes. A list from which some are taken out is a schedule too:
// that is how one that fails is made short.
//
// The shells in it are the least that the protocol asks for, and no better: a watermark
// is made durable late, an owner that was deposed goes on until it is told, what is on
// its way to the downstream may arrive after its writer was stopped for minutes.
//
// It has no goroutines.
package sim
