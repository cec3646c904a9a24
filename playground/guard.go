package playground

import (
	"context"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/sink"
)

// guard lets no DDL reach a database downstream that the run has not claimed.
// What a run will touch is not known when it begins: a recording's list of jobs
// may be missing, and a running cluster makes databases at any time. A database
// of that name which holds somebody's data would be written, or dropped.
type guard struct {
	sink.Sink
	target *database
}

// DDL claims what is new to the run, then passes on.
func (g guard) DDL(ctx context.Context, grant sink.Leave, d *event.DDL) error {
	if err := g.target.admit(ctx, databasesIn(d)); err != nil {
		return err
	}
	if err := g.target.record(ctx, tablesAfter(d)); err != nil {
		return err
	}
	return g.Sink.DDL(ctx, grant, d)
}

// tablesAfter are the names that a DDL gives to tables.
func tablesAfter(d *event.DDL) []tableName {
	var out []tableName
	for _, c := range d.Tables {
		if c.After != nil {
			out = append(out, tableName{c.After.Schema, c.After.Name})
		}
	}
	return out
}

// admit claims databases in the middle of a run.
func (d *database) admit(ctx context.Context, databases []string) error {
	databases = slices.DeleteFunc(databases, func(name string) bool { return slices.Contains(d.ours, name) })
	if len(databases) == 0 {
		return nil
	}
	for _, name := range databases {
		if filter.IsSystem(name) {
			return cdcerr.InvalidArgument.New("downstream %s: a DDL reaches into %s, which belongs to the server", d.cfg, name)
		}
	}
	if err := d.clear(ctx, databases, nil); err != nil {
		return err
	}
	d.ours = append(slices.Clone(d.ours), databases...)
	return nil
}

// databasesIn are all that a DDL reads or changes, by name.
func databasesIn(d *event.DDL) []string {
	var out []string
	add := func(name string) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, db := range []*event.Database{d.DatabaseBefore, d.DatabaseAfter} {
		if db != nil {
			add(db.Name)
		}
	}
	for _, c := range d.Tables {
		for _, t := range []*event.Table{c.Before, c.After} {
			if t != nil {
				add(t.Schema)
			}
		}
	}
	return out
}
