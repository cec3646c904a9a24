package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"

	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/upstream"
)

// What one transaction of so many times the quota is held to: the resident memory
// of an idle capture, the quota, and this part of it more.
const (
	largeTimes = 4
	largeSlack = 0.25
)

// Large is what such a transaction took.
type Large struct {
	Usage
	Idle   int64 // resident memory before its first row, in bytes
	Disk   int64 // the most that was on disk
	Pieces uint64
}

// large watches one transaction that is larger than memory.
func (o options) large(ctx context.Context, out io.Writer) error {
	if o.quota == 0 {
		return nil
	}
	quota := int64(o.quota) << 20
	const keyBytes = 19
	o.rows = int(largeTimes * quota / (rowBytes + keyBytes))
	var l Large
	if err := o.measure(ctx, "large", &l); err != nil {
		return fmt.Errorf("large: %w", err)
	}
	above := l.RSS - l.Idle
	fmt.Fprintf(out, "\none transaction of %d rows, %d times the quota of %d MiB: %.1f s, %.1f CPU s, %d MiB on disk, %d MiB above the %d of an idle capture (hold: ≤ %.0f) %s\n",
		o.rows, largeTimes, o.quota, l.Wall.Seconds(), l.CPU.Seconds(), l.Disk>>20, above>>20, l.Idle>>20,
		(1+largeSlack)*float64(o.quota), o.judge.held("one large transaction: memory", float64(above) <= (1+largeSlack)*float64(quota)))
	return nil
}

// large follows the transaction into a blackhole, with the quota that o says for
// the whole process, shared out as the defaults share half a gigabyte.
func large(ctx context.Context, o options) (l Large, err error) {
	quota := int64(o.quota) << 20
	debug.SetMemoryLimit(quota + quota/8)
	dir, err := os.MkdirTemp("", "sluice-bench")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rows, err := sorter.Open(sorter.Config{MemoryQuota: quota * 5 / 8, Dir: dir, DiskQuota: 1 << 40})
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	hole, err := blackhole.Open(blackhole.Scheme + "://")
	if err != nil {
		return l, err
	}
	stop, err := o.startProfile()
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	counted := &watched{Sink: hole, until: uint64(o.rows), done: make(chan struct{})}
	var began sync.Once
	var watch stopwatch
	var mu sync.Mutex
	tap := func(b upstream.Batch) {
		began.Do(func() { l.Idle, watch = peakRSS(), startWatch() })
		mu.Lock()
		defer mu.Unlock()
		l.Disk = max(l.Disk, rows.Used().Disk)
	}
	err = run(ctx, o.pd, rows, quota/8, 0, counted, tap, func(ctx context.Context, _ capture) error {
		select {
		case <-counted.done:
			l.Usage = watch.stop()
			l.RSS = peakRSS()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return l, err
}

// peakRSS is the most memory that the process ever had, in bytes.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		var kib int64
		if n, _ := fmt.Sscanf(string(line), "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
