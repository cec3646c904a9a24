package mysql

import (
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// What others' users met with DDL in a database downstream. Swaps of names (tiflow
// 12286, ticdc 1734) are TestRenameSwap, exchanges (tiflow 6322, 8956, 10859, ticdc
// 1171, 1444, 2284) TestExchangePartition and TestRowsAfterAnExchange, present moments
// as defaults (tiflow 11368, 12600, ticdc 4005, 4007)
// TestAddColumnWithTheMomentAsDefault, comments for TiDB only (tiflow 3755)
// TestVersionComments, and ANSI_QUOTES (tiflow 9876) TestANSIQuotes.

// tiflow 6927, ticdc 2768: the owner ends between a TRUNCATE, rows after it, and the
// checkpoint above; the next one begins below.
func TestTruncateIsNotRepeatedOverNewRows(t *testing.T) {
	w := newWorld(t)
	x := w.create("create table x (id int primary key, val int)")
	first := lived(t, server.URI(), "x", nil)
	before := w.txn(w.row(x, 1, nil, cells("1", "1")))
	truncate := w.numbered(&event.DDL{Action: event.ActionTruncateTable, Tables: []event.TableChange{{Before: x, After: x}}})
	after := w.txn(w.row(x, 2, nil, cells("2", "2")))
	all := func(s *Sink) {
		t.Helper()
		for _, err := range []error{
			s.writeNow(t.Context(), sink.Endless, []event.Txn{before}),
			s.DDL(t.Context(), sink.Endless, truncate),
			s.writeNow(t.Context(), sink.Endless, []event.Txn{after}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		w.want("select * from x", "2|2")
	}
	all(first)
	w.closed(first)
	second := lived(t, server.URI(), "x", nil)
	defer w.closed(second)
	if err := second.writeNow(t.Context(), sink.Endless, []event.Txn{before}); err != nil {
		t.Fatal(err)
	}
	w.want("select * from x", "2|2") // and at no moment anything else
	if err := second.DDL(t.Context(), sink.Endless, truncate); err != nil {
		t.Fatal(err)
	}
	w.want("select * from x", "2|2")
	all(second)
}

// tiflow 10545, ticdc 5025, 3832, 5150: LIKE of a table of another database, which
// looks different downstream by then, or is not there.
func TestCreateTableLikeDependsOnNothing(t *testing.T) {
	w := newWorld(t)
	source := w.schema + "_src"
	mustExec(t, w.db, "create or replace database "+ident(source))
	t.Cleanup(func() { mustExec(t, w.db, "drop database "+ident(source)) })
	mustExec(t, w.db, "create table "+qualified(source, "src")+" (other text)")
	for _, name := range []string{"src", "gone"} {
		dst := named(tableOf(t, w.schema, "create table dst (id int primary key, a varchar(5), key ka (a))"), "like_"+name)
		w.ddl(&event.DDL{Action: event.ActionCreateTable, Schema: source, Query: "create table " + qualified(w.schema, dst.Name) + " like " + name, Tables: []event.TableChange{{After: dst}}})
		w.insert(dst, cells("1", "x"))
		w.want("select * from "+ident(dst.Name), "1|x")
		w.want("select index_name from information_schema.statistics where table_schema = database() and table_name = '"+dst.Name+"'", "PRIMARY", "ka")
	}
}

// After an exchange both tables go on under each other's ids.
func TestRowsAfterAnExchange(t *testing.T) {
	w := newWorld(t)
	t1 := w.create("create table t1 (a int primary key) partition by range (a) (partition p0 values less than (6), partition p1 values less than (11), partition p2 values less than (21), partition p3 values less than (26))")
	t2 := w.create("create table t2 (a int primary key)")
	w.insert(t1, cells("1"), cells("22"))
	w.insert(t2, cells("23"), cells("24"))
	parted, plain := *t1, *t2
	parted.Partitions = append([]event.Partition(nil), t1.Partitions...)
	parted.Partitions[3].ID, plain.ID = t2.ID, t1.Partitions[3].ID
	w.ddl(&event.DDL{Action: event.ActionExchangePartition, Partition: "p3", WithValidation: true, Query: "alter table t1 exchange partition p3 with table t2",
		Tables: []event.TableChange{{Before: t1, After: &parted}, {Before: t2, After: &plain}}})
	w.insert(&parted, cells("25"), cells("2"))
	w.insert(&plain, cells("30"))
	w.write(w.txn(w.row(&parted, "23", cells("23"), nil), w.row(&plain, "22", cells("22"), cells("31"))))
	w.want("select * from t1", "1", "2", "24", "25")
	w.want("select * from t2", "30", "31")
}

// tiflow 12430: a partitioned table has new ids in all its parts after a TRUNCATE.
func TestTruncateOfAPartitionedTable(t *testing.T) {
	w := newWorld(t)
	before := w.create("create table t (a int primary key) partition by range (a) (partition p0 values less than (6), partition p1 values less than maxvalue)")
	w.insert(before, cells("1"), cells("7"))
	after := *before
	after.ID += 10
	after.Partitions = append([]event.Partition(nil), before.Partitions...)
	for i := range after.Partitions {
		after.Partitions[i].ID += 10
	}
	w.ddl(&event.DDL{Action: event.ActionTruncateTable, Tables: []event.TableChange{{Before: before, After: &after}}})
	w.insert(&after, cells("2"), cells("8"))
	w.want("select * from t", "2", "8")
	w.want("select * from t partition (p1)", "8")
}
