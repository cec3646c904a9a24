// Package upstream owns the client of PD and TiKV: members, timestamps, where
// regions are, change streams, snapshot reads, the end of locks that transactions
// left behind, and the GC safepoint.
//
//	            ┌ PD ┐ members, TSO, regions, stores, safepoint
//	            └─┬──┘
//	Subscribe ────┼──▶ feed loop (one a subscription) ◀──batches── inbox
//	              │      │ region.Tracker decides           ▲
//	              │      ▼ requests                         │ by request id
//	              │    stream (one a store): sender, receiver ──┘
//	Scan, Get ────┼──▶ KvScan, KvGet by region
//	visits ───────┴──▶ KvScanLock … KvResolveLock by region
//
// A feed loop owns one region.Tracker, so all decisions about a subscription are
// made in one place and in order; package region says what they are and holds
// P2 and P4. The loop hands rows on in batches and then the resolved-ts that
// they complete; a row is never copied: its bytes alias the gRPC message, which
// the stream's receiver reads by hand instead of through kvproto's structs.
//
// Back-pressure: what was received and not yet handed on counts against a
// budget per stream. A consumer that blocks fills it, then the receiver stops
// reading, then TiKV stops sending; nothing in between grows. So a consumer that
// blocks holds back all subscriptions with regions on the same stores: it must
// never wait for another subscription's progress.
//
// PD may be away: streams go on, stores are found where they were, lookups ask
// again, timestamps are refused in bounded time. Its endpoints must lead to one
// cluster, at Open and whenever PD refuses us. TLS files are read at each handshake.
// Whether anything of the cluster lives at all, Reached finds out over connections of
// its own; Absent stands for a cluster of which nothing does.
//
// A keyspace's prefix stands before every key on the wire and is cut off at this
// package's door.
//
// GC is held by a barrier, or a service safepoint where PD has no barriers: set
// first, compared afterwards (P7). KeepGC renews a hold while somebody runs it.
//
// Foreign types (kvproto, pd/client, zap) stop at this package's door.
//
// Scans: a store scans a bounded number of regions for us at a time, urgent ones
// first (region.Gate); one more begins when a feed has taken the end of another.
// What waits for its commit is on the account of Subscription.Memory, which may
// have prewrites put away; their commits look for them there before anything else.
//
// Standing still: every two seconds at most PD's time is taken, and the feeds judge
// their regions by it. One whose resolved-ts stands still is searched for locks;
// one that stays behind the others is named (Status, log) and in the end registered
// anew; a stream over which no resolved-ts comes at all is opened again. While PD
// gives no time, or we ourselves do not read, nobody is judged.
//
// Locks in the way, of a read or of a region's resolved-ts, are judged by package
// lock: what a transaction left behind is ended, what lives is waited for.
//
// Goroutines: Run holds all streams' (three each), one that watches the clock and
// four visitors that search regions for locks, in one errgroup, and ends with
// them; Subscribe holds its loop and one for lookups, and ends with them. The PD
// client has its own between Open and Close. Scan and Get run in their caller.
package upstream
