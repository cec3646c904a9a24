package mysql

import (
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
)

// What a server's globals make of every session, an answer cut short or statements that
// nobody commits, is not so in those of a sink.
func TestHostileGlobals(t *testing.T) {
	own := mariadb.Start(t)
	w := &world{T: t, db: own.DB(), ts: 1 << 60, schema: "hostile"}
	defer w.db.Close()
	mustExec(t, w.db, "create database hostile")
	for _, set := range []string{"sql_select_limit = 1", "max_join_size = 1", "sql_big_selects = 0", "autocommit = 0"} {
		mustExec(t, w.db, "set global "+set)
	}
	s, err := livedAs(t, own.URI(), "x", nil, func(*Config) {})
	if err != nil {
		t.Fatal(err)
	}
	w.sink = s
	tab := w.create("create table t (id int primary key, n int, unique key un (n))")
	w.insert(tab, cells("1", "1"), cells("2", "2"))
	w.insert(w.alter(tab, "alter table t add column c int", "create table t (id int primary key, n int, c int, unique key un (n))"), cells("3", "3", "3"))
	w.closed(s)
	for _, set := range []string{"sql_select_limit = default", "max_join_size = default", "sql_big_selects = 1"} {
		mustExec(t, w.db, "set global "+set) // for the test's own questions
	}
	db := own.DB()
	defer db.Close()
	db.SetMaxIdleConns(0) // each sees what is committed
	count := func(table string) string {
		return column(t, db, "select count(*) from "+table+" where changefeed = '"+t.Name()+"'")[0]
	}
	if n := column(t, db, "select count(*) from hostile.t")[0]; n != "3" || count("tidb_cdc.ddl_ts_v1") != "1" {
		t.Error(n, count("tidb_cdc.ddl_ts_v1"))
	}
	if err := Forget(t.Context(), s.cfg); err != nil {
		t.Fatal(err)
	}
	if count("tidb_cdc.ddl_ts_v1") != "0" || count(fenceTable) != "0" {
		t.Error(count("tidb_cdc.ddl_ts_v1"), count(fenceTable))
	}
}

// A user who is not let in any more is not told about privileges, nor that the fence
// could be done without.
func TestAPasswordThatFitsNoMore(t *testing.T) {
	w := newWorld(t)
	mustExec(t, w.db, "create or replace user letin@'%' identified by 'p'")
	mustExec(t, w.db, "grant all on *.* to letin@'%'")
	t.Cleanup(func() { mustExec(t, w.db, "drop user letin@'%'") })
	s := w.ended(lived(t, strings.Replace(server.URI(), "root", "letin:p", 1), "x", nil))
	tab := w.create("create table t (id int primary key)")
	mustExec(t, w.db, "alter user letin@'%' identified by 'other'")
	s.session.lose()
	err := s.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 1, nil, cells("1")))})
	if !cdcerr.MySQLAccessDenied.Is(err) || !strings.Contains(err.Error(), "1045") || strings.Contains(err.Error(), "enable-fence") {
		t.Error(err)
	}
	mustExec(t, w.db, "alter user letin@'%' identified by 'p'")
}
