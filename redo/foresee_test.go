package redo_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/redotest"
	"github.com/sluice-cdc/sluice/sink"
)

// seer is a sink that cannot do everything without an upstream.
type seer struct{ notes }

func (s *seer) Foresee(d *event.DDL) []sink.Doubt {
	if slices.ContainsFunc(s.ddls, func(o *event.DDL) bool { return o.JobID == d.JobID }) {
		return nil // it is done
	}
	switch d.Action {
	case event.ActionRecoverTable:
		return []sink.Doubt{{Table: d.Tables[0].After, Why: "its rows are upstream", Stops: true}}
	case event.ActionModifyColumn:
		return []sink.Doubt{{Table: d.Tables[0].After, Why: "b is converted"}}
	}
	return nil
}

// The DDLs are looked through before anything is applied: one that cannot be carried out
// stops all until its table is left out, and a table that is not exact is told, under the
// name that it has at the end, and no sync point is noted.
func TestForeseen(t *testing.T) {
	named := func(id int64, name string) *event.Table { return &event.Table{ID: id, Schema: "d", Name: name} }
	change := func(before, after *event.Table) []event.TableChange {
		return []event.TableChange{{Before: before, After: after}}
	}
	rec := &redotest.Recording{Start: 100, End: 200, DDLs: []*event.DDL{
		{JobID: 1, SwitchTS: 110, Action: event.ActionModifyColumn, Query: "1", Tables: change(named(1, "a"), named(1, "a"))},
		{JobID: 2, SwitchTS: 120, Action: event.ActionRenameTable, Query: "2", Tables: change(named(1, "a"), named(1, "b"))},
		{JobID: 3, SwitchTS: 130, Action: event.ActionModifyColumn, Query: "3", Tables: change(named(2, "c"), named(2, "c"))},
		{JobID: 4, SwitchTS: 140, Action: event.ActionTruncateTable, Query: "4", Tables: change(named(2, "c"), named(3, "c"))},
		{JobID: 5, SwitchTS: 150, Action: event.ActionRecoverTable, Query: "5", Tables: change(nil, named(5, "e"))},
	}}
	b := objstore.NewMemory()
	inv := write(t, b, testConfig(), rec, 1)
	got := &seer{}
	_, err := redo.Apply(t.Context(), b, inv, redo.DefaultApply(inv), got, sink.Endless)
	if !cdcerr.RedoNeedsUpstream.Is(err) || !strings.Contains(err.Error(), "d.e, by DDL job 5 at 150") || !strings.Contains(err.Error(), "--filter '!d.e'") || len(got.ddls) > 0 {
		t.Fatalf("%d DDLs, %v", len(got.ddls), err)
	}
	how := redo.DefaultApply(inv)
	how.Part = redo.Part{
		Rows: func(t *event.Table) bool { return t.Name != "e" },
		DDL: func(d *event.DDL) (*event.DDL, error) {
			if d.JobID == 5 {
				return nil, nil
			}
			return d, nil
		},
	}
	done, err := redo.Apply(t.Context(), b, inv, how, got, sink.Endless)
	must(t, err)
	var told []string
	for _, d := range done.Doubts {
		told = append(told, d.String())
	}
	if !slices.Equal(told, []string{"d.b, by DDL job 1 at 110: b is converted"}) || len(got.ddls) != 4 || got.noted != 0 {
		t.Errorf("%q; %d DDLs, noted %d", told, len(got.ddls), got.noted)
	}
}
