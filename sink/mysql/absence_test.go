package mysql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
)

// through makes the world's sink one that goes through a proxy.
func (w *world) through(params ...string) *proxy {
	w.Helper()
	p := newProxy(w, server.Addr())
	w.sink = openURI(w, p.uri(params...))
	return p
}

func openURI(t testing.TB, uri string) *Sink {
	t.Helper()
	cfg, err := ParseURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(context.Background(), cfg, nil, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// named is a table under another name.
func named(t *event.Table, name string) *event.Table {
	c := *t
	c.Name = name
	return &c
}

// A ddlCut is a DDL in which the connection is cut.
type ddlCut struct {
	setUp func() *event.DDL
	text  string // of the statement
	check string
	want  []string
}

// undoneAgain are DDLs that undo themselves when they are repeated.
func undoneAgain(w *world) map[string]ddlCut {
	return map[string]ddlCut{
		"exchange partition": {func() *event.DDL {
			parted := w.create("create table p (a int primary key) partition by range (a) (partition p0 values less than (6), partition p1 values less than (26))")
			plain := w.create("create table q (a int primary key)")
			w.insert(parted, cells("7"))
			w.insert(plain, cells("20"))
			return &event.DDL{Action: event.ActionExchangePartition, Partition: "p1", WithValidation: true,
				Tables: []event.TableChange{{Before: parted, After: parted}, {Before: plain, After: plain}}}
		}, "EXCHANGE PARTITION", "select concat('p', a) from p union all select concat('q', a) from q", []string{"p20", "q7"}},
		"swap of names": {func() *event.DDL {
			a, b := w.create("create table a (a int primary key)"), w.create("create table b (a int primary key)")
			w.insert(a, cells("1"))
			w.insert(b, cells("2"))
			return &event.DDL{Action: event.ActionRenameTables, Tables: []event.TableChange{
				{Before: a, After: named(a, "c")}, {Before: b, After: named(b, "a")}, {Before: named(a, "c"), After: named(a, "b")}}}
		}, "RENAME TABLE", "select concat('a', a) from a union all select concat('b', a) from b", []string{"a2", "b1"}},
		"swap of columns": {func() *event.DDL {
			before := w.create("create table t (a int, b int)")
			w.insert(before, cells("1", "2"))
			after := tableOf(w, w.schema, "create table t (b int, a int)")
			after.ID = before.ID
			after.Columns[0].Name, after.Columns[1].Name = "a", "b"
			after.Columns[0].ID, after.Columns[1].ID = 2, 1
			return &event.DDL{Action: event.ActionMultiSchemaChange, Query: "alter table t rename column a to b, rename column b to a",
				Tables: []event.TableChange{{Before: before, After: after}}}
		}, "RENAME COLUMN", "select a, b from t", []string{"2|1"}},
	}
}

func otherCuts(w *world) map[string]ddlCut {
	return map[string]ddlCut{
		"a column made anew": {func() *event.DDL {
			before := w.create("create table t (a int, b int)")
			w.insert(before, cells("1", "2"))
			after := tableOf(w, w.schema, "create table t (a int, b int)")
			after.ID = before.ID
			after.Columns[1].ID = 3
			return &event.DDL{Action: event.ActionMultiSchemaChange, Query: "alter table t drop column b, add column b int",
				Tables: []event.TableChange{{Before: before, After: after}}}
		}, "DROP COLUMN", "select a, b from t", []string{"1|NULL"}},
		"truncate": {func() *event.DDL {
			tab := w.create("create table t (a int)")
			w.insert(tab, cells("1"))
			return &event.DDL{Action: event.ActionTruncateTable, Tables: []event.TableChange{{Before: tab, After: tab}}}
		}, "TRUNCATE", "select a from t", nil},
		"create": {func() *event.DDL {
			tab := tableOf(w, w.schema, "create table t (a int)")
			return &event.DDL{Action: event.ActionCreateTable, Query: "create table t (a int)", Tables: []event.TableChange{{After: tab}}}
		}, "CREATE TABLE `", "select count(*) from t", []string{"0"}},
		"add column": {func() *event.DDL {
			before := w.create("create table t (a int)")
			w.insert(before, cells("1"))
			after := tableOf(w, w.schema, "create table t (a int, b int default 5)")
			after.ID = before.ID
			return &event.DDL{Action: event.ActionAddColumn, Query: "alter table t add column b int default 5", Tables: []event.TableChange{{Before: before, After: after}}}
		}, "ADD COLUMN", "select a, b from t", []string{"1|5"}},
		"the clock": {func() *event.DDL {
			tab := w.create("create table t (a int)")
			return &event.DDL{Action: event.ActionDropTable, Tables: []event.TableChange{{Before: tab}}}
		}, "SET SESSION timestamp = 1", "show tables like 't'", nil},
	}
}

// The connection is cut in a DDL, before the server got it or after it ran: it
// takes effect once. What undoes itself when repeated tells.
func TestCutInADDL(t *testing.T) {
	w := newWorld(t)
	p := w.through()
	cases := undoneAgain(w)
	maps.Copy(cases, otherCuts(w))
	for name, c := range cases {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, before=%v", name, before), func(t *testing.T) {
				mustExec(t, w.db, "CREATE OR REPLACE DATABASE "+ident(w.schema))
				d := c.setUp()
				made, _ := p.made()
				p.cutAt(cut{c.text, before})
				w.ddl(d)
				if n, all := p.made(); n != made+1 || !all {
					t.Fatalf("%d cuts were made", n-made)
				}
				w.want(c.check, c.want...)
				w.ddl(&event.DDL{Action: event.ActionCreateTable, Query: "create table after_it (a int)",
					Tables: []event.TableChange{{After: tableOf(t, w.schema, "create table after_it (a int)")}}})
			})
		}
	}
}

