package playground

import (
	"context"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/oracle"
	"github.com/sluice-cdc/sluice/verify"
)

// tee tells the judge of everything that the sink behind it took.
type tee struct {
	sink.Sink
	judge  *verify.Judge
	oracle *oracle.Oracle // nil: nobody knows what was meant
	pulse  *pulse         // nil: nobody wonders
}

// Write delivers, then tells.
func (t *tee) Write(ctx context.Context, g sink.Leave, txns []event.Txn) error {
	written := func() {}
	if t.pulse != nil {
		written = t.pulse.writing(txns)
	}
	err := t.Sink.Write(ctx, g, txns)
	written()
	if err != nil {
		return err
	}
	for i := range txns {
		t.judge.Txn(&txns[i])
		if t.oracle != nil {
			t.oracle.Txn(&txns[i])
		}
	}
	return nil
}

// DDL carries out, then tells.
func (t *tee) DDL(ctx context.Context, g sink.Leave, d *event.DDL) error {
	if err := t.Sink.DDL(ctx, g, d); err != nil {
		return err
	}
	t.judge.DDL(d)
	if t.oracle != nil {
		t.oracle.DDL(d.JobID)
	}
	return nil
}

// Checkpoint passes on, then tells.
func (t *tee) Checkpoint(ctx context.Context, ts tso.TS) error {
	if err := t.Sink.Checkpoint(ctx, ts); err != nil {
		return err
	}
	t.judge.Checkpoint(ts)
	if t.oracle != nil {
		t.oracle.Checkpoint(ts)
	}
	return nil
}
