package verify_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/verify"
)

// story folds rows and DDLs in the order given and compares the end.
func story(t *testing.T, e *verify.Expected, events ...any) *verify.Verdict {
	t.Helper()
	m := verify.NewModel([]string{"db"}, nil)
	for _, ev := range events {
		switch ev := ev.(type) {
		case *event.Row:
			m.Row(ev)
		case *event.DDL:
			m.DDL(ev)
		default:
			t.Fatalf("%T", ev)
		}
	}
	return m.End(e, verify.DefaultLimits())
}

func ddl(action event.Action, at tso.TS, changes ...event.TableChange) *event.DDL {
	return &event.DDL{Action: action, SwitchTS: at, FinishedTS: at, JobID: int64(at), Tables: changes}
}

func create(t *event.Table) *event.DDL {
	return ddl(3, 1, event.TableChange{After: t})
}

func change(before, after *event.Table) event.TableChange {
	return event.TableChange{Before: before, After: after}
}

const (
	tableT = `{"kind":"table","db":"db","table":"t","table_id":7,"type":"BASE TABLE"}`
	rowOne = `{"kind":"row","db":"db","table":"t","row":{"id":"1","v":"one"}}`
	rowTwo = `{"kind":"row","db":"db","table":"t","row":{"id":"2","v":"two"}}`
)

func TestTheEndIsEqual(t *testing.T) {
	a := tableOf(7, "t")
	v := story(t, expected(t, tableT, rowOne, rowTwo), create(a),
		insert(a, 10, 1, "1"), insert(a, 10, 3, "three"), insert(a, 11, 2, "two"),
		put(a, 7, 1, 12, image(1, "1"), image(1, "one")), remove(a, 13, 3, "three"))
	want(t, v, "equal")
	if len(v.Tables) != 1 || v.Tables[0].Rows != 2 {
		t.Fatalf("tally %+v", v.Tables)
	}
}

func TestTheEndDiffers(t *testing.T) {
	a := tableOf(7, "t")
	e := expected(t, tableT, rowOne, rowTwo)
	one, two := insert(a, 10, 1, "one"), insert(a, 10, 2, "two")
	for name, c := range map[string]struct {
		events []any
		text   string
	}{
		"a corrupt cell":     {[]any{create(a), one, insert(a, 10, 2, "Two")}, `db.t [id="2"] v: want "two", got "Two"`},
		"a dropped row":      {[]any{create(a), one}, `db.t [id="2"] (row): want id="2" v="two", got no such row`},
		"a lost delete":      {[]any{create(a), one, two, insert(a, 10, 3, "three")}, `[id="3"] (row): want no such row`},
		"a table too many":   {[]any{create(a), one, two, create(tableOf(8, "u"))}, `db.u: want no such table`},
		"another table's id": {[]any{create(tableOf(9, "t")), put(a, 9, 1, 10, nil, image(1, "one")), put(a, 9, 2, 10, nil, image(2, "two"))}, "want table id 7, got 9"},
		"no table":           {[]any{one, two}, "db.t: want a BASE TABLE, got none"},
		"other partitions":   {[]any{create(tableOf(7, "t", 71)), put(a, 71, 1, 10, nil, image(1, "one")), put(a, 71, 2, 10, nil, image(2, "two"))}, "want partitions , got a=71"},
		"another column": {[]any{create(with(a, func(t *event.Table) { t.Columns[1].Name = "w" })), one, two},
			"db.t v: want a column, got none"},
	} {
		t.Run(name, func(t *testing.T) {
			v := story(t, e, c.events...)
			if v.Equal() {
				t.Error("nothing differs")
			}
			want(t, v, v.Word(), c.text)
		})
	}
}

// A column is told by its id: what a row had under an old id is not what the new
// column holds, and a row older than the column has its origin default.
func TestAnAddedColumnHasItsOriginDefault(t *testing.T) {
	a := tableOf(7, "t")
	b := with(a, func(t *event.Table) {
		c := textColumn(wColumn, "w")
		c.Absent = event.BytesValue([]byte("origin"))
		t.Columns = append(t.Columns, c)
	})
	e := expected(t, tableT, `{"kind":"row","db":"db","table":"t","row":{"id":"1","v":"one","w":"origin"}}`)
	want(t, story(t, e, create(a), insert(a, 10, 1, "one"), ddl(5, 11, change(a, b))), "equal")
}

