package mysql

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/event"
)

// What the downstream's unique indexes add to the claims of a table's rows. A text
// lists the indexes that count: their columns, with the prefix, and ~ where different
// strings may be equal; or says that rows are written one after the other.
func TestClaimsOfTheDownstreamsIndexes(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct{ columns, byHand, want string }{
		{"id int primary key, u int, unique (u)", "", "id; u"},
		{"id int primary key, u int", "add unique (u)", "id; u"},
		{"id int primary key, u int, v int", "add unique (v, u)", "id; v,u"},
		{"id int primary key, u int, unique (u)", "drop index u", "id; u"},
		{"id int primary key, s varchar(20) collate utf8mb4_bin", "add unique (s(3))", "id; s(3)"},
		{"id int primary key, s varchar(20) collate utf8mb4_bin, unique (s)", "modify s varchar(20) collate utf8mb4_general_ci", "id; s~"},
		{"id int primary key, s varchar(20) collate utf8mb4_general_ci", "add unique (s)", "id; s~"},
		{"id int primary key, s varbinary(20), unique (s)", "modify s varchar(20)", "serial"},
		{"id int primary key, u int", "add h int, add unique (h)", "serial"},
		{"id int primary key, u int", "add h int as (u div 2) virtual, add unique (h)", "serial"},
		{"id int primary key, u int, g int as (u + 1) stored", "add unique (g)", "id; g"},
		{"id int primary key, u int, g int as (u + 1) virtual", "add unique (g)", "serial"},
		{"id int primary key, u int", "add index (u)", "id"},
		{"id int primary key, u int", "drop primary key, add n int auto_increment primary key", "serial"},
	} {
		name := fmt.Sprint("t", i)
		text := "create table " + name + " (" + c.columns + ")"
		tab := w.create(text)
		if c.byHand != "" {
			mustExec(t, w.db, "alter table "+qualified(w.schema, name)+" "+c.byHand)
		}
		if err := w.sink.know(context.Background(), []*event.Table{tab}); err != nil {
			t.Fatal(err)
		}
		if got := w.sink.claimer.mapOf(tab).String(); got != c.want {
			t.Errorf("%s, then %s: got %s, want %s", text, c.byHand, got, c.want)
		}
	}
}

func (m *keyMap) String() string {
	if m.serial {
		return "serial"
	}
	out := ""
	for i, k := range m.indexes {
		if i > 0 {
			out += "; "
		}
		for n, at := range k.columns {
			if n > 0 {
				out += ","
			}
			out += m.table.Columns[at].Name
			if k.prefix[n] != event.FullLength {
				out += fmt.Sprintf("(%d)", k.prefix[n])
			}
			if k.folding[n] {
				out += "~"
			}
		}
	}
	return out
}

// There is one question for each shape of a table, one more after each DDL of it, and
// one after a while, since somebody may have added an index by hand.
func TestIndexesAreAskedForOnce(t *testing.T) {
	w := newWorld(t)
	tab, other := w.create("create table t (id int primary key, u int)"), w.create("create table other (id int primary key)")
	asked := func(tab *event.Table) foundTable { return w.sink.claimer.found[nameOf(tab)] }
	w.insert(tab, cells("1", "1"))
	w.insert(other, cells("1"))
	first, kept := asked(tab), asked(other)
	if first.at.IsZero() || first.table != tab || kept.table != other {
		t.Fatal("not asked")
	}
	w.insert(tab, cells("2", "2"))
	if !asked(tab).at.Equal(first.at) {
		t.Error("asked again for the same shape")
	}
	after := w.alter(tab, "alter table t add v int", "create table t (id int primary key, u int, v int)")
	w.insert(after, cells("3", "3", "3"))
	if asked(after).table != after || !asked(other).at.Equal(kept.at) {
		t.Error("after a DDL its table is to be asked for again, and no other")
	}
	mustExec(t, w.db, "alter table "+qualified(w.schema, "t")+" add unique (u)")
	old := asked(after)
	old.at = old.at.Add(-2 * foundAge)
	w.sink.claimer.found[nameOf(after)] = old
	w.insert(after, cells("4", "4", "4"))
	if got := w.sink.claimer.mapOf(after).String(); got != "id; u" {
		t.Errorf("an index that was added by hand is not seen after a while: %s", got)
	}
	w.want("select * from t", "1|1|NULL", "2|2|NULL", "3|3|3", "4|4|4")
}

// BenchmarkFindUnique is the question about one table of three unique indexes, among
// a thousand tables.
func BenchmarkFindUnique(b *testing.B) {
	db := openDB(b)
	mustExec(b, db, "CREATE OR REPLACE DATABASE bench")
	columns := "id int primary key, u varchar(20), v int, w int, unique (u), unique (v, w)"
	for i := range 1000 {
		mustExec(b, db, fmt.Sprintf("CREATE TABLE bench.t%d (%s)", i, columns))
	}
	s := openSink(b, nil)
	tab := tableOf(b, "bench", "create table t7 ("+columns+")")
	var found []foundIndex
	for b.Loop() {
		var err error
		if found, err = s.findUnique(b.Context(), tab); err != nil {
			b.Fatal(err)
		}
	}
	if len(found) != 3 || slices.ContainsFunc(found, func(x foundIndex) bool { return len(x.columns) == 0 }) {
		b.Fatalf("%+v", found)
	}
	mustExec(b, db, "DROP DATABASE bench")
}
