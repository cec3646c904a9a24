package catalog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/internal/golden"
)

// The tables of DDL jobs, and what their rows are called in a commit.
const (
	jobTableID     = 281474976710654
	historyTableID = 281474976710652
)

// commit is one recorded transaction's writes to metadata and to the tables of
// DDL jobs. Keys are readable: "DB:2/Table:7", "SchemaVersionKey", "job/12".
type commit struct {
	start, commit uint64
	puts          map[string][]byte // nil value: deleted
}

// statement is what a session was recorded to run.
type statement struct {
	conn, sql string
}

// recorded is all that a recording has of DDL.
type recorded struct {
	name    string
	base    map[string][]byte
	commits []commit
	sql     []statement
	rows    []rowWrite
}

// readRecording reads what a recording has of metadata and DDL jobs.
func readRecording(t *testing.T, path string) *recorded {
	t.Helper()
	r := &recorded{name: golden.Name(t, path), base: map[string][]byte{}}
	first := true
	golden.Lines(t, path+".meta.jsonl.gz", func(text []byte) {
		if first {
			first = false
			return
		}
		var kv struct{ Key, Value string }
		if err := json.Unmarshal(text, &kv); err != nil {
			t.Fatal(err)
		}
		r.base[readableKey(t, unhex(t, kv.Key))] = unhex(t, kv.Value)
	})
	s := &streamReader{t: t, r: r, prewrites: map[string]string{}, txns: map[txn]map[string][]byte{}}
	rows := newRowReader(t)
	golden.Lines(t, path+".jsonl.gz", func(text []byte) {
		s.line(text)
		rows.line(text)
	})
	r.rows = rows.out
	for _, fn := range s.late {
		fn()
	}
	for at, puts := range s.txns {
		r.commits = append(r.commits, commit{at.start, at.commit, puts})
	}
	slices.SortFunc(r.commits, func(a, b commit) int { return cmp.Compare(a.commit, b.commit) })
	return r
}

type txn struct{ start, commit uint64 }

// streamReader puts the lines of a stream together to transactions.
type streamReader struct {
	t         *testing.T
	r         *recorded
	prewrites map[string]string // by key and start-ts: op and value
	txns      map[txn]map[string][]byte
	late      []func() // commits, whose prewrites may come after them
}

func (s *streamReader) line(text []byte) {
	if !interesting(text) {
		return
	}
	var l struct {
		Type, Op, Key, Value, SQL, Msg string
		StartTS                        uint64 `json:"start_ts"`
		CommitTS                       uint64 `json:"commit_ts"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		s.t.Fatal(err)
	}
	if l.Type == "SQL" {
		s.r.sql = append(s.r.sql, statement{l.Msg, l.SQL})
		return
	}
	if l.Key == "" {
		return
	}
	name := readableKey(s.t, unhex(s.t, l.Key))
	id := fmt.Sprint(name, "@", l.StartTS)
	at := txn{l.StartTS, l.CommitTS}
	switch {
	case name == "":
	case l.Type == "PREWRITE":
		if _, seen := s.prewrites[id]; !seen || l.Value != "" {
			s.prewrites[id] = l.Op + l.Value
		}
	case l.Type == "COMMITTED":
		s.put(at, name, l.Op+l.Value)
	case l.Type == "COMMIT":
		s.late = append(s.late, func() { s.put(at, name, s.prewrites[id]) })
	}
}

func (s *streamReader) put(at txn, name, write string) {
	value, put := strings.CutPrefix(write, "PUT")
	if !put && write != "DELETE" {
		return
	}
	if s.txns[at] == nil {
		s.txns[at] = map[string][]byte{}
	}
	s.txns[at][name] = nil
	if put {
		s.txns[at][name] = unhex(s.t, value)
	}
}

// interesting tells a line that may be about metadata or jobs, without parsing
// it: most lines of the large recordings are rows of user tables.
func interesting(text []byte) bool {
	_, key, ok := bytes.Cut(text, []byte(`"key":"`))
	if !ok {
		return bytes.Contains(text, []byte(`"SQL"`))
	}
	for _, prefix := range []string{"6d", "748000fffffffffffe", "748000fffffffffffc"} {
		if bytes.HasPrefix(key, []byte(prefix)) {
			return true
		}
	}
	return false
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readableKey names a key of metadata or of a job; others are "".
func readableKey(t *testing.T, key []byte) string {
	t.Helper()
	if len(key) == 19 && key[0] == 't' && string(key[9:11]) == "_r" {
		handle := int64(binary.BigEndian.Uint64(key[11:]) ^ 1<<63)
		switch int64(binary.BigEndian.Uint64(key[1:]) ^ 1<<63) {
		case jobTableID:
			return fmt.Sprint("job/", handle)
		case historyTableID:
			return fmt.Sprint("history/", handle)
		}
	}
	if key[0] != 'm' {
		return ""
	}
	name, rest := bareBytes(key[1:])
	kind := rest[7]
	if kind != 'h' {
		return string(name)
	}
	field, _ := bareBytes(rest[8:])
	if string(name) == "DDLJobHistory" {
		return fmt.Sprint("DDLJobHistory/", binary.BigEndian.Uint64(field))
	}
	return string(name) + "/" + string(field)
}

// bareBytes undoes the memory-comparable form of a byte string.
func bareBytes(b []byte) (out, rest []byte) {
	for {
		pad := 255 - int(b[8])
		out = append(out, b[:8-pad]...)
		b = b[9:]
		if pad > 0 {
			return out, b
		}
	}
}

// jobMeta is the job in a row of one of the two tables.
func jobMeta(t *testing.T, name string, value []byte) []byte {
	t.Helper()
	want := int64(5)
	if strings.HasPrefix(name, "history/") {
		want = 2
	}
	return cells(t, value)[want].([]byte)
}

// cells decodes a row in format 1 of integers and byte strings.
func cells(t *testing.T, b []byte) map[int64]any {
	t.Helper()
	out := map[int64]any{}
	for len(b) > 0 {
		id, n := binary.Varint(b[1:])
		b = b[1+n:]
		flag := b[0]
		b = b[1:]
		switch flag {
		case 8:
			v, n := binary.Varint(b)
			out[id], b = v, b[n:]
		case 9:
			v, n := binary.Uvarint(b)
			out[id], b = v, b[n:]
		case 2:
			l, n := binary.Varint(b)
			out[id], b = append([]byte{}, b[n:n+int(l)]...), b[n+int(l):]
		case 0:
			out[id] = nil
		default:
			t.Fatalf("flag %d in a job's row", flag)
		}
	}
	return out
}
