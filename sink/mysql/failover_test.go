package mysql

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
)

// twoServers are two servers with the same tables, of which the first is replaced.
type twoServers struct {
	*world
	a, b *mariadb.Server
	dbs  []*sql.DB
}

func newPair(t *testing.T) *twoServers {
	p := &twoServers{world: &world{T: t, ts: 1 << 60, schema: "pair"}, a: mariadb.Start(t), b: mariadb.Start(t)}
	for _, s := range []*mariadb.Server{p.a, p.b} {
		db := s.DB()
		t.Cleanup(func() { _ = db.Close() })
		p.dbs = append(p.dbs, db)
	}
	p.db = p.dbs[0]
	return p
}

// both runs statements on both servers.
func (p *twoServers) both(texts ...string) {
	p.Helper()
	for _, db := range p.dbs {
		for _, text := range texts {
			mustExec(p, db, text)
		}
	}
}

// takeRecord copies the record of DDLs, as replication does.
func (p *twoServers) takeRecord() {
	p.Helper()
	var cluster, name, ts, text string
	var id int64
	if err := p.dbs[0].QueryRow("select ticdc_cluster_id, changefeed, table_id, ddl_ts, sluice_record from tidb_cdc.ddl_ts_v1").Scan(&cluster, &name, &id, &ts, &text); err != nil {
		p.Fatal(err)
	}
	mustExec(p, p.dbs[1], fmt.Sprintf("insert into tidb_cdc.ddl_ts_v1 (ticdc_cluster_id, changefeed, table_id, ddl_ts, sluice_record) values (%s, %s, %d, %s, %s)",
		quoted(cluster), quoted(name), id, quoted(ts), quoted(text)))
}

// A lostDDL is one that one server takes with it, and what it leaves on the other.
type lostDDL struct {
	action       event.Action
	query, after string // after: the table then, empty: none
	text         string // the statement holds it
	check        string
	did, undid   string // what check shows where it ran, and where not
}

var failovers = []lostDDL{
	{event.ActionTruncateTable, "truncate table t", "create table t (a int primary key, b int, key kb (b))", "TRUNCATE", "select count(*) from pair.t", "0", "1"},
	{event.ActionDropIndex, "alter table t drop index kb", "create table t (a int primary key, b int)", "DROP INDEX",
		"select count(*) from information_schema.statistics where table_schema = 'pair' and index_name = 'kb'", "0", "1"},
	{event.ActionModifyColumn, "alter table t modify column b bigint", "create table t (a int primary key, b bigint, key kb (b))", "MODIFY",
		"select column_type from information_schema.columns where table_schema = 'pair' and column_name = 'b'", "bigint(20)", "int(11)"},
	{event.ActionAddColumn, "alter table t add column c int default 7", "create table t (a int primary key, b int, key kb (b), c int default 7)", "ADD COLUMN",
		"select count(*) from information_schema.columns where table_schema = 'pair' and column_name = 'c'", "1", "0"},
	{event.ActionDropTable, "drop table t", "", "DROP TABLE", "select count(*) from information_schema.tables where table_schema = 'pair' and table_name = 't'", "0", "1"},
}

const pairTable = "create table t (a int primary key, b int, key kb (b))"

func (p *twoServers) ddlOf(f lostDDL) *event.DDL {
	before := tableOf(p, p.schema, pairTable)
	d := &event.DDL{Action: f.action, Query: f.query, Tables: []event.TableChange{{Before: before}}}
	if f.after != "" {
		d.Tables[0].After = tableOf(p, p.schema, f.after)
		d.Tables[0].After.ID = before.ID
	}
	return p.numbered(d)
}

// A server that dies with a DDL's statement takes its own ids and moments with it:
// on the one that takes over, only what the statement did there counts, while Sluice
// runs and when it begins anew.
func TestDDLOverAFailover(t *testing.T) {
	p := newPair(t)
	t.Run("what cannot be told", p.cannotTell)
	for _, f := range failovers {
		for _, copied := range []bool{false, true} { // the statement was replicated before the server died
			for _, anew := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, replicated=%v, anew=%v", strings.ToLower(f.text), copied, anew), func(t *testing.T) {
					p.T = t
					p.both("create database if not exists tidb_cdc", createDDLRecord, "truncate table tidb_cdc.ddl_ts_v1", "create or replace database pair", strings.Replace(pairTable, "table t", "table pair.t", 1), "insert into pair.t values (1, 2)")
					front := newProxy(t, p.a.Addr())
					next, params := p.b.Addr(), ""
					if anew {
						next, params = nowhere, "reconnect-timeout=1ms"
					}
					// The fence is off: the second server has not the first one's rows, so it refuses until the sink is opened anew.
					s := lived(t, front.uri(params, "enable-fence=false"), "x", nil)
					defer func() { p.closed(s) }()
					d := p.ddlOf(f)
					script, err := planDDL(d, s.Dialect(), false)
					if err != nil {
						t.Fatal(err)
					}
					if copied {
						for _, text := range script.statements {
							mustExec(t, p.dbs[1], text)
						}
					}
					front.cutAt(cut{f.text, true})
					front.failOver(next)
					err = s.DDL(t.Context(), sink.Endless, d)
					if anew {
						if !cdcerr.MySQLConnection.Is(err) {
							t.Fatal(err)
						}
						p.closed(s)
						p.takeRecord()
						s = lived(t, p.b.URI(), "x", nil)
						if len(s.noted.Begun) == 0 {
							t.Fatal("nothing was under way")
						}
						err = s.DDL(t.Context(), sink.Endless, d)
					}
					if err != nil {
						t.Fatal(err)
					}
					if got := column(t, p.dbs[1], f.check)[0]; got != f.did {
						t.Errorf("%s: %s, want %s", f.check, got, f.did)
					}
					if got := column(t, p.dbs[0], f.check)[0]; got != f.undid {
						t.Errorf("the first server: %s: %s, want %s", f.check, got, f.undid)
					}
				})
			}
		}
	}
}

// cannotTell is what a table's text does not show: that stops on another server.
func (p *twoServers) cannotTell(t *testing.T) {
	parted := tableOf(t, p.schema, "create table p (a int primary key) partition by range (a) (partition p0 values less than (6))")
	plain := tableOf(t, p.schema, "create table q (a int primary key)")
	plain.ID++
	for name, d := range map[string]*event.DDL{
		"EXCHANGE PARTITION": {Action: event.ActionExchangePartition, Partition: "p0", Tables: []event.TableChange{{Before: parted, After: parted}, {Before: plain, After: plain}}},
		"RENAME TABLE": {Action: event.ActionRenameTables, Tables: []event.TableChange{{Before: plain, After: named(plain, "c")},
			{Before: named(plain, "r"), After: plain}, {Before: named(plain, "c"), After: named(plain, "r")}}},
	} {
		p.both("create or replace database pair", "create table pair.p (a int primary key) partition by range (a) (partition p0 values less than (6))",
			"create table pair.q (a int primary key)", "create table pair.r (a int primary key)")
		front := newProxy(t, p.a.Addr())
		s := openURI(t, front.uri())
		front.cutAt(cut{name, true})
		front.failOver(p.b.Addr())
		err := s.DDL(t.Context(), sink.Endless, p.numbered(d))
		if !cdcerr.ExecDDLFailed.Is(err) || !strings.Contains(err.Error(), "cannot be told") || !strings.Contains(err.Error(), "not the one that it was sent to") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
