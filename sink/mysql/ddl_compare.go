package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// A twin is a table as a CREATE TABLE would have made it, were its name free.
type twin struct {
	of   *event.Table
	main string // the statement whose twin this is
	text string
	// was makes the table as it was before a DDL that changes it: only what the two
	// differ in counts. Empty: all counts.
	was string
	// added are columns that the DDL adds.
	added []*event.Column
}

// twinOf is the table under a name that nobody else has.
func twinOf(t *event.Table) *event.Table {
	c := *t
	c.Name = fmt.Sprintf("_sluice_twin_%d", t.ID)
	return &c
}

// twin is that of a statement, nil for one that makes no table.
func (s *script) twin(text string) *twin {
	for i := range s.twins {
		if s.twins[i].main == text {
			return &s.twins[i]
		}
	}
	return nil
}

// sameAsWanted compares what a statement found in its place with what it would have
// made: names alone do not tell whether rows fit. The server itself prints both, so
// whatever it calls a type it calls it in both.
func (r *ddlRun) sameAsWanted(ctx context.Context, text string) error {
	wanted := r.script.twin(text)
	if wanted == nil {
		var err error
		if wanted, err = r.changes(); wanted == nil || err != nil {
			return err
		}
	}
	var found []string
	err := r.again(ctx, "comparing a table with what it should be", func(ctx context.Context) (err error) {
		if found, err = r.differences(ctx, wanted); err != nil || !r.isNew() {
			return err
		}
		more, err := r.filling(ctx, wanted)
		found = append(found, more...)
		return err
	})
	if err != nil || len(found) == 0 {
		return err
	}
	return cdcerr.MySQLTableDiffers.New("%s: what it makes is there already, and not the same: %s; drop or rename it downstream, or make it the same", text, strings.Join(found, "; "))
}

// changes is the twin of a table whose columns or indexes a DDL changes, nil where it
// does not.
func (r *ddlRun) changes() (*twin, error) {
	if len(r.ddl.Tables) != 1 {
		return nil, nil
	}
	c := r.ddl.Tables[0]
	if c.Before == nil || c.After == nil || c.After.Kind != event.BaseTable || c.Before.ID != c.After.ID || c.Before.FullName() != c.After.FullName() {
		return nil, nil
	}
	if reflect.DeepEqual(c.Before.Columns, c.After.Columns) && reflect.DeepEqual(c.Before.Indexes, c.After.Indexes) {
		return nil, nil
	}
	texts := make([]string, 0, 2)
	for _, t := range []*event.Table{c.Before, c.After} {
		n, err := tableNode(t)
		if err != nil {
			return nil, err
		}
		w := rewriter{script: new(script), ddl: r.ddl, dialect: r.session.dialect, after: t}
		if err := w.createTable(n); err != nil {
			return nil, err
		}
		texts = append(texts, w.script.twins[0].text)
	}
	out := &twin{of: c.After, was: texts[0], text: texts[1]}
	for i := range c.After.Columns {
		if x := &c.After.Columns[i]; c.Before.Column(x.Name) < 0 {
			out.added = append(out.added, x)
		}
	}
	return out, nil
}

// isNew tells whether what the DDL makes cannot be the changefeed's own: from before its
// checkpoint was set back, from one of its name, or TiCDC's, of which this one was
// imported. What this life of it has made stands on record, whichever run made it.
func (r *ddlRun) isNew() bool {
	since := r.since()
	return since != 0 && r.ddl.SwitchTS > since
}

// filling says which rows hold what upstream's do not: all those of a table that is
// new, and of one to which columns are added those that are not filled as upstream
// filled them.
func (r *ddlRun) filling(ctx context.Context, w *twin) (out []string, err error) {
	conn, err := r.session.use(ctx)
	if err != nil {
		return nil, err
	}
	rows := "SELECT 'row' FROM " + qualified(w.of.Schema, w.of.Name)
	if w.was == "" {
		first, err := cellOf(ctx, conn, rows+" LIMIT 1", 1)
		if first != "" {
			out = append(out, "it holds rows, and upstream's is new")
		}
		return out, err
	}
	for _, c := range w.added {
		if r.cfg.BDR || c.Generated != event.NotGenerated || c.Flag&event.FlagAutoIncrement != 0 || c.Absent.IsMissing() {
			continue // the other side may have written its own, or each row has another
		}
		match, err := appendMatch(nil, c.Absent, w.of, c, r.session.dialect)
		if err != nil {
			return nil, err
		}
		first, err := cellOf(ctx, conn, rows+" WHERE NOT ("+string(match)+") LIMIT 1", 1)
		if err != nil {
			return nil, err
		}
		if first != "" {
			out = append(out, "column "+c.Name+" has other values than those that upstream gave the rows that were there")
		}
	}
	return out, nil
}

