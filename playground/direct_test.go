package playground

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/verify"
)

// The recordings without a wire between: every committed change of the file,
// sorted, through schema and mount into the judge. What differs here is decoding.
func TestEveryRecordingDecodes(t *testing.T) {
	for _, r := range goldenRecordings(t) {
		t.Run(r.name, func(t *testing.T) {
			if r.name == "bigtxn" {
				t.Skip("the command's own test replays it")
			}
			t.Parallel()
			judge := judgeDirectly(t, r, spoil{})
			report(t, "rows", judge.Rows())
			report(t, "end", judge.End())
		})
	}
}

func goldenRecordings(t *testing.T) []recording {
	t.Helper()
	all, err := findRecordings(recordings(t))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func report(t *testing.T, what string, v *verify.Verdict) {
	t.Helper()
	for _, n := range v.Notes {
		t.Logf("%s: %s", what, n)
	}
	for _, l := range v.Listings[:min(len(v.Listings), 20)] {
		t.Logf("%s listed: %s", what, l)
	}
	for _, d := range v.First {
		t.Errorf("%s: %s", what, d)
	}
	t.Logf("%s=%s", what, v.Word())
}

// spoil changes what is delivered; the zero spoil changes nothing.
type spoil struct {
	rows func([]*event.Row) []*event.Row
	ddl  func(*event.DDL)
}

// judgeDirectly runs a recording's file through schema and mount.
func judgeDirectly(t *testing.T, r recording, sp spoil) *verify.Judge {
	t.Helper()
	o, err := r.outcome(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := readFile(t.Context(), r.stream, readStream)
	if err != nil {
		t.Fatal(err)
	}
	store := schema.NewStore(s.start)
	databases := loadMeta(t, store, strings.TrimSuffix(r.stream, ".jsonl.gz")+".meta.jsonl.gz")
	f, err := filter.New(filter.Config{})
	if err != nil {
		t.Fatal(err)
	}
	mine := func(table *event.Table) bool { return f.Table(table.Schema, table.Name) }
	before := slices.DeleteFunc(store.Tables(s.start.Prev()), func(t *event.Table) bool { return !mine(t) })
	ddls := s.jobs(t, store)
	rows := s.mount(t, store, mine)
	if sp.rows != nil {
		rows = sp.rows(rows)
	}
	judge := verify.NewJudge(verify.Config{
		StartTS: s.start, Databases: databases, Tables: before, Expected: o.expected, History: o.history, Stream: o.stream,
	})
	carryOut := func(upto tso.TS) {
		for len(ddls) > 0 && ddls[0].SwitchTS < upto {
			if sp.ddl != nil {
				sp.ddl(ddls[0])
			}
			judge.DDL(ddls[0])
			ddls = ddls[1:]
		}
	}
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].CommitTS == rows[0].CommitTS && rows[n].StartTS == rows[0].StartTS {
			n++
		}
		carryOut(rows[0].CommitTS)
		judge.Txn(&event.Txn{StartTS: rows[0].StartTS, CommitTS: rows[0].CommitTS, Rows: rows[:n]})
		rows = rows[n:]
	}
	carryOut(tso.Max)
	return judge
}

// mount decodes the rows of the tables that are wanted, in order.
func (s *stream) mount(t *testing.T, store *schema.Store, mine func(*event.Table) bool) []*event.Row {
	t.Helper()
	var rows []*event.Row
	m := mount.New()
	for _, kv := range s.rows {
		id, _, ok := mount.ParseRecordKey(kv.Key)
		if !ok {
			continue
		}
		table, ok := store.TableAt(id, kv.CommitTS)
		if !ok || !mine(table) {
			continue
		}
		row, err := m.Row(kv, table)
		if err != nil {
			t.Fatal(err)
		}
		if row != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// stream is a recording's file: its committed changes in order, each once.
type stream struct {
	start, end tso.TS
	rows       []*event.RawKV
}

type write struct {
	kv     event.RawKV
	hidden bool
}

func readStream(_ string, in io.Reader) (*stream, error) {
	s := &stream{}
	writes := map[string]*write{}
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		var l struct {
			Type, Op, Key, Value, Old string
			StartTS                   tso.TS `json:"start_ts"`
			CommitTS                  tso.TS `json:"commit_ts"`
			TS                        tso.TS
			Source                    uint64 `json:"txn_source"`
		}
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, err
		}
		switch l.Type {
		case "START":
			s.start = l.TS
		case "END":
			s.end = l.TS
		case "PREWRITE", "COMMIT", "COMMITTED":
			id := l.Key + " " + l.StartTS.String()
			w := writes[id]
			if w == nil {
				w = &write{kv: event.RawKV{StartTS: l.StartTS, Key: unhex(l.Key)}}
				writes[id] = w
			}
			w.tell(l.Type, l.Op, unhex(l.Value), unhex(l.Old), l.CommitTS, l.Source)
		}
	}
	for _, w := range writes {
		if w.kv.CommitTS > s.start && w.kv.CommitTS <= s.end && !w.hidden {
			s.rows = append(s.rows, &w.kv)
		}
	}
	slices.SortFunc(s.rows, func(a, b *event.RawKV) int {
		return cmp.Or(cmp.Compare(a.CommitTS, b.CommitTS), cmp.Compare(a.StartTS, b.StartTS), cmp.Compare(string(a.Key), string(b.Key)))
	})
	return s, nil
}

