package filter

import (
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter/expr"
)

// RowRule is what the event filters leave out of one table's rows. A nil RowRule
// leaves nothing out.
type RowRule struct {
	kinds [event.DeleteRow + 1]bool
	tests []rowTest
}

// rowTest is one event filter, as far as it looks into rows.
type rowTest struct {
	insert, before, after, gone *expr.Expr // nil where none is set
	only                        []bool     // by column: an update of no other column is left out; nil where not set
}

// Rows is what is left out of the rows of t, nil for nothing. The error says
// which expression does not fit the table.
func (f *Filter) Rows(t *event.Table) (*RowRule, error) {
	var out *RowRule
	for i := range f.events {
		e := &f.events[i]
		if !e.touchesRows() || !e.matches(t.Schema, t.Name) {
			continue
		}
		if out == nil {
			out = &RowRule{}
		}
		for k, ignored := range e.kinds.rows {
			out.kinds[k] = out.kinds[k] || ignored
		}
		if err := out.addTest(e, t, f.session); err != nil {
			return nil, cdcerr.FilterExpression.Wrap(err, "filter.event-filters[%d]", i)
		}
	}
	return out, nil
}

// LeavesUpdates tells whether an event filter may leave out updates of the table's
// rows: they then stand downstream on purpose as they were.
func (f *Filter) LeavesUpdates(t *event.Table) bool {
	for i := range f.events {
		e := &f.events[i]
		if e.matches(t.Schema, t.Name) && (e.kinds.rows[event.Update] || e.before != nil || e.after != nil || len(e.only) > 0) {
			return true
		}
	}
	return false
}

func (r *RowRule) addTest(e *eventFilter, t *event.Table, s expr.Session) error {
	var test rowTest
	found := false
	for _, x := range []struct {
		text *expr.Text
		to   **expr.Expr
	}{{e.insert, &test.insert}, {e.before, &test.before}, {e.after, &test.after}, {e.gone, &test.gone}} {
		if x.text == nil {
			continue
		}
		compiled, err := x.text.Compile(t, s)
		if err != nil {
			return err
		}
		*x.to, found = compiled, true
	}
	if len(e.only) > 0 {
		only, err := columnsOf(t, e.only)
		if err != nil {
			return err
		}
		test.only, found = only, true
	}
	if found {
		r.tests = append(r.tests, test)
	}
	return nil
}

// columnsOf marks the columns of these names, but for those of unique keys: an
// update that moves a row is never left out.
func columnsOf(t *event.Table, names []string) ([]bool, error) {
	out := make([]bool, len(t.Columns))
	for _, name := range names {
		i := t.Column(name)
		if i < 0 {
			return nil, cdcerr.FilterColumn.New("ignore-update-only-columns: table %s has no column %s", t.FullName(), name)
		}
		out[i] = true
	}
	for _, i := range t.Key {
		out[i] = false
	}
	for _, x := range t.Indexes {
		for _, p := range x.Parts {
			if x.Unique && p.Column >= 0 {
				out[p.Column] = false
			}
		}
	}
	return out, nil
}

// IgnoresKind tells whether every change of this kind is left out: then the row
// need not be decoded.
func (r *RowRule) IgnoresKind(k event.RowKind) bool { return r != nil && r.kinds[k] }

// Ignores tells whether the row is left out.
func (r *RowRule) Ignores(row *event.Row) (bool, error) {
	if r == nil {
		return false, nil
	}
	kind := row.Kind()
	if r.kinds[kind] {
		return true, nil
	}
	for i := range r.tests {
		ignored, err := r.tests[i].ignores(kind, row)
		if err != nil {
			return false, cdcerr.FilterExpression.Wrap(err, "row of %s at %d", row.Table.FullName(), row.CommitTS)
		}
		if ignored {
			return true, nil
		}
	}
	return false, nil
}

func (t *rowTest) ignores(kind event.RowKind, row *event.Row) (bool, error) {
	switch kind {
	case event.Insert:
		return holds(t.insert, row.After)
	case event.DeleteRow:
		return holds(t.gone, row.Before)
	}
	if t.only != nil && t.changesOnly(row) {
		return true, nil
	}
	// Where both sides have an expression, both must be true.
	if t.before != nil && t.after != nil {
		was, err := holds(t.before, row.Before)
		if err != nil || !was {
			return false, err
		}
		return holds(t.after, row.After)
	}
	if t.before != nil {
		return holds(t.before, row.Before)
	}
	return holds(t.after, row.After)
}

func holds(x *expr.Expr, side event.Image) (bool, error) {
	if x == nil {
		return false, nil
	}
	return x.True(side)
}

// changesOnly tells whether the update changes something, and nothing but
// columns of the list.
func (t *rowTest) changesOnly(row *event.Row) bool {
	some := false
	for i, v := range row.After {
		if v.Equal(row.Before[i]) {
			continue
		}
		if !t.only[i] {
			return false
		}
		some = true
	}
	return some
}
