package pipeline_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// P2: after each DDL of every recording, what the decisions so far have added
// and removed is exactly what the schema then holds and the rules take.
func TestDecisionsCoverWhatTheSchemaHolds(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "golden", "*.jsonl.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, path := range append(paths, filepath.Join("..", "testdata", "golden", "workloads", "ddlstorm.jsonl.gz")) {
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl.gz")
		if strings.Contains(name, ".") {
			continue // metadata, history
		}
		if testing.Short() && name != "11_partition" && name != "12_ddl_table" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			first, ddls, feed := ddlsOf(t, path)
			for _, rules := range [][]string{nil, {"test.*"}, {"*.*", "!test.?"}, {"db*.*", "fdb*.*"}} {
				f, err := filter.New(filter.Config{Rules: rules})
				if err != nil {
					t.Fatal(err)
				}
				for _, force := range []bool{true, false} {
					follow(t, filter.Scope{Rules: f, ForceReplicate: force}, first, ddls, feed)
				}
			}
		})
	}
}

// ddlsOf replays a recording into a feed.
func ddlsOf(t *testing.T, path string) (first []*event.Table, ddls []*event.DDL, feed *schemafeed.Feed) {
	t.Helper()
	rec, err := fake.LoadRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := fake.Start(fake.Config{Recording: rec, HoldForSubscriber: true, ResolvedInterval: 20 * time.Millisecond, Calm: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cluster.Run(ctx) })
	g.Go(func() error {
		defer stop()
		cfg := upstream.Default()
		cfg.PD = cluster.PD()
		client, err := upstream.Open(ctx, cfg)
		if err != nil {
			return err
		}
		defer client.Close()
		g.Go(func() error { return client.Run(ctx) })
		feed = schemafeed.New(schemafeed.Config{StartTS: rec.StartTS}, client)
		if err := feed.Load(ctx); err != nil {
			return err
		}
		first = feed.Tables(rec.StartTS.Prev())
		g.Go(func() error { return feed.Run(ctx) })
		for feed.Resolved() < rec.EndTS {
			select {
			case <-feed.Advanced():
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			ddls = append(ddls, feed.DDLs(feed.Resolved())...)
		}
		return nil
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return first, ddls, feed
}

func follow(t *testing.T, s filter.Scope, first []*event.Table, ddls []*event.DDL, feed *schemafeed.Feed) {
	t.Helper()
	wanted := func(tables []*event.Table) map[int64]bool {
		ids := map[int64]bool{}
		for _, table := range tables {
			if s.Table(table) == filter.Wanted {
				for _, id := range table.PhysicalIDs() {
					ids[id] = true
				}
			}
		}
		return ids
	}
	have := wanted(first)
	for i, d := range ddls {
		decision, err := s.DDL(d)
		if err != nil {
			return // here the changefeed ends
		}
		for _, id := range decision.Removed {
			if !have[id] {
				t.Fatalf("job %d at %d removes %d, which is not there", d.JobID, d.SwitchTS, id)
			}
			delete(have, id)
		}
		for _, id := range decision.Added {
			if have[id] {
				t.Fatalf("job %d at %d adds %d, which is there", d.JobID, d.SwitchTS, id)
			}
			have[id] = true
		}
		if i+1 < len(ddls) && ddls[i+1].SwitchTS == d.SwitchTS {
			continue
		}
		if want := wanted(feed.Tables(d.SwitchTS)); !maps.Equal(have, want) {
			t.Fatalf("after job %d (%s) at %d: followed %v, the schema has %v", d.JobID, d.Query, d.SwitchTS, keys(have), keys(want))
		}
	}
}

func keys(m map[int64]bool) []int64 { return slices.Sorted(maps.Keys(m)) }
