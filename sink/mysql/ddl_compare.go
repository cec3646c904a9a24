package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
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
	var only func(column string) bool // nil: the whole table counts
	switch r.ddl.Action {
	case event.ActionAddColumn, event.ActionMultiSchemaChange:
		c := r.ddl.Tables[0]
		if c.Before == nil || c.After == nil || c.After.Kind != event.BaseTable {
			return nil
		}
		n, err := tableNode(c.After)
		if err != nil {
			return err
		}
		w := rewriter{script: new(script), ddl: r.ddl, dialect: r.session.dialect, after: c.After}
		if err := w.createTable(n); err != nil {
			return err
		}
		wanted = &w.script.twins[0]
		only = func(name string) bool { return c.After.Column(name) >= 0 && c.Before.Column(name) < 0 }
	}
	if wanted == nil {
		return nil
	}
	var found []string
	err := r.again(ctx, "comparing a table with what it should be", func(ctx context.Context) (err error) {
		found, err = r.differences(ctx, wanted, only)
		return err
	})
	if err != nil || len(found) == 0 {
		return err
	}
	return cdcerr.MySQLTableDiffers.New("%s: what it makes is there already, and not the same: %s; drop or rename it downstream, or make it the same", text, strings.Join(found, "; "))
}

// differences makes the twin, compares, and drops it.
func (r *ddlRun) differences(ctx context.Context, w *twin, only func(string) bool) ([]string, error) {
	if err := r.leave.Check(); err != nil {
		return nil, err
	}
	drop := "DROP TABLE IF EXISTS " + qualified(w.of.Schema, twinOf(w.of).Name)
	for _, text := range []string{drop, w.text} {
		if err := r.session.exec(ctx, 0, text); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
	}
	want, err := r.shapeOf(ctx, twinOf(w.of))
	if err != nil {
		return nil, err
	}
	if err := r.session.exec(ctx, 0, drop); err != nil {
		return nil, fmt.Errorf("%s: %w", drop, err)
	}
	have, err := r.shapeOf(ctx, w.of)
	if err != nil {
		return nil, err
	}
	if only != nil {
		return have.columns.against(want.columns, "column", only), nil
	}
	all := func(string) bool { return true }
	out := slices.Concat(have.columns.against(want.columns, "column", all), have.indexes.against(want.indexes, "index", all), have.rest.against(want.rest, "", all))
	if replayed := r.cfg.replayed(); r.ddl.SwitchTS <= replayed || replayed == 0 {
		// It may be the changefeed's own, with its rows: from before its checkpoint was
		// set back, from one of its name, or TiCDC's, of which this one was imported.
		return out, nil
	}
	conn, err := r.session.use(ctx)
	if err != nil {
		return nil, err
	}
	first, err := cellOf(ctx, conn, "SELECT 'row' FROM "+qualified(w.of.Schema, w.of.Name)+" LIMIT 1", 1)
	if first != "" {
		out = append(out, "it holds rows, and upstream's is new")
	}
	return out, err
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
