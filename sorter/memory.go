package sorter

import (
	"container/heap"
	"context"
	"slices"
	"sync"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Memory is a Sorter that holds everything in memory.
type Memory struct {
	quota    int64
	advanced chan struct{} // one token: a reader that takes it looks at everything

	mu        sync.Mutex
	inputs    map[span.Span]*input
	lowest    lowest              // the open inputs by resolved-ts
	holding   map[*input]struct{} // those with closed rows
	used      int64
	readable  tso.TS
	forgotten tso.TS
	freed     chan struct{} // closed when somebody who waits should look again; nil while nobody waits
}

// NewMemory makes a Sorter with a quota in bytes.
func NewMemory(quota int64) *Memory {
	return &Memory{
		quota:    quota,
		advanced: make(chan struct{}, 1),
		inputs:   make(map[span.Span]*input),
		holding:  make(map[*input]struct{}),
	}
}

// Open implements Sorter.
func (m *Memory) Open(s span.Span, from tso.TS) (Input, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, open := m.inputs[s]; open {
		return nil, cdcerr.Bug("sorter: %v is open already", s)
	}
	in := &input{in: m, span: s, from: from, resolved: from}
	m.inputs[s] = in
	heap.Push(&m.lowest, in)
	m.wakeLocked()
	return in, nil
}

// Resolved implements Sorter.
func (m *Memory) Resolved() tso.TS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resolvedLocked()
}

func (m *Memory) resolvedLocked() tso.TS {
	if len(m.lowest) == 0 {
		return tso.Max
	}
	return m.lowest[0].resolved
}

// Advanced implements Sorter.
func (m *Memory) Advanced() <-chan struct{} { return m.advanced }

// Used implements Sorter.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Readable implements Sorter.
func (m *Memory) Readable(upto tso.TS) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readable = upto
	m.wakeLocked()
}

// Forget implements Sorter.
func (m *Memory) Forget(upto tso.TS) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if upto <= m.forgotten {
		return
	}
	m.forgotten = upto
	for in := range m.holding {
		m.used -= in.closed.forget(upto)
		if in.closed.empty() {
			delete(m.holding, in)
		}
	}
	m.wakeLocked()
}

// Fetch implements Sorter.
func (m *Memory) Fetch(lower, upper tso.TS, of ...span.Span) (Iterator, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lower < m.forgotten || upper < lower {
		return nil, cdcerr.Bug("sorter: fetch of (%d, %d] when all up to %d is forgotten", lower, upper, m.forgotten)
	}
	if len(of) == 0 && upper > lower && upper > m.resolvedLocked() {
		return nil, cdcerr.Bug("sorter: fetch up to %d, but %v is resolved up to %d only", upper, m.lowest[0].span, m.lowest[0].resolved)
	}
	var parts []cursor
	if len(of) == 0 {
		for in := range m.holding { // in any order: the merge orders rows of different spans
			parts = in.closed.between(parts, lower, upper)
		}
	}
	for _, s := range of {
		in, open := m.inputs[s]
		if !open || upper > in.resolved {
			return nil, cdcerr.Bug("sorter: fetch of (%d, %d] of %v, which is not open or not resolved so far", lower, upper, s)
		}
		parts = in.closed.between(parts, lower, upper)
	}
	return newMerge(parts), nil
}

// admit waits until size bytes may come in, and counts them.
func (m *Memory) admit(ctx context.Context, size int64) error {
	m.mu.Lock()
	for size > 0 && m.used > m.quota && m.canFreeLocked() {
		if m.freed == nil {
			m.freed = make(chan struct{})
		}
		freed := m.freed
		m.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m.mu.Lock()
	}
	m.used += size
	m.mu.Unlock()
	return nil
}

// canFreeLocked tells whether the reader can give anything up as things stand.
func (m *Memory) canFreeLocked() bool {
	bound := min(m.readable, m.resolvedLocked())
	for in := range m.holding {
		if in.closed.first() <= bound {
			return true
		}
	}
	return false
}

func (m *Memory) wakeLocked() {
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}

// publish makes rows that an input has closed readable, and moves its resolved-ts.
func (m *Memory) publish(in *input, chunks []chunk, doubled int64, resolved tso.TS) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= doubled
	if len(chunks) > 0 {
		in.closed.chunks = append(in.closed.chunks, chunks...)
		m.holding[in] = struct{}{}
	}
	before := m.resolvedLocked()
	in.resolved = resolved
	heap.Fix(&m.lowest, in.at)
	if m.resolvedLocked() > before {
		m.tell()
	}
}

func (m *Memory) tell() {
	select {
	case m.advanced <- struct{}{}:
	default: // a token is there already
	}
}

// drop takes an input out, with what it has closed.
func (m *Memory) drop(in *input) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if in.gone {
		return
	}
	in.gone = true
	before := m.resolvedLocked()
	delete(m.inputs, in.span)
	delete(m.holding, in)
	heap.Remove(&m.lowest, in.at)
	m.used -= in.closed.forget(tso.Max)
	m.wakeLocked()
	if m.resolvedLocked() > before {
		m.tell()
	}
}

// late sorts out rows at or below what is closed: one that was seen, or that
// nobody waits for any more, is dropped; any other breaks P4.
func (m *Memory) late(in *input, rows []event.RawKV) ([]event.RawKV, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	floor := max(in.from, min(m.forgotten, in.resolved))
	var bad *event.RawKV
	rows = slices.DeleteFunc(rows, func(r event.RawKV) bool {
		if r.CommitTS > in.resolved {
			return false
		}
		if r.CommitTS > floor && !in.closed.holds(&r) {
			bad = &event.RawKV{CommitTS: r.CommitTS, StartTS: r.StartTS, Key: r.Key}
		}
		return true
	})
	if bad != nil {
		return nil, cdcerr.ResolvedTsRegressed.New("key %X, start-ts %d, commit-ts %d came after %v was resolved up to %d",
			bad.Key, bad.StartTS, bad.CommitTS, in.span, in.resolved)
	}
	return rows, nil
}

// lowest is a heap of inputs by resolved-ts.
type lowest []*input

func (h lowest) Len() int           { return len(h) }
func (h lowest) Less(i, j int) bool { return h[i].resolved < h[j].resolved }
func (h lowest) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *lowest) Push(x any) {
	in := x.(*input)
	in.at = len(*h)
	*h = append(*h, in)
}
func (h *lowest) Pop() any {
	old := *h
	in := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return in
}
