package upstream_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// The last region splits whenever a tenth of what is to be scanned of it has been
// told, as it does while tables are created and the job table, at its end, is far
// behind. No scan of the whole comes to its end, and yet the resolved-ts gets there,
// with every row.
func TestScanOfARegionThatSplitsFasterThanItIsScanned(t *testing.T) {
	const table, rows = 1 << 40, 1000
	for _, lag := range []time.Duration{0, 50 * time.Millisecond} {
		t.Run(fmt.Sprintf("PD is %v late", lag), func(t *testing.T) {
			c, client := cluster(t, fake.Config{Stores: 1, ResolvedInterval: 5 * time.Millisecond, Seed: 1, Calm: true, PDLag: lag}, nil)
			start, value := c.TS(), bytes.Repeat([]byte{'v'}, 8<<10)
			for i := range int64(rows) {
				key := span.AppendInt(span.RecordPrefix(table), i)
				// A chunk of a scan has a few of them.
				if _, err := c.OnePhase(t.Context(), mvcc.Lock{Op: mvcc.Put, Key: key, Primary: key, StartTS: c.TS(), Value: value}); err != nil {
					t.Fatal(err)
				}
			}
			end := c.TS()
			created := int64(0)
			c.Restless(rows/10, func() []byte { created++; return span.RecordPrefix(span.TableID(created)) })
			d := newDelivered(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var g errgroup.Group
			g.Go(func() error {
				return client.Subscribe(ctx, upstream.Subscription{Span: span.OfTable(table), StartTS: start}, d.take)
			})
			if err := d.reached(ctx, end); err != nil {
				t.Fatalf("%v; %+v", err, client.Counts())
			}
			cancel()
			_ = g.Wait() // it ended because it was told to
			if n := client.Counts(); len(d.rows) != rows || n.Registrations > 100 {
				t.Errorf("%d rows, %d registrations", len(d.rows), n.Registrations)
			}
		})
	}
}
