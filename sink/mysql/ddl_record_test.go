package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// lived opens a sink for a life of a changefeed.
func lived(t testing.TB, uri, life string, snapshot Snapshot) *Sink {
	t.Helper()
	s, err := livedAs(t, uri, life, snapshot, func(*Config) {})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// livedAs is lived with more said.
func livedAs(t testing.TB, uri, life string, snapshot Snapshot, change func(*Config)) (*Sink, error) {
	t.Helper()
	cfg, err := ParseURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Changefeed, cfg.Life = t.Name(), life
	change(&cfg)
	return Open(context.Background(), cfg, snapshot, testLog(t))
}

func (w *world) closed(s *Sink) {
	w.Helper()
	if err := s.Close(); err != nil {
		w.Error(err)
	}
}

// numbered gives a DDL what every job has.
func (w *world) numbered(d *event.DDL) *event.DDL {
	w.ts += 1 << 18
	w.job++
	d.JobID, d.StartTS, d.SwitchTS, d.FinishedTS = w.job, w.ts.Prev(), w.ts, w.ts
	if d.Schema == "" {
		d.Schema = w.schema
	}
	return d
}

// A logged counts the statements that a server has logged since.
type logged struct {
	file string
	from int64
}

func logOf(t testing.TB, db *sql.DB) (l logged) {
	t.Helper()
	var doDB, ignore string
	if err := db.QueryRow("SHOW MASTER STATUS").Scan(&l.file, &l.from, &doDB, &ignore); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l logged) count(t testing.TB, db *sql.DB, text string) (n int) {
	t.Helper()
	rows, err := db.Query(fmt.Sprintf("SHOW BINLOG EVENTS IN '%s' FROM %d", l.file, l.from))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var file, kind, info string
		var at, server, end int64
		if err := rows.Scan(&file, &at, &kind, &server, &end, &info); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info, text) && !strings.Contains(info, "tidb_cdc") {
			n++
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// alterCut is a DDL on table t, made by create and holding rows.
func alterCut(w *world, action event.Action, create, query, after, text, check string, want []string, rows ...[]string) ddlCut {
	return ddlCut{func() *event.DDL {
		before := w.create(create)
		w.insert(before, rows...)
		then := tableOf(w, w.schema, after)
		then.ID = before.ID
		d := &event.DDL{Action: action, Query: query, Tables: []event.TableChange{{Before: before, After: then}}}
		for i := range min(len(before.Columns), len(then.Columns)) {
			if was, is := &before.Columns[i], &then.Columns[i]; action == event.ActionModifyColumn && was.ValueKind() != is.ValueKind() {
				is.ID += 100
				d.Conversions = append(d.Conversions, event.Conversion{TableID: then.ID, FromID: was.ID, ToID: is.ID, Name: is.Name})
			}
		}
		return d
	}, text, check, want}
}

const columnsOfT = "select column_name, column_type, is_nullable, column_default from information_schema.columns where table_schema = database() and table_name = 't'"

// tableCuts are DDLs on the shape of one table.
func tableCuts(w *world) map[string]ddlCut {
	return map[string]ddlCut{
		"drop column": alterCut(w, event.ActionDropColumn, "create table t (a int primary key, b int)", "alter table t drop column b", "create table t (a int primary key)",
			"DROP COLUMN", "select * from t", []string{"1"}, cells("1", "2")),
		"add index": alterCut(w, event.ActionAddIndex, "create table t (a int primary key, b int)", "create index kb on t (b)", "create table t (a int primary key, b int, key kb (b))",
			"ADD INDEX", "select index_name from information_schema.statistics where table_schema = database()", []string{"PRIMARY", "kb"}, cells("1", "2")),
		"drop index": alterCut(w, event.ActionDropIndex, "create table t (a int primary key, b int, key kb (b))", "drop index kb on t", "create table t (a int primary key, b int)",
			"DROP INDEX", "select index_name from information_schema.statistics where table_schema = database()", []string{"PRIMARY"}, cells("1", "2")),
		"rename index": alterCut(w, event.ActionRenameIndex, "create table t (a int primary key, b int, key kb (b))", "alter table t rename index kb to kc", "create table t (a int primary key, b int, key kc (b))",
			"RENAME INDEX", "select index_name from information_schema.statistics where table_schema = database()", []string{"PRIMARY", "kc"}),
		"modify column": alterCut(w, event.ActionModifyColumn, "create table t (a int primary key, b int)", "alter table t modify column b varchar(20) not null", "create table t (a int primary key, b varchar(20) not null)",
			"MODIFY COLUMN", "select * from t", []string{"1|22"}, cells("1", "22")),
		"change column": alterCut(w, event.ActionModifyColumn, "create table t (a int primary key, b int)", "alter table t change column b c bigint", "create table t (a int primary key, c bigint)",
			"CHANGE COLUMN", columnsOfT, []string{"a|int(11)|NO|NULL", "c|bigint(20)|YES|NULL"}),
		"set default": alterCut(w, event.ActionSetDefault, "create table t (a int primary key, b int)", "alter table t alter column b set default 7", "create table t (a int primary key, b int default 7)",
			"SET DEFAULT", columnsOfT, []string{"a|int(11)|NO|NULL", "b|int(11)|YES|7"}),
		"comment": alterCut(w, event.ActionTableComment, "create table t (a int)", "alter table t comment = 'x'", "create table t (a int) comment = 'x'",
			"COMMENT", "select table_comment from information_schema.tables where table_schema = database()", []string{"x"}),
		"add partition": alterCut(w, event.ActionAddPartition, "create table t (a int) partition by range (a) (partition p0 values less than (5))", "alter table t add partition (partition p1 values less than (9))",
			"create table t (a int) partition by range (a) (partition p0 values less than (5), partition p1 values less than (9))",
			"ADD PARTITION", "select partition_name from information_schema.partitions where table_schema = database()", []string{"p0", "p1"}),
		"drop partition": alterCut(w, event.ActionDropPartition, "create table t (a int) partition by range (a) (partition p0 values less than (5), partition p1 values less than (9))", "alter table t drop partition p0",
			"create table t (a int) partition by range (a) (partition p1 values less than (9))", "DROP PARTITION", "select * from t", []string{"7"}, cells("1"), cells("7")),
		"truncate partition": alterCut(w, event.ActionTruncatePartition, "create table t (a int) partition by range (a) (partition p0 values less than (5), partition p1 values less than (9))", "alter table t truncate partition p0",
			"create table t (a int) partition by range (a) (partition p0 values less than (5), partition p1 values less than (9))", "TRUNCATE PARTITION", "select * from t", []string{"7"}, cells("1"), cells("7")),
		"several at once": alterCut(w, event.ActionMultiSchemaChange, "create table t (a int primary key, b int)", "alter table t drop column b, add column c int default 3, add index kc (c)",
			"create table t (a int primary key, c int default 3, key kc (c))", "DROP COLUMN", "select * from t", []string{"1|3"}, cells("1", "2")),
		"to json": alterCut(w, event.ActionModifyColumn, "create table t (a int primary key, b varchar(20))", "alter table t modify column b json", "create table t (a int primary key, b json)",
			"MODIFY COLUMN", "select * from t", []string{`1|{"a": 1}`}, cells("1", `{"a":1}`)),
	}
}

// convertedCuts are conversions that take several statements, and find out for
// themselves what of them is done.
func convertedCuts(w *world) map[string]ddlCut {
	inZone := func(c ddlCut, name string, offset int) ddlCut {
		made := c.setUp
		c.setUp = func() *event.DDL {
			d := made()
			d.ZoneName, d.ZoneOffset = name, offset
			b := &d.Tables[0].After.Columns[1]
			b.ID += 100
			d.Conversions = []event.Conversion{{TableID: d.Tables[0].After.ID, FromID: d.Tables[0].Before.Columns[1].ID, ToID: b.ID, Name: "b"}}
			return d
		}
		return c
	}
	moment := alterCut(w, event.ActionNone, "create table t (a int primary key, b timestamp)", "alter table t modify column b datetime", "create table t (a int primary key, b datetime)",
		"", "select * from t", []string{"1|2021-06-01 20:00:00"}, cells("1", "2021-06-01 12:00:00"))
	return map[string]ddlCut{
		"rounded first": alterCut(w, event.ActionModifyColumn, "create table t (a int primary key, b datetime(6))", "alter table t modify column b bigint", "create table t (a int primary key, b bigint)",
			"", "select * from t", []string{"1|20210304050608"}, cells("1", "2021-03-04 05:06:07.600000")),
		"an offset":   inZone(moment, "", 8*3600),
		"a zone name": inZone(moment, "Asia/Shanghai", 8*3600),
	}
}

// otherKinds are DDLs on names, databases and views.
func otherKinds(w *world) map[string]ddlCut {
	return map[string]ddlCut{
		"drop table": {func() *event.DDL {
			tab := w.create("create table t (a int primary key)")
			w.insert(tab, cells("1"))
			return &event.DDL{Action: event.ActionDropTable, Tables: []event.TableChange{{Before: tab}}}
		}, "DROP TABLE", "show tables", nil},
		"rename table": {func() *event.DDL {
			tab := w.create("create table t (a int primary key)")
			w.insert(tab, cells("1"))
			return &event.DDL{Action: event.ActionRenameTable, Tables: []event.TableChange{{Before: tab, After: named(tab, "u")}}}
		}, "RENAME TABLE", "select * from u", []string{"1"}},
		"rename chain": {func() *event.DDL {
			a, b := w.create("create table a (a int primary key)"), w.create("create table b (a int primary key)")
			w.insert(a, cells("1"))
			w.insert(b, cells("2"))
			return &event.DDL{Action: event.ActionRenameTables, Tables: []event.TableChange{{Before: b, After: named(b, "c")}, {Before: a, After: named(a, "b")}}}
		}, "RENAME TABLE", "select concat('b', a) from b union all select concat('c', a) from c", []string{"b1", "c2"}},
		"create database": {func() *event.DDL {
			mustExec(w, w.db, "drop database if exists "+ident(w.schema+"_2"))
			return &event.DDL{Action: event.ActionCreateSchema, DatabaseAfter: &event.Database{Name: w.schema + "_2", Charset: "utf8mb4", Collation: "utf8mb4_bin"}}
		}, "", "select count(*) from information_schema.schemata where schema_name = concat(database(), '_2')", []string{"1"}},
		"drop database": {func() *event.DDL {
			mustExec(w, w.db, "create or replace database "+ident(w.schema+"_2"))
			return &event.DDL{Action: event.ActionDropSchema, DatabaseBefore: &event.Database{Name: w.schema + "_2"}}
		}, "", "select count(*) from information_schema.schemata where schema_name = concat(database(), '_2')", []string{"0"}},
		"create view": {func() *event.DDL {
			w.create("create table t (a int primary key)")
			v := &event.Table{ID: 99, Schema: w.schema, Name: "v", Kind: event.View, View: &event.ViewDef{Select: "SELECT `a` FROM " + qualified(w.schema, "t")}}
			return &event.DDL{Action: event.ActionCreateView, Tables: []event.TableChange{{After: v}}}
		}, "VIEW `v`", "select count(*) from v", []string{"0"}},
		"create table like": {func() *event.DDL {
			w.create("create table t (a int primary key)")
			return &event.DDL{Action: event.ActionCreateTable, Query: "create table u like t", Tables: []event.TableChange{{After: tableOf(w, w.schema, "create table u (a int primary key)")}}}
		}, "CREATE TABLE", "select count(*) from u", []string{"0"}},
		"recover": {func() *event.DDL {
			return &event.DDL{Action: event.ActionRecoverTable, Query: "recover table t", Tables: []event.TableChange{{After: tableOf(w, w.schema, "create table t (a int primary key)")}}}
		}, "", "select * from t", []string{"1", "2"}},
	}
}

// The process is killed before every single thing that it sends for a DDL, for
// every kind of DDL, and begins anew with the rows before it: none is lost, none
// runs twice, no row before it comes after it.
func TestKilledInADDL(t *testing.T) {
	step := 2 // half of the places, of each second kind the other half
	if heavy() {
		step = 1
	}
	killedInDDLs(t, step, killedAt)
}

// The same, of an owner whose captures write the rows: the next owner finds on record
// whether the rows before the DDL may come again, and carries it out.
func TestOwnerKilledInADDL(t *testing.T) {
	step := 7 // the places are those of TestKilledInADDL, and two that open the sink
	if heavy() {
		step = 1
	}
	killedInDDLs(t, step, ownerKilledAt)
}

// A killer kills a process before a packet; done tells that it sent none so many.
type killer func(w, made *world, own *mariadb.Server, c ddlCut, snapshot Snapshot, at int) (done bool)

func killedInDDLs(t *testing.T, step int, kill killer) {
	own := mariadb.Start(t, mariadb.BinLog()...)
	w := &world{T: t, db: own.DB(), ts: 1 << 60, schema: "killed"}
	t.Cleanup(func() { _ = w.db.Close() })
	w.sink = openURI(t, own.URI())
	cases := undoneAgain(w)
	for _, more := range []map[string]ddlCut{otherCuts(w), tableCuts(w), convertedCuts(w), otherKinds(w)} {
		maps.Copy(cases, more)
	}
	delete(cases, "the clock")
	snapshot := back{rowsOf{w, [][]string{cells("1"), cells("2")}, nil}}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			for at := 1 + i%step; ; at += step {
				if kill(&world{T: t, db: w.db, sink: w.sink, schema: w.schema}, w, own, cases[name], snapshot, at) {
					if at < 5 && step < 5 {
						t.Fatalf("nothing more was sent after %d packets", at)
					}
					return
				}
			}
		})
	}
}

