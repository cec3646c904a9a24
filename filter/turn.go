package filter

import (
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Turn is a DDL's place among the rows and among other DDLs. It is a pure function of
// the DDL and the schema before it, so that all who follow the same schema find the
// same. Its ids, those of Added and Removed too, are event.Table.SpanIDs: a DDL that
// makes a table a unit removes its partitions and adds the table, and one that only
// changes the partitions of a unit adds and removes nothing.
type Turn struct {
	Decision
	// Err ends the changefeed when the DDL's turn comes: every row before it is
	// downstream then.
	Err error
	// Tables are the ids whose rows it parts, in order: those above its switch-ts wait
	// for it. One of Removed is one of these too.
	Tables []int64
	// AddedAt is where the rows of Added begin: a table that is recovered brings
	// rows of before, which the DDL copies.
	AddedAt tso.TS
	// Names are what it changes, in lower case; one without a table stands for a schema
	// and all that is in it. DDLs that share one are in order.
	Names []Name
}

// Counts tells whether anything waits for the DDL, or begins or ends with it. Where
// not, it is as if it had never been.
func (t *Turn) Counts() bool {
	return t.Err != nil || t.Send != nil || len(t.Added) > 0 || len(t.Removed) > 0
}

// Turn finds a DDL's place. Tables are all tables just before its switch-ts; it is
// asked only where a DDL concerns them all.
func (s Scope) Turn(d *event.DDL, tables func() []*event.Table) Turn {
	t := Turn{AddedAt: d.SwitchTS}
	if d.Action == event.ActionRecoverTable || d.Action == event.ActionRecoverSchema {
		t.AddedAt = d.FinishedTS
	}
	t.Decision, t.Err = s.decide(d, (*event.Table).SpanIDs)
	if !t.Counts() {
		return t
	}
	of := func(table *event.Table) {
		if table != nil && s.Table(table) == Wanted {
			t.Tables = append(t.Tables, table.SpanIDs()...)
		}
	}
	for _, c := range d.Tables {
		of(c.Before)
		for _, x := range []*event.Table{c.Before, c.After} {
			if x != nil {
				t.Names = append(t.Names, Name{strings.ToLower(x.Schema), strings.ToLower(x.Name)})
			}
		}
	}
	if db := databaseOf(d); db != nil {
		t.Names = append(t.Names, Name{Schema: strings.ToLower(db.Name)})
	}
	if refers(d) {
		t.Names = append(t.Names, Name{})
	}
	if ofAll(d) {
		for _, x := range tables() {
			of(x)
		}
	}
	slices.Sort(t.Tables)
	t.Tables = less(slices.Compact(t.Tables), slices.Clone(t.Added))
	slices.SortFunc(t.Names, func(a, b Name) int {
		return strings.Compare(a.Schema+"\x00"+a.Table, b.Schema+"\x00"+b.Table)
	})
	t.Names = slices.Compact(t.Names)
	return t
}

// refers tells whether a DDL may be about a foreign key: then what is done to the other
// table, which no event names, has to be done before or after it, as it was upstream.
func refers(d *event.DDL) bool {
	text := strings.ToUpper(d.Query)
	return d.Action == event.ActionAddForeignKey || d.Action == event.ActionDropForeignKey ||
		strings.Contains(text, "REFERENCES") || strings.Contains(text, "FOREIGN")
}

// ofAll tells whether a DDL has to wait for every table: one that undoes rows of all of
// them, and a view's, which may name any.
func ofAll(d *event.DDL) bool {
	return d.Action == event.ActionFlashbackCluster || d.Action == event.ActionCreateView
}
