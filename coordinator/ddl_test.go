package coordinator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// count is what a query for one number says downstream.
func (s *site) count(query string) (n int) {
	s.Helper()
	db := s.down.DB()
	defer db.Close()
	must(s.T, db.QueryRow(query).Scan(&n))
	return n
}

// A column that TiDB has rewritten is downstream what TiDB made of it, and what the
// server made of it where nobody wants it compared; DDLs are noted, and what is
// noted goes with the changefeed.
func TestRewrittenColumnThroughAServer(t *testing.T) {
	s := newSite(t)
	n := s.node()
	ctx := t.Context()
	_, err := n.Create(ctx, s.creation())
	must(t, err)
	must(t, s.bank.Prepare(ctx))
	rewrite := func(table string) (rows, differ int) {
		t.Helper()
		for _, text := range []string{" ADD COLUMN f float DEFAULT 1234567.5", " MODIFY COLUMN f varchar(20)"} {
			must(t, s.bank.Server.Exec(ctx, "ALTER TABLE "+table+text, catalog.Session{DB: workload.BankDB}, nil))
		}
		s.caught(n)
		from := " FROM " + workload.BankDB + "." + table
		return s.count("SELECT COUNT(*)" + from), s.count("SELECT COUNT(*)" + from + " WHERE NOT f <=> '1234567.5'")
	}
	if rows, differ := rewrite("a0"); rows == 0 || differ != 0 {
		t.Errorf("compared: %d of %d rows differ", differ, rows)
	}
	must(t, n.Pause(ctx, feed))
	_, err = n.Update(ctx, feed, api.Change{Config: json.RawMessage(`{"sink":{"verify_rewriting_ddl":false}}`)})
	must(t, err)
	must(t, n.Resume(ctx, feed, 0))
	if rows, differ := rewrite("a1"); rows == 0 || differ != rows {
		t.Errorf("not compared: %d of %d rows differ", differ, rows)
	}
	const noted = "SELECT COUNT(*) FROM tidb_cdc.ddl_ts_v1 WHERE ticdc_cluster_id LIKE 'sluice/test#%' AND changefeed = 'default/bank' AND finished"
	if s.count(noted) != 1 {
		t.Error("no DDL is noted")
	}
	must(t, n.Remove(ctx, feed))
	if s.count(noted) != 0 {
		t.Error("what was noted is still there")
	}
}

// Whoever begins between the steps of a rename is told of it, by the names of before
// and of after: the job's own words are those of neither.
func TestRenameUnderWay(t *testing.T) {
	s := newSite(t)
	n := s.node()
	ctx, exec := t.Context(), func(sql string, between workload.Between) {
		t.Helper()
		must(t, s.bank.Server.Exec(t.Context(), sql, catalog.Session{DB: workload.BankDB}, between))
	}
	must(t, s.bank.Prepare(ctx))
	exec("CREATE DATABASE archive", nil)
	for sql, want := range map[string]map[string]int{
		"RENAME TABLE bank.a0 TO archive.b0":                        {"bank.a0": 1, "archive.b0": 1},
		"RENAME TABLE bank.a1 TO archive.b1, bank.a2 TO archive.b2": {"bank.a2": 1, "archive.b2": 1},
	} {
		told := map[string]int{}
		exec(sql, func(ctx context.Context, _ *catalog.Step) error {
			for _, rule := range []string{"bank.a0", "bank.a2", "archive.b0", "archive.b2", "archive.none"} {
				c := s.creation()
				c.StartTS, c.Config = s.cluster.TS(), json.RawMessage(`{"filter":{"rules":["`+rule+`"]}}`)
				tables, err := n.Verify(ctx, c)
				if err != nil {
					return err
				}
				for _, begun := range tables.BegunDDLs {
					if begun != sql {
						t.Errorf("%s: told of %q", sql, begun)
					}
					told[rule]++
				}
			}
			return nil
		})
		if fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("%s: told %v, want %v", sql, told, want)
		}
	}
}
