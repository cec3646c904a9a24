package strict

import (
	"reflect"
	"slices"
	"strings"
)

// Nearest is the word among known that was probably meant; empty where none is
// near: more than a third of the letters would have to change, and no one word
// goes on where this one ends (ca, ca-path).
func Nearest(word string, known []string) string {
	best, least := "", len(word)/3+1
	if least > 4 {
		least = 4 // more slips than three in one word are another word
	}
	sorted := slices.Sorted(slices.Values(known))
	for _, k := range sorted {
		if d := distance(plain(word), plain(k)); d < least {
			best, least = k, d
		}
	}
	if best != "" || word == "" {
		return best
	}
	longer := slices.DeleteFunc(sorted, func(k string) bool { return !strings.HasPrefix(plain(k), plain(word)+"_") })
	if len(longer) == 1 {
		return longer[0]
	}
	return ""
}

// plain is a word without what people mix up on purpose: case, - for _, a plural.
func plain(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "-", "_"))
}

// meant is the path that was probably meant by an unknown one: a near key of the
// same table, or the same key of another.
func meant(root reflect.Type, path []string, tag string) string {
	table, last := path[:len(path)-1], path[len(path)-1]
	if t, ok := at(root, table, tag); ok {
		have, _ := fields(t, tag)
		names := make([]string, 0, len(have))
		for name := range have {
			names = append(names, name)
		}
		if near := Nearest(last, names); near != "" {
			return strings.Join(append(table[:len(table):len(table)], near), ".")
		}
	}
	if t, ok := at(root, table, tag); ok {
		// The word for it in the other language.
		for name, p := range pairs(t, map[string]string{"toml": "json", "json": "toml"}[tag], tag) {
			if plain(name) == plain(last) {
				return strings.Join(append(table[:len(table):len(table)], p.name), ".")
			}
		}
	}
	var elsewhere []string
	for _, p := range paths(root, nil, tag) {
		if name := p[strings.LastIndexByte(p, '.')+1:]; plain(name) == plain(last) {
			elsewhere = append(elsewhere, p)
		}
	}
	if len(elsewhere) == 0 {
		return ""
	}
	slices.SortFunc(elsewhere, func(a, b string) int {
		if d := strings.Count(a, ".") - strings.Count(b, "."); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return elsewhere[0]
}

// distance counts the letters to add, drop, change or swap with their neighbor.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			change := last[j-1]
			if x[i-1] != y[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
