package mount_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/mount"
)

// verdict counts what a walk over one recording saw.
type verdict struct {
	t       *testing.T
	sampled bool // the history shows some moments only
	history map[snapshot][]map[string]any

	rows, own, unknown int // mounted; of TiDB's own tables; of no known table
	judged, unjudged   int // rows held against the history
	cells, lossy       int // cells read back from text
}

// Every recorded row, and every value before a change, can be decoded by the
// schema in force at its commit-ts; so can TiDB's own tables, which are in the
// old row format. Every row that was written stands, to the letter, among the
// rows that TiDB itself returned for the table at that moment. And text reads
// back as the value that it was printed from.
func TestRecordings(t *testing.T) {
	judged, cells := 0, 0
	for _, name := range golden.Recordings(t) {
		t.Run(strings.ReplaceAll(golden.Name(t, name), "/", "_"), func(t *testing.T) {
			v := &verdict{t: t, sampled: strings.Contains(name, "/workloads/"), history: loadHistory(t, name)}
			m := mount.New()
			eachRow(t, name, func(raw *event.RawKV, table *event.Table) {
				if table == nil {
					v.unknown++
					return
				}
				row, err := m.Row(raw, table)
				if err != nil {
					t.Fatal(err)
				}
				if row == nil {
					return
				}
				v.mounted(row)
				v.judge(row)
				v.readBack(row)
			})
			t.Logf("%d rows, %d of them of TiDB's own tables; %d of physical ids that no table had; %d judged, %d not; %d cells read back, %d with less text than value",
				v.rows, v.own, v.unknown, v.judged, v.unjudged, v.cells, v.lossy)
			if v.own < 10 || v.rows == v.own || v.lossy > max(2, v.cells/100) {
				t.Error("too few or too many")
			}
			judged, cells = judged+v.judged, cells+v.cells
		})
	}
	if judged < 1200 || cells < 100_000 {
		t.Errorf("only %d rows were judged and %d cells read back", judged, cells)
	}
}

// mounted checks a row's own shape.
func (v *verdict) mounted(row *event.Row) {
	v.rows++
	if system(row.Table) {
		v.own++
	}
	if row.Kind() == event.DeleteRow != (row.Raw.Op == event.Delete) || (row.Before != nil) != (len(row.Raw.Old) > 0) {
		v.t.Fatalf("%s of key %X", row.Kind(), row.Key)
	}
	checkImage(v.t, row.Table, row.Before)
	checkImage(v.t, row.Table, row.After)
}

// judge looks for the row in the history.
func (v *verdict) judge(row *event.Row) {
	if len(v.history) == 0 || system(row.Table) || row.After == nil {
		return
	}
	rows, ok := v.history[snapshot{uint64(row.CommitTS), row.Table.FullName()}]
	if !ok {
		v.unjudged++
		if !v.sampled {
			v.t.Errorf("at %d, table %s: the history has no such moment", row.CommitTS, row.Table.FullName())
		}
		return
	}
	v.judged++
	if !slices.ContainsFunc(rows, func(want map[string]any) bool { return equalRow(row, want) }) {
		v.t.Errorf("at %d, %s, key %X: %v is none of %d rows, nearest %v", row.CommitTS, row.Table.FullName(), row.Key, printRow(row), len(rows), nearest(row, rows))
	}
}

// readBack parses the text of every cell. Three kinds of text are no longer all
// of their value: FLOAT with an exponent (six digits), what JSON holds beside
// JSON's own types, and the invalid member of an ENUM that has a member ” too.
func (v *verdict) readBack(row *event.Row) {
	for i, cell := range row.After {
		c := &row.Table.Columns[i]
		if cell.IsNull() || cell.IsMissing() || len(cell.Raw()) > 1<<16 {
			continue
		}
		v.cells++
		text := cell.Text(c)
		back, err := event.ParseText(c, text)
		if err != nil || back.Text(c) != text {
			v.t.Fatalf("%s.%s: %q became %q: %v", row.Table.FullName(), c.Name, text, back.Text(c), err)
		}
		if back.Equal(cell) {
			continue
		}
		v.lossy++
		exponent := c.Type == event.TypeFloat && strings.Contains(text, "e")
		foreign := c.Type == event.TypeJSON && (strings.Contains(text, `"base64:`) || strings.Contains(text, `2024-01-02 03:04:05`))
		if invalid := c.Type == event.TypeEnum && cell.Uint() == 0; !exponent && !foreign && !invalid {
			v.t.Errorf("%s.%s: %.100q (%X) came back as %X", row.Table.FullName(), c.Name, text, cell.Raw(), back.Raw())
		}
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

type snapshot struct {
	commitTS uint64
	table    string
}

func loadHistory(t *testing.T, name string) map[snapshot][]map[string]any {
	t.Helper()
	history := map[snapshot][]map[string]any{}
	if _, err := os.Stat(name + ".history.jsonl.gz"); err != nil {
		return nil // some have rows at the end only
	}
	at := snapshot{}
	golden.Lines(t, name+".history.jsonl.gz", func(b []byte) {
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
