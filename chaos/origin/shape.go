package origin

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/event"
)

// shape tells where the columns' types and the indexes of a table differ downstream. A
// table or a column that is not there is told of by who compares the contents.
func shape(ctx context.Context, db *sql.DB, t *event.Table) (differences []string, failed error) {
	got, err := facts(ctx, db, "SELECT column_name, CONCAT(REGEXP_REPLACE(column_type, '^(.*int)[(][0-9]+[)]', '\\\\1'), IF(is_nullable = 'NO', ' NOT NULL', '')) "+
		"FROM information_schema.columns WHERE table_schema = ? AND table_name = ?", t.Schema, t.Name)
	if err != nil || len(got) == 0 {
		return nil, err
	}
	tell := func(name, want, got string) {
		if want != got {
			differences = append(differences, fmt.Sprintf("%s %s: want %s, got %s", t.FullName(), name, cmp.Or(want, "none"), cmp.Or(got, "none")))
		}
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		if want := typeOf(c); want != "" && got[c.Name] != "" {
			tell(c.Name, want, got[c.Name])
		}
	}
	got, err = facts(ctx, db, "SELECT index_name, CONCAT(IF(non_unique, '', 'unique '), '(', GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ','), ')') "+
		"FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? GROUP BY index_name, non_unique", t.Schema, t.Name)
	if err != nil {
		return nil, err
	}
	want := map[string]string{}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		var columns []string
		for _, part := range x.Parts {
			if part.Column >= 0 {
				columns = append(columns, t.Columns[part.Column].Name)
			}
		}
		want[x.Name] = "(" + strings.Join(columns, ",") + ")"
		if x.Unique {
			want[x.Name] = "unique " + want[x.Name]
		}
	}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	for name := range got {
		if _, both := want[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		tell("index "+name, want[name], got[name])
	}
	return differences, nil
}

// typeOf is a type of the load's as MariaDB writes it, without a display width; empty for others.
func typeOf(c *event.Column) (text string) {
	switch c.Type {
	case event.TypeLong:
		text = "int"
	case event.TypeLonglong:
		text = "bigint"
	case event.TypeVarchar:
		text = fmt.Sprintf("varchar(%d)", c.Flen)
	case event.TypeNewDecimal:
		text = fmt.Sprintf("decimal(%d,%d)", c.Flen, c.Decimal)
	case event.TypeDate:
		text = "date"
	case event.TypeDatetime:
		if text = "datetime"; c.Decimal > 0 {
			text = fmt.Sprintf("datetime(%d)", c.Decimal)
		}
	default:
		return ""
	}
	if c.Unsigned() {
		text += " unsigned"
	}
	if c.NotNull() {
		text += " NOT NULL"
	}
	return text
}

// facts are rows of two strings.
func facts(ctx context.Context, db *sql.DB, query string, args ...any) (out map[string]string, failed error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { failed = errors.Join(failed, rows.Close()) }()
	out = map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, rows.Err()
}
