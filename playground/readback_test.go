package playground

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/verify"
)

// oddTable has a column for each way in which a database prints otherwise.
func oddTable() *event.Table {
	column := func(id int64, name string, ty event.Type, change func(*event.Column)) event.Column {
		c := event.Column{ID: id, Name: name, Type: ty, Flen: 20, Decimal: -1, Absent: event.NullValue()}
		if change != nil {
			change(&c)
		}
		return c
	}
	charset := func(name string) func(*event.Column) { return func(c *event.Column) { c.Charset = name } }
	zerofill := func(scale int) func(*event.Column) {
		return func(c *event.Column) {
			c.Flag |= event.FlagZerofill | event.FlagUnsigned
			c.Flen, c.Decimal = 8, scale
		}
	}
	return &event.Table{ID: 7, SchemaID: 1, Schema: "odd", Name: "t", Key: []int{0},
		Handle: event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{Column: 0, Length: event.FullLength}}},
		Columns: []event.Column{
			column(1, "id", event.TypeLong, nil),
			column(2, "f", event.TypeFloat, nil),
			column(3, "l", event.TypeVarchar, charset("latin1")),
			column(4, "b", event.TypeBit, func(c *event.Column) { c.Flen = 10 }),
			column(5, "z", event.TypeLong, zerofill(0)),
			column(6, "d", event.TypeNewDecimal, zerofill(2)),
			column(7, "j", event.TypeJSON, nil),
			column(8, "y", event.TypeYear, nil),
			column(9, "n", event.TypeTimestamp, func(c *event.Column) { c.Decimal = 3 }),
		}}
}

const oddSQL = "CREATE TABLE odd.t (id int PRIMARY KEY, f float, l varchar(20) CHARACTER SET latin1, b bit(10)," +
	" z int(8) unsigned zerofill, d decimal(8,2) unsigned zerofill, j json, y year, n timestamp(3) NULL)"

// What is written for a row reads back as the recording would print it.
func TestOddCellsReadBack(t *testing.T) {
	server := mariadb.Start(t)
	db := server.DB()
	defer db.Close()
	for _, q := range []string{"CREATE DATABASE odd", oddSQL} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	table := oddTable()
	texts := [][]string{
		{"1", "16777217", "é", "\x01\x02", "42", "1.50", `{"a": [1.0, 1e20, "x"]}`, "0000", "2024-01-02 03:04:05.678"},
		{"2", "0.1", "中", "\x00\x00", "0", "0.00", `[]`, "1901", "1970-01-01 00:00:01.000"},
		{"3", "-3.40282e38", "\xe9", "\x03\xff", "99999999", "999999.99", `"é"`, "2155", "2038-01-19 03:14:07.999"},
	}
	target, err := openTarget(t.Context(), server.URI(), false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	writeRows(t, target.(*database), table, texts)

	var lines strings.Builder
	lines.WriteString(`{"kind":"header","end_ts":20}` + "\n" + `{"kind":"database","db":"odd"}` + "\n" +
		`{"kind":"table","db":"odd","table":"t","table_id":7,"type":"BASE TABLE"}` + "\n")
	for _, row := range []string{
		`"id":"1","f":"16777216","l":"é","b":{"hex":"0102"},"z":"42","d":"1.50","j":"{\"a\": [1.0, 1e20, \"x\"]}","y":"0000","n":"2024-01-02 03:04:05.678"`,
		`"id":"2","f":"0.1","l":"中","b":{"hex":"0000"},"z":"0","d":"0.00","j":"[]","y":"1901","n":"1970-01-01 00:00:01.000"`,
		`"id":"3","f":"-3.40282e38","l":{"hex":"e9"},"b":{"hex":"03ff"},"z":"99999999","d":"999999.99","j":"\"é\"","y":"2155","n":"2038-01-19 03:14:07.999"`,
	} {
		lines.WriteString(`{"kind":"row","db":"odd","table":"t","row":{` + row + "}}\n")
	}
	expected, err := verify.ReadExpected("odd", strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	judge := verify.NewJudge(verify.Config{StartTS: 1, Tables: []*event.Table{table}, Expected: expected})
	v, err := target.end(t.Context(), judge, outcome{expected: expected, databases: []string{"odd", "absent"}})
	if err != nil {
		t.Fatal(err)
	}
	report(t, "end", v)
	if len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "2 cells compared by what the database can show of them: latin1 bytes") {
		t.Error(v.Notes)
	}
}

func writeRows(t *testing.T, d *database, table *event.Table, rows [][]string) {
	t.Helper()
	txn := event.Txn{StartTS: 9, CommitTS: 10}
	for n, texts := range rows {
		image := make(event.Image, len(texts))
		for i, text := range texts {
			v, err := event.ParseText(&table.Columns[i], text)
			if err != nil {
				t.Fatal(err)
			}
			image[i] = v
		}
		key := span.AppendInt(span.RecordPrefix(table.ID), int64(n+1))
		txn.Rows = append(txn.Rows, &event.Row{StartTS: 9, CommitTS: 10, Table: table, PhysicalID: table.ID, Key: key, After: image,
			Raw: &event.RawKV{Op: event.Put, StartTS: 9, CommitTS: 10, Key: key}})
	}
	s, err := d.sink(t.Context(), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Write(context.Background(), sink.Endless, []event.Txn{txn}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}
