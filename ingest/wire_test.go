package ingest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// capture is an upstream client with an ingest, at a cluster on the wire.
type capture struct {
	t       *testing.T
	cluster *fake.Cluster
	client  *upstream.Client
	in      *ingest.Ingest
	g       *errgroup.Group
	start   tso.TS
	end     tso.TS
}

// shared lets a feed read from the client and follow through the ingest.
type shared struct {
	*upstream.Client
	in *ingest.Ingest
}

func (s shared) Subscribe(ctx context.Context, of upstream.Subscription, out func(upstream.Batch) error) error {
	return s.in.Subscribe(ctx, of, out)
}

// patience is far longer than anything here takes.
const patience = 3 * time.Minute

// onWire plays a recording to what f does with a capture.
func onWire(t *testing.T, recording string, f func(context.Context, *capture)) {
	rec, err := fake.LoadRecording("../testdata/golden/" + recording + ".jsonl.gz")
	must(t, err)
	cluster, err := fake.Start(fake.Config{Recording: rec, ResolvedInterval: 10 * time.Millisecond})
	must(t, err)
	ctx, stop := context.WithTimeout(context.Background(), patience)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cluster.Run(ctx) })
	cfg := upstream.Default()
	cfg.PD = cluster.PD()
	client, err := upstream.Open(ctx, cfg)
	must(t, err)
	in := ingest.New(client, sorter.NewMemory(1<<30))
	g.Go(func() error { return client.Run(ctx) })
	g.Go(func() error { return in.Run(ctx) })
	f(ctx, &capture{t, cluster, client, in, g, rec.StartTS, rec.EndTS})
	stop()
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	client.Close()
}

// changefeed replicates everything to a black hole, and tells when it is through.
func (c *capture) changefeed(ctx context.Context) (*pipeline.Pipeline, *blackhole.Sink) {
	feed := schemafeed.New(schemafeed.Config{StartTS: c.start}, shared{c.client, c.in})
	must(c.t, feed.Load(ctx))
	c.g.Go(func() error { return feed.Run(ctx) })
	rules, err := filter.New(filter.Config{})
	must(c.t, err)
	hole, err := blackhole.Open("blackhole://")
	must(c.t, err)
	p := pipeline.New(pipeline.Config{Changefeed: "test", StartTS: c.start, Filter: rules, ForceReplicate: true}, c.in, feed, hole)
	c.g.Go(func() error { return p.Run(ctx) })
	return p, hole
}

// until waits for something, which a pipeline has no event for.
func (c *capture) until(ctx context.Context, what string, there func() bool) {
	c.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Fatalf("waiting until %s: %v; %d subscriptions", what, context.Cause(ctx), c.cluster.Subscriptions())
		}
	}
}

// Two changefeeds over the same tables cost TiKV one stream, with their job
// tables, whether they begin together or one after the other.
func TestTwoChangefeedsCostOneStream(t *testing.T) {
	alone := 0
	onWire(t, "08_txn", func(ctx context.Context, c *capture) {
		a, seen := c.changefeed(ctx)
		c.until(ctx, "the first is through", func() bool { return a.Checkpoint() >= c.end })
		alone = c.cluster.Subscriptions()
		if alone == 0 {
			t.Fatal("no subscription")
		}
		b, also := c.changefeed(ctx) // from the start, where the first has given everything up
		c.until(ctx, "the second is through", func() bool { return b.Checkpoint() >= c.end })
		c.until(ctx, "they share", func() bool { return c.cluster.Subscriptions() == alone })
		if x, y := seen.Counts(), also.Counts(); x.Rows != y.Rows || x.Txns != y.Txns || x.DDLs != y.DDLs || x.Rows == 0 {
			t.Fatalf("%+v and %+v", x, y)
		}
	})
	onWire(t, "08_txn", func(ctx context.Context, c *capture) {
		a, _ := c.changefeed(ctx)
		b, _ := c.changefeed(ctx)
		c.until(ctx, "both are through", func() bool { return a.Checkpoint() >= c.end && b.Checkpoint() >= c.end })
		c.until(ctx, "they share", func() bool { return c.cluster.Subscriptions() == alone })
	})
}
