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

// DDL implements sink.Sink. What lies before a DDL must not come again once it may
// have run, in the table's new shape or in a table that it emptied: so the
// checkpoint, which is just below it, is persisted first.
func (n noting) DDL(ctx context.Context, g sink.Leave, d *event.DDL) error {
	for n.of.Persisted() < tso.TS(n.of.due.Load()) {
		err := n.of.persist(ctx)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case !cdcerr.MetaUnreachable.Is(err) && !cdcerr.MetaConflict.Is(err):
			return err
		}
		n.of.cfg.Log.Info("a DDL waits until the checkpoint before it is persisted", "changefeed", n.of.cfg.Name, "job", d.JobID, "error", err)
		if err := pause(ctx, n.of.cfg.SaveEvery); err != nil {
			return err
		}
	}
	return n.Sink.DDL(ctx, g, d)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
		if err := pause(ctx, f.cfg.SaveEvery); err != nil {
			return err
		}
	}
}

func (f *Changefeed) persist(ctx context.Context) error {
	f.saving.Lock()
	defer f.saving.Unlock()
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
