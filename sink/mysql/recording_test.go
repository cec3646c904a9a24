package mysql

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

const golden = "../../testdata/golden/"

// recording is a stream, each change once, in commit order.
type recording struct {
	name       string
	start, end tso.TS
	changes    []event.RawKV
	versions   map[string][]version // by raw key, in commit order
}

type version struct {
	ts    tso.TS
	value []byte // nil: deleted
}

type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

type streamLine struct {
	Type     string
	TS       tso.TS
	Op       string
	Key      hexBytes
	Value    hexBytes
	Old      hexBytes
	StartTS  tso.TS `json:"start_ts"`
	CommitTS tso.TS `json:"commit_ts"`
}

func recordings(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*", "kafka/*/*", "workloads/*"} {
		files, err := filepath.Glob(golden + pattern + ".meta.jsonl.gz")
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, f := range files {
			out = append(out, strings.TrimPrefix(strings.TrimSuffix(f, ".meta.jsonl.gz"), golden))
		}
	}
	return out
}

func eachLine(t *testing.T, path string, fn func(line []byte)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	if strings.HasSuffix(path, ".gz") {
		g, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(path, err)
		}
		in = bufio.NewScanner(g)
	}
	in.Buffer(make([]byte, 1<<20), 256<<20)
	for in.Scan() {
		fn(in.Bytes())
	}
	if err := in.Err(); err != nil {
		t.Fatal(path, err)
	}
}

func loadRecording(t *testing.T, name string) *recording {
	t.Helper()
	rec := &recording{name: name, versions: map[string][]version{}}
	eachLine(t, golden+name+".meta.jsonl.gz", func(line []byte) {
		var kv struct{ Key, Value hexBytes }
		if err := json.Unmarshal(line, &kv); err != nil {
			t.Fatal(err)
		}
		if len(kv.Key) > 0 {
			rec.versions[string(kv.Key)] = []version{{0, kv.Value}}
		}
	})
	type id struct {
		key   string
		start tso.TS
	}
	prewrites := map[id]streamLine{}
	var commits []streamLine
	eachLine(t, golden+name+".jsonl.gz", func(line []byte) {
		var l streamLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		switch l.Type {
		case "START":
			rec.start = l.TS
		case "END":
			rec.end = l.TS
		case "PREWRITE":
			prewrites[id{string(l.Key), l.StartTS}] = l
		case "COMMIT", "COMMITTED":
			commits = append(commits, l)
		}
	})
	got := map[id]bool{}
	for _, l := range commits {
		k := id{string(l.Key), l.StartTS}
		if got[k] {
			continue
		}
		if l.Type == "COMMIT" {
			p, ok := prewrites[k]
			if !ok {
				continue // the scan delivers it as COMMITTED
			}
			l.Op, l.Value, l.Old = p.Op, p.Value, p.Old
		}
		got[k] = true
		kv := event.RawKV{Op: event.Put, StartTS: l.StartTS, CommitTS: l.CommitTS, Key: l.Key, Value: l.Value, Old: l.Old}
		if l.Op == "DELETE" {
			kv.Op = event.Delete
		}
		rec.changes = append(rec.changes, kv)
	}
	slices.SortFunc(rec.changes, func(a, b event.RawKV) int {
		return cmp.Or(cmp.Compare(a.CommitTS, b.CommitTS), cmp.Compare(a.StartTS, b.StartTS), bytes.Compare(a.Key, b.Key))
	})
	for i := range rec.changes {
		kv := &rec.changes[i]
		v := version{ts: kv.CommitTS, value: kv.Value}
		if kv.Op == event.Delete {
			v.value = nil
		}
		rec.versions[string(kv.Key)] = append(rec.versions[string(kv.Key)], v)
	}
	return rec
}

// at is a key's value as of ts.
func (rec *recording) at(key string, ts tso.TS) []byte {
	var out []byte
	for _, v := range rec.versions[key] {
		if v.ts > ts {
			break
		}
		out = v.value
	}
	return out
}

// Rows implements Snapshot over the recorded changes.
func (rec *recording) Rows(_ context.Context, t *event.Table, at tso.TS, fn func(*event.Row) error) error {
	ids := t.PhysicalIDs()
	for key := range rec.versions {
		id, _, ok := mount.ParseRecordKey([]byte(key))
		if !ok || !slices.Contains(ids, id) {
			continue
		}
		if value := rec.at(key, at); value != nil {
			row, err := mount.Row(&event.RawKV{Op: event.Put, CommitTS: at, Key: []byte(key), Value: value}, t)
			if err != nil {
				return err
			}
			if err := fn(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// schemaStore takes the snapshot and every job of the recording.
func (rec *recording) schemaStore(t *testing.T) (*schema.Store, []*event.DDL) {
	t.Helper()
	store := schema.NewStore(rec.start)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tables := range []bool{false, true} {
		for key := range rec.versions {
			k, ok := schema.ParseMetaKey([]byte(key))
			value := rec.at(key, rec.start.Prev())
			if !ok || value == nil || tables != (k.TableID != 0) {
				continue
			}
			if tables {
				info, err := schema.ParseTableInfo(value)
				must(err)
				must(store.LoadTable(k.SchemaID, info))
			} else {
				db, err := schema.ParseDBInfo(value)
				must(err)
				store.LoadDatabase(db)
			}
		}
	}
	for i := range rec.changes {
		row, ok, err := mount.JobRow(&rec.changes[i])
		must(err)
		if ok {
			must(store.Step(row))
		}
	}
	must(store.Resolve(rec.end))
	var ddls []*event.DDL
	for {
		r := store.Ready()
		ddls = append(ddls, r.DDLs...)
		if len(r.Reads) == 0 {
			return store, ddls
		}
		for _, read := range r.Reads {
			var tables []*schema.TableInfo
			for key := range rec.versions {
				k, ok := schema.ParseMetaKey([]byte(key))
				if !ok || k.SchemaID != read.SchemaID || k.TableID == 0 {
					continue
				}
				if value := rec.at(key, read.At); value != nil {
					info, err := schema.ParseTableInfo(value)
					must(err)
					tables = append(tables, info)
				}
			}
			must(store.Answer(read, tables))
		}
	}
}

func isSystem(name string) bool {
	switch strings.ToLower(name) {
	case "mysql", "sys", "information_schema", "performance_schema", "metrics_schema":
		return true
	}
	return false
}

// replay writes a recording the way a changefeed does: rows in commit order,
// each DDL after the rows at or below its switch-ts.
func (rec *recording) replay(t *testing.T, s *Sink, store *schema.Store, ddls []*event.DDL) error {
	t.Helper()
	ctx := context.Background()
	var txns []event.Txn
	flush := func() error {
		err := s.writeNow(ctx, sink.Endless, txns)
		txns = nil
		return err
	}
	ddlsUpTo := func(ts tso.TS) error {
		for len(ddls) > 0 && ddls[0].SwitchTS <= ts {
			d := ddls[0]
			ddls = ddls[1:]
			if isSystem(d.Schema) {
				continue
			}
			if err := flush(); err != nil {
				return err
			}
			if err := s.DDL(ctx, sink.Endless, d); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range rec.changes {
		kv := &rec.changes[i]
		id, _, ok := mount.ParseRecordKey(kv.Key)
		if !ok {
			continue
		}
		if err := ddlsUpTo(kv.CommitTS.Prev()); err != nil {
			return err
		}
		table, ok := store.TableAt(id, kv.CommitTS)
		if !ok || isSystem(table.Schema) {
			continue
		}
		row, err := mount.Row(kv, table)
		if err != nil {
			return err
		}
		if row == nil {
			continue
		}
		if n := len(txns); n == 0 || txns[n-1].StartTS != kv.StartTS || txns[n-1].CommitTS != kv.CommitTS {
			if n >= 1000 {
				if err := flush(); err != nil {
					return err
				}
			}
			txns = append(txns, event.Txn{StartTS: kv.StartTS, CommitTS: kv.CommitTS})
		}
		last := &txns[len(txns)-1]
		last.Rows = append(last.Rows, row)
	}
	if err := flush(); err != nil {
		return err
	}
	if err := ddlsUpTo(rec.end); err != nil {
		return err
	}
	return flush()
}

// TestRecordings writes each recording by many workers, a few rows at a time: it
// ends in what the recording expects. A third of them (with SLUICE_HEAVY all, with
// -short none) are written by one worker in commit order too, and end in the same.
func TestRecordings(t *testing.T) {
	db := openDB(t)
	for i, name := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name == "workloads/bigtxn" {
				t.Skip("the largest: a minute under the race detector; written without -short")
			}
			rec := loadRecording(t, name)
			store, ddls := rec.schemaStore(t)
			ends := map[string]map[string][]string{}
			ways := map[string]string{"parallel": "?worker-count=8&max-txn-row=20"}
			if heavy() || i%3 == 0 && !testing.Short() {
				ways["plain"] = "?worker-count=1&max-txn-row=2048"
			} else {
				t.Log("by many workers only; by one too with SLUICE_HEAVY=1")
			}
			for way, params := range ways {
				emptyServer(t, db)
				mustExec(t, db, "CREATE DATABASE test CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
				s := openURI(t, server.URI()+params)
				s.snapshot = rec
				s.cfg.NoVerify = true // what a column's backfill wrote is in no recording
				if err := rec.replay(t, s, store, ddls); err != nil {
					t.Errorf("%s: %v", way, err)
				}
				ends[way] = rec.compare(t, db, store)
			}
			for table, rows := range ends["plain"] {
				diff(t, table+" by many workers", rows, ends["parallel"][table])
			}
		})
	}
}
