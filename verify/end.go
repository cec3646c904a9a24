package verify

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// end compares contents with what TiDB had, at the end or at a moment before.
type end struct {
	model   *Model
	verdict *Verdict
	at      tso.TS // the moment of a snapshot; 0: the end
	owner   map[int64]*event.Table
	missing []missing
}

// missing is a wanted row that no certain row of its table is.
type missing struct {
	of      *event.Table
	in      *table
	want    []Cell
	printer *printer
	done    bool
}

func newEnd(m *Model, v *Verdict, at tso.TS) *end {
	e := &end{model: m, verdict: v, at: at, owner: map[int64]*event.Table{}}
	for _, t := range m.tables {
		for _, id := range t.PhysicalIDs() {
			e.owner[id] = t
		}
	}
	return e
}

// End compares the model with what TiDB had at the end.
func (m *Model) End(want *Expected, limits Limits) *Verdict {
	v := &Verdict{limits: limits}
	e := newEnd(m, v, 0)
	e.catalogue(want)
	for _, w := range want.Tables {
		if t := m.named(w.DB, w.Name); t != nil && t.Kind == event.BaseTable {
			differences, listed := v.Differences, v.Listed
			e.shape(t, w)
			e.table(t, &w.RowSet)
			v.tally(t.FullName(), len(w.Rows), differences, listed)
		}
	}
	e.displaced(true)
	e.lost()
	v.noteReasons("", v.ByReason)
	return v
}

// Snapshot compares one table with what TiDB had at a moment.
func (m *Model) Snapshot(want *ExpectedSnapshot, v *Verdict) {
	e := newEnd(m, v, want.TS)
	t := m.named(want.DB, want.Table)
	if t == nil {
		e.differ(want.DB+"."+want.Table, "", "", "a table", "none")
		return
	}
	if want.TableID != 0 && want.TableID != t.ID {
		e.differ(t.FullName(), "", "", "table id "+strconv.FormatInt(want.TableID, 10), strconv.FormatInt(t.ID, 10))
	}
	e.table(t, &want.RowSet)
	e.displaced(false)
	e.lost()
}

func (m *Model) named(db, name string) *event.Table {
	for _, t := range m.tables {
		if t.Schema == db && t.Name == name {
			return t
		}
	}
	return nil
}

func (e *end) differ(table, key, column, want, got string) {
	e.verdict.differ(Difference{TS: e.at, Table: table, Key: key, Column: column, Want: want, Got: got})
}

func (e *end) list(table, key, column string, want string, why Reason) {
	e.verdict.list(Listing{TS: e.at, Table: table, Key: key, Column: column, Want: want, Reason: why})
}

// kinds are TABLE_TYPE's words and what may stand behind them.
var kinds = map[string][]event.Kind{
	"BASE TABLE": {event.BaseTable, event.TemporaryTable},
	"VIEW":       {event.View},
	"SEQUENCE":   {event.Sequence},
}

// catalogue compares names, kinds and ids.
func (e *end) catalogue(want *Expected) {
	wanted := map[int64]bool{}
	for _, w := range want.Tables {
		full := w.DB + "." + w.Name
		t := e.model.named(w.DB, w.Name)
		if t == nil {
			e.differ(full, "", "", "a "+w.Type, "none")
			continue
		}
		wanted[t.ID] = true
		if known, ok := kinds[w.Type]; ok && !slices.Contains(known, t.Kind) {
			e.differ(full, "", "", "a "+w.Type, "kind "+strconv.Itoa(int(t.Kind)))
		}
		if t.ID != w.ID {
			e.differ(full, "", "", "table id "+strconv.FormatInt(w.ID, 10), strconv.FormatInt(t.ID, 10))
		}
		if got := partitionText(t); got != wantedPartitions(w) {
			e.differ(full, "", "", "partitions "+wantedPartitions(w), got)
		}
	}
	for _, t := range e.model.sorted() {
		if !wanted[t.ID] {
			e.differ(t.FullName(), "", "", "no such table", "table id "+strconv.FormatInt(t.ID, 10))
		}
	}
	for _, db := range sortedKeys(e.model.databases) {
		if !slices.Contains(want.Databases, db) {
			e.differ(db, "", "", "no such database", "a database")
		}
	}
	for _, db := range want.Databases {
		if !e.model.databases[db] {
			e.differ(db, "", "", "a database", "none")
		}
	}
}

func partitionText(t *event.Table) string {
	ids := map[string]int64{}
	for _, p := range t.Partitions {
		ids[p.Name] = p.ID
	}
	return partitionMap(ids)
}

func wantedPartitions(w *ExpectedTable) string { return partitionMap(w.Partitions) }

func partitionMap(ids map[string]int64) string {
	var b strings.Builder
	for _, name := range sortedKeys(ids) {
		b.WriteString(name + "=" + strconv.FormatInt(ids[name], 10) + " ")
	}
	return strings.TrimSpace(b.String())
}

// shape compares column names; a table without rows shows none.
func (e *end) shape(t *event.Table, w *ExpectedTable) {
	if len(w.Rows) == 0 {
		return
	}
	_, onlyWanted, onlyTable := compareColumns(t, w.Columns)
	for _, c := range onlyWanted {
		e.differ(t.FullName(), "", c, "a column", "none")
	}
	for _, c := range onlyTable {
		e.differ(t.FullName(), "", c, "no such column", "a column")
	}
}

