package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
)

// A table that somebody changed downstream is named, with a code of its own; once
// it is as it was the same rows pass.
func TestTableAlteredByHand(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, a int not null)")
	row := w.txn(w.row(tab, 1, nil, cells("1", "2")))
	for alter, undo := range map[string]string{
		"alter table t drop column a":                                      "alter table t add column a int not null",
		"alter table t rename column a to b":                               "alter table t rename column b to a",
		"alter table t add column z int not null":                          "alter table t drop column z",
		"rename table t to elsewhere":                                      "rename table elsewhere to t",
		"alter table t partition by list (id) (partition p values in (7))": "alter table t remove partitioning",
	} {
		w.rows("truncate table t")
		w.rows(alter)
		err := w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{row})
		if !cdcerr.MySQLTableDiffers.Is(err) || !strings.Contains(err.Error(), "commit-ts") {
			t.Errorf("%s: %v", alter, err)
		}
		w.rows(undo)
		w.write(row)
	}
	w.want("select id, a from t", "1|2")
}

// A server that turns read-only and back, or hands over to another that is not,
// is waited for; one that stays read-only ends the wait with its own words.
func TestReadOnlyFailover(t *testing.T) {
	own := mariadb.Start(t)
	w := &world{T: t, db: own.DB(), ts: 1 << 60, schema: "failover"}
	defer w.db.Close()
	mustExec(t, w.db, "create database failover")
	// root may write to a read-only server
	mustExec(t, w.db, "create user writer@'%' identified by 'w'")
	mustExec(t, w.db, "grant select, insert, update, delete, create, drop, alter, index on *.* to writer@'%'")
	uri := strings.Replace(own.URI(), "root", "writer:w", 1)
	w.sink = openURI(t, uri)
	tab := w.create("create table t (id int primary key)")
	mustExec(t, w.db, "set global read_only = 1")
	retried := make(chan string, 1)
	w.sink.log = slog.New(heard{"trying again", retried})
	var g errgroup.Group
	g.Go(func() error {
		return w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 1, nil, cells("1")))})
	})
	if text := <-retried; !strings.Contains(text, strconv.Itoa(errReadOnly)) {
		t.Error(text)
	}
	mustExec(t, w.db, "set global read_only = 0")
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	w.want("select id from t", "1")
	short := openURI(t, uri+"?reconnect-timeout=300ms")
	mustExec(t, w.db, "set global read_only = 1")
	err := short.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 2, nil, cells("2")))})
	if !cdcerr.MySQLReadOnly.Is(err) || !strings.Contains(err.Error(), "1290") {
		t.Error(err)
	}
}

// Who opens a downstream that is read-only is told so, however long one that goes away
// would be waited for.
func TestOpeningAReadOnlyServer(t *testing.T) {
	own := mariadb.Start(t)
	db := own.DB()
	defer db.Close()
	mustExec(t, db, "create user writer@'%' identified by 'w'")
	mustExec(t, db, "grant select, insert, update, delete, create, drop, alter, index on *.* to writer@'%'")
	mustExec(t, db, "set global read_only = 1")
	cfg, err := ParseURI(strings.Replace(own.URI(), "root", "writer:w", 1) + "?reconnect-timeout=1h")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Changefeed, cfg.Life, cfg.Capture = "test", "1", "c" // with a fence
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Open(ctx, cfg, nil, slog.New(slog.DiscardHandler))
	if err == nil {
		_ = s.Close()
	}
	if !cdcerr.MySQLReadOnly.Is(err) || !strings.Contains(err.Error(), "1290") {
		t.Error(err)
	}
}

// A lock that is not given in time, and a deadlock, are tried again.
func TestLocksOfOthers(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=1")
	tab := w.create("create table t (id int primary key)")
	w.insert(tab, cells("1"))
	other, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec("select * from " + qualified(w.schema, "t") + " for update"); err != nil {
		t.Fatal(err)
	}
	conn, err := w.sink.lanes[0].session.use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "set session innodb_lock_wait_timeout = 1"); err != nil {
		t.Fatal(err)
	}
	retried := make(chan string, 1)
	w.sink.log = slog.New(heard{"trying again", retried})
	var g errgroup.Group
	g.Go(func() error {
		return w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 1, cells("1"), nil))})
	})
	if text := <-retried; !strings.Contains(text, strconv.Itoa(errLockWait)) {
		t.Error(text)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	w.want("select id from t")
}

