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
		{DB: "db", Name: "t", RowSet: verify.RowSet{Columns: []string{"id", "v"}, Rows: rows}},
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
	want(t, end(&verify.Contents{}), "differ(2)", "db: want a database", "db.t: want a table")

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

// A table without any key is compared as a multiset, without hidden row ids.
func TestContentsWithoutAKey(t *testing.T) {
	e := expected(t, tableT,
		`{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"1","id":"1","v":"x"}}`,
		`{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"2","id":"1","v":"x"}}`)
	j := verify.NewJudge(verify.Config{Tables: []*event.Table{heapOf(7, "t")}, Expected: e})
	want(t, j.EndOf(contents(cells("1", "x"), cells("1", "x"))), "equal")
	want(t, j.EndOf(contents(cells("1", "x"), cells("1", "y"))), "differ(2)")
}
