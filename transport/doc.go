// Package transport owns what captures say to each other: one gRPC stream from each
// capture to each that it has something to say to, on the port that serves HTTP, and
// the only mapping between scheduler's messages and bytes (peers.proto).
//
//	Send ─▶ backlog a peer ─▶ stream ─▶ Service ─▶ backlog an Inbox ─▶ Take
//	            │   dials, says hello,     │   asks who is meant,
//	            │   beats, comes back      │   answers each beat
//	SetPeers ───┘                          └── Refusal where nobody takes it
//
// A stream goes one way; what comes back on it is Welcome, Pong and Refusal. It is
// opened when there is something to say, and then kept: a peer that is silent for
// Config.Silence, in either direction, counts as gone, also where its machine still
// answers for a process that stands still. Owners are told by Received.Broken.
//
// Within one stream nothing is delivered out of order or twice. Across two of them
// messages may be lost, doubled and late, which is scheduler's to survive: nothing is
// sent again here, and nothing acknowledged. Nobody waits for a peer either: Send and
// delivery never block. Of a changefeed's reports the newest replaces the one that
// waits, for it has all that the owner does not know; of its orders ordersMax wait,
// and then the oldest gives way: the owner gives them again.
//
// A capture that was started again has a new ID under its old address. Whoever asks
// for the old one is refused with the reason, so that no message reaches a capture
// that it was not meant for.
//
// Two versions of peers.proto that follow each other talk; docs in that file say what
// may change from one to the next.
//
// Goroutines: one a member in Transport.Run's group, and two more for each stream
// that it has open; all end before Run does. The service's streams run in the HTTP
// server's goroutines, and are cut when Run ends.
package transport
