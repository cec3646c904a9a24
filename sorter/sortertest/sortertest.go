// Package sortertest owns the suite that every sorter passes: random rows, late
// and doubled ones, inputs and readers that come, go and change places, reads
// that stop half way, and faults, all held to a twin that is too simple to be
// wrong. It starts no goroutine.
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

// World is a sorter for one run of the suite.
type World struct {
	Sorter *sorter.Sorter
	// Memory is how much it may hold in memory, or a single Add if that is larger.
	// A sorter without a place on disk has no such bound: zero.
	Memory int64
	// Faulty says that reading and writing may fail with SorterIO or DiskFull.
	Faulty bool
}

// Run checks the sorters that open makes.
func Run(t *testing.T, open func(*rapid.T) World) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{World: open(rt), rows: map[int64][]event.RawKV{}, top: map[int64]tso.TS{}}
		m.newReader(rt)
		for id := range int64(rapid.IntRange(1, 3).Draw(rt, "spans")) {
			in := m.begin(id+1, 0)
			m.sit(rt, m.readers[0], in, 0)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"new input":    m.newInput,
			"new reader":   m.newReader,
			"attach":       m.attach,
			"detach":       m.detach,
			"swap":         m.swap,
			"append":       m.emit, // the first by name, tried most: it is always possible
			"deliver":      m.deliver,
			"late":         m.late,
			"resolve":      m.resolve,
			"resolve all":  m.resolveAll,
			"fetch":        m.fetch,
			"fetch again":  m.fetch,
			"forget":       m.forget,
			"close input":  m.closeInput,
			"close reader": m.closeReader,
			"":             m.check,
		})
		m.end(rt)
	})
}

// model is a sorter beside its twin.
type model struct {
	World
	rows    map[int64][]event.RawKV // of each table: what upstream holds
	top     map[int64]tso.TS        // of each table: nothing new at or below it
	inputs  []*input
	readers []*reader
	largest int64 // Add so far, in bytes, roughly
}

type input struct {
	*sorter.Input
	id             int64
	from, resolved tso.TS
	floor          tso.TS // as the sorter last said
	given          map[string]bool
}

type reader struct {
	*sorter.Reader
	forgotten, fetched tso.TS
	seats              map[*input]tso.TS // from
}

func (r *reader) resolved() tso.TS {
	least := tso.Max
	for in := range r.seats {
		least = min(least, in.resolved)
	}
	return least
}

func (r *reader) sits(id int64) *input {
	for in := range r.seats {
		if in.id == id {
			return in
		}
	}
	return nil
}

func (m *model) begin(id int64, from tso.TS) *input {
	in := &input{Input: m.Sorter.NewInput(span.OfTable(id), from), id: id, from: from, resolved: from, floor: from, given: map[string]bool{}}
	m.inputs = append(m.inputs, in)
	return in
}

func (m *model) newInput(t *rapid.T) {
	if len(m.inputs) > 6 {
		t.Skip("inputs enough")
	}
	id := rapid.Int64Range(1, 4).Draw(t, "table")
	m.begin(id, tso.TS(rapid.IntRange(0, int(m.top[id])+3).Draw(t, "from")))
}

func (m *model) newReader(t *rapid.T) {
	if len(m.readers) > 3 {
		t.Skip("readers enough")
	}
	m.readers = append(m.readers, &reader{Reader: m.Sorter.NewReader(), seats: map[*input]tso.TS{}})
}

func (m *model) pick(t *rapid.T) *input {
	if len(m.inputs) == 0 {
		t.Skip("no input")
	}
	return rapid.SampledFrom(m.inputs).Draw(t, "input")
}

func (m *model) pickReader(t *rapid.T) *reader {
	if len(m.readers) == 0 {
		t.Skip("no reader")
	}
	return rapid.SampledFrom(m.readers).Draw(t, "reader")
}

func (m *model) attach(t *rapid.T) {
	r, in := m.pickReader(t), m.pick(t)
	if o := r.sits(in.id); o != nil && o != in {
		t.Skip("a span is read once")
	}
	m.sit(t, r, in, tso.TS(rapid.IntRange(0, int(in.resolved)+3).Draw(t, "from")))
}

