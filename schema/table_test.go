package schema_test

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

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
		eachLine(t, file, func(line []byte) {
			var kv struct{ Key, Value string }
			if err := json.Unmarshal(line, &kv); err != nil {
				t.Fatal(err)
			}
			value, err := hex.DecodeString(kv.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !isTable(kv.Key) {
				return
			}
			info, err := schema.ParseTableInfo(value)
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

// isTable tells whether a raw m key, in hexadecimal, is a field Table:<id>.
func isTable(key string) bool {
	raw, err := hex.DecodeString(key)
	return err == nil && len(raw) > 27 && string(raw[1:4]) == "DB:" && string(raw[18:24]) == "Table:"
}

func eachLine(t *testing.T, path string, fn func([]byte)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<28)
	for lines.Scan() {
		fn(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
