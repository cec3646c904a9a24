package sorter

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Input is where the rows of one subscription come in. It is used by one
// goroutine, except for Resolved, Floor and Close.
type Input struct {
	sorter *Sorter
	span   span.Span
	from   tso.TS

	// Guarded by Sorter.mu; resolved and gone are written under both locks.
	resolved tso.TS
	gone     bool
	floor    tso.TS // every reader has forgotten what is at or below it
	closed   closed
	runs     []*run
	seats    []*seat

	// mu is taken before Sorter.mu. It lets spans sort side by side.
	mu      sync.Mutex
	blocks  []block // in the order in which they came: by epoch
	scratch scratch // reused from one resolved-ts to the next
}

// scratch is memory for sorting.
type scratch struct {
	entries, spare []entry
	starts         []int
}

// scratchMax is the largest scratch to keep, in entries: 768 KiB twice a span are
// enough for the rows between two resolved-ts; a catch-up needs more, but only once.
const scratchMax = 32 << 10

// sortUnique sorts entries, which are the scratch's, and leaves out rows that
// stand twice; what those cost is doubled.
func (s *scratch) sortUnique(entries []entry) (unique []entry, doubled int64) {
	entries, s.spare, s.starts = order(entries, s.spare, s.starts)
	s.entries = entries
	unique = entries[:0]
	for i, e := range entries {
		if i > 0 && e.compare(unique[len(unique)-1]) == 0 {
			doubled += cost(e.row)
			continue
		}
		unique = append(unique, e)
	}
	return unique, doubled
}

// done forgets the n rows that were sorted.
func (s *scratch) done(n int) {
	if max(cap(s.entries), cap(s.spare)) > scratchMax {
		*s = scratch{}
		return
	}
	clear(s.entries[:min(n, cap(s.entries))])
	clear(s.spare[:min(n, cap(s.spare))])
}

// block is one Add's rows. Those at or below the input's resolved-ts are closed
// and stand in a chunk as well.
type block struct {
	rows        []event.RawKV
	epoch       uint64
	bytes       int64  // of the rows that are not closed yet
	least, most tso.TS // commit-ts of those
}

func newBlock(rows []event.RawKV) block {
	b := block{rows: rows, least: tso.Max}
	for i := range rows {
		b.count(&rows[i])
	}
	return b
}

func (b *block) count(r *event.RawKV) {
	b.least = min(b.least, r.CommitTS)
	b.most = max(b.most, r.CommitTS)
	b.bytes += cost(r)
}

// entry is a row and what most comparisons need of it.
type entry struct {
	commit, start tso.TS
	row           *event.RawKV
}

const (
	// rowCost is what a row costs beside its bytes: its RawKV and its entry, and
	// what the wire adds to its PREWRITE and its COMMIT.
	rowCost = 96 + 24 + 2*40
	// shortMax is the longest value that TiKV repeats in a COMMIT.
	shortMax = 255
)

// cost is what a row keeps alive, in bytes. Its bytes alias the messages that
// brought them: the COMMIT's with key and short value; the PREWRITE's too, with
// key and value, where it has the old value or the only copy of a long one.
func cost(r *event.RawKV) int64 {
	c := rowCost + 2*len(r.Key) + len(r.Value) + len(r.Old)
	if len(r.Old) > 0 && len(r.Value) <= shortMax {
		c += len(r.Value)
	}
	return int64(c)
}

func entryOf(r *event.RawKV) entry { return entry{r.CommitTS, r.StartTS, r} }

func (e entry) compare(o entry) int {
	if c := cmp.Compare(e.commit, o.commit); c != 0 {
		return c
	}
	if c := cmp.Compare(e.start, o.start); c != 0 {
		return c
	}
	return bytes.Compare(e.row.Key, o.row.Key)
}

// Add takes rows in any order and then, unless it is zero or no advance, the
// span's resolved-ts: no row at or below it is still to come. The slice and all
// bytes in it belong to the sorter from then on. It blocks while there is no
// room; see the package. After an error the input must be closed.
func (in *Input) Add(ctx context.Context, rows []event.RawKV, resolved tso.TS) error {
	b := newBlock(rows)
	var err error
	if b.epoch, err = in.sorter.admit(ctx, b.bytes); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(rows) > 0 {
		if err := in.takeLocked(b); err != nil {
			return err
		}
	}
	if resolved <= in.resolved || in.gone {
		return nil
	}
	chunks, doubled := in.closeLocked(resolved)
	in.publish(chunks, doubled, resolved)
	return nil
}

// takeLocked keeps the block, or its wanted part.
func (in *Input) takeLocked(b block) error {
	if in.gone {
		in.sorter.refund(b.bytes)
		return nil
	}
	if b.least <= in.resolved {
		rows, err := in.late(b.rows)
		kept := newBlock(rows)
		kept.epoch = b.epoch
		in.sorter.refund(b.bytes - kept.bytes)
		if err != nil || len(rows) == 0 {
			return err
		}
		b = kept
	}
	in.blocks = append(in.blocks, b)
	return nil
}