// A password that expires while a changefeed runs is no absence to wait for: its
// code says what to do, and no message says what the password is.
func TestExpiredPassword(t *testing.T) {
	w := newWorld(t)
	mustExec(t, w.db, "create or replace user brief@'%' identified by 'hunter2'")
	mustExec(t, w.db, "grant all on *.* to brief@'%'")
	t.Cleanup(func() { mustExec(t, w.db, "drop user brief@'%'") })
	p := newProxy(t, server.Addr())
	w.sink = openURI(t, strings.Replace(p.uri(), "root", "brief:hunter2", 1))
	tab := w.create("create table t (id int primary key)")
	w.insert(tab, cells("1"))
	for name, change := range map[string]string{
		"expired": "alter user brief@'%' password expire", "locked": "alter user brief@'%' account lock", "changed": "alter user brief@'%' identified by 'other'",
	} {
		mustExec(t, w.db, change)
		p.cutAll()
		err := w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 2, nil, cells("2")))})
		if !cdcerr.MySQLAccessDenied.Is(err) || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
		mustExec(t, w.db, "alter user brief@'%' identified by 'hunter2' account unlock")
	}
	w.insert(tab, cells("2"))
	w.want("select id from t", "1", "2")
}

// A proxy that cuts whoever sends several statements at once gets one at a time.
func TestProxyWithoutMultiStatements(t *testing.T) {
	w := newWorld(t)
	p := newProxy(t, server.Addr())
	p.cutAt(cut{"; SET @sluice_second", true})
	w.sink = openURI(t, p.uri("worker-count=2"))
	if n, _ := p.made(); n != 1 || w.sink.session.multi || w.sink.lanes[0].session.cfg.Multi {
		t.Fatalf("%d cuts, multi is %v", n, w.sink.session.multi)
	}
	tab := w.create("create table t (id int primary key)")
	w.insert(tab, cells("1"), cells("2"))
	w.want("select id from t", "1", "2")
}

// The privileges that the document's GRANT gives are enough for rows and for DDL
// of every kind of thing.
func TestListedPrivileges(t *testing.T) {
	doc, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "    GRANT ")
	listed, _, ok2 := strings.Cut(rest, " TO sluice;")
	if !ok || !ok2 {
		t.Fatalf("%s has no GRANT", docPath)
	}
	w := newWorld(t)
	mustExec(t, w.db, "CREATE USER listed@'%' IDENTIFIED BY 'l'")
	defer mustExec(t, w.db, "DROP USER listed@'%'")
	mustExec(t, w.db, "GRANT "+listed+" TO listed@'%'")
	w.sink = openURI(t, strings.Replace(server.URI(), "root", "listed:l", 1))
	other := w.schema + "_2"
	w.ddl(&event.DDL{Action: event.ActionCreateSchema, DatabaseAfter: &event.Database{Name: other, Charset: "utf8mb4", Collation: "utf8mb4_bin"}})
	w.ddl(&event.DDL{Action: event.ActionDropSchema, DatabaseBefore: &event.Database{Name: other}, Query: "drop database " + other})
	w.create("create table p (id int primary key)")
	tab := w.create("create table t (id int primary key, p int, constraint fk foreign key (p) references p (id))")
	w.insert(tab, cells("1", "7"))
	tab = w.alter(tab, "alter table t add column c int", "create table t (id int primary key, p int, c int)")
	w.write(w.txn(w.row(tab, 1, cells("1", "7", "NULL"), cells("1", "7", "2"))))
	w.want("select id, p, c from t", "1|7|2")
	tab = w.alter(tab, "create index x on t (c)", "create table t (id int primary key, p int, c int, key x (c))")
	w.write(w.txn(w.row(tab, 1, cells("1", "7", "2"), nil)))
	w.want("select id, p, c from t")
	w.ddl(&event.DDL{Action: event.ActionTruncateTable, Query: "truncate table t", Tables: []event.TableChange{{Before: tab, After: tab}}})
	w.ddl(&event.DDL{Action: event.ActionDropTable, Query: "drop table t", Tables: []event.TableChange{{Before: tab}}})
}

// saying makes the server answer every row of a table with an error of that
// number, until the returned function is called. The number may be one that this
// server does not have itself.
func (w *world) saying(table string, number int) (stop func()) {
	w.Helper()
	w.rows("create trigger says before insert on " + table + " for each row signal sqlstate 'HY000' set mysql_errno = " + strconv.Itoa(number) + ", message_text = 'said'")
	return func() { w.rows("drop trigger says") }
}

