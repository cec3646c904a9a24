package filter_test

import (
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
)

// What waits for a DDL, what it names, and whether it is anything at all. A view may
// name any table, and a FLASHBACK CLUSTER undoes rows of all: every wanted table's rows
// wait for them. No other DDL asks for all tables.
func TestTurn(t *testing.T) {
	rules, err := filter.New(filter.Config{Rules: []string{"a.*"}})
	if err != nil {
		t.Fatal(err)
	}
	scope := filter.Scope{Rules: rules, ForceReplicate: true}
	at := func(schema, name string, id int64, kind event.Kind) *event.Table {
		return &event.Table{ID: id, Schema: schema, Name: name, Kind: kind}
	}
	one, two, out := at("a", "One", 3, event.BaseTable), at("a", "Two", 1, event.BaseTable), at("b", "One", 4, event.BaseTable)
	again := at("a", "One", 7, event.BaseTable)
	all := []*event.Table{one, out, two, at("a", "v", 2, event.View)}
	view := func(schema string) []event.TableChange {
		return []event.TableChange{{After: at(schema, "w", 9, event.View)}}
	}
	db := &event.Database{ID: 5, Name: "A"}
	for _, c := range []struct {
		ddl    event.DDL
		tables []int64
		names  []filter.Name
		asked  bool
		counts bool
	}{
		{event.DDL{Action: event.ActionCreateView, Tables: view("a")}, []int64{1, 3}, []filter.Name{{Schema: "a", Table: "w"}}, true, true},
		{event.DDL{Action: event.ActionCreateView, Tables: view("b")}, nil, nil, false, false},
		{event.DDL{Action: event.ActionFlashbackCluster}, []int64{1, 3}, nil, true, true},
		{event.DDL{Action: event.ActionAddIndex, Tables: []event.TableChange{{Before: one, After: one}}}, []int64{3}, []filter.Name{{Schema: "a", Table: "one"}}, false, true},
		{event.DDL{Action: event.ActionTruncateTable, Tables: []event.TableChange{{Before: one, After: again}}}, []int64{3}, []filter.Name{{Schema: "a", Table: "one"}}, false, true},
		{event.DDL{Action: event.ActionAddIndex, Tables: []event.TableChange{{Before: out, After: out}}}, nil, nil, false, false},
		{event.DDL{Action: event.ActionRenameTable, Tables: []event.TableChange{{Before: out, After: at("a", "Three", 4, event.BaseTable)}}}, nil,
			[]filter.Name{{Schema: "a", Table: "three"}, {Schema: "b", Table: "one"}}, false, true},
		{event.DDL{Action: event.ActionDropSchema, DatabaseBefore: db, Tables: []event.TableChange{{Before: one}, {Before: two}}}, []int64{1, 3},
			[]filter.Name{{Schema: "a"}, {Schema: "a", Table: "one"}, {Schema: "a", Table: "two"}}, false, true},
	} {
		asked := false
		turn := scope.Turn(&c.ddl, func() []*event.Table { asked = true; return all })
		if !slices.Equal(turn.Tables, c.tables) || !slices.Equal(turn.Names, c.names) || asked != c.asked || turn.Counts() != c.counts {
			t.Errorf("%v: %v wait, names %v, all asked for: %v, counts: %v; want %v, %v, %v, %v",
				c.ddl.Action, turn.Tables, turn.Names, asked, turn.Counts(), c.tables, c.names, c.asked, c.counts)
		}
	}
	into := scope.Turn(&event.DDL{Action: event.ActionRenameTable, Tables: []event.TableChange{{Before: out, After: at("a", "x", 4, event.BaseTable)}}}, nil)
	if !cdcerr.RenameIntoScope.Is(into.Err) {
		t.Errorf("got %v", into.Err)
	}
	recovered := scope.Turn(&event.DDL{Action: event.ActionRecoverTable, SwitchTS: 10, FinishedTS: 20, Tables: []event.TableChange{{After: one}}}, nil)
	if recovered.AddedAt != 20 || !slices.Equal(recovered.Added, []int64{3}) || len(recovered.Tables) > 0 {
		t.Errorf("got %+v", recovered)
	}
}
