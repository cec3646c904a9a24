package pipeline

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// ingest leads each wanted physical table's changes into the sorter. Only the
// reader calls it.
type ingest struct {
	up         Upstream
	rows       sorter.Sorter
	filterLoop bool
	recorder   *Recorder
	group      *errgroup.Group
	open       map[int64]*subscription
}

type subscription struct {
	input sorter.Input
	stop  context.CancelFunc
}

// follow begins a physical table: rows with commit-ts > from.
func (in *ingest) follow(ctx context.Context, id int64, from tso.TS) error {
	if in.open[id] != nil {
		return nil // a DDL at the start-ts brings what the start found already
	}
	s := span.OfTable(id)
	input, err := in.rows.Open(s, from)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	in.open[id] = &subscription{input, stop}
	in.group.Go(func() error {
		defer stop()
		sub := upstream.Subscription{Span: s, StartTS: from, FilterLoop: in.filterLoop}
		err := in.up.Subscribe(ctx, sub, func(b upstream.Batch) error {
			in.recorder.Record(b.Moves...)
			return input.Add(ctx, b.Rows, b.Resolved)
		})
		switch {
		case ctx.Err() != nil:
			return nil // told to stop, or another stage has failed and says why
		case err == nil:
			return cdcerr.Bug("the subscription of %v ended without being told to", s)
		}
		return fmt.Errorf("following table %d: %w", id, err)
	})
	return nil
}

// leave ends a physical table: rows that were not read are nobody's.
func (in *ingest) leave(id int64) {
	if s := in.open[id]; s != nil {
		delete(in.open, id)
		s.stop()
		s.input.Close()
	}
}
