package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// modified is a MODIFY COLUMN of column b that TiDB carried out by writing all rows.
func (w *world) modified(before *event.Table, query, then string) *event.DDL {
	after := tableOf(w, w.schema, then)
	after.ID = before.ID
	d := &event.DDL{Action: event.ActionModifyColumn, Query: query, Tables: []event.TableChange{{Before: before, After: after}}}
	b := after.Column("b")
	after.Columns[b].ID += 100
	d.Conversions = []event.Conversion{{TableID: after.ID, FromID: before.Columns[b].ID, ToID: after.Columns[b].ID, Name: "b"}}
	return d
}

// What TiDB makes of old values is downstream after the DDL, whatever the server
// makes of them: by pages, for every kind of key, and only where it differs.
func TestRewrittenColumnIsUpstreams(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ name, create, query, then string }{
		{"an integer key", "create table t (id int primary key, b float, n int)", "alter table t modify column b varchar(20)", "create table t (id int primary key, b varchar(20), n int)"},
		{"two columns", "create table t (id int, b float, n int, primary key (n, id) nonclustered)", "alter table t modify column b varchar(20)", "create table t (id int, b varchar(20), n int, primary key (n, id) nonclustered)"},
		{"a string", "create table t (id varchar(20) collate utf8mb4_general_ci primary key, b float, n int)", "alter table t modify column b varchar(20)", "create table t (id varchar(20) collate utf8mb4_general_ci primary key, b varchar(20), n int)"},
		{"a unique column", "create table t (id int primary key, b float, n int, unique (b))", "alter table t modify column b varchar(20)", "create table t (id int primary key, b varchar(20), n int, unique (b))"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.T = t
			mustExec(t, w.db, "create or replace database "+ident(w.schema))
			w.sink.snapshot = nil
			before := w.create(c.create)
			var sent, upstream [][]string
			var want []string
			const rows = 3*verifyRows + 5
			for i := range rows {
				sent = append(sent, cells(fmt.Sprint(i), fmt.Sprintf("%d.5", i), fmt.Sprint(i%7)))
				is := fmt.Sprintf("%d.5", i)
				if i%50 == 3 {
					is = fmt.Sprintf("about %d", i) // what no server makes of it
				}
				switch i {
				case 3:
					is = "40.5" // held by a row of which upstream has made something else
				case 40:
					is = "moved"
				}
				upstream = append(upstream, cells(fmt.Sprint(i), is, fmt.Sprint(i%7)))
				want = append(want, fmt.Sprintf("%d|%s|%d", i, is, i%7))
			}
			w.insert(before, sent...)
			d := w.modified(before, c.query, c.then)
			w.sink.snapshot = rowsOf{w, append(upstream, cells("999999", "never here", "0")), nil}
			w.ddl(d)
			if strings.Contains(c.then, "unique (b)") {
				want = append(want, "999999|never here|0") // it may be one that was pushed out
			}
			w.want("select id, b, n from t", want...)
		})
	}
}

// Rows that are the same are left alone; a reader that fails stops the DDL with its
// code; without a reader, and where it is not wanted, nothing is compared.
func TestRewrittenColumnIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	before := w.create("create table t (id int primary key, b float, at timestamp(6) default current_timestamp(6) on update current_timestamp(6))")
	w.insert(before, cells("1", "2.5", "2020-01-02 03:04:05.000006"), cells("2", "3.5", "2020-01-02 03:04:05.000006"))
	const query, then = "alter table t modify column b decimal(10,1)", "create table t (id int primary key, b decimal(10,1), at timestamp(6) default current_timestamp(6) on update current_timestamp(6))"
	other := [][]string{cells("1", "7.5", "2021-01-02 03:04:05.000006"), cells("2", "3.5", "2021-01-02 03:04:05.000006")}
	d := w.modified(before, query, then)
	w.sink.snapshot = rowsOf{w, other, errors.New("no store answers")}
	if err := w.tryDDL(d); !cdcerr.SnapshotRead.Is(err) || !strings.Contains(err.Error(), "no store answers") {
		t.Fatal(err)
	}
	w.sink.cfg.NoVerify = true
	w.ddl(d)
	w.want("select id, b, at from t", "1|2.5|2020-01-02 03:04:05.000006", "2|3.5|2020-01-02 03:04:05.000006")
	w.sink.cfg.NoVerify = false
	w.sink.snapshot = rowsOf{w, other, nil}
	w.sink.cfg.BDR = true // the other side's newer rows are not overwritten
	w.ddl(d)
	w.sink.cfg.BDR = false
	w.sink.cfg.Spared = func(t *event.Table) bool { return t.Name == "t" }
	w.ddl(d)
	w.want("select id, b, at from t", "1|2.5|2020-01-02 03:04:05.000006", "2|3.5|2020-01-02 03:04:05.000006")
	w.sink.cfg.Spared = func(t *event.Table) bool { return t.Name != "t" }
	w.sink.cfg.Safe, w.sink.cfg.Replayed = false, upTo(1) // rows that are put are there all the same
	w.sink.snapshot = rowsOf{w, other, nil}
	w.ddl(d)
	w.want("select id, b, at from t", "1|7.5|2021-01-02 03:04:05.000006", "2|3.5|2020-01-02 03:04:05.000006")
}
