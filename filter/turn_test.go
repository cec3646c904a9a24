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
		{event.DDL{Action: event.ActionCreateTable, Query: "create table a.x (b int references One (b))", Tables: []event.TableChange{{After: at("a", "x", 8, event.BaseTable)}}}, nil,
			[]filter.Name{{}, {Schema: "a", Table: "x"}}, false, true},
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

// Placement knows a table with one unique index over all partitions by the table's id,
// other tables by those of their rows.
func TestTurnOfUnits(t *testing.T) {
	at := func(id int64, global bool, parts ...int64) *event.Table {
		x := table(id, "in.p", parts...)
		x.Indexes = []event.Index{{Unique: true, Parts: []event.IndexPart{{Column: 0, Length: event.FullLength}}, Global: global}}
		return x
	}
	plain, moved := table(1, "in.a"), table(11, "in.a")
	for _, c := range []struct {
		what                   string
		action                 event.Action
		tables                 []event.TableChange
		waits, added, removed  []int64
		addedRows, removedRows []int64 // as a whole changefeed has it
	}{
		{"create", event.ActionCreateTable, []event.TableChange{change(nil, at(9, true, 10, 11))}, nil, []int64{9}, nil, []int64{10, 11}, nil},
		{"recover", event.ActionRecoverTable, []event.TableChange{change(nil, at(9, true, 10, 11))}, nil, []int64{9}, nil, []int64{10, 11}, nil},
		{"drop", event.ActionDropTable, []event.TableChange{change(at(9, true, 10, 11), nil)}, []int64{9}, nil, []int64{9}, nil, []int64{10, 11}},
		{"truncate", event.ActionTruncateTable, []event.TableChange{change(at(9, true, 10, 11), at(12, true, 13, 14))},
			[]int64{9}, []int64{12}, []int64{9}, []int64{13, 14}, []int64{10, 11}},
		{"add column", event.ActionAddColumn, []event.TableChange{change(at(9, true, 10, 11), at(9, true, 10, 11))}, []int64{9}, nil, nil, nil, nil},
		{"add partition", event.ActionAddPartition, []event.TableChange{change(at(9, true, 10), at(9, true, 10, 11))}, []int64{9}, nil, nil, []int64{11}, nil},
		{"drop partition", event.ActionDropPartition, []event.TableChange{change(at(9, true, 10, 11), at(9, true, 10))}, []int64{9}, nil, nil, nil, []int64{11}},
		{"truncate partition", event.ActionTruncatePartition, []event.TableChange{change(at(9, true, 10, 11), at(9, true, 10, 12))},
			[]int64{9}, nil, nil, []int64{12}, []int64{11}},
		{"exchange partition", event.ActionExchangePartition, []event.TableChange{change(at(9, true, 10, 11), at(9, true, 10, 1)), change(plain, moved)},
			[]int64{1, 9}, []int64{11}, []int64{1}, nil, nil},
		{"add a global index", event.ActionAddIndex, []event.TableChange{change(at(9, false, 10, 11), at(9, true, 10, 11))},
			[]int64{10, 11}, []int64{9}, []int64{10, 11}, nil, nil},
		{"drop a global index", event.ActionDropIndex, []event.TableChange{change(at(9, true, 10, 11), at(9, false, 10, 11))},
			[]int64{9}, []int64{10, 11}, []int64{9}, nil, nil},
		{"partition by", event.ActionAlterPartitioning, []event.TableChange{change(plain, at(9, true, 10, 11))},
			[]int64{1}, []int64{9}, []int64{1}, []int64{10, 11}, []int64{1}},
		{"no partitions any more", event.ActionRemovePartitioning, []event.TableChange{change(at(9, true, 10, 11), plain)},
			[]int64{9}, []int64{1}, []int64{9}, []int64{1}, []int64{10, 11}},
		{"a rename out of the rules", event.ActionRenameTable, []event.TableChange{change(at(9, true, 10, 11), table(9, "out.p", 10, 11))},
			[]int64{9}, nil, []int64{9}, nil, []int64{10, 11}},
	} {
		s := scope(t, "in.*")
		d := &event.DDL{JobID: 7, Action: c.action, SwitchTS: 100, FinishedTS: 110, Tables: c.tables, Query: "q"}
		turn := s.Turn(d, nil)
		rows, err := s.DDL(d)
		if turn.Err != nil || err != nil {
			t.Fatal(c.what, turn.Err, err)
		}
		if !slices.Equal(turn.Tables, c.waits) || !slices.Equal(turn.Added, c.added) || !slices.Equal(turn.Removed, c.removed) || turn.Send == nil {
			t.Errorf("%s: %v wait, %v are added, %v removed; want %v, %v, %v", c.what, turn.Tables, turn.Added, turn.Removed, c.waits, c.added, c.removed)
		}
		if !slices.Equal(rows.Added, c.addedRows) || !slices.Equal(rows.Removed, c.removedRows) {
			t.Errorf("%s: rows of %v are added, of %v removed; want %v, %v", c.what, rows.Added, rows.Removed, c.addedRows, c.removedRows)
		}
	}
}
