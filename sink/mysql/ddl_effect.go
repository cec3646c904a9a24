package mysql

import (
	"context"
	"strings"

	"github.com/sluice-cdc/sluice/event"
)

// inEffect compares what a DDL changes with what is downstream. Only names that
// the DDL brings or takes away count: the rest may differ for reasons of its own.
func (s *Sink) inEffect(ctx context.Context, d *event.DDL) (bool, error) {
	last := map[int64]*event.Table{} // a table may be renamed twice in one job
	for _, c := range d.Tables {
		if c.After != nil {
			last[c.After.ID] = c.After
		}
	}
	for _, c := range d.Tables {
		if c.After == nil || c.After != last[c.After.ID] {
			continue
		}
		ok, err := s.shaped(ctx, c.Before, c.After)
		if !ok || err != nil {
			return false, err
		}
	}
	for _, c := range d.Tables {
		if c.Before == nil || c.After != nil && strings.EqualFold(c.Before.FullName(), c.After.FullName()) {
			continue
		}
		stays := false
		for _, t := range last {
			stays = stays || strings.EqualFold(t.FullName(), c.Before.FullName())
		}
		if stays {
			continue
		}
		columns, err := s.names(ctx, columnsOf, c.Before)
		if err != nil || len(columns) > 0 {
			return false, err
		}
	}
	return true, nil
}

// shaped tells whether a table downstream has gone from before to after.
func (s *Sink) shaped(ctx context.Context, before, after *event.Table) (bool, error) {
	dialect := s.session.dialect
	for _, what := range []namesOf{columnsOf, indexesOf, partitionsOf} {
		if what == partitionsOf && (!dialect.keepsPartitions(after) || before != nil && !dialect.keepsPartitions(before)) {
			continue
		}
		have, err := s.names(ctx, what, after)
		if err != nil {
			return false, err
		}
		if what == columnsOf && len(have) == 0 {
			return false, nil // no such table
		}
		want, gone := expected(what, after, dialect), map[string]bool{}
		if before != nil {
			gone = expected(what, before, dialect)
		}
		for name := range want {
			if !gone[name] && !have[name] {
				return false, nil
			}
		}
		for name := range gone {
			if !want[name] && have[name] {
				return false, nil
			}
		}
	}
	return true, nil
}

// namesOf is a kind of names that information_schema lists for a table.
type namesOf struct{ view, column string }

var (
	columnsOf    = namesOf{"COLUMNS", "COLUMN_NAME"}
	indexesOf    = namesOf{"STATISTICS", "INDEX_NAME"}
	partitionsOf = namesOf{"PARTITIONS", "PARTITION_NAME"}
)

func (s *Sink) names(ctx context.Context, what namesOf, t *event.Table) (map[string]bool, error) {
	conn, err := s.session.use(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := conn.QueryContext(ctx, "SELECT DISTINCT "+what.column+" FROM information_schema."+what.view+
		" WHERE TABLE_SCHEMA = "+quoted(t.Schema)+" AND TABLE_NAME = "+quoted(t.Name)+" AND "+what.column+" IS NOT NULL")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		out[strings.ToLower(name)] = true
	}
	return out, rows.Err()
}

// expected are the names that the downstream has for a table of that shape.
func expected(what namesOf, t *event.Table, d Dialect) map[string]bool {
	out := map[string]bool{}
	switch what {
	case columnsOf:
		for i := range t.Columns {
			out[strings.ToLower(t.Columns[i].Name)] = true
		}
	case indexesOf:
		for i := range t.Indexes {
			if x := &t.Indexes[i]; d.carried(x) && !(x.Primary && (!staysUnique(x, d) || d.Kind == MariaDB && onGenerated(t, x))) {
				out[strings.ToLower(x.Name)] = true
			}
		}
	case partitionsOf:
		for _, p := range t.Partitions {
			out[strings.ToLower(p.Name)] = true
		}
	}
	return out
}
