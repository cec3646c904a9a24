package sorter

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// input is one span's side of a Memory.
type input struct {
	in   *Memory
	span span.Span
	from tso.TS

	// Guarded by Memory.mu; resolved and gone are written under both locks.
	closed   closed
	resolved tso.TS
	at       int // index in Memory.lowest
	gone     bool

	// mu is taken before Memory.mu. It lets spans sort side by side.
	mu      sync.Mutex
	blocks  []block
	pending int64   // bytes in blocks that are not closed yet
	scratch []entry // reused from one resolved-ts to the next
}

// block is one Add's rows. Those at or below the input's resolved-ts are closed
// and stand in a chunk as well.
type block struct {
	rows        []event.RawKV
	least, most tso.TS // commit-ts of the rows that are not closed yet
}

// entry is a row and what most comparisons need of it.
type entry struct {
	commit, start tso.TS
	row           *event.RawKV
}

// entryCost is what an entry adds to its row, in bytes.
const entryCost = 24

func cost(r *event.RawKV) int64 { return r.Size() + entryCost }

func (e entry) compare(o entry) int {
	if c := cmp.Compare(e.commit, o.commit); c != 0 {
		return c
	}
	if c := cmp.Compare(e.start, o.start); c != 0 {
		return c
	}
	return bytes.Compare(e.row.Key, o.row.Key)
}

// Add implements Input.
func (in *input) Add(ctx context.Context, rows []event.RawKV, resolved tso.TS) error {
	b := block{rows: rows, least: tso.Max}
	var size int64
	for i := range rows {
		b.least = min(b.least, rows[i].CommitTS)
		b.most = max(b.most, rows[i].CommitTS)
		size += cost(&rows[i])
	}
	if err := in.in.admit(ctx, size); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(rows) > 0 {
		if err := in.takeLocked(b, size); err != nil {
			return err
		}
	}
	if resolved <= in.resolved || in.gone {
		return nil
	}
	chunks, doubled := in.closeLocked(resolved)
	in.in.publish(in, chunks, doubled, resolved)
	return nil
}

// takeLocked keeps the block, or its wanted part.
func (in *input) takeLocked(b block, size int64) error {
	if in.gone {
		in.in.refund(size)
		return nil
	}
	if b.least <= in.resolved {
		rows, err := in.in.late(in, b.rows)
		b = block{rows: rows, least: tso.Max}
		var kept int64
		for i := range rows {
			b.least = min(b.least, rows[i].CommitTS)
			b.most = max(b.most, rows[i].CommitTS)
			kept += cost(&rows[i])
		}
		in.in.refund(size - kept)
		size = kept
		if err != nil || len(rows) == 0 {
			return err
		}
	}
	in.blocks = append(in.blocks, b)
	in.pending += size
	return nil
}

// closeLocked sorts everything in (in.resolved, upto] out of the blocks, once.
// doubled is what rows that came twice had cost.
func (in *input) closeLocked(upto tso.TS) (chunks []chunk, doubled int64) {
	found := in.scratch[:0]
	kept := in.blocks[:0]
	for _, b := range in.blocks {
		if b.least > upto {
			kept = append(kept, b)
			continue
		}
		rest := block{rows: b.rows, least: tso.Max, most: b.most}
		for i := range b.rows {
			r := &b.rows[i]
			switch {
			case r.CommitTS > upto:
				rest.least = min(rest.least, r.CommitTS)
			case r.CommitTS > in.resolved:
				found = append(found, entry{r.CommitTS, r.StartTS, r})
			}
		}
		if b.most > upto {
			kept = append(kept, rest)
		}
	}
	clear(in.blocks[len(kept):])
	in.blocks = kept
	if !slices.IsSortedFunc(found, entry.compare) {
		slices.SortFunc(found, entry.compare)
	}
	unique := found[:0]
	for i, e := range found {
		if i > 0 && e.compare(unique[len(unique)-1]) == 0 {
			doubled += cost(e.row)
			continue
		}
		unique = append(unique, e)
	}
	chunks, size := cut(unique)
	in.pending -= size + doubled
	clear(found)
	in.scratch = found[:0]
	if cap(found) > scratchMax {
		in.scratch = nil
	}
	return chunks, doubled
}

// scratchMax is the largest scratch to keep, in entries: 768 KiB a span is enough
// for the rows between two resolved-ts; a catch-up needs more, but only once.
const scratchMax = 32 << 10

// Resolved implements Input.
func (in *input) Resolved() tso.TS {
	in.in.mu.Lock()
	defer in.in.mu.Unlock()
	return in.resolved
}

// Close implements Input.
func (in *input) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.in.drop(in)
	in.in.refund(in.pending)
	in.blocks, in.pending, in.scratch = nil, 0, nil
}

// refund gives back what was counted and is not held.
func (m *Memory) refund(size int64) {
	if size == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= size
	m.wakeLocked()
}
