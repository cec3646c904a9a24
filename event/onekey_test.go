package event_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/event"
)

// Rows of a table may be written in any order of their keys where only the key is unique:
// the handle is the primary key, and there is no other unique index.
func TestOneKey(t *testing.T) {
	primary := event.Index{Name: "PRIMARY", Unique: true, Primary: true}
	for name, c := range map[string]struct {
		table event.Table
		want  bool
	}{
		"an integer":               {event.Table{Handle: event.Handle{Kind: event.IntHandle}, Indexes: []event.Index{primary}}, true},
		"clustered columns":        {event.Table{Handle: event.Handle{Kind: event.CommonHandle}, Indexes: []event.Index{primary, {Name: "i"}}}, true},
		"another unique index":     {event.Table{Handle: event.Handle{Kind: event.IntHandle}, Indexes: []event.Index{primary, {Name: "u", Unique: true}}}, false},
		"a key beside the row's":   {event.Table{Handle: event.Handle{Kind: event.RowIDHandle}, Indexes: []event.Index{primary}}, false},
		"no key at all":            {event.Table{Handle: event.Handle{Kind: event.RowIDHandle}}, false},
		"a view, which has no row": {event.Table{Kind: event.View, Handle: event.Handle{Kind: event.IntHandle}}, false},
	} {
		if got := c.table.OneKey(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
