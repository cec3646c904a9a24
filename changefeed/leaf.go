package changefeed

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// leaf is one key of a configuration with its value.
type leaf struct {
	path  string // as Key.Path
	place string // with the number of each element of a list
	value any    // what a pointer points at; nil where nothing was said
	field reflect.Value
}

// leaves are the keys of a configuration in the order of its fields. A list of
// tables gives the keys of each element, and without elements none.
func leaves(c *Config) []leaf {
	var out []leaf
	gather(reflect.ValueOf(c).Elem(), "", "", func(l leaf) { out = append(out, l) })
	return out
}

func gather(v reflect.Value, path, place string, visit func(leaf)) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("toml"), ",")
		if name == "-" {
			continue
		}
		below, where := join(path, name), join(place, name)
		f := v.Field(i)
		if f.Kind() == reflect.Pointer {
			if f.IsNil() {
				if !isTable(f.Type().Elem()) {
					visit(leaf{path: below, place: where, field: f})
				}
				continue
			}
			f = f.Elem()
		}
		switch {
		case isTable(f.Type()):
			gather(f, below, where, visit)
		case f.Kind() == reflect.Slice && isTable(f.Type().Elem()):
			for i := range f.Len() {
				gather(f.Index(i), below+"[]", fmt.Sprintf("%s[%d]", where, i), visit)
			}
		default:
			visit(leaf{path: below, place: where, value: f.Interface(), field: f})
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// isTable tells whether a type has keys of its own.
func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// defaults are the values of the keys that a changefeed has of which nothing is said.
func defaults() map[string]any {
	c := Default()
	out := map[string]any{}
	for _, l := range leaves(&c) {
		out[l.path] = l.value
	}
	return out
}

// unsaid tells whether the value is what it would be if nothing had been said.
func (l *leaf) unsaid(initial map[string]any) bool {
	if l.value == nil || reflect.DeepEqual(l.value, initial[l.path]) {
		return true
	}
	v := reflect.ValueOf(l.value)
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

// keysByPath finds a key.
func keysByPath() map[string]*Key {
	all := Keys()
	out := make(map[string]*Key, len(all))
	for i := range all {
		out[all[i].Path] = &all[i]
	}
	return out
}

// tree is a value as encoding/json would write it, but with secrets in clear: what
// is kept in etcd. Secrets mask themselves from everything else.
func tree(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return tree(v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		out := make([]any, v.Len())
		for i := range out {
			out[i] = tree(v.Index(i))
		}
		return out
	case reflect.Struct:
		if !isTable(v.Type()) {
			return v.Interface()
		}
		out := map[string]any{}
		for i := range v.NumField() {
			name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			f := v.Field(i)
			if name == "-" || !v.Type().Field(i).IsExported() || strings.Contains(option, "omitempty") && emptyJSON(f) || strings.Contains(option, "omitzero") && f.IsZero() {
				continue
			}
			out[name] = tree(f)
		}
		return out
	}
	switch x := v.Interface().(type) {
	case Secret:
		return x.Reveal()
	case URI:
		return x.Reveal()
	default:
		return x
	}
}

// emptyJSON is what omitempty leaves out.
func emptyJSON(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// keepMasked puts the old secret where a new one is the old one masked: who reads
// a configuration, changes a key and sends it back has not changed the secrets.
// It gives the place of a mask for which there is no old secret.
func keepMasked(now, was reflect.Value, place string) string {
	switch now.Kind() {
	case reflect.Pointer:
		if now.IsNil() {
			return ""
		}
		if was.Kind() == reflect.Pointer && !was.IsNil() {
			return keepMasked(now.Elem(), was.Elem(), place)
		}
		return keepMasked(now.Elem(), reflect.Value{}, place)
	case reflect.Struct:
		for i := range now.NumField() {
			name, _, _ := strings.Cut(now.Type().Field(i).Tag.Get("toml"), ",")
			old := reflect.Value{}
			if was.IsValid() {
				old = was.Field(i)
			}
			if lost := keepMasked(now.Field(i), old, join(place, name)); lost != "" && name != "-" {
				return lost
			}
		}
		return ""
	}
	switch now.Type() {
	case reflect.TypeFor[Secret](), reflect.TypeFor[URI]():
		if !strings.Contains(now.String(), masked) {
			return ""
		}
		if was.IsValid() && shown(was) == now.String() {
			now.SetString(was.String())
			return ""
		}
		return place
	}
	return ""
}

// shown is how a secret is printed.
func shown(v reflect.Value) string {
	return v.Interface().(fmt.Stringer).String() //nolint:forcetypeassert // both types are ones
}
