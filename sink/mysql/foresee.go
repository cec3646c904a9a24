package mysql

import (
	"fmt"
	"strings"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// Foresee implements sink.Foreseer.
func (s *Sink) Foresee(d *event.DDL) []sink.Doubt {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.noted.holds(d) {
		return nil // there was an upstream to be read, or whoever did it without has noted what is not exact
	}
	return append(converted(d), unfilled(d, s.session.dialect)...)
}

// usual are downstreams of which nothing but their kind matters.
var usual = []Dialect{{Kind: MariaDB, Major: 11, Minor: 4}, {Kind: MySQL, Major: 8, Minor: 4}, {Kind: TiDB, Major: 8, Minor: 5}}

// Foresee tells what may become of a DDL where there is no upstream, whatever the downstream.
func Foresee(d *event.DDL) []sink.Doubt {
	out := converted(d)
	at := map[int64]int{}
	var kinds [][]string
	first := len(out)
	for _, dialect := range usual {
		for _, doubt := range unfilled(d, dialect) {
			i, there := at[doubt.Table.ID]
			if !there {
				i = len(kinds)
				at[doubt.Table.ID] = i
				out, kinds = append(out, doubt), append(kinds, nil)
			}
			kinds[i] = append(kinds[i], dialect.Kind.String())
		}
	}
	for i, names := range kinds {
		out[first+i].Why += " (on " + strings.Join(names, ", ") + ")"
	}
	return out
}

// converted are tables of which a DDL rewrote columns.
func converted(d *event.DDL) (out []sink.Doubt) {
	for _, c := range d.Tables {
		if c.After == nil || c.After.Kind != event.BaseTable {
			continue
		}
		var names []string
		for _, conversion := range d.Conversions {
			if conversion.TableID == c.After.ID {
				names = append(names, conversion.Name)
			}
		}
		if len(names) > 0 {
			out = append(out, sink.Doubt{Table: c.After, Why: "rows that were not written since have in " + strings.Join(names, ", ") + " what the downstream, and not TiDB, made of the old values"})
		}
	}
	return out
}

// unfilled are the tables of a DDL that can be carried out only where rows can be read upstream.
func unfilled(d *event.DDL, dialect Dialect) (out []sink.Doubt) {
	if s, err := planDDL(d, dialect, true); err != nil || len(s.fill) == 0 {
		return nil // it is refused in any case, or reads nothing
	}
	for _, c := range d.Tables {
		if c.After != nil {
			out = append(out, sink.Doubt{Table: c.After, Why: fmt.Sprintf("%s: the rows that it brings or leaves are in no log, and only the upstream can tell them", d.Action), Stops: true})
		}
	}
	return out
}
