package strict

import (
	"maps"
	"reflect"
)

// Keep gives what is about to be written the keys that t does not have and that stood in
// the text it was read from: a later release has written them. now and was are what is
// written, and what would have been written when read was read, all three as trees. A list
// or a map that is another one since is taken as it is: which of its elements is which is
// not known.
func Keep(now, was, read any, t reflect.Type, tag string) any {
	if reflect.DeepEqual(now, was) {
		return read
	}
	into, ok := now.(map[string]any)
	from, same := read.(map[string]any)
	have, keyed := fields(t, tag)
	if !ok || !same || !keyed {
		return now
	}
	before, _ := was.(map[string]any)
	out := maps.Clone(into)
	for name, v := range from {
		inner, known := have[name]
		if _, stays := into[name]; known && stays {
			out[name] = Keep(into[name], before[name], v, inner, tag)
		} else if !known {
			out[name] = v
		}
	}
	return out
}
