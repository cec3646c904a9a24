package verify

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluice-cdc/sluice/event"
)

// gotCell is a cell on the side that is judged: carried, or unknown for a reason.
type gotCell struct {
	Cell
	why Reason
	was bool // Converted: Cell is what stood there before the conversion
}

// meets tells whether the cell can be the wanted one.
func (c gotCell) meets(want Cell) bool { return c.why != Carried || c.Cell == want }

// gotRow is a row on the side that is judged, with a cell for each compared column.
type gotRow struct {
	cells     []gotCell
	recovered bool
	rowID     int // the cell of a hidden row id that may be another by now; -1: none
}

func (g *gotRow) meets(want []Cell) bool {
	for i, c := range g.cells {
		if !c.meets(want[i]) {
			return false
		}
	}
	return true
}

// keyOf joins the cells that name the row; false where one is unknown.
func (g *gotRow) keyOf(key []int) (string, bool) {
	cells := make([]Cell, len(key))
	for i, k := range key {
		if g.cells[k].why != Carried {
			return "", false
		}
		cells[i] = g.cells[k].Cell
	}
	return join(cells), true
}

// table is one table being compared: the wanted rows cut to the columns that are
// compared, and the rows that were found.
type table struct {
	name    string
	columns []string
	key     []int // into columns; empty where no column tells rows apart
	want    [][]Cell
	got     []*gotRow
}

// pairing says which wanted row each found row is.
type pairing struct {
	pairs             [][2]int // want, got; in the order of want
	leftWant, leftGot []int
}

// pair matches rows by key. Among rows of one key (a hidden row id can stand in
// two partitions) equal ones go first. Where nothing tells rows apart, only equal
// rows are matched, and so are rows whose hidden row id may have changed.
func (t *table) pair() pairing {
	key := t.key
	if len(key) == 0 {
		key = t.certainColumns()
	}
	byKey := map[string][]int{}
	for i, w := range t.want {
		k := joinAt(w, key)
		byKey[k] = append(byKey[k], i)
	}
	wantOf := make([]int, len(t.got))
	used := make([]bool, len(t.want))
	take := func(g int, among []int, fits func(w int) bool) {
		for _, w := range among {
			if !used[w] && fits(w) {
				used[w], wantOf[g] = true, w
				return
			}
		}
	}
	all := make([]int, len(t.want))
	for i := range all {
		all[i] = i
	}
	for g := range wantOf {
		wantOf[g] = -1
		if k, ok := t.got[g].keyOf(key); ok {
			take(g, byKey[k], func(w int) bool { return t.got[g].meets(t.want[w]) })
		}
	}
	for g, got := range t.got {
		if wantOf[g] >= 0 || got.rowID < 0 {
			continue
		}
		got.cells[got.rowID].why = Moved
		if take(g, all, func(w int) bool { return got.meets(t.want[w]) }); wantOf[g] < 0 {
			got.cells[got.rowID].why = Carried
		}
	}
	for g := range wantOf {
		if wantOf[g] >= 0 {
			continue
		}
		if k, ok := t.got[g].keyOf(key); !ok {
			take(g, all, func(w int) bool { return t.got[g].meets(t.want[w]) })
		} else if len(t.key) > 0 {
			take(g, byKey[k], func(int) bool { return true })
		}
	}
	return pairsOf(wantOf, used)
}

func pairsOf(wantOf []int, used []bool) pairing {
	var p pairing
	for g, w := range wantOf {
		if w < 0 {
			p.leftGot = append(p.leftGot, g)
		} else {
			p.pairs = append(p.pairs, [2]int{w, g})
		}
	}
	for w, u := range used {
		if !u {
			p.leftWant = append(p.leftWant, w)
		}
	}
	slices.SortFunc(p.pairs, func(a, b [2]int) int { return a[0] - b[0] })
	return p
}

// certainColumns are the columns of which every found row has a certain cell.
func (t *table) certainColumns() []int {
	var out []int
	for i := range t.columns {
		if !slices.ContainsFunc(t.got, func(g *gotRow) bool { return g.cells[i].why != Carried }) {
			out = append(out, i)
		}
	}
	return out
}

func joinAt(row []Cell, at []int) string {
	cells := make([]Cell, len(at))
	for i, a := range at {
		cells[i] = row[a]
	}
	return join(cells)
}

// keyText names a wanted row for a message.
func (t *table) keyText(row []Cell) string {
	key := t.key
	if len(key) == 0 {
		return describe(t.columns, row)
	}
	names, cells := make([]string, len(key)), make([]Cell, len(key))
	for i, k := range key {
		names[i], cells[i] = t.columns[k], row[k]
	}
	return describe(names, cells)
}

// plain is a found row as cells, for messages.
func (g *gotRow) plain() []Cell {
	cells := make([]Cell, len(g.cells))
	for i, c := range g.cells {
		if cells[i] = c.Cell; c.why != Carried {
			cells[i] = Text("(" + c.why.String() + ")")
		}
	}
	return cells
}

// compared are the columns of a wanted row set that a table has too, and where.
// The hidden row id is -1.
type compared struct {
	at   []int // into RowSet.Columns
	from []int // into Table.Columns
}

func compareColumns(t *event.Table, columns []string) (c compared, onlyWanted, onlyTable []string) {
	has := make([]bool, len(t.Columns))
	for i, name := range columns {
		from := t.Column(name)
		if from < 0 && (name != RowIDColumn || t.Handle.Kind != event.RowIDHandle) {
			onlyWanted = append(onlyWanted, name)
			continue
		}
		if from >= 0 {
			has[from] = true
		}
		c.at = append(c.at, i)
		c.from = append(c.from, from)
	}
	for i := range t.Columns {
		if !has[i] {
			onlyTable = append(onlyTable, t.Columns[i].Name)
		}
	}
	return c, onlyWanted, onlyTable
}

// cut is the wanted rows with the compared columns only.
func (c compared) cut(s *RowSet) (columns []string, rows [][]Cell) {
	for _, at := range c.at {
		columns = append(columns, s.Columns[at])
	}
	rows = make([][]Cell, len(s.Rows))
	for i, row := range s.Rows {
		rows[i] = make([]Cell, len(c.at))
		for j, at := range c.at {
			rows[i][j] = row[at]
		}
	}
	return columns, rows
}

// sortedKeys is a map's keys in order, so that the map's own has no effect.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
