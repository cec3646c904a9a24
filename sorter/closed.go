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

// chunk is rows in order, never changed: a reader may hold it while it is forgotten.
type chunk struct {
	entries []entry
	bytes   int64
}

// cut copies sorted entries into chunks.
func cut(sorted []entry) (out []chunk, size int64) {
	for part := range slices.Chunk(sorted, chunkLen) {
		c := chunk{entries: slices.Clone(part)}
		for _, e := range part {
			c.bytes += cost(e.row)
		}
		size += c.bytes
		out = append(out, c)
	}
	return out, size
}

// closed is a span's rows at or below its resolved-ts: chunks in order, the first
// without what was forgotten of it.
type closed struct{ chunks []chunk }

func (z *closed) empty() bool { return len(z.chunks) == 0 }

// first is the least commit-ts held.
func (z *closed) first() tso.TS { return z.chunks[0].entries[0].commit }

// forget drops rows at or below upto and says what they cost.
func (z *closed) forget(upto tso.TS) (freed int64) {
	whole := 0
	for whole < len(z.chunks) && last(z.chunks[whole].entries).commit <= upto {
		freed += z.chunks[whole].bytes
		whole++
	}
	clear(z.chunks[:whole])
	z.chunks = z.chunks[whole:]
	if len(z.chunks) == 0 {
		z.chunks = nil
		return freed
	}
	head := &z.chunks[0]
	n := after(head.entries, upto)
	for _, e := range head.entries[:n] {
		head.bytes -= cost(e.row)
		freed += cost(e.row)
	}
	head.entries = head.entries[n:]
	return freed
}

// between appends a cursor over the rows in (lower, upper], if there are any.
func (z *closed) between(parts []cursor, lower, upper tso.TS) []cursor {
	from := sort.Search(len(z.chunks), func(i int) bool { return last(z.chunks[i].entries).commit > lower })
	var c cursor
	for _, chunk := range z.chunks[from:] {
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
	want := entry{r.CommitTS, r.StartTS, r}
	for _, c := range z.chunks {
		if _, found := slices.BinarySearchFunc(c.entries, want, entry.compare); found {
			return true
		}
	}
	return false
}

// after is how many entries lie at or below ts.
func after(entries []entry, ts tso.TS) int {
	return sort.Search(len(entries), func(i int) bool { return entries[i].commit > ts })
}

func last(entries []entry) entry { return entries[len(entries)-1] }
