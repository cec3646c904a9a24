package mount

import (
	"fmt"

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
	id, handle, isRow := ParseRecordKey(raw.Key)
	switch {
	case !isRow || len(handle) != intHandle:
		return row, false, nil
	case id == HistoryTableID:
		column, history = c.History, true
	case id != JobTableID:
		return row, false, nil
	}
	row = schema.JobRow{StartTS: raw.StartTS, CommitTS: raw.CommitTS, Delete: raw.Op == event.Delete, History: history}
	value, jobID := raw.Value, comparableInt(handle)
	if row.Delete {
		value = raw.Old
		row.Job = &schema.Job{ID: jobID}
		if len(value) == 0 {
			return row, true, nil
		}
	}
	meta, err := jobMeta(raw.Key, value, column)
	if err != nil {
		return row, false, cdcerr.InvalidDDLJob.Wrap(err, "row of job %d at %d", jobID, raw.CommitTS)
	}
	if row.Job, err = schema.ParseJob(meta); err != nil {
		return row, false, cdcerr.InvalidDDLJob.Wrap(err, "row of job %d at %d", jobID, raw.CommitTS)
	}
	if row.Job.ID != jobID {
		return row, false, cdcerr.InvalidDDLJob.New("row of job %d at %d holds job %d", jobID, raw.CommitTS, row.Job.ID)
	}
	return row, true, nil
}

// jobMeta is the cell job_meta of a job row, whatever the format.
func jobMeta(key, value []byte, column int64) ([]byte, error) {
	r := reader{
		m: new(Mounter), key: key, handle: key[handleAt:],
		t: &event.Table{Columns: []event.Column{{ID: column, Name: "job_meta", Type: event.TypeLongBlob, Charset: "binary"}}},
	}
	cells, err := r.image(value, true)
	switch {
	case err != nil:
		return nil, err
	case cells[0].Kind() != event.Bytes:
		return nil, fmt.Errorf("the row (%d bytes) has no column job_meta with id %d", len(value), column)
	}
	return cells[0].Raw(), nil
}
