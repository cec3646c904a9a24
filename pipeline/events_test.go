package pipeline_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
)

func eventFilters(t *testing.T, c filter.Config) func(*pipeline.Config) {
	f, err := filter.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *pipeline.Config) { c.Filter = f }
}

func TestEventFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := table(1, "a"), table(2, "b")
		w := start(t, eventFilters(t, filter.Config{
			IgnoreTxnStartTS: []uint64{103}, // commits at 108
			EventFilters: []filter.EventFilter{
				{Matcher: []string{"test.a"}, IgnoreEvent: []string{"insert", "truncate table"}, IgnoreUpdateNewValueExpr: "v > 5"},
				{Matcher: []string{"test.b"}, IgnoreInsertValueExpr: "v = 7 or id = 7"},
			},
		}), a, b)
		small, big := put(1, 102, 1, 2), put(1, 103, 1, 6)
		small.Old, big.Old = rowValue(1), rowValue(2)
		w.up.send(1, 0, put(1, 101, 1, 1), small, big)
		w.up.send(2, 0, put(2, 104, 1, 1), put(2, 105, 1, 7), put(2, 106, 7, 1), put(2, 108, 3, 3), put(2, 109, 4, 4))
		c := table(3, "a")
		w.sc.ddl(&event.DDL{SwitchTS: 110, Action: event.ActionTruncateTable, Query: "truncate a", Tables: []event.TableChange{change(a, c)}})
		w.resolve(120)
		w.want("102 a:update:1=2", "104 b:insert:1=1", "109 b:insert:4=4", "checkpoint 109", "checkpoint 110")
		w.up.send(3, 0, put(3, 115, 9, 9), func() event.RawKV { r := put(3, 116, 9, 1); r.Old = rowValue(9); return r }())
		w.resolve(120)
		w.want("116 a:update:9=1", "checkpoint 120")
		if got := w.p.Progress(); got.LeftOut != 6 || got.Rows != 4 {
			t.Errorf("%+v", got)
		}
		if !strings.Contains(w.logs.String(), "truncate table of test.a: filter.event-filters[0]") {
			t.Error(w.logs.String())
		}
	})
}

func TestExpressionsAreCheckedBeforeTheFirstRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, eventFilters(t, filter.Config{EventFilters: []filter.EventFilter{{Matcher: []string{"*.*"}, IgnoreInsertValueExpr: "w = 7"}}}), table(1, "a"))
		if err := w.ended(); !cdcerr.FilterColumn.Is(err) || !strings.Contains(err.Error(), "test.a: there is no column w") {
			t.Fatal(err)
		}
	})
}

// A transaction in pieces is filtered row by row as any other is.
func TestEventFiltersOnPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		filters := eventFilters(t, filter.Config{EventFilters: []filter.EventFilter{{Matcher: []string{"*.*"}, IgnoreInsertValueExpr: "id % 2 = 0"}}})
		w := start(t, func(c *pipeline.Config) {
			filters(c)
			c.TxnBytes, c.BatchRows = 1, 2
		}, table(1, "a"))
		var rows []event.RawKV
		for id := range int64(5) {
			rows = append(rows, put(1, 101, id, 1))
		}
		w.up.send(1, 0, rows...)
		w.resolve(110)
		w.want("101 piece 1 a:insert:1=1 a:insert:3=1", "checkpoint 110")
	})
}
