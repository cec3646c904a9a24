package redotest

import (
	"bytes"
	"cmp"
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
)

// Change is one change of a row and the table in force at its commit-ts.
type Change struct {
	Raw   *event.RawKV
	Table *event.Table
}

// Recording is what a changefeed of all tables gets of one.
type Recording struct {
	Start, End tso.TS
	Changes    []Change // in (commit-ts, start-ts, key)
	DDLs       []*event.DDL
}

// Load reads a recording and decides its schema as a changefeed would.
func Load(tb testing.TB, path string) *Recording {
	tb.Helper()
	l := loader{tb: tb, databases: map[int64]*schema.DBInfo{}, tables: map[int64]map[int64]*schema.TableInfo{}, rec: &Recording{}}
	raws := l.read(path)
	golden.Meta(tb, path, func(key, value []byte) {
		l.put(&event.RawKV{Op: event.Put, Key: bytes.Clone(key), Value: bytes.Clone(value)})
	})
	l.store = schema.NewStore(l.rec.Start)
	for _, db := range l.databases {
		l.store.LoadDatabase(db)
	}
	for id, tables := range l.tables {
		for _, info := range tables {
			l.must(l.store.LoadTable(id, info))
		}
	}
	l.decide(raws)
	return l.rec
}

type loader struct {
	tb        testing.TB
	store     *schema.Store
	databases map[int64]*schema.DBInfo
	tables    map[int64]map[int64]*schema.TableInfo // by database
	rec       *Recording
}

func (l *loader) must(err error) {
	l.tb.Helper()
	if err != nil {
		l.tb.Fatal(err)
	}
}

// read is the recording's committed changes in commit order, each once.
func (l *loader) read(path string) []*event.RawKV {
	type id struct {
		key   string
		start tso.TS
	}
	prewrites, got := map[id]golden.Line{}, map[id]bool{}
	var commits []golden.Line
	golden.Stream(l.tb, path, func(line golden.Line) {
		switch line.Type {
		case "START":
			l.rec.Start = line.TS
		case "END":
			l.rec.End = line.TS
		case "PREWRITE":
			prewrites[id{string(line.Key), line.StartTS}] = line
		case "COMMIT", "COMMITTED":
			commits = append(commits, line)
		}
	})
	var out []*event.RawKV
	for _, c := range commits {
		k := id{string(c.Key), c.StartTS}
		if got[k] {
			continue
		}
		if c.Type == "COMMIT" {
			p, ok := prewrites[k]
			if !ok {
				continue // a copy of it came as COMMITTED
			}
			c.Op, c.Value, c.Old = p.Op, p.Value, p.Old
		}
		got[k] = true
		raw := &event.RawKV{Op: event.Put, StartTS: c.StartTS, CommitTS: c.CommitTS, Key: c.Key, Value: c.Value, Old: c.Old}
		if c.Op == "DELETE" {
			raw.Op = event.Delete
		}
		out = append(out, raw)
	}
	slices.SortFunc(out, Compare)
	return out
}

// Compare is the order of a log: commit-ts, start-ts, key.
func Compare(a, b *event.RawKV) int {
	return cmp.Or(cmp.Compare(a.CommitTS, b.CommitTS), cmp.Compare(a.StartTS, b.StartTS), bytes.Compare(a.Key, b.Key))
}

// decide gives the store all job rows, and then every row its table.
func (l *loader) decide(raws []*event.RawKV) {
	var rows []*event.RawKV
	for i, raw := range raws {
		switch row, ok, err := mount.JobRow(raw); {
		case err != nil:
			l.tb.Fatal(err)
		case ok:
			l.must(l.store.Step(row))
		case raw.Key[0] == 'm':
			l.put(raw)
		default:
			rows = append(rows, raw)
		}
		if i+1 == len(raws) || raws[i+1].CommitTS != raw.CommitTS {
			l.resolve(raw.CommitTS)
		}
	}
	l.resolve(l.rec.End)
	for _, raw := range rows {
		id, _, ok := mount.ParseRecordKey(raw.Key)
		if !ok {
			continue // an index's
		}
		if t, ok := l.store.TableAt(id, raw.CommitTS); ok && t.Kind == event.BaseTable {
			l.rec.Changes = append(l.rec.Changes, Change{raw, t})
		}
	}
}

func (l *loader) resolve(ts tso.TS) {
	l.must(l.store.Resolve(ts))
	for {
		ready := l.store.Ready()
		l.rec.DDLs = append(l.rec.DDLs, ready.DDLs...)
		if len(ready.Reads) == 0 {
			return
		}
		for _, read := range ready.Reads {
			var infos []*schema.TableInfo
			for _, info := range l.tables[read.SchemaID] {
				infos = append(infos, info)
			}
			l.must(l.store.Answer(read, infos))
		}
	}
}

// put takes one change of a database's or table's own metadata.
func (l *loader) put(raw *event.RawKV) {
	k, ok := schema.ParseMetaKey(raw.Key)
	if !ok {
		return
	}
	switch {
	case k.TableID == 0 && raw.Op == event.Delete:
		delete(l.databases, k.SchemaID)
	case k.TableID == 0:
		db, err := schema.ParseDBInfo(raw.Value)
		l.must(err)
		l.databases[k.SchemaID] = db
	case raw.Op == event.Delete:
		delete(l.tables[k.SchemaID], k.TableID)
	default:
		info, err := schema.ParseTableInfo(raw.Value)
		l.must(err)
		if l.tables[k.SchemaID] == nil {
			l.tables[k.SchemaID] = map[int64]*schema.TableInfo{}
		}
		l.tables[k.SchemaID][k.TableID] = info
	}
}
