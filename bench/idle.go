package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream"
)

// Idle is what many regions cost while nothing happens in them.
type Idle struct {
	Start      time.Duration // until all of them are resolved
	StartCPU   time.Duration
	Goroutines int
	Heap       int64   // after a collection, in bytes
	RSS        int64   // the most it was
	CPU        float64 // of one processor
}

// idles watches the regions in tables of a hundred, for each resolved-ts
// interval, and in tables of ten: each of those is told ten times as often for
// each of its regions, so that there only the longer interval fits a machine.
func (o options) idles(ctx context.Context, out io.Writer) error {
	if o.regions == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n%d regions in which nothing happens\n%12s %10s %8s %8s %11s %9s %9s %8s\n", o.regions,
		"subscribers", "interval", "start s", "CPU s", "goroutines", "heap MiB", "RSS MiB", "CPU %")
	for _, c := range []struct {
		each     int
		interval time.Duration
	}{{100, time.Second}, {100, 200 * time.Millisecond}, {10, time.Second}} {
		o.spans, o.interval = max(o.regions/c.each, 1), c.interval
		var i Idle
		if err := o.measure(ctx, "idle", &i); err != nil {
			return fmt.Errorf("idle: %w", err)
		}
		fmt.Fprintf(out, "%12d %10v %8.2f %8.2f %11d %9d %9d %8.1f\n", o.spans, c.interval, i.Start.Seconds(), i.StartCPU.Seconds(),
			i.Goroutines, i.Heap>>20, i.RSS>>20, 100*i.CPU)
	}
	return nil
}

// idle follows all tables with one reader.
func idle(ctx context.Context, o options) (i Idle, err error) {
	cfg := upstream.Default()
	cfg.PD = []string{o.pd}
	client, err := upstream.Open(ctx, cfg)
	if err != nil {
		return i, err
	}
	defer client.Close()
	in := ingest.New(client, inMemory())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return client.Run(ctx) })
	g.Go(func() error { return in.Run(ctx) })
	g.Go(func() error {
		if err := i.watch(ctx, o, client, in); err != nil {
			return err
		}
		return errEnough
	})
	if err := g.Wait(); !errors.Is(err, errEnough) {
		return i, err
	}
	return i, nil
}

func (i *Idle) watch(ctx context.Context, o options, client *upstream.Client, in *ingest.Ingest) (err error) {
	start, err := client.TS(ctx)
	if err != nil {
		return err
	}
	r := in.NewReader(ingest.ReaderConfig{})
	watch := startWatch()
	for table := range o.spans {
		if err := r.Follow(ctx, span.OfTable(span.TableID(table+1)), start); err != nil {
			return err
		}
	}
	for r.Resolved() <= start {
		select {
		case <-r.Advanced():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	used := watch.stop()
	i.Start, i.StartCPU, i.Goroutines = used.Wall, used.CPU, runtime.NumGoroutine()
	stop, err := o.startProfile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	watch = startWatch()
	end := time.NewTimer(o.idleFor)
	defer end.Stop()
	for done := false; !done; {
		select {
		case <-r.Advanced(): // as a changefeed that has nothing to write
			upper := r.Resolved()
			r.Readable(upper)
			r.Forget(upper)
		case <-end.C:
			done = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	used = watch.stop()
	i.CPU, i.RSS = used.CPU.Seconds()/used.Wall.Seconds(), used.RSS
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	i.Heap = int64(m.HeapAlloc)
	return nil
}
