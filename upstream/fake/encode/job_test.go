package encode_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// Every job row that a TiDB wrote is what Job and FinishedJob write, and every
// metadata key is what HashKey and StringKey make.
func TestRecordedJobsAndMetadataComeBackToTheByte(t *testing.T) {
	jobs, finished, meta := 0, 0, 0
	for _, name := range []string{"01_types_int", "12_ddl_table", "13_ddl_column", "18_batch_create"} {
		s := shapes{databases: map[int64]*schema.DBInfo{}, versions: map[int64][]version{}}
		var rows []change
		replay(t, filepath.Join(golden.Dir(t), name), func(c change) error {
			id, _, ok := mount.ParseRecordKey(c.key)
			if ok && len(c.value) > 0 && (id == mount.JobTableID || id == mount.HistoryTableID) {
				rows = append(rows, c)
			}
			if c.key[0] == 'm' {
				meta++
				if err := checkMetaKey(c.key); err != nil {
					return err
				}
			}
			return s.learn(c)
		})
		for _, c := range rows {
			id, _, _ := mount.ParseRecordKey(c.key)
			v, ok := s.at(id, c.commitTS)
			if !ok {
				t.Fatalf("no table has the id %d", id)
			}
			table, err := v.info.Table(&schema.DBInfo{ID: v.db, Name: schema.Name{O: "mysql"}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			row, err := mount.Row(&event.RawKV{Op: event.Put, Key: c.key, Value: c.value}, table)
			if err != nil {
				t.Fatal(err)
			}
			var key, value []byte
			if id == mount.JobTableID {
				jobs++
				key, value, err = jobOf(row).Row()
			} else {
				finished++
				key, value, err = finishedJobOf(row).Row()
			}
			if err != nil || string(key) != string(c.key) || string(value) != string(c.value) {
				t.Fatalf("%s: %x, %v, want %x:\n%x\n%x", name, key, err, c.key, value, c.value)
			}
		}
	}
	if jobs < 100 || finished < 50 || meta < 1000 {
		t.Fatalf("too little was compared: %d jobs, %d finished ones, %d metadata keys", jobs, finished, meta)
	}
}

func cellOf(row *event.Row, column string) event.Value { return row.After[row.Table.Column(column)] }

func stringOf(row *event.Row, column string) string { return string(cellOf(row, column).Raw()) }

func jobOf(row *event.Row) encode.Job {
	return encode.Job{
		ID:         cellOf(row, "job_id").Int(),
		Reorg:      cellOf(row, "reorg").Int() != 0,
		SchemaIDs:  stringOf(row, "schema_ids"),
		TableIDs:   stringOf(row, "table_ids"),
		Meta:       cellOf(row, "job_meta").Raw(),
		Type:       cellOf(row, "type").Int(),
		Processing: cellOf(row, "processing").Int() != 0,
	}
}

func finishedJobOf(row *event.Row) encode.FinishedJob {
	t := cellOf(row, "create_time").DateTime()
	return encode.FinishedJob{
		ID:        cellOf(row, "job_id").Int(),
		Meta:      cellOf(row, "job_meta").Raw(),
		Schema:    stringOf(row, "db_name"),
		Table:     stringOf(row, "table_name"),
		SchemaIDs: stringOf(row, "schema_ids"),
		TableIDs:  stringOf(row, "table_ids"),
		Created:   encode.Moment{Year: t.Year, Month: t.Month, Day: t.Day, Hour: t.Hour, Minute: t.Minute, Second: t.Second},
	}
}

func checkMetaKey(key []byte) error {
	name, rest, err := span.CutKey(key[1:])
	if err != nil || len(rest) < 8 {
		return fmt.Errorf("metadata key %x: %w", key, err)
	}
	var again []byte
	switch kind := binary.BigEndian.Uint64(rest); kind {
	case 's':
		again = encode.StringKey(string(name))
	case 'h':
		field, _, err := span.CutKey(rest[8:])
		if err != nil {
			return err
		}
		again = encode.HashKey(string(name), string(field))
	default:
		return fmt.Errorf("metadata key %x of kind %c", key, rune(kind))
	}
	if string(again) != string(key) {
		return fmt.Errorf("metadata key %x came back as %x", key, again)
	}
	return nil
}
