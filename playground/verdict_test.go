package playground

import (
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/verify"
)

// Every verdict can fail: one change to what a real recording delivers is found.
func TestOneWrongChangeIsFound(t *testing.T) {
	last := func(rows []*event.Row, deleted bool) int {
		for i, r := range slices.Backward(rows) {
			if (r.After == nil) == deleted {
				return i
			}
		}
		t.Fatal("the recording has no such row")
		return 0
	}
	for name, c := range map[string]struct {
		recording string
		spoil     func(rows []*event.Row) []*event.Row
		rows, end bool // which verdict finds it
	}{
		"nothing": {"01_types_int", func(rows []*event.Row) []*event.Row { return rows }, false, false},
		"a cell": {"01_types_int", func(rows []*event.Row) []*event.Row {
			i := last(rows, false)
			spoiled := *rows[i]
			spoiled.After = slices.Clone(spoiled.After)
			spoiled.After[len(spoiled.After)-1] = event.IntValue(77)
			rows[i] = &spoiled
			return rows
		}, true, true},
		"a row lost": {"08_txn", func(rows []*event.Row) []*event.Row {
			return slices.Delete(rows, len(rows)-1, len(rows))
		}, true, true},
		"a delete lost": {"08_txn", func(rows []*event.Row) []*event.Row {
			i := last(rows, true)
			return slices.Delete(rows, i, i+1)
		}, true, true},
		"every commit-ts shifted":                       {"08_txn", shift, true, false},
		"every commit-ts shifted, by a sampled history": {"workloads/onlinemodify", shift, true, false},
		"every commit-ts shifted, without a history":    {"workloads/bank", shift, true, false},
		"nothing delivered":                             {"08_txn", func([]*event.Row) []*event.Row { return nil }, true, true},
		"a row deleted that stands": {"01_types_int", func(rows []*event.Row) []*event.Row {
			i := last(rows, false)
			spoiled := *rows[i]
			spoiled.Before, spoiled.After = spoiled.After, nil
			rows[i] = &spoiled
			return rows
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := recordingOf("../testdata/golden/" + c.recording + ".jsonl.gz")
			if err != nil {
				t.Fatal(err)
			}
			judge := judgeDirectly(t, r, spoil{rows: c.spoil})
			rows, end := judge.Rows(), judge.End()
			if rows.Equal() == c.rows || end.Equal() == c.end {
				t.Errorf("rows=%s end=%s", rows.Word(), end.Word())
			}
		})
	}
}

// shift moves every commit to the next ts.
func shift(rows []*event.Row) []*event.Row {
	for i, r := range rows {
		shifted := *r
		shifted.CommitTS++
		rows[i] = &shifted
	}
	return rows
}

// What the events lack of the catalogue is found at the end.
func TestALostDatabaseIsFound(t *testing.T) {
	r, err := recordingOf("../testdata/golden/12_ddl_table.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	v := judgeDirectly(t, r, spoil{ddl: func(d *event.DDL) { d.DatabaseAfter = nil }}).End()
	if v.Equal() || !slices.ContainsFunc(v.First, func(d verify.Difference) bool { return d.Table == "db1" && d.Want == "a database" }) {
		t.Fatalf("end=%s %v", v.Word(), v.First)
	}
}

// A cell is listed only where its reason applies: without the conversion that the
// DDL tells of, the untouched cells of 13_ddl_column differ.
func TestAReasonThatDoesNotApplyIsNone(t *testing.T) {
	r, err := recordingOf("../testdata/golden/13_ddl_column.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	v := judgeDirectly(t, r, spoil{}).End()
	if v.ByReason[verify.Converted] != 4 || !v.Equal() {
		t.Fatalf("end=%s, %d converted", v.Word(), v.ByReason[verify.Converted])
	}
	v = judgeDirectly(t, r, spoil{ddl: func(d *event.DDL) { d.Conversions = nil }}).End()
	if v.Differences != 4 {
		t.Fatalf("end=%s", v.Word())
	}
}