// What is over after a while is waited for, and the row arrives: a server that is
// read-only or shuts down, connections that are ended, locks, TiDB's own conflicts.
func TestWhatIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=1")
	tab := w.create("create table t (id int primary key)")
	retried := make(chan string, 1)
	w.sink.log = slog.New(heard{"trying again", retried})
	for n, number := range []int{
		errTooManyConns, errServerShutdown, errReadOnly, errQueryInterrupted, errReadOnlyTxn, errReadOnlyMode, errConnectionKilled, errIdle,
		errRecordChanged, errLockWait, errDeadlock, errStatementTime, errExecutionTime,
		8002, 8005, 8022, 8027, 8028, 9001, 9002, 9003, 9004, 9005, 9007, 9010, 9011, 9012, 9013,
	} {
		stop := w.saying("t", number)
		var g errgroup.Group
		g.Go(func() error {
			return w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, n, nil, cells(strconv.Itoa(n))))})
		})
		if text := <-retried; !strings.Contains(text, strconv.Itoa(number)) {
			t.Errorf("%d: %s", number, text)
		}
		stop()
		if err := g.Wait(); err != nil {
			t.Errorf("%d: %v", number, err)
		}
		for len(retried) > 0 {
			<-retried // of an attempt before the trigger was gone
		}
		w.want("select id from t where id = "+strconv.Itoa(n), strconv.Itoa(n))
	}
}

// What will be refused again is not tried again here: its code says what to do.
func TestWhatIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=1")
	tab := w.create("create table t (id int primary key)")
	said := make(chan string, 1)
	w.sink.log = slog.New(heard{"trying again", said})
	for code, numbers := range map[*cdcerr.Code][]int{
		cdcerr.MySQLAccessDenied: {errDBAccessDenied, errAccessDenied, errTableDenied, errColumnDenied, errSpecificDenied, errMustChangePass, errPassExpired,
			errPassExpiredTiDB, errAccountLocked, errAccountLockedM},
		cdcerr.MySQLTableDiffers: {errNull, errUnknownDB, errUnknownColumn, errColumnCount, errNoSuchTable, errOutOfRange, errTruncated, errWrongValue, errWrongObject,
			errNoDefault, errBadValue, errIllegalValue, errDataTooLong, errNotInsertable, errWrongValueFor, errNoPartition, errGeneratedM, errGenerated, errInvalidJSON},
		cdcerr.MySQLPacket:         {errPacketTooLarge},
		cdcerr.MySQLDuplicateEntry: {errDuplicateKey},
		cdcerr.MySQLTxn:            {1105, 1644},
	} {
		for _, number := range numbers {
			stop := w.saying("t", number)
			err := w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 1, nil, cells("1")))})
			if !code.Is(err) || !strings.Contains(err.Error(), strconv.Itoa(number)) || len(said) != 0 {
				t.Errorf("%d: %v, want %s", number, err, code.ID)
			}
			stop()
		}
	}
	w.insert(tab, cells("1"))
}

// waiting is the id of the connection that waits with a statement of that kind.
func (w *world) waiting(kind string) string {
	for {
		if ids := column(w, w.db, "select id from information_schema.processlist where info like '%"+kind+"%' and id <> connection_id() and time_ms > 20"); len(ids) > 0 {
			return ids[0]
		}
	}
}

// A statement or a connection of ours that an operator kills is begun anew.
func TestKilledByAnOperator(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=1")
	tab := w.create("create table t (id int primary key)")
	w.insert(tab, cells("1"))
	retried := make(chan string, 1)
	w.sink.log = slog.New(heard{"trying again", retried})
	for _, kill := range []string{"kill query ", "kill connection "} {
		other, err := w.db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Exec("select * from " + qualified(w.schema, "t") + " where id = 1 for update"); err != nil {
			t.Fatal(err)
		}
		var g errgroup.Group
		g.Go(func() error {
			return w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 1, cells("1"), cells("1")))})
		})
		mustExec(t, w.db, kill+w.waiting("REPLACE"))
		<-retried
		if err := other.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := g.Wait(); err != nil {
			t.Errorf("%s: %v", kill, err)
		}
	}
	w.want("select id from t", "1")
}

