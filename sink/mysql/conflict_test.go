package mysql

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
)

// meets tells whether two rows are written in order because of their claims.
func meets(c *claimer, a, b *event.Row) bool {
	var x, y claims
	c.add(&x, a)
	c.add(&y, b)
	x.unique()
	y.unique()
	has := func(list []uint64, h uint64) bool {
		for _, v := range list {
			if v == h {
				return true
			}
		}
		return false
	}
	for _, h := range x.keys {
		if has(y.keys, h) {
			return true
		}
	}
	for _, h := range x.sole {
		if has(y.sole, h) || has(y.shared, h) {
			return true
		}
	}
	for _, h := range x.shared {
		if has(y.sole, h) {
			return true
		}
	}
	return false
}

// Rows meet by any unique key that one had and the other gets, NULL apart.
func TestRowsMeetByTheirKeys(t *testing.T) {
	w := newWorld(t)
	c := newClaimer(Dialect{Kind: MariaDB, Major: 10, Minor: 11})
	tab := tableOf(t, "s", "create table t (id int primary key, u int unique, a int, b varchar(10), n int, unique ab (a, b))")
	row := func(before, after []string) *event.Row { return w.row(tab, 0, before, after) }
	first := row(cells("1", "10", "1", "x", "0"), cells("1", "11", "1", "y", "0"))
	for name, other := range map[string]struct {
		row  *event.Row
		want bool
	}{
		"nothing in common":       {row(nil, cells("2", "12", "1", "z", "0")), false},
		"the primary key":         {row(cells("1", "99", "9", "z", "0"), nil), true},
		"a key that it had":       {row(nil, cells("2", "10", "2", "z", "0")), true},
		"a key that it gets":      {row(cells("2", "11", "2", "z", "0"), nil), true},
		"both columns, had":       {row(nil, cells("2", "12", "1", "x", "0")), true},
		"both columns, gets":      {row(cells("2", "12", "1", "y", "0"), nil), true},
		"blanks at the end":       {row(nil, cells("2", "12", "1", "y  ", "0")), true},
		"another case, binary":    {row(nil, cells("2", "12", "1", "Y", "0")), false},
		"NULL in the key":         {row(nil, cells("2", "NULL", "1", "NULL", "0")), false},
		"a column that is no key": {row(nil, cells("2", "12", "2", "z", "11")), false},
	} {
		if got := meets(c, first, other.row); got != other.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	null := w.row(tab, 5, nil, cells("5", "NULL", "NULL", "q", "0"))
	if meets(c, null, w.row(tab, 6, nil, cells("6", "NULL", "NULL", "q", "0"))) {
		t.Error("NULL meets NULL")
	}
	other := tableOf(t, "s", "create table t2 (id int primary key, u int unique)")
	if meets(c, first, w.row(other, 0, nil, cells("1", "10"))) {
		t.Error("tables meet")
	}
}

// A record that is deleted and one that comes under its hidden number meet, since
// they may be put together; others of such a table do not.
func TestRecordsMeetByTheirNumber(t *testing.T) {
	w := newWorld(t)
	c := newClaimer(Dialect{Kind: MariaDB, Major: 10, Minor: 11})
	tab := tableOf(t, "s", "create table t (id int not null unique, n int)")
	gone := w.row(tab, 3, cells("1", "0"), nil)
	if !meets(c, gone, w.row(tab, 3, nil, cells("2", "0"))) || meets(c, gone, w.row(tab, 4, nil, cells("2", "0"))) {
		t.Error("want the third record to meet itself alone")
	}
}

// Tables whose unique keys are in no event, and tables without a key, are serial.
func TestSerialTables(t *testing.T) {
	w := newWorld(t)
	for create, kinds := range map[string]map[Kind]bool{
		"create table t (a int, b int)":                                              {MariaDB: true, TiDB: true},
		"create table t (a int primary key, v int as (b + 1) virtual unique, b int)": {MariaDB: true, TiDB: true},
		"create table t (a int primary key, b int, unique key ((b + 1)))":            {MariaDB: false, MySQL: true, TiDB: true},
		"create table t (a int primary key, b int, key ((b + 1)))":                   {MariaDB: false, MySQL: false},
	} {
		tab := tableOf(t, "s", create)
		for kind, serial := range kinds {
			c := newClaimer(Dialect{Kind: kind, Major: 20})
			texts := make([][]string, 2)
			for i := range texts {
				for range tab.Columns {
					texts[i] = append(texts[i], fmt.Sprint(i))
				}
			}
			if got := meets(c, w.row(tab, 0, nil, texts[0]), w.row(tab, 1, nil, texts[1])); got != serial {
				t.Errorf("%s on %s: %v", create, kind, got)
			}
		}
	}
}

// Whatever two strings MariaDB calls equal in a unique key have claims that meet;
// printable ASCII claims no more than that.
func TestClaimsAreNoFinerThanCollations(t *testing.T) {
	w := newWorld(t)
	var values []string
	for b := byte(' '); b <= '}'; b++ {
		values = append(values, string(b), "x"+string(b), string(b)+" ")
	}
	odd := map[string][]string{
		"gbk": {"中", "Ａ", "ａ", "\x01", "", "ss"}, "latin1": {"é", "É", "ß", "ss", "\x01", ""},
		"utf8mb4": {"é", "É", "ｅ", "ß", "ss", "SS", "æ", "ae", "\x01", "", "\t", "a\u0301", "á", "中", "Ａ", "x\u200b", "ŀ", "l·"},
	}
	odd["utf8mb3"] = odd["utf8mb4"]
	printable := values
	for _, collation := range []string{"utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb4_0900_ai_ci", "gbk_chinese_ci", "utf8mb3_general_ci", "gbk_bin", "latin1_bin"} {
		charset, _, _ := strings.Cut(collation, "_")
		values := append(slices.Clone(printable), append(odd[charset], "~", "x~", "~ ")...)
		tab := tableOf(t, w.schema, "create table t (v varchar(9) charset "+charset+" collate "+collation+" primary key)")
		c := newClaimer(w.sink.Dialect())
		_, downstream := w.sink.Dialect().collation(charset, collation)
		serverCharset, _, _ := strings.Cut(downstream, "_")
		var rows []*event.Row
		var selects []string
		for i, v := range values {
			rows = append(rows, w.row(tab, i, nil, cells(v)))
			selects = append(selects, fmt.Sprintf("select %d i, convert(%s using %s) collate %s v", i, quoted(v), serverCharset, downstream))
		}
		mustExec(t, w.db, "drop table if exists "+qualified(w.schema, "c"))
		if _, err := w.db.Exec("create table " + qualified(w.schema, "c") + " " + strings.Join(selects, " union all ")); err != nil {
			t.Fatal(collation, err)
		}
		equal := map[string]bool{}
		for _, pair := range w.rows("select a.i, b.i from c a join c b on a.v = b.v and a.i < b.i") {
			equal[pair] = true
		}
		if len(equal) == 0 {
			t.Fatalf("%s: no two values are equal", collation)
		}
		const ascii = 3 * int('}'-' '+1)
		for i := range values {
			for j := i + 1; j < len(values); j++ {
				got, pair := meets(c, rows[i], rows[j]), fmt.Sprintf("%d|%d", i, j)
				switch {
				case equal[pair] && !got:
					t.Errorf("%s: %q equals %q, and their claims do not meet", collation, values[i], values[j])
				case got && !equal[pair] && j < ascii && charset != "latin1" && strings.TrimRight(values[i], " ") != strings.TrimRight(values[j], " "):
					t.Errorf("%s: the claims of %q and %q meet for nothing", collation, values[i], values[j])
				}
			}
		}
	}
}

// A prefix index compares a part of a value.
func TestPrefixesMeet(t *testing.T) {
	w := newWorld(t)
	tab := tableOf(t, "s", "create table t (id int primary key, v varchar(20), b varbinary(20), unique (v(2)), unique (b(2)))")
	c := newClaimer(Dialect{Kind: MariaDB, Major: 10, Minor: 11})
	row := func(id, v, b string) *event.Row { return w.row(tab, id, nil, cells(id, v, b)) }
	first := row("1", "中文x", "abc")
	if !meets(c, first, row("2", "中文y", "x")) || !meets(c, first, row("2", "x", "abd")) || meets(c, first, row("2", "中x", "aab")) {
		t.Error("prefixes are not compared as such")
	}
}

// The rows of a large transaction are cut apart where they have no key in common.
func TestPartsOfATransaction(t *testing.T) {
	w := newWorld(t)
	tab := tableOf(t, "s", "create table t (id int primary key, v varchar(9) collate utf8mb4_general_ci unique)")
	chain := func(i int) *event.Row {
		return w.row(tab, i, cells(fmt.Sprint(i), fmt.Sprint("v", i)), cells(fmt.Sprint(i+1), fmt.Sprint("v", i)))
	}
	free := func(i int) *event.Row { return w.row(tab, i, nil, cells(fmt.Sprint(i), fmt.Sprint("v", i))) }
	c := newClaimer(Dialect{Kind: MariaDB, Major: 10, Minor: 11})
	parts := c.parts([]*event.Row{free(100), chain(3), chain(1), free(200), chain(2)})
	if len(parts) != 3 || len(parts[0].rows) != 1 || len(parts[1].rows) != 3 || len(parts[2].rows) != 1 {
		t.Errorf("%d parts", len(parts))
	}
	// One value of which the equals are not known binds all of them together.
	odd := w.row(tab, 300, nil, cells("300", "é"))
	if parts := c.parts([]*event.Row{free(100), odd, free(200)}); len(parts) != 1 {
		t.Errorf("%d parts", len(parts))
	}
	cfg := Default()
	cfg.MaxTxnRows = 2
	txn := w.txn(free(1), free(2), free(3), free(4), free(5))
	for atomicity, want := range map[Atomicity]int{Pieces: 3, PerTable: 1} {
		cfg.Atomicity = atomicity
		if got := c.units(&cfg, w.noGrant(), &txn); len(got) != want {
			t.Errorf("%s: %d units", atomicity, len(got))
		}
	}
}
