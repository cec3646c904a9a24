package verify

import "github.com/sluice-cdc/sluice/event"

// stored is one row as an event last left it.
type stored struct {
	row       *event.Row
	converted *conversion // the DDLs that converted a column since, newest first
	recovered bool        // its table came back since
	moved     bool        // a reorganisation moved it since, and may have given it a new hidden row id
}

// holds tells whether the row has what an image of table t has, as far as events
// of both carry it.
func (s *stored) holds(image event.Image, t *event.Table) bool {
	for i := range t.Columns {
		in := columnOfID(s.row.Table, t.Columns[i].ID)
		if in < 0 || in >= len(s.row.After) || s.row.After[in].IsMissing() {
			continue
		}
		if !s.row.After[in].Equal(image[i]) {
			return false
		}
	}
	return true
}

// conversion is a column that a DDL rewrote after the row was written.
type conversion struct {
	to   int64
	from *event.Column // nil where the table had no such column before
	prev *conversion
}

// printer prints stored rows with the columns of one table of today. Columns are
// told by id: a row may be older than a column, or than its present type.
type printer struct {
	compared
	of     *event.Table
	text   bool                   // print bytes as text, as snapshots do
	places map[*event.Table][]int // for each shape that a row was written in: where each column stands in it
}

func newPrinter(t *event.Table, c compared) *printer {
	return &printer{compared: c, of: t, places: map[*event.Table][]int{}}
}

// print is a stored row as its table prints it now.
func (p *printer) print(s *stored) *gotRow {
	g := &gotRow{cells: make([]gotCell, len(p.from)), recovered: s.recovered, rowID: -1}
	in := p.placesIn(s.row.Table)
	for i, from := range p.from {
		if from < 0 {
			g.cells[i].Cell = rowID(s.row.Key)
			if s.moved {
				g.rowID = i
			}
		} else {
			g.cells[i] = s.cell(&p.of.Columns[from], in[i])
		}
		if p.text {
			g.cells[i].Cell = g.cells[i].asText()
		}
	}
	return g
}

func (p *printer) placesIn(written *event.Table) []int {
	in, ok := p.places[written]
	if !ok {
		in = make([]int, len(p.from))
		for i, from := range p.from {
			if from >= 0 {
				in[i] = columnOfID(written, p.of.Columns[from].ID)
			}
		}
		p.places[written] = in
	}
	return in
}

func columnOfID(t *event.Table, id int64) int {
	for i := range t.Columns {
		if t.Columns[i].ID == id {
			return i
		}
	}
	return -1
}

// cell is what the row has in a column of today, which stands at in of its image.
func (s *stored) cell(c *event.Column, in int) gotCell {
	if c.Generated == event.Virtual {
		return gotCell{why: VirtualColumn}
	}
	if in >= 0 && in < len(s.row.After) && !s.row.After[in].IsMissing() {
		return gotCell{Cell: CellOf(s.row.After[in], c)}
	}
	for k := s.converted; k != nil; k = k.prev {
		if k.to == c.ID {
			return s.before(k)
		}
	}
	return gotCell{Cell: CellOf(c.Absent, c)}
}

// before is a cell that was converted: what stood there, where that is known.
func (s *stored) before(k *conversion) gotCell {
	if k.from == nil {
		return gotCell{why: Converted}
	}
	c := s.cell(k.from, columnOfID(s.row.Table, k.from.ID))
	return gotCell{Cell: c.Cell, why: Converted, was: c.why == Carried || c.was}
}
