package api

import (
	"encoding/json"
	"time"

	"github.com/sluice-cdc/sluice/tso"
)

// The JSON forms of answers and requests. Names, and what is left out when it is
// empty, are TiCDC's; what is ours is marked.

// ErrorBody is the answer to a request that failed.
type ErrorBody struct {
	Message string `json:"error_msg"`
	Code    string `json:"error_code"`
	// Ours: what the code means, and what to do about it.
	Meaning string `json:"meaning,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// Empty is the answer of what has nothing to say.
type Empty struct{}

// List is a list of version 2.
type List[T any] struct {
	Total int `json:"total"`
	Items []T `json:"items"`
}

func list[T any](items []T) List[T] {
	if items == nil {
		items = []T{}
	}
	return List[T]{Total: len(items), Items: items}
}

// ServerStatus is one capture, as TiUP and TiDB Operator ask for it.
type ServerStatus struct {
	Version   string `json:"version"`
	GitHash   string `json:"git_hash"`
	ID        string `json:"id"`
	ClusterID string `json:"cluster_id"`
	PID       int    `json:"pid"`
	IsOwner   bool   `json:"is_owner"`
	Liveness  int    `json:"liveness"` // 0 takes tables, 1 gives them away
}

// Capture is one member of the cluster.
type Capture struct {
	ID        string `json:"id"`
	IsOwner   bool   `json:"is_owner"`
	Address   string `json:"address"`
	ClusterID string `json:"cluster_id"`
}

// LogLevel is a request to say more or less.
type LogLevel struct {
	Level string `json:"log_level"`
}

// Timestamp is the present of the upstream.
type Timestamp struct {
	Physical int64 `json:"timestamp"` // milliseconds
	Logical  int64 `json:"logic_time"`
}

// PDConfig says which PD, where it is not the server's own. This release follows
// one upstream: every field must be empty.
type PDConfig struct {
	PDAddrs       []string `json:"pd_addrs,omitempty"`
	CAPath        string   `json:"ca_path,omitempty"`
	CertPath      string   `json:"cert_path,omitempty"`
	KeyPath       string   `json:"key_path,omitempty"`
	CertAllowedCN []string `json:"cert_allowed_cn,omitempty"`
}

// RunningError is what went wrong with a changefeed, and when and where.
type RunningError struct {
	Time    time.Time `json:"time"`
	Addr    string    `json:"addr"`
	Code    string    `json:"code"`
	Message string    `json:"message"`
}

// FeedItem is a changefeed in a list.
type FeedItem struct {
	UpstreamID     uint64        `json:"upstream_id"`
	Namespace      string        `json:"namespace"`
	Keyspace       string        `json:"keyspace"`
	ID             string        `json:"id"`
	State          string        `json:"state"`
	CheckpointTSO  tso.TS        `json:"checkpoint_tso"`
	CheckpointTime Time          `json:"checkpoint_time"`
	Error          *RunningError `json:"error"`
}

// FeedInfo is all of a changefeed.
type FeedInfo struct {
	UpstreamID     uint64          `json:"upstream_id"`
	Namespace      string          `json:"namespace"`
	Keyspace       string          `json:"keyspace"`
	ID             string          `json:"id"`
	SinkURI        string          `json:"sink_uri"` // with its secrets masked
	CreateTime     time.Time       `json:"create_time"`
	StartTS        tso.TS          `json:"start_ts"`
	TargetTS       tso.TS          `json:"target_ts"`
	AdminJobType   int             `json:"admin_job_type"`
	Config         json.RawMessage `json:"config"`
	State          string          `json:"state"`
	Error          *RunningError   `json:"error"`
	CreatorVersion string          `json:"creator_version"`
	ResolvedTS     tso.TS          `json:"resolved_ts"`
	CheckpointTS   tso.TS          `json:"checkpoint_ts"`
	CheckpointTime Time            `json:"checkpoint_time"`
	TaskStatus     []TaskStatus    `json:"task_status"`
	// MaintainerAddr is the capture that writes.
	MaintainerAddr string `json:"maintainer_addr,omitempty"`
	// Notes are what whoever has made or changed it has to know.
	Notes []string `json:"notes,omitempty"`
}

// TaskStatus is what one capture does for a changefeed.
type TaskStatus struct {
	CaptureID string  `json:"capture_id"`
	TableIDs  []int64 `json:"table_ids"`
	// Tables is how many there are, also where their ids were not asked for.
	Tables int `json:"-"`
}

// FeedStatus is a changefeed in short.
type FeedStatus struct {
	State        string        `json:"state"`
	ResolvedTS   tso.TS        `json:"resolved_ts"`
	CheckpointTS tso.TS        `json:"checkpoint_ts"`
	LastError    *RunningError `json:"last_error,omitempty"`
	LastWarning  *RunningError `json:"last_warning,omitempty"`
	// Count is ours: rows that the sink has taken since its capture runs it.
	Count uint64 `json:"count"`
}

// Synced tells whether downstream has all that upstream had.
type Synced struct {
	Synced           bool   `json:"synced"`
	SinkCheckpointTS Time   `json:"sink_checkpoint_ts"`
	PullerResolvedTS Time   `json:"puller_resolved_ts"`
	LastSyncedTS     Time   `json:"last_synced_ts"`
	NowTS            Time   `json:"now_ts"`
	Info             string `json:"info"`
}

// CreateFeed asks for a new changefeed, or what one would replicate.
type CreateFeed struct {
	ID            string          `json:"changefeed_id"`
	Namespace     string          `json:"namespace,omitempty"`
	Keyspace      string          `json:"keyspace,omitempty"`
	StartTS       tso.TS          `json:"start_ts"`
	TargetTS      tso.TS          `json:"target_ts"`
	SinkURI       string          `json:"sink_uri"`
	ReplicaConfig json.RawMessage `json:"replica_config"`
	// Ours: the changefeed is created stopped, and holds what it has still to read
	// against garbage collection as one that was paused does.
	Paused bool `json:"paused,omitempty"`
	// Ours: refuse unless this is the cluster that is replicated; 0 is not asked.
	UpstreamID uint64 `json:"upstream_id,omitempty"`
	PDConfig
}

// NoTarget as the target-ts of an update takes the target away: TiCDC's clients send 0
// for what they do not change, and nothing ever comes this far.
const NoTarget = tso.Max

// UpdateFeed asks for other settings; what is left out stays.
type UpdateFeed struct {
	StartTS       *tso.TS         `json:"start_ts,omitempty"` // refused: it is history
	TargetTS      *tso.TS         `json:"target_ts"`
	SinkURI       *string         `json:"sink_uri"`
	ReplicaConfig json.RawMessage `json:"replica_config"`
	PDConfig
}

// ResumeFeed asks to go on, from another checkpoint where one is given.
type ResumeFeed struct {
	OverwriteCheckpointTS tso.TS `json:"overwrite_checkpoint_ts"`
	PDConfig
}

// Tables is what a changefeed would replicate, and what it could not.
type Tables struct {
	Ineligible []Table `json:"ineligible_tables"`
	Eligible   []Table `json:"eligible_tables"`
	All        []Table `json:"all_tables,omitempty"`
	// BegunDDLs is ours: statements that were under way at the start-ts. TiDB used
	// the shape that they give already, so that they count as carried out
	// downstream, as they are by whoever copied the data at the start-ts.
	BegunDDLs []string `json:"begun_ddls,omitempty"`
	// Notes are ours: what whoever makes the changefeed has to know.
	Notes []string `json:"notes,omitempty"`
}

// Table is one table, and, ours, why it cannot be replicated.
type Table struct {
	Schema      string `json:"database_name"`
	Table       string `json:"table_name"`
	ID          int64  `json:"table_id"`
	IsPartition bool   `json:"is_partition"`
	Reason      string `json:"reason,omitempty"`
}

// Processor names a changefeed on a capture.
type Processor struct {
	Namespace    string `json:"namespace"`
	Keyspace     string `json:"keyspace"`
	ChangefeedID string `json:"changefeed_id"`
	CaptureID    string `json:"capture_id"`
}

// ProcessorDetail is what the capture replicates.
type ProcessorDetail struct {
	TableIDs []int64 `json:"table_ids"`
}

// Drained is how many tables a capture still has to give away and, ours, what they wait
// for.
type Drained struct {
	CurrentTableCount int    `json:"current_table_count"`
	Reason            string `json:"reason,omitempty"`
}

// ResolveLock asks to end the locks of one region.
type ResolveLock struct {
	RegionID uint64 `json:"region_id"`
	TS       tso.TS `json:"ts"`
	PDConfig
}

// Pair is one key of the metadata.
type Pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Time is a time as TiCDC writes it in lists. The zero time is null: nothing
// happened in the year 1.
type Time time.Time

const timeForm = "2006-01-02 15:04:05.000"

// MarshalJSON is the time without a zone, which is UTC's.
func (t Time) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + time.Time(t).UTC().Format(timeForm) + `"`), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Time) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*t = Time{}
		return nil
	}
	v, err := time.Parse(`"`+timeForm+`"`, string(text))
	*t = Time(v)
	return err
}
