package strict

import "reflect"

// Rename gives the keys of a tree, read from a text by one tag of t, the names
// that another tag has for them. What t does not have keeps its name.
func Rename(tree any, t reflect.Type, from, to string) any {
	if list, ok := tree.([]any); ok {
		elem, _ := within(t)
		out := make([]any, len(list))
		for i, v := range list {
			out[i] = Rename(v, elem, from, to)
		}
		return out
	}
	node, ok := tree.(map[string]any)
	if !ok {
		return tree
	}
	out := make(map[string]any, len(node))
	if elem, ok := within(t); ok {
		for name, v := range node {
			out[name] = Rename(v, elem, from, to)
		}
		return out
	}
	names := pairs(t, from, to)
	for name, v := range node {
		if p, ok := names[name]; ok {
			out[p.name] = Rename(v, p.inner, from, to)
		} else {
			out[name] = v
		}
	}
	return out
}

// pair is a field by its other name.
type pair struct {
	name  string
	inner reflect.Type
}

func pairs(t reflect.Type, from, to string) map[string]pair {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	out := map[string]pair{}
	if t.Kind() != reflect.Struct {
		return out
	}
	for f := range t.Fields() {
		a, b := tagged(f, from), tagged(f, to)
		if f.Anonymous && a == "" {
			for name, p := range pairs(f.Type, from, to) {
				out[name] = p
			}
			continue
		}
		if a != "-" && b != "-" && f.IsExported() {
			out[a] = pair{b, f.Type}
		}
	}
	return out
}
