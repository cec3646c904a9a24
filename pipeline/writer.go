package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// causeWritten is why a checkpoint moves.
const causeWritten = "everything up to here is downstream"

// unflushed is what the sink has been given since it was last flushed.
type unflushed struct {
	since  time.Time // of the first; zero: there is nothing
	forget tso.TS    // what the sorter may forget once it is flushed
	upto   tso.TS    // the checkpoint then
	rows   bool      // there are rows among it
	urgent bool      // a DDL was carried out: the checkpoint should say so
}

// write works off the queue, one item after the other. What the sink has taken is
// flushed when nothing more waits, and every Config.FlushEvery.
func (p *Pipeline) write(ctx context.Context, queue <-chan item) error {
	var t unflushed
	for {
		var it item
		select {
		case it = <-queue:
		default:
			if err := p.settle(ctx, &t); err != nil {
				return err
			}
			select {
			case it = <-queue:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := p.work(ctx, it, &t); err != nil {
			return err
		}
		if it.upto != 0 && it.upto == p.cfg.TargetTS {
			if err := p.settle(ctx, &t); err != nil {
				return err
			}
			return errTarget
		}
	}
}

func (p *Pipeline) work(ctx context.Context, it item, t *unflushed) error {
	if t.since.IsZero() {
		t.since = time.Now()
	}
	if len(it.txns) > 0 {
		if err := p.sink.Write(ctx, p.cfg.Grant, it.txns); err != nil {
			return fmt.Errorf("writing %d transactions of %d–%d: %w",
				len(it.txns), it.txns[0].CommitTS, it.txns[len(it.txns)-1].CommitTS, err)
		}
		t.rows = true
		p.note(func(s *Progress) { s.took(&it) })
	}
	t.forget = max(t.forget, it.forget)
	if it.ddl != nil || it.sync != nil {
		if err := p.settle(ctx, t); err != nil {
			return err
		}
		if err := p.carryOut(ctx, it); err != nil {
			return err
		}
		t.since, t.urgent = time.Now(), true
	}
	t.upto = max(t.upto, it.upto)
	if it.err != nil || !t.rows || t.urgent && it.upto != 0 || time.Since(t.since) >= p.cfg.FlushEvery {
		if err := p.settle(ctx, t); err != nil {
			return err
		}
	}
	return it.err
}

// took counts rows that the sink has taken.
func (p *Progress) took(it *item) {
	p.Rows += uint64(it.rows)
	p.Txns += whole(it.txns)
	p.Written = max(p.Written, it.txns[len(it.txns)-1].CommitTS)
}

// carryOut does what has its place between rows: all before it are downstream.
func (p *Pipeline) carryOut(ctx context.Context, it item) error {
	if it.ddl != nil {
		if err := p.sink.DDL(ctx, p.cfg.Grant, it.ddl); err != nil {
			return fmt.Errorf("DDL job %d at %d: %w", it.ddl.JobID, it.ddl.SwitchTS, err)
		}
		p.note(func(s *Progress) { s.DDLs++ })
	}
	if it.sync != nil {
		if err := p.sink.SyncPoint(ctx, p.cfg.Grant, *it.sync); err != nil {
			return fmt.Errorf("sync point at %d: %w", it.sync.TS, err)
		}
		p.note(func(s *Progress) { s.SyncPoint = it.sync.TS })
	}
	return nil
}

// settle makes what the sink has taken durable, and moves the checkpoint to it.
func (p *Pipeline) settle(ctx context.Context, t *unflushed) error {
	done := *t
	*t = unflushed{}
	if done.since.IsZero() {
		return nil
	}
	if err := p.sink.Flush(ctx); err != nil {
		return fmt.Errorf("writing what lies above %d: %w", p.Checkpoint(), err)
	}
	if done.forget != 0 {
		p.rows.Forget(done.forget)
	}
	if done.upto != 0 {
		return p.moveCheckpoint(ctx, done.upto)
	}
	return nil
}

// whole is how many transactions are complete with these.
func whole(txns []event.Txn) (n uint64) {
	for i := range txns {
		if !txns[i].More {
			n++
		}
	}
	return n
}

// moveCheckpoint is called when everything at or below to is downstream.
func (p *Pipeline) moveCheckpoint(ctx context.Context, to tso.TS) error {
	from := p.Checkpoint()
	if to <= from {
		return cdcerr.Bug("the checkpoint would go from %d to %d", from, to)
	}
	if err := p.sink.Checkpoint(ctx, to); err != nil {
		return fmt.Errorf("checkpoint %d: %w", to, err)
	}
	p.cfg.Recorder.Record(tso.Move{Stage: tso.StageCheckpoint, From: from, To: to, Cause: causeWritten})
	p.note(func(s *Progress) { s.Checkpoint = to })
	p.schema.Forget(to)
	return nil
}

func (p *Pipeline) note(change func(*Progress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.progress)
}