// closeLocked sorts everything in (in.resolved, upto] out of the blocks, once.
// doubled is what rows that came twice had cost.
func (in *Input) closeLocked(upto tso.TS) (chunks []*chunk, doubled int64) {
	found := in.scratch.entries[:0]
	kept := in.blocks[:0]
	epoch := uint64(0)
	for _, b := range in.blocks {
		if b.least > upto {
			kept = append(kept, b)
			continue
		}
		if len(found) == 0 {
			epoch = b.epoch
		}
		rest := block{rows: b.rows, epoch: b.epoch, least: tso.Max}
		for i := range b.rows {
			r := &b.rows[i]
			switch {
			case r.CommitTS > upto:
				rest.count(r)
			case r.CommitTS > in.resolved:
				found = append(found, entryOf(r))
			}
		}
		if b.most > upto {
			kept = append(kept, rest)
		}
	}
	clear(in.blocks[len(kept):])
	in.blocks = kept
	unique, doubled := in.scratch.sortUnique(found)
	chunks = cut(unique, epoch)
	in.scratch.done(len(found))
	return chunks, doubled
}

// publish makes rows that the input has closed readable, and moves its resolved-ts.
func (in *Input) publish(chunks []*chunk, doubled int64, resolved tso.TS) {
	s := in.sorter
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= doubled
	if len(chunks) > 0 {
		in.closed.chunks = append(in.closed.chunks, chunks...)
		s.used -= in.closed.forget(in.floor)
		in.holdLocked()
	}
	before := in.resolved
	in.resolved = resolved
	for _, t := range in.seats {
		t.reader.raisedLocked(t, before)
	}
}

// holdLocked tells the readers that there may be something to read.
func (in *Input) holdLocked() {
	for _, t := range in.seats {
		t.reader.holdLocked(t)
	}
}

// trimLocked frees what every reader has forgotten.
func (in *Input) trimLocked() {
	if len(in.seats) == 0 {
		return // whoever took the last one away closes the input
	}
	floor := tso.Max
	for _, t := range in.seats {
		floor = min(floor, t.position())
	}
	if floor <= in.floor {
		return
	}
	in.floor = floor
	in.sorter.used -= in.closed.forget(floor)
	in.runs = slices.DeleteFunc(in.runs, func(r *run) bool {
		if r.most > floor {
			return false
		}
		r.drop()
		return true
	})
}

// late sorts out rows at or below what is closed: one that was seen, or that
// nobody waits for any more, is dropped; any other breaks P4. The rest is kept.
func (in *Input) late(rows []event.RawKV) ([]event.RawKV, error) {
	s := in.sorter
	s.mu.Lock()
	floor := min(in.floor, in.resolved)
	var unseen []event.RawKV
	rows = slices.DeleteFunc(rows, func(r event.RawKV) bool {
		if r.CommitTS > in.resolved {
			return false
		}
		if r.CommitTS > floor && !in.closed.holds(&r) {
			unseen = append(unseen, r)
		}
		return true
	})
	runs := slices.Clone(in.runs)
	for _, r := range runs {
		r.segment.use()
	}
	s.mu.Unlock()
	defer func() {
		for _, r := range runs {
			r.segment.leave()
		}
		s.sweep()
	}()
	for i := range unseen {
		bad := &unseen[i]
		seen, err := onDisk(runs, bad)
		if err != nil {
			return nil, err
		}
		if !seen {
			return nil, cdcerr.ResolvedTsRegressed.New("key %X, start-ts %d, commit-ts %d came after %v was resolved up to %d",
				bad.Key, bad.StartTS, bad.CommitTS, in.span, in.resolved)
		}
	}
	return rows, nil
}

// Resolved is the input's resolved-ts.
func (in *Input) Resolved() tso.TS {
	in.sorter.mu.Lock()
	defer in.sorter.mu.Unlock()
	return in.resolved
}

// Floor is up to where rows are gone: a reader can begin at it, not below.
func (in *Input) Floor() tso.TS {
	in.sorter.mu.Lock()
	defer in.sorter.mu.Unlock()
	return in.floor
}

// Close drops all rows. Later ones are ignored. Readers that still sit at it
// cannot read any more.
func (in *Input) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.sorter
	s.mu.Lock()
	if in.gone {
		s.mu.Unlock()
		return
	}
	in.gone = true
	delete(s.inputs, in)
	for _, b := range in.blocks {
		s.used -= b.bytes
	}
	s.used -= in.closed.forget(tso.Max)
	for _, r := range in.runs {
		r.drop()
	}
	in.runs = nil
	for _, t := range in.seats {
		t.reader.broken = in
	}
	s.wakeLocked()
	s.mu.Unlock()
	in.blocks, in.scratch = nil, scratch{}
	s.sweep()
}
