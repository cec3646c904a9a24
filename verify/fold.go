package verify

import (
	"slices"

	"github.com/sluice-cdc/sluice/event"
)

// Model is a database that lives on events alone: rows and DDLs, folded.
//
// Rows are kept by physical id, so that most DDLs are done when the catalogue
// is: a renamed table keeps its ids, exchanged partitions swap theirs, a dropped
// or truncated table leaves its rows under an id that nobody owns any more, and
// finds them there when it is recovered.
//
// A reorganisation moves rows to new partitions and no event says which row goes
// where. Such rows wait in a pool that knows the possible ids; the next event of
// a row tells. As long as all those ids belong to one table it does not matter.
type Model struct {
	tables map[int64]*event.Table
	rows   map[int64]map[string]*stored // by physical id and handle
	pools  []*pool
	// known are the physical ids that the model has met: true where they were
	// created under its eyes, so that it has seen every row of them.
	known     map[int64]bool
	recovered map[int64]bool // physical ids that came back
	databases map[string]bool
}

// pool is rows of which only the possible physical ids are known.
type pool struct {
	ids  []int64
	rows map[string][]*stored // by handle
}

// NewModel starts with the databases and the tables of the schema snapshot, all empty.
func NewModel(databases []string, tables []*event.Table) *Model {
	m := &Model{
		tables:    map[int64]*event.Table{},
		rows:      map[int64]map[string]*stored{},
		known:     map[int64]bool{},
		recovered: map[int64]bool{},
		databases: map[string]bool{},
	}
	for _, db := range databases {
		m.databases[db] = true
	}
	for _, t := range tables {
		m.tables[t.ID] = t
		m.databases[t.Schema] = true
		for _, id := range t.PhysicalIDs() {
			m.known[id] = false
		}
	}
	return m
}

// Row folds one change.
func (m *Model) Row(r *event.Row) {
	handle := string(handleOf(r.Key))
	rows := m.rows[r.PhysicalID]
	if _, here := rows[handle]; !here && r.Before != nil {
		m.settle(r, handle)
	}
	if r.After == nil {
		delete(rows, handle)
		return
	}
	if rows == nil {
		rows = map[string]*stored{}
		m.rows[r.PhysicalID] = rows
	}
	rows[handle] = &stored{row: r}
}

// settle takes a row out of its pool: an event of it tells where it is. Of rows
// of one handle it is the one that holds what the event says it did, else the
// newest: an older one may be from a partition that is gone. A hidden row id may
// be a new one (two partitions that met had the same): then the row is told by
// what it held.
func (m *Model) settle(r *event.Row, handle string) {
	var in *pool
	var best *stored
	at := 0
	for _, p := range m.pools {
		if !slices.Contains(p.ids, r.PhysicalID) {
			continue
		}
		for i, s := range p.rows[handle] {
			if best == nil || s.closer(best, r) {
				in, best, at = p, s, i
			}
		}
	}
	if best != nil {
		in.drop(handle, at)
		return
	}
	if r.Table.Handle.Kind != event.RowIDHandle {
		return
	}
	for _, p := range m.pools {
		if !slices.Contains(p.ids, r.PhysicalID) {
			continue
		}
		for _, h := range sortedKeys(p.rows) {
			for i, s := range p.rows[h] {
				if s.holds(r.Before, r.Table) {
					p.drop(h, i)
					return
				}
			}
		}
	}
}

// closer tells whether s rather than o is the row that an event is of.
func (s *stored) closer(o *stored, r *event.Row) bool {
	if mine, its := s.holds(r.Before, r.Table), o.holds(r.Before, r.Table); mine != its {
		return mine
	}
	return s.row.CommitTS > o.row.CommitTS
}

func (p *pool) drop(handle string, i int) {
	if p.rows[handle] = slices.Delete(slices.Clone(p.rows[handle]), i, i+1); len(p.rows[handle]) == 0 {
		delete(p.rows, handle)
	}
}

