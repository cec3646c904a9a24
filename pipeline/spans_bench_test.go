package pipeline_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// BenchmarkSpansStages is BenchmarkStages for a table that is written as a span.
func BenchmarkSpansStages(b *testing.B) {
	b.ReportAllocs()
	f, last := floodOf(b.N)
	rules, err := filter.New(filter.Config{})
	hole, err2 := blackhole.Open("blackhole://")
	if err := errors.Join(err, err2); err != nil {
		b.Fatal(err)
	}
	schema := newTables(wide())
	schema.resolve(last)
	in, end := ingested(f, sorter.NewMemory(512<<20))
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s := pipeline.NewSpans(pipeline.SpansConfig{
		Changefeed: "bench", StartTS: 100, Filter: rules,
		Limit: func(span.Span) tso.TS { return tso.Max },
		Open:  func(context.Context) (sink.Sink, error) { return hole, nil },
		Tell: func(t pipeline.Told) {
			if t.Checkpoint == last {
				stop()
			}
		},
	}, in, schema)
	s.Write(span.OfTable(1), 100)
	b.ResetTimer()
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) || hole.Counts().Rows != uint64(b.N) {
		b.Fatal(err, hole.Counts())
	}
}

// pulse is an upstream without rows whose spans are all resolved further at once.
type pulse struct{ beats []chan tso.TS }

func (p *pulse) Subscribe(ctx context.Context, s upstream.Subscription, out func(upstream.Batch) error) error {
	for {
		select {
		case ts := <-p.beats[s.Span.TableID]:
			if err := out(upstream.Batch{Resolved: ts}); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// BenchmarkIdleSpans is what it costs that ten thousand spans without rows are resolved
// once more, and that the schema is: from what gives resolved-ts to what is told.
func BenchmarkIdleSpans(b *testing.B) {
	const n = 10_000
	up := &pulse{beats: make([]chan tso.TS, n+1)}
	var at []*event.Table
	for id := range int64(n) {
		up.beats[id+1] = make(chan tso.TS, 1)
		at = append(at, table(id+1, "t"))
	}
	rules, err := filter.New(filter.Config{})
	hole, err2 := blackhole.Open("blackhole://")
	if err := errors.Join(err, err2); err != nil {
		b.Fatal(err)
	}
	schema := newTables(at...)
	in, end := ingested(up, sorter.NewMemory(512<<20))
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var due atomic.Uint64
	arrived, all := 0, make(chan struct{}, 1)
	s := pipeline.NewSpans(pipeline.SpansConfig{
		Changefeed: "bench", StartTS: 100, Filter: rules,
		Limit: func(span.Span) tso.TS { return schema.Resolved() },
		Open:  func(context.Context) (sink.Sink, error) { return hole, nil },
		Tell: func(t pipeline.Told) {
			if t.Checkpoint == tso.TS(due.Load()) {
				if arrived++; arrived == n {
					arrived = 0
					all <- struct{}{}
				}
			}
		},
	}, in, schema)
	for _, t := range at {
		s.Write(span.OfTable(t.ID), 100)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		ts := tso.TS(101 + i)
		due.Store(uint64(ts))
		for _, beat := range up.beats[1:] {
			beat <- ts
		}
		schema.resolve(ts)
		s.Look()
		<-all
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/span")
	stop()
	<-done
}
