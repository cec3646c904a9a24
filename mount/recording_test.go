package mount_test

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// changes are a recording's committed changes in commit order, each once.
func changes(t testing.TB, name string) []event.RawKV {
	t.Helper()
	type id struct {
		key             string
		startTS, commit tso.TS
	}
	prewrites := map[id]golden.Line{}
	var commits []golden.Line
	golden.Stream(t, name, func(l golden.Line) {
		switch l.Type {
		case "PREWRITE":
			prewrites[id{string(l.Key), l.StartTS, 0}] = l
		case "COMMIT", "COMMITTED":
			commits = append(commits, l)
		}
	})
	seen := map[id]bool{}
	var out []event.RawKV
	for _, l := range commits {
		if l.Type == "COMMIT" {
			p, ok := prewrites[id{string(l.Key), l.StartTS, 0}]
			if !ok {
				continue // a copy of it came as COMMITTED
			}
			p.CommitTS = l.CommitTS
			l = p
		}
		if seen[id{string(l.Key), l.StartTS, l.CommitTS}] {
			continue
		}
		seen[id{string(l.Key), l.StartTS, l.CommitTS}] = true
		raw := event.RawKV{
			Op: event.Put, StartTS: l.StartTS, CommitTS: l.CommitTS,
			Key: l.Key, Value: l.Value, Old: l.Old,
		}
		if l.Op == "DELETE" {
			raw.Op = event.Delete
		}
		out = append(out, raw)
	}
	slices.SortFunc(out, func(a, b event.RawKV) int {
		return cmp.Or(cmp.Compare(a.CommitTS, b.CommitTS), cmp.Compare(a.StartTS, b.StartTS), bytes.Compare(a.Key, b.Key))
	})
	return out
}

// metadata follows the m keys: at every moment it holds what TiDB's own writers
// see, which is the schema in force.
type metadata struct {
	t        testing.TB
	dbs      map[int64]*schema.DBInfo
	infos    map[int64]*schema.TableInfo
	tables   map[int64]*event.Table // by table id, filled when asked for
	owner    map[int64]int64        // table id by physical id
	database map[int64]int64        // database id by table id
}

func loadMetadata(t testing.TB, name string) *metadata {
	t.Helper()
	m := &metadata{
		t: t, dbs: map[int64]*schema.DBInfo{}, infos: map[int64]*schema.TableInfo{},
		tables: map[int64]*event.Table{}, owner: map[int64]int64{}, database: map[int64]int64{},
	}
	golden.Meta(t, name, func(key, value []byte) {
		m.put(&event.RawKV{Op: event.Put, Key: key, Value: value})
	})
	return m
}

// put takes one change of an m key; other metadata than tables and databases
// passes by.
func (m *metadata) put(raw *event.RawKV) {
	key, rest, err := span.CutKey(raw.Key[1:])
	if err != nil || len(rest) < 9 || rest[7] != 'h' {
		return
	}
	field, _, err := span.CutKey(rest[8:])
	if err != nil {
		return
	}
	if id, ok := idOf(field, "DB:"); ok && string(key) == "DBs" {
		delete(m.dbs, id)
		if raw.Op == event.Put {
			db, err := schema.ParseDBInfo(raw.Value)
			if err != nil {
				m.t.Fatal(err)
			}
			m.dbs[id] = db
			for table, of := range m.database {
				if of == id {
					delete(m.tables, table)
				}
			}
		}
		return
	}
	db, isDB := idOf(key, "DB:")
	id, isTable := idOf(field, "Table:")
	if !isDB || !isTable {
		return
	}
	if raw.Op == event.Delete {
		if m.database[id] == db { // a rename puts before it deletes
			delete(m.infos, id)
			delete(m.tables, id)
		}
		return
	}
	info, err := schema.ParseTableInfo(raw.Value)
	if err != nil {
		m.t.Fatal(err)
	}
	m.infos[id], m.database[id] = info, db
	delete(m.tables, id)
	m.owner[id] = id
	if info.Partition != nil {
		for _, p := range info.Partition.Definitions {
			m.owner[p.ID] = id
		}
	}
}

func idOf(b []byte, prefix string) (int64, bool) {
	digits, ok := strings.CutPrefix(string(b), prefix)
	id, err := strconv.ParseInt(digits, 10, 64)
	return id, ok && err == nil
}

// table is the one whose rows are stored under this physical id, nil if none.
func (m *metadata) table(physicalID int64) *event.Table {
	id := m.owner[physicalID]
	info := m.infos[id]
	if info == nil || m.dbs[m.database[id]] == nil {
		return nil
	}
	if m.tables[id] == nil {
		table, err := info.Table(m.dbs[m.database[id]], nil)
		if err != nil {
			m.t.Fatal(err)
		}
		m.tables[id] = table
	}
	if table := m.tables[id]; slices.Contains(table.PhysicalIDs(), physicalID) {
		return table
	}
	return nil
}

// eachRow calls fn with every change of a row in commit order and the table in
// force at its commit-ts: nil where none is known.
func eachRow(t testing.TB, name string, fn func(*event.RawKV, *event.Table)) {
	t.Helper()
	m := loadMetadata(t, name)
	all := changes(t, name)
	for i := range all {
		raw := &all[i]
		if raw.Key[0] == 'm' {
			m.put(raw)
			continue
		}
		if id, _, ok := mount.ParseRecordKey(raw.Key); ok {
			fn(raw, m.table(id))
		}
	}
}

// system tells TiDB's own tables, which the expected files leave out.
func system(t *event.Table) bool {
	switch strings.ToLower(t.Schema) {
	case "mysql", "sys", "information_schema", "performance_schema", "metrics_schema", "workload_schema":
		return true
	}
	return false
}
