package verify_test

import (
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/verify"
)

// momentOf is what t held after a commit: ids and texts in turn.
func momentOf(ts string, cells ...string) string {
	lines := []string{`{"kind":"snapshot","commit_ts":` + ts + `,"physical_id":7,"known":true,"db":"db","table":"t","table_id":7}`}
	for i := 0; i < len(cells); i += 2 {
		lines = append(lines, `{"kind":"row","db":"db","table":"t","row":{"id":"`+cells[i]+`","v":"`+cells[i+1]+`"}}`)
	}
	return strings.Join(lines, "\n")
}

// A row that was lost on the way is found though a later one of its key comes:
// the history says what every commit did.
func TestEveryChangeInAWholeHistoryIsAnsweredFor(t *testing.T) {
	a := tableOf(7, "t")
	whole := []string{momentOf("10", "1", "one", "2", "two"), momentOf("20", "1", "uno", "3", "three"), momentOf("30", "1", "eins", "3", "three")}
	first := []*event.Row{insert(a, 10, 1, "one"), insert(a, 10, 2, "two")}
	update := put(a, 7, 1, 20, image(1, "one"), image(1, "uno"))
	last := put(a, 7, 1, 30, image(1, "uno"), image(1, "eins"))
	gone, third := remove(a, 20, 2, "two"), insert(a, 20, 3, "three")
	commits := [][2]int64{{10, 7}, {20, 7}, {30, 7}}
	for name, c := range map[string]struct {
		history []string
		commits [][2]int64
		created bool
		ddls    []*event.DDL
		rows    []*event.Row
		word    string
		texts   []string
	}{
		"all delivered":    {whole, commits, false, nil, append(first, update, gone, third, last), "equal", []string{"2 commits judged by what the table held before"}},
		"an update lost":   {whole, commits, false, nil, append(first, gone, third, last), "differ(2)", []string{`[id="1" v="uno"] (row): want the row, written by this commit`, `[id="1" v="one"] (row): want the row gone, or another`}},
		"an insert lost":   {whole, commits, false, nil, append(first, update, gone, last), "differ(1)", []string{`[id="3" v="three"] (row): want the row, written`}},
		"a delete lost":    {whole, commits, false, nil, append(first, update, third, last), "differ(1)", []string{`[id="2" v="two"] (row): want the row gone`}},
		"a gap before it":  {[]string{whole[0], whole[2]}, commits, false, nil, append(first, update, last), "equal", []string{"the history is a sample"}},
		"a DDL between":    {whole, commits, false, []*event.DDL{ddl(5, 15, change(a, a))}, append(first, gone, last), "equal", nil},
		"a table of today": {whole[:1], commits[:1], true, nil, first[:1], "differ(1)", []string{`[id="2" v="two"] (row): want the row, written`}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := verify.Config{StartTS: 1, History: history(t, c.history...), Stream: stream(t, c.commits...), Tables: []*event.Table{a}, Limits: verify.DefaultLimits()}
			if c.created {
				cfg.Tables = nil
			}
			r := verify.NewRows(cfg)
			if c.created {
				d := ddl(5, 5, change(nil, a))
				d.Action = event.ActionCreateTable
				r.DDL(d)
			}
			for _, row := range c.rows {
				for len(c.ddls) > 0 && c.ddls[0].SwitchTS < row.CommitTS {
					r.DDL(c.ddls[0])
					c.ddls = c.ddls[1:]
				}
				r.Row(row)
			}
			want(t, r.Finish(), c.word, c.texts...)
		})
	}
}

// A history that holds nothing is no sample.
func TestAHistoryWithoutMomentsDiffers(t *testing.T) {
	a := tableOf(7, "t")
	judged := func(rows ...*event.Row) *verify.Verdict {
		r := verify.NewRows(verify.Config{StartTS: 1, History: history(t), Stream: stream(t, [2]int64{10, 7}), Tables: []*event.Table{a}, Limits: verify.DefaultLimits()})
		for _, row := range rows {
			r.Row(row)
		}
		return r.Finish()
	}
	want(t, judged(insert(a, 10, 1, "one")), "differ(1)", "a history without a single moment")
	want(t, judged(), "equal")
}
