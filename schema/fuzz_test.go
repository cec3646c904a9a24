package schema_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/schema"
)

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
