package verify

import (
	"slices"
	"strconv"

	"github.com/sluice-cdc/sluice/event"
)

// Contents is what was read from a database.
type Contents struct {
	Databases []string
	Tables    []*ContentsTable
	// Shows is what the database can show of a wanted cell, and the rule by which
	// that is another one; the rule is empty where the cell stays as it is. Nil:
	// every cell stays.
	Shows func(c *event.Column, want Cell) (shown Cell, rule string)
	// Lacks are the kinds of which the database holds none, and the rules by which.
	Lacks map[event.Kind]string
}

// ContentsTable is one table as read; views and sequences have a name only. The
// hidden row id is never among its columns.
type ContentsTable struct {
	DB, Name string
	Type     string // as in ExpectedTable
	RowSet
}

// EndOf compares the contents of a database with what TiDB had at the end; the
// model's catalogue says what the columns are.
func (m *Model) EndOf(want *Expected, got *Contents, limits Limits) *Verdict {
	v := &Verdict{limits: limits}
	e := newEnd(m, v, 0)
	rules := map[string]int{}
	for _, db := range want.Databases {
		if !slices.Contains(got.Databases, db) {
			e.differ(db, "", "", "a database", "none")
		}
	}
	for _, db := range got.Databases {
		if !slices.Contains(want.Databases, db) {
			e.differ(db, "", "", "no such database", "a database")
		}
	}
	for _, w := range want.Tables {
		t := m.named(w.DB, w.Name)
		differences := v.Differences
		if have := e.held(t, w, got); have != nil {
			e.read(t, w, have, got.Shows, rules)
		}
		if w.Type == "BASE TABLE" {
			v.tally(w.DB+"."+w.Name, len(w.Rows), differences, 0)
		}
	}
	for _, have := range got.Tables {
		if !slices.ContainsFunc(want.Tables, func(w *ExpectedTable) bool { return w.DB == have.DB && w.Name == have.Name }) {
			e.differ(have.DB+"."+have.Name, "", "", "no such table", "a table")
		}
	}
	for _, rule := range sortedKeys(rules) {
		v.note("%d cells compared by what the database can show of them: %s", rules[rule], rule)
	}
	return v
}

// held finds a wanted table in the database, and whether it is of the right kind;
// nil where there are no rows to compare.
func (e *end) held(t *event.Table, w *ExpectedTable, got *Contents) *ContentsTable {
	full, have := w.DB+"."+w.Name, got.named(w.DB, w.Name)
	switch {
	case t == nil:
		e.differ(full, "", "", "a "+w.Type, "none by any event")
	case !slices.Contains(kinds[w.Type], t.Kind):
		e.differ(full, "", "", "a "+w.Type, "kind "+strconv.Itoa(int(t.Kind))+" by the events")
	case got.Lacks[t.Kind] != "" && have == nil:
		e.verdict.note("%s is not in the database: %s", full, got.Lacks[t.Kind])
	case have == nil:
		e.differ(full, "", "", "a "+w.Type, "none")
	case have.Type != w.Type:
		e.differ(full, "", "", "a "+w.Type, "a "+have.Type)
	case t.Kind == event.BaseTable:
		return have
	}
	return nil
}

func (c *Contents) named(db, name string) *ContentsTable {
	for _, t := range c.Tables {
		if t.DB == db && t.Name == name {
			return t
		}
	}
	return nil
}

// read compares one table with its rows in the database.
func (e *end) read(t *event.Table, w *ExpectedTable, have *ContentsTable, shows func(*event.Column, Cell) (Cell, string), rules map[string]int) {
	columns := w.Columns
	if len(w.Rows) == 0 {
		columns = columnNames(t)
	}
	var names []string
	var wantAt, haveAt []int
	var shapes []*event.Column
	for i, name := range columns {
		if name == RowIDColumn {
			continue
		}
		at := slices.Index(have.Columns, name)
		if at < 0 {
			e.differ(t.FullName(), "", name, "a column", "none")
			continue
		}
		names, wantAt, haveAt = append(names, name), append(wantAt, i), append(haveAt, at)
		shapes = append(shapes, columnNamed(t, name))
	}
	for _, name := range have.Columns {
		if !slices.Contains(columns, name) {
			e.differ(t.FullName(), "", name, "no such column", "a column")
		}
	}
	in := &table{name: t.FullName(), columns: names, key: keyColumns(t, names)}
	for _, row := range w.Rows {
		cells := pick(row, wantAt)
		for i, c := range shapes {
			if c == nil || shows == nil {
				continue
			}
			var rule string
			if cells[i], rule = shows(c, cells[i]); rule != "" {
				rules[rule]++
			}
		}
		in.want = append(in.want, cells)
	}
	for _, row := range have.Rows {
		g := &gotRow{cells: make([]gotCell, len(haveAt)), rowID: -1}
		for i, at := range haveAt {
			g.cells[i].Cell = row[at]
		}
		in.got = append(in.got, g)
	}
	p := in.pair()
	for _, pair := range p.pairs {
		e.row(in, in.want[pair[0]], in.got[pair[1]])
	}
	for _, i := range p.leftWant {
		e.differ(in.name, in.keyText(in.want[i]), WholeRow, describe(names, in.want[i]), "no such row")
	}
	for _, i := range p.leftGot {
		cells := in.got[i].plain()
		e.differ(in.name, in.keyText(cells), WholeRow, "no such row", describe(names, cells))
	}
}

func columnNamed(t *event.Table, name string) *event.Column {
	if at := t.Column(name); at >= 0 {
		return &t.Columns[at]
	}
	return nil
}

func pick(row []Cell, at []int) []Cell {
	out := make([]Cell, len(at))
	for i, a := range at {
		out[i] = row[a]
	}
	return out
}
