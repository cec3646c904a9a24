package schema_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
)

// recording is what these tests need of one: the snapshot, and every change of
// m keys and job rows, once, in commit order.
type recording struct {
	name    string
	start   tso.TS
	end     tso.TS
	meta    []change // of the snapshot
	changes []change
}

// change is one change of a database, a table or a job, read.
type change struct {
	ts    tso.TS
	key   schema.MetaKey
	db    *schema.DBInfo    // nil: gone, or a table's
	table *schema.TableInfo // nil: gone, or a database's
	row   *schema.JobRow    // nil: a key of the schema
}

func loadRecording(t *testing.T, path string) *recording {
	t.Helper()
	rec := &recording{name: golden.Name(t, path)}
	golden.Meta(t, path, func(key, value []byte) {
		if wanted(key) {
			rec.meta = append(rec.meta, read(t, &event.RawKV{Op: event.Put, Key: key, Value: value}))
		}
	})
	type id struct {
		key   string
		start tso.TS
	}
	prewrites, got := map[id]golden.Line{}, map[id]bool{}
	var commits []golden.Line
	var all []event.RawKV
	golden.Lines(t, path+".jsonl.gz", func(line []byte) {
		if !interesting(line) {
			return
		}
		var l golden.Line
		mustJSON(t, line, &l)
		k := id{string(l.Key), l.StartTS}
		switch l.Type {
		case "START":
			rec.start = l.TS
		case "END":
			rec.end = l.TS
		case "PREWRITE":
			if wanted(l.Key) {
				prewrites[k] = l
			}
		case "COMMIT", "COMMITTED":
			if wanted(l.Key) {
				commits = append(commits, l)
			}
		}
	})
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
		op := event.Put
		if l.Op == "DELETE" {
			op = event.Delete
		}
		all = append(all, event.RawKV{Op: op, StartTS: l.StartTS, CommitTS: l.CommitTS, Key: l.Key, Value: l.Value, Old: l.Old})
	}
	slices.SortFunc(all, func(a, b event.RawKV) int {
		return cmp.Or(cmp.Compare(a.CommitTS, b.CommitTS), cmp.Compare(a.StartTS, b.StartTS), bytes.Compare(a.Key, b.Key))
	})
	for i := range all {
		rec.changes = append(rec.changes, read(t, &all[i]))
	}
	return rec
}

func read(t *testing.T, kv *event.RawKV) change {
	t.Helper()
	c := change{ts: kv.CommitTS}
	row, ok, err := mount.JobRow(kv)
	if ok {
		c.row = &row
	}
	if err == nil && !ok {
		c.key, _ = schema.ParseMetaKey(kv.Key)
		switch {
		case kv.Op == event.Delete:
		case c.key.TableID == 0:
			c.db, err = schema.ParseDBInfo(kv.Value)
		default:
			c.table, err = schema.ParseTableInfo(kv.Value)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// interesting tells, before anything is decoded, whether a line may be wanted:
// rows of users are most of a stream.
func interesting(line []byte) bool {
	for _, sign := range []string{`"START"`, `"END"`, `"key":"6d44`, `"key":"748000ffffffffff`} {
		if bytes.Contains(line[:min(len(line), 400)], []byte(sign)) {
			return true
		}
	}
	return false
}

func wanted(key []byte) bool {
	if _, ok := schema.ParseMetaKey(key); ok {
		return true
	}
	id, _, ok := jobKey(key)
	return ok && (id == mount.JobTableID || id == mount.HistoryTableID)
}

func jobKey(key []byte) (int64, []byte, bool) {
	if len(key) != 19 || key[0] != 't' || key[10] != 'r' {
		return 0, nil, false
	}
	var id uint64
	for _, b := range key[1:9] {
		id = id<<8 | uint64(b)
	}
	return int64(id ^ 1<<63), key[11:], true
}

func mustJSON(t *testing.T, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%.200s: %v", b, err)
	}
}

// metaState is what the m keys say: the truth to which the store is held.
type metaState struct {
	databases map[int64]*schema.DBInfo
	tables    map[int64]map[int64]*schema.TableInfo
	built     map[*schema.TableInfo]*event.Table // by seen, used again while the database has its name
}

func newMetaState() *metaState {
	return &metaState{databases: map[int64]*schema.DBInfo{}, tables: map[int64]map[int64]*schema.TableInfo{}, built: map[*schema.TableInfo]*event.Table{}}
}

// put takes one change and tells whether it was one of a database or a table.
func (m *metaState) put(c *change) bool {
	switch k := c.key; {
	case c.row != nil:
		return false
	case k.TableID == 0 && c.db == nil:
		delete(m.databases, k.SchemaID)
	case k.TableID == 0:
		m.databases[k.SchemaID] = c.db
	case c.table == nil:
		delete(m.tables[k.SchemaID], k.TableID)
	default:
		if m.tables[k.SchemaID] == nil {
			m.tables[k.SchemaID] = map[int64]*schema.TableInfo{}
		}
		m.tables[k.SchemaID][k.TableID] = c.table
	}
	return true
}

// seen is every table as its readers see it, by id.
func (m *metaState) seen(t *testing.T) map[int64]*event.Table {
	t.Helper()
	out := map[int64]*event.Table{}
	for schemaID, tables := range m.tables {
		db := m.databases[schemaID]
		for id, info := range tables {
			if db == nil || info.State != schema.SchemaPublic {
				continue
			}
			table := m.built[info]
			if table == nil || table.Schema != db.Name.O {
				var err error
				if table, err = info.Table(db, nil); err != nil {
					t.Fatal(err)
				}
				m.built[info] = table
			}
			out[id] = table
		}
	}
	return out
}

// of lists the tables of one database.
func (m *metaState) of(schemaID int64) []*schema.TableInfo {
	var out []*schema.TableInfo
	for _, info := range m.tables[schemaID] {
		out = append(out, info)
	}
	return out
}

func (m *metaState) load(s *schema.Store) error {
	for _, db := range m.databases {
		s.LoadDatabase(db)
	}
	for schemaID, tables := range m.tables {
		for _, info := range tables {
			if err := s.LoadTable(schemaID, info); err != nil {
				return err
			}
		}
	}
	return nil
}

// shapes are shapes by table.
type shapes map[*event.Table]string

func (s shapes) of(t *event.Table) string {
	if t == nil {
		return "none"
	}
	if _, ok := s[t]; !ok {
		s[t] = shape(t)
	}
	return s[t]
}

// shape is what of a table matters to a row: the name under which it is
// written, the columns by which it is decoded, the ids under which it is stored.
func shape(t *event.Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s.%s (", t.ID, t.Schema, t.Name)
	for _, c := range t.Columns {
		fmt.Fprintf(&b, " %d:%s:%d:%d", c.ID, c.Name, c.Type, c.Flen)
	}
	b.WriteString(" )")
	for _, x := range t.Indexes {
		if x.Unique {
			fmt.Fprintf(&b, " unique:%d", x.ID)
		}
	}
	for _, p := range t.Partitions {
		fmt.Fprintf(&b, " %s=%d", p.Name, p.ID)
	}
	return b.String()
}