// An exchange of which nobody can say whether it took place stops, rather than
// be made undone; nor can it be said later, when the privilege is there that it took.
func TestExchangeThatNobodyCanTell(t *testing.T) {
	w := newWorld(t)
	mustExec(t, w.db, "create or replace user plain@'%' identified by 'p'")
	mustExec(t, w.db, "grant all on "+ident(w.schema)+".* to plain@'%'")
	mustExec(t, w.db, "grant all on tidb_cdc.* to plain@'%'")
	t.Cleanup(func() { mustExec(t, w.db, "drop user plain@'%'") })
	parted := w.create("create table p (a int primary key) partition by range (a) (partition p0 values less than (6))")
	plain := w.create("create table q (a int primary key)")
	p := newProxy(t, server.Addr())
	for name, before := range map[string]bool{"ran": false, "did not": true} {
		mustExec(t, w.db, "revoke process on *.* from plain@'%'")
		w.sink = lived(t, strings.Replace(p.uri(), "root", "plain:p", 1), name, nil)
		p.cutAt(cut{"EXCHANGE PARTITION", before})
		d := w.numbered(&event.DDL{Action: event.ActionExchangePartition, Partition: "p0", WithValidation: true,
			Tables: []event.TableChange{{Before: parted, After: parted}, {Before: plain, After: plain}}})
		untold := func() {
			t.Helper()
			if err := w.sink.DDL(t.Context(), sink.Endless, d); !cdcerr.ExecDDLFailed.Is(err) || !strings.Contains(err.Error(), "PROCESS") {
				t.Fatalf("%s: %v", name, err)
			}
			w.closed(w.sink)
		}
		untold()
		mustExec(t, w.db, "grant process on *.* to plain@'%'")
		w.sink = lived(t, strings.Replace(p.uri(), "root", "plain:p", 1), name, nil)
		untold()
	}
}

// A DDL that still runs when its connection is lost is waited for.
func TestDDLGoesOnWithoutItsConnection(t *testing.T) {
	w := newWorld(t)
	p := w.through()
	tab := w.create("create table t (a int)")
	other, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec("select * from " + qualified(w.schema, "t")); err != nil { // holds the table's shape
		t.Fatal(err)
	}
	var g errgroup.Group
	waits := make(chan string, 1)
	w.sink.log = slog.New(heard{"still carries a DDL out", waits})
	g.Go(func() error {
		return w.tryDDL(&event.DDL{Action: event.ActionTruncateTable, Tables: []event.TableChange{{Before: tab, After: tab}}})
	})
	running := func() bool {
		return column(t, w.db, "select count(*) from information_schema.processlist where info like 'TRUNCATE TABLE%'")[0] == "1"
	}
	for !running() {
	}
	p.cutAll()
	<-waits
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	w.want("select a from t")
}

// heard is a log that hands on the lines whose message holds a text.
type heard struct {
	text string
	to   chan string
}

func (heard) Enabled(context.Context, slog.Level) bool { return true }
func (h heard) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h heard) WithGroup(string) slog.Handler          { return h }

func (h heard) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	if strings.Contains(r.Message, h.text) {
		select {
		case h.to <- line:
		default:
		}
	}
	return nil
}

