package golden

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/tso"
)

// least is how many recordings the project ships: a test that finds fewer would
// pass for want of anything to test.
const least = 44

// Dir is testdata/golden as seen from the package that is tested.
func Dir(t testing.TB) string {
	t.Helper()
	for dir := "."; len(dir) < 64; dir = filepath.Join("..", dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "testdata", "golden")
		}
	}
	t.Fatal("no go.mod above the package that is tested")
	return ""
}

// Recordings are all of them: those of single features, those that went to
// Kafka as well, and the larger ones.
func Recordings(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*", "kafka/*/*", "workloads/*"} {
		files, err := filepath.Glob(filepath.Join(Dir(t), pattern+".meta.jsonl.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			out = append(out, strings.TrimSuffix(f, ".meta.jsonl.gz"))
		}
	}
	if len(out) < least {
		t.Fatalf("%d recordings under %s, want at least %d", len(out), Dir(t), least)
	}
	return out
}

// Name is a recording's path below Dir.
func Name(t testing.TB, recording string) string {
	t.Helper()
	name, err := filepath.Rel(Dir(t), recording)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(name)
}

// Lines calls fn with each line of a file, decompressed where its name ends in
// .gz. The bytes are fn's until it returns.
func Lines(t testing.TB, file string, fn func(line []byte)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), 1<<30)
	for lines.Scan() {
		fn(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// Line is a line of a change stream.
type Line struct {
	Type     string // START PREWRITE COMMIT COMMITTED ROLLBACK INITIALIZED UNKNOWN ERROR RESOLVED END …
	TS       tso.TS
	Op       string // PUT or DELETE
	Key      Hex
	Value    Hex
	Old      Hex
	StartTS  tso.TS `json:"start_ts"`
	CommitTS tso.TS `json:"commit_ts"`
	Region   uint64
}

// Stream calls fn with each line of a recording's change stream.
func Stream(t testing.TB, recording string, fn func(Line)) {
	t.Helper()
	Lines(t, recording+".jsonl.gz", func(line []byte) {
		var l Line
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v: %.200s", recording, err, line)
		}
		fn(l)
	})
}

// Meta calls fn with each key of the snapshot of metadata at a recording's start.
func Meta(t testing.TB, recording string, fn func(key, value []byte)) {
	t.Helper()
	Lines(t, recording+".meta.jsonl.gz", func(line []byte) {
		var kv struct{ Key, Value Hex }
		if err := json.Unmarshal(line, &kv); err != nil {
			t.Fatalf("%s: %v: %.200s", recording, err, line)
		}
		if len(kv.Key) > 0 { // the head has none
			fn(kv.Key, kv.Value)
		}
	})
}

// Hex is a JSON string of hexadecimal digits.
type Hex []byte

// UnmarshalJSON needs no copy of the digits.
func (h *Hex) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) < 2 || b[0] != '"' {
		return fmt.Errorf("%.40s is no string", b)
	}
	*h = make([]byte, (len(b)-2)/2)
	_, err := hex.Decode(*h, b[1:len(b)-1])
	return err
}
