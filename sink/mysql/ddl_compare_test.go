package mysql

import (
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// A table that stood there before is taken for upstream's only if it is the same;
// otherwise all differences are named.
func TestCreateOverAForeignTable(t *testing.T) {
	const create = "create table t (id int not null, a varchar(10) collate utf8mb4_bin, b decimal(5,2), g int as (id + 1) stored, primary key (id), unique key u (id, a), key k (b)) " +
		"partition by range (id) (partition p0 values less than (10), partition p1 values less than maxvalue)"
	const plain = "create table t (id int not null, a varchar(10) collate utf8mb4_bin, primary key (id), key k (a(3)))"
	for _, c := range []struct{ name, create, there, want string }{
		{"the same", create, create, ""},
		{"comments and defaults do not count", plain, "create table t (a varchar(10) collate utf8mb4_bin default 'x' comment 'y', id int not null, primary key (id), key k (a(3))) comment 'z'", ""},
		{"a type", plain, strings.Replace(plain, "id int", "id bigint", 1), "column id is bigint(20) NOT NULL, want int(11) NOT NULL"},
		{"a length", plain, strings.Replace(plain, "varchar(10)", "varchar(9)", 1), "column a is varchar(9) utf8mb4_bin, want varchar(10) utf8mb4_bin"},
		{"a collation", plain, strings.Replace(plain, "utf8mb4_bin", "utf8mb4_general_ci", 1), "column a is varchar(10) utf8mb4_general_ci, want varchar(10) utf8mb4_bin"},
		{"a charset", plain, strings.Replace(plain, "collate utf8mb4_bin", "character set latin1 collate latin1_bin", 1), "column a is varchar(10) latin1_bin, want"},
		{"NULL", plain, strings.Replace(plain, "utf8mb4_bin", "utf8mb4_bin not null", 1), "column a is varchar(10) utf8mb4_bin NOT NULL, want"},
		{"a column more", plain, strings.Replace(plain, "primary", "x int, primary", 1), "column x (int(11)) is not upstream's"},
		{"a column less", create, strings.Replace(create, "g int as (id + 1) stored, ", "", 1), "column g (int(11) generated as `id` + 1) is missing"},
		{"how it is generated", create, strings.Replace(create, "id + 1", "id + 2", 1), "column g is int(11) generated as `id` + 2, want int(11) generated as `id` + 1"},
		{"a primary key less", plain, strings.Replace(plain, "primary key (id), ", "", 1), "index primary (unique of id) is missing"},
		{"a key that is not unique", plain, strings.Replace(plain, "key k (a(3))", "unique key k (a(3))", 1), "index k is unique of a(3), want of a(3)"},
		{"a key's columns", plain, strings.Replace(plain, "a(3)", "a(4)", 1), "index k is of a(4), want of a(3)"},
		{"a key more", plain, strings.Replace(plain, "key k", "unique key z (id, a), key k", 1), "index z (unique of id, a) is not upstream's"},
		{"partitions", create, strings.Replace(create, "than (10)", "than (11)", 1), "partition p0 is by RANGE `id` 11, want by RANGE `id` 10"},
		{"a view", plain, "create view t as select 1 as id, 'a' as a", "the kind of table is VIEW, want BASE TABLE"},
		{"rows", plain, plain + "; insert into t values (1, 'x')", "it holds rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			conn, err := w.db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, text := range append([]string{"use " + ident(w.schema)}, strings.Split(c.there, "; ")...) {
				if _, err := conn.ExecContext(t.Context(), text); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			s := lived(t, server.URI(), "x", nil)
			defer w.closed(s)
			s.cfg.Replayed = upTo(w.ts) // what comes now no earlier run has written
			d := w.numbered(&event.DDL{Action: event.ActionCreateTable, Query: c.create, Tables: []event.TableChange{{After: tableOf(t, w.schema, c.create)}}})
			err = s.DDL(t.Context(), sink.Endless, d)
			if (c.want == "") != (err == nil) || err != nil && !(cdcerr.MySQLTableDiffers.Is(err) && strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %s", err, c.want)
			}
			w.want("show tables", "t")
		})
	}
}

