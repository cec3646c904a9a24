package verify

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Rows judges every row against TiDB's own contents at the row's commit-ts.
//
// Rows come in the order of their commit-ts; all rows of one commit-ts are
// judged together, when the next one begins: what is written must stand in the
// table (as a multiset: two written rows need two rows that stand), and no row
// that is left may be one that was deleted.
type Rows struct {
	history *History // nil: nothing to judge by
	verdict Verdict

	at      tso.TS
	pending []*event.Row

	judged, deleted   int
	keyless           int             // deletes of rows whose key columns the history lacks
	moments           map[tso.TS]bool // of every row: true where the history has it
	unjudged          int             // rows of moments that the history lacks
	lacking           []*event.Row    // the first of those, should it turn out not to be a sample
	tables            map[string]*Tally
	order             []string
	withoutAnyHistory int
}

// NewRows judges by a history; with nil it only counts.
func NewRows(h *History, l Limits) *Rows {
	return &Rows{history: h, verdict: Verdict{limits: l}, moments: map[tso.TS]bool{}, tables: map[string]*Tally{}}
}

// Row takes the next row.
func (r *Rows) Row(row *event.Row) {
	if row.CommitTS != r.at {
		r.settle()
		r.at = row.CommitTS
	}
	r.pending = append(r.pending, row)
}

// Finish judges what is pending and returns the verdict.
func (r *Rows) Finish() *Verdict {
	r.settle()
	if r.history == nil {
		r.verdict.note("no history was recorded: %d rows are not judged one by one", r.withoutAnyHistory)
	} else {
		r.verdict.note("%d rows and %d deletes judged by the history of %d commits", r.judged, r.deleted, r.history.Moments())
		r.judgeLacking()
	}
	if r.keyless > 0 {
		r.verdict.note("%d deletes are not judged: the history has no key columns to tell their rows by", r.keyless)
	}
	for _, name := range r.order {
		r.verdict.Tables = append(r.verdict.Tables, *r.tables[name])
	}
	return &r.verdict
}

// judgeLacking tells a sampled history, whose gaps are no finding, from a whole
// one, where a row at a commit-ts that TiDB does not know is one. A sample has
// far less than every second commit.
func (r *Rows) judgeLacking() {
	if r.unjudged == 0 {
		return
	}
	has := 0
	for _, known := range r.moments {
		if known {
			has++
		}
	}
	if 2*has <= len(r.moments) {
		r.verdict.note("the history is a sample: %d rows at %d commits that it lacks are not judged",
			r.unjudged, len(r.moments)-has)
		return
	}
	for _, row := range r.lacking {
		r.differ(row, Difference{Column: WholeRow, Want: "no commit at this ts", Got: row.Kind().String()})
	}
}

// settle judges the rows of one commit-ts.
func (r *Rows) settle() {
	rows := r.pending
	r.pending = r.pending[:0]
	if len(rows) == 0 {
		return
	}
	if r.history == nil {
		r.withoutAnyHistory += len(rows)
		return
	}
	m := r.history.moments[r.at]
	r.moments[r.at] = m != nil
	if m == nil {
		r.unjudged += len(rows)
		r.lacking = append(r.lacking, rows[:min(len(rows), max(0, r.verdict.limits.Differences-len(r.lacking)))]...)
		return
	}
	standing := map[*State]*standing{}
	for _, row := range rows {
		if row.After != nil {
			r.written(row, r.stateOf(m, row), standing)
		}
	}
	for _, row := range rows {
		if row.After == nil {
			r.gone(row, r.stateOf(m, row), standing)
		}
	}
}

// stateOf is the table that the row's physical id belonged to. Where SQL did not
// see the id any more (its partition is being reorganised), TiDB wrote the row
// under the new id as well, and the table stands at that ts under that one.
func (r *Rows) stateOf(m *moment, row *event.Row) *State {
	if s := m.of[row.PhysicalID]; s != nil {
		return s
	}
	return m.tables[row.Table.ID]
}

func (r *Rows) written(row *event.Row, s *State, all map[*State]*standing) {
	r.judged++
	r.tallyOf(row).Rows++
	if s == nil {
		r.differ(row, Difference{Column: WholeRow, Want: "no such physical id for SQL", Got: "physical id " + strconv.FormatInt(row.PhysicalID, 10)})
		return
	}
	t := standingIn(s, all)
	cols := t.columns(row.Table)
	want := cols.print(row, row.After)
	if !t.take(cols, want) {
		r.missing(row, t, cols, want)
	}
}

// missing says which cells differ from the row of the same key, or that there is none.
func (r *Rows) missing(row *event.Row, t *standing, cols *shared, got []Cell) {
	key := keyColumns(row.Table, t.state.Columns)
	for i, have := range t.state.Rows {
		if t.used[i] || !cols.sameKey(key, have, got) {
			continue
		}
		t.used[i] = true
		for j, at := range cols.at {
			if have[at] != got[j] {
				r.differ(row, Difference{Column: t.state.Columns[at], Want: have[at].String(), Got: got[j].String()})
			}
		}
		return
	}
	r.differ(row, Difference{Column: WholeRow, Want: "no such row", Got: cols.describe(t.state, got)})
}

