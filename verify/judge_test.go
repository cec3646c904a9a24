package verify_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/verify"
)

const snapshotAt15 = `{"kind":"snapshot","ts":15,"db":"db","table":"t","table_id":7,"columns":["id","v"],"rows":[["1","one"]]}`

func judge(t *testing.T, e *verify.Expected) *verify.Judge {
	t.Helper()
	return verify.NewJudge(verify.Config{StartTS: 1, Tables: []*event.Table{tableOf(7, "t")}, Expected: e})
}

func TestSnapshotsAreJudgedOnTheWay(t *testing.T) {
	a := tableOf(7, "t")
	e := expected(t, snapshotAt15, tableT, rowOne, rowTwo)
	j := judge(t, e)
	j.Txn(txn(insert(a, 15, 1, "one")))
	j.Txn(txn(insert(a, 16, 2, "two")))
	j.Checkpoint(16)
	want(t, j.Rows(), "equal", "1 snapshots")
	want(t, j.End(), "equal")

	j = judge(t, e)
	j.Txn(txn(insert(a, 16, 1, "one"), insert(a, 16, 2, "two")))
	want(t, j.Rows(), "differ(1)", `db.t [id="1"] (row): want id="1" v="one", got no such row (commit-ts 15)`)
	want(t, j.End(), "equal")
}

// A snapshot is judged before the first DDL after it, too.
func TestASnapshotComesBeforeALaterDDL(t *testing.T) {
	a := tableOf(7, "t")
	j := judge(t, expected(t, snapshotAt15))
	j.Txn(txn(insert(a, 15, 1, "one")))
	j.DDL(ddl(4, 16, change(a, nil)))
	want(t, j.Rows(), "equal")
	want(t, j.End(), "equal")
}

func TestABrokenDeliveryDiffers(t *testing.T) {
	a := tableOf(7, "t")
	j := judge(t, expected(t, tableT, rowOne))
	j.Txn(txn(insert(a, 10, 1, "one")))
	j.Checkpoint(12)
	j.Txn(txn(insert(a, 11, 2, "late")))
	v := j.Rows()
	want(t, v, "differ(1)", "P4")
}

// What is delivered twice is judged once, and does not turn the model back.
func TestARepeatedDeliveryChangesNothing(t *testing.T) {
	a := tableOf(7, "t")
	j := judge(t, expected(t, `{"kind":"table","db":"db","table":"u","table_id":7,"type":"BASE TABLE"}`,
		`{"kind":"row","db":"db","table":"u","row":{"id":"1","v":"one"}}`))
	first := txn(insert(a, 10, 1, "1"))
	rename := ddl(14, 12, change(a, with(a, func(t *event.Table) { t.Name = "u" })))
	j.Txn(first)
	j.Txn(txn(put(a, 7, 1, 11, image(1, "1"), image(1, "one"))))
	j.DDL(rename)
	j.Txn(first)
	j.DDL(rename)
	want(t, j.Rows(), "equal")
	want(t, j.End(), "equal")
	if c := j.Counts(); c.DDLs != 1 || c.Txns != 3 {
		t.Fatalf("%+v", c)
	}
}

func contents(rows ...[]verify.Cell) *verify.Contents {
	return &verify.Contents{Databases: []string{"db"}, Tables: []*verify.ContentsTable{
		{DB: "db", Name: "t", Type: "BASE TABLE", RowSet: verify.RowSet{Columns: []string{"id", "v"}, Rows: rows}},
	}}
}

func cells(id, v string) []verify.Cell { return []verify.Cell{verify.Text(id), verify.Text(v)} }

func TestTheContentsOfADatabase(t *testing.T) {
	e := expected(t, tableT, rowOne, rowTwo)
	end := func(c *verify.Contents) *verify.Verdict { return judge(t, e).EndOf(c) }
	want(t, end(contents(cells("2", "two"), cells("1", "one"))), "equal")
	want(t, end(contents(cells("2", "two"), cells("1", "uno"))), "differ(1)", `db.t [id="1"] v: want "one", got "uno"`)
	want(t, end(contents(cells("2", "two"))), "differ(1)", `[id="1"] (row)`)
	want(t, end(contents(cells("2", "two"), cells("1", "one"), cells("3", "x"))), "differ(1)", "no such row, got id=")
	want(t, end(&verify.Contents{}), "differ(2)", "db: want a database", "db.t: want a BASE TABLE")

	c := contents(cells("2", "two"), cells("1", "1"))
	c.Shows = func(_ *event.Column, want verify.Cell) (verify.Cell, string) {
		if want == verify.Text("one") {
			return verify.Text("1"), "numbers are digits"
		}
		return want, ""
	}
	want(t, end(c), "equal", "1 cells compared by what the database can show of them: numbers are digits")
	c.Tables[0].Rows[1][1] = verify.Text("one")
	want(t, end(c), "differ(1)", `v: want "1", got "one"`)

	c = contents(cells("2", "two"), cells("1", "one"))
	c.Tables = append(c.Tables, &verify.ContentsTable{DB: "db", Name: "left"})
	want(t, end(c), "differ(1)", "db.left: want no such table")
}

