package verify

import (
	"strconv"

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
	history *History // nil: no contents to judge by
	stream  *Stream  // nil: no commits to judge by but the history's
	start   tso.TS
	end     tso.TS
	verdict Verdict

	at      tso.TS
	pending []*event.Row

	shapes   shapes
	apart    between
	judged   int
	deleted  int
	keyless  int // deletes of rows whose key columns the history lacks
	unjudged int // rows of commits that the history lacks
	unknown  int // of those: rows of commits that are on no record
	gaps     map[tso.TS]bool
	met      map[place]bool // where the history has a commit, and a row came
	doubled  map[place]bool // by table id: and the row came under an id that SQL did not see
	tables   map[string]*Tally
	order    []string
}

// place is a physical id at a commit-ts.
type place struct {
	ts tso.TS
	id int64
}

// NewRows judges by a history and by the commits of a stream; without either it
// only counts.
func NewRows(c Config) *Rows {
	r := &Rows{
		history: c.History, stream: c.Stream, start: c.StartTS, end: tso.Max, verdict: Verdict{limits: c.Limits},
		shapes: newShapes(c.Tables), apart: newBetween(c.Tables), gaps: map[tso.TS]bool{}, met: map[place]bool{}, doubled: map[place]bool{},
		tables: map[string]*Tally{},
	}
	if c.Expected != nil {
		r.end = c.Expected.EndTS
	}
	return r
}

// Row takes the next row.
func (r *Rows) Row(row *event.Row) {
	if row.CommitTS != r.at {
		r.settle()
		r.at = row.CommitTS
	}
	if now := r.shapes.now[row.Table.ID]; now != nil {
		for _, d := range columnsApart(columnNames(now), columnNames(row.Table)) {
			r.differ(row, d)
		}
	}
	if r.stream != nil && !r.stream.has(place{row.CommitTS, row.PhysicalID}) {
		r.differ(row, Difference{Column: WholeRow, Want: "no commit at this ts", Got: row.Kind().String()})
	}
	r.pending = append(r.pending, row)
}

// DDL is told of a DDL where it stands among the rows.
func (r *Rows) DDL(d *event.DDL) {
	r.settle()
	r.shapes.ddl(d)
	r.apart.ddl(d)
}

// Finish judges what is pending and returns the verdict.
func (r *Rows) Finish() *Verdict {
	r.settle()
	if r.history == nil {
		r.verdict.note("no history was recorded: %d rows are not judged one by one", r.unjudged)
	} else {
		r.verdict.note("%d rows and %d deletes judged by the history of %d commits", r.judged, r.deleted, r.history.Moments())
		r.blank()
		r.undelivered()
		r.between()
		if r.unjudged > r.unknown {
			r.verdict.note("the history is a sample: %d rows at %d commits that it lacks are not judged", r.unjudged-r.unknown, len(r.gaps))
		}
	}
	for _, m := range r.shapes.open() {
		for _, d := range columnsApart(m.columns, columnNames(m.row.Table)) {
			r.differ(m.row, d)
		}
	}
	if r.shapes.later > 0 {
		r.verdict.note("%d snapshots were read with a later schema: the columns of both are compared", r.shapes.later)
	}
	if r.keyless > 0 {
		r.verdict.note("%d deletes are not judged: the history has no key columns to tell their rows by", r.keyless)
	}
	for _, name := range r.order {
		r.verdict.Tables = append(r.verdict.Tables, *r.tables[name])
	}
	return &r.verdict
}

// undelivered finds the commits of which the history has what a table held
// after them, while nothing of that table came.
func (r *Rows) undelivered() {
	backfills := 0
	for _, ts := range sortedKeys(r.history.moments) {
		if ts <= r.start || ts > r.end {
			continue
		}
		m := r.history.moments[ts]
		for _, id := range sortedKeys(m.of) {
			at, s := place{ts, id}, m.of[id]
			switch {
			case s == nil || r.met[at] || r.doubled[place{ts, s.TableID}] || r.stream != nil && r.stream.still(at):
			case r.shapes.unborn(at):
				backfills++
			default:
				r.verdict.differ(Difference{TS: ts, Table: s.DB + "." + s.Table, Column: WholeRow,
					Want: "a change of physical id " + strconv.FormatInt(id, 10), Got: "nothing delivered"})
			}
		}
	}
	if backfills > 0 {
		r.verdict.note("%d commits under physical ids that no DDL had made yet are not delivered", backfills)
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
		r.unjudged += len(rows)
		return
	}
	m := r.history.moments[r.at]
	if m == nil {
		r.lacking(rows)
		return
	}
	standing := map[*State]*standing{}
	for _, row := range rows {
		r.met[place{r.at, row.PhysicalID}] = true
		r.apart.rows[place{r.at, row.Table.ID}] = append(r.apart.rows[place{r.at, row.Table.ID}], row)
		if m.of[row.PhysicalID] == nil {
			r.doubled[place{r.at, row.Table.ID}] = true
		}
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

// lacking are rows of a commit that the history lacks. Some histories are samples
// of the commits; the recorded stream, which has them all, tells a sample's gap
// from a commit that never was. Without the stream the history is taken as whole.
func (r *Rows) lacking(rows []*event.Row) {
	r.unjudged += len(rows)
	if r.stream != nil {
		r.gaps[r.at] = true
		return
	}
	r.unknown += len(rows)
	for _, row := range rows {
		r.differ(row, Difference{Column: WholeRow, Want: "no commit at this ts", Got: row.Kind().String()})
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
	cols := r.columns(t, row)
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
	cols := r.columns(t, row)
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

// columns are those that the row and the snapshot both have; where one has more,
// a later schema has to answer for it.
func (r *Rows) columns(t *standing, row *event.Row) *shared {
	c, first := t.columns(row.Table)
	if first && len(t.state.Columns) > 0 {
		r.shapes.snapshot(row, t.state.Columns)
	}
	return c
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
