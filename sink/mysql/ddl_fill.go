package mysql

import (
	"context"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// fillRows is how many rows are read before they are written, or fewer if they
// are large: a page, so that a table of any size passes.
const fillRows = 2048

// fill copies a table as of the moment at which a DDL made it what it is.
func (s *Sink) fill(ctx context.Context, leave sink.Leave, d *event.DDL, t *event.Table) error {
	size := int64(0)
	page := event.Txn{StartTS: d.StartTS, CommitTS: d.SwitchTS}
	flush := func() error {
		if len(page.Rows) == 0 {
			return nil
		}
		if err := leave.Check(); err != nil {
			return err
		}
		err := s.put(ctx, leave, []event.Txn{page})
		page.Rows, size = nil, 0 // what was handed on is not changed again
		return err
	}
	err := s.snapshot.Rows(ctx, t, d.SwitchTS, func(r *event.Row) error {
		page.Rows = append(page.Rows, r)
		if r.Raw != nil {
			size += r.Raw.Size()
		}
		if len(page.Rows) < fillRows && size < s.cfg.MaxTxnBytes {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if ended := s.Flush(ctx); err == nil {
		err = ended
	}
	if err == nil {
		s.log.Info("table filled from upstream", "job", d.JobID, "table", t.FullName(), "ts", uint64(d.SwitchTS))
		return nil
	}
	if cdcerr.Of(err) == nil {
		return cdcerr.SnapshotRead.Wrap(err, "filling %s at %d", t.FullName(), d.SwitchTS)
	}
	return err
}
