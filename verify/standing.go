package verify

import (
	"encoding/binary"
	"strings"

	"github.com/sluice-cdc/sluice/event"
)

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
func (t *standing) columns(of *event.Table) (c *shared, first bool) {
	c = t.by[of]
	if first = c == nil; first {
		c = share(of, &t.state.RowSet)
		c.index = map[string][]int{}
		for i, row := range t.state.Rows {
			k := c.joined(row)
			c.index[k] = append(c.index[k], i)
		}
		t.by[of] = c
	}
	return c, first
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
