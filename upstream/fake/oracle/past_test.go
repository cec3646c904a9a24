package oracle_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/oracle"
)

// moment is one between two steps of a job, and the data as it was then.
type moment struct {
	at    tso.TS
	store mvcc.Snapshot
}

// noting notes the moments at which writers write.
func (r *rig) noting(ctx context.Context, step *catalog.Step) error {
	err := r.between(ctx, step)
	r.moments = append(r.moments, moment{r.server.Cluster().TS(), r.server.Cluster().Snapshot()})
	return err
}

// seen is what every table looked like to a changefeed: what its DDLs have made, up to a moment.
func seen(ddls []*event.DDL, at tso.TS) string {
	tables, databases := map[int64]*event.Table{}, map[string]bool{"test": true}
	for _, d := range ddls {
		if d.SwitchTS > at {
			continue
		}
		if d.DatabaseBefore != nil {
			delete(databases, d.DatabaseBefore.Name)
		}
		if d.DatabaseAfter != nil {
			databases[d.DatabaseAfter.Name] = true
		}
		for _, c := range d.Tables {
			if c.Before != nil {
				delete(tables, c.Before.ID)
			}
		}
		for _, c := range d.Tables {
			if c.After != nil {
				tables[c.After.ID] = c.After
			}
		}
	}
	var lines []string
	for name := range databases {
		lines = append(lines, name)
	}
	for _, t := range tables {
		lines = append(lines, shapeOf(t))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// shapeOf is what a writer sees of a table.
func shapeOf(t *event.Table) string {
	text := fmt.Sprintf("%d %s kind %d", t.ID, t.FullName(), t.Kind)
	for i := range t.Columns {
		c := &t.Columns[i]
		text += fmt.Sprintf(", %d %s %d(%d)", c.ID, c.Name, c.Type, c.Flen)
	}
	for _, p := range t.Partitions {
		text += fmt.Sprintf(", partition %d %s %v", p.ID, p.Name, p.LessThan)
	}
	for i := range t.Indexes {
		text += fmt.Sprintf(", index %d %s unique %v", t.Indexes[i].ID, t.Indexes[i].Name, t.Indexes[i].Unique)
	}
	return text
}

// promised is the same by the data alone.
func (r *rig) promised(store mvcc.Snapshot, at tso.TS) (string, error) {
	p, err := oracle.NewPast(store)
	if err != nil {
		return "", err
	}
	ours := func(db string) bool { return db != "mysql" && db != "sys" }
	databases, tables, err := p.Schema(at, r.tables)
	lines := slices.DeleteFunc(databases, func(db string) bool { return !ours(db) })
	for _, t := range tables {
		if ours(t.Schema) {
			lines = append(lines, shapeOf(t))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), err
}

// past judges, after the changefeed has ended, what the data says of the moments that
// were noted: the same as the DDLs that were delivered. At the time it said the same, or
// that nobody can be there.
func (r *rig) past() {
	r.t.Helper()
	whole, early, undecided := r.server.Cluster().Snapshot(), 0, 0
	for _, m := range r.moments {
		want := seen(r.into.ddls, m.at)
		got, err := r.promised(whole, m.at)
		if err != nil || got != want {
			r.t.Fatalf("at %d the data says (%v)\n%s\nand the DDLs\n%s", m.at, err, got, want)
		}
		switch then, err := r.promised(m.store, m.at); {
		case err != nil && strings.Contains(err.Error(), "its end is not known"):
			undecided++
			if !slices.ContainsFunc(r.into.ddls, func(d *event.DDL) bool { return d.SwitchTS <= m.at && m.at < d.FinishedTS }) {
				r.t.Errorf("at %d, when no DDL was between its switch and its end: %v", m.at, err)
			}
		case err != nil || then != want:
			r.t.Errorf("at %d the data of then says (%v)\n%s\nand the DDLs\n%s", m.at, err, then, want)
		default:
			early++
		}
	}
	r.t.Logf("%d moments of which the data said at once what counts, %d of which it could not yet", early, undecided)
}