func (w *write) tell(kind, op string, value, old []byte, commit tso.TS, source uint64) {
	w.hidden = w.hidden || source&(1<<8) != 0
	w.kv.CommitTS = max(w.kv.CommitTS, commit)
	if op == "PUT" {
		w.kv.Op = event.Put
	} else {
		w.kv.Op = event.Delete
	}
	if kind == "COMMIT" || kind == "PREWRITE" && len(value) == 0 && len(w.kv.Value) > 0 {
		return
	}
	w.kv.Value, w.kv.Old = value, old
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// jobs runs the recorded job rows through the store and returns its DDLs.
func (s *stream) jobs(t *testing.T, store *schema.Store) []*event.DDL {
	t.Helper()
	meta := map[int64]map[int64][]byte{} // database, table: what its m key holds by now
	var ddls []*event.DDL
	settle := func(upto tso.TS) {
		if err := store.Resolve(upto); err != nil {
			t.Fatal(err)
		}
		for {
			ready := store.Ready()
			ddls = append(ddls, ready.DDLs...)
			if len(ready.Reads) == 0 {
				return
			}
			for _, r := range ready.Reads {
				if err := store.Answer(r, tablesOf(t, meta[r.SchemaID])); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i, kv := range s.rows {
		if k, ok := schema.ParseMetaKey(kv.Key); ok && k.TableID != 0 {
			if meta[k.SchemaID] == nil {
				meta[k.SchemaID] = map[int64][]byte{}
			}
			meta[k.SchemaID][k.TableID] = kv.Value
		}
		row, ok, err := mount.JobRow(kv)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			if err := store.Step(row); err != nil {
				t.Fatal(err)
			}
		}
		if i+1 == len(s.rows) || s.rows[i+1].CommitTS > kv.CommitTS {
			settle(kv.CommitTS)
		}
	}
	settle(s.end)
	return ddls
}

func tablesOf(t *testing.T, byID map[int64][]byte) []*schema.TableInfo {
	t.Helper()
	var out []*schema.TableInfo
	for _, raw := range byID {
		if len(raw) == 0 {
			continue
		}
		info, err := schema.ParseTableInfo(raw)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info)
	}
	return out
}

func loadMeta(t *testing.T, store *schema.Store, path string) (databases []string) {
	t.Helper()
	type kv struct{ Key, Value string }
	all, err := readFile(t.Context(), path, func(_ string, in io.Reader) ([]kv, error) {
		var out []kv
		for d := json.NewDecoder(in); ; {
			var one kv
			if err := d.Decode(&one); err == io.EOF {
				return out, nil
			} else if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tables := range []bool{false, true} {
		for _, one := range all {
			k, ok := schema.ParseMetaKey(unhex(one.Key))
			if !ok || (k.TableID != 0) != tables {
				continue
			}
			if tables {
				info, err := schema.ParseTableInfo(unhex(one.Value))
				if err == nil {
					err = store.LoadTable(k.SchemaID, info)
				}
				if err != nil {
					t.Fatal(err)
				}
				continue
			}
			db, err := schema.ParseDBInfo(unhex(one.Value))
			if err != nil {
				t.Fatal(err)
			}
			store.LoadDatabase(db)
			if !filter.IsSystem(db.Name.O) {
				databases = append(databases, db.Name.O)
			}
		}
	}
	return databases
}