// Connections that broke while nobody used them are opened anew: for rows, for a
// DDL, and for the look at what a DDL did.
func TestCutWhileIdle(t *testing.T) {
	w := newWorld(t)
	p := w.through()
	tab := w.create("create table t (a int primary key)")
	p.cutAll()
	w.insert(tab, cells("1"))
	p.cutAll()
	w.ddl(&event.DDL{Action: event.ActionCreateTable, Query: "create table u (a int)", Tables: []event.TableChange{{After: tableOf(t, w.schema, "create table u (a int)")}}})
	p.cutAt(cut{"information_schema.COLUMNS", true})
	w.ddl(&event.DDL{Action: event.ActionCreateTable, Query: "create table t (a int primary key)", Tables: []event.TableChange{{After: tab}}}) // there already
	if _, all := p.made(); !all {
		t.Error("nothing was looked at")
	}
	w.want("select a from t", "1")
}

// An answer to COMMIT that is lost: the rows are written again and are there once.
func TestCutInACommit(t *testing.T) {
	w := newWorld(t)
	p := w.through()
	tab := w.create("create table t (a int primary key, b int)")
	for i, before := range []bool{true, false, true, false} {
		p.cutAt(cut{"COMMIT", before})
		w.insert(tab, cells(strconv.Itoa(i), "0"))
	}
	p.cutAt(cut{"REPLACE", true}, cut{"REPLACE", false}, cut{"SET NAMES", false}, cut{"BEGIN", true})
	w.insert(tab, cells("4", "0"))
	if _, all := p.made(); !all {
		t.Error("not all cuts were made")
	}
	w.want("select a from t", "0", "1", "2", "3", "4")
}

// The server is killed and comes back in the midst of rows and DDL: nothing is
// lost, and nothing but time is noticed.
func TestServerRestarts(t *testing.T) {
	own := mariadb.Start(t)
	w := &world{T: t, db: own.DB(), sink: openURI(t, own.URI()), ts: 1 << 60, schema: "restart"}
	defer w.db.Close()
	w.ddl(&event.DDL{Action: event.ActionCreateSchema, DatabaseAfter: &event.Database{Name: w.schema, Charset: "utf8mb4", Collation: "utf8mb4_bin"}})
	tab := w.create("create table t (a int primary key, b int)")
	shape, rows := "a int primary key, b int", 0
	busy := make(chan struct{}, 1)
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error {
		for n := 0; ctx.Err() == nil; n++ {
			if n%10 == 9 {
				shape += fmt.Sprintf(", c%d int", n)
				after := tableOf(t, w.schema, "create table t ("+shape+")")
				after.ID = tab.ID
				err := w.tryDDL(&event.DDL{Action: event.ActionAddColumn, Query: fmt.Sprintf("alter table t add column c%d int", n),
					Tables: []event.TableChange{{Before: tab, After: after}}})
				if err != nil {
					return err
				}
				tab = after
			}
			row := make([]string, len(tab.Columns))
			for i := range row {
				row[i] = strconv.Itoa(rows)
			}
			if err := w.sink.writeNow(context.Background(), sink.Endless, []event.Txn{w.txn(w.row(tab, rows, nil, row))}); err != nil {
				return err
			}
			rows++
			select {
			case busy <- struct{}{}:
			default:
			}
		}
		return nil
	})
	for range 3 {
		for range 2 {
			select {
			case <-busy:
			case <-time.After(time.Minute):
				t.Error("nothing was written for a minute")
			}
		}
		if err := own.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := own.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	<-busy
	<-busy
	stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	w.want("select count(*), count(distinct a) from t", fmt.Sprintf("%d|%d", rows, rows))
	w.want("select count(*) from information_schema.columns where table_schema='restart'", strconv.Itoa(len(tab.Columns)))
}

// A downstream that stays away ends in its time, with its code; the end of the
// context ends the waiting at once.
func TestServerStaysAway(t *testing.T) {
	w := newWorld(t)
	p := w.through("reconnect-timeout=400ms")
	tab := w.create("create table t (a int primary key)")
	_ = p.listener.Close()
	p.cutAll()
	err := w.sink.writeNow(context.Background(), sink.Endless, []event.Txn{w.txn(w.row(tab, 1, nil, cells("1")))})
	if !cdcerr.MySQLConnection.Is(err) || !strings.Contains(err.Error(), "commit-ts") {
		t.Error(err)
	}
	if err := w.tryDDL(&event.DDL{Action: event.ActionDropTable, Tables: []event.TableChange{{Before: tab}}}); !cdcerr.MySQLConnection.Is(err) {
		t.Error(err)
	}
	w.sink.cfg.Absence = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.sink.writeNow(ctx, sink.Endless, []event.Txn{w.txn(w.row(tab, 1, nil, cells("1")))}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", p.addr()); err == nil {
		t.Error("the proxy is still there")
	}
}
