package upstream_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// followed subscribes to tables of so many regions each, and returns once all of
// them are resolved above the start. Each of the stops ends one and waits for it.
func followed(t testing.TB, c *fake.Cluster, client *upstream.Client, tables, regions int64) (stops []func()) {
	cutTables(t, c, tables, regions)
	start, err := client.TS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	resolved := make(chan struct{}, tables)
	for i := range tables {
		ctx, cancel := context.WithCancel(t.Context())
		var g errgroup.Group
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
		stops = append(stops, func() {
			cancel()
			_ = g.Wait() // it ended because it was told to
		})
	}
	for range tables {
		<-resolved
	}
	return stops
}

// cutTables makes the regions of tables, and spreads them over three stores.
func cutTables(t testing.TB, c *fake.Cluster, tables, regions int64) {
	for i := range tables {
		for j := range regions {
			c.Split(span.AppendInt(span.RecordPrefix(span.TableID(i+1)), j*1000))
		}
	}
	for i, r := range c.Regions() {
		if err := c.Lead(r.ID, uint64(i%3)+1); err != nil {
			t.Fatal(err)
		}
	}
}

// One table costs the same among few and among many: a look-up, and a
// registration for each region, nothing else. Those that leave leave nothing.
func TestManyTables(t *testing.T) {
	const regions = 3
	for _, tables := range []int64{20, 400} {
		c, client := cluster(t, fake.Config{Stores: 3, ResolvedInterval: 20 * time.Millisecond, Seed: 1, Calm: true}, nil)
		stops := followed(t, c, client, tables, regions)
		got := client.Counts()
		// The first of its regions begins before the table's rows.
		if got.Lookups != uint64(tables) || got.Registrations != uint64(tables*(regions+1)) {
			t.Errorf("%d tables: %d look-ups, %d registrations", tables, got.Lookups, got.Registrations)
		}
		live := func() (n int) {
			for _, s := range client.Status().Streams {
				n += s.Live + s.Waiting + s.Scanning
			}
			return n
		}
		if n := live(); n != int(tables*(regions+1)) {
			t.Errorf("%d tables: %d registrations live", tables, n)
		}
		for _, stop := range stops[1:] {
			stop()
		}
		if n := live(); n != regions+1 {
			t.Errorf("%d of %d tables have left, %d registrations live", tables-1, tables, n)
		}
		stops[0]()
	}
}
