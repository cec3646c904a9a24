package sorter

import (
	"github.com/sluice-cdc/sluice/event"
)

// cursor walks one span's rows of a fetch. entries is never empty.
type cursor struct {
	entries []entry
	parts   [][]entry // what follows
}

// advance drops the first n entries; ok is false at the end.
func (c *cursor) advance(n int) (ok bool) {
	c.entries = c.entries[n:]
	if len(c.entries) == 0 {
		if len(c.parts) == 0 {
			return false
		}
		c.entries, c.parts[0] = c.parts[0], nil // the chunk can go once it was read
		c.parts = c.parts[1:]
	}
	return true
}

// merge is an Iterator over many cursors: a heap by their next row.
type merge struct{ heap []cursor }

func newMerge(parts []cursor) *merge {
	m := &merge{heap: parts}
	for i := len(parts)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return m
}

// Next implements Iterator.
func (m *merge) Next(dst []*event.RawKV) (int, error) {
	n := 0
	for n < len(dst) && len(m.heap) > 0 {
		if len(m.heap) == 1 {
			n += m.drain(dst[n:])
			continue
		}
		dst[n] = m.heap[0].entries[0].row
		n++
		m.step(1)
	}
	return n, nil
}

// drain copies from the only cursor that is left.
func (m *merge) drain(dst []*event.RawKV) int {
	n := min(len(dst), len(m.heap[0].entries))
	for i, e := range m.heap[0].entries[:n] {
		dst[i] = e.row
	}
	m.step(n)
	return n
}

// step advances the first cursor and restores the heap.
func (m *merge) step(n int) {
	if !m.heap[0].advance(n) {
		last := len(m.heap) - 1
		m.heap[0], m.heap[last] = m.heap[last], cursor{}
		m.heap = m.heap[:last]
	}
	m.down(0)
}

func (m *merge) down(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(m.heap) && m.heap[child].entries[0].compare(m.heap[least].entries[0]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}

// Close implements Iterator.
func (m *merge) Close() { m.heap = nil }
