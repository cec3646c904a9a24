package mysql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// Keys that move along a chain in one transaction must not meet, whichever
// way the rows are cut into statements.
func TestKeysMoveInAChain(t *testing.T) {
	w := newWorld(t)
	w.sink.cfg.MaxStatementBytes = 1 // a statement a row
	tab := w.create("create table t (pk int primary key)")
	w.insert(tab, cells("1"), cells("2"), cells("3"))
	// update pk=4 where pk=3, pk=3 where pk=2, pk=2 where pk=1: what TiKV has of it
	w.write(w.txn(
		w.row(tab, 1, cells("1"), nil),
		w.row(tab, 4, nil, cells("4")),
	))
	w.want("select pk from t", "2", "3", "4")

	// The same with updates, as a source that keeps rows together tells it.
	w.write(w.txn(
		w.row(tab, "a", cells("2"), cells("3")),
		w.row(tab, "b", cells("3"), cells("4")),
		w.row(tab, "c", cells("4"), cells("5")),
	))
	w.want("select pk from t", "3", "4", "5")
}

// An INSERT takes the unique tuple that an UPDATE of the same transaction sets free.
func TestInsertTakesAFreedUniqueTuple(t *testing.T) {
	w := newWorld(t)
	tab := w.create(`create table handle_records (id varbinary(16) primary key, store_id varbinary(16), source_type varchar(255),
		handle varchar(255), unique (store_id, handle, source_type))`)
	w.insert(tab, cells("e", "\x59\x42\xC8\x03\x66\x4B\x00", "d", "c"))
	w.write(w.txn(
		w.row(tab, "f", nil, cells("f", "\x59\x42\xC8\x03\x66\x4B\x00", "d", "c")),
		w.row(tab, "e0", cells("e", "\x59\x42\xC8\x03\x66\x4B\x00", "d", "c"), cells("e", "\x59\x42\xC8\x03\x66\x4B\x00", "x", "c")),
	))
	w.want("select id, hex(store_id), source_type, handle from handle_records", "e|5942C803664B00|x|c", "f|5942C803664B00|d|c")
}

// Two rows swap a unique value; TiKV keeps only each row's net change.
func TestUniqueValuesSwap(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, v varchar(10) unique)")
	w.insert(tab, cells("1", "v1"), cells("2", "v3"))
	swap := w.txn(
		w.row(tab, "10", cells("1", "v1"), cells("1", "v3")),
		w.row(tab, "21", cells("2", "v3"), cells("2", "v1")),
	)
	w.write(swap)
	w.want("select id, v from t", "1|v3", "2|v1")
	w.write(swap) // delivered again
	w.want("select id, v from t", "1|v3", "2|v1")
}

// ENUM and SET as a primary key that is not the handle.
func TestEnumAndSetAsKey(t *testing.T) {
	w := newWorld(t)
	e := w.create("create table t_enum (e enum('a','b','c') not null, b int, primary key (e) nonclustered)")
	s := w.create("create table t_set (s set('a','b','c') not null, b int, primary key (s) nonclustered)")
	w.insert(e, cells("a", "1"), cells("b", "2"), cells("c", "3"))
	w.insert(s, cells("a", "1"), cells("a,b", "2"), cells("", "3"))
	w.write(w.txn(
		w.row(e, "a0", cells("a", "1"), cells("a", "10")),
		w.row(e, "b1", cells("b", "2"), nil),
		w.row(s, "a0", cells("a", "1"), cells("b,c", "10")),
		w.row(s, "2", cells("", "3"), nil),
	))
	w.want("select e, b from t_enum", "a|10", "c|3")
	w.want("select s, b from t_set", "b,c|10", "a,b|2")
}

// Members that look like numbers: a quoted index would be taken for a member.
func TestEnumMembersThatLookLikeNumbers(t *testing.T) {
	w := newWorld(t)
	const members = "'4','7','3','25','9','16','0'"
	tab := w.create("create table orders (id int primary key, status enum(" + members + "), s set(" + members + "), unique (status, id))")
	var want []string
	for i, m := range []string{"4", "7", "3", "25", "9", "16", "0"} {
		w.insert(tab, cells(strconv.Itoa(i), "4", m))
		w.write(w.txn(w.row(tab, i, cells(strconv.Itoa(i), "4", m), cells(strconv.Itoa(i), m, m))))
		want = append(want, fmt.Sprintf("%d|%s|%d|%s", i, m, i+1, m))
	}
	w.want("select id, status, status+0, s from orders", want...)
}

