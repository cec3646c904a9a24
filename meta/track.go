package meta

import (
	"context"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Track writes how far one changefeed is, under one fence and in one epoch. It is
// used by one goroutine.
type Track struct {
	store *Store
	fence Fence
	was   *Changefeed
	stale bool // somebody may have written it since it was read, we ourselves included
}

// Track begins from a changefeed as it was read.
func (s *Store) Track(f Fence, from *Changefeed) *Track { return &Track{store: s, fence: f, was: from} }

// tracked is how often a write is tried against others' writes of the same status:
// those of an operator, who is no match for a loop.
const tracked = 5

// Advance writes a checkpoint-ts and a resolved-ts. Who goes on from a checkpoint
// begins with a lower resolved-ts than was reached before: the higher one stays (P3).
// What others wrote beside it stays too, but for another epoch: that is
// EpochChanged, for the changefeed has to begin anew from there. After an error that
// is retried Advance may be called again.
func (t *Track) Advance(ctx context.Context, checkpoint, resolved tso.TS) error {
	for try := 1; ; try++ {
		if t.stale {
			now, err := t.store.Changefeed(ctx, t.was.ID)
			if err != nil {
				return err
			}
			if now.Err != nil {
				return now.Err
			}
			if now.Status.Epoch != t.was.status.Epoch {
				return cdcerr.EpochChanged.New("changefeed %s is in epoch %d, this was %d", t.was.ID, now.Status.Epoch, t.was.status.Epoch)
			}
			t.was, t.stale = now, false
		}
		next := t.was.status
		next.CheckpointTS = checkpoint
		next.ResolvedTS = max(next.ResolvedTS, resolved)
		if next == t.was.status {
			return nil // it was written, and the answer was lost
		}
		now, err := t.store.PutStatus(ctx, t.fence, t.was, next)
		if err == nil {
			t.was = now
			return nil
		}
		t.stale = true
		if !cdcerr.MetaConflict.Is(err) || try == tracked {
			return err
		}
	}
}
