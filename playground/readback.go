package playground

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/verify"
)

// readBack reads databases as a recording prints them. Every table is read with
// a prepared statement: over the binary protocol a FLOAT is its 32 bits, where
// MariaDB's text has six digits. What a column is upstream says how it is
// printed; shape gives that for a table, nil for one that is not known.
func readBack(ctx context.Context, db *sql.DB, databases []string, shape func(schema, table string) *event.Table) (*verify.Contents, error) {
	c := &verify.Contents{}
	there, err := listing(ctx, db, "SELECT schema_name FROM information_schema.schemata")
	if err != nil {
		return nil, cdcerr.MySQLConnection.Wrap(err, "listing databases downstream")
	}
	for _, name := range databases {
		if !slices.Contains(there, name) {
			continue
		}
		c.Databases = append(c.Databases, name)
		tables, err := listing(ctx, db, "SELECT CONCAT(table_type, '/', table_name) FROM information_schema.tables WHERE table_schema = ? ORDER BY table_name", name)
		if err != nil {
			return nil, cdcerr.MySQLConnection.Wrap(err, "listing tables of %s downstream", name)
		}
		for _, one := range tables {
			kind, table, _ := strings.Cut(one, "/")
			t := &verify.ContentsTable{DB: name, Name: table, Type: kind}
			if kind == "BASE TABLE" {
				if err := readTable(ctx, db, t, shape(name, table)); err != nil {
					return nil, cdcerr.MySQLConnection.Wrap(err, "reading %s.%s downstream", name, table)
				}
			}
			c.Tables = append(c.Tables, t)
		}
	}
	return c, nil
}

// listing is a query's only column.
func listing(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

func readTable(ctx context.Context, db *sql.DB, t *verify.ContentsTable, shape *event.Table) (err error) {
	stmt, err := db.PrepareContext(ctx, "SELECT * FROM "+quoted(t.DB)+"."+quoted(t.Name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	rows, err := stmt.QueryContext(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	if t.Columns, err = rows.Columns(); err != nil {
		return err
	}
	columns := make([]*event.Column, len(t.Columns))
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i, c := range t.Columns {
		into[i] = &values[i]
		if shape == nil {
			continue
		}
		if at := shape.Column(c); at >= 0 {
			columns[i] = &shape.Columns[at]
		}
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		cells := make([]verify.Cell, len(values))
		for i, v := range values {
			if cells[i], err = printed(columns[i], v); err != nil {
				return fmt.Errorf("column %s: %w", t.Columns[i], err)
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return rows.Err()
}

// printed is a value from the driver in the rendering of recordings.
func printed(c *event.Column, v any) (verify.Cell, error) {
	switch v := v.(type) {
	case nil:
		return verify.Cell{}, nil
	case int64:
		if c != nil && c.Type == event.TypeYear {
			return verify.CellOf(event.IntValue(v), c), nil
		}
		return verify.Text(strconv.FormatInt(v, 10)), nil
	case uint64:
		return verify.Text(strconv.FormatUint(v, 10)), nil
	case float32:
		return printedFloat(c, float64(v)), nil
	case float64:
		return printedFloat(c, v), nil
	case []byte:
		return printedText(c, v), nil
	case string:
		return printedText(c, []byte(v)), nil
	}
	return verify.Cell{}, fmt.Errorf("the driver gives a %T", v)
}

// printedFloat: in a column with declared digits (double(15,5)) MariaDB rounds in
// steps that leave -0.00001 as -0.0000099999999999545 behind, and prints five
// digits of it; so such a column is compared by its digits.
func printedFloat(c *event.Column, v float64) verify.Cell {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if c == nil || c.ValueKind() != event.Float {
		return verify.Text(text)
	}
	if c.Decimal >= 0 {
		if rounded, err := event.ParseText(c, text); err == nil {
			return verify.CellOf(rounded, c)
		}
	}
	return verify.CellOf(event.FloatValue(v), c)
}

// printedText: every database prints JSON in its own way, and pads a ZEROFILL
// decimal; both are read and printed again. Everything else is as it comes.
func printedText(c *event.Column, v []byte) verify.Cell {
	if c == nil {
		return verify.Text(string(v))
	}
	again := c.Type == event.TypeJSON || c.Type == event.TypeNewDecimal && c.Flag&event.FlagZerofill != 0
	switch kind := c.ValueKind(); {
	case kind == event.Bit:
		return verify.Hex(v)
	case kind == event.Bytes:
		return verify.CellOf(event.BytesValue(slices.Clone(v)), c)
	case again:
		if parsed, err := event.ParseText(c, string(v)); err == nil {
			return verify.CellOf(parsed, c)
		}
	}
	return verify.Text(string(v))
}

// quoted is a name in backticks.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
