package schema_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
)

// features are the recordings of single features: few enough, and with every
// form of metadata among them.
func features(f *testing.F) (out []string) {
	for _, name := range golden.Recordings(f) {
		if !strings.Contains(golden.Name(f, name), "/") && strings.HasPrefix(filepath.Base(name), "0") {
			out = append(out, name)
		}
	}
	return out
}

// metadata calls fn with the keys of databases and tables of recorded snapshots,
// of TiDB's own tables only with those of one.
func metadata(f *testing.F, fn func(key, value []byte)) {
	for i, name := range features(f) {
		golden.Lines(f, name+".meta.jsonl.gz", func(line []byte) {
			var kv struct{ Key, Value golden.Hex }
			if err := json.Unmarshal(line, &kv); err != nil {
				f.Fatal(err)
			}
			if k, ok := schema.ParseMetaKey(kv.Key); ok && (i == 0 || k.SchemaID > 100) {
				fn(kv.Key, kv.Value)
			}
		})
		golden.Stream(f, name, func(l golden.Line) {
			if _, ok := schema.ParseMetaKey(l.Key); ok && l.Type == "PREWRITE" && l.Op == "PUT" {
				fn(l.Key, l.Value)
			}
		})
	}
}

// A key of metadata is that of a database or a table that a snapshot would be
// searched for it under.
func FuzzMetaKey(f *testing.F) {
	metadata(f, func(key, _ []byte) { f.Add(key) })
	f.Add([]byte("mBootstra\xffpKey\x00\x00\x00\x00\xfb\x00\x00\x00\x00\x00\x00\x00s"))
	f.Add([]byte("mDB:0\x00\x00\x00\x00\xfb\x00\x00\x00\x00\x00\x00\x00hTable:00\xff\x00\x00\x00\x00\x00\x00\x00\x00\xf7")) // no table, and no database
	f.Fuzz(func(t *testing.T, key []byte) {
		k, ok := schema.ParseMetaKey(key)
		if !ok {
			return
		}
		start, end := schema.DatabasesRange()
		if k.TableID != 0 {
			start, end = schema.AllTablesRange()
		}
		if at := string(key); at < string(start) || at >= string(end) {
			t.Errorf("%X is %+v, but lies outside of %X to %X", key, k, start, end)
		}
	})
}

// A table's metadata makes a table, or an error with a code.
func FuzzTableInfo(f *testing.F) {
	metadata(f, func(_, value []byte) { f.Add(value) })
	f.Add([]byte(`{"id":8,"name":"t","cols":[{"id":1,"name":"a","hidden":true,"state":5,"type":{"Tp":3}},{"id":2,"name":"b","state":5,"type":{"Tp":3}}],` +
		`"index_info":[{"state":5,"is_primary":true,"idx_cols":[{"offset":0}]}],"state":5}`)) // a key that nobody sees
	db := &schema.DBInfo{ID: 1, Name: folded("d")}
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := schema.ParseTableInfo(b)
		if err != nil {
			if !cdcerr.SchemaSnapshot.Is(err) {
				t.Fatal(err)
			}
			return
		}
		info.NeedsZone()
		table, err := info.Table(db, nil)
		if err != nil {
			if cdcerr.Of(err) == nil || cdcerr.Unexpected.Is(err) {
				t.Fatalf("no code: %v", err)
			}
			return
		}
		checkTable(t, table)
	})
}

// checkTable verifies that what a table says of its columns is there.
func checkTable(t *testing.T, table *event.Table) {
	table.PhysicalIDs()
	for _, at := range table.Key {
		if at < 0 || at >= len(table.Columns) {
			t.Fatalf("the key has column %d of %d", at, len(table.Columns))
		}
	}
	for _, p := range table.Handle.Parts {
		if p.Column < 0 || p.Column >= len(table.Columns) {
			t.Fatalf("the handle has column %d of %d", p.Column, len(table.Columns))
		}
	}
	for i := range table.Columns {
		table.Columns[i].Absent.Text(&table.Columns[i])
	}
}

