package mysql

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/schema"
)

// expectedTables is NAME.expected: by schema.table, the rows.
func (rec *recording) expectedTables(t *testing.T) map[string][]map[string]any {
	t.Helper()
	path := golden + rec.name + ".expected.jsonl"
	if _, err := os.Stat(path); err != nil {
		path += ".gz"
	}
	out := map[string][]map[string]any{}
	eachLine(t, path, func(line []byte) {
		var l struct {
			Kind, DB, Table, Type string
			Row                   map[string]any
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		name := l.DB + "." + l.Table
		switch l.Kind {
		case "table":
			if l.Type == "BASE TABLE" {
				out[name] = nil
			}
		case "row":
			delete(l.Row, "_tidb_rowid")
			out[name] = append(out[name], l.Row)
		}
	})
	return out
}

// cellText is a cell as comparable text.
func cellText(c *event.Column, cell any) string {
	if cell == nil {
		return "NULL"
	}
	var text string
	switch v := cell.(type) {
	case map[string]any:
		return "x" + v["hex"].(string)
	case string:
		text = v
	}
	switch c.Type {
	case event.TypeFloat:
		f, _ := strconv.ParseFloat(text, 64)
		// Expected has six digits from 1e15 on, as TiDB prints them.
		if f = float64(float32(f)); math.Abs(f) >= 1e15 || f != 0 && math.Abs(f) < 1e-15 {
			return strconv.FormatFloat(f, 'e', 5, 64)
		}
		return strconv.FormatFloat(f, 'e', -1, 32)
	case event.TypeDouble:
		f, _ := strconv.ParseFloat(text, 64)
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	return text
}

// selectText is how a column is read so that its text is TiDB's.
func selectText(c *event.Column) string {
	name := ident(c.Name)
	switch {
	case c.Type == event.TypeBit || c.IsBinary():
		return "CONCAT('x', LOWER(HEX(CAST(" + name + " AS BINARY))))"
	case c.Type == event.TypeFloat:
		return name + "+0e0"
	case c.Type == event.TypeYear:
		return "CONCAT(" + name + ")" // the driver makes a number of a YEAR
	case c.Flag&event.FlagZerofill != 0 && c.ValueKind() != event.Float:
		return name + "+0"
	}
	return name
}

func downstreamRows(t *testing.T, db *sql.DB, table *event.Table) ([]string, error) {
	t.Helper()
	selects := make([]string, len(table.Columns))
	for i := range table.Columns {
		selects[i] = selectText(&table.Columns[i])
	}
	rows, err := db.Query("SELECT " + strings.Join(selects, ", ") + " FROM " + qualified(table.Schema, table.Name))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		cells := make([]sql.NullString, len(selects))
		to := make([]any, len(selects))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		texts := make([]string, len(cells))
		for i, c := range cells {
			var cell any
			if c.Valid {
				cell = c.String
			}
			texts[i] = cellText(&table.Columns[i], cell)
		}
		out = append(out, rowText(table, texts))
	}
	return out, rows.Err()
}

func rowText(table *event.Table, texts []string) string {
	parts := make([]string, len(texts))
	for i := range texts {
		if len(texts[i]) > 200 {
			texts[i] = fmt.Sprintf("%.60s… (%d bytes, hash %x)", texts[i], len(texts[i]), hashOf(texts[i]))
		}
		parts[i] = table.Columns[i].Name + "=" + texts[i]
	}
	return strings.Join(parts, " ")
}

func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// compare holds the downstream's contents against NAME.expected, and returns them.
func (rec *recording) compare(t *testing.T, db *sql.DB, store *schema.Store) map[string][]string {
	t.Helper()
	contents := map[string][]string{}
	want := rec.expectedTables(t)
	seen := 0
	for _, table := range store.Tables(rec.end) {
		name := table.Schema + "." + table.Name
		rows, ok := want[name]
		if isSystem(table.Schema) || table.Kind != event.BaseTable {
			continue
		}
		if !ok {
			t.Errorf("%s is not expected", name)
			continue
		}
		seen++
		var wanted []string
		for _, row := range rows {
			texts := make([]string, len(table.Columns))
			for i := range table.Columns {
				c := &table.Columns[i]
				texts[i] = cellText(c, row[c.Name])
			}
			wanted = append(wanted, rowText(table, texts))
		}
		got, err := downstreamRows(t, db, table)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		contents[name] = slices.Clone(got)
		diff(t, name, wanted, got)
	}
	if seen == 0 {
		t.Error("no table was compared")
	}
	return contents
}

func diff(t *testing.T, name string, want, got []string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	shown := 0
	for len(want) > 0 || len(got) > 0 {
		switch {
		case len(got) == 0 || len(want) > 0 && want[0] < got[0]:
			t.Errorf("%s: missing %s", name, want[0])
			want = want[1:]
		case len(want) == 0 || got[0] < want[0]:
			t.Errorf("%s: surplus %s", name, got[0])
			got = got[1:]
		default:
			want, got = want[1:], got[1:]
			continue
		}
		if shown++; shown == 10 {
			t.Errorf("%s: more", name)
			return
		}
	}
}
