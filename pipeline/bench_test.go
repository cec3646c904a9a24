package pipeline_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// flood is an upstream that holds all its batches ready.
type flood struct{ batches []upstream.Batch }

func (f flood) Subscribe(ctx context.Context, _ upstream.Subscription, out func(upstream.Batch) error) error {
	for _, b := range f.batches {
		if err := out(b); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// floodOf makes n inserts of about 200 bytes, ten to a transaction, in batches of
// 4096 as upstream cuts them, not in order within a batch.
func floodOf(n int) (flood, tso.TS) {
	value := append([]byte{128, 0, 3, 0, 0, 0, 2, 3, 4, 1, 0, 121, 0, 181, 0}, make([]byte, 181)...)
	var f flood
	rows := make([]event.RawKV, 0, 4096)
	last := tso.TS(100)
	for i := range n {
		commit := tso.TS(101 + i/10)
		rows = append(rows, event.RawKV{Op: event.Put, StartTS: commit - 1, CommitTS: commit, Key: rowKey(1, int64(i)), Value: value})
		if len(rows) == cap(rows) || i == n-1 {
			for a, b := 0, len(rows)-1; a < b; a, b = a+7, b-7 {
				rows[a], rows[b] = rows[b], rows[a]
			}
			last = commit
			f.batches = append(f.batches, upstream.Batch{Rows: rows, Resolved: commit.Prev()})
			rows = make([]event.RawKV, 0, 4096)
		}
	}
	f.batches[len(f.batches)-1].Resolved = last
	return f, last
}

func wide() *event.Table {
	t := table(1, "wide")
	t.Columns = append(t.Columns,
		event.Column{ID: 3, Name: "c", Type: event.TypeString, Flen: 120, Charset: "utf8mb4", Collation: "utf8mb4_bin"},
		event.Column{ID: 4, Name: "pad", Type: event.TypeString, Flen: 60, Charset: "utf8mb4", Collation: "utf8mb4_bin"})
	return t
}

// flow runs n rows through sorter, mount, filter and the queue into a blackhole.
func flow(tb testing.TB, n int) (mallocs uint64) {
	tb.Helper()
	f, last := floodOf(n)
	rules, err := filter.New(filter.Config{})
	hole, err2 := blackhole.Open("blackhole://")
	if err := errors.Join(err, err2); err != nil {
		tb.Fatal(err)
	}
	schema := newTables(wide())
	schema.resolve(last)
	in, end := ingested(f, sorter.NewMemory(512<<20))
	defer end()
	p := pipeline.New(pipeline.Config{Changefeed: "bench", StartTS: 100, TargetTS: last, Filter: rules}, in, schema, hole)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if b, ok := tb.(*testing.B); ok {
		b.ResetTimer()
	}
	err = p.Run(context.Background())
	runtime.ReadMemStats(&after)
	if got := hole.Counts().Rows; err != nil || got != uint64(n) {
		tb.Fatalf("%d of %d rows: %v", got, n, err)
	}
	return after.Mallocs - before.Mallocs
}

// BenchmarkStages is what a row costs between the upstream client and the sink.
func BenchmarkStages(b *testing.B) {
	b.ReportAllocs()
	flow(b, b.N)
}

// The budget is two allocations a row; the stages after the client take far less.
func TestAllocationsPerRow(t *testing.T) {
	const n = 100_000
	if per := float64(flow(t, n)) / n; per > 0.2 {
		t.Fatalf("%.2f allocations a row", per)
	}
}
