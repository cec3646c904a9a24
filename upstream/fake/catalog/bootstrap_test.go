package catalog

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The tables that DDL goes through are those of a real cluster.
func TestBootstrapIsTheServers(t *testing.T) {
	r := readRecording(t, "../../../testdata/golden/01_types_int")
	const at = 1 << 40
	c, kvs, err := Bootstrap(at)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, kv := range kvs {
		key := readableKey(t, kv.Key)
		if !strings.HasPrefix(key, "DB:1/Table:") {
			continue
		}
		var got, want TableInfo
		if err := json.Unmarshal(kv.Value, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(r.base[key], &want); err != nil {
			t.Fatal(err)
		}
		want.UpdateTS = at
		compared++
		if diff := compareInfo(t, got.Name.O, &got, &want); len(diff) > 0 {
			t.Errorf("%s", strings.Join(diff, "\n"))
		}
	}
	if compared != len(systemTables) {
		t.Errorf("%d tables compared", compared)
	}
	if c.Table("mysql", "tidb_ddl_job") == nil || c.Database("test") == nil || c.Version() != 1 {
		t.Error("the catalog does not have what its keys say")
	}
}

func compareInfo(t *testing.T, name string, got, want *TableInfo) []string {
	t.Helper()
	var g, w any
	for _, p := range []struct {
		info *TableInfo
		into *any
	}{{got, &g}, {want, &w}} {
		text, err := json.Marshal(p.info)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, p.into); err != nil {
			t.Fatal(err)
		}
	}
	return differences(name, g, w)
}

// Every table with which a real cluster set itself up is made the same here
// from the same text.
func TestSystemTablesFromTheirText(t *testing.T) {
	r := readRecording(t, "../../../testdata/golden/01_types_int")
	made := 0
	for _, key := range slices.Sorted(maps.Keys(r.base)) {
		if !strings.HasPrefix(key, "DDLJobHistory/") {
			continue
		}
		var job JobInfo
		if err := json.Unmarshal(r.base[key], &job); err != nil {
			t.Fatal(err)
		}
		if job.Type != ActionCreateTable && job.Type != ActionCreateView {
			continue
		}
		c := New()
		db := &DBInfo{ID: job.SchemaID, Name: MakeName(job.SchemaName), Charset: "utf8mb4", Collate: "utf8mb4_bin", State: StatePublic}
		text, err := json.Marshal(db)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(KV{rawKey(dbKey(db.ID)), text}, 1); err != nil {
			t.Fatal(err)
		}
		jobs, err := c.Plan(job.Query, Session{DB: job.SchemaName, SQLMode: job.SQLMode, Clustered: ClusteredIntOnly})
		if err != nil {
			t.Errorf("%s: %v", job.TableName, err)
			continue
		}
		var got *TableInfo
		for at := uint64(100); !jobs[0].Ended(); at += 100 {
			s, err := jobs[0].Next(1)
			if err != nil {
				t.Fatal(err)
			}
			got = s.Job.Binlog.TableInfo
		}
		want := job.Binlog.TableInfo
		got.ID, got.UpdateTS = want.ID, want.UpdateTS
		if want.View != nil {
			got.View, want.View = nil, nil // names inside of its functions are restored by the whole server
		}
		made++
		if diff := compareInfo(t, job.TableName, got, want); len(diff) > 0 {
			t.Errorf("%s:\n%s", job.Query, strings.Join(diff, "\n"))
		}
	}
	if made < 50 {
		t.Errorf("%d tables made", made)
	}
}