// The invalid member ” is number 0, also where ” is a member.
func TestInvalidEnumMember(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, e enum('a','','c'), f enum('x') not null)")
	r := w.row(tab, 1, nil, cells("1", "", "x"))
	r.After[1], r.After[2] = event.EnumValue(0), event.EnumValue(0)
	w.write(w.txn(r, w.row(tab, 2, nil, cells("2", "", "x"))))
	w.want("select id, e, e+0, f, f+0 from t", "1||0||0", "2||2|x|1")
}

// A unique key over a virtual column names no row: by it deletes were lost.
func TestUniqueKeyOnAVirtualColumn(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t1 (a int, b int as (a+1) virtual not null, c int not null, unique idx1 (b))")
	if len(tab.Key) != 0 {
		t.Fatal("a virtual column is the key")
	}
	w.insert(tab, cells("1", "", "1"), cells("2", "", "2"), cells("3", "", "3"), cells("4", "", "4"), cells("5", "", "5"))
	w.write(w.txn(
		w.row(tab, 1, cells("1", "", "1"), cells("11", "", "1")),
		w.row(tab, 2, cells("2", "", "2"), nil),
		w.row(tab, 3, cells("3", "", "3"), cells("3", "", "33")),
	))
	w.want("select a, b, c from t1", "11|12|1", "3|4|33", "4|5|4", "5|6|5")
}

// Stored generated columns are in events and are never written, but may find a row.
func TestGeneratedColumnsAreNotWritten(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t2 (a int, b int as (a+1) stored not null, unique (b))")
	w.insert(tab, cells("1", "2"), cells("2", "3"))
	w.write(w.txn(
		w.row(tab, 1, cells("1", "2"), cells("7", "8")),
		w.row(tab, 2, cells("2", "3"), nil),
	))
	w.want("select a, b from t2", "7|8")
}

// JSON and what is generated from it in a table without a key.
func TestJSONWithoutAKey(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int, j json, gc int as (json_extract(j, '$[0]')) virtual)")
	w.insert(tab, cells("1", "[1]", ""), cells("1", "[2]", ""), cells("1", "NULL", ""))
	w.write(w.txn(
		w.row(tab, 1, cells("1", "[1]", ""), cells("1", "[123]", "")),
		w.row(tab, 2, cells("1", "[2]", ""), nil),
	))
	w.want("select id, j, gc from t", "1|[123]|123", "1|NULL|NULL")
}

