package mysql

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
)

// playTiDB is a MariaDB that calls itself TiDB, and a proxy that puts a table of the
// test in the place of TiDB's list of jobs.
func playTiDB(t *testing.T) (*world, *proxy) {
	own := mariadb.Start(t, "--version=8.0.11-TiDB-v8.5.1")
	w := &world{T: t, db: own.DB(), ts: 1 << 60, schema: "played"}
	t.Cleanup(func() { _ = w.db.Close() })
	mustExec(t, w.db, "create database played")
	mustExec(t, w.db, "create database fake_information_s")
	mustExec(t, w.db, "create table fake_information_s.ddl_jobs (JOB_ID bigint, STATE varchar(20), QUERY text)")
	p := newProxy(t, own.Addr())
	p.instead = [][2]string{{"information_schema.ddl_jobs", "fake_information_s.ddl_jobs"}, {"ADMIN SHOW DDL JOBS 1", "SELECT 7 AS JOB_ID   "}}
	for _, x := range p.instead {
		if len(x[0]) != len(x[1]) {
			t.Fatalf("%q and %q differ in length", x[0], x[1])
		}
	}
	return w, p
}

// addIndex is an ADD INDEX, and the statement that it becomes.
func (w *world) addIndex(tab *event.Table, name string) (d *event.DDL, text string) {
	w.Helper()
	after := *tab
	after.Indexes = append(after.Indexes[:len(after.Indexes):len(after.Indexes)], event.Index{ID: 9, Name: name, Parts: []event.IndexPart{{Column: 1, Length: event.FullLength}}})
	d = w.numbered(&event.DDL{Action: event.ActionAddIndex, Query: "create index " + name + " on t (b)", Tables: []event.TableChange{{Before: tab, After: &after}}})
	s, err := planDDL(d, Dialect{Kind: TiDB, Major: 8, Minor: 5}, false)
	if err != nil {
		w.Fatal(err)
	}
	return d, s.main
}

