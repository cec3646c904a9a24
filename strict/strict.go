package strict

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Unknown is a key that no field has.
type Unknown struct {
	Path    string // with the tables round it: "sink.protocl"
	Line    int    // in the text, from 1; 0 where it is not known
	Nearest string // the path that was probably meant; empty where none is near
}

// Error is every unknown key of one text.
type Error struct{ Keys []Unknown }

// Error names each key on its own.
func (e *Error) Error() string {
	var parts []string
	for _, k := range e.Keys {
		s := fmt.Sprintf("unknown key %q", k.Path)
		if k.Line > 0 {
			s += fmt.Sprintf(" in line %d", k.Line)
		}
		if k.Nearest != "" {
			s += fmt.Sprintf(", did you mean %q?", k.Nearest)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

// keys are the fields of one struct by their name in a text.
type keys map[string]reflect.Type

// fields lists what a struct reads under a tag ("toml", "json"), the fields of
// embedded structs included. ok is false for types that have no keys to hold a
// text to: all that is no struct, and what reads itself.
func fields(t reflect.Type, tag string) (keys, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || readsItself(t, tag) {
		return nil, false
	}
	out := keys{}
	for f := range t.Fields() {
		name := tagged(f, tag)
		if f.Anonymous && name == "" {
			inner, ok := fields(f.Type, tag)
			for k, v := range inner {
				out[k] = v
			}
			if ok {
				continue
			}
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		out[name] = f.Type
	}
	return out, true
}

// tagged is what a field is called in a text: empty for an embedded struct, "-"
// for none.
func tagged(f reflect.StructField, tag string) string {
	name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
	if name == "" && !f.Anonymous {
		name = f.Name
	}
	return name
}

func readsItself(t reflect.Type, tag string) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) ||
		tag == "json" && p.Implements(reflect.TypeFor[json.Unmarshaler]())
}

// within is the type of a list's or map's elements, and whether t is one.
func within(t reflect.Type) (reflect.Type, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return t.Elem(), true
	}
	return t, false
}

// at is the struct that a path leads to, through lists as if they were not there.
func at(t reflect.Type, path []string, tag string) (reflect.Type, bool) {
	for {
		elem, ok := within(t)
		if !ok {
			break
		}
		t = elem
	}
	if len(path) == 0 {
		return t, true
	}
	have, _ := fields(t, tag)
	next, ok := have[path[0]]
	if !ok {
		return nil, false
	}
	return at(next, path[1:], tag)
}

// paths lists every key below t with the tables round it.
func paths(t reflect.Type, prefix []string, tag string) []string {
	for {
		elem, ok := within(t)
		if !ok {
			break
		}
		t = elem
	}
	var out []string
	have, _ := fields(t, tag)
	for name, inner := range have {
		path := append(prefix[:len(prefix):len(prefix)], name)
		out = append(out, strings.Join(path, "."))
		out = append(out, paths(inner, path, tag)...)
	}
	return out
}
