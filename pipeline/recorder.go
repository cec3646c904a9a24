package pipeline

import (
	"cmp"
	"slices"
	"sync"

	"github.com/sluice-cdc/sluice/tso"
)

// recorderLen is how many moves of each stage a changefeed keeps unless told
// otherwise: the checkpoint's last minutes and the regions' last second, in
// half a megabyte.
const recorderLen = 1024

// Recorder keeps the last moves of timestamps, so that a fault can be told with
// its history. Each stage has a ring of its own: regions move a thousand times
// as often as the checkpoint, whose moves matter most.
type Recorder struct {
	size int

	mu    sync.Mutex
	count uint64
	rings map[tso.Stage]*ring
}

type ring struct {
	moves []numbered // grows to the size, then wraps
	next  int
}

type numbered struct {
	n uint64
	tso.Move
}

// NewRecorder keeps up to size moves of each stage.
func NewRecorder(size int) *Recorder {
	return &Recorder{size: max(size, 1), rings: make(map[tso.Stage]*ring)}
}

// Record adds moves.
func (r *Recorder) Record(moves ...tso.Move) {
	if len(moves) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range moves {
		r.count++
		z := r.rings[m.Stage]
		if z == nil {
			z = new(ring)
			r.rings[m.Stage] = z
		}
		if len(z.moves) < r.size {
			z.moves = append(z.moves, numbered{r.count, m})
			continue
		}
		z.moves[z.next] = numbered{r.count, m}
		z.next = (z.next + 1) % r.size
	}
}

// Moves are those kept, in the order in which they were recorded.
func (r *Recorder) Moves() []tso.Move {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []numbered
	for _, z := range r.rings {
		all = append(all, z.moves...)
	}
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(a.n, b.n) })
	out := make([]tso.Move, len(all))
	for i, m := range all {
		out[i] = m.Move
	}
	return out
}
