package owner

import (
	"context"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// wantSaved has the watermark made durable if it has moved: soon, or at once where
// somebody waits for it.
func (l *Loop) wantSaved(urgent bool) {
	l.mu.Lock()
	moved := l.mark.Checkpoint > l.saved.Checkpoint
	urgent = urgent || l.mark.Checkpoint == l.cfg.Scheduler.Target || l.waitsLocked()
	l.mu.Unlock()
	if !moved {
		return
	}
	signal(l.save)
	if urgent {
		signal(l.rush)
	}
}

// saveAll makes watermarks durable as they move, until ctx ends or one cannot be made
// durable for good: that somebody else is the owner is learnt here.
func (l *Loop) saveAll(ctx context.Context) error {
	for {
		select {
		case <-l.save:
		case <-ctx.Done():
			return ctx.Err()
		}
		err := l.persist(ctx)
		rush := l.rush
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case cdcerr.MetaUnreachable.Is(err), cdcerr.MetaConflict.Is(err):
			l.cfg.Log.Info("the checkpoint cannot be persisted; trying again", "changefeed", l.cfg.Changefeed, "error", err)
			signal(l.save)
			rush = nil // etcd needs its time, whoever waits
		default:
			return err
		}
		if err := l.hold(ctx, rush); err != nil {
			return err
		}
	}
}

// hold waits until the next watermark may be saved.
func (l *Loop) hold(ctx context.Context, rush <-chan struct{}) error {
	timer := time.NewTimer(l.cfg.SaveEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-rush:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// persist makes the latest watermark durable, and tells whom it concerns.
func (l *Loop) persist(ctx context.Context) error {
	l.mu.Lock()
	w, saved := l.mark, l.saved
	l.mu.Unlock()
	if w.Checkpoint <= saved.Checkpoint {
		return nil
	}
	if err := l.cfg.Save(ctx, w.Checkpoint, w.Resolved); err != nil {
		return err
	}
	l.mu.Lock()
	l.saved = w
	l.owner.Saved(w)
	l.mu.Unlock()
	l.look()
	signal(l.todo)
	l.feed.Forget(w.Checkpoint)
	return l.sink.Checkpoint(ctx, w.Checkpoint)
}

// lastWords bounds what a run that ends still waits for.
const lastWords = 2 * time.Second

// saveLast makes durable what is downstream when everything has ended, whatever ended
// it: less is to be written again. What rests on a broken belief is left.
func (l *Loop) saveLast(ctx context.Context, why error) error {
	l.mu.Lock()
	broken := l.broken
	l.mu.Unlock()
	if broken || cdcerr.NotOwner.Is(why) || cdcerr.SessionLost.Is(why) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	return l.persist(ctx)
}