// A changefeed that is set back over a CREATE TABLE, or made again, finds its own
// table there with its rows; somebody else's of another shape stays an error.
func TestCreateComesAgain(t *testing.T) {
	w := newWorld(t)
	const create = "create table t (id int primary key)"
	d := w.numbered(&event.DDL{Action: event.ActionCreateTable, Query: create, Tables: []event.TableChange{{After: tableOf(t, w.schema, create)}}})
	run := func(life string, replayed tso.TS) error {
		s := lived(t, server.URI(), life, nil)
		defer w.closed(s)
		s.cfg.Replayed = upTo(replayed)
		return s.DDL(t.Context(), sink.Endless, d)
	}
	if err := run("made/0", d.SwitchTS.Prev()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, w.db, "insert into "+qualified(w.schema, "t")+" values (1)")
	for _, life := range []string{"made/1", "made again/0"} {
		if err := run(life, d.SwitchTS); err != nil {
			t.Error(err)
		}
	}
	if err := run("a stranger's/0", d.SwitchTS.Prev()); !cdcerr.MySQLTableDiffers.Is(err) {
		t.Error(err)
	}
	w.want("select id from t", "1")
	mustExec(t, w.db, "alter table "+qualified(w.schema, "t")+" add column z int")
	if err := run("made/2", d.SwitchTS); !cdcerr.MySQLTableDiffers.Is(err) || !strings.Contains(err.Error(), "column z") {
		t.Error(err)
	}
}

// A column that was there before ADD COLUMN is one of the same type, or an error.
func TestAddColumnOverAForeignOne(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key)")
	mustExec(t, w.db, "alter table "+qualified(w.schema, "t")+" add column b varchar(5), add column c int, add column own json")
	add := func(name, query string) error {
		after := tableOf(t, w.schema, "create table t (id int primary key, "+name+" int)")
		after.ID = tab.ID
		return w.tryDDL(&event.DDL{Action: event.ActionAddColumn, Query: query, Tables: []event.TableChange{{Before: tab, After: after}}})
	}
	if err := add("b", "alter table t add column b int"); !cdcerr.MySQLTableDiffers.Is(err) || !strings.Contains(err.Error(), "column b is varchar(5) utf8mb4_bin, want int(11)") {
		t.Error(err)
	}
	if err := add("c", "alter table t add column c int"); err != nil {
		t.Error(err)
	}
	w.want("show tables", "t")
}

// A refusal of alien rows holds for the life of the changefeed, whichever run or owner
// comes again, and for what an event filter has left there; not in another life.
func TestAlienRowsStayRefused(t *testing.T) {
	const create = "create table t (id int primary key)"
	inRoles(t, func(w *world, open func(string) (*Sink, sink.Leave)) {
		run := func(d *event.DDL, replayed tso.TS, change func(*Sink)) error {
			s, leave := open(server.URI())
			s.cfg.Replayed = upTo(replayed)
			change(s)
			return s.DDL(w.Context(), leave, d)
		}
		same := func(*Sink) {}
		w.each(create + "; insert into t values (999)")
		began := w.ts
		d := w.numbered(&event.DDL{Action: event.ActionCreateTable, Query: create, Tables: []event.TableChange{{After: tableOf(w, w.schema, create)}}})
		for _, replayed := range []tso.TS{began, d.SwitchTS, d.SwitchTS + 1<<40} {
			if err := run(d, replayed, same); !cdcerr.MySQLTableDiffers.Is(err) || !strings.Contains(err.Error(), "it holds rows") {
				w.Fatalf("a run that began at %d: %v", replayed, err)
			}
		}
		w.want("select id from t", "999")
		w.each("delete from t")
		if err := run(d, d.SwitchTS+1<<40, same); err != nil {
			w.Fatal(err)
		}
		w.each("insert into t values (1)") // upstream's, by another sink
		if err := run(d, d.SwitchTS+1<<40, same); err != nil {
			w.Fatal("it is done:", err)
		}
		made := w.numbered(&event.DDL{Action: event.ActionCreateTable, Query: create, Tables: []event.TableChange{{After: tableOf(w, w.schema, create)}}})
		if err := run(made, made.SwitchTS+1<<40, same); !cdcerr.MySQLTableDiffers.Is(err) {
			w.Fatal("made anew, and its drop was left out:", err)
		}
		for _, life := range []string{"y", "z"} { // set back, or made again
			if err := run(made, made.SwitchTS+1<<40, func(s *Sink) { s.cfg.Life = life; s.noted = &noted{Version: notedVersion, Life: life} }); err != nil {
				w.Fatal(life, err)
			}
		}
	})
}