// table compares the rows that are certainly in t.
func (e *end) table(t *event.Table, want *RowSet) {
	columns := want.Columns
	if len(want.Rows) == 0 {
		columns = columnNames(t)
	}
	cols, _, _ := compareColumns(t, columns)
	in := &table{name: t.FullName()}
	in.columns, in.want = cols.cut(&RowSet{Columns: columns, Rows: want.Rows})
	in.key = keyColumns(t, in.columns)
	printer := newPrinter(t, cols)
	printer.text = e.at != 0
	for _, s := range e.certain(t) {
		in.got = append(in.got, printer.print(s))
	}
	p := in.pair()
	for _, pair := range p.pairs {
		e.row(in, in.want[pair[0]], in.got[pair[1]])
	}
	for _, g := range p.leftGot {
		cells := in.got[g].plain()
		e.differ(in.name, in.keyText(cells), WholeRow, "no such row", describe(in.columns, cells))
	}
	for _, w := range p.leftWant {
		e.missing = append(e.missing, missing{of: t, in: in, want: in.want[w], printer: printer})
	}
}

// row compares a wanted row with the found one.
func (e *end) row(in *table, want []Cell, got *gotRow) {
	for i, c := range got.cells {
		switch {
		case c.why == Carried && c.Cell != want[i]:
			e.differ(in.name, in.keyText(want), in.columns[i], want[i].String(), c.String())
		case c.why == Converted && c.was && c.Kind == NullCell:
			// NULL stays NULL through every conversion.
			if want[i].Kind != NullCell {
				e.differ(in.name, in.keyText(want), in.columns[i], want[i].String(), c.String())
			}
		case c.why != Carried:
			e.list(in.name, in.keyText(want), in.columns[i], want[i].String(), c.why)
		case got.recovered:
			e.list(in.name, in.keyText(want), in.columns[i], want[i].String(), Recovered)
		}
	}
}

// certain are the rows that can only be in t, in the order of id and handle.
func (e *end) certain(t *event.Table) []*stored {
	var out []*stored
	for _, id := range t.PhysicalIDs() {
		rows := e.model.rows[id]
		for _, handle := range sortedKeys(rows) {
			out = append(out, rows[handle])
		}
	}
	for _, p := range e.model.pools {
		if places, gone := e.places(p); len(places) != 1 || places[0] != t || gone {
			continue
		}
		for _, handle := range sortedKeys(p.rows) {
			out = append(out, p.rows[handle]...)
		}
	}
	return out
}

// places are the tables that a pool's rows may be in; gone: or none.
func (e *end) places(p *pool) (tables []*event.Table, gone bool) {
	for _, id := range p.ids {
		switch t := e.owner[id]; {
		case t == nil:
			gone = true
		case !slices.Contains(tables, t):
			tables = append(tables, t)
		}
	}
	return tables, gone
}

// displaced matches the rows whose partition no event tells, and whose possible
// partitions are not all in one table any more, with the rows that are missing.
func (e *end) displaced(whole bool) {
	for _, p := range e.model.pools {
		places, gone := e.places(p)
		if len(places) == 0 || len(places) == 1 && !gone {
			continue
		}
		for _, handle := range sortedKeys(p.rows) {
			for _, s := range p.rows[handle] {
				if e.place(s, places) || !whole {
					continue
				}
				name, key := s.row.Table.FullName(), describeKey(s.row, s.row.After)
				if gone {
					e.list(name, key, WholeRow, "no such row", Moved)
				} else {
					e.differ(name, key, WholeRow, "the row, in one of two tables", "in neither")
				}
			}
		}
	}
}

// place finds the missing row that s is.
func (e *end) place(s *stored, places []*event.Table) bool {
	for i := range e.missing {
		m := &e.missing[i]
		if m.done || !slices.Contains(places, m.of) {
			continue
		}
		got := m.printer.print(s)
		if !got.meets(m.want) {
			continue
		}
		m.done = true
		for j, c := range got.cells {
			why := Moved
			if c.why != Carried {
				why = c.why
			}
			e.list(m.in.name, m.in.keyText(m.want), m.in.columns[j], m.want[j].String(), why)
		}
		return true
	}
	return false
}

// lost: what is still missing is a difference, unless it came back with a table
// of which the model has not seen every row.
func (e *end) lost() {
	for _, m := range e.missing {
		if m.done {
			continue
		}
		key := m.in.keyText(m.want)
		if !e.cameBackUnseen(m.of) {
			e.differ(m.in.name, key, WholeRow, describe(m.in.columns, m.want), "no such row")
			continue
		}
		for j, c := range m.want {
			e.list(m.in.name, key, m.in.columns[j], c.String(), Recovered)
		}
	}
}

func (e *end) cameBackUnseen(t *event.Table) bool {
	return slices.ContainsFunc(t.PhysicalIDs(), func(id int64) bool {
		return e.model.recovered[id] && !e.model.known[id]
	})
}

func columnNames(t *event.Table) []string {
	var names []string
	if t.Handle.Kind == event.RowIDHandle {
		names = append(names, RowIDColumn)
	}
	for i := range t.Columns {
		names = append(names, t.Columns[i].Name)
	}
	return names
}

func (m *Model) sorted() []*event.Table {
	var out []*event.Table
	for _, id := range sortedKeys(m.tables) {
		out = append(out, m.tables[id])
	}
	return out
}