// Of a deadlock we are the victim, and write again.
func TestDeadlock(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=1")
	tab := w.create("create table t (id int primary key, n int)")
	w.create("create table heavy (id int primary key)")
	w.insert(tab, cells("1", "1"), cells("2", "1"))
	retried := make(chan string, 1)
	w.sink.log = slog.New(heard{"trying again", retried})
	other, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{ // what has written more survives
		"insert into " + qualified(w.schema, "heavy") + " select seq from " + qualified(w.schema, "seq_1_to_500"),
		"select * from " + qualified(w.schema, "t") + " where id = 2 for update",
	} {
		if _, err := other.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	var g errgroup.Group
	g.Go(func() error {
		return w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 1, cells("1", "1"), cells("1", "2")), w.row(tab, 2, cells("2", "1"), cells("2", "2")))})
	})
	w.waiting("REPLACE")
	if _, err := other.Exec("select * from " + qualified(w.schema, "t") + " where id = 1 for update"); err != nil {
		t.Fatal(err)
	}
	if text := <-retried; !strings.Contains(text, strconv.Itoa(errDeadlock)) {
		t.Error(text)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	w.want("select id, n from t", "1|2", "2|2")
}

// A disk that takes no commit for longer than read-timeout is an absence like any
// other: shown, waited for, and over when it is over.
func TestSlowDisk(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=1&read-timeout=200ms")
	tab := w.create("create table t (id int primary key)")
	told := new(warned)
	w.sink.cfg.Warn = told.take
	retried := make(chan string, 1)
	w.sink.log = slog.New(heard{"trying again", retried})
	conn, err := w.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "flush tables with read lock"); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error {
		return w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 1, nil, cells("1")))})
	})
	<-retried
	all := told.told() // it was waited for long enough
	<-retried
	if _, err := conn.ExecContext(t.Context(), "unlock tables"); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || !cdcerr.MySQLConnection.Is(all[0]) {
		t.Fatal(all)
	}
	for _, part := range []string{"no answer within 200ms", "rows of " + tab.FullName(), server.Addr()} {
		if !strings.Contains(all[0].Error(), part) {
			t.Errorf("%v lacks %q", all[0], part)
		}
	}
	w.want("select id from t", "1")
}

// A lock that is met after a connection was lost may be what was lost: it is shown at
// once, while others' locks are not.
func TestALockAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := new(warned)
		p := patience{budget: time.Minute, warn: told.take}
		lock := &gomysql.MySQLError{Number: errLockWait}
		for _, c := range []struct {
			err  error
			want int
		}{{lock, 0}, {driver.ErrBadConn, 0}, {lock, 1}} {
			if !p.again(t.Context(), c.err) || len(told.told()) != c.want {
				t.Errorf("%v: want %d told", c.err, c.want)
			}
		}
	})
}

// A password that is refused as it stands may be base64; what is refused both ways
// is refused for what stands in the URI.
func TestPasswordInBase64(t *testing.T) {
	db := openDB(t)
	mustExec(t, db, "create or replace user coded@'%' identified by 'hunter2'")
	t.Cleanup(func() { mustExec(t, db, "drop user coded@'%'") })
	for password, ok := range map[string]bool{"hunter2": true, "aHVudGVyMg==": true, "aHVudGVyMw==": false, "hunter": false} {
		cfg, err := ParseURI(strings.Replace(server.URI(), "root", "coded:"+url.QueryEscape(password), 1))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), cfg, nil, testLog(t))
		if ok != (err == nil) || err != nil && (!cdcerr.MySQLAccessDenied.Is(err) || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("%s: %v", password, err)
		}
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A downstream that is the upstream is refused; one that does not say what it is is not.
func TestSameUpstreamDownstream(t *testing.T) {
	tidb := mariadb.Start(t, "--version=8.0.11-TiDB-v8.5.1")
	db := tidb.DB()
	defer db.Close()
	open := func(upstream uint64) error {
		cfg, err := ParseURI(tidb.URI())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Upstream = upstream
		s, err := Open(t.Context(), cfg, nil, testLog(t))
		if err != nil {
			return err
		}
		if s.Dialect().Kind != TiDB {
			t.Error(s.Dialect())
		}
		return s.Close()
	}
	if err := open(7); err != nil {
		t.Errorf("without the table: %v", err)
	}
	mustExec(t, db, "create table mysql.tidb (variable_name varchar(64) primary key, variable_value varchar(1024))")
	if err := open(7); err != nil {
		t.Errorf("without the row: %v", err)
	}
	mustExec(t, db, "insert into mysql.tidb values ('cluster_id', '18446744073709551615')")
	if err := open(1<<64 - 1); !cdcerr.SameUpstreamDownstream.Is(err) || !strings.Contains(err.Error(), "18446744073709551615") {
		t.Error(err)
	}
	for _, other := range []uint64{0, 7} {
		if err := open(other); err != nil {
			t.Errorf("%d: %v", other, err)
		}
	}
}
