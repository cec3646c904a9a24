// Package capture owns the members of a Sluice cluster: a capture is one
// running server, named by a new ID at every start.
package capture

import "time"

// ID names one run of one server; a restarted server has a new one.
type ID string

// Liveness is how far a capture is on its way out. It only ever grows.
type Liveness uint8

// The stages of a capture's life.
const (
	Alive    Liveness = iota // takes spans
	Stopping                 // hands its spans over, takes none
)

// Info is what a capture says of itself to the others.
type Info struct {
	ID      ID
	Address string // host:port of its HTTP and gRPC listener
	Version string // semver without v
	// Liveness is its own word of how far it is on its way out.
	Liveness Liveness
	// Since is when it joined, by its own clock, to the second; zero: it does not say.
	Since time.Time
	// Upstream is what it sees of the upstream.
	Upstream Sight
	// NoUpstream says that it came without an upstream, which it outlives: it has no spans
	// and takes none, as long as it has this ID.
	NoUpstream bool
}

// Sight is what a capture sees of the upstream.
type Sight uint8

// What there is to see.
const (
	Unlooked  Sight = iota // it has not looked, or would not know where
	Reached                // something answers, PD or a store
	Unreached              // nothing does
)
