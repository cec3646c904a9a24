package binlog

import (
	"fmt"
	"slices"
	"strings"
)

// Fold is what a server holds after a part of its log: rows by table and key.
type Fold struct {
	// Wanted says which tables are folded; nil: all.
	Wanted func(schema, table string) bool

	tables map[string]map[string]map[string]any // by schema.table, key, column
}

// Apply takes one transaction in. It is an error where a row that is there comes
// in anew, or one that is not is changed: then the fold is not what stands
// downstream. A DDL passes: fold tables that have none.
func (f *Fold) Apply(t Txn) error {
	for _, c := range t.Changes {
		if f.Wanted != nil && !f.Wanted(c.Schema, c.Table) {
			continue
		}
		if err := f.change(c); err != nil {
			return fmt.Errorf("transaction %s: %s.%s: %w", t.GTID, c.Schema, c.Table, err)
		}
	}
	return nil
}

func (f *Fold) change(c Change) error {
	if len(c.Key) == 0 {
		return fmt.Errorf("no primary key")
	}
	name := c.Schema + "." + c.Table
	if f.tables == nil {
		f.tables = map[string]map[string]map[string]any{}
	}
	rows := f.tables[name]
	if rows == nil {
		rows = map[string]map[string]any{}
		f.tables[name] = rows
	}
	if c.Before != nil {
		key := keyOf(c, c.Before)
		if rows[key] == nil {
			return fmt.Errorf("the row %s is changed and is not there", key)
		}
		delete(rows, key)
	}
	if c.After != nil {
		key := keyOf(c, c.After)
		if rows[key] != nil {
			return fmt.Errorf("the row %s comes and is there already", key)
		}
		row := map[string]any{}
		for i, column := range c.Columns {
			row[column] = c.After[i]
		}
		rows[key] = row
	}
	return nil
}

func keyOf(c Change, row []any) string {
	var parts []string
	for _, i := range c.Key {
		parts = append(parts, fmt.Sprint(row[i]))
	}
	return strings.Join(parts, ",")
}

// Tables are the names of those that rows were folded of, as schema.table.
func (f *Fold) Tables() []string {
	var out []string
	for name := range f.tables {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Rows are the rows of a table by their primary key, each by column.
func (f *Fold) Rows(table string) map[string]map[string]any { return f.tables[table] }

// Sum adds up an integer column over all tables that have it.
func (f *Fold) Sum(column string) (sum int64, rows int) {
	for _, table := range f.tables {
		for _, row := range table {
			switch v := row[column].(type) {
			case int64:
				sum += v
				rows++
			case int32:
				sum += int64(v)
				rows++
			}
		}
	}
	return sum, rows
}