func (m *model) sit(t *rapid.T, r *reader, in *input, from tso.TS) {
	_, there := r.seats[in]
	want := !there && max(from, r.forgotten) >= in.Floor()
	if got := r.Attach(in.Input, from); got != want {
		t.Fatalf("attached: %v, want %v; floor %d", got, want, in.floor)
	}
	if want {
		r.seats[in] = from
	}
}

func (m *model) detach(t *rapid.T) {
	r, in := m.pickReader(t), m.pick(t)
	r.Detach(in.Input)
	delete(r.seats, in)
}

// swap moves a reader to another input of the same span, if it can.
func (m *model) swap(t *rapid.T) {
	r, to := m.pickReader(t), m.pick(t)
	from := r.sits(to.id)
	if from == nil {
		t.Skip("not there")
	}
	at := r.seats[from]
	want := from != to && to.Floor() <= max(at, r.forgotten) && to.resolved >= r.fetched
	if got := r.Swap(from.Input, to.Input); got != want {
		t.Fatalf("swapped: %v, want %v", got, want)
	}
	if want {
		delete(r.seats, from)
		r.seats[to] = at
	}
}

// emit makes new rows upstream, above what any input was told to be complete.
func (m *model) emit(t *rapid.T) {
	id := rapid.Int64Range(1, 4).Draw(t, "table")
	for range rapid.IntRange(1, 8).Draw(t, "rows") {
		commit := m.top[id] + tso.TS(rapid.IntRange(1, 8).Draw(t, "commit"))
		r := row(id, commit, commit-tso.TS(rapid.IntRange(0, 3).Draw(t, "start")), rapid.IntRange(0, 3).Draw(t, "key"))
		if !slices.ContainsFunc(m.rows[id], func(o event.RawKV) bool { return name(o) == name(r) }) {
			m.rows[id] = append(m.rows[id], r)
		}
	}
}

// deliver gives an input some rows above its resolved-ts, some of them again.
func (m *model) deliver(t *rapid.T) {
	in := m.pick(t)
	var rows []event.RawKV
	for _, r := range m.rows[in.id] {
		if r.CommitTS > in.resolved && rapid.Bool().Draw(t, "this") {
			rows = append(rows, r)
		}
	}
	if len(rows) > 0 && rapid.Bool().Draw(t, "again") {
		rows = append(rows, rapid.SampledFrom(rows).Draw(t, "which"))
	}
	m.add(t, in, rows, 0)
}

// add gives rows and a resolved-ts; false when a fault has ended the input.
func (m *model) add(t *rapid.T, in *input, rows []event.RawKV, resolved tso.TS) bool {
	for _, r := range rows {
		in.given[name(r)] = true
	}
	m.measure(rows)
	err := in.Add(context.Background(), slices.Clone(rows), resolved)
	if err != nil {
		m.fault(t, err)
		m.lose(in)
		return false
	}
	in.resolved = max(in.resolved, resolved)
	m.top[in.id] = max(m.top[in.id], resolved)
	if used := m.Sorter.Used().Memory; m.Memory > 0 && used > max(m.Memory, m.largest) {
		t.Fatalf("%d bytes in memory, may hold %d, or one Add of at most %d", used, m.Memory, m.largest)
	}
	return true
}

// measure notes the size of an Add, as large as it may be counted.
func (m *model) measure(rows []event.RawKV) {
	size := int64(0)
	for i := range rows {
		size += 200 + 2*rows[i].Size()
	}
	m.largest = max(m.largest, size)
}

// fault passes an error that may be.
func (m *model) fault(t *rapid.T, err error) {
	if !m.Faulty || !cdcerr.SorterIO.Is(err) && !cdcerr.DiskFull.Is(err) || cdcerr.Fate(err) != cdcerr.Retry {
		t.Fatal(err)
	}
}

// lose ends an input and all that read it, as whoever pulls it does.
func (m *model) lose(in *input) {
	for _, r := range slices.Clone(m.readers) {
		if _, sits := r.seats[in]; sits {
			m.loseReader(r)
		}
	}
	in.Close()
	m.inputs = slices.DeleteFunc(m.inputs, func(o *input) bool { return o == in })
}

func (m *model) loseReader(r *reader) {
	r.Close()
	m.readers = slices.DeleteFunc(m.readers, func(o *reader) bool { return o == r })
}

