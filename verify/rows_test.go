package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/verify"
)

var twoRows = []string{
	`{"kind":"snapshot","commit_ts":10,"physical_id":7,"known":true,"db":"db","table":"t","table_id":7}`,
	`{"kind":"row","db":"db","table":"t","row":{"id":"1","v":"one"}}`,
	`{"kind":"row","db":"db","table":"t","row":{"id":"2","v":"two"}}`,
	`{"kind":"snapshot","commit_ts":20,"physical_id":7,"known":true,"db":"db","table":"t","table_id":7}`,
	`{"kind":"row","db":"db","table":"t","row":{"id":"2","v":"two"}}`,
}

// judgeRows judges rows by the part of a history that lies before the last of
// them: what comes later was not asked for yet.
func judgeRows(t *testing.T, lines []string, rows ...*event.Row) *verify.Verdict {
	t.Helper()
	e := &verify.Expected{EndTS: rows[len(rows)-1].CommitTS}
	r := verify.NewRows(verify.Config{StartTS: rows[0].CommitTS - 1, History: history(t, lines...), Expected: e, Limits: verify.DefaultLimits()})
	for _, row := range rows {
		r.Row(row)
	}
	return r.Finish()
}

// stream is a recorded one, of commits as pairs of commit-ts and physical id.
func stream(t *testing.T, commits ...[2]int64) *verify.Stream {
	t.Helper()
	var lines strings.Builder
	for _, c := range commits {
		key := span.AppendInt(span.RecordPrefix(c[1]), 1)
		fmt.Fprintf(&lines, `{"type":"COMMIT","op":"PUT","key":"%x","start_ts":1,"commit_ts":%d}`+"\n", key, c[0])
	}
	s, err := verify.ReadStream("test", strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	return s
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
	want(t, v, "differ(2)", "the row, still", "a change of physical id 72, got nothing delivered")
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
// columns of both sides count, once a later DDL has made that schema.
func TestALaterSchemaAnswersForItsColumns(t *testing.T) {
	a := tableOf(7, "t")
	lines := []string{
		`{"kind":"snapshot","commit_ts":10,"physical_id":7,"known":true,"db":"db","table":"t","table_id":7}`,
		`{"kind":"row","db":"db","table":"t","row":{"id":"1","later":"x"}}`,
	}
	later := with(a, func(t *event.Table) { t.Columns[1] = intColumn(wColumn, "later") })
	other := with(a, func(t *event.Table) { t.Columns[1] = intColumn(wColumn, "other") })
	for _, c := range []struct {
		row   *event.Row
		ddls  []*event.DDL
		word  string
		texts []string
	}{
		{insert(a, 10, 1, "one"), []*event.DDL{ddl(5, 11, change(a, later))}, "equal", []string{"1 snapshots were read with a later schema"}},
		{insert(a, 10, 1, "one"), []*event.DDL{ddl(5, 11, change(a, other)), ddl(5, 12, change(other, later))}, "equal", nil},
		{insert(a, 10, 2, "one"), []*event.DDL{ddl(5, 11, change(a, later))}, "differ(1)", []string{"want no such row"}},
		{insert(a, 10, 1, "one"), nil, "differ(2)", []string{"later: want a column, got none", "v: want no such column"}},
		{insert(a, 10, 1, "one"), []*event.DDL{ddl(5, 11, change(a, other))}, "differ(2)", []string{"later: want a column"}},
	} {
		r := verify.NewRows(verify.Config{History: history(t, lines...), Tables: []*event.Table{a}, Limits: verify.DefaultLimits()})
		r.Row(c.row)
		for _, d := range c.ddls {
			r.DDL(d)
		}
		want(t, r.Finish(), c.word, c.texts...)
	}
}

// A row that was decoded with an older schema than the DDLs made lacks a column,
// with or without a history; a later DDL does not excuse it.
func TestARowOfAnOldSchemaDiffers(t *testing.T) {
	a := tableOf(7, "t")
	now := with(a, func(t *event.Table) { t.Columns = append(t.Columns, intColumn(wColumn, "w")) })
	r := verify.NewRows(verify.Config{Tables: []*event.Table{a}, Limits: verify.DefaultLimits()})
	r.DDL(ddl(5, 9, change(a, now)))
	r.Row(insert(a, 10, 1, "one"))
	r.DDL(ddl(5, 11, change(now, now)))
	want(t, r.Finish(), "differ(1)", `[id="1"] w: want a column, got none`)
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

// The stream tells a sample's gap from a commit that never was; without it the
// history is whole.
func TestCommitsThatTheHistoryLacks(t *testing.T) {
	a := tableOf(7, "t")
	rows := []*event.Row{insert(a, 10, 1, "one"), insert(a, 11, 3, "x"), insert(a, 12, 4, "y"), remove(a, 20, 1, "one")}
	want(t, judgeRows(t, twoRows, rows...), "differ(2)", "no commit at this ts, got insert (commit-ts 12)")
	judged := func(s *verify.Stream) *verify.Verdict {
		r := verify.NewRows(verify.Config{History: history(t, twoRows...), Stream: s, Limits: verify.DefaultLimits()})
		for _, row := range rows {
			r.Row(row)
		}
		return r.Finish()
	}
	want(t, judged(stream(t, [2]int64{10, 7}, [2]int64{11, 7}, [2]int64{12, 7}, [2]int64{20, 7})), "equal", "a sample: 2 rows at 2 commits")
	want(t, judged(stream(t, [2]int64{10, 7}, [2]int64{11, 7}, [2]int64{12, 8}, [2]int64{20, 7})), "differ(1)", "no commit at this ts, got insert (commit-ts 12)")
}

// Nothing judged is no equality: every commit of the history has to be delivered.
func TestACommitThatWasNotDeliveredDiffers(t *testing.T) {
	a := tableOf(7, "t")
	judged := func(s *verify.Stream, rows ...*event.Row) *verify.Verdict {
		r := verify.NewRows(verify.Config{StartTS: 5, History: history(t, twoRows...), Stream: s, Limits: verify.DefaultLimits()})
		for _, row := range rows {
			r.Row(row)
		}
		return r.Finish()
	}
	want(t, judged(nil), "differ(2)", "db.t (row): want a change of physical id 7, got nothing delivered (commit-ts 10)", "(commit-ts 20)")
	want(t, judged(nil, insert(a, 10, 1, "one")), "differ(1)", "nothing delivered (commit-ts 20)")
	want(t, judged(nil, insert(a, 110, 1, "one"), remove(a, 120, 1, "one")), "differ(4)")
	still, err := verify.ReadStream("test", strings.NewReader(fmt.Sprintf(
		`{"type":"COMMITTED","op":"PUT","key":"%[1]x","start_ts":9,"commit_ts":10}
{"type":"COMMIT","op":"DELETE","key":"%[1]x","start_ts":19,"commit_ts":20}`, insert(a, 10, 1, "").Key)))
	if err != nil {
		t.Fatal(err)
	}
	want(t, judged(still, insert(a, 10, 1, "one")), "equal") // what was deleted was not there
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
	r := verify.NewRows(verify.Config{})
	r.Row(insert(tableOf(7, "t"), 10, 1, "one"))
	want(t, r.Finish(), "equal", "no history was recorded: 1 rows")
}

func TestAVerdictIsBounded(t *testing.T) {
	r := verify.NewRows(verify.Config{History: history(t, twoRows[:3]...), Limits: verify.Limits{Differences: 2, Listings: 2}})
	for i := range int64(5) {
		r.Row(insert(tableOf(7, "t"), 10, 100+i, "x"))
	}
	v := r.Finish()
	if v.Differences != 5 || len(v.First) != 2 {
		t.Fatalf("%d counted, %d kept", v.Differences, len(v.First))
	}
}
