package pipeline_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a pipeline between doubles that do what they are told, in a bubble:
// after settle everything that can happen has happened.
type world struct {
	*testing.T
	up   *source
	sc   *tables
	down *downstream
	rows *sorter.Sorter
	p    *pipeline.Pipeline
	logs *bytes.Buffer
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// start runs a pipeline from ts 100 over the tables. Configure may change it.
func start(t *testing.T, configure func(*pipeline.Config), at ...*event.Table) *world {
	t.Helper()
	return startWith(t, 1<<30, configure, at...)
}

// startWith does that with a memory quota in bytes.
func startWith(t *testing.T, quota int64, configure func(*pipeline.Config), at ...*event.Table) *world {
	t.Helper()
	rules, err := filter.New(filter.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		T: t, up: newSource(), sc: newTables(at...), down: &downstream{}, rows: sorter.NewMemory(quota), logs: &bytes.Buffer{}, done: make(chan struct{}),
	}
	cfg := pipeline.Default()
	cfg.Changefeed, cfg.StartTS, cfg.Filter = "test", 100, rules
	cfg.FlushEvery = -1 // so that every checkpoint is told
	cfg.Log = slog.New(slog.NewTextHandler(w.logs, nil))
	if configure != nil {
		configure(&cfg)
	}
	in, end := ingested(w.up, w.rows)
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.p = stop, pipeline.New(cfg, in, w.sc, w.down)
	go func() {
		defer close(w.done)
		w.err = w.p.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-w.done
		end()
	})
	synctest.Wait()
	return w
}

// ingested runs an ingest until end is called.
func ingested(up ingest.Upstream, rows *sorter.Sorter) (in *ingest.Ingest, end func()) {
	in = ingest.New(up, rows)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = in.Run(ctx) // ends with ctx only
	}()
	return in, func() {
		stop()
		<-done
	}
}

// memory is what the rows take that are held.
func (w *world) memory() int64 { return w.rows.Used().Memory }

// rules is a configuration with filter rules.
func rules(t *testing.T, r ...string) func(*pipeline.Config) {
	f, err := filter.New(filter.Config{Rules: r})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *pipeline.Config) { c.Filter = f }
}

func (w *world) settle() { synctest.Wait() }

