package redo

import (
	"sync"

	"github.com/sluice-cdc/sluice/tso"
)

// Gate says up to where a sink may write (P5). It never closes again.
type Gate struct {
	moved chan struct{} // holds one token: it cannot fill

	mu    sync.Mutex
	limit tso.TS // guarded by mu
}

// NewGate is one that is open up to ts: what is downstream already.
func NewGate(ts tso.TS) *Gate { return &Gate{moved: make(chan struct{}, 1), limit: ts} }

// Limit is up to where rows may be written.
func (g *Gate) Limit() tso.TS {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit
}

// Moved gets a token when Limit has risen.
func (g *Gate) Moved() <-chan struct{} { return g.moved }

// Open opens it up to the resolved-ts of a meta that is on the storage.
func (g *Gate) Open(persisted tso.TS) {
	g.mu.Lock()
	higher := persisted > g.limit
	if higher {
		g.limit = persisted
	}
	g.mu.Unlock()
	if higher {
		wake(g.moved)
	}
}

// wake leaves a token, where there is none.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
