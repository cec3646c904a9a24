package catalog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// formTally counts the values of each kind that were seen, each once.
type formTally struct {
	count map[string]int
	seen  map[string]bool
}

// comesBack holds that whatever TiDB wrote, read into the forms of this package
// and written again, is the same to the byte: no field is missing, misplaced or
// misnamed.
func (f *formTally) comesBack(t *testing.T, r *recorded) {
	check := func(key string, value []byte) {
		if value == nil || f.seen[string(value)] {
			return
		}
		f.seen[string(value)] = true
		kind, field, _ := strings.Cut(key, "/")
		switch {
		case kind == "DBs":
			again[DBInfo](t, r.name, key, value)
		case strings.HasPrefix(kind, "DB:") && strings.HasPrefix(field, "Table:"):
			kind = "DB"
			again[TableInfo](t, r.name, key, value)
		case strings.HasPrefix(kind, "Diff:"):
			kind = "Diff"
			again[SchemaDiff](t, r.name, key, value)
		case kind == "DDLJobHistory":
			again[JobInfo](t, r.name, key, value)
		case kind == "job" || kind == "history":
			again[JobInfo](t, r.name, key, jobMeta(t, key, value))
		default:
			return
		}
		f.count[kind]++
	}
	for key, value := range r.base {
		check(key, value)
	}
	for _, c := range r.commits {
		for key, value := range c.puts {
			check(key, value)
		}
	}
}

func (f *formTally) enough(t *testing.T) {
	t.Log("forms: ", f.count)
	for _, kind := range []string{"DBs", "DB", "Diff", "DDLJobHistory", "job", "history"} {
		if f.count[kind] == 0 {
			t.Errorf("no %s seen", kind)
		}
	}
}

func again[T any](t *testing.T, name, key string, value []byte) {
	t.Helper()
	var v T
	if err := json.Unmarshal(value, &v); err != nil {
		t.Fatalf("%s %s: %v", name, key, err)
	}
	got, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, value) {
		i := 0
		for i < min(len(got), len(value)) && got[i] == value[i] {
			i++
		}
		from := max(0, i-60)
		t.Errorf("%s %s, byte %d:\n got %.200s\nwant %.200s", name, key, i, got[from:], value[from:])
	}
}
