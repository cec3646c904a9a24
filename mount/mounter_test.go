package mount_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
)

// Every recorded row, and every value before a change, can be decoded by the
// schema in force at its commit-ts; so can TiDB's own tables, which are in the
// old row format.
func TestEveryRecordedRowMounts(t *testing.T) {
	for _, name := range recordings(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			m := mount.New()
			rows, unknown, own := 0, 0, 0
			eachRow(t, name, func(raw *event.RawKV, table *event.Table) {
				if table == nil {
					unknown++
					return
				}
				row, err := m.Row(raw, table)
				if err != nil {
					t.Fatal(err)
				}
				if row == nil {
					return
				}
				if row.Kind() == event.DeleteRow != (raw.Op == event.Delete) || (row.Before != nil) != (len(raw.Old) > 0) {
					t.Fatalf("%s of key %X", row.Kind(), raw.Key)
				}
				for _, image := range []event.Image{row.Before, row.After} {
					checkImage(t, table, image)
				}
				rows++
				if system(table) {
					own++
				}
			})
			t.Logf("%d rows, %d of them of TiDB's own tables; %d of physical ids that no table had", rows, own, unknown)
			if own < 10 || rows == own {
				t.Errorf("%d rows, %d of TiDB's own tables", rows, own)
			}
		})
	}
}

func checkImage(t *testing.T, table *event.Table, image event.Image) {
	t.Helper()
	for i, v := range image {
		c := &table.Columns[i]
		want := c.ValueKind()
		if c.Generated == event.Virtual {
			want = event.Missing
		}
		if v.Kind() != want && (!v.IsNull() || c.NotNull()) {
			t.Fatalf("%s.%s has kind %d, want %d", table.FullName(), c.Name, v.Kind(), want)
		}
	}
}

// Every row that was written stands, to the letter, among the rows that TiDB
// itself returned for the table at that moment.
func TestEveryRecordedRowIsWhatTiDBReads(t *testing.T) {
	judged, unjudged := 0, 0
	for _, name := range recordings(t) {
		if _, err := os.Stat(name + ".history.jsonl.gz"); err != nil {
			continue // rows only at the end
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			history := loadHistory(t, name)
			m := mount.New()
			eachRow(t, name, func(raw *event.RawKV, table *event.Table) {
				if table == nil || system(table) || raw.Op == event.Delete {
					return
				}
				rows, ok := history[snapshot{uint64(raw.CommitTS), table.FullName()}]
				if !ok {
					unjudged++
					if !strings.Contains(name, "/workloads/") { // their histories are sampled
						t.Errorf("at %d, table %s: the history has no such moment", raw.CommitTS, table.FullName())
					}
					return
				}
				row, err := m.Row(raw, table)
				if err != nil {
					t.Fatal(err)
				}
				judged++
				if !slices.ContainsFunc(rows, func(want map[string]any) bool { return equalRow(row, want) }) {
					t.Errorf("at %d, %s, key %X: %v is none of %d rows, nearest %v", raw.CommitTS, table.FullName(), raw.Key, printRow(row), len(rows), nearest(row, rows))
				}
			})
		})
	}
	t.Logf("%d rows judged, %d of moments that no history shows", judged, unjudged)
	if judged < 1200 {
		t.Errorf("only %d rows were judged", judged)
	}
}

// Text reads back as the value that it was printed from, byte by byte in its
// stored form. Three kinds of text are no longer all of their value: FLOAT with
// an exponent (six digits), what JSON holds beside JSON's own types, and the
// invalid member of an ENUM that has a member ” too.
func TestRecordedTextReadsBack(t *testing.T) {
	cells, lossy := 0, 0
	for _, name := range recordings(t) {
		if strings.Contains(name, "/workloads/") {
			continue
		}
		eachRow(t, name, func(raw *event.RawKV, table *event.Table) {
			if table == nil || raw.Op == event.Delete {
				return
			}
			row, err := mount.Row(raw, table)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range row.After {
				c := &table.Columns[i]
				if v.IsNull() || v.IsMissing() {
					continue
				}
				cells++
				text := v.Text(c)
				back, err := event.ParseText(c, text)
				if err != nil || back.Text(c) != text {
					t.Fatalf("%s.%s: %q became %q: %v", table.FullName(), c.Name, text, back.Text(c), err)
				}
				if back.Equal(v) {
					continue
				}
				lossy++
				exponent := c.Type == event.TypeFloat && strings.Contains(text, "e")
				foreign := c.Type == event.TypeJSON && (strings.Contains(text, `"base64:`) || strings.Contains(text, `2024-01-02 03:04:05`))
				if invalid := c.Type == event.TypeEnum && v.Uint() == 0; !exponent && !foreign && !invalid {
					t.Errorf("%s.%s: %.100q (%X) came back as %X", table.FullName(), c.Name, text, v.Raw(), back.Raw())
				}
			}
		})
	}
	t.Logf("%d cells, %d of which have less text than value", cells, lossy)
	if lossy > cells/1000 {
		t.Error("too many")
	}
}

type snapshot struct {
	commitTS uint64
	table    string
}

func loadHistory(t *testing.T, name string) map[snapshot][]map[string]any {
	t.Helper()
	history := map[snapshot][]map[string]any{}
	at := snapshot{}
	lines(t, name+".history.jsonl.gz", func(b []byte) {
		var l struct {
			Kind, DB, Table string
			CommitTS        uint64 `json:"commit_ts"`
			Known           *bool
			Row             map[string]any
		}
		if err := json.Unmarshal(b, &l); err != nil {
			t.Fatal(err)
		}
		switch {
		case l.Kind == "snapshot" && (l.Known == nil || *l.Known):
			at = snapshot{l.CommitTS, l.DB + "." + l.Table}
			if history[at] == nil {
				history[at] = []map[string]any{}
			}
		case l.Kind == "row":
			history[at] = append(history[at], l.Row)
		}
	})
	if len(history) == 0 {
		t.Fatal("no history")
	}
	return history
}

// printRow is a row in the form that histories have.
func printRow(row *event.Row) map[string]any {
	out := map[string]any{}
	for i, v := range row.After {
		c := &row.Table.Columns[i]
		switch {
		case v.IsMissing():
		case v.IsNull():
			out[c.Name] = nil
		case !v.IsText(c):
			out[c.Name] = map[string]any{"hex": hex.EncodeToString(v.AppendText(nil, c))}
		default:
			out[c.Name] = v.Text(c)
		}
	}
	if row.Table.Handle.Kind == event.RowIDHandle {
		_, handle, _ := mount.ParseRecordKey(row.Key)
		if h, err := mount.ParseHandle(handle, row.Table); err == nil {
			out["_tidb_rowid"] = fmt.Sprint(h[0].Int())
		}
	}
	return out
}

// equalRow compares cell by cell, leaving out what no event carries.
func equalRow(row *event.Row, want map[string]any) bool { return len(differences(row, want)) == 0 }

func differences(row *event.Row, want map[string]any) []string {
	got := printRow(row)
	for i, v := range row.After {
		if v.IsMissing() {
			got[row.Table.Columns[i].Name] = want[row.Table.Columns[i].Name]
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(got)) {
		w, ok := want[k]
		if !ok || fmt.Sprint(got[k]) != fmt.Sprint(w) {
			out = append(out, fmt.Sprintf("%s=%.200v, not %.200v", k, got[k], w))
		}
	}
	return out
}

func nearest(row *event.Row, rows []map[string]any) string {
	best := []string(nil)
	for _, want := range rows {
		if d := differences(row, want); best == nil || len(d) < len(best) {
			best = d
		}
	}
	return strings.Join(best, "; ")
}
