package mysql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// Values of a unique column that upstream holds apart stay apart: under another
// collation one would take the place of the other, silently.
func TestUniqueValuesStayApart(t *testing.T) {
	for name, c := range map[string]struct {
		column string
		values []string
	}{
		"gb18030_chinese_ci": {"varchar(20) charset gb18030", []string{"e", "é", "ê", "ｅ", "ss", "ß", "ä", "a", "中", "㐀", "ㄅ", "か", "が", "ガ"}},
		"gb18030_bin":        {"varchar(20) charset gb18030 collate gb18030_bin", []string{"e", "E", "é"}},
		"0900_bin":           {"varchar(20) collate utf8mb4_0900_bin", []string{"a", "A", "a ", "a  ", "", " "}},
		// U+A7BA and U+A7BB became a pair of letters, U+08D3 a mark without weight of
		// its own, after the weights of 0900 were drawn.
		"0900_ai_ci": {"varchar(20) collate utf8mb4_0900_ai_ci", []string{"a", "a ", "", " ", "Ꞻ", "ꞻ", "x࣓ ", "x ", "x\U0001DFFA", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tab := w.create("create table t (id int primary key, v " + c.column + ", unique (v))")
			key := w.create("create table k (v " + c.column + " primary key, n int)")
			var want, wantKey []string
			for i, v := range c.values {
				w.insert(tab, cells(strconv.Itoa(i), v))
				w.insert(key, cells(v, strconv.Itoa(i)))
				want = append(want, fmt.Sprintf("%d|%X", i, v))
				wantKey = append(wantKey, fmt.Sprintf("%X|%d", v, i))
			}
			w.want("select id, hex(v) from t", want...)
			w.want("select hex(v), n from k", slices.Clone(wantKey)...)
			// Each is changed and found again by itself.
			for i, v := range c.values {
				w.write(w.txn(w.row(key, v+strconv.Itoa(i), cells(v, strconv.Itoa(i)), nil)))
				w.want("select hex(v), n from k", slices.Clone(wantKey[i+1:])...)
			}
		})
	}
}

// No two characters are one value in a column whose collation was rewritten.
func TestFinestCollation(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (v varchar(3) collate utf8mb4_0900_ai_ci primary key)")
	var rows [][]string
	for r := rune(1); r <= 0xFFFF; r++ {
		if utf8.ValidRune(r) {
			rows = append(rows, cells(string(r)))
		}
	}
	for _, more := range []rune{0x1F600, 0x20000, 0x20001, 0x10FFFF, 0x1D400, 0x1F1E6} {
		rows = append(rows, cells(string(more)), cells(string(more)+" "))
	}
	w.insert(tab, rows...)
	w.want("select count(*) from t", strconv.Itoa(len(rows)))
}

// A spelling of upstream's key in other letters is the same row upstream: with a
// finer collation downstream the old spelling must go.
func TestKeyInOtherLetters(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (v varchar(20) collate utf8mb4_0900_ai_ci primary key, n int)")
	insert := w.txn(w.row(tab, "h", nil, cells("abc", "1")))
	respelt := w.txn(w.row(tab, "h", cells("abc", "1"), cells("ABÇ", "2")))
	w.write(insert)
	w.write(respelt)
	w.want("select v, n from t", "ABÇ|2")
	for range 2 { // delivered again, apart and together
		w.write(insert)
		w.write(respelt)
		w.want("select v, n from t", "ABÇ|2")
		w.write(insert, respelt)
		w.want("select v, n from t", "ABÇ|2")
	}
}

// Where every collation pads, a unique key that must not is refused.
func TestPaddingCollationsMergeKeys(t *testing.T) {
	old := Dialect{Kind: MySQL, Major: 5, Minor: 7}
	for create, refused := range map[string]bool{
		"create table t (v varchar(9) collate utf8mb4_0900_bin unique)":                   true,
		"create table t (a int, v varchar(9) collate utf8mb4_0900_ai_ci, unique (a, v))":  true,
		"create table t (a int unique, v varchar(9) collate utf8mb4_0900_ai_ci, key (v))": false,
		"create table t (v varchar(9) collate utf8mb4_general_ci unique)":                 false,
	} {
		tab := tableOf(t, "s", create)
		d := &event.DDL{Action: event.ActionCreateTable, Query: create, Schema: "s", Tables: []event.TableChange{{After: tab}}}
		_, err := planDDL(d, old, true)
		if refused != (cdcerr.DDLNotPortable.Is(err) && StoppedBy(err) == Feature0900) || !refused && err != nil {
			t.Errorf("%s: %v", create, err)
		}
		if _, err := planDDL(d, Dialect{Kind: MySQL, Major: 8}, true); err != nil {
			t.Errorf("%s: %v", create, err)
		}
	}
}

// Partitions by the order of strings are not kept where the order is another: a
// dropped partition would take other rows along.
func TestPartitionsByAnotherOrder(t *testing.T) {
	w := newWorld(t)
	const create = "create table t (v varchar(9) collate utf8mb4_0900_ai_ci primary key) partition by range columns (v) "
	tab := w.create(create + "(partition p0 values less than ('m'), partition p1 values less than (maxvalue))")
	w.insert(tab, cells("a"), cells("Z"), cells("z"))
	after := tableOf(t, w.schema, create+"(partition p1 values less than (maxvalue))")
	d := &event.DDL{Action: event.ActionDropPartition, Query: "alter table t drop partition p0", Tables: []event.TableChange{{Before: tab, After: after}}}
	if err := w.tryDDL(d); !cdcerr.DDLNotPortable.Is(err) || StoppedBy(err) != FeatureCollatedPartition {
		t.Fatal(err)
	}
	w.sink.snapshot = rowsOf{w, [][]string{cells("Z"), cells("z")}, nil}
	w.ddl(d)
	w.want("select v from t", "Z", "z")
	if shown := w.rows("show create table t")[0]; strings.Contains(shown, "PARTITION") {
		t.Error(shown)
	}
}