// A long ADD INDEX on TiDB holds nothing up but other DDL of its table, also across
// an end of the process, and one that TiDB takes back is an error.
func TestLongAddIndexOnTiDB(t *testing.T) {
	w, p := playTiDB(t)
	w.sink = lived(t, p.uri("async-ddl-timeout=300ms"), "x", nil)
	tab, other := w.create("create table t (a int primary key, b int)"), w.create("create table u (a int primary key)")
	held, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec("select * from played.t"); err != nil { // the index has to wait for its end
		t.Fatal(err)
	}
	add, text := w.addIndex(tab, "kb")
	mustExec(t, w.db, fmt.Sprintf("insert into fake_information_s.ddl_jobs values (7, 'synced', %s), (8, 'running', %s)", quoted(text), quoted(text)))
	if err := w.sink.DDL(t.Context(), sink.Endless, add); err != nil {
		t.Fatal(err)
	}
	w.want("select count(*) from information_schema.statistics where table_schema = 'played' and index_name = 'kb'", "0")
	w.insert(other, cells("1"))
	w.ddl(&event.DDL{Action: event.ActionDropTable, Tables: []event.TableChange{{Before: other}}})
	w.want("show tables", "t")
	if err := w.sink.Checkpoint(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.closed(w.sink)

	w.sink = lived(t, p.uri("async-ddl-timeout=300ms"), "x", nil)
	waits := make(chan string, 1)
	w.sink.log = slog.New(heard{"waits for an index", waits})
	var g errgroup.Group
	g.Go(func() error {
		return w.tryDDL(&event.DDL{Action: event.ActionTruncateTable, Tables: []event.TableChange{{Before: tab, After: tab}}})
	})
	select {
	case <-waits:
	case <-time.After(time.Minute):
		t.Fatal("a DDL of the same table does not wait")
	}
	if err := held.Commit(); err != nil {
		t.Fatal(err)
	}
	mustExec(t, w.db, "update fake_information_s.ddl_jobs set STATE = 'synced' where JOB_ID = 8")
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(w.sink.building) != 0 {
		t.Error(w.sink.building)
	}
	w.closed(w.sink)
}

// What TiDB says of a job decides: done is done, taken back is an error at once or
// when it is looked at, and a statement that never got there is sent again.
func TestWhatBecameOfAnIndex(t *testing.T) {
	w, p := playTiDB(t)
	for _, c := range []struct{ state, later, want string }{
		{"synced", "", ""}, {"rollback done", "", "taken it back"}, {"queueing", "cancelled", "taken it back"}, {"paused", "done", ""}, {"odd", "", `state "odd"`},
	} {
		mustExec(t, w.db, "create or replace database played")
		mustExec(t, w.db, "delete from fake_information_s.ddl_jobs")
		w.sink = lived(t, p.uri("async-ddl-timeout=1h"), "", nil)
		tab := w.create("create table t (a int primary key, b int)")
		add, text := w.addIndex(tab, "kb")
		mustExec(t, w.db, fmt.Sprintf("insert into fake_information_s.ddl_jobs values (8, '%s', %s)", c.state, quoted(text)))
		p.cutAt(cut{"ADD INDEX", true})
		err := w.sink.DDL(t.Context(), sink.Endless, add)
		if c.later != "" && err == nil {
			mustExec(t, w.db, "update fake_information_s.ddl_jobs set STATE = '"+c.later+"'")
			err = w.sink.Checkpoint(t.Context(), 1)
		}
		if (err == nil) != (c.want == "") || err != nil && !(strings.Contains(err.Error(), c.want) && cdcerr.Of(err) != nil) {
			t.Errorf("%s, %s: %v", c.state, c.later, err)
		}
		if len(w.sink.building) != 0 {
			t.Errorf("%s, %s: %v", c.state, c.later, w.sink.building)
		}
		w.want("select count(*) from information_schema.statistics where table_schema = 'played' and index_name = 'kb'", "0")
		w.closed(w.sink)
	}
	mustExec(t, w.db, "delete from fake_information_s.ddl_jobs")
	w.sink = lived(t, p.uri(), "", nil)
	p.cutAt(cut{"ADD INDEX", true})
	add, _ := w.addIndex(tableOf(t, "played", "create table t (a int primary key, b int)"), "kb")
	if err := w.sink.DDL(t.Context(), sink.Endless, add); err != nil {
		t.Fatal(err)
	}
	w.want("select count(*) from information_schema.statistics where table_schema = 'played' and index_name = 'kb'", "1")
	w.closed(w.sink)
}

// An index that TiDB has taken back is not under way: it is added when the changefeed
// is resumed, also where the process that began it has ended before it learnt of that.
func TestAnIndexThatWasTakenBackIsAddedAgain(t *testing.T) {
	w, p := playTiDB(t)
	mustExec(t, w.db, "create or replace database played")
	mustExec(t, w.db, "delete from fake_information_s.ddl_jobs")
	open := func() *Sink {
		w.sink = lived(t, p.uri("async-ddl-timeout=1h", "reconnect-timeout=1ms"), "taken back", nil)
		return w.sink
	}
	open()
	tab := w.create("create table t (a int primary key, b int)")
	add, text := w.addIndex(tab, "kb")
	p.cutAt(cut{"ADD INDEX", true}, cut{"", true}, cut{"", true}, cut{"", true})
	if err := w.sink.DDL(t.Context(), sink.Endless, add); !cdcerr.MySQLConnection.Is(err) {
		t.Fatal(err)
	}
	p.spare()
	w.closed(w.sink)
	mustExec(t, w.db, "insert into fake_information_s.ddl_jobs values (8, 'rollback done', "+quoted(text)+")")
	if err := open().DDL(t.Context(), sink.Endless, add); err == nil || !strings.Contains(err.Error(), "taken it back") {
		t.Fatal(err)
	}
	w.closed(w.sink)
	if err := open().DDL(t.Context(), sink.Endless, add); err != nil {
		t.Fatal(err)
	}
	w.closed(w.sink)
	w.want("select count(*) from information_schema.statistics where table_schema = 'played' and index_name = 'kb'", "1")
}

// A record of an index that TiDB knows nothing of any more is no failure: the index
// is there, or its lack is said.
func TestIndexThatTiDBHasForgotten(t *testing.T) {
	w, p := playTiDB(t)
	for there, word := range map[bool]string{true: "has added an index", false: "knows nothing of an ADD INDEX"} {
		mustExec(t, w.db, "create or replace database played")
		mustExec(t, w.db, "delete from fake_information_s.ddl_jobs")
		w.sink = lived(t, p.uri(), fmt.Sprint(there), nil)
		tab := w.create("create table t (a int primary key, b int)")
		add, text := w.addIndex(tab, "kb")
		mustExec(t, w.db, fmt.Sprintf("insert into fake_information_s.ddl_jobs values (8, 'running', %s)", quoted(text)))
		p.cutAt(cut{"ADD INDEX", true})
		if err := w.sink.DDL(t.Context(), sink.Endless, add); err != nil {
			t.Fatal(err)
		}
		w.closed(w.sink)
		mustExec(t, w.db, "delete from fake_information_s.ddl_jobs")
		if there {
			mustExec(t, w.db, "create index KB on played.t (b)")
		}
		w.sink = lived(t, p.uri(), fmt.Sprint(there), nil)
		if len(w.sink.building) != 1 {
			t.Fatal(w.sink.building)
		}
		said := make(chan string, 1)
		w.sink.log = slog.New(heard{word, said})
		if err := w.sink.Checkpoint(t.Context(), 1); err != nil {
			t.Error(err)
		}
		if len(said) != 1 || len(w.sink.building) != 0 {
			t.Errorf("there %v: %d lines, %v", there, len(said), w.sink.building)
		}
		w.closed(w.sink)
	}
}
