package pipeline_test

import (
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
)

// A view may name any table, and a FLASHBACK CLUSTER undoes rows of all: every table's
// rows wait for them, of those that are wanted. No other DDL asks for all tables.
func TestWhatEveryTableWaitsFor(t *testing.T) {
	rules, err := filter.New(filter.Config{Rules: []string{"a.*"}})
	if err != nil {
		t.Fatal(err)
	}
	scope := filter.Scope{Rules: rules, ForceReplicate: true}
	at := func(schema string, id int64, kind event.Kind) *event.Table {
		return &event.Table{ID: id, Schema: schema, Name: "t", Kind: kind}
	}
	all := []*event.Table{at("a", 3, event.BaseTable), at("b", 4, event.BaseTable), at("a", 1, event.BaseTable), at("a", 2, event.View)}
	view := func(schema string) []event.TableChange {
		return []event.TableChange{{After: at(schema, 9, event.View)}}
	}
	for _, c := range []struct {
		ddl   event.DDL
		want  []int64
		asked bool
	}{
		{event.DDL{Action: event.ActionCreateView, Tables: view("a")}, []int64{1, 3}, true},
		{event.DDL{Action: event.ActionCreateView, Tables: view("b")}, nil, false}, // nothing of it is wanted
		{event.DDL{Action: event.ActionFlashbackCluster}, []int64{1, 3}, true},
		{event.DDL{Action: event.ActionAddIndex, Tables: []event.TableChange{{Before: all[0], After: all[0]}}}, []int64{3}, false},
	} {
		asked := false
		e := pipeline.EffectOf(&c.ddl, scope, func() []*event.Table { asked = true; return all })
		if !slices.Equal(e.Tables, c.want) || asked != c.asked {
			t.Errorf("%v: %v wait, all asked for: %v; want %v, %v", c.ddl.Action, e.Tables, asked, c.want, c.asked)
		}
	}
}
