package verify_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/verify"
)

var twoRows = []string{
	`{"kind":"snapshot","commit_ts":10,"physical_id":7,"known":true,"db":"db","table":"t","table_id":7}`,
	`{"kind":"row","db":"db","table":"t","row":{"id":"1","v":"one"}}`,
	`{"kind":"row","db":"db","table":"t","row":{"id":"2","v":"two"}}`,
	`{"kind":"snapshot","commit_ts":20,"physical_id":7,"known":true,"db":"db","table":"t","table_id":7}`,
	`{"kind":"row","db":"db","table":"t","row":{"id":"2","v":"two"}}`,
}

func judgeRows(t *testing.T, lines []string, rows ...*event.Row) *verify.Verdict {
	t.Helper()
	r := verify.NewRows(history(t, lines...), verify.DefaultLimits())
	for _, row := range rows {
		r.Row(row)
	}
	return r.Finish()
}

func TestRowsThatStandAreEqual(t *testing.T) {
	a := tableOf(7, "t")
	v := judgeRows(t, twoRows, insert(a, 10, 1, "one"), insert(a, 10, 2, "two"), remove(a, 20, 1, "one"))
	want(t, v, "equal", "2 rows and 1 deletes judged")
}

func TestACorruptCellDiffers(t *testing.T) {
	v := judgeRows(t, twoRows, insert(tableOf(7, "t"), 10, 1, "One"))
	want(t, v, "differ(1)", `db.t [id="1"] v: want "one", got "One" (commit-ts 10)`)
}

func TestAnInventedRowDiffers(t *testing.T) {
	v := judgeRows(t, twoRows, insert(tableOf(7, "t"), 10, 3, "three"))
	want(t, v, "differ(1)", `[id="3"] (row): want no such row`)
}

func TestADeletedRowThatStandsDiffers(t *testing.T) {
	v := judgeRows(t, twoRows, remove(tableOf(7, "t"), 20, 2, "two"))
	want(t, v, "differ(1)", `[id="2"] (row): want the row, still, got delete`)
}

// What is deleted is told by its key: a wrong old image does not hide it.
func TestADeletedRowIsToldByKey(t *testing.T) {
	v := judgeRows(t, twoRows, remove(tableOf(7, "t"), 20, 2, "some other text"))
	want(t, v, "differ(1)", "still")
}

// An update that moves a row to another key and back in one transaction deletes
// and writes the same key under two physical ids of a partitioned table.
func TestAMoveBetweenPartitionsIsNoDelete(t *testing.T) {
	p := heapOf(7, "t", 71, 72)
	lines := []string{
		`{"kind":"snapshot","commit_ts":10,"physical_id":71,"known":true,"db":"db","table":"t","table_id":7}`,
		`{"kind":"row","db":"db","table":"t","row":{"_tidb_rowid":"1","id":"5","v":"x"}}`,
		`{"kind":"snapshot","commit_ts":10,"physical_id":72,"known":true,"db":"db","table":"t","table_id":7}`,
	}
	v := judgeRows(t, lines, put(p, 71, 1, 10, image(5, "x"), nil), put(p, 72, 1, 10, nil, image(5, "x")))
	want(t, v, "equal")
	v = judgeRows(t, lines, put(p, 71, 1, 10, image(5, "x"), nil))
	want(t, v, "differ(1)")
}

func TestRowsAreAMultiset(t *testing.T) {
	h := heapOf(7, "t")
	lines := []string{
		`{"kind":"snapshot","commit_ts":10,"physical_id":7,"known":true,"db":"db","table":"t","table_id":7}`,
		`{"kind":"row","db":"db","table":"t","row":{"id":"5","v":"x"}}`,
	}
	want(t, judgeRows(t, lines, put(h, 7, 1, 10, nil, image(5, "x"))), "equal")
	v := judgeRows(t, lines, put(h, 7, 1, 10, nil, image(5, "x")), put(h, 7, 2, 10, nil, image(5, "x")))
	want(t, v, "differ(1)", "_tidb_rowid=2")
}

// The snapshots of a very short run were read with a later schema: only the
// columns of both sides count.
func TestColumnsOfOneSideAreLeftOut(t *testing.T) {
	lines := []string{
		`{"kind":"snapshot","commit_ts":10,"physical_id":7,"known":true,"db":"db","table":"t","table_id":7}`,
		`{"kind":"row","db":"db","table":"t","row":{"id":"1","later":"x"}}`,
	}
	want(t, judgeRows(t, lines, insert(tableOf(7, "t"), 10, 1, "one")), "equal")
	want(t, judgeRows(t, lines, insert(tableOf(7, "t"), 10, 2, "one")), "differ(1)")
}

func TestVirtualColumnsAreLeftOut(t *testing.T) {
	g := with(tableOf(7, "t"), func(t *event.Table) { t.Columns[1].Generated = event.Virtual })
	row := insert(g, 10, 1, "")
	row.After[1] = event.Value{}
	want(t, judgeRows(t, twoRows, row), "equal")
}

func TestNullIsNoText(t *testing.T) {
	row := insert(tableOf(7, "t"), 10, 1, "")
	row.After[1] = event.NullValue()
	want(t, judgeRows(t, twoRows, row), "differ(1)", `want "one", got NULL`)
}

// Gaps of a sample are counted; in a history that has nearly all commits, a row
// at an unknown commit-ts is a finding.
func TestCommitsThatTheHistoryLacks(t *testing.T) {
	a := tableOf(7, "t")
	v := judgeRows(t, twoRows, insert(a, 10, 1, "one"), insert(a, 11, 3, "x"), insert(a, 12, 4, "y"))
	want(t, v, "equal", "a sample: 2 rows at 2 commits")
	v = judgeRows(t, twoRows, insert(a, 10, 1, "one"), insert(a, 11, 3, "x"), remove(a, 20, 1, "one"))
	want(t, v, "differ(1)", "no commit at this ts")
}

// A row under an id that SQL does not see any more stands under the new one.
func TestADoubledWriteIsJudgedUnderTheNewID(t *testing.T) {
	p := tableOf(7, "t", 71)
	lines := []string{
		`{"kind":"snapshot","commit_ts":10,"physical_id":71,"known":false,"db":"","table":"","table_id":0}`,
		`{"kind":"snapshot","commit_ts":10,"physical_id":72,"known":true,"db":"db","table":"t","table_id":7}`,
		`{"kind":"row","db":"db","table":"t","row":{"id":"1","v":"one"}}`,
	}
	want(t, judgeRows(t, lines, put(p, 71, 1, 10, nil, image(1, "one"))), "equal")
	want(t, judgeRows(t, lines[:1], put(p, 71, 1, 10, nil, image(1, "one"))), "differ(1)", "no such physical id")
}

func TestWithoutHistoryRowsAreCounted(t *testing.T) {
	r := verify.NewRows(nil, verify.DefaultLimits())
	r.Row(insert(tableOf(7, "t"), 10, 1, "one"))
	want(t, r.Finish(), "equal", "no history was recorded: 1 rows")
}

func TestAVerdictIsBounded(t *testing.T) {
	r := verify.NewRows(history(t, twoRows...), verify.Limits{Differences: 2, Listings: 2})
	for i := range int64(5) {
		r.Row(insert(tableOf(7, "t"), 10, 100+i, "x"))
	}
	v := r.Finish()
	if v.Differences != 5 || len(v.First) != 2 {
		t.Fatalf("%d counted, %d kept", v.Differences, len(v.First))
	}
}
