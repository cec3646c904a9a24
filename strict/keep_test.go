package strict_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/sluice-cdc/sluice/strict"
)

// What a later release wrote stays where what is known beside it changes, and goes with
// the list or the object that it was part of.
func TestKeep(t *testing.T) {
	const (
		read = `{"memory_quota":5,"later":{"x":1},"filter":{"rules":["a"],"later":2,"event_filters":[{"matcher":["x"],"later":3}]},"sink":{"protocol":"p","later":4},"debug":{"d":{"matcher":["y"],"later":5}}}`
		was  = `{"memory_quota":5,"filter":{"rules":["a"],"event_filters":[{"matcher":["x"]}]},"sink":{"protocol":"p"},"debug":{"d":{"matcher":["y"]}}}`
	)
	for now, want := range map[string]string{
		was: read,
		`{"memory_quota":6,"filter":{"rules":["b"],"event_filters":[{"matcher":["x"]}]},"sink":{"protocol":"p"},"debug":{"d":{"matcher":["y"]}}}`: `{"memory_quota":6,"later":{"x":1},"filter":{"rules":["b"],"later":2,"event_filters":[{"matcher":["x"],"later":3}]},"sink":{"protocol":"p","later":4},"debug":{"d":{"matcher":["y"],"later":5}}}`,
		`{"memory_quota":5,"filter":{"rules":["a"],"event_filters":[{"matcher":["z"]}]},"debug":{"d":{"matcher":["z"]}}}`:                         `{"memory_quota":5,"later":{"x":1},"filter":{"rules":["a"],"later":2,"event_filters":[{"matcher":["z"]}]},"debug":{"d":{"matcher":["z"]}}}`,
	} {
		if got := strict.Keep(treeOf(t, now), treeOf(t, was), treeOf(t, read), reflect.TypeFor[file](), "json"); !reflect.DeepEqual(got, treeOf(t, want)) {
			t.Errorf("%s:\n got %v\nwant %s", now, got, want)
		}
	}
}

func treeOf(t *testing.T, text string) (out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
