package oracle

import (
	"errors"
	"fmt"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/verify"
)

// Store fills in what a live cluster holds at a ts: from its store itself, not
// over the wire, by the schema that counts there: see Past.
func Store(c *fake.Cluster, at tso.TS, wanted *filter.Filter, into *verify.Expected) error {
	_, err := Tables(c, at, wanted, into)
	return err
}

// Tables is Store that tells what the tables are, too.
func Tables(c *fake.Cluster, at tso.TS, wanted *filter.Filter, into *verify.Expected) (tables []*event.Table, failed error) {
	return Snapshot(c.Snapshot(), at, wanted, into)
}

// Snapshot is Tables of a cluster's data, whatever became of the cluster.
func Snapshot(store mvcc.Snapshot, at tso.TS, wanted *filter.Filter, into *verify.Expected) (tables []*event.Table, failed error) {
	p, err := NewPast(store)
	if err != nil {
		return nil, err
	}
	return p.At(at, wanted, into)
}

// tableAt is one table with its rows.
func tableAt(store mvcc.Snapshot, t *event.Table, at tso.TS) (*verify.ExpectedTable, error) {
	w := &verify.ExpectedTable{DB: t.Schema, Name: t.Name, Type: "BASE TABLE", ID: t.ID}
	switch t.Kind {
	case event.View:
		w.Type = "VIEW"
		return w, nil
	case event.Sequence:
		w.Type = "SEQUENCE"
		return w, nil
	}
	for _, p := range t.Partitions {
		if w.Partitions == nil {
			w.Partitions = map[string]int64{}
		}
		w.Partitions[p.Name] = p.ID
	}
	for i := range t.Columns {
		w.Columns = append(w.Columns, t.Columns[i].Name)
	}
	m := mount.New()
	var failed error
	for _, id := range t.PhysicalIDs() {
		start := span.RecordPrefix(id)
		end := append(start[:len(start)-1:len(start)-1], start[len(start)-1]+1)
		store.Scan(start, end, mvcc.Read{At: at}, false, func(p mvcc.Pair) bool {
			row, err := m.Row(&event.RawKV{Op: event.Put, StartTS: at.Prev(), CommitTS: at, Key: p.Key, Value: p.Value}, t)
			if err != nil || p.Locked != nil {
				failed = errors.Join(fmt.Errorf("%s, key %X, locked %v", t.FullName(), p.Key, p.Locked != nil), err)
				return false
			}
			cells := make([]verify.Cell, len(t.Columns))
			for i := range t.Columns {
				cells[i] = cellAt(row, i)
			}
			w.Rows = append(w.Rows, cells)
			return true
		})
	}
	return w, failed
}

// cellAt is a cell of a row as it stands. Virtual columns are in no row: those
// of the workloads all say id + 1.
func cellAt(row *event.Row, i int) verify.Cell {
	c := &row.Table.Columns[i]
	if c.Generated != event.Virtual {
		return verify.CellOf(row.After[i], c)
	}
	return verify.Text(fmt.Sprint(row.After[row.Table.Column("id")].Int() + 1))
}