// resolve completes an input up to a ts.
func (m *model) resolve(t *rapid.T) {
	m.raise(t, m.pick(t), tso.TS(rapid.IntRange(0, 12).Draw(t, "by")))
}

func (m *model) raise(t *rapid.T, in *input, by tso.TS) {
	to := in.resolved + by
	var rows []event.RawKV
	for _, r := range m.rows[in.id] {
		if r.CommitTS > in.resolved && r.CommitTS <= to && !in.given[name(r)] {
			rows = append(rows, r)
		}
	}
	m.add(t, in, rows, to)
}

// resolveAll lets every input catch up with one ts, as a quiet cluster does.
func (m *model) resolveAll(t *rapid.T) {
	in := m.pick(t)
	to := in.resolved + tso.TS(rapid.IntRange(0, 12).Draw(t, "by"))
	for _, in := range slices.Clone(m.inputs) {
		if to > in.resolved {
			m.raise(t, in, to-in.resolved)
		}
	}
}

// late gives a row at or below the resolved-ts: one that was seen, one that is
// below what matters, or one that must not exist. It brings a new row with it,
// which must not be lost.
func (m *model) late(t *rapid.T) {
	in := m.pick(t)
	low := max(1, int(in.from)-2)
	if low > int(in.resolved) {
		t.Skip("nothing is closed")
	}
	commit := tso.TS(rapid.IntRange(low, int(in.resolved)).Draw(t, "commit"))
	r := row(in.id, commit, commit-1, rapid.IntRange(0, 3).Draw(t, "key"))
	rows := []event.RawKV{r}
	for _, o := range m.rows[in.id] {
		if o.CommitTS > in.resolved {
			rows = append(rows, o)
			in.given[name(o)] = true
			break
		}
	}
	m.measure(rows)
	err := in.Add(context.Background(), rows, 0)
	exists := slices.ContainsFunc(m.rows[in.id], func(o event.RawKV) bool { return name(o) == name(r) })
	switch {
	case err == nil && !exists && commit > min(in.floor, in.resolved):
		t.Fatalf("a row that nobody saw was taken at or below the resolved-ts %d", in.resolved)
	case cdcerr.ResolvedTsRegressed.Is(err):
		if exists || commit <= min(in.floor, in.resolved) {
			t.Fatal(err)
		}
		m.lose(in)
	case err != nil:
		m.fault(t, err)
		m.lose(in)
	}
}

// fetch reads a range to its end or half of it.
func (m *model) fetch(t *rapid.T) {
	r := m.pickReader(t)
	top := min(r.resolved(), r.forgotten+30)
	lower := r.forgotten + tso.TS(rapid.IntRange(0, 3).Draw(t, "above"))
	if top < lower {
		t.Skip("nothing to read")
	}
	upper := top - tso.TS(rapid.IntRange(0, int(top-lower)).Draw(t, "short"))
	it, err := r.Fetch(lower, upper)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	r.fetched = max(r.fetched, upper)
	var want []event.RawKV
	for in, from := range r.seats {
		for _, o := range m.rows[in.id] {
			if o.CommitTS > max(lower, from) && o.CommitTS <= upper {
				want = append(want, o)
			}
		}
	}
	slices.SortFunc(want, func(a, b event.RawKV) int {
		if a.Less(&b) {
			return -1
		}
		return 1
	})
	if err := compare(t, it, want, rapid.IntRange(1, 5).Draw(t, "batch"), rapid.Bool().Draw(t, "half")); err != nil {
		m.fault(t, err)
		m.loseReader(r)
	}
}

func compare(t *rapid.T, it *sorter.Iterator, want []event.RawKV, batch int, half bool) error {
	dst := make([]*event.RawKV, batch)
	for got := 0; ; {
		n, err := it.Next(dst)
		if err != nil {
			return err
		}
		for _, r := range dst[:n] {
			if got >= len(want) {
				t.Fatalf("row %s too many", name(*r))
			}
			w := want[got]
			if name(*r) != name(w) || r.Op != w.Op || !bytes.Equal(r.Value, w.Value) || !bytes.Equal(r.Old, w.Old) {
				t.Fatalf("row %d of %d is %s, want %s", got, len(want), name(*r), name(w))
			}
			got++
		}
		if n < batch {
			if got != len(want) {
				t.Fatalf("%d rows, want %d", got, len(want))
			}
			return nil
		}
		if half {
			return nil
		}
	}
}