// Rows of a table without a key are found to the letter: NULL, case, trailing
// blanks, the last bit of a FLOAT, a blank in a JSON string.
func TestRowsWithoutAKeyAreFoundToTheLetter(t *testing.T) {
	w := newWorld(t)
	tab := w.create(`create table t (s varchar(10) collate utf8mb4_general_ci, l varchar(10) charset latin1, g varchar(10) charset gbk,
		b blob, f float, d double, n decimal(10,2), ts timestamp(3) null, ti time(6), y year, bt bit(9), j json)`)
	base := cells("a", "é", "中", "\x00\xff", "0.1", "0.1", "1.50", "2024-01-01 00:00:00.001", "-00:00:00.000001", "2024", "\x01\xff", `{"k": "v"}`)
	rows := [][]string{base}
	for i, others := range [][]string{
		{"A", "a ", "á", "NULL", ""}, {"e", "NULL"}, {"文", "NULL"}, {"\x00", "NULL"}, {"0.100000024", "NULL", "0"}, {"0.30000000000000004", "NULL"},
		{"1.51", "NULL"}, {"2024-01-01 00:00:00.002", "NULL", "0000-00-00 00:00:00.000"}, {"00:00:00.000001", "NULL"}, {"0000", "NULL"},
		{"\x00\xff", "NULL"}, {`{"k": "v "}`, `{"K": "v"}`, "null", "NULL"},
	} {
		for _, other := range others {
			row := append(cells(), base...)
			row[i] = other
			rows = append(rows, row)
		}
	}
	w.insert(tab, rows...)
	// one after the other, from both ends, each time the right one
	for n := len(rows); n > 0; n-- {
		i := 0
		if n%2 == 0 {
			i = len(rows) - 1
		}
		w.write(w.txn(w.row(tab, i, rows[i], nil)))
		rows = append(rows[:i:i], rows[i+1:]...)
		var want []string
		for _, r := range rows {
			want = append(want, fmt.Sprintf("%X %s", r[0], r[4])+" "+r[11])
		}
		got := w.rows("select concat(ifnull(hex(s), hex('NULL')), ' ', ifnull(f+0e0, 'NULL'), ' ', ifnull(j, 'NULL')) from t")
		if len(got) != len(want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		if !sameRows(got, want) {
			t.Fatalf("after the %dth: got %q, want %q", i, got, want)
		}
	}
}

// sameRows compares without order; a FLOAT's text is compared as a FLOAT.
func sameRows(got, want []string) bool {
	form := func(rows []string) []string {
		var out []string
		for _, r := range rows {
			parts := strings.SplitN(r, " ", 3)
			if f, err := strconv.ParseFloat(parts[1], 32); err == nil {
				parts[1] = strconv.FormatFloat(f, 'g', -1, 32)
			}
			out = append(out, strings.Join(parts, " "))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(form(got), form(want))
}

// Equal rows of a table without a key: a delete takes one.
func TestEqualRowsWithoutAKey(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (a int, v varchar(10))")
	w.write(w.txn(w.row(tab, 1, nil, cells("1", "a")), w.row(tab, 2, nil, cells("1", "a")), w.row(tab, 3, nil, cells("1", "a"))))
	w.write(w.txn(w.row(tab, 1, cells("1", "a"), nil), w.row(tab, 2, cells("1", "a"), cells("1", "z"))))
	w.want("select a, v from t", "1|a", "1|z")
}

// A nullable unique key is no key, but values in it may swap all the same.
func TestNullableUniqueValuesSwap(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (a int, b int, unique (a))")
	w.insert(tab, cells("1", "1"), cells("2", "2"), cells("NULL", "3"), cells("NULL", "3"))
	w.write(w.txn(
		w.row(tab, "1", cells("1", "1"), cells("2", "1")),
		w.row(tab, "2", cells("2", "2"), cells("1", "2")),
		w.row(tab, "3", cells("NULL", "3"), cells("NULL", "4")),
	))
	w.want("select a, b from t", "2|1", "1|2", "NULL|3", "NULL|4")
}

// TiDB stores UTF-8 in gbk columns, and anything in latin1 ones.
func TestCharsets(t *testing.T) {
	w := newWorld(t)
	tab := w.create(`create table t (id int primary key, g varchar(20) charset gbk, l varchar(20) charset latin1, a varchar(20) charset ascii,
		u varchar(20) charset utf8, m varchar(20), b varchar(20) charset binary, e enum('一','二') charset gbk)`)
	w.insert(tab, cells("1", "中国", "Müller", "x", "中", "😀", "\xff\x00中", "二"))
	raw := w.row(tab, 2, nil, cells("2", "", "", "", "", "", "", "一"))
	raw.After[2] = event.BytesValue([]byte{0xA5}) // no UTF-8: it stays this byte
	cjk := w.row(tab, 3, nil, cells("3", "", "中", "", "", "", "", "一"))
	w.write(w.txn(raw, cjk))
	w.want("select id, g, l, a, u, m, hex(b), e from t where id=1", "1|中国|Müller|x|中|😀|FF00E4B8AD|二")
	w.want("select id, hex(g), hex(l) from t where id=1", "1|D6D0B9FA|4DFC6C6C6572")
	w.want("select id, hex(l) from t where id>1", "2|A5", "3|E4B8AD")
	// and they are found again by such a value
	byLatin := w.create("create table k (l varchar(20) charset latin1 primary key, v int)")
	one := w.row(byLatin, 1, nil, cells("x", "1"))
	one.After[0] = event.BytesValue([]byte{0xA5, 0xE9})
	w.write(w.txn(one))
	gone := w.row(byLatin, 1, cells("x", "1"), nil)
	gone.Before[0] = one.After[0]
	w.write(w.txn(gone))
	w.want("select * from k")
}

// What a downstream charset lacks is an error, not a question mark.
func TestCharactersThatDoNotFit(t *testing.T) {
	w := newWorld(t)
	for column, values := range map[string][2]string{
		"a varchar(9) charset ascii": {"~", "é"},
		"a varchar(9) charset utf8":  {"中", "😀"},
		"a varchar(9) charset gbk":   {"中", "䶮"},
	} {
		mustExec(t, w.db, "drop table if exists "+qualified(w.schema, "t"))
		tab := w.create("create table t (id int primary key, " + column + ")")
		w.insert(tab, cells("1", values[0]))
		err := w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 2, nil, cells("2", values[1])))})
		if !cdcerr.MySQLTxn.Is(err) || !strings.Contains(err.Error(), "column a") || strings.Contains(err.Error(), values[1]) {
			t.Errorf("%s: %v", column, err)
		}
		w.want("select id, a from t", "1|"+values[0])
	}
}

