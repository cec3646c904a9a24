package mount_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/mount"
)

// seeds are recorded rows of many tables, small ones, and their tables.
func seeds(f *testing.F, use func(table int, raw *event.RawKV)) []*event.Table {
	f.Helper()
	var tables []*event.Table
	for _, name := range golden.Recordings(f) {
		if strings.Contains(name, "/workloads/") || strings.Contains(name, "/kafka/") || !strings.ContainsAny(filepath.Base(name)[:1], "0o") {
			continue // the first recordings have every type, key and format
		}
		taken := map[*event.Table]int{}
		eachRow(f, name, func(raw *event.RawKV, table *event.Table) {
			if table == nil || len(raw.Value) > 400 || taken[table] == 2 {
				return
			}
			if taken[table]++; taken[table] == 1 {
				tables = append(tables, table)
			}
			use(len(tables)-1, raw)
		})
	}
	return tables
}

// FuzzRow: whatever bytes come, the end is a row whose every cell can be
// printed, or an error with a code.
func FuzzRow(f *testing.F) {
	tables := seeds(f, func(table int, raw *event.RawKV) { f.Add(uint(table), raw.Key, raw.Value, raw.Old) })
	f.Fuzz(func(t *testing.T, table uint, key, value, old []byte) {
		raw := &event.RawKV{Op: event.Put, Key: key, Value: value, Old: old}
		row, err := mount.Row(raw, tables[table%uint(len(tables))])
		if err != nil {
			if cdcerr.Of(err) == nil || cdcerr.Unexpected.Is(err) {
				t.Fatal(err)
			}
			return
		}
		for _, image := range []event.Image{row.Before, row.After} {
			for i, v := range image {
				c := &row.Table.Columns[i]
				if text := v.Text(c); len(text) > 64+20*len(value)+20*len(old)+20*len(key)+len(strings.Join(c.Elems, ",")) && v.Kind() != event.Vector {
					t.Fatalf("%s: %d bytes of text", c.Name, len(text))
				}
			}
		}
	})
}

// FuzzHandle does the same for keys.
func FuzzHandle(f *testing.F) {
	tables := seeds(f, func(table int, raw *event.RawKV) { f.Add(uint(table), raw.Key) })
	f.Fuzz(func(t *testing.T, table uint, key []byte) {
		of := tables[table%uint(len(tables))]
		_, handle, ok := mount.ParseRecordKey(key)
		if !ok {
			return
		}
		values, err := mount.ParseHandle(handle, of)
		if err != nil {
			if !cdcerr.CorruptKey.Is(err) {
				t.Fatal(err)
			}
			return
		}
		for i, v := range values {
			if of.Handle.Kind == event.CommonHandle {
				v.Text(&of.Columns[of.Handle.Parts[i].Column])
			}
		}
	})
}

// FuzzJobRow: a row of a table of DDL jobs is a job, none, or an error with a
// code, whatever the format of the row and of what is in it.
func FuzzJobRow(f *testing.F) {
	for _, name := range golden.Recordings(f) {
		if strings.Contains(golden.Name(f, name), "/") {
			continue
		}
		taken := map[bool]int{} // by whether it is history
		golden.Stream(f, name, func(l golden.Line) {
			id, _, ok := mount.ParseRecordKey(l.Key)
			history := id == mount.HistoryTableID
			if !ok || l.Type != "PREWRITE" || (!history && id != mount.JobTableID) || taken[history] == 4 {
				return
			}
			taken[history]++
			f.Add([]byte(l.Key), []byte(l.Value), []byte(l.Old), l.Op == "DELETE")
		})
	}
	f.Fuzz(func(t *testing.T, key, value, old []byte, deleted bool) {
		raw := &event.RawKV{Op: event.Put, StartTS: 1, CommitTS: 2, Key: key, Value: value, Old: old}
		if deleted {
			raw.Op = event.Delete
		}
		row, ok, err := mount.JobRow(raw)
		switch {
		case err != nil && !cdcerr.InvalidDDLJob.Is(err):
			t.Fatal(err)
		case err == nil && ok && row.Job == nil:
			t.Fatal("a row without a job")
		}
	})
}
