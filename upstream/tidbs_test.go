package upstream_test

import (
	"context"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

func TestTiDBs(t *testing.T) {
	for _, there := range [][]string{nil, {"10.0.0.1:4000", "10.0.0.2:4000"}} {
		cluster, err := fake.Start(fake.Config{Stores: 1, TiDBs: there})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		g := new(errgroup.Group)
		g.Go(func() error { return cluster.Run(ctx) })
		cfg := upstream.Default()
		cfg.PD = cluster.PD()
		c, err := upstream.Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		found, err := c.TiDBs(ctx)
		if err != nil || !slices.Equal(found, there) {
			t.Errorf("found %v, %v", found, err)
		}
		c.Close()
		stop()
		_ = g.Wait() // it was told to end
	}
}
