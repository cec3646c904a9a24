package schema

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Binlog is what a job says about the schema that it makes.
type Binlog struct {
	SchemaVersion      int64
	DBInfo             *DBInfo
	TableInfo          *TableInfo
	FinishedTS         uint64
	MultipleTableInfos []*TableInfo
}

// SubJob is one part of a multi-schema change.
type SubJob struct {
	Type        event.Action    `json:"type"`
	RawArgs     json.RawMessage `json:"raw_args"`
	SchemaState int             `json:"schema_state"`
	State       int             `json:"state"`
}

// ReorgMeta is the session of a job that rewrites data.
type ReorgMeta struct {
	SQLMode  uint64 `json:"sql_mode"`
	Location *Zone  `json:"location"`
}

// Zone is a session's time zone: a name, or an offset in seconds east of UTC.
type Zone struct {
	Name   string `json:"name"`
	Offset int    `json:"offset"`
}

// MultiSchema lists the parts of a multi-schema change.
type MultiSchema struct {
	SubJobs []*SubJob `json:"sub_jobs"`
}

// Job is a DDL job at one step of its life.
type Job struct {
	ID          int64           `json:"id"`
	Type        event.Action    `json:"type"`
	SchemaID    int64           `json:"schema_id"`
	TableID     int64           `json:"table_id"`
	SchemaName  string          `json:"schema_name"`
	TableName   string          `json:"table_name"`
	State       int             `json:"state"`
	RawArgs     json.RawMessage `json:"raw_args"`
	SchemaState int             `json:"schema_state"`
	StartTS     uint64          `json:"start_ts"`
	Query       string          `json:"query"`
	Binlog      *Binlog         `json:"binlog"`
	// Version tells how arguments are written: 1 by place, 2 by name.
	Version     int64        `json:"version"`
	ReorgMeta   *ReorgMeta   `json:"reorg_meta"`
	Multi       *MultiSchema `json:"multi_schema_info"`
	Charset     string       `json:"charset"`
	Collate     string       `json:"collate"`
	BDRRole     string       `json:"bdr_role"`
	WriteSource uint64       `json:"cdc_write_source"`
	SQLMode     uint64       `json:"sql_mode"`
}

// ParseJob reads the job_meta of a row of a DDL job table.
func ParseJob(b []byte) (*Job, error) {
	j := new(Job)
	if err := json.Unmarshal(b, j); err != nil {
		return nil, cdcerr.InvalidDDLJob.Wrap(err, "job_meta (%d bytes) is not the JSON of a job", len(b))
	}
	if j.ID == 0 {
		return nil, cdcerr.InvalidDDLJob.New("job_meta (%d bytes) names no job", len(b))
	}
	if j.Binlog == nil {
		j.Binlog = &Binlog{}
	}
	return j, nil
}

// queryShown is how much of a statement a message shows.
const queryShown = 200

// Named is the job for a message: what it does, to what, and the statement.
func (j *Job) Named() string {
	query := strings.Join(strings.Fields(j.Query), " ")
	if len(query) > queryShown {
		query = strings.ToValidUTF8(query[:queryShown], "") + "…"
	}
	return fmt.Sprintf("%s on %s.%s, %q", j.Type, j.SchemaName, j.TableName, query)
}

// JobRow is one committed change of a row of mysql.tidb_ddl_job, or with
// History of mysql.tidb_ddl_history. A deleted row's Job holds its ID at least.
type JobRow struct {
	StartTS  tso.TS
	CommitTS tso.TS
	Delete   bool
	History  bool
	Job      *Job
}