// v becomes a column of another type under a new id.
func converted(at tso.TS) (before, after *event.Table, d *event.DDL) {
	before = tableOf(7, "t")
	after = with(before, func(t *event.Table) { t.Columns[1] = textColumn(wColumn, "v") })
	d = ddl(12, at, change(before, after))
	d.Conversions = []event.Conversion{{TableID: 7, FromID: vColumn, ToID: wColumn, Name: "v"}}
	return before, after, d
}

func TestAConvertedCellIsListed(t *testing.T) {
	a, b, modify := converted(11)
	v := story(t, expected(t, tableT, rowOne, rowTwo), create(a),
		insert(a, 10, 1, "was"), insert(a, 10, 2, "was"), modify, put(b, 7, 2, 12, image(2, "x"), image(2, "two")))
	want(t, v, "listed(1)", `db.t [id="1"] v = "one": rewriting DDL converted it`)
}

// The reason must apply: a row that an event touched after the switch, another
// column, a DDL that converted nothing.
func TestAWrongReasonDiffers(t *testing.T) {
	a, b, modify := converted(11)
	e := expected(t, tableT, rowOne)
	v := story(t, e, create(a), insert(a, 10, 1, "was"), modify, put(b, 7, 1, 12, nil, image(1, "wrong")))
	want(t, v, "differ(1)", `v: want "one", got "wrong"`)

	row := insert(a, 10, 99, "was")
	v = story(t, e, create(a), row, modify)
	want(t, v, "differ(2)", `[id="1"] (row)`, `[id="99"] (row)`)

	modify.Conversions = nil
	v = story(t, e, create(a), insert(a, 10, 1, "was"), modify)
	want(t, v, "differ(1)", `v: want "one", got NULL`)
}

func TestNullStaysNullThroughAConversion(t *testing.T) {
	a, _, modify := converted(11)
	row := insert(a, 10, 1, "")
	row.After[1] = event.NullValue()
	e := expected(t, tableT, `{"kind":"row","db":"db","table":"t","row":{"id":"1","v":null}}`)
	want(t, story(t, e, create(a), row, modify), "equal")
	e = expected(t, tableT, `{"kind":"row","db":"db","table":"t","row":{"id":"1","v":""}}`)
	want(t, story(t, e, create(a), row, modify), "differ(1)", `[id="1"] v: want "", got NULL`)
}

func TestAVirtualColumnIsListed(t *testing.T) {
	g := with(tableOf(7, "t"), func(t *event.Table) { t.Columns[1].Generated = event.Virtual })
	row := insert(g, 10, 1, "")
	row.After[1] = event.Value{}
	want(t, story(t, expected(t, tableT, rowOne), create(g), row), "listed(1)", "virtual generated column")
	want(t, story(t, expected(t, tableT, rowTwo), create(g), row), "differ(2)")
}

func TestTruncateRenameAndDrop(t *testing.T) {
	a := tableOf(6, "old")
	b := tableOf(7, "old")
	c := with(b, func(t *event.Table) { t.Name = "t" })
	v := story(t, expected(t, tableT, rowTwo), create(a), create(tableOf(5, "x")),
		insert(a, 10, 1, "one"), ddl(11, 11, change(a, b)),
		insert(b, 12, 2, "two"), ddl(14, 13, change(b, c)), ddl(4, 14, change(tableOf(5, "x"), nil)))
	want(t, v, "equal")
}

// Exchange: the partition and the table swap their ids, and the rows with them.
func TestExchangeSwapsRows(t *testing.T) {
	p, n := tableOf(7, "t", 71, 72), tableOf(9, "n")
	p2 := with(p, func(t *event.Table) { t.Partitions = []event.Partition{{ID: 71, Name: "a"}, {ID: 9, Name: "b"}} })
	n2 := with(n, func(t *event.Table) { t.ID = 72 })
	e := expected(t,
		`{"kind":"table","db":"db","table":"n","table_id":72,"type":"BASE TABLE"}`,
		`{"kind":"row","db":"db","table":"n","row":{"id":"1","v":"one"}}`,
		`{"kind":"table","db":"db","table":"t","table_id":7,"type":"BASE TABLE","partitions":{"a":71,"b":9}}`, rowTwo)
	v := story(t, e, create(p), create(n), put(p, 72, 1, 10, nil, image(1, "one")), insert(n, 10, 2, "two"),
		ddl(42, 11, change(p, p2), change(n, n2)))
	want(t, v, "equal")
}

// reorganised: rows 1 and 2 were in partition 71, which became 72 and 73.
func reorganised() (p, q *event.Table, events []any) {
	p = tableOf(7, "t", 71)
	q = tableOf(7, "t", 72, 73)
	return p, q, []any{create(p), put(p, 71, 1, 10, nil, image(1, "one")), put(p, 71, 2, 10, nil, image(2, "two")),
		ddl(64, 11, change(p, q))}
}

