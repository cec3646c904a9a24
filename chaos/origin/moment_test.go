package origin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// journalled is a cluster without a load, whose journal is in a file; exec runs
// statements in database d, and gives the moments between their steps.
func journalled(t *testing.T) (journal string, exec func(sql ...string) []tso.TS) {
	t.Helper()
	journal = filepath.Join(t.TempDir(), "journal")
	f, err := os.Create(filepath.Clean(journal))
	must(t, err)
	cluster, err := fake.Start(fake.Config{Journal: f})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cluster.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, errors.Join(<-ended, f.Close()))
	})
	<-cluster.Replayed()
	client := live.New(cluster)
	server, err := workload.NewServer(ctx, client)
	must(t, err)
	return journal, func(statements ...string) (moments []tso.TS) {
		t.Helper()
		for _, sql := range statements {
			must(t, server.Exec(ctx, sql, catalog.Session{DB: "d"}, func(ctx context.Context, _ *catalog.Step) error {
				now, err := client.Begin(ctx, live.Options{})
				if err == nil {
					moments = append(moments, now.StartTS())
				}
				return err
			}))
		}
		return moments
	}
}

// While a job runs, the downstream is right that has what the job has not come to yet,
// and only that one. When it is over, the other is.
func TestAMomentWithinAJob(t *testing.T) {
	down := mariadb.Start(t)
	db := down.DB()
	defer db.Close()
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	for _, c := range []struct {
		sql    string
		before string // what a downstream without the job has besides
		after  string // what one lacks, or has too much, that has carried it out
		steps  int    // moments at which the job is on its way
	}{
		{"ALTER TABLE t DROP COLUMN v", "d.t v: want a column, got none", "d.t v: want no such column, got a column", 3},
		{"ALTER TABLE t ADD COLUMN c int", "d.t c: want no such column, got a column", "d.t c: want a column, got none", 3},
		{"DROP TABLE t", "d.t: want a BASE TABLE, got none", "d.t: want no such table, got a table", 2},
		{"CREATE TABLE s (id bigint NOT NULL PRIMARY KEY)", "d.s: want no such table, got a table", "d.s: want a BASE TABLE, got none", 0},
		{"RENAME TABLE t TO r", "d.r: want no such table, got a table", "d.r: want a BASE TABLE, got none", 0},
		{"ALTER TABLE t DROP INDEX i", "d.t index i: want (n), got none", "d.t index i: want none, got (n)", 3},
		{"ALTER TABLE t ADD INDEX j (v)", "d.t index j: want none, got (v)", "d.t index j: want (v), got none", 3},
		{"ALTER TABLE t MODIFY COLUMN n varchar(30)", "d.t n: want int, got varchar(30)", "d.t n: want varchar(30), got int", 3},
		{"DROP DATABASE d", "d: want a database, got none", "d: want no such database, got a database", 2},
	} {
		t.Run(c.sql, func(t *testing.T) {
			journal, exec := journalled(t)
			start := []string{"CREATE DATABASE d", "CREATE TABLE d.t (id bigint NOT NULL PRIMARY KEY, v varchar(20), n int, KEY i (n))"}
			exec(start...)
			moments := exec(c.sql)
			left, err := origin.Remember(journal, []string{"d"})
			must(t, err)
			compare := func(at tso.TS) []string {
				t.Helper()
				got, err := left.Compare(t.Context(), origin.Downstream{Host: down.Host, Port: down.Port, At: at})
				must(t, err)
				return got
			}
			stand := func(statements ...string) {
				t.Helper()
				for _, sql := range append([]string{"DROP DATABASE IF EXISTS d"}, statements...) {
					_, err := conn.ExecContext(t.Context(), sql)
					must(t, err)
				}
			}
			under := 0
			for _, carriedOut := range []bool{false, true} {
				if carriedOut {
					stand(append(start, "USE d", c.sql)...)
				} else {
					stand(start...)
				}
				turned := false
				for _, at := range moments {
					told := compare(at)
					if !carriedOut && len(told) == 0 {
						under++
					}
					wanted := c.after
					if carriedOut {
						wanted = c.before
					}
					equal := len(told) == 0
					if !equal && !slices.Contains(told, wanted) {
						t.Errorf("carried out: %v, at %d: %q, not that %s", carriedOut, at, told, wanted)
					}
					if turned && equal != carriedOut {
						t.Errorf("carried out: %v, at %d: %q, after the job had counted", carriedOut, at, told)
					}
					turned = turned || equal == carriedOut
				}
				if !turned {
					t.Errorf("carried out: %v: the job never counted", carriedOut)
				}
			}
			if under < c.steps {
				t.Errorf("%d moments within the job, want %d at least", under, c.steps)
			}
		})
	}
}
