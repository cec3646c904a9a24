package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/event"
)

// Why says in words which rule decides about the table, for a person.
func (f *Filter) Why(schema, table string) string {
	if IsSystem(schema) {
		return fmt.Sprintf("%s is a system schema, which no rule takes", schema)
	}
	for _, r := range slices.Backward(f.rules) {
		if !r.schema.match(schema) || !r.table.match(table) {
			continue
		}
		if r.exclude {
			return fmt.Sprintf("rule %q leaves it out", r.text)
		}
		return fmt.Sprintf("rule %q takes it", r.text)
	}
	return "no rule matches it"
}

// EventFilters are the event filters that are about the table, by their place in
// the configuration.
func (f *Filter) EventFilters(schema, table string) []int {
	var out []int
	for i := range f.events {
		if f.events[i].matches(schema, table) {
			out = append(out, i)
		}
	}
	return out
}

// Ignores is the event filter that leaves a DDL on the table out, -1 for none: by
// its kind, and by its text.
func (f *Filter) Ignores(a event.Action, schema, table, text string) int {
	return f.ignoresDDL(a, schema, table, text)
}

// WhyKeyless says why none of the table's indexes can name its rows.
func WhyKeyless(t *event.Table) string {
	var why []string
	for _, x := range t.Indexes {
		if !x.Unique {
			continue
		}
		if w := unusable(t, x); w != "" {
			why = append(why, fmt.Sprintf("unique key %s %s", x.Name, w))
		}
	}
	if len(why) == 0 {
		return "it has no primary key and no unique key"
	}
	return strings.Join(why, "; ")
}

func unusable(t *event.Table, x event.Index) string {
	switch {
	case x.Invisible:
		return "is invisible"
	case x.Condition != "":
		return "is partial"
	}
	for _, p := range x.Parts {
		switch {
		case p.Column < 0:
			return "is over an expression"
		case p.Length != event.FullLength:
			return fmt.Sprintf("is over a prefix of %s", t.Columns[p.Column].Name)
		case t.Columns[p.Column].Generated == event.Virtual:
			return fmt.Sprintf("has the virtual generated column %s", t.Columns[p.Column].Name)
		case !t.Columns[p.Column].NotNull():
			return fmt.Sprintf("may be NULL in %s", t.Columns[p.Column].Name)
		}
	}
	return ""
}
