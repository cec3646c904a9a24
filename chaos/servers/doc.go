// Package servers owns a site of real processes: it runs the command of Sluice as
// its users do, lets what happens to servers befall it, and judges what came of that
// from outside.
//
//	upstream, a process ──gRPC──▶ sluice server ──SQL──▶ MariaDB ──binary log──▶ verdict
//	 load, heartbeat       │       killed, ended, …        │  ▲                    ▲
//	 regions that move     │       etcd in it or apart     │  └ connections killed │
//	                     wires, that can be cut            ▼                       │
//	                               lag: the heartbeat's age, every 100 ms,         │
//	                               beside that of the checkpoint                   │
//	 what stood at each sync point, which DDL was carried out ─────────────────────┘
//
// A script is Steps, each an event and when it comes; Play carries them out and
// measures around each how far the lag went, and how long it took until it was small
// again. Kills draws a script from a seed; another script is another function.
//
// Trials are what a cluster of several servers has to bear, each with the lag that it
// may cause: Try carries one out and measures from the first moment until all is calm.
// Between servers, etcd and the stores stand wires: ports that are called in somebody's
// place, and know by the caller's process who calls, so that a cut is one of a pair, or
// of one direction of it.
//
// The verdict believes nothing that Sluice says of itself. The accounts are folded
// from the binary log and held against the upstream's at every sync point, by the
// GTID that stands in its row (P6); every database's DDL has to be in the log as it
// was carried out, none missing, none twice, and in that order for each table; a
// heartbeat that is older than a checkpoint told before is stale, and written by
// somebody who should not (P1); and at the end every table holds what the upstream's
// holds.
//
// Goroutines: a Site has one for each server, which starts it again whenever it has
// ended, two that look at lags, each with one for the look under way, and one for the
// wires with one for each port and three for each call; Close waits for them.
// Processes end with the test, however it ends.
package servers