// want settles and compares what reached the downstream since the last want.
func (w *world) want(lines ...string) {
	w.Helper()
	w.settle()
	if got := w.down.take(); !slices.Equal(got, lines) {
		w.Fatalf("downstream got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// ended settles and gives Run's error.
func (w *world) ended() error {
	w.Helper()
	w.settle()
	select {
	case <-w.done:
		return w.err
	default:
		w.Fatal("still running")
		return nil
	}
}

// resolve moves every open span and the schema to ts, one after the other.
func (w *world) resolve(ts tso.TS) {
	for _, id := range w.up.ids() {
		w.up.send(id, ts)
		w.settle()
	}
	w.sc.resolve(ts)
}

// source is an upstream that sends what the test gives it.
type source struct {
	mu   sync.Mutex
	subs map[int64]chan delivery
	from map[int64]tso.TS // of every subscription ever made, the last
}

type delivery struct {
	upstream.Batch
	err error
}

func newSource() *source { return &source{subs: map[int64]chan delivery{}, from: map[int64]tso.TS{}} }

func (s *source) Subscribe(ctx context.Context, sub upstream.Subscription, out func(upstream.Batch) error) error {
	id := sub.Span.TableID
	if sub.Span != span.OfTable(id) {
		return fmt.Errorf("unexpected %v", sub.Span)
	}
	ch := make(chan delivery, 1000)
	s.mu.Lock()
	s.subs[id], s.from[id] = ch, sub.StartTS
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.subs[id] == ch {
			delete(s.subs, id)
		}
	}()
	for {
		select {
		case d := <-ch:
			if d.err != nil {
				return d.err
			}
			if err := out(d.Batch); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *source) ids() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []int64
	for id := range s.subs {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// send gives rows and then a resolved-ts of one physical table.
func (s *source) send(id int64, resolved tso.TS, rows ...event.RawKV) {
	s.give(id, delivery{Batch: upstream.Batch{Rows: slices.Clone(rows), Resolved: resolved}})
}

func (s *source) give(id int64, d delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch := s.subs[id]; ch != nil {
		ch <- d
	}
}

// tables is a schema whose versions and DDLs the test writes down.
type tables struct {
	mu        sync.Mutex
	versions  []tableVersion
	resolved  tso.TS
	ddls      []*event.DDL
	advanced  chan struct{}
	forgotten tso.TS
}

type tableVersion struct {
	id       int64 // physical
	from, to tso.TS
	table    *event.Table
}

func newTables(at ...*event.Table) *tables {
	s := &tables{resolved: 99, advanced: make(chan struct{}, 1)}
	for _, t := range at {
		s.hold(t, 0)
	}
	return s
}

func (s *tables) hold(t *event.Table, from tso.TS) {
	for _, id := range t.PhysicalIDs() {
		s.versions = append(s.versions, tableVersion{id, from, tso.Max, t})
	}
}

// ddl notes a DDL, which is handed out once the schema is resolved up to it.
func (s *tables) ddl(d *event.DDL) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.FinishedTS == 0 {
		d.FinishedTS = d.SwitchTS
	}
	s.ddls = append(s.ddls, d)
	for _, c := range d.Tables {
		if c.Before == nil {
			continue
		}
		for i := range s.versions {
			if v := &s.versions[i]; v.table == c.Before && v.to == tso.Max {
				v.to = d.SwitchTS
			}
		}
	}
	for _, c := range d.Tables {
		if c.After != nil {
			s.hold(c.After, d.SwitchTS)
		}
	}
}

func (s *tables) resolve(ts tso.TS) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolved = ts
	select {
	case s.advanced <- struct{}{}:
	default:
	}
}

func (s *tables) Resolved() tso.TS {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resolved
}

func (s *tables) Advanced() <-chan struct{} { return s.advanced }

func (s *tables) DDLs(upto tso.TS) []*event.DDL {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.ddls) && s.ddls[n].SwitchTS <= upto {
		n++
	}
	out := s.ddls[:n]
	s.ddls = s.ddls[n:]
	return out
}

func (s *tables) TableAt(id int64, commit tso.TS) (*event.Table, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.versions {
		if v.id == id && v.from < commit && commit <= v.to {
			return v.table, true
		}
	}
	return nil, false
}

func (s *tables) Tables(ts tso.TS) []*event.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*event.Table
	for _, v := range s.versions {
		if v.from <= ts && ts < v.to && !slices.Contains(out, v.table) {
			out = append(out, v.table)
		}
	}
	return out
}

func (s *tables) Forget(below tso.TS) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = below
}

// downstream is a sink that writes down what it was asked, and fails or blocks
// where the test says so.
type downstream struct {
	mu      sync.Mutex
	lines   []string
	batches []int // rows of each Write
	whole   bool  // takes no pieces
	dirty   bool  // rows were written and not flushed
	failOn  string
	blockOn string
	free    chan struct{}
}

var errDown = errors.New("the downstream is down")

func (d *downstream) note(ctx context.Context, lines ...string) error {
	d.mu.Lock()
	hit := func(on string) bool {
		return on != "" && slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, on) })
	}
	if hit(d.failOn) {
		d.mu.Unlock()
		return errDown
	}
	block := hit(d.blockOn)
	d.mu.Unlock()
	if block {
		select {
		case <-d.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, lines...)
	return nil
}

func (d *downstream) set(change func(*downstream)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (d *downstream) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.lines
	d.lines = nil
	return out
}

func (d *downstream) Flush(context.Context) error {
	d.set(func(d *downstream) { d.dirty = false })
	return nil
}