func TestReorganisedRowsStayInTheirTable(t *testing.T) {
	_, _, events := reorganised()
	e := expected(t, `{"kind":"table","db":"db","table":"t","table_id":7,"type":"BASE TABLE","partitions":{"a":72,"b":73}}`, rowOne, rowTwo)
	want(t, story(t, e, events...), "equal")
}

// Partition 72 is dropped after the reorganisation: no event tells whether a row
// was in it, unless a later one shows where the row is.
func TestARowThatADroppedPartitionMayHaveHeld(t *testing.T) {
	_, q, events := reorganised()
	r := with(q, func(t *event.Table) { t.Partitions = []event.Partition{{ID: 73, Name: "b"}} })
	events = append(events, put(q, 73, 2, 12, image(2, "two"), image(2, "TWO")), ddl(20, 13, change(q, r)))
	head := `{"kind":"table","db":"db","table":"t","table_id":7,"type":"BASE TABLE","partitions":{"b":73}}`
	two := `{"kind":"row","db":"db","table":"t","row":{"id":"2","v":"TWO"}}`

	want(t, story(t, expected(t, head, rowOne, two), events...), "listed(2)",
		`db.t [id="1"] v = "one": partition backfill moved it before a drop`)
	want(t, story(t, expected(t, head, two), events...), "listed(1)", `[id="1"] (row) = no such row: partition backfill`)
	// Only the row as it was can be there, and a row that showed itself must be.
	changed := `{"kind":"row","db":"db","table":"t","row":{"id":"1","v":"resurrected"}}`
	want(t, story(t, expected(t, head, changed, two), events...), "differ(1)", `v="resurrected", got no such row`)
	want(t, story(t, expected(t, head, rowOne), events...), "differ(1)", `[id="2"] (row): want no such row`)
}

// The row of a handle was in a partition that is truncated, perhaps; another one of
// that handle came, and both may have met in the next reorganisation. What happens
// then happens to the later one.
func TestARowThatATruncatedPartitionMayHaveHeld(t *testing.T) {
	_, q, events := reorganised()
	r := with(q, func(t *event.Table) { t.Partitions = []event.Partition{{ID: 82, Name: "a"}, {ID: 73, Name: "b"}} })
	s := tableOf(7, "t", 91)
	events = append(events, ddl(23, 12, change(q, r)), put(r, 82, 1, 13, nil, image(1, "uno")), ddl(64, 14, change(r, s)))
	head := `{"kind":"table","db":"db","table":"t","table_id":7,"type":"BASE TABLE","partitions":{"a":91}}`
	gone := append(events[:len(events):len(events)], put(s, 91, 1, 15, image(1, "uno"), nil))
	want(t, story(t, expected(t, head, rowTwo), gone...), "listed(3)", `[id="1"] (row) = no such row: partition backfill`)
	changed := append(events[:len(events):len(events)], put(s, 91, 1, 15, image(1, "uno"), image(1, "UNO")))
	one := `{"kind":"row","db":"db","table":"t","row":{"id":"1","v":"UNO"}}`
	want(t, story(t, expected(t, head, one, rowTwo), changed...), "listed(3)", `[id="1"] (row) = no such row: partition backfill`)
}

// A partition that was exchanged after a reorganisation took some rows with it.
func TestARowThatAnExchangeMayHaveTaken(t *testing.T) {
	_, q, events := reorganised()
	n := tableOf(9, "n")
	q2 := with(q, func(t *event.Table) { t.Partitions = []event.Partition{{ID: 72, Name: "a"}, {ID: 9, Name: "b"}} })
	n2 := with(n, func(t *event.Table) { t.ID = 73 })
	events = append(events, create(n), ddl(42, 13, change(q, q2), change(n, n2)))
	head := `{"kind":"table","db":"db","table":"t","table_id":7,"type":"BASE TABLE","partitions":{"a":72,"b":9}}`
	headN := `{"kind":"table","db":"db","table":"n","table_id":73,"type":"BASE TABLE"}`
	twoN := `{"kind":"row","db":"db","table":"n","row":{"id":"2","v":"two"}}`
	want(t, story(t, expected(t, headN, twoN, head, rowOne), events...), "listed(4)", "db.n [id=\"2\"] v")
	want(t, story(t, expected(t, headN, twoN, head), events...), "differ(1)", "in neither")
}

