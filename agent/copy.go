package agent

import (
	"context"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// CopyStart gives an empty downstream what stood upstream when the changefeed began,
// as DDLs that nobody ran upstream: a recovered table is one that appears whole.
// Databases and tables are those of just before the start, since DDLs from the start
// on follow; rows are those of the start itself, since only later ones follow.
func (f *Changefeed) CopyStart(ctx context.Context, to sink.Sink) error {
	before := f.StartTS.Prev()
	for _, db := range f.Databases {
		err := to.DDL(ctx, sink.Endless, &event.DDL{
			Action: event.ActionCreateSchema, SwitchTS: before, FinishedTS: before, DatabaseAfter: db,
		})
		if err != nil {
			return err
		}
	}
	for _, t := range f.Tables {
		d := &event.DDL{SwitchTS: f.StartTS, FinishedTS: f.StartTS, Schema: t.Schema, Tables: []event.TableChange{{After: t}}}
		switch t.Kind {
		case event.BaseTable:
			d.Action = event.ActionRecoverTable
		case event.View:
			d.Action = event.ActionCreateView
		default:
			continue // what is in a sequence or a temporary table is in no event either
		}
		if err := to.DDL(ctx, sink.Endless, d); err != nil {
			return err
		}
	}
	return nil
}
