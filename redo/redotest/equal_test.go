package redotest_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/redo/redotest"
)

func TestEqual(t *testing.T) {
	x, y := "x", "x"
	other := "y"
	col := func(def *string, absent event.Value, elems ...string) *event.Table {
		return &event.Table{ID: 1, Columns: []event.Column{{ID: 2, Default: def, Absent: absent, Elems: elems}}}
	}
	same := col(&x, event.BytesValue(nil))
	for name, tt := range map[string]struct {
		a, b any
		want bool
	}{
		"no bytes and none":     {same, col(&y, event.BytesValue([]byte{}), []string{}...), true},
		"another text":          {same, col(&other, event.BytesValue(nil)), false},
		"a text and none":       {same, col(nil, event.BytesValue(nil)), false},
		"another value":         {same, col(&x, event.BytesValue([]byte("z"))), false},
		"another kind of value": {same, col(&x, event.NullValue()), false},
		"more members":          {same, col(&x, event.BytesValue(nil), "e"), false},
		"other types":           {1, "1", false},
		"nothing":               {nil, nil, true},
		"something and nothing": {1, nil, false},
	} {
		if got := redotest.Equal(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