// What was made upstream after the first run of a changefeed began cannot be its own,
// even if no DDL was noted before.
func TestAlienRowsOfALifeThatWroteRows(t *testing.T) {
	w := newWorld(t)
	first := w.ended(lived(t, server.URI(), "x", nil))
	first.cfg.Replayed = upTo(w.ts)
	other := w.create("create table u (id int primary key)")
	if err := first.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(other, 1, nil, cells("1")))}); err != nil {
		t.Fatal(err)
	}
	const create = "create table t (id int primary key)"
	w.each(create + "; insert into t values (999)")
	d := w.numbered(&event.DDL{Action: event.ActionCreateTable, Query: create, Tables: []event.TableChange{{After: tableOf(t, w.schema, create)}}})
	second := w.ended(lived(t, server.URI(), "x", nil))
	second.cfg.Replayed = upTo(d.SwitchTS + 1<<40)
	if err := second.DDL(t.Context(), sink.Endless, d); !cdcerr.MySQLTableDiffers.Is(err) || !strings.Contains(err.Error(), "it holds rows") {
		t.Fatal(err)
	}
}

// A column that was there before ADD COLUMN holds what upstream gave the rows, or it
// is an error, if it cannot be the changefeed's own.
func TestAddColumnOverOtherValues(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key)")
	w.insert(tab, cells("1"), cells("2"))
	add := func(name, have, column, absent string) (*event.DDL, error) {
		t.Helper()
		w.each("alter table t add column " + name + " " + have)
		after := tableOf(t, w.schema, "create table t (id int primary key, "+name+" "+column+")")
		after.ID = tab.ID
		if c := &after.Columns[1]; absent == "NULL" {
			c.Absent = event.NullValue()
		} else {
			c.HasOrigin, c.Absent = true, image(t, after, "1", absent)[1]
		}
		s := lived(t, server.URI(), "x", nil)
		defer w.closed(s)
		s.cfg.Replayed = upTo(w.ts)
		d := w.numbered(&event.DDL{Action: event.ActionAddColumn, Query: "alter table t add column " + name + " " + column, Tables: []event.TableChange{{Before: tab, After: after}}})
		return d, s.DDL(t.Context(), sink.Endless, d)
	}
	for _, c := range []struct{ name, have, column, absent, want string }{
		{"a", "int default 5", "int default 7", "7", "column a has other values"},
		{"b", "varchar(5) collate utf8mb4_general_ci default 'X'", "varchar(5) collate utf8mb4_general_ci default 'x'", "x", "column b has other values"},
		{"c", "int", "int default 7", "7", "column c has other values"},
		{"d", "int default 7", "int", "NULL", "column d has other values"},
		{"e", "int default 7", "int default 7", "7", ""},
		{"f", "decimal(5,2) default 1.5", "decimal(5,2) default 1.5", "1.50", ""},
		{"g", "int", "int", "NULL", ""},
	} {
		d, err := add(c.name, c.have, c.column, c.absent)
		if (c.want == "") != (err == nil) || err != nil && !(cdcerr.MySQLTableDiffers.Is(err) && strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if err == nil {
			continue
		}
		again := lived(t, server.URI(), "set back", nil) // it may be its own, with rows from after it
		again.cfg.Replayed = upTo(d.SwitchTS)
		if err := again.DDL(t.Context(), sink.Endless, d); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		w.closed(again)
	}
	w.want("select a from t", "5", "5")
}

// An index that was there before is the same, or an error.
func TestAddIndexOverAForeignOne(t *testing.T) {
	for _, c := range []struct{ there, query, then, want string }{
		{"add index i (a)", "alter table t add unique index i (b)", "unique key i (b)", "index i is of a, want unique of b"},
		{"add index i (a)", "alter table t add index i (b)", "key i (b)", "index i is of a, want of b"},
		{"add unique index i (b)", "alter table t add unique index i (b)", "unique key i (b)", ""},
		{"add index i (b(3)), add index mine (a)", "create index i on t (b(3))", "key i (b(3))", ""},
	} {
		t.Run(c.query, func(t *testing.T) {
			w := newWorld(t)
			const create = "create table t (id int primary key, a int, b varchar(10))"
			tab := w.create(create)
			w.each("alter table t " + c.there)
			after := tableOf(t, w.schema, strings.TrimSuffix(create, ")")+", "+c.then+")")
			after.ID = tab.ID
			err := w.tryDDL(&event.DDL{Action: event.ActionAddIndex, Query: c.query, Tables: []event.TableChange{{Before: tab, After: after}}})
			if (c.want == "") != (err == nil) || err != nil && !(cdcerr.MySQLTableDiffers.Is(err) && strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %s", err, c.want)
			}
			w.want("show tables", "t")
		})
	}
}
