package pipeline

import (
	"sync"

	"github.com/sluice-cdc/sluice/tso"
)

// recorderLen is how many moves a changefeed keeps unless told otherwise: at some
// hundred moves a second, what led to a fault, in 300 kB.
const recorderLen = 4096

// Recorder keeps the last moves of timestamps, so that a fault can be told with
// its history.
type Recorder struct {
	mu   sync.Mutex
	ring []tso.Move // grows to cap, then wraps
	next int
}

// NewRecorder keeps up to size moves.
func NewRecorder(size int) *Recorder { return &Recorder{ring: make([]tso.Move, 0, max(size, 1))} }

// Record adds moves.
func (r *Recorder) Record(moves ...tso.Move) {
	if len(moves) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range moves {
		if len(r.ring) < cap(r.ring) {
			r.ring = append(r.ring, m)
			continue
		}
		r.ring[r.next] = m
		r.next = (r.next + 1) % len(r.ring)
	}
}

// Moves are those kept, oldest first.
func (r *Recorder) Moves() []tso.Move {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(append([]tso.Move(nil), r.ring[r.next:]...), r.ring[:r.next]...)
}
