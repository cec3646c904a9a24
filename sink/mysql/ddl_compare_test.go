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