// DDL carries one DDL out.
func (m *Model) DDL(d *event.DDL) {
	for _, c := range d.Conversions {
		m.convert(d, c)
	}
	for _, c := range d.Tables {
		if d.Action == event.ActionReorganizePartition || d.Action == event.ActionAlterPartitioning || d.Action == event.ActionRemovePartitioning {
			m.redistribute(c)
		}
		if c.Before != nil {
			delete(m.tables, c.Before.ID)
		}
		if c.After != nil {
			m.appear(d, c)
		}
	}
	if d.DatabaseBefore != nil && d.DatabaseAfter == nil {
		delete(m.databases, d.DatabaseBefore.Name)
		for id, t := range m.tables {
			if t.SchemaID == d.DatabaseBefore.ID {
				delete(m.tables, id)
			}
		}
	}
	if d.DatabaseAfter != nil {
		m.databases[d.DatabaseAfter.Name] = true
	}
}

// appear puts a table into the catalogue under its new shape.
func (m *Model) appear(d *event.DDL, c event.TableChange) {
	m.tables[c.After.ID] = c.After
	before := m.ids(c.Before)
	for _, id := range c.After.PhysicalIDs() {
		if slices.Contains(before, id) {
			continue
		}
		back := d.Action == event.ActionRecoverTable || d.Action == event.ActionRecoverSchema
		if back {
			m.recovered[id] = true
			m.each([]int64{id}, func(s *stored) { s.recovered = true })
		}
		if _, met := m.known[id]; !met {
			m.known[id] = !back
		}
	}
}

func (m *Model) ids(t *event.Table) []int64 {
	if t == nil {
		return nil
	}
	return t.PhysicalIDs()
}

// convert marks the rows that stand at the DDL's switch: what a converted column
// holds in them is in no event, until the next one of the row.
func (m *Model) convert(d *event.DDL, c event.Conversion) {
	for _, t := range d.Tables {
		if t.Before == nil || t.Before.ID != c.TableID {
			continue
		}
		mark := conversion{to: c.ToID}
		for i := range t.Before.Columns {
			if t.Before.Columns[i].ID == c.FromID {
				mark.from = &t.Before.Columns[i]
			}
		}
		m.each(t.Before.PhysicalIDs(), func(s *stored) {
			one := mark
			one.prev = s.converted
			s.converted = &one
		})
		return
	}
}

// each visits every row that is, or may be, under one of the ids, once.
func (m *Model) each(ids []int64, visit func(*stored)) {
	for _, id := range ids {
		for _, s := range m.rows[id] {
			visit(s)
		}
	}
	for _, p := range m.pools {
		if !slices.ContainsFunc(p.ids, func(id int64) bool { return slices.Contains(ids, id) }) {
			continue
		}
		for _, same := range p.rows {
			for _, s := range same {
				visit(s)
			}
		}
	}
}

// redistribute moves the rows of the ids that a reorganisation gave up to those
// that it made.
func (m *Model) redistribute(c event.TableChange) {
	before, after := m.ids(c.Before), m.ids(c.After)
	gone := slices.DeleteFunc(slices.Clone(before), func(id int64) bool { return slices.Contains(after, id) })
	made := slices.DeleteFunc(slices.Clone(after), func(id int64) bool { return slices.Contains(before, id) })
	for _, p := range m.pools {
		kept := slices.DeleteFunc(slices.Clone(p.ids), func(id int64) bool { return slices.Contains(gone, id) })
		if len(kept) < len(p.ids) {
			p.ids = append(kept, made...)
		}
	}
	p := &pool{ids: made, rows: map[string][]*stored{}}
	for _, id := range gone { // in the order of the partitions
		for handle, s := range m.rows[id] {
			s.moved = true
			p.rows[handle] = append(p.rows[handle], s)
		}
		delete(m.rows, id)
	}
	if len(p.rows) > 0 {
		m.pools = append(m.pools, p)
	}
}
