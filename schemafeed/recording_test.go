package schemafeed_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// doneJobs are the jobs that changed something, by the ts of their done row.
func doneJobs(t *testing.T, path string) map[int64]tso.TS {
	t.Helper()
	out := map[int64]tso.TS{}
	golden.Lines(t, path, func(line []byte) {
		var l struct {
			CommitTS tso.TS `json:"commit_ts"`
			Table    string
			NewJob   *schema.Job `json:"new_job"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		if j := l.NewJob; l.Table == "tidb_ddl_job" && j != nil && j.State == schema.StateDone && j.Binlog.SchemaVersion != 0 {
			out[j.ID] = l.CommitTS
		}
	})
	if len(out) == 0 {
		t.Fatal(path, ": no job is done")
	}
	return out
}

// Over the wire, with everything that a change stream may do to its rows, each
// recorded job comes out once, at its own time.
func TestRecordingsOverTheWire(t *testing.T) {
	for _, name := range []string{"11_partition", "13_ddl_column", "18_batch_create", "21_flashback_db", "workloads/ddlstorm"} {
		t.Run(name, func(t *testing.T) {
			path := "../testdata/golden/" + name
			rec, err := fake.LoadRecording(path + ".jsonl.gz")
			if err != nil {
				t.Fatal(err)
			}
			ddls := follow(t, rec)
			want := doneJobs(t, path+".ddl.jsonl.gz")
			for _, id := range ddls {
				if want[id.job] != id.finished {
					t.Errorf("job %d done at %d, want %d", id.job, id.finished, want[id.job])
				}
				delete(want, id.job)
			}
			if len(want) > 0 {
				t.Errorf("jobs missing: %v", want)
			}
		})
	}
}

type finished struct {
	job      int64
	finished tso.TS
}

// follow replays a recording and takes the DDLs up to its end.
func follow(t *testing.T, rec *fake.Recording) []finished {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cluster, err := fake.Start(fake.Config{Recording: rec, Seed: 7, ResolvedInterval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cluster.Run(ctx) })
	var out []finished
	g.Go(func() error {
		defer cancel()
		cfg := upstream.Default()
		cfg.PD = cluster.PD()
		client, err := upstream.Open(ctx, cfg)
		if err != nil {
			return err
		}
		defer client.Close()
		g.Go(func() error { return client.Run(ctx) })
		feed := schemafeed.New(schemafeed.Config{StartTS: rec.StartTS}, client)
		if err := feed.Load(ctx); err != nil {
			return err
		}
		g.Go(func() error { return feed.Run(ctx) })
		for feed.Resolved() < rec.EndTS {
			select {
			case <-feed.Advanced():
			case <-ctx.Done():
				return ctx.Err()
			}
			for _, d := range feed.DDLs(feed.Resolved()) {
				if n := len(out); n > 0 && out[n-1].job == d.JobID {
					t.Errorf("job %d twice", d.JobID)
				}
				out = append(out, finished{d.JobID, d.FinishedTS})
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return out
}