// back reads the rows of a table that came back, and none of any other.
type back struct{ rowsOf }

func (b back) Rows(ctx context.Context, t *event.Table, at tso.TS, fn func(*event.Row) error) error {
	if len(t.Columns) > 1 {
		return nil
	}
	return b.rowsOf.Rows(ctx, t, at, fn)
}

// ownerKilledAt is killedAt of an owner, after which another one comes.
func ownerKilledAt(w, made *world, own *mariadb.Server, c ddlCut, snapshot Snapshot, at int) (done bool) {
	w.Helper()
	mustExec(w, w.db, "CREATE OR REPLACE DATABASE "+ident(w.schema))
	made.sent = nil
	d := made.numbered(c.setUp())
	life, log, revision := fmt.Sprint(made.job), logOf(w, w.db), uint64(2*made.job) //nolint:gosec // counted from 1
	opened := func(uri string, revision uint64) *Sink {
		s, err := owning(w, uri, life, snapshot, revision)
		if err != nil {
			w.Fatalf("killed at %d: %v", at, err)
		}
		return s
	}
	p := newProxy(w, own.Addr())
	first := opened(p.uri("reconnect-timeout=1ms"), revision)
	p.dieAt(at)
	err := first.DDL(context.Background(), under(revision), d)
	w.closed(first)
	again := opened(own.URI(), revision+1)
	defer w.closed(again)
	on, badly := again.Recorded(context.Background())
	if badly != nil || len(on) > 1 || len(on) == 1 && (on[0].Job != d.JobID || on[0].TS != d.SwitchTS) || err == nil && (len(on) != 1 || !on[0].Done) {
		w.Fatalf("killed at %d (%v): on record: %+v, %v", at, err, on, badly)
	}
	rows, badly := livedAs(w, own.URI(), life, nil, func(c *Config) { c.Role, c.Capture = sink.Rows, "one" })
	if badly != nil {
		w.Fatal(badly)
	}
	defer w.closed(rows)
	for _, txn := range made.sent {
		if len(on) > 0 || !txn.Rows[0].Table.Eligible() {
			continue // the owner has them begin behind it
		}
		if err := rows.writeNow(context.Background(), under(term(revision+1, 1)), []event.Txn{txn}); err != nil {
			w.Fatalf("killed at %d: rows before the DDL: %v", at, err)
		}
	}
	for range 2 {
		if err := again.DDL(context.Background(), under(revision+1), d); err != nil {
			w.Fatalf("killed at %d: %v", at, err)
		}
	}
	w.want(c.check, c.want...)
	if n := log.count(w, w.db, c.text); c.text != "" && n != 1 {
		w.Fatalf("killed at %d: it ran %d times", at, n)
	}
	if w.Failed() {
		w.Fatalf("killed at %d", at)
	}
	return err == nil
}