// What the database has too little or too much of is found, whatever the events
// made of it.
func TestTheCatalogueOfADatabase(t *testing.T) {
	const view = `{"kind":"table","db":"db","table":"v","table_id":8,"type":"VIEW"}`
	e := expected(t, tableT, rowOne, view)
	v := with(tableOf(8, "v"), func(t *event.Table) { t.Kind = event.View })
	whole := func() *verify.Contents {
		c := contents(cells("1", "one"))
		c.Tables = append(c.Tables, &verify.ContentsTable{DB: "db", Name: "v", Type: "VIEW"})
		return c
	}
	end := func(c *verify.Contents, tables ...*event.Table) *verify.Verdict {
		return verify.NewJudge(verify.Config{Tables: tables, Expected: e}).EndOf(c)
	}
	a := tableOf(7, "t")
	want(t, end(whole(), a, v), "equal")
	want(t, end(whole(), v), "differ(1)", "db.t: want a BASE TABLE, got none by any event")
	want(t, end(whole(), a, tableOf(8, "v")), "differ(1)", "db.v: want a VIEW, got kind 0 by the events")
	for name, c := range map[string]struct {
		spoil func(*verify.Contents)
		text  string
	}{
		"a table lost":    {func(c *verify.Contents) { c.Tables = c.Tables[1:] }, "db.t: want a BASE TABLE, got none"},
		"a view lost":     {func(c *verify.Contents) { c.Tables = c.Tables[:1] }, "db.v: want a VIEW, got none"},
		"another kind":    {func(c *verify.Contents) { c.Tables[1].Type = "BASE TABLE" }, "db.v: want a VIEW, got a BASE TABLE"},
		"a database left": {func(c *verify.Contents) { c.Databases = append(c.Databases, "old") }, "old: want no such database"},
		"a column left":   {func(c *verify.Contents) { c.Tables[0].Columns[1] = "v"; addColumn(c.Tables[0]) }, "db.t w: want no such column, got a column"},
		"a table too many": {func(c *verify.Contents) {
			c.Tables = append(c.Tables, &verify.ContentsTable{DB: "db", Name: "w", Type: "VIEW"})
		}, "db.w: want no such table"},
	} {
		t.Run(name, func(t *testing.T) {
			have := whole()
			c.spoil(have)
			want(t, end(have, a, v), "differ(1)", c.text)
		})
	}
	// A kind that the database holds none of is left out by rule, and said.
	lacks := whole()
	lacks.Tables, lacks.Lacks = lacks.Tables[:1], map[event.Kind]string{event.View: "no views"}
	want(t, end(lacks, a, v), "equal", "db.v is not in the database: no views")
}

func addColumn(c *verify.ContentsTable) {
	c.Columns = append(c.Columns, "w")
	for i := range c.Rows {
		c.Rows[i] = append(c.Rows[i], verify.Text("1"))
	}
}

// A table without any key is compared as a multiset, without hidden row ids.
func TestContentsWithoutAKey(t *testing.T) {
	e := expected(t, tableT,
		`{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"1","id":"1","v":"x"}}`,
		`{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"2","id":"1","v":"x"}}`)
	j := verify.NewJudge(verify.Config{Tables: []*event.Table{heapOf(7, "t")}, Expected: e})
	want(t, j.EndOf(contents(cells("1", "x"), cells("1", "x"))), "equal")
	want(t, j.EndOf(contents(cells("1", "x"), cells("1", "y"))), "differ(2)")
}

// An update that comes as a deletion in one piece and as an insert in a later
// one is one change: the row stands.
func TestHalvesOfAnUpdateAreJudged(t *testing.T) {
	a := tableOf(7, "t")
	first := pieceOf(1, true, remove(a, 20, 1, "old"), insert(a, 20, 2, "two"))
	last := pieceOf(2, false, insert(a, 20, 1, "one"))
	deliver := func(all ...*event.Txn) *verify.Judge {
		j := judge(t, expected(t, tableT, rowOne, rowTwo))
		j.Txn(txn(insert(a, 10, 1, "old")))
		for _, one := range all {
			j.Txn(one)
		}
		return j
	}
	j := deliver(first, last, first, last)
	want(t, j.Rows(), "equal")
	want(t, j.End(), "equal")
	if c := j.Counts(); c.Txns != 3 || c.Rows != 7 {
		t.Errorf("%+v", c)
	}
	want(t, deliver(first).End(), "differ(1)", `want id="1" v="one", got no such row`)
}
