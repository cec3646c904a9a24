package upstream_test

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// BenchmarkRegions follows a hundred thousand regions of a thousand tables: how
// long it takes until all are resolved, and what they cost while nothing happens.
// The fake cluster lives in the same process and is in the figures.
func BenchmarkRegions(b *testing.B) {
	const tables, regions = 1000, 100
	for b.Loop() {
		b.StopTimer()
		c, client := cluster(b, fake.Config{Stores: 3, ResolvedInterval: time.Second, Seed: 1, Calm: true}, nil)
		for i := range int64(tables) {
			for j := range int64(regions) {
				c.Split(span.AppendInt(span.RecordPrefix(span.TableID(i+1)), j*1000))
			}
		}
		for i, r := range c.Regions() {
			if err := c.Lead(r.ID, uint64(i%3)+1); err != nil {
				b.Fatal(err)
			}
		}
		start, err := client.TS(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		before := heap()
		ctx, stop := context.WithCancel(b.Context())
		var g errgroup.Group
		resolved := make(chan struct{}, tables)
		b.StartTimer()
		for i := range int64(tables) {
			g.Go(func() error {
				there := false
				sub := upstream.Subscription{StartTS: start, Span: span.OfTable(span.TableID(i + 1))}
				return client.Subscribe(ctx, sub, func(batch upstream.Batch) error {
					if batch.Resolved != 0 && !there {
						there = true
						resolved <- struct{}{}
					}
					return nil
				})
			})
		}
		for range tables {
			<-resolved
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		idle := 5 * time.Second
		used := cpuTime(b)
		timer := time.NewTimer(idle)
		<-timer.C
		b.ReportMetric(100*float64(cpuTime(b)-used)/float64(idle), "idle-cpu-%")
		stop()
		_ = g.Wait() // all end because they were told to
		b.StartTimer()
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