// killedAt kills a process that does everything.
func killedAt(w, made *world, own *mariadb.Server, c ddlCut, snapshot Snapshot, at int) (done bool) {
	w.Helper()
	mustExec(w, w.db, "CREATE OR REPLACE DATABASE "+ident(w.schema))
	made.sent = nil
	d := made.numbered(c.setUp())
	life, log := fmt.Sprint(made.job), logOf(w, w.db)
	p := newProxy(w, own.Addr())
	first := lived(w, p.uri("reconnect-timeout=1ms"), life, snapshot)
	p.dieAt(at)
	err := first.DDL(context.Background(), sink.Endless, d)
	w.closed(first)
	again := lived(w, own.URI(), life, snapshot)
	defer w.closed(again)
	for _, txn := range made.sent {
		if again.noted.from == 0 && !txn.Rows[0].Table.Eligible() {
			continue // it may be doubled: what tells one such row from another?
		}
		if err := again.writeNow(context.Background(), sink.Endless, []event.Txn{txn}); err != nil {
			w.Fatalf("killed at %d: rows before the DDL: %v", at, err)
		}
	}
	for range 2 {
		if err := again.DDL(context.Background(), sink.Endless, d); err != nil {
			w.Fatalf("killed at %d: %v", at, err)
		}
	}
	w.want(c.check, c.want...)
	if n := log.count(w, w.db, c.text); c.text != "" && n != 1 {
		w.Fatalf("killed at %d: it ran %d times", at, n)
	}
	if w.Failed() {
		w.Fatalf("killed at %d", at)
	}
	return err == nil
}