// differences makes the twins, compares, and drops them.
func (r *ddlRun) differences(ctx context.Context, w *twin) ([]string, error) {
	want, err := r.twinShape(ctx, w, w.text)
	if err != nil {
		return nil, err
	}
	have, err := r.shapeOf(ctx, w.of)
	if err != nil {
		return nil, err
	}
	if w.was == "" {
		all := func(string) bool { return true }
		return slices.Concat(have.columns.against(want.columns, "column", all), have.indexes.against(want.indexes, "index", all), have.rest.against(want.rest, "", all)), nil
	}
	was, err := r.twinShape(ctx, w, w.was)
	if err != nil {
		return nil, err
	}
	return slices.Concat(have.columns.against(want.columns, "column", was.columns.otherwise(want.columns)),
		have.indexes.against(want.indexes, "index", was.indexes.otherwise(want.indexes))), nil
}

// twinShape makes a twin, asks how it is made, and drops it.
func (r *ddlRun) twinShape(ctx context.Context, w *twin, text string) (out shape, err error) {
	if err := r.leave.Check(); err != nil {
		return out, err
	}
	drop := "DROP TABLE IF EXISTS " + qualified(w.of.Schema, twinOf(w.of).Name)
	for _, text := range []string{drop, text} {
		if err := r.session.exec(ctx, 0, text); err != nil {
			return out, fmt.Errorf("%s: %w", text, err)
		}
	}
	if out, err = r.shapeOf(ctx, twinOf(w.of)); err != nil {
		return out, err
	}
	if err := r.session.exec(ctx, 0, drop); err != nil {
		return out, fmt.Errorf("%s: %w", drop, err)
	}
	return out, nil
}

// otherwise tells of which names d and want say something else.
func (d described) otherwise(want described) func(string) bool {
	return func(name string) bool {
		was, wasThere := d[name]
		is, isThere := want[name]
		return wasThere != isThere || was != is
	}
}

// described are parts of a table by name.
type described map[string]string

// against says where a table's parts are not those that are wanted.
func (d described) against(want described, what string, only func(string) bool) (out []string) {
	names := maps.Clone(want)
	maps.Copy(names, d)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		have, isThere := d[name]
		wanted, isWanted := want[name]
		label := strings.TrimSpace(what + " " + name)
		switch {
		case !only(name) || have == wanted && isThere == isWanted:
		case !isThere:
			out = append(out, label+" ("+wanted+") is missing")
		case !isWanted:
			out = append(out, label+" ("+have+") is not upstream's")
		default:
			out = append(out, label+" is "+have+", want "+wanted)
		}
	}
	return out
}

// shape is what of a table decides which rows it can hold.
type shape struct{ columns, indexes, rest described }

// shapeOf asks the server how a table is made.
func (s *Sink) shapeOf(ctx context.Context, t *event.Table) (out shape, err error) {
	conn, err := s.session.use(ctx)
	if err != nil {
		return out, err
	}
	where := " WHERE TABLE_SCHEMA = " + quoted(t.Schema) + " AND TABLE_NAME = " + quoted(t.Name)
	ask := func(columns, view, more string) (d described) {
		if err == nil {
			d, err = describe(ctx, conn, "SELECT "+columns+" FROM information_schema."+view+where+more)
		}
		return d
	}
	out.columns = ask("LOWER(COLUMN_NAME), CONCAT_WS(' ', COLUMN_TYPE, COLLATION_NAME, IF(IS_NULLABLE = 'NO', 'NOT NULL', NULL), "+
		"IF(EXTRA LIKE '%GENERATED%', CONCAT('generated as ', GENERATION_EXPRESSION), NULL))", "COLUMNS", "")
	out.indexes = ask("LOWER(INDEX_NAME), CONCAT(IF(MAX(NON_UNIQUE) = 0, 'unique ', ''), 'of ', "+
		"GROUP_CONCAT(CONCAT(COALESCE(COLUMN_NAME, 'an expression'), COALESCE(CONCAT('(', SUB_PART, ')'), '')) ORDER BY SEQ_IN_INDEX SEPARATOR ', '))", "STATISTICS", " GROUP BY INDEX_NAME")
	out.rest = ask("'the kind of table', TABLE_TYPE", "TABLES", "")
	parts := ask("CONCAT('partition ', LOWER(PARTITION_NAME)), CONCAT_WS(' ', 'by', PARTITION_METHOD, PARTITION_EXPRESSION, PARTITION_DESCRIPTION)", "PARTITIONS", " AND PARTITION_NAME IS NOT NULL")
	if err == nil {
		maps.Copy(out.rest, parts)
	}
	return out, err
}

// describe reads pairs of names and descriptions.
func describe(ctx context.Context, conn *sql.Conn, query string) (described, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	out := described{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, err
		}
		out[name] = text
	}
	return out, rows.Err()
}
