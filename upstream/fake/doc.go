// Package fake owns a PD and a TiKV cluster at the wire: real gRPC services on
// loopback over a real multi-version store, so that everything above it is
// tested through the protocol and not through an interface of our own.
//
//	recording ─▶ plan ─▶ replay ─▶ mvcc.Store ─▶ publish ─▶ conn (queue) ─▶ EventFeed
//	                        │        ▲  │                      ▲
//	KvPrewrite, KvCommit … ─┼────────┘  │                      │
//	                      clock      Snapshot ─▶ scan ─────────┤
//	                        │           └──────▶ KvGet, KvScan │
//	                        ├─▶ Tso                            │
//	                        └─▶ tick: resolved-ts ─────────────┘
//
// A recording is a change stream as one subscriber saw it. LoadRecording works
// out from it what the store did (plan.go); the replay does that again, at the
// recorded timestamps, and whoever subscribes gets a stream of his own: scans,
// live rows, region errors and resolved-ts as TiKV sends them for this store and
// this moment, early or late, with the hazards that a real one has (hazard.go).
//
// Without a recording, or after it, the cluster is live: transactions write to it
// over the wire or from inside (package live), regions split, merge and move
// (regions.go), PD has several members and the lead moves among them, and every
// server can be stopped, brought back on its port, frozen, cut off one way or
// slowed down (process.go, network.go). All of it can befall it at random, by a
// seed (storm.go): faults.go names each fault and the promise of TiKV that it
// keeps, or breaks, for a subscriber has to notice that too (breaks.go).
//
// It keeps what TiKV promises and what Sluice builds on: after a resolved-ts R
// of a region no row with commit-ts ≤ R comes (P4; the clock is limited by the
// least commit-ts still to come), regions cover every key (P2), rows of one key
// stay in order, and nothing follows an error event.
//
// Goroutines: Run starts for each server one that accepts connections and one
// that serves for as long as it is up, one that ticks, one that replays and one
// that closes the ports; a stream has one that reads requests, one that sends,
// one that waits for its end and a few that scan. All have ended when Run
// returns. Store, regions and subscriptions are under Cluster.mu; a stream's
// queue is under its own, taken second. PD's leader and GC state, and the
// connections of a server, have their own, with nothing taken under them.
package fake