// What another life of the changefeed has noted does not count, nor what another
// changefeed has.
func TestAnotherLifesDDLs(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (a int primary key)")
	truncate := w.numbered(&event.DDL{Action: event.ActionTruncateTable, Tables: []event.TableChange{{Before: tab, After: tab}}})
	rows := func(s *Sink, change func(*Config), want ...string) {
		t.Helper()
		w.insert(tab, cells("1"))
		change(&s.cfg)
		if err := s.readNoted(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.DDL(t.Context(), sink.Endless, truncate); err != nil {
			t.Fatal(err)
		}
		w.want("select a from t", want...)
	}
	s := lived(t, server.URI(), "first", nil)
	defer w.closed(s)
	rows(s, func(*Config) {})
	rows(s, func(*Config) {}, "1")
	rows(s, func(c *Config) { c.Upstream = 7 << 60 })
	rows(s, func(c *Config) { c.Upstream = 0; c.Life = "second" })
	rows(s, func(*Config) {}, "1")
	rows(s, func(c *Config) { c.Changefeed += "2" })
	rows(s, func(*Config) {}, "1")
	if err := Forget(t.Context(), s.cfg); err != nil {
		t.Fatal(err)
	}
	rows(s, func(*Config) {})
	s.noted = nil
	rows(s, func(c *Config) { c.NoDDLRecord = true })
}

// Jobs that share a ts are told apart.
func TestTwoDDLsOfOneTS(t *testing.T) {
	w := newWorld(t)
	s := lived(t, server.URI(), "x", nil)
	defer w.closed(s)
	one := w.numbered(&event.DDL{Action: event.ActionCreateTable, Query: "create table a (a int)", Tables: []event.TableChange{{After: tableOf(t, w.schema, "create table a (a int)")}}})
	two := w.numbered(&event.DDL{Action: event.ActionCreateTable, Query: "create table b (a int)", Tables: []event.TableChange{{After: tableOf(t, w.schema, "create table b (a int)")}}})
	one.SwitchTS = two.SwitchTS
	for _, d := range []*event.DDL{one, two, one, two} {
		if err := s.DDL(t.Context(), sink.Endless, d); err != nil {
			t.Fatal(err)
		}
		if err := s.readNoted(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.want("show tables", "a", "b")
	if len(s.noted.Done) != 2 {
		t.Error(s.noted)
	}
}

// A table that TiCDC has made is widened, its rows stay; a statement that another
// release began stops.
func TestRecordOfTiCDC(t *testing.T) {
	w := newWorld(t)
	mustExec(t, w.db, "create database if not exists tidb_cdc")
	mustExec(t, w.db, "drop table if exists tidb_cdc.ddl_ts_v1")
	mustExec(t, w.db, `create table tidb_cdc.ddl_ts_v1 (ticdc_cluster_id varchar(255), changefeed varchar(255), ddl_ts varchar(18), table_id bigint, finished bool, is_syncpoint bool,
		index (ticdc_cluster_id, changefeed, table_id), primary key (ticdc_cluster_id, changefeed, table_id))`)
	mustExec(t, w.db, "insert into tidb_cdc.ddl_ts_v1 values ('default', '"+t.Name()+"', '5', 0, 1, 0), ('default', '"+t.Name()+"', '5', -1, 1, 1)")
	s := lived(t, server.URI(), "x", nil)
	defer w.closed(s)
	tab := tableOf(t, w.schema, "create table t (a int)")
	d := w.numbered(&event.DDL{Action: event.ActionCreateTable, Query: "create table t (a int)", Tables: []event.TableChange{{After: tab}}})
	if err := s.DDL(t.Context(), sink.Endless, d); err != nil {
		t.Fatal(err)
	}
	w.want("select table_id, ddl_ts, finished from tidb_cdc.ddl_ts_v1 where changefeed = '"+t.Name()+"'", "0|5|1", "-1|5|1", fmt.Sprintf("0|%d|1", d.SwitchTS))
	mustExec(t, w.db, "delete from tidb_cdc.ddl_ts_v1 where (ticdc_cluster_id, changefeed) in (('default', '"+t.Name()+"'))") // as TiCDC removes a changefeed
	w.want("select ticdc_cluster_id, ddl_ts from tidb_cdc.ddl_ts_v1 where changefeed = '"+t.Name()+"'", fmt.Sprintf("%s|%d", s.cfg.writer(), d.SwitchTS))
	next := w.numbered(&event.DDL{Action: event.ActionTruncateTable, Tables: []event.TableChange{{Before: tab, After: tab}}})
	s.noted.Begun = []underway{{ddlNote: noteOf(next), Script: "other"}}
	if err := s.DDL(t.Context(), sink.Endless, next); !cdcerr.ExecDDLFailed.Is(err) || !strings.Contains(err.Error(), "another release") {
		t.Fatal(err)
	}
}

// A user who may not make the table is told what it is for.
func TestRecordIsDenied(t *testing.T) {
	w := newWorld(t)
	mustExec(t, w.db, "create or replace user noting@'%' identified by 'p'")
	mustExec(t, w.db, "grant all on "+ident(w.schema)+".* to noting@'%'")
	t.Cleanup(func() { mustExec(t, w.db, "drop user noting@'%'") })
	cfg, err := ParseURI(strings.Replace(server.URI(), "root", "noting:p", 1))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Life = "x"
	if _, err := Open(t.Context(), cfg, nil, testLog(t)); !cdcerr.MySQLAccessDenied.Is(err) || !strings.Contains(err.Error(), "tidb_cdc") || !strings.Contains(err.Error(), "enable-ddl-ts=false") {
		t.Fatal(err)
	}
	cfg.NoDDLRecord, cfg.NoFence = true, true
	s, err := Open(t.Context(), cfg, nil, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	w.closed(s)
}
