package agent

import (
	"context"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// noting is a sink that notes the checkpoints which it has taken.
type noting struct {
	sink.Sink
	of *Changefeed
}

// Write implements sink.Sink.
func (n noting) Write(ctx context.Context, g sink.Leave, txns []event.Txn) error {
	if err := n.Sink.Write(ctx, g, txns); err != nil || len(txns) == 0 {
		return err
	}
	n.of.written.Store(uint64(txns[len(txns)-1].CommitTS))
	return nil
}

// Checkpoint implements sink.Sink.
func (n noting) Checkpoint(ctx context.Context, ts tso.TS) error {
	if err := n.Sink.Checkpoint(ctx, ts); err != nil {
		return err
	}
	n.of.due.Store(uint64(ts))
	select {
	case n.of.moved <- struct{}{}:
	default:
	}
	return nil
}

// save persists checkpoints as they move, until ctx ends or one cannot be persisted
// for good.
func (f *Changefeed) save(ctx context.Context) error {
	for {
		select {
		case <-f.moved:
		case <-ctx.Done():
			return ctx.Err()
		}
		err := f.persist(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case cdcerr.MetaUnreachable.Is(err), cdcerr.MetaConflict.Is(err):
			f.cfg.Log.Info("the checkpoint cannot be persisted; trying again", "changefeed", f.cfg.Name, "error", err)
			select {
			case f.moved <- struct{}{}:
			default:
			}
		default:
			return err
		}
		timer := time.NewTimer(f.cfg.SaveEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (f *Changefeed) persist(ctx context.Context) error {
	// The checkpoint first: the resolved-ts never lies below one that was noted.
	checkpoint := tso.TS(f.due.Load())
	if checkpoint <= f.Persisted() {
		return nil
	}
	resolved := max(f.Progress().Resolved, checkpoint)
	if f.cfg.Save != nil {
		if err := f.cfg.Save(ctx, checkpoint, resolved); err != nil {
			return err
		}
	}
	f.saved.Store(uint64(checkpoint))
	return nil
}

// lastWords bounds what a changefeed that ends still waits for.
const lastWords = 2 * time.Second

// saveLast persists what is downstream when everything has ended, whatever ended it:
// less is to be written again.
func (f *Changefeed) saveLast(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	return f.persist(ctx)
}