// gone: no row that is left may have the deleted one's key. In a partitioned
// table another partition may hold a row of the same hidden row id, so there the
// whole row is compared. Without its key columns in the history (it was read with
// a later schema) another row could look the same: then nothing is said.
func (r *Rows) gone(row *event.Row, s *State, all map[*State]*standing) {
	r.deleted++
	r.tallyOf(row).Rows++
	if s == nil || row.Before == nil {
		return
	}
	t := standingIn(s, all)
	cols := t.columns(row.Table)
	got := cols.print(row, row.Before)
	key := keyColumns(row.Table, s.Columns)
	if len(key) == 0 {
		r.keyless++
		return
	}
	for i, have := range s.Rows {
		if t.used[i] || !cols.sameKey(key, have, got) || len(row.Table.Partitions) > 0 && !cols.same(have, got) {
			continue
		}
		r.differ(row, Difference{Column: WholeRow, Want: "the row, still", Got: "delete"})
		return
	}
}

func (r *Rows) differ(row *event.Row, d Difference) {
	d.TS, d.Table = row.CommitTS, row.Table.FullName()
	image := row.After
	if image == nil {
		image = row.Before
	}
	d.Key = describeKey(row, image)
	r.verdict.differ(d)
	r.tallyOf(row).Differences++
}

func (r *Rows) tallyOf(row *event.Row) *Tally {
	name := row.Table.FullName()
	t := r.tables[name]
	if t == nil {
		t = &Tally{Table: name}
		r.tables[name] = t
		r.order = append(r.order, name)
	}
	return t
}

// standing is a state whose rows are being matched, each at most once.
type standing struct {
	state *State
	used  []bool
	by    map[*event.Table]*shared
}

func standingIn(s *State, all map[*State]*standing) *standing {
	t := all[s]
	if t == nil {
		t = &standing{state: s, used: make([]bool, len(s.Rows)), by: map[*event.Table]*shared{}}
		all[s] = t
	}
	return t
}

// columns are those that both sides have. A snapshot may have been read with a
// later schema, in which a column is not there yet or not there any more.
func (t *standing) columns(of *event.Table) *shared {
	c := t.by[of]
	if c == nil {
		c = share(of, &t.state.RowSet)
		c.index = map[string][]int{}
		for i, row := range t.state.Rows {
			k := c.joined(row)
			c.index[k] = append(c.index[k], i)
		}
		t.by[of] = c
	}
	return c
}

// take uses up one row that equals the printed one.
func (t *standing) take(c *shared, printed []Cell) bool {
	for _, i := range c.index[join(printed)] {
		if !t.used[i] {
			t.used[i] = true
			return true
		}
	}
	return false
}

// shared are the columns that a table and a recorded row set both have.
type shared struct {
	at    []int // index into RowSet.Columns
	from  []int // index into Table.Columns; -1 the hidden row id
	index map[string][]int
}

func share(t *event.Table, s *RowSet) *shared {
	c := &shared{}
	for i, name := range s.Columns {
		from := t.Column(name)
		if from < 0 && (name != RowIDColumn || t.Handle.Kind != event.RowIDHandle) {
			continue
		}
		if from >= 0 && t.Columns[from].Generated == event.Virtual {
			continue
		}
		c.at = append(c.at, i)
		c.from = append(c.from, from)
	}
	return c
}

func (c *shared) print(row *event.Row, image event.Image) []Cell {
	cells := make([]Cell, len(c.from))
	for i, from := range c.from {
		if from < 0 {
			cells[i] = rowID(row.Key)
		} else {
			cells[i] = CellOf(image[from], &row.Table.Columns[from])
		}
	}
	return cells
}

func (c *shared) same(have, printed []Cell) bool {
	for i, at := range c.at {
		if have[at] != printed[i] {
			return false
		}
	}
	return true
}

// sameKey compares the columns (of the row set) in key; false where they are not shared.
func (c *shared) sameKey(key []int, have, printed []Cell) bool {
	found := 0
	for i, at := range c.at {
		for _, k := range key {
			if k != at {
				continue
			}
			if have[at] != printed[i] {
				return false
			}
			found++
		}
	}
	return found > 0 && found == len(key)
}

func (c *shared) joined(row []Cell) string {
	cells := make([]Cell, len(c.at))
	for i, at := range c.at {
		cells[i] = row[at]
	}
	return join(cells)
}

func (c *shared) describe(s *State, printed []Cell) string {
	names := make([]string, len(c.at))
	for i, at := range c.at {
		names[i] = s.Columns[at]
	}
	return describe(names, printed)
}

// join is a text that two rows have in common only if all their cells are the same.
func join(cells []Cell) string {
	var b strings.Builder
	var n [binary.MaxVarintLen64 + 1]byte
	for _, c := range cells {
		n[0] = byte(c.Kind)
		b.Write(n[:1+binary.PutUvarint(n[1:], uint64(len(c.Text)))])
		b.WriteString(c.Text)
	}
	return b.String()
}

// describeMax is how many cells of a row a message shows.
const describeMax = 12

func describe(names []string, cells []Cell) string {
	var b strings.Builder
	for i, c := range cells {
		if i == describeMax {
			b.WriteString(" …")
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(names[i] + "=" + c.String())
	}
	return b.String()
}