// No byte of a binary string is converted.
func TestBinaryStringsAreNotConverted(t *testing.T) {
	w := newWorld(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	tab := w.create("create table t (id int primary key, b blob, v varbinary(300), f binary(4), j json)")
	w.insert(tab, cells("1", string(all), string(all), "a", `{"k": "\u0000'\\\""}`))
	w.want("select sha2(b, 256) = sha2(v, 256), hex(v), hex(f), j from t", fmt.Sprintf(`1|%X|61000000|{"k": "\u0000'\\\""}`, all))
}

func TestTimes(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, ti time(6), t0 time, d date, dt datetime(6), ts timestamp(6) null, y year)")
	for i, r := range [][]string{
		cells("-838:59:59.000000", "-838:59:59", "0000-00-00", "0000-00-00 00:00:00.000001", "0000-00-00 00:00:00.000000", "0000"),
		cells("838:59:59.000000", "838:59:59", "2024-00-00", "2024-01-00 00:00:00.000000", "1970-01-01 00:00:01.000001", "1901"),
		cells("-00:00:00.000001", "-00:00:01", "2024-02-31", "9999-12-31 23:59:59.999999", "2038-01-19 03:14:07.999999", "2155"),
	} {
		w.insert(tab, append(cells(strconv.Itoa(i)), r...))
		w.want("select ti, t0, d, dt, ts, concat(y) from t where id="+strconv.Itoa(i), join(r))
	}
}

func join(cells []string) string {
	out := cells[0]
	for _, c := range cells[1:] {
		out += "|" + c
	}
	return out
}

func TestNumbers(t *testing.T) {
	w := newWorld(t)
	tab := w.create(`create table t (id bigint unsigned primary key, i bigint, f float, d double, n decimal(65,30), b bit(64), z int unsigned zerofill)`)
	for _, r := range [][]string{
		cells("0", "-9223372036854775808", "0.1", "5e-324", "-0.000000000000000000000000000001", "\x00\x00\x00\x00\x00\x00\x00\x05", "7"),
		cells("18446744073709551615", "9223372036854775807", "3.4028235e38", "1.7976931348623157e308",
			"99999999999999999999999999999999999.999999999999999999999999999999", "\xff\xff\xff\xff\xff\xff\xff\xff", "4294967295"),
		cells("1", "0", "16777217", "0.30000000000000004", "0.000000000000000000000000000000", "\x00\x00\x00\x00\x00\x00\x00\x00", "0"),
		cells("2", "0", "1e-45", "2.2250738585072014e-308", "1.500000000000000000000000000000", "\x00\x00\x00\x00\x00\x00\x00\x00", "0"),
	} {
		w.insert(tab, r)
		bits := fmt.Sprintf("%X", r[5])
		float, err := strconv.ParseFloat(r[2], 32)
		if err != nil {
			t.Fatal(err)
		}
		double, err := strconv.ParseFloat(r[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		w.want("select id, i, n, lpad(hex(b), 16, '0'), z+0 from t where id="+r[0], join(cells(r[0], r[1], r[4], bits, r[6])))
		// over the binary protocol, where MariaDB does not round
		var f float32
		var d float64
		if err := w.db.QueryRow("select f, d from "+qualified(w.schema, "t")+" where id=?", r[0]).Scan(&f, &d); err != nil {
			t.Fatal(err)
		}
		if float64(f) != float || d != double {
			t.Errorf("%s: got %g %g, want %g %g", r[0], f, d, float, double)
		}
	}
}
