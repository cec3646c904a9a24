// Package server owns one node: its configuration, its log, its listener, TLS
// and users, the registry of its metrics, and the order in which parts start and
// stop.
//
//	listen ─▶ PD ─▶ rows on disk ─▶ metadata, session ─▶ Plane ─▶ the API joins
//	                                                       │
//	leave: Plane hands over, then session, metadata, rows, PD, listener end
//
// The listener comes first, so that a node says what it waits for, and goes last,
// so that it says what it hands over. Told to end, a node has 30 seconds to hand
// over what it does (the leave channel of Plane.Run); then everything is cut.
//
// Whoever loses its session begins anew with a new capture ID; nothing that wrote
// by the old one is left by then (P1). Its lease is given back after the Plane has ended,
// whatever ended it.
//
// A server that does not find PD ends, unless its metadata is elsewhere and has something to be done
// without an upstream (Parts.Outlives): then it lives on an upstream.Absent until PD is there
// (outlive), and begins from there on as if it had just been started.
//
// The control plane is an argument, Parts.Plane: this package knows its face only.
//
// Other captures' streams come in on the same port, through one transport.Service for
// the port's life and one Transport for each session's. While there is none they are
// refused; what no part of the Plane takes is refused one by one.
//
// Goroutines: all are children of Run's groups and end before Run returns:
// the HTTP server's, the client of PD and TiKV, the ingest, the store of
// metadata, the session, the transport, the Plane, the one that cuts when time is up, and, without an upstream, one that looks for it.
package server
