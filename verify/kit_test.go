package verify_test

import (
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/verify"
)

// Column ids and table ids of the little database that the tests speak of.
const (
	idColumn = iota + 1
	vColumn
	wColumn
)

func intColumn(id int64, name string) event.Column {
	return event.Column{ID: id, Name: name, Type: event.TypeLong, Absent: event.NullValue()}
}

func textColumn(id int64, name string) event.Column {
	return event.Column{ID: id, Name: name, Type: event.TypeVarchar, Flen: 20, Charset: "utf8mb4", Absent: event.NullValue()}
}

// tableOf is db.name(id int primary key, v varchar(20)) with the given partitions.
func tableOf(id int64, name string, parts ...int64) *event.Table {
	t := &event.Table{
		ID: id, SchemaID: 1, Schema: "db", Name: name,
		Columns: []event.Column{intColumn(idColumn, "id"), textColumn(vColumn, "v")},
		Handle:  event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{Column: 0, Length: event.FullLength}}},
		Key:     []int{0},
	}
	for i, p := range parts {
		t.Partitions = append(t.Partitions, event.Partition{ID: p, Name: string(rune('a' + i))})
	}
	return t
}

// heapOf is a table without a key: its rows are told apart by a hidden row id.
func heapOf(id int64, name string, parts ...int64) *event.Table {
	t := tableOf(id, name, parts...)
	t.Handle, t.Key = event.Handle{}, nil
	return t
}

func with(t *event.Table, change func(*event.Table)) *event.Table {
	c := *t
	c.Columns = append([]event.Column(nil), t.Columns...)
	change(&c)
	return &c
}

func image(id int64, v string) event.Image {
	return event.Image{event.IntValue(id), event.BytesValue([]byte(v))}
}

func put(t *event.Table, physical, handle int64, ts tso.TS, before, after event.Image) *event.Row {
	return &event.Row{
		StartTS: ts - 1, CommitTS: ts, Table: t, PhysicalID: physical,
		Key: span.AppendInt(span.RecordPrefix(physical), handle), Before: before, After: after,
	}
}

func insert(t *event.Table, ts tso.TS, id int64, v string) *event.Row {
	return put(t, t.ID, id, ts, nil, image(id, v))
}

func remove(t *event.Table, ts tso.TS, id int64, v string) *event.Row {
	return put(t, t.ID, id, ts, image(id, v), nil)
}

func txn(rows ...*event.Row) *event.Txn {
	t := &event.Txn{StartTS: rows[0].StartTS, CommitTS: rows[0].CommitTS}
	t.Rows = rows
	return t
}

func expected(t *testing.T, lines ...string) *verify.Expected {
	t.Helper()
	text := `{"kind":"header","end_ts":900,"time_zone":"UTC"}` + "\n" + `{"kind":"database","db":"db"}` + "\n" + strings.Join(lines, "\n")
	e, err := verify.ReadExpected("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func history(t *testing.T, lines ...string) *verify.History {
	t.Helper()
	h, err := verify.ReadHistory("test", strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// want checks a verdict's word and that the given texts stand in its first findings.
func want(t *testing.T, v *verify.Verdict, word string, texts ...string) {
	t.Helper()
	var all strings.Builder
	for _, d := range v.First {
		all.WriteString(d.String() + "\n")
	}
	for _, l := range v.Listings {
		all.WriteString(l.String() + "\n")
	}
	for _, n := range v.Notes {
		all.WriteString(n + "\n")
	}
	if v.Word() != word {
		t.Errorf("verdict %s, want %s:\n%s", v.Word(), word, all.String())
	}
	for _, text := range texts {
		if !strings.Contains(all.String(), text) {
			t.Errorf("no %q in:\n%s", text, all.String())
		}
	}
}
