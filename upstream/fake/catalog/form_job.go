package catalog

import "encoding/json"

// JobState is where a DDL job stands in its queue.
type JobState uint8

// The states of a job, as TiDB stores them.
const (
	JobNone         JobState = 0
	JobRunning      JobState = 1
	JobRollingback  JobState = 2
	JobRollbackDone JobState = 3
	JobDone         JobState = 4
	JobCancelled    JobState = 5
	JobSynced       JobState = 6
	JobCancelling   JobState = 7
	JobQueueing     JobState = 8
)

// JobInfo is a DDL job as it stands in job_meta.
type JobInfo struct {
	ID                int64             `json:"id"`
	Type              Action            `json:"type"`
	SchemaID          int64             `json:"schema_id"`
	TableID           int64             `json:"table_id"`
	SchemaName        string            `json:"schema_name"`
	TableName         string            `json:"table_name"`
	State             JobState          `json:"state"`
	Warning           *JobError         `json:"warning"`
	Err               *JobError         `json:"err"`
	ErrCount          int64             `json:"err_count"`
	RowCount          int64             `json:"row_count"`
	RawArgs           json.RawMessage   `json:"raw_args"`
	SchemaState       State             `json:"schema_state"`
	SnapshotVer       uint64            `json:"snapshot_ver"`
	RealStartTS       uint64            `json:"real_start_ts"`
	StartTS           uint64            `json:"start_ts"`
	DependencyID      int64             `json:"dependency_id"`
	Query             string            `json:"query"`
	Binlog            HistoryInfo       `json:"binlog"`
	Version           int64             `json:"version"`
	Reorg             *ReorgMeta        `json:"reorg_meta"`
	Multi             *MultiInfo        `json:"multi_schema_info"`
	Priority          int               `json:"priority"`
	SeqNum            uint64            `json:"seq_num"`
	Charset           string            `json:"charset"`
	Collate           string            `json:"collate"`
	Involving         []Involving       `json:"involving_schema_info,omitempty"`
	AdminOperator     int               `json:"admin_operator"`
	Trace             *TraceInfo        `json:"trace_info"`
	BDRRole           string            `json:"bdr_role"`
	CDCWriteSource    uint64            `json:"cdc_write_source"`
	LocalMode         bool              `json:"local_mode"`
	SQLMode           uint64            `json:"sql_mode"`
	SessionVars       map[string]string `json:"session_vars,omitempty"`
	LastSchemaVersion int64             `json:"last_schema_version"`
}

// HistoryInfo is what a job leaves for those who follow it.
type HistoryInfo struct {
	SchemaVersion      int64
	DBInfo             *DBInfo
	TableInfo          *TableInfo
	FinishedTS         uint64
	MultipleTableInfos []*TableInfo
}

// JobError is why a job failed.
type JobError struct {
	Class   int    `json:"class"`
	Code    int    `json:"code"`
	Message string `json:"message"`
	RFCCode string `json:"rfccode"`
}

// ReorgMeta is what a backfill needs to know.
type ReorgMeta struct {
	SQLMode           uint64               `json:"sql_mode"`
	Warnings          map[string]*JobError `json:"warnings"`
	WarningsCount     map[string]int64     `json:"warnings_count"`
	Location          *Location            `json:"location"`
	ReorgTp           int                  `json:"reorg_tp"`
	IsFastReorg       bool                 `json:"is_fast_reorg"`
	IsDistReorg       bool                 `json:"is_dist_reorg"`
	UseCloudStorage   bool                 `json:"use_cloud_storage"`
	ResourceGroupName string               `json:"resource_group_name"`
	Version           int64                `json:"version"`
	TargetScope       string               `json:"target_scope"`
	MaxNodeCount      int                  `json:"max_node_count"`
	AnalyzeState      int                  `json:"analyze_state"`
	Stage             int                  `json:"stage"`
	Concurrency       int                  `json:"concurrency"`
	BatchSize         int                  `json:"batch_size"`
	MaxWriteSpeed     int                  `json:"max_write_speed"`
}

// Location is a time zone: a name, or where it is empty an offset in seconds.
type Location struct {
	Name   string `json:"name"`
	Offset int    `json:"offset"`
}

// MultiInfo is the changes of a multi-schema change.
type MultiInfo struct {
	SubJobs    []*SubJob `json:"sub_jobs"`
	Revertible bool      `json:"revertible"`
	Seq        int32     `json:"seq"`
}

// SubJob is one change of a multi-schema change.
type SubJob struct {
	Type          Action          `json:"type"`
	RawArgs       json.RawMessage `json:"raw_args"`
	SchemaState   State           `json:"schema_state"`
	SnapshotVer   uint64          `json:"snapshot_ver"`
	RealStartTS   uint64          `json:"real_start_ts"`
	Revertible    bool            `json:"revertible"`
	State         JobState        `json:"state"`
	RowCount      int64           `json:"row_count"`
	Warning       *JobError       `json:"warning"`
	SchemaVersion int64           `json:"schema_version"`
	ReorgTp       int             `json:"reorg_tp"`
	ReorgStage    int             `json:"reorg_stage"`
	AnalyzeState  int             `json:"analyze_state"`
}

// Involving is what a job touches beside its own table.
type Involving struct {
	Database      string `json:"database,omitempty"`
	Table         string `json:"table,omitempty"`
	Policy        string `json:"policy,omitempty"`
	ResourceGroup string `json:"resource_group,omitempty"`
	Mode          int    `json:"mode,omitempty"`
}

// TraceInfo is which session a job came from.
type TraceInfo struct {
	SessionAlias string `json:"session_alias"`
	TraceID      []byte `json:"trace_id"`
	ConnectionID uint64 `json:"connection_id"`
}

// SchemaDiff says which table a schema version changed.
type SchemaDiff struct {
	Version             int64             `json:"version"`
	Type                Action            `json:"type"`
	SchemaID            int64             `json:"schema_id"`
	TableID             int64             `json:"table_id"`
	SubActionTypes      []byte            `json:"sub_action_types,omitempty"`
	OldTableID          int64             `json:"old_table_id"`
	OldSchemaID         int64             `json:"old_schema_id"`
	RegenerateSchemaMap bool              `json:"regenerate_schema_map"`
	ReadTableFromMeta   bool              `json:"read_table_from_meta,omitempty"`
	AffectedOptions     []*AffectedOption `json:"affected_options"`
}

// AffectedOption is one more table that a schema version changed.
type AffectedOption struct {
	SchemaID    int64 `json:"schema_id"`
	TableID     int64 `json:"table_id"`
	OldTableID  int64 `json:"old_table_id"`
	OldSchemaID int64 `json:"old_schema_id"`
}