// A database's metadata is read, or refused with a code.
func FuzzDBInfo(f *testing.F) {
	metadata(f, func(key, value []byte) {
		if k, _ := schema.ParseMetaKey(key); k.TableID == 0 {
			f.Add(value)
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		db, err := schema.ParseDBInfo(b)
		if err != nil {
			if !cdcerr.SchemaSnapshot.Is(err) {
				t.Fatal(err)
			}
			return
		}
		s := schema.NewStore(tso.TS(100))
		s.LoadDatabase(db)
		if err := s.LoadTable(db.ID, &schema.TableInfo{ID: 1, Name: folded("t")}); err != nil && cdcerr.Of(err) == nil {
			t.Fatalf("no code: %v", err)
		}
	})
}

// Whatever a job says, the store takes it or refuses it with a code.
func FuzzJob(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"type":12,"state":4,"schema_id":1,"table_id":10,"binlog":{"SchemaVersion":2,"TableInfo":{"id":10,"name":{"O":"t","L":"t"},"cols":[{"id":2,"name":"a","state":5,"type":{"Tp":3}}]}},"raw_args":{"old_column_name":"a"}}`,
		`{"id":1,"type":61,"state":4,"schema_id":1,"table_id":10,"binlog":{"SchemaVersion":2,"TableInfo":{"id":10,"name":"t"}},"multi_schema_info":{"sub_jobs":[null,{"type":12,"raw_args":[{"name":"a"},"b"]}]}}`,
		`{"id":1,"type":47,"state":4,"schema_id":1,"binlog":{"SchemaVersion":2,"MultipleTableInfos":[null]},"raw_args":[[1],[1],["x"],[10]]}`,
		`{"id":1,"type":42,"state":4,"schema_id":1,"table_id":10,"binlog":{"SchemaVersion":2,"TableInfo":{"id":11,"name":"p","partition":{"enable":true,"definitions":[{"id":10},{"id":10}]}}},"raw_args":[12,1,11,"p",false]}`,
		`{"id":1,"type":60,"state":6,"schema_id":1,"binlog":{"SchemaVersion":2,"MultipleTableInfos":[{"id":20,"name":"n","index_info":[{"state":5,"idx_cols":[{"offset":4}]}]}]}}`,
		`{"id":1,"type":8,"state":1,"schema_state":2,"table_id":10,"raw_args":[["k"],[true]]}`,
		`{"id":1,"type":63,"state":4,"binlog":{"SchemaVersion":2,"DBInfo":{"id":1,"db_name":"b"}}}`,
		`{"id":1,"type":2,"state":4,"schema_id":1,"binlog":{"SchemaVersion":2}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		job, err := schema.ParseJob(b)
		if err != nil {
			if !cdcerr.InvalidDDLJob.Is(err) {
				t.Fatal(err)
			}
			return
		}
		s := schema.NewStore(100)
		s.LoadDatabase(app)
		part := &schema.PartitionInfo{Enable: true, Definitions: []schema.PartitionDef{{ID: 12, Name: folded("p")}}}
		for _, info := range []*schema.TableInfo{{ID: 10, Name: folded("t")}, {ID: 11, Name: folded("p"), Partition: part}} {
			if err := s.LoadTable(1, info); err != nil {
				t.Fatal(err)
			}
		}
		for _, history := range []bool{false, true} {
			if err := s.Step(schema.JobRow{CommitTS: 110, History: history, Job: job}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Resolve(120); err != nil {
			if cdcerr.Of(err) == nil {
				t.Fatalf("no code: %v", err)
			}
			return
		}
		r := s.Ready()
		for _, read := range r.Reads {
			if err := s.Answer(read, nil); err != nil && cdcerr.Of(err) == nil {
				t.Fatalf("no code: %v", err)
			}
		}
		for _, table := range s.Tables(120) {
			for _, id := range table.PhysicalIDs() {
				if _, ok := s.TableAt(id, 121); !ok {
					t.Errorf("id %d of table %d leads nowhere", id, table.ID)
				}
			}
		}
		s.Forget(115)
	})
}
