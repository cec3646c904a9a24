package pipeline

import (
	"context"
	"fmt"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// causeWritten is why a checkpoint moves.
const causeWritten = "everything up to here is downstream"

// write works off the queue, one item after the other.
func (p *Pipeline) write(ctx context.Context, queue <-chan item) error {
	for {
		select {
		case it := <-queue:
			if err := p.work(ctx, it); err != nil {
				return err
			}
			if it.upto != 0 && it.upto == p.cfg.TargetTS {
				return errTarget
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Pipeline) work(ctx context.Context, it item) error {
	if len(it.txns) > 0 {
		if err := p.sink.Write(ctx, p.cfg.Grant(), it.txns); err != nil {
			return fmt.Errorf("writing %d transactions of %d–%d: %w",
				len(it.txns), it.txns[0].CommitTS, it.txns[len(it.txns)-1].CommitTS, err)
		}
		p.note(func(s *Progress) { s.Rows += uint64(it.rows); s.Txns += whole(it.txns) })
	}
	if it.forget != 0 {
		p.rows.Forget(it.forget)
	}
	if it.ddl != nil {
		if err := p.sink.DDL(ctx, p.cfg.Grant(), it.ddl); err != nil {
			return fmt.Errorf("DDL job %d at %d: %w", it.ddl.JobID, it.ddl.SwitchTS, err)
		}
		p.note(func(s *Progress) { s.DDLs++ })
	}
	if it.sync != nil {
		if err := p.sink.SyncPoint(ctx, p.cfg.Grant(), *it.sync); err != nil {
			return fmt.Errorf("sync point at %d: %w", it.sync.TS, err)
		}
		p.note(func(s *Progress) { s.SyncPoint = it.sync.TS })
	}
	if it.upto != 0 {
		if err := p.moveCheckpoint(ctx, it.upto); err != nil {
			return err
		}
	}
	return it.err
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
