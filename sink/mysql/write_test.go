package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// Statements are cut at the target, keep every row once and in order, and a
// row above the server's packet is refused by its size.
func TestStatementsAreCut(t *testing.T) {
	tab := tableOf(t, "s", "create table t (id int primary key, v varchar(100))")
	text := newTableText(tab, Dialect{Kind: MariaDB})
	var rows []event.Image
	for i := range 5000 {
		rows = append(rows, image(t, tab, fmt.Sprint(i), strings.Repeat("x", i%50)))
	}
	for _, target := range []int{1, 60, 200, 4096, 1 << 20} {
		var got []string
		w := writer{dialect: Dialect{Kind: MariaDB}, target: target, rows: batchRows, max: 1 << 20, run: func(text []byte) error {
			s := string(text)
			if n := strings.Count(s, "),("); len(s) > target && n > 0 || n >= batchRows {
				t.Fatalf("target %d: %d bytes, %d rows", target, len(s), n+1)
			}
			values, ok := strings.CutPrefix(s, "REPLACE INTO `s`.`t` (`id`,`v`) VALUES ")
			if !ok {
				t.Fatalf("%.100s", s)
			}
			got = append(got, strings.Split(values, ",(")...)
			return nil
		}}
		if err := w.batches(text, text.put, "", rows, w.appendRow); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(rows) {
			t.Fatalf("target %d: %d rows", target, len(got))
		}
		for i, r := range got {
			want := fmt.Sprintf("%d,'%s')", i, strings.Repeat("x", i%50))
			if strings.TrimPrefix(r, "(") != want {
				t.Fatalf("target %d: row %d is %q", target, i, r)
			}
		}
	}
	w := writer{dialect: Dialect{Kind: MariaDB}, target: 100, rows: batchRows, max: 200, run: func([]byte) error { return nil }}
	big := []event.Image{image(t, tab, "1", strings.Repeat("'", 100))}
	err := w.batches(text, text.put, "", big, w.appendRow)
	if err == nil || !strings.Contains(err.Error(), "max_allowed_packet") || !strings.Contains(err.Error(), "s.t") {
		t.Fatal(err)
	}
}

// A row that is about as large as the server takes.
func TestRowNearThePacket(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, b longblob)")
	blob := bytes.Repeat([]byte{0, '\'', 0xff, 'x'}, 5<<20)
	w.insert(tab, cells("1", string(blob)))
	w.want("select length(b), md5(b) from t", fmt.Sprintf("%d|%s", len(blob), w.rows(fmt.Sprintf("select md5(repeat(x'0027ff78', %d))", 5<<20))[0]))
	err := w.sink.writeNow(context.Background(), sink.Endless, []event.Txn{w.txn(w.row(tab, 2, nil, cells("2", strings.Repeat("\x00", 33<<20))))})
	if !cdcerr.MySQLPacket.Is(err) || !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Fatal(err)
	}
	w.want("select id from t", "1")
}

// What begins a transaction goes with a large statement: the server would end a
// transaction that stood still while the statement is put together.
func TestBeginGoesWithALargeRow(t *testing.T) {
	w := newWorld(t)
	p := w.through()
	tab := w.create("create table t (id int primary key, b longblob)")
	p.cutAt(cut{text: "BEGIN;", before: true})
	w.insert(tab, cells("1", strings.Repeat("x", 4*w.sink.cfg.MaxPacketBytes)))
	if n, _ := p.made(); n != 1 {
		t.Errorf("BEGIN was sent alone")
	}
	w.want("select id from t", "1")
}

// A transaction that fails in the middle leaves nothing.
func TestFailureLeavesNothing(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key)")
	missing := tableOf(t, w.schema, "create table not_there (id int primary key)")
	err := w.sink.writeNow(context.Background(), sink.Endless, []event.Txn{w.txn(w.row(tab, 1, nil, cells("1")), w.row(missing, 1, nil, cells("1")))})
	if !cdcerr.MySQLTableDiffers.Is(err) || !strings.Contains(err.Error(), "not_there") || !strings.Contains(err.Error(), "commit-ts") {
		t.Fatal(err)
	}
	w.want("select id from t")
	w.insert(tab, cells("2"))
	w.want("select id from t", "2")
}

// until is a leave that ends then.
func until(end time.Time) sink.Leave {
	return func() sink.Grant { return sink.Grant{Deadline: end} }
}

// After the grant's end nothing begins to commit.
func TestGrantEnds(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key)")
	over := until(time.Now().Add(-time.Millisecond))
	if err := w.sink.writeNow(context.Background(), over, []event.Txn{w.txn(w.row(tab, 1, nil, cells("1")))}); !cdcerr.LeaveEnded.Is(err) {
		t.Fatal(err)
	}
	if err := w.sink.DDL(context.Background(), over, &event.DDL{Action: event.ActionDropTable, Tables: []event.TableChange{{Before: tab}}}); !cdcerr.LeaveEnded.Is(err) {
		t.Fatal(err)
	}
	if err := w.sink.SyncPoint(context.Background(), over, event.SyncPoint{TS: w.ts}); !cdcerr.LeaveEnded.Is(err) {
		t.Fatal(err)
	}
	// It ends while a lock is waited for.
	other, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec("insert into " + qualified(w.schema, "t") + " values (1)"); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(300 * time.Millisecond)
	err = w.sink.writeNow(context.Background(), until(end), []event.Txn{w.txn(w.row(tab, 1, nil, cells("1")))})
	if !cdcerr.LeaveEnded.Is(err) || time.Now().Before(end) {
		t.Fatal(err)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	w.want("select id from t")
	w.write(w.txn(w.row(tab, 1, nil, cells("1"))))
	w.want("select id from t", "1")
}