// flushed is an error while rows are written that were not flushed.
func (d *downstream) flushed(before string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dirty {
		return fmt.Errorf("rows were not flushed before %s", before)
	}
	return nil
}

func (d *downstream) Write(ctx context.Context, _ sink.Leave, txns []event.Txn) error {
	var lines []string
	n := 0
	for _, txn := range txns {
		line := fmt.Sprintf("%d", txn.CommitTS)
		if txn.Piece > 0 {
			line += fmt.Sprintf(" piece %d", txn.Piece)
		}
		if txn.More {
			line += " of more"
		}
		for _, r := range txn.Rows {
			line += " " + describe(r)
			n++
		}
		lines = append(lines, line)
	}
	if err := d.note(ctx, lines...); err != nil {
		return err
	}
	d.set(func(d *downstream) { d.batches, d.dirty = append(d.batches, n), true })
	return nil
}

func describe(r *event.Row) string {
	image := r.After
	if image == nil {
		image = r.Before
	}
	return fmt.Sprintf("%s:%v:%d=%d", r.Table.Name, r.Kind(), image[0].Int(), image[1].Int())
}

func (d *downstream) DDL(ctx context.Context, _ sink.Leave, ddl *event.DDL) error {
	if err := d.flushed("a DDL"); err != nil {
		return err
	}
	return d.note(ctx, fmt.Sprintf("%d DDL %s", ddl.SwitchTS, ddl.Query))
}

func (d *downstream) SyncPoint(ctx context.Context, _ sink.Leave, p event.SyncPoint) error {
	if err := d.flushed("a sync point"); err != nil {
		return err
	}
	return d.note(ctx, fmt.Sprintf("sync point %d", p.TS))
}

func (d *downstream) Checkpoint(ctx context.Context, ts tso.TS) error {
	if err := d.flushed("a checkpoint"); err != nil {
		return err
	}
	return d.note(ctx, fmt.Sprintf("checkpoint %d", ts))
}

func (d *downstream) Close() error { return nil }

func (d *downstream) Whole() bool { return d.whole }

// table is test.<name>(id int primary key, v int); ids are its partitions'.
func table(id int64, name string, ids ...int64) *event.Table {
	schema := "test"
	if s, n, ok := strings.Cut(name, "."); ok {
		schema, name = s, n
	}
	t := &event.Table{
		ID: id, Schema: schema, Name: name,
		Columns: []event.Column{
			{ID: 1, Name: "id", Type: event.TypeLong, Flag: event.FlagNotNull | event.FlagPriKey, Flen: 11},
			{ID: 2, Name: "v", Type: event.TypeLong, Flen: 11},
		},
		Handle: event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{Column: 0, Length: event.FullLength}}},
		Key:    []int{0},
	}
	for _, p := range ids {
		t.Partitions = append(t.Partitions, event.Partition{ID: p})
	}
	return t
}

func keyless(t *event.Table) *event.Table {
	c := *t
	c.Key = nil
	return &c
}

func change(before, after *event.Table) event.TableChange {
	return event.TableChange{Before: before, After: after}
}

// put is row id=v of a physical table, committed at commit by a transaction
// that began 5 earlier.
func put(physical int64, commit tso.TS, id int64, v byte) event.RawKV {
	return event.RawKV{Op: event.Put, StartTS: commit - 5, CommitTS: commit, Key: rowKey(physical, id), Value: rowValue(v)}
}

func rowKey(physical, id int64) []byte { return span.AppendInt(span.RecordPrefix(physical), id) }

// rowValue is row format v2 with column 2 = v.
func rowValue(v byte) []byte {
	b := []byte{128, 0}
	b = binary.LittleEndian.AppendUint16(b, 1) // columns that are not NULL
	b = binary.LittleEndian.AppendUint16(b, 0) // NULL ones
	b = append(b, 2)                           // their ids
	b = binary.LittleEndian.AppendUint16(b, 1) // where their cells end
	return append(b, v)
}
