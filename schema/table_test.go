package schema_test

import (
	"path/filepath"
	"testing"

	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/schema"
)

// Every table of every recorded snapshot, the system's own included, can be read.
func TestEveryRecordedTableLoads(t *testing.T) {
	files, err := filepath.Glob("../testdata/golden/*.meta.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	db := &schema.DBInfo{ID: 1, Name: schema.Name{O: "d", L: "d"}}
	for _, file := range files {
		tables := 0
		golden.Lines(t, file, func(line []byte) {
			var kv struct{ Key, Value golden.Hex }
			mustJSON(t, line, &kv)
			if k, ok := schema.ParseMetaKey(kv.Key); !ok || k.TableID == 0 {
				return
			}
			info, err := schema.ParseTableInfo(kv.Value)
			if err != nil {
				t.Fatal(err)
			}
			table, err := info.Table(db, nil)
			if err != nil {
				t.Fatal(err)
			}
			tables++
			for i, c := range table.Columns {
				if c.Name == "" || (c.NotNull() && c.Absent.IsNull()) {
					t.Errorf("%s: table %d: column %d: %+v", file, table.ID, i, c)
				}
			}
		})
		if tables < 40 {
			t.Errorf("%s: %d tables", file, tables)
		}
	}
}
