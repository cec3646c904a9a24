package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// One transaction of many times the quota comes through, prewrites and rows, and
// memory keeps to the quota.
func TestTransactionLargerThanMemory(t *testing.T) {
	const rows, quota, table = 100_000, 8 << 20, 100
	bulk := &fake.Bulk{Rows: rows, OneTxn: true, Regions: 4, Row: func(i int) (k, v []byte) {
		return span.AppendInt(span.RecordPrefix(table), int64(i)), bytes.Repeat([]byte{byte(i)}, 200)
	}}
	cluster, err := fake.Start(fake.Config{Bulk: bulk, Stores: 1, Calm: true, ResolvedInterval: 10 * time.Millisecond})
	must(t, err)
	store, err := sorter.Open(sorter.Config{MemoryQuota: quota, Dir: t.TempDir(), DiskQuota: 1 << 30})
	must(t, err)
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cluster.Run(ctx) })
	cfg := upstream.Default()
	cfg.PD = cluster.PD()
	client, err := upstream.Open(ctx, cfg)
	must(t, err)
	in := ingest.New(client, store)
	g.Go(func() error { return client.Run(ctx) })
	g.Go(func() error { return in.Run(ctx) })
	g.Go(func() error {
		defer stop()
		return readLarge(t, ctx, cluster, in, store, rows)
	})
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	client.Close()
	if used := store.Used(); used != (sorter.Used{}) {
		t.Errorf("%+v is left", used)
	}
	must(t, store.Close())
}

func readLarge(t *testing.T, ctx context.Context, cluster *fake.Cluster, in *ingest.Ingest, store *sorter.Sorter, rows int) error {
	r := in.NewReader(ingest.ReaderConfig{})
	defer r.Close()
	last := cluster.TS()
	if err := r.Follow(ctx, span.OfTable(100), last); err != nil {
		return err
	}
	var before *event.RawKV
	peak := sorter.Used{}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for got := 0; got < rows; {
		used := store.Used()
		peak.Memory, peak.Disk = max(peak.Memory, used.Memory+used.Lent), max(peak.Disk, used.Disk)
		select {
		case <-r.Advanced():
		case <-tick.C:
			continue
		case <-ctx.Done():
			t.Errorf("%d of %d rows; %+v", got, rows, used)
			return context.Cause(ctx)
		}
		upper := r.Resolved()
		it, err := r.Fetch(last, upper)
		if err != nil {
			return err
		}
		dst := make([]*event.RawKV, 100)
		for n := len(dst); n == len(dst); got += n {
			if n, err = it.Next(dst); err != nil {
				return err
			}
			for _, row := range dst[:n] {
				if before != nil && !before.Less(row) || len(row.Value) != 200 {
					t.Fatalf("%+v after %+v", row, before)
				}
				before = row
			}
		}
		it.Close()
		r.Forget(upper)
		last = upper
	}
	if peak.Memory > 8<<20+2<<20 || peak.Disk == 0 { // a batch is a megabyte of the wire
		t.Errorf("%+v in use at most, with a quota of 8 MiB", peak)
	}
	return nil
}
