package mount

import (
	"encoding/binary"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/span"
)

// The tables in which TiDB keeps its DDL jobs: fixed ids, whatever the cluster.
const (
	JobTableID     span.TableID = 281474976710654 // mysql.tidb_ddl_job
	HistoryTableID span.TableID = 281474976710652 // mysql.tidb_ddl_history
)

// JobColumns are the ids of the column job_meta in both job tables.
type JobColumns struct {
	Job     int64
	History int64
}

// DefaultJobColumns are the ids with which TiDB creates the job tables.
func DefaultJobColumns() JobColumns { return JobColumns{Job: 5, History: 2} }

// FindJobColumns looks the columns up by name in the tables as the snapshot has
// them; a table that is nil (too old a cluster) leaves the default.
func FindJobColumns(job, history *event.Table) (JobColumns, error) {
	out := DefaultJobColumns()
	for _, at := range []struct {
		table *event.Table
		id    *int64
	}{{job, &out.Job}, {history, &out.History}} {
		if at.table == nil {
			continue
		}
		i := at.table.Column("job_meta")
		if i < 0 {
			return out, cdcerr.SchemaSnapshot.New("table %s (id %d) has no column job_meta", at.table.FullName(), at.table.ID)
		}
		*at.id = at.table.Columns[i].ID
	}
	return out, nil
}

// JobRow reads a change of a DDL job table with the default columns.
func JobRow(raw *event.RawKV) (schema.JobRow, bool, error) { return DefaultJobColumns().JobRow(raw) }

// JobRow reads a change of a DDL job table. ok is false for a key that is no
// row of one. A deleted row's job is read from the old value where there is
// one; else it holds the id alone.
func (c JobColumns) JobRow(raw *event.RawKV) (row schema.JobRow, ok bool, err error) {
	column, history := c.Job, false
	id, handle, isRow := jobKey(raw.Key)
	switch {
	case !isRow:
		return row, false, nil
	case id == HistoryTableID:
		column, history = c.History, true
	case id != JobTableID:
		return row, false, nil
	}
	row = schema.JobRow{StartTS: raw.StartTS, CommitTS: raw.CommitTS, Delete: raw.Op == event.Delete, History: history}
	value := raw.Value
	if row.Delete {
		value = raw.Old
		row.Job = &schema.Job{ID: handle}
		if len(value) == 0 {
			return row, true, nil
		}
	}
	meta, err := bytesCell(value, column)
	if err != nil {
		return row, false, cdcerr.InvalidDDLJob.Wrap(err, "row of job %d at %d", handle, raw.CommitTS)
	}
	if row.Job, err = schema.ParseJob(meta); err != nil {
		return row, false, cdcerr.InvalidDDLJob.Wrap(err, "row of job %d at %d", handle, raw.CommitTS)
	}
	if row.Job.ID != handle {
		return row, false, cdcerr.InvalidDDLJob.New("row of job %d at %d holds job %d", handle, raw.CommitTS, row.Job.ID)
	}
	return row, true, nil
}

// jobKey takes t<table>_r<int handle> apart; ok is false for any other key.
func jobKey(key []byte) (table, handle int64, ok bool) {
	if len(key) != 19 || key[0] != 't' || key[9] != '_' || key[10] != 'r' {
		return 0, 0, false
	}
	return orderedInt(key[1:]), orderedInt(key[11:]), true
}

func orderedInt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

// bytesCell finds one string cell of a row of either format. TiDB's own
// sessions write the old one whatever the cluster's age.
func bytesCell(row []byte, column int64) ([]byte, error) {
	if len(row) > 0 && row[0] == 0x80 {
		return newRowCell(row, column)
	}
	for rest := row; len(rest) > 0 && rest[0] != 0; {
		id, cell, next, err := cutPair(rest)
		if err != nil {
			return nil, err
		}
		if id == column {
			return cell, nil
		}
		rest = next
	}
	return nil, cdcerr.InvalidDDLJob.New("column %d is not in the row (%d bytes, old format)", column, len(row))
}

// cutPair takes one column id with its value off the front of an old-format
// row. cell is nil for all that is no string.
func cutPair(b []byte) (id int64, cell, rest []byte, err error) {
	id, n := int64(0), 0
	if len(b) > 0 && b[0] == 0x08 {
		id, n = binary.Varint(b[1:])
	}
	if n <= 0 || len(b) < n+2 {
		return 0, nil, nil, cdcerr.InvalidDDLJob.New("%d bytes do not begin with a column id and a value", len(b))
	}
	flag, b := b[1+n], b[2+n:]
	size := 0
	switch flag {
	case 0x00: // NULL
	case 0x02: // bytes behind their length
		length, n := binary.Varint(b)
		if n <= 0 || length < 0 || length > int64(len(b)-n) {
			return 0, nil, nil, cdcerr.InvalidDDLJob.New("column %d: a string of %d bytes, %d are left", id, length, len(b))
		}
		end := n + int(length)
		return id, b[n:end:end], b[end:], nil
	case 0x03, 0x04, 0x05, 0x07: // eight bytes of a number
		size = 8
	case 0x08, 0x09: // a number of as many bytes as it needs
		if _, size = binary.Uvarint(b); size <= 0 {
			return 0, nil, nil, cdcerr.InvalidDDLJob.New("column %d: a number without an end", id)
		}
	default:
		return 0, nil, nil, cdcerr.InvalidDDLJob.New("column %d: no job table has values of kind %#02x", id, flag)
	}
	if len(b) < size {
		return 0, nil, nil, cdcerr.InvalidDDLJob.New("column %d: %d bytes are left of a value of %d", id, len(b), size)
	}
	return id, nil, b[size:], nil
}

// newRowCell finds one cell of a row of the new format: two counts, the ids of
// all columns that are not NULL and of those that are, the ends of the values,
// the values.
func newRowCell(row []byte, column int64) ([]byte, error) {
	corrupt := func(why string) error {
		return cdcerr.InvalidDDLJob.New("column %d of a row (%d bytes, new format): %s", column, len(row), why)
	}
	if len(row) < 6 {
		return nil, corrupt("no header")
	}
	idSize, endSize := 1, 2
	if row[1]&1 != 0 {
		idSize, endSize = 4, 4
	}
	values := int(binary.LittleEndian.Uint16(row[2:]))
	nulls := int(binary.LittleEndian.Uint16(row[4:]))
	ends := 6 + (values+nulls)*idSize
	data := ends + values*endSize
	if len(row) < data {
		return nil, corrupt("its directory is cut short")
	}
	end := func(i int) int {
		if i < 0 {
			return 0
		}
		return littleEndian(row[ends+i*endSize:], endSize)
	}
	for i := range values {
		if int64(littleEndian(row[6+i*idSize:], idSize)) != column {
			continue
		}
		from, to := data+end(i-1), data+end(i)
		if from > to || to > len(row) {
			return nil, corrupt("its value lies outside")
		}
		return row[from:to:to], nil
	}
	return nil, corrupt("it has no value")
}

func littleEndian(b []byte, size int) int {
	switch size {
	case 1:
		return int(b[0])
	case 2:
		return int(binary.LittleEndian.Uint16(b))
	}
	return int(binary.LittleEndian.Uint32(b))
}
