// Package sortertest owns the suite that every sorter passes: random rows, late
// and doubled ones, spans that come and go, reads that stop half way, all held to
// a twin that is too simple to be wrong. It starts no goroutine.
package sortertest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Run checks the sorters that open makes. Each gets a quota far above what the
// suite puts in.
func Run(t *testing.T, open func(t testing.TB) sorter.Sorter) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{s: open(t), twin: make(map[int64]*twin)}
		for id := range int64(rapid.IntRange(1, 3).Draw(rt, "spans")) {
			m.start(rt, id+1, 0)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"open":    m.open,
			"add":     m.add,
			"late":    m.late,
			"resolve": m.resolve,
			"fetch":   m.fetch,
			"forget":  m.forget,
			"close":   m.close,
			"":        m.check,
		})
	})
}

// model is a sorter beside its twin.
type model struct {
	s         sorter.Sorter
	twin      map[int64]*twin
	forgotten tso.TS
}

// twin is what a span should hold: every row ever given, in no order.
type twin struct {
	in             sorter.Input
	from, resolved tso.TS
	rows           map[string]event.RawKV
}

func (m *model) ids() []int64 {
	var ids []int64
	for id := range m.twin {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (m *model) resolved() tso.TS {
	least := tso.Max
	for _, w := range m.twin {
		least = min(least, w.resolved)
	}
	return least
}

func (m *model) pick(t *rapid.T) (int64, *twin) {
	ids := m.ids()
	if len(ids) == 0 {
		t.Skip("no span is open")
	}
	id := rapid.SampledFrom(ids).Draw(t, "span")
	return id, m.twin[id]
}

func (m *model) open(t *rapid.T) {
	id := rapid.Int64Range(1, 4).Draw(t, "span")
	if m.twin[id] != nil {
		if _, err := m.s.Open(span.OfTable(id), m.forgotten); err == nil {
			t.Fatal("a span was opened twice")
		}
		return
	}
	m.start(t, id, m.forgotten+tso.TS(rapid.IntRange(0, 5).Draw(t, "from")))
}

func (m *model) start(t *rapid.T, id int64, from tso.TS) {
	in, err := m.s.Open(span.OfTable(id), from)
	if err != nil {
		t.Fatal(err)
	}
	m.twin[id] = &twin{in: in, from: from, resolved: from, rows: make(map[string]event.RawKV)}
}

// add gives rows above the resolved-ts, some of them again, and at times a new resolved-ts.
func (m *model) add(t *rapid.T) {
	_, w := m.pick(t)
	var rows []event.RawKV
	for range rapid.IntRange(0, 6).Draw(t, "rows") {
		commit := w.resolved + tso.TS(rapid.IntRange(1, 8).Draw(t, "commit"))
		rows = append(rows, row(commit, commit-tso.TS(rapid.IntRange(1, 3).Draw(t, "start")), rapid.IntRange(0, 3).Draw(t, "key")))
	}
	if len(rows) > 0 && rapid.Bool().Draw(t, "again") {
		rows = append(rows, rapid.SampledFrom(rows).Draw(t, "which"))
	}
	for _, r := range rows {
		w.rows[name(r)] = r
	}
	resolved := tso.TS(0)
	if rapid.Bool().Draw(t, "resolves") {
		resolved = w.resolved + tso.TS(rapid.IntRange(0, 12).Draw(t, "by"))
	}
	if err := w.in.Add(context.Background(), rows, resolved); err != nil {
		t.Fatal(err)
	}
	w.resolved = max(w.resolved, resolved)
}

// late gives a row at or below the resolved-ts: one that was seen, one that is
// below what matters, or one that must not exist. It brings a new row with it,
// which must not be lost.
func (m *model) late(t *rapid.T) {
	id, w := m.pick(t)
	low := max(1, int(w.from)-2)
	if low > int(w.resolved) {
		t.Skip("nothing is closed")
	}
	commit := tso.TS(rapid.IntRange(low, int(w.resolved)).Draw(t, "commit"))
	r := row(commit, commit-1, rapid.IntRange(0, 3).Draw(t, "key"))
	fresh := row(w.resolved+1, w.resolved, 9)
	err := w.in.Add(context.Background(), []event.RawKV{r, fresh}, 0)
	_, seen := w.rows[name(r)]
	if !seen && commit > w.from && commit > min(m.forgotten, w.resolved) {
		if !cdcerr.ResolvedTsRegressed.Is(err) {
			t.Fatalf("a row nobody saw, at or below the resolved-ts %d: %v", w.resolved, err)
		}
		w.in.Close() // the feed has failed
		delete(m.twin, id)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	w.rows[name(fresh)] = fresh
}

// resolve lets every span catch up with one ts, as a quiet cluster does.
func (m *model) resolve(t *rapid.T) {
	_, w := m.pick(t)
	to := w.resolved + tso.TS(rapid.IntRange(0, 12).Draw(t, "by"))
	for _, id := range m.ids() {
		if err := m.twin[id].in.Add(context.Background(), nil, to); err != nil {
			t.Fatal(err)
		}
		m.twin[id].resolved = max(m.twin[id].resolved, to)
	}
}

// fetch reads a range, of all spans or of some, to its end or half of it.
func (m *model) fetch(t *rapid.T) {
	ids := m.ids()
	var of []span.Span
	if len(ids) > 0 && rapid.Bool().Draw(t, "some") {
		ids = rapid.Permutation(ids).Draw(t, "order")[:rapid.IntRange(1, len(ids)).Draw(t, "spans")]
		for _, id := range ids {
			of = append(of, span.OfTable(id))
		}
	}
	top := m.forgotten + 30
	for _, id := range ids {
		top = min(top, m.twin[id].resolved)
	}
	lower := m.forgotten + tso.TS(rapid.IntRange(0, 3).Draw(t, "above"))
	if top < lower {
		t.Skip("nothing to read")
	}
	upper := top - tso.TS(rapid.IntRange(0, int(top-lower)).Draw(t, "short"))
	it, err := m.s.Fetch(lower, upper, of...)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var want []event.RawKV
	for _, id := range ids {
		for _, r := range m.twin[id].rows {
			if r.CommitTS > lower && r.CommitTS <= upper && r.CommitTS > m.twin[id].from {
				want = append(want, r)
			}
		}
	}
	slices.SortFunc(want, func(a, b event.RawKV) int {
		if a.Less(&b) {
			return -1
		}
		return 1
	})
	compare(t, it, want, rapid.IntRange(1, 5).Draw(t, "batch"), rapid.Bool().Draw(t, "half"))
}

func compare(t *rapid.T, it sorter.Iterator, want []event.RawKV, batch int, half bool) {
	dst := make([]*event.RawKV, batch)
	for got := 0; ; {
		n, err := it.Next(dst)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range dst[:n] {
			if got >= len(want) {
				t.Fatalf("row %s too many", name(*r))
			}
			if name(*r) != name(want[got]) || !bytes.Equal(r.Value, want[got].Value) {
				t.Fatalf("row %d of %d is %s, want %s", got, len(want), name(*r), name(want[got]))
			}
			got++
		}
		if n < batch {
			if got != len(want) {
				t.Fatalf("%d rows, want %d", got, len(want))
			}
			return
		}
		if half {
			return
		}
	}
}

func (m *model) forget(t *rapid.T) {
	if len(m.twin) == 0 {
		t.Skip("no span is open")
	}
	to := m.forgotten + tso.TS(rapid.IntRange(0, 10).Draw(t, "by"))
	to = min(to, m.resolved())
	m.s.Forget(to)
	if to > m.forgotten+1 {
		if _, err := m.s.Fetch(to-1, to); err == nil {
			t.Fatal("what was forgotten could be read")
		}
	}
	m.forgotten = max(m.forgotten, to)
}

func (m *model) close(t *rapid.T) {
	id, w := m.pick(t)
	w.in.Close()
	w.in.Close()
	delete(m.twin, id)
	if err := w.in.Add(context.Background(), []event.RawKV{row(w.resolved+1, 1, 1)}, w.resolved+1); err != nil {
		t.Fatalf("a closed span must ignore its rows: %v", err)
	}
}

// check holds between any two steps.
func (m *model) check(t *rapid.T) {
	if got := m.s.Resolved(); got != m.resolved() {
		t.Fatalf("resolved %d, want %d", got, m.resolved())
	}
	held := false
	for _, w := range m.twin {
		if w.in.Resolved() != w.resolved {
			t.Fatalf("a span is resolved to %d, want %d", w.in.Resolved(), w.resolved)
		}
		if w.resolved < m.forgotten+30 {
			if _, err := m.s.Fetch(m.forgotten, w.resolved+1); err == nil && w.resolved+1 > m.forgotten {
				t.Fatalf("rows above the resolved-ts %d could be read", w.resolved)
			}
		}
		for _, r := range w.rows {
			held = held || r.CommitTS > max(m.forgotten, w.from)
		}
	}
	if used := m.s.Used(); used < 0 || !held && used != 0 {
		t.Fatalf("%d bytes in use; rows are held: %v", used, held)
	}
}

func row(commit, start tso.TS, key int) event.RawKV {
	return event.RawKV{
		Op: event.Put, CommitTS: commit, StartTS: start,
		Key: fmt.Appendf(nil, "key%d", key), Value: fmt.Appendf(nil, "%d/%d/%d", commit, start, key),
	}
}

func name(r event.RawKV) string { return fmt.Sprintf("%d/%d/%s", r.CommitTS, r.StartTS, r.Key) }
