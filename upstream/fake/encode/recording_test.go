package encode_test

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
)

// hexBytes is a JSON string of hexadecimal digits.
type hexBytes []byte

func (h *hexBytes) UnmarshalJSON(b []byte) error {
	if len(b) < 2 || b[0] != '"' {
		return fmt.Errorf("%s is no string", b)
	}
	*h = make([]byte, (len(b)-2)/2)
	_, err := hex.Decode(*h, b[1:len(b)-1])
	return err
}

// line is a line of a recording's stream, or of its metadata.
type line struct {
	Type     string   `json:"type"`
	Op       string   `json:"op"`
	Key      hexBytes `json:"key"`
	Value    hexBytes `json:"value"`
	Old      hexBytes `json:"old"`
	StartTS  tso.TS   `json:"start_ts"`
	CommitTS tso.TS   `json:"commit_ts"`
}

// recordings are the streams that ship with the project, by path.
func recordings(t *testing.T) []string {
	t.Helper()
	var out []string
	golden := filepath.Join("..", "..", "..", "testdata", "golden")
	for _, pattern := range []string{"*", filepath.Join("kafka", "*", "*"), filepath.Join("workloads", "*")} {
		paths, err := filepath.Glob(filepath.Join(golden, pattern+".meta.jsonl.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			out = append(out, strings.Replace(p, ".meta.jsonl.gz", ".jsonl.gz", 1))
		}
	}
	if len(out) < 44 {
		t.Fatalf("%d recordings", len(out))
	}
	return out
}

func readLines(path string, use func(line) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(zr, 1<<20)
	for n := 1; ; n++ {
		text, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := use(l); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// change is a committed write of one key; Old is what stood there before.
type change struct {
	commitTS   tso.TS
	key        []byte
	value, old []byte
}

// replay hands out all of a recording's committed changes: the snapshot's
// metadata first, then the stream's, each when its commit comes.
func replay(path string, use func(change) error) error {
	err := readLines(strings.Replace(path, ".jsonl.gz", ".meta.jsonl.gz", 1), func(l line) error {
		if l.Key == nil {
			return nil // the head
		}
		return use(change{key: l.Key, value: l.Value})
	})
	if err != nil {
		return err
	}
	type id struct {
		key   string
		start tso.TS
	}
	open := map[id]line{}
	return readLines(path, func(l line) error {
		at := id{string(l.Key), l.StartTS}
		switch l.Type {
		case "PREWRITE":
			open[at] = l
		case "ROLLBACK":
			delete(open, at)
		case "COMMIT":
			w, ok := open[at]
			if !ok {
				return nil // its prewrite is still to come, or comes as COMMITTED
			}
			delete(open, at)
			return use(change{commitTS: l.CommitTS, key: w.Key, value: w.Value, old: w.Old})
		case "COMMITTED":
			return use(change{commitTS: l.CommitTS, key: l.Key, value: l.Value, old: l.Old})
		}
		return nil
	})
}

// shapes is what every table looked like at every moment, with all that TiDB
// keeps in its rows: hidden columns, those on their way in or out, and those
// that are gone but still in rows that nobody has written since.
type shapes struct {
	databases map[int64]*schema.DBInfo
	versions  map[int64][]version // by physical id
}

type version struct {
	from tso.TS
	info *schema.TableInfo
	db   int64
}

// learn takes in a change of the metadata; it does nothing with other changes.
func (s *shapes) learn(c change) error {
	k, ok := schema.ParseMetaKey(c.key)
	if !ok || len(c.value) == 0 {
		return nil // rows of a table that is gone may still come
	}
	if k.TableID == 0 {
		db, err := schema.ParseDBInfo(c.value)
		if err == nil {
			s.databases[db.ID] = db
		}
		return err
	}
	info, err := schema.ParseTableInfo(c.value)
	if err != nil {
		return err
	}
	for i := range info.Columns {
		info.Columns[i].State = schema.SchemaPublic
		info.Columns[i].Hidden = false
		// While a column is being rewritten TiDB stores virtual ones as well.
		info.Columns[i].GeneratedStored = true
	}
	if before, ok := s.at(info.ID, tso.Max); ok {
		for _, c := range before.info.Columns {
			if !slices.ContainsFunc(info.Columns, func(now schema.ColumnInfo) bool { return now.ID == c.ID }) {
				info.Columns = append(info.Columns, c)
			}
		}
	}
	ids := []int64{info.ID}
	if p := info.Partition; p != nil {
		for _, defs := range [][]schema.PartitionDef{p.Definitions, p.Adding, p.Dropping} {
			for _, d := range defs {
				ids = append(ids, d.ID)
			}
		}
	}
	for _, id := range ids {
		s.versions[id] = append(s.versions[id], version{from: c.commitTS, info: info, db: k.SchemaID})
	}
	return nil
}

// at is the last version of a physical table below a commit-ts.
func (s *shapes) at(physicalID int64, commitTS tso.TS) (version, bool) {
	var best version
	for _, v := range s.versions[physicalID] {
		if v.from < commitTS && v.from >= best.from {
			best = v
		}
	}
	return best, best.info != nil
}
