package coordinator_test

import (
	"encoding/json"
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
	const noted = "SELECT COUNT(*) FROM tidb_cdc.ddl_ts_v1 WHERE ticdc_cluster_id = 'test' AND changefeed = 'default/bank' AND finished"
	if s.count(noted) != 1 {
		t.Error("no DDL is noted")
	}
	must(t, n.Remove(ctx, feed))
	if s.count(noted) != 0 {
		t.Error("what was noted is still there")
	}
}
