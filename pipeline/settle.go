package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// write opens the sink when there is something to write, and works off the queue, one
// parcel after the other. What the sink has taken is flushed when nothing more waits,
// and every FlushEvery.
func (s *Spans) write(ctx context.Context, queue <-chan parcel) error {
	select {
	case <-s.first:
	case <-ctx.Done():
		return ctx.Err()
	}
	down, err := s.cfg.Open(ctx)
	if err != nil {
		return err
	}
	s.sink = down
	close(s.opened)
	w := settler{Spans: s}
	for {
		var x parcel
		select {
		case x = <-queue:
		default:
			if err := w.settle(ctx); err != nil {
				return err
			}
			select {
			case x = <-queue:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := w.work(ctx, &x); err != nil {
			return err
		}
	}
}

// settler writes, and tells how far the places are.
type settler struct {
	*Spans
	dirty []*place  // with rows that are not flushed
	since time.Time // of the first of these
}

func (w *settler) work(ctx context.Context, x *parcel) error {
	for _, m := range x.moves {
		if err := w.move(m.of, m.due); err != nil {
			return err
		}
	}
	if x.of != nil {
		if err := w.workOn(ctx, x); err != nil {
			return err
		}
	}
	if x.err == nil && (len(w.dirty) == 0 || time.Since(w.since) < w.stages.FlushEvery) {
		return nil
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	return x.err
}

// workOn does what a parcel says of one place.
func (w *settler) workOn(ctx context.Context, x *parcel) error {
	p := x.of
	if len(x.txns) > 0 {
		if !p.dirty {
			if p.dirty = true; len(w.dirty) == 0 {
				w.since = time.Now()
			}
			w.dirty = append(w.dirty, p)
		}
		if err := w.sink.Write(ctx, w.stages.Grant, x.txns); err != nil {
			return fmt.Errorf("table %d: writing %d transactions of %d–%d: %w",
				p.of.TableID, len(x.txns), x.txns[0].CommitTS, x.txns[len(x.txns)-1].CommitTS, err)
		}
		w.note(func(s *Progress) { s.took(&x.item) })
	}
	if err := w.move(p, x.due); err != nil || !x.end {
		return err
	}
	if p.dirty {
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	p.rows.Close()
	told := Told{Span: p.of, What: Ended, Traffic: p.due.bytes}
	told.Checkpoint, told.Resolved, _ = p.at()
	w.cfg.Tell(told)
	w.mu.Lock()
	w.ended = append(w.ended, p)
	w.mu.Unlock()
	w.rouse()
	return nil
}

// move moves a place, once what the sink has of it is flushed.
func (w *settler) move(p *place, d due) error {
	p.due.add(d)
	if p.dirty {
		return nil
	}
	return w.tell(p)
}

// settle makes what the sink has taken durable, and tells how far that brings the
// places.
func (w *settler) settle(ctx context.Context) error {
	if len(w.dirty) == 0 {
		return nil
	}
	if err := w.sink.Flush(ctx); err != nil {
		return fmt.Errorf("flushing what was written of %d tables, of table %d above %d: %w",
			len(w.dirty), w.dirty[0].of.TableID, w.dirty[0].checkpoint.Load(), err)
	}
	for i, p := range w.dirty {
		p.dirty, w.dirty[i] = false, nil
		if from := tso.TS(p.checkpoint.Load()); p.due.upto > from {
			w.stages.Recorder.Record(tso.Move{Stage: tso.StageCheckpoint, TableID: p.of.TableID, From: from, To: p.due.upto, Cause: causeWritten})
		}
		if err := w.tell(p); err != nil {
			return err
		}
	}
	w.dirty = w.dirty[:0]
	return nil
}

// tell says how far a place is of which everything is flushed.
func (w *settler) tell(p *place) error {
	d := p.due
	checkpoint, resolved, _ := p.at()
	if d.upto != 0 && d.upto < checkpoint {
		return cdcerr.Bug("the checkpoint of %v would go from %d to %d", p.of, checkpoint, d.upto)
	}
	if d.forget != 0 {
		p.rows.Forget(d.forget)
	}
	if d.upto <= checkpoint && d.resolved <= resolved {
		p.due = due{bytes: d.bytes}
		return nil
	}
	p.due = due{}
	checkpoint, resolved = max(checkpoint, d.upto), max(resolved, d.resolved)
	p.checkpoint.Store(uint64(checkpoint))
	p.bound.Store(uint64(resolved))
	w.cfg.Tell(Told{Span: p.of, What: Moved, Checkpoint: checkpoint, Resolved: resolved, Traffic: d.bytes})
	return nil
}
