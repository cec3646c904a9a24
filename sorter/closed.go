package sorter

import (
	"slices"
	"sort"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// chunkLen is how many entries a chunk holds at most (24 KiB of them): what was
// forgotten is freed chunk by chunk.
const chunkLen = 1024

// chunk is rows in order. The entries are never changed: a reader may hold them
// while they are forgotten.
type chunk struct {
	entries []entry // without what was forgotten at their head
	bytes   int64
	epoch   uint64 // of the oldest row, or an older one
}

// cut copies sorted entries into chunks.
func cut(sorted []entry, epoch uint64) (out []*chunk) {
	for part := range slices.Chunk(sorted, chunkLen) {
		c := &chunk{entries: slices.Clone(part), epoch: epoch}
		for _, e := range part {
			c.bytes += cost(e.row)
		}
		out = append(out, c)
	}
	return out
}

// closed is a span's rows in memory at or below its resolved-ts: chunks in order.
type closed struct{ chunks []*chunk }

// last is the greatest commit-ts held, zero where there is none.
func (z *closed) last() tso.TS {
	if len(z.chunks) == 0 {
		return 0
	}
	return last(z.chunks[len(z.chunks)-1].entries).commit
}

// next is the least commit-ts above ts that is held, tso.Max where there is none.
func (z *closed) next(ts tso.TS) tso.TS {
	for _, c := range z.chunks[z.from(ts):] {
		return c.entries[after(c.entries, ts)].commit
	}
	return tso.Max
}

// from is the index of the first chunk that holds something above ts.
func (z *closed) from(ts tso.TS) int {
	return sort.Search(len(z.chunks), func(i int) bool { return last(z.chunks[i].entries).commit > ts })
}

// forget drops rows at or below upto and says what they cost.
func (z *closed) forget(upto tso.TS) (freed int64) {
	whole := z.from(upto)
	for _, c := range z.chunks[:whole] {
		freed += c.bytes
	}
	clear(z.chunks[:whole])
	z.chunks = z.chunks[whole:]
	if len(z.chunks) == 0 {
		z.chunks = nil
		return freed
	}
	head := z.chunks[0]
	n := after(head.entries, upto)
	for _, e := range head.entries[:n] {
		head.bytes -= cost(e.row)
		freed += cost(e.row)
	}
	head.entries = head.entries[n:]
	return freed
}

// remove drops whole chunks, those that are still there, and says what they cost.
func (z *closed) remove(gone map[*chunk]struct{}) (freed int64) {
	z.chunks = slices.DeleteFunc(z.chunks, func(c *chunk) bool {
		_, found := gone[c]
		if found {
			freed += c.bytes
		}
		return found
	})
	return freed
}

// between appends a cursor over the rows in (lower, upper], if there are any.
func (z *closed) between(parts []cursor, lower, upper tso.TS) []cursor {
	var c cursor
	for _, chunk := range z.chunks[z.from(lower):] {
		part := chunk.entries[after(chunk.entries, lower):]
		part = part[:after(part, upper)]
		if len(part) == 0 {
			break
		}
		c.parts = append(c.parts, part)
	}
	if len(c.parts) == 0 {
		return parts
	}
	c.entries, c.parts = c.parts[0], c.parts[1:]
	return append(parts, c)
}

// holds tells whether the very row is there.
func (z *closed) holds(r *event.RawKV) bool {
	for _, c := range z.chunks[z.from(r.CommitTS.Prev()):] {
		if _, found := slices.BinarySearchFunc(c.entries, entryOf(r), entry.compare); found {
			return true
		}
		if c.entries[0].commit > r.CommitTS {
			break
		}
	}
	return false
}

// after is how many entries lie at or below ts.
func after(entries []entry, ts tso.TS) int {
	return sort.Search(len(entries), func(i int) bool { return entries[i].commit > ts })
}

func last(entries []entry) entry { return entries[len(entries)-1] }
