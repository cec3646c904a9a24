package event_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/event"
)

// Every kind has a name of its own, and what is no kind says its number.
func TestActionNames(t *testing.T) {
	seen := map[string]event.Action{}
	for a := event.ActionNone; a <= event.ActionSchemaSoftDelete+1; a++ {
		name := a.String()
		if before, twice := seen[name]; twice || name == "" {
			t.Errorf("%d and %d are both %q", before, a, name)
		}
		seen[name] = a
	}
	for a, want := range map[event.Action]string{
		event.ActionCreateSchema: "create schema", event.ActionExchangePartition: "exchange partition", event.ActionRecoverSchema: "recover schema",
		-1: "action -1", 0: "action 0", 66: "action 66", 81: "action 81",
	} {
		if a.String() != want {
			t.Errorf("%d: %q, want %q", int(a), a, want)
		}
	}
	if event.ActionSchemaSoftDelete != 80 || event.ActionExchangePartition != 42 {
		t.Error("the numbers have moved")
	}
}
