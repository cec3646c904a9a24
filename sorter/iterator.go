package sorter

import "github.com/sluice-cdc/sluice/event"

// Iterator gives rows in order. It is used by one goroutine and must be closed.
type Iterator struct {
	sorter *Sorter
	heap   []cursor // by their next row
	disks  []*runCursor
	views  views
	last   entry // handed out last; kept only where disks may hold rows twice
	err    error
}

// cursor walks over one input's rows of a fetch: those in memory, or those of one
// run on disk. entries is never empty. Where what is on disk has not been opened
// yet, it holds a stand-in that no row comes before.
type cursor struct {
	entries  []entry
	parts    [][]entry // in memory: what follows
	disk     *runCursor
	unopened bool
}

// advance drops the first n entries; ok is false at the end.
func (c *cursor) advance(n int) (ok bool, err error) {
	if c.unopened {
		c.unopened = false
		n = 1
	}
	c.entries = c.entries[n:]
	switch {
	case len(c.entries) > 0:
		return true, nil
	case c.disk != nil:
		c.entries, err = c.disk.fill()
		return len(c.entries) > 0, err
	case len(c.parts) == 0:
		return false, nil
	}
	c.entries, c.parts[0] = c.parts[0], nil // the chunk can go once it was read
	c.parts = c.parts[1:]
	return true, nil
}

// A fetch shares so many bytes among its runs on disk, or one part in readShare
// of the quota if that is less. A run gets at most as much as makes a seek
// nothing, and always a row.
const (
	readMax   = 8 << 20
	readShare = 32
	runMax    = 512 << 10
)

func newIterator(s *Sorter, parts []cursor, disks int) *Iterator {
	it := &Iterator{sorter: s, heap: parts}
	for _, c := range parts {
		if c.disk != nil {
			c.disk.room = int(min(s.quota/readShare, readMax)/int64(disks)) + 1
			c.disk.room = min(c.disk.room, runMax)
			c.disk.views = &it.views
			it.disks = append(it.disks, c.disk)
		}
	}
	for i := len(parts)/2 - 1; i >= 0; i-- {
		it.down(i)
	}
	return it
}

// Next fills dst and says how many rows it got: less than len(dst) only at the
// end. The rows stay valid as long as somebody holds them. After an error there
// is nothing more: the rows are to be had from upstream again.
func (it *Iterator) Next(dst []*event.RawKV) (int, error) {
	n := 0
	for n < len(dst) && len(it.heap) > 0 && it.err == nil {
		switch c := &it.heap[0]; {
		case c.unopened:
			it.step(1)
		case len(it.disks) > 0:
			if e := c.entries[0]; it.last.row == nil || e.compare(it.last) != 0 {
				dst[n] = e.row
				it.last = e
				n++
			}
			it.step(1)
		case len(it.heap) == 1:
			n += it.drain(dst[n:])
		default:
			dst[n] = c.entries[0].row
			n++
			it.step(1)
		}
	}
	if it.err != nil {
		return 0, it.err
	}
	return n, nil
}

// drain copies from the only cursor that is left.
func (it *Iterator) drain(dst []*event.RawKV) int {
	n := min(len(dst), len(it.heap[0].entries))
	for i, e := range it.heap[0].entries[:n] {
		dst[i] = e.row
	}
	it.step(n)
	return n
}

// step advances the first cursor and restores the heap.
func (it *Iterator) step(n int) {
	more, err := it.heap[0].advance(n)
	if err != nil {
		it.err = err
		return
	}
	if !more {
		last := len(it.heap) - 1
		it.heap[0], it.heap[last] = it.heap[last], cursor{}
		it.heap = it.heap[:last]
	}
	it.down(0)
}

func (it *Iterator) down(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(it.heap) && it.heap[child].entries[0].compare(it.heap[least].entries[0]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		it.heap[i], it.heap[least] = it.heap[least], it.heap[i]
		i = least
	}
}

// Close ends the iterator. Rows that were handed out stay valid.
func (it *Iterator) Close() {
	if len(it.disks) == 0 {
		it.heap = nil
		return
	}
	if err := it.views.close(); err != nil {
		it.sorter.disk.warn("closing tables", err)
	}
	for _, c := range it.disks {
		c.run.segment.leave()
	}
	it.sorter.sweep()
	it.heap, it.disks = nil, nil
}
