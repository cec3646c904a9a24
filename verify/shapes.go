package verify

import (
	"slices"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// shapes knows the columns of every table as the DDLs told so far have made it,
// and the snapshots that have other columns than the rows that they judge.
//
// A snapshot of a very short run was read with a later schema, in which a column
// is there already or not there any more. Only a later DDL can answer for that:
// what none has answered for by the end is a column that the rows' schema lacks,
// or has too much.
type shapes struct {
	now   map[int64]*event.Table   // by table id
	apart map[int64][]*apartSchema // by table id
	born  map[int64]tso.TS         // by physical id: the switch of the DDL that first made it; 0 where it stood at the start
	later int                      // snapshots that a later schema answered for
}

// apartSchema is a snapshot with other columns than the row's table.
type apartSchema struct {
	row     *event.Row
	columns []string
	times   int
}

func newShapes(tables []*event.Table) shapes {
	s := shapes{now: map[int64]*event.Table{}, apart: map[int64][]*apartSchema{}, born: map[int64]tso.TS{}}
	for _, t := range tables {
		s.now[t.ID] = t
		for _, id := range t.PhysicalIDs() {
			s.born[id] = 0
		}
	}
	return s
}

// ddl gives tables their new shapes, and answers for the snapshots that have them.
func (s *shapes) ddl(d *event.DDL) {
	for _, c := range d.Tables {
		if c.Before != nil {
			delete(s.now, c.Before.ID)
		}
	}
	for _, c := range d.Tables {
		if c.After == nil {
			continue
		}
		s.now[c.After.ID] = c.After
		for _, id := range c.After.PhysicalIDs() {
			if _, ok := s.born[id]; !ok {
				s.born[id] = d.SwitchTS
			}
		}
		names := columnNames(c.After)
		s.apart[c.After.ID] = slices.DeleteFunc(s.apart[c.After.ID], func(a *apartSchema) bool {
			answered := len(columnsApart(a.columns, names)) == 0
			if answered {
				s.later += a.times
			}
			return answered
		})
	}
}

// unborn tells whether a DDL made the physical id only at that ts or later: what
// was written under it before is a backfill, of which no schema knew.
func (s *shapes) unborn(at place) bool {
	born, ok := s.born[at.id]
	return ok && at.ts <= born
}

// snapshot compares the columns of a row's table with those of its snapshot.
func (s *shapes) snapshot(row *event.Row, columns []string) {
	if len(columnsApart(columns, columnNames(row.Table))) == 0 {
		return
	}
	id := row.Table.ID
	for _, a := range s.apart[id] {
		if a.row.Table == row.Table && slices.Equal(a.columns, columns) {
			a.times++
			return
		}
	}
	s.apart[id] = append(s.apart[id], &apartSchema{row: row, columns: columns, times: 1})
}

// open are the snapshots that no later schema answered for.
func (s *shapes) open() []*apartSchema {
	var out []*apartSchema
	for _, id := range sortedKeys(s.apart) {
		out = append(out, s.apart[id]...)
	}
	return out
}

// columnsApart says which columns only one side has. The hidden row id is not
// looked at: not every snapshot shows it.
func columnsApart(want, got []string) []Difference {
	if slices.Equal(want, got) {
		return nil
	}
	var out []Difference
	for _, c := range want {
		if c != RowIDColumn && !slices.Contains(got, c) {
			out = append(out, Difference{Column: c, Want: "a column", Got: "none"})
		}
	}
	for _, c := range got {
		if c != RowIDColumn && !slices.Contains(want, c) {
			out = append(out, Difference{Column: c, Want: "no such column", Got: "a column"})
		}
	}
	return out
}
