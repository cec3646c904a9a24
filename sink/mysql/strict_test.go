package mysql

import (
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// A value that a column altered by hand cannot hold is never cut: the error says
// where it was to go and what it is, and when the column is as it was the same
// rows pass.
func TestNothingIsCut(t *testing.T) {
	w := newWorld(t)
	const create = "create table t (id int primary key, i bigint, s varchar(200), b varbinary(200), d decimal(20,4), y datetime(6), e enum('x','y'), j json)"
	tab := w.create(create)
	good := cells("1", "1", "a", "b", "1.5", "2020-01-02 03:04:05", "x", "{}")
	for name, c := range map[string]struct {
		alter, undo string
		column      int
		value       string
	}{
		"too long":           {"modify s varchar(3)", "modify s varchar(200)", 2, "längst"},
		"too many bytes":     {"modify b varbinary(3)", "modify b varbinary(200)", 3, "abcd"},
		"out of range":       {"modify i int", "modify i bigint", 1, "2147483648"},
		"negative":           {"modify i bigint unsigned", "modify i bigint", 1, "-1"},
		"too many digits":    {"modify d decimal(6,4)", "modify d decimal(20,4)", 4, "123.4000"},
		"another member":     {"modify e enum('x')", "modify e enum('x','y')", 6, "y"},
		"another type":       {"modify s int", "modify s varchar(200)", 2, "a word"},
		"a date":             {"modify s date", "modify s varchar(200)", 2, "yesterday"},
		"NULL is not let in": {"modify s varchar(200) not null", "modify s varchar(200)", 2, "NULL"},
	} {
		w.rows("truncate table t")
		w.rows("alter table t " + c.alter)
		bad := append([]string{}, good...)
		bad[0], bad[c.column] = "2", c.value
		var rows []*event.Row
		for i := range 5 {
			row := append([]string{}, good...)
			if row[0] = string(rune('1' + i)); i == 1 {
				row = bad
			}
			if c.column == 2 && i != 1 {
				row[2] = "1" // fits all that the column becomes
				if name == "a date" {
					row[2] = "2020-01-02"
				}
			}
			rows = append(rows, w.row(tab, i, nil, row))
		}
		txn := w.txn(rows...)
		err := w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{txn})
		want := `row of id "2", column ` + tab.Columns[c.column].Name
		if c.value != "NULL" {
			want += `, value "` + c.value + `"`
		}
		if !cdcerr.MySQLTableDiffers.Is(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), tab.FullName()) {
			t.Errorf("%s: %v\nwant %s", name, err, want)
		}
		w.want("select count(*) from t", "0")
		w.rows("alter table t " + c.undo)
		w.write(txn)
		w.want("select count(*) from t", "5")
	}
}

// What TiDB keeps and a strict session refuses, or could, arrives: zero dates,
// dates of no calendar, the invalid member of an ENUM, in a table with a key and
// in one without; and beside such a member nothing is cut either.
func TestOddValuesArrive(t *testing.T) {
	w := newWorld(t)
	for _, key := range []string{" primary key", ""} {
		name := "k" + strings.TrimSpace(key[:min(len(key), 2)])
		tab := w.create("create table " + name + " (id int" + key + ", e enum('x','y') not null, f enum('x') null, y datetime not null, d date, s varchar(20))")
		row := func(key int, before, after []string, e, f uint64) *event.Row {
			r := w.row(tab, key, before, after)
			r.After[1], r.After[2] = event.EnumValue(e), event.EnumValue(f)
			return r
		}
		one, two := cells("1", "x", "x", "0000-00-00 00:00:00", "2020-00-01", "s"), cells("2", "x", "x", "2021-02-31 00:00:00", "0000-00-00", "s")
		w.write(w.txn(row(1, nil, one, 0, 0), row(2, nil, two, 1, 1)))
		first := "1|||0000-00-00 00:00:00|2020-00-01|s"
		w.want("select * from "+name, first, "2|x|x|2021-02-31 00:00:00|0000-00-00|s")
		w.write(w.txn(row(2, two, two, 2, 0)))
		w.want("select * from "+name, first, "2|y||2021-02-31 00:00:00|0000-00-00|s")
		w.rows("alter table " + name + " modify s varchar(3)")
		long := cells("3", "x", "x", "2021-02-28 00:00:00", "2021-01-01", "longer")
		err := w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(row(3, nil, long, 0, 1))})
		if !cdcerr.MySQLTableDiffers.Is(err) || !strings.Contains(err.Error(), `column s, value "longer"`) {
			t.Errorf("%s: %v", name, err)
		}
		w.want("select count(*) from "+name, "2")
		// The session is a strict one again.
		err = w.sink.writeNow(t.Context(), sink.Endless, []event.Txn{w.txn(row(3, nil, long, 1, 1))})
		if !cdcerr.MySQLTableDiffers.Is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
