// Package origin owns the upstream of a test of servers, in a process of its own:
// the fake cluster, a load on it that goes on whatever befalls those who follow it,
// and what only the upstream can know when they are judged.
//
//	test: Upstream ──requests, JSON, a line each──▶ Serve ─▶ fake cluster ◀─ workload "drill"
//	            ◀── answers ──                                     ▲     ◀─ heartbeat
//	                                                   servers ────┘ over the wire
//
// The load is transfers between accounts, changes of other tables and DDL, at fixed
// rates. The heartbeat writes the wall's time into a row of each of its tables every
// 100 ms: read downstream, it is the lag as an outsider sees it. Where it is told to,
// regions split, join and change their leaders meanwhile.
//
// Serve ends when its input does, so that nothing stays behind a test that is gone.
//
// Goroutines: Serve has one for the cluster, one for the workload, one for the
// heartbeat and one for the regions that move, and waits for them. An Upstream has
// none but that of its process.
package origin
