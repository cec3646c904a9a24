package ingest

import (
	"context"
	"sync"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// shareRows is how many rows Subscribe hands out at once.
const shareRows = 256

// Subscribe follows a span for somebody who takes batches and keeps nothing, as
// Upstream does, but shares it with all who follow the same span here. Rows come
// in order, and each once.
func (n *Ingest) Subscribe(ctx context.Context, s upstream.Subscription, out func(upstream.Batch) error) error {
	var moves history
	r := n.NewReader(ReaderConfig{FilterLoop: s.FilterLoop, Record: moves.add})
	defer r.Close()
	if err := r.Follow(ctx, s.Span, s.StartTS); err != nil {
		return err
	}
	for last := s.StartTS; ; {
		select {
		case <-r.Advanced():
		case <-r.Failed():
			return r.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
		upper := r.Resolved()
		r.Readable(upper)
		if err := r.hand(last, upper, out); err != nil {
			return err
		}
		if err := out(upstream.Batch{Resolved: upper, Moves: moves.take()}); err != nil {
			return err
		}
		r.Forget(upper)
		last = upper
	}
}

// hand gives the rows in (lower, upper] to out.
func (r *Reader) hand(lower, upper tso.TS, out func(upstream.Batch) error) error {
	it, err := r.Fetch(lower, upper)
	if err != nil {
		return err
	}
	defer it.Close()
	dst := make([]*event.RawKV, shareRows)
	for {
		n, err := it.Next(dst)
		if err != nil {
			return err
		}
		if n > 0 {
			rows := make([]event.RawKV, n) // theirs to keep and to change
			for i, row := range dst[:n] {
				rows[i] = *row
			}
			if err := out(upstream.Batch{Rows: rows}); err != nil {
				return err
			}
		}
		if n < len(dst) {
			return nil
		}
	}
}

// history is moves that wait for a batch.
type history struct {
	mu    sync.Mutex
	moves []tso.Move // guarded by mu
}

// movesMax bounds a history: where nobody takes it, the last moves count.
const movesMax = 1024

func (h *history) add(more ...tso.Move) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moves = append(h.moves, more...)
	if len(h.moves) > 2*movesMax {
		h.moves = append(h.moves[:0], h.moves[len(h.moves)-movesMax:]...)
	}
}

func (h *history) take() []tso.Move {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.moves
	h.moves = nil
	return out
}