// A leave that is renewed lasts: a unit may wait for a lock, or stand in line,
// for many times as long as each grant.
func TestLeaveIsRenewed(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=1&max-txn-row=1")
	tab := w.create("create table t (id int primary key)")
	other, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec("insert into " + qualified(w.schema, "t") + " values (1)"); err != nil {
		t.Fatal(err)
	}
	const each = 20 * time.Millisecond
	begun := time.Now()
	var once sync.Once
	// The lock is given back when the first grant, and nine after it, are over.
	leave := func() sink.Grant {
		if time.Since(begun) > 10*each {
			once.Do(func() {
				if err := other.Rollback(); err != nil {
					t.Error(err)
				}
			})
		}
		// A renewal is never late, however busy the machine is.
		return sink.Grant{Deadline: time.Now().Add(each)}
	}
	var txns []event.Txn
	for i := range 3 {
		txns = append(txns, w.txn(w.row(tab, i+1, nil, cells(fmt.Sprint(i+1)))))
	}
	if err := w.sink.writeNow(t.Context(), leave, txns); err != nil {
		t.Fatal(err)
	}
	w.want("select id from t", "1", "2", "3")
}

// A DDL of which the leave ends between two attempts is not sent again.
func TestLeaveEndsBeforeADDLIsRepeated(t *testing.T) {
	w := newWorld(t)
	p := w.through()
	tab := w.create("create table t (id int primary key)")
	after := tableOf(t, w.schema, "create table t (id int primary key, c int)")
	after.ID = tab.ID
	p.cutAt(cut{"ALTER", true})
	leave := func() sink.Grant {
		if _, cut := p.made(); cut {
			return sink.Grant{Deadline: time.Now().Add(-time.Second)}
		}
		return sink.Grant{Deadline: time.Now().Add(time.Hour)}
	}
	w.ts += 1 << 18
	err := w.sink.DDL(t.Context(), leave, &event.DDL{
		Action: event.ActionAddColumn, Query: "alter table t add column c int", Schema: w.schema, JobID: 99,
		StartTS: w.ts.Prev(), SwitchTS: w.ts, FinishedTS: w.ts, Tables: []event.TableChange{{Before: tab, After: after}},
	})
	if !cdcerr.LeaveEnded.Is(err) {
		t.Fatal(err)
	}
	w.want("select count(*) from information_schema.columns where table_schema = database() and table_name = 't'", "1")
}

// Connections that the server ends, between transactions and in one, are
// opened again; the session's settings with them.
func TestConnectionIsOpenedAgain(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int auto_increment primary key, e enum('a') not null)")
	kill := func() {
		for _, id := range column(t, w.db, "select id from information_schema.processlist where user='root' and id <> connection_id() and command='Sleep'") {
			_, _ = w.db.Exec("kill " + id)
		}
	}
	zero := w.row(tab, 0, nil, cells("0", "a"))
	zero.After[1] = event.EnumValue(0)
	w.write(w.txn(zero))
	kill()
	one := w.row(tab, 0, cells("0", "a"), cells("0", "a"))
	w.write(w.txn(one))
	w.want("select id, e from t", "0|a")
	kill()
	w.alter(tab, "alter table t comment 'x'", "create table t (id int auto_increment primary key, e enum('a') not null) comment 'x'")
	w.write(w.txn(zero)) // strict mode would refuse it
	w.want("select id, e from t", "0|")
}

// Where a transaction was printed is used again, unless it was a large one.
func TestBuffersAreKept(t *testing.T) {
	one := openDB(t)
	mustExec(t, one, "CREATE OR REPLACE DATABASE kept")
	mustExec(t, one, "CREATE TABLE kept.t (id int primary key, v longtext)")
	tab := tableOf(t, "kept", "create table t (id int primary key, v longtext)")
	s := openURI(t, server.URI()+"?worker-count=1")
	for id, c := range []struct {
		size int
		kept bool
	}{{1000, true}, {keptMax, false}, {1000, true}} {
		row := &event.Row{Table: tab, Key: fmt.Appendf(nil, "r%d", id), After: image(t, tab, fmt.Sprint(id), strings.Repeat("v", c.size))}
		if err := errors.Join(s.Write(t.Context(), sink.Endless, []event.Txn{{CommitTS: tso.TS(id + 1), Rows: []*event.Row{row}}}), s.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		on := s.lanes[0].session
		if printed, packed := cap(on.printed), cap(on.packed); (printed >= c.size && packed >= c.size) != c.kept || printed > keptMax || packed > keptMax {
			t.Errorf("of a row of %d bytes %d and %d are kept", c.size, printed, packed)
		}
	}
	var bytes int
	if err := one.QueryRowContext(t.Context(), "SELECT SUM(LENGTH(v)) FROM kept.t").Scan(&bytes); err != nil || bytes != 2000+keptMax {
		t.Errorf("%d bytes are there, %v", bytes, err)
	}
}
