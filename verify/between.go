package verify

import (
	"slices"
	"strconv"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// between judges what the history says that a commit did: of the rows that a
// table held before it and after it, every one that came, went or changed has to
// be answered for by a row that was delivered. Two states of a table are compared
// only where nothing else can stand between them: no commit that the history
// lacks, no DDL, and the same columns.
type between struct {
	rows  map[place][]*event.Row  // by table id: delivered at a moment of the history
	times map[int64][]tso.TS      // by physical id: the commits of the stream, ascending
	ids   map[int64][]int64       // by table id: every physical id that it ever had
	ddls  map[int64][]tso.TS      // by table id: switch-ts of what changed it
	recut map[int64][]recutColumn // by table id: columns whose cells a DDL rewrote
	made  map[int64]tso.TS        // by table id: the switch-ts of the DDL that made it, empty
}

// recutColumn is a column whose cells may print otherwise from a DDL on; a
// snapshot of a moment before may have been read after it.
type recutColumn struct {
	name string
	at   tso.TS
}

func newBetween(tables []*event.Table) between {
	b := between{
		rows: map[place][]*event.Row{}, times: map[int64][]tso.TS{}, ids: map[int64][]int64{},
		ddls: map[int64][]tso.TS{}, recut: map[int64][]recutColumn{}, made: map[int64]tso.TS{},
	}
	for _, t := range tables {
		b.ids[t.ID] = append(b.ids[t.ID], t.PhysicalIDs()...)
	}
	return b
}

// ddl notes what a DDL does to its tables.
func (b *between) ddl(d *event.DDL) {
	for _, c := range d.Tables {
		for _, t := range []*event.Table{c.Before, c.After} {
			if t == nil {
				continue
			}
			if all := b.ddls[t.ID]; len(all) == 0 || all[len(all)-1] != d.SwitchTS {
				b.ddls[t.ID] = append(all, d.SwitchTS)
			}
			b.ids[t.ID] = append(b.ids[t.ID], t.PhysicalIDs()...)
		}
		if c.After == nil {
			continue
		}
		if c.Before == nil && (d.Action == event.ActionCreateTable || d.Action == event.ActionCreateTables) {
			b.made[c.After.ID] = d.SwitchTS
		}
		if c.Before != nil {
			b.columns(c, d.SwitchTS)
		}
	}
}

// columns notes which columns are not what they were, by name: a snapshot knows
// them by nothing else.
func (b *between) columns(c event.TableChange, at tso.TS) {
	for i := range c.After.Columns {
		now := &c.After.Columns[i]
		was := c.Before.Column(now.Name)
		if was >= 0 && c.Before.Columns[was].ID == now.ID && sameType(&c.Before.Columns[was], now) {
			continue
		}
		b.recut[c.After.ID] = append(b.recut[c.After.ID], recutColumn{now.Name, at})
	}
}

func sameType(a, b *event.Column) bool {
	return a.Type == b.Type && a.Flag == b.Flag && a.Flen == b.Flen && a.Decimal == b.Decimal && a.Charset == b.Charset && slices.Equal(a.Elems, b.Elems)
}

// between compares every two states of a table that follow one another.
func (r *Rows) between() {
	steps, b := 0, &r.apart
	r.commitTimes()
	last := map[int64]tso.TS{}
	for _, ts := range sortedKeys(r.history.moments) {
		m := r.history.moments[ts]
		for _, id := range sortedKeys(m.tables) {
			before, seen := last[id]
			last[id] = ts
			if ts <= r.start || ts > r.end {
				continue
			}
			var held *State
			switch {
			case seen && before > r.start:
				held = r.history.moments[before].tables[id]
			case b.made[id] > 0:
				before, held = b.made[id], &State{RowSet: RowSet{Columns: m.tables[id].Columns}}
			default:
				continue // what stood at the start is on no record
			}
			if b.undisturbed(id, before, ts) && slices.Equal(held.Columns, m.tables[id].Columns) {
				steps++
				r.step(ts, id, held, m.tables[id])
			}
		}
	}
	if steps > 0 {
		r.verdict.note("%d commits judged by what the table held before and after", steps)
	}
}

// commitTimes sorts the stream's commits by physical id.
func (r *Rows) commitTimes() {
	if r.stream == nil {
		return
	}
	for at := range r.stream.commits {
		r.apart.times[at.id] = append(r.apart.times[at.id], at.ts)
	}
	for _, all := range r.apart.times {
		slices.Sort(all)
	}
}

// undisturbed tells whether nothing but the commit at to is known to have touched
// the table after from.
func (b *between) undisturbed(table int64, from, to tso.TS) bool {
	if at, found := slices.BinarySearch(b.ddls[table], from.Next()); found || at < len(b.ddls[table]) && b.ddls[table][at] < to {
		return false
	}
	for _, id := range b.ids[table] {
		all := b.times[id]
		if at, _ := slices.BinarySearch(all, from.Next()); at < len(all) && all[at] < to {
			return false
		}
	}
	return true
}

// step compares a table before and after one commit.
func (r *Rows) step(ts tso.TS, id int64, before, after *State) {
	delivered := r.apart.rows[place{ts, id}]
	var t *event.Table
	if len(delivered) > 0 {
		t = delivered[0].Table
	} else if t = r.shapes.now[id]; t == nil {
		return // dropped since: what its columns were is not known here
	}
	cols := share(t, &after.RowSet)
	cols.leave(after.Columns, func(name string) bool {
		return slices.ContainsFunc(r.apart.recut[id], func(c recutColumn) bool { return c.name == name && c.at >= ts })
	})
	came, went := map[string]int{}, map[string]int{}
	for _, row := range delivered {
		if row.After != nil {
			came[join(cols.print(row, row.After))]++
		}
		if row.Before != nil {
			went[join(cols.print(row, row.Before))]++
		}
	}
	had, has := map[string]int{}, map[string]int{}
	for _, row := range before.Rows {
		had[cols.joined(row)]++
	}
	for _, row := range after.Rows {
		has[cols.joined(row)]++
	}
	for _, row := range after.Rows {
		k := cols.joined(row)
		if had[k] > 0 {
			had[k]--
		} else if came[k] > 0 {
			came[k]--
		} else {
			r.unaccounted(ts, after, cols, row, "the row, written by this commit", "nothing delivered that writes it")
		}
	}
	for _, row := range before.Rows {
		k := cols.joined(row)
		if has[k] > 0 {
			has[k]--
		} else if went[k] > 0 {
			went[k]--
		} else if !changes(delivered, cols, before, row) {
			r.unaccounted(ts, before, cols, row, "the row gone, or another, by this commit", "nothing delivered that takes it away")
		}
	}
}

// changes tells whether a delivered row has the key of a row that was there: an
// old value may lack what a column's rewriting put into it.
func changes(delivered []*event.Row, cols *shared, s *State, have []Cell) bool {
	return slices.ContainsFunc(delivered, func(row *event.Row) bool {
		image := row.Before
		if image == nil {
			image = row.After
		}
		return cols.sameKey(keyColumns(row.Table, s.Columns), have, cols.print(row, image))
	})
}

func (r *Rows) unaccounted(ts tso.TS, s *State, cols *shared, row []Cell, want, got string) {
	printed := make([]Cell, len(cols.at))
	for i, at := range cols.at {
		printed[i] = row[at]
	}
	r.verdict.differ(Difference{TS: ts, Table: s.DB + "." + s.Table, Key: cols.describe(s, printed), Column: WholeRow, Want: want, Got: got})
}

// leave takes columns out of those that are compared.
func (c *shared) leave(names []string, out func(name string) bool) {
	var at, from []int
	for i := range c.at {
		if !out(names[c.at[i]]) {
			at, from = append(at, c.at[i]), append(from, c.from[i])
		}
	}
	c.at, c.from = at, from
}

// blank tells of a history that holds nothing though rows were committed: it is
// no sample, since every sample has the last commit.
func (r *Rows) blank() {
	if r.history.Moments() == 0 && r.unjudged > 0 {
		r.verdict.differ(Difference{Table: "(history)", Want: "what the tables held after " + strconv.Itoa(len(r.gaps)) + " commits of " +
			strconv.Itoa(r.unjudged) + " rows", Got: "a history without a single moment; leave the file out where none was recorded"})
	}
}