func (m *model) forget(t *rapid.T) {
	r := m.pickReader(t)
	to := r.forgotten + tso.TS(rapid.IntRange(0, 10).Draw(t, "by"))
	to = min(to, r.resolved())
	r.Forget(to)
	if to > r.forgotten+1 {
		if _, err := r.Fetch(to-1, to); err == nil {
			t.Fatal("what was forgotten could be read")
		}
	}
	r.forgotten = max(r.forgotten, to)
}

func (m *model) closeReader(t *rapid.T) {
	if len(m.readers) < 2 {
		t.Skip("one is to stay")
	}
	m.loseReader(m.pickReader(t))
}

// closeInput ends an input that nobody reads, or that somebody still does.
func (m *model) closeInput(t *rapid.T) {
	in := m.pick(t)
	in.Close()
	in.Close()
	for _, r := range m.readers {
		if _, sits := r.seats[in]; !sits {
			continue
		}
		if _, err := r.Fetch(r.forgotten, r.forgotten); err == nil {
			t.Fatal("a reader goes on without an input of its")
		}
	}
	m.lose(in)
	if err := in.Add(context.Background(), []event.RawKV{row(in.id, in.resolved+1, 1, 1)}, in.resolved+1); err != nil {
		m.fault(t, err)
	}
}

// check holds between any two steps.
func (m *model) check(t *rapid.T) {
	held := false
	for _, in := range m.inputs {
		m.checkInput(t, in)
		held = held || len(in.given) > 0
	}
	for _, r := range m.readers {
		resolved := r.resolved()
		if got := r.Reader.Resolved(); got != resolved {
			t.Fatalf("resolved %d, want %d", got, resolved)
		}
		if resolved != tso.Max {
			if _, err := r.Fetch(min(r.forgotten, resolved), resolved+1); err == nil {
				t.Fatalf("rows above the resolved-ts %d could be read", resolved)
			}
		}
	}
	if used := m.Sorter.Used(); used.Memory < 0 || used.Disk < 0 || !held && used.Memory != 0 {
		t.Fatalf("%+v in use; rows are held: %v", used, held)
	}
}

// checkInput holds an input to what its readers have forgotten: the floor may
// lag behind that, where nothing is held, but must not be above.
func (m *model) checkInput(t *rapid.T, in *input) {
	if got := in.Input.Resolved(); got != in.resolved {
		t.Fatalf("an input is resolved to %d, want %d", got, in.resolved)
	}
	least := tso.Max // without a reader: of those that have just left
	for _, r := range m.readers {
		if from, sits := r.seats[in]; sits {
			least = min(least, max(from, r.forgotten))
		}
	}
	floor := in.Input.Floor()
	if floor < in.floor || floor > max(in.floor, least) {
		t.Fatalf("a floor went from %d to %d, and readers need all above %d", in.floor, floor, least)
	}
	in.floor = floor
}

// end leaves nothing behind.
func (m *model) end(t *rapid.T) {
	for _, r := range slices.Clone(m.readers) {
		m.loseReader(r)
	}
	for _, in := range slices.Clone(m.inputs) {
		m.lose(in)
	}
	if used := m.Sorter.Used(); used != (sorter.Used{}) {
		t.Fatalf("%+v in use when all is closed", used)
	}
}

// row is a row of a table. One in four has no new value, one in three an old one.
func row(id int64, commit, start tso.TS, key int) event.RawKV {
	r := event.RawKV{
		Op: event.Put, CommitTS: commit, StartTS: start,
		Key: fmt.Appendf(nil, "%d-key%d", id, key), Value: fmt.Appendf(nil, "%d/%d/%d", commit, start, key),
	}
	if commit%4 == 0 {
		r.Op, r.Value = event.Delete, nil
	}
	if commit%3 == 0 {
		r.Old = fmt.Appendf(nil, "before %d", commit)
	}
	return r
}

func name(r event.RawKV) string { return fmt.Sprintf("%d/%d/%s", r.CommitTS, r.StartTS, r.Key) }