func TestARecoveredTableIsListedAndChecked(t *testing.T) {
	a := tableOf(7, "t")
	events := []any{create(a), insert(a, 10, 1, "one"), insert(a, 10, 2, "2"), insert(a, 10, 3, "three"), remove(a, 11, 3, "three"),
		ddl(4, 12, change(a, nil)), ddl(25, 13, event.TableChange{After: a}),
		put(a, 7, 2, 14, image(2, "2"), image(2, "two"))}
	want(t, story(t, expected(t, tableT, rowOne, rowTwo), events...), "listed(2)", `[id="1"] v = "one": the table was recovered`)

	other := `{"kind":"row","db":"db","table":"t","row":{"id":"1","v":"uno"}}`
	v := story(t, expected(t, tableT, other, rowTwo), events...)
	want(t, v, "differ(1)", `v: want "uno", got "one"`)
	// The model saw every row of this table: one that was deleted cannot be back.
	three := `{"kind":"row","db":"db","table":"t","row":{"id":"3","v":"three"}}`
	want(t, story(t, expected(t, tableT, rowOne, rowTwo, three), events...), "differ(1)", `[id="3"] (row)`)
	want(t, story(t, expected(t, tableT, rowTwo), events...), "differ(1)", `[id="1"] (row): want no such row`)
}

// A table that was dropped before the start comes back with rows never seen.
func TestATableFromBeforeTheStartComesBack(t *testing.T) {
	a := tableOf(7, "t")
	back := ddl(25, 13, event.TableChange{After: a})
	want(t, story(t, expected(t, tableT, rowOne), back), "listed(2)", "the table was recovered")
	want(t, story(t, expected(t, tableT, rowOne), create(a)), "differ(1)")
}

func TestADroppedDatabaseTakesItsTables(t *testing.T) {
	a := tableOf(7, "t")
	drop := &event.DDL{Action: 2, DatabaseBefore: &event.Database{ID: 1, Name: "db"}, SwitchTS: 11}
	none := expected(t)
	none.Databases = nil
	want(t, story(t, none, create(a), insert(a, 10, 1, "one"), drop), "equal")
	want(t, story(t, expected(t), create(a), drop), "differ(1)", "db: want a database, got none")
	made := &event.DDL{Action: 1, DatabaseAfter: &event.Database{ID: 2, Name: "other"}, SwitchTS: 11}
	want(t, story(t, expected(t), made), "differ(1)", "other: want no such database")
}

// A hidden row id can stand in two partitions after an exchange.
func TestRowsOfOneHiddenID(t *testing.T) {
	p := heapOf(7, "t", 71, 72)
	e := expected(t, `{"kind":"table","db":"db","table":"t","table_id":7,"type":"BASE TABLE","partitions":{"a":71,"b":72}}`,
		`{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"1","id":"1","v":"one"}}`,
		`{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"1","id":"2","v":"two"}}`)
	v := story(t, e, create(p), put(p, 71, 1, 10, nil, image(2, "two")), put(p, 72, 1, 10, nil, image(1, "one")))
	want(t, v, "equal")
	v = story(t, e, create(p), put(p, 71, 1, 10, nil, image(2, "two")), put(p, 72, 1, 10, nil, image(1, "uno")))
	want(t, v, "differ(1)", `v: want "one", got "uno"`)
}

// Where two partitions meet whose rows have the same hidden row id, one of the
// rows gets a new one, and no event says so.
func TestAHiddenRowIDThatAReorganisationChanged(t *testing.T) {
	p := heapOf(7, "t", 71, 72)
	q := heapOf(7, "t", 73)
	q2 := heapOf(7, "t", 73, 74)
	head := `{"kind":"table","db":"db","table":"t","table_id":7,"type":"BASE TABLE","partitions":{"a":73,"b":74}}`
	one := `{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"1","id":"1","v":"one"}}`
	two := `{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"9","id":"2","v":"two"}}`
	events := []any{create(p), put(p, 71, 1, 10, nil, image(1, "one")), put(p, 72, 1, 10, nil, image(2, "two")),
		ddl(64, 11, change(p, q)), ddl(19, 12, change(q, q2))}
	want(t, story(t, expected(t, head, one, two), events...), "listed(1)", `_tidb_rowid = "9": partition backfill`)
	// An event under the new id takes the old row out; another row stays another.
	update := append(events[:len(events):len(events)], put(q2, 73, 9, 13, image(2, "two"), image(2, "TWO")))
	upper := `{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"9","id":"2","v":"TWO"}}`
	want(t, story(t, expected(t, head, one, upper), update...), "equal")
	other := `{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"9","id":"2","v":"zwei"}}`
	want(t, story(t, expected(t, head, one, other), events...), "differ(2)")
}
