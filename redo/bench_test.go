package redo_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// benchRows are changes of about 200 bytes, a part of which no compressor likes.
func benchRows(n int) []*event.RawKV {
	rng := rand.New(rand.NewPCG(1, 1))
	out := make([]*event.RawKV, n)
	for i := range out {
		value := make([]byte, 200)
		for at := 0; at < 80; at += 8 {
			binary.LittleEndian.PutUint64(value[at:], rng.Uint64())
		}
		key := append([]byte("t\x80\x00\x00\x00\x00\x00\x00\x01_r"), binary.BigEndian.AppendUint64(nil, uint64(i))...)
		out[i] = &event.RawKV{Op: event.Put, StartTS: start + tso.TS(i/10), CommitTS: start + 1 + tso.TS(i/10), Key: key, Value: value}
	}
	return out
}

// writeRows writes a log of them and gives its inventory.
func writeRows(b testing.TB, bucket objstore.Bucket, rows []*event.RawKV) *redo.Inventory {
	cfg := redo.Default()
	must(b, redo.Claim(b.Context(), cfg, bucket, testID))
	m, err := redo.OpenMeta(b.Context(), cfg, bucket, testID, 1, start)
	must(b, err)
	w := redo.NewWriter(cfg, bucket, testID, start)
	ctx, cancel := context.WithCancel(b.Context())
	var g errgroup.Group
	g.Go(func() error { return w.Run(ctx) })
	for _, r := range rows {
		must(b, w.Append(ctx, r, testTable))
	}
	last := rows[len(rows)-1].CommitTS
	w.Resolve(last)
	for w.Durable().TS < last {
		<-w.Moved()
	}
	cancel()
	_ = g.Wait()
	must(b, m.Advance(b.Context(), redo.Mark{Resolved: last, Extents: []record.Extent{w.Durable().Extent}}))
	inv, err := redo.Open(b.Context(), bucket, testID)
	must(b, err)
	return inv
}

const benchCount = 200_000

func BenchmarkWrite(b *testing.B) {
	rows := benchRows(benchCount)
	var bytes int64
	for b.Loop() {
		bytes = writeRows(b, objstore.NewMemory(), rows).Bytes()
	}
	b.ReportMetric(float64(benchCount)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(bytes)/benchCount, "stored-bytes/row")
}

func BenchmarkMerge(b *testing.B) {
	bucket := objstore.NewMemory()
	inv := writeRows(b, bucket, benchRows(benchCount))
	for b.Loop() {
		n := 0
		must(b, redo.Merge(b.Context(), bucket, inv, redo.DefaultMerge(inv), func(record.Entry) error { n++; return nil }))
		if n != benchCount {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(benchCount)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
