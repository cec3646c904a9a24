package changefeed

import (
	"time"

	"github.com/sluice-cdc/sluice/filter"
)

// Config is what an operator may say of a changefeed: the one type of the TOML
// file, of the API's JSON and of what etcd keeps. Every key of TiCDC's is there;
// Keys says what each one does. A pointer is nil where nothing was said.
type Config struct {
	MemoryQuota           uint64   `toml:"memory-quota" json:"memory_quota"`
	CaseSensitive         bool     `toml:"case-sensitive" json:"case_sensitive"`
	ForceReplicate        bool     `toml:"force-replicate" json:"force_replicate"`
	IgnoreIneligibleTable bool     `toml:"ignore-ineligible-table" json:"ignore_ineligible_table"`
	CheckGCSafePoint      bool     `toml:"check-gc-safe-point" json:"check_gc_safe_point"`
	EnableSyncPoint       bool     `toml:"enable-sync-point" json:"enable_sync_point"`
	SyncPointInterval     Duration `toml:"sync-point-interval" json:"sync_point_interval"`
	SyncPointRetention    Duration `toml:"sync-point-retention" json:"sync_point_retention"`
	BDRMode               bool     `toml:"bdr-mode" json:"bdr_mode"`
	EnableTableMonitor    bool     `toml:"enable-table-monitor" json:"enable_table_monitor"`
	ErrorStuckDuration    Duration `toml:"changefeed-error-stuck-duration" json:"changefeed_error_stuck_duration"`
	SQLMode               string   `toml:"sql-mode" json:"sql_mode,omitempty"`
	EnableOldValue        *bool    `toml:"enable-old-value" json:"enable_old_value,omitempty"`
	PerformanceMode       string   `toml:"performance-mode" json:"performance_mode,omitempty"`

	EventCollectorBatchCount *int `toml:"event-collector-batch-count" json:"event_collector_batch_count,omitempty"`
	EventCollectorBatchBytes *int `toml:"event-collector-batch-bytes" json:"event_collector_batch_bytes,omitempty"`

	EnableActiveActive            bool     `toml:"enable-active-active" json:"enable_active_active,omitempty"`
	ActiveActiveProgressInterval  Duration `toml:"active-active-progress-interval" json:"active_active_progress_interval"`
	ActiveActiveSyncStatsInterval Duration `toml:"active-active-sync-stats-interval" json:"active_active_sync_stats_interval"`

	Filter       filter.Config `toml:"filter" json:"filter"`
	Mounter      Mounter       `toml:"mounter" json:"mounter"`
	Sink         Sink          `toml:"sink" json:"sink"`
	Consistent   Consistent    `toml:"consistent" json:"consistent"`
	Scheduler    Scheduler     `toml:"scheduler" json:"scheduler"`
	Integrity    Integrity     `toml:"integrity" json:"integrity"`
	SyncedStatus SyncedStatus  `toml:"synced-status" json:"synced_status"`
}

// Mounter is how rows are decoded.
type Mounter struct {
	WorkerNum int `toml:"worker-num" json:"worker_num"`
}

// Integrity is about checksums of rows.
type Integrity struct {
	CheckLevel            string `toml:"integrity-check-level" json:"integrity_check_level"`
	CorruptionHandleLevel string `toml:"corruption-handle-level" json:"corruption_handle_level"`
}

// SyncedStatus is when a downstream counts as having everything; in seconds.
type SyncedStatus struct {
	SyncedCheckInterval int64 `toml:"synced-check-interval" json:"synced_check_interval"`
	CheckpointInterval  int64 `toml:"checkpoint-interval" json:"checkpoint_interval"`
}

// Consistent is the redo log.
type Consistent struct {
	Level                    string          `toml:"level" json:"level"`
	MaxLogSize               int64           `toml:"max-log-size" json:"max_log_size"`
	FlushInterval            int64           `toml:"flush-interval" json:"flush_interval"`
	MetaFlushInterval        int64           `toml:"meta-flush-interval" json:"meta_flush_interval"`
	EncodingWorkerNum        int             `toml:"encoding-worker-num" json:"encoding_worker_num"`
	FlushWorkerNum           int             `toml:"flush-worker-num" json:"flush_worker_num"`
	Storage                  URI             `toml:"storage" json:"storage,omitempty"`
	UseFileBackend           bool            `toml:"use-file-backend" json:"use_file_backend"`
	Compression              string          `toml:"compression" json:"compression,omitempty"`
	FlushConcurrency         int             `toml:"flush-concurrency" json:"flush_concurrency,omitempty"`
	MemoryUsage              ConsistentShare `toml:"memory-usage" json:"memory_usage"`
	EventCollectorBatchCount *int            `toml:"event-collector-batch-count" json:"event_collector_batch_count,omitempty"`
	// These two are Sluice's own. Where nothing is said of them nothing is kept, so that
	// a release that does not know them reads the changefeed.
	OnUpstreamLoss    string   `toml:"on-upstream-loss" json:"on_upstream_loss,omitempty"`
	UpstreamLossGrace Duration `toml:"upstream-loss-grace" json:"upstream_loss_grace,omitzero"`
}

// On tells whether there is a redo log.
func (c *Consistent) On() bool { return c.Level == "eventual" }

// Applies tells whether the owner is to apply the redo log once the upstream is lost.
func (c *Consistent) Applies() bool { return c.On() && c.OnUpstreamLoss == "apply" }

// Grace is how long the upstream has to be out of reach for that.
func (c *Consistent) Grace() time.Duration {
	if c.UpstreamLossGrace == 0 {
		return graceDefault
	}
	return c.UpstreamLossGrace.duration()
}

const graceDefault = 5 * time.Minute

// ConsistentShare is the redo log's part of the memory quota.
type ConsistentShare struct {
	MemoryQuotaPercentage uint64 `toml:"memory-quota-percentage" json:"memory_quota_percentage"`
	EventCachePercentage  uint64 `toml:"event-cache-percentage" json:"event_cache_percentage,omitempty"`
}

// Scheduler is how large tables are cut.
type Scheduler struct {
	EnableTableAcrossNodes     bool     `toml:"enable-table-across-nodes" json:"enable_table_across_nodes"`
	RegionPerSpan              int      `toml:"region-per-span" json:"region_per_span,omitempty"`
	RegionThreshold            int      `toml:"region-threshold" json:"region_threshold"`
	WriteKeyThreshold          int      `toml:"write-key-threshold" json:"write_key_threshold"`
	RegionCountPerSpan         int      `toml:"region-count-per-span" json:"region_count_per_span,omitempty"`
	RegionCountRefreshInterval Duration `toml:"region-count-refresh-interval" json:"region_count_refresh_interval"`
	SchedulingTaskCountPerNode int      `toml:"scheduling-task-count-per-node" json:"scheduling_task_count_per_node,omitempty"`
	EnableSplittableCheck      *bool    `toml:"enable-splittable-check" json:"enable_splittable_check,omitempty"`
	ForceSplit                 bool     `toml:"force-split" json:"force_split,omitempty"`
	BalanceScoreThreshold      int      `toml:"balance-score-threshold" json:"balance_score_threshold,omitempty"`
	MinTrafficPercentage       float64  `toml:"min-traffic-percentage" json:"min_traffic_percentage,omitempty"`
	MaxTrafficPercentage       float64  `toml:"max-traffic-percentage" json:"max_traffic_percentage,omitempty"`
}

// Default is a changefeed of which an operator says nothing.
func Default() Config {
	return Config{
		MemoryQuota: 1 << 30, CheckGCSafePoint: true,
		SyncPointInterval: Duration(10 * time.Minute), SyncPointRetention: Duration(24 * time.Hour),
		ErrorStuckDuration: Duration(30 * time.Minute), PerformanceMode: "throughput",
		ActiveActiveProgressInterval: Duration(30 * time.Minute), ActiveActiveSyncStatsInterval: Duration(time.Minute),
		Filter:  filter.Config{Rules: []string{"*.*"}},
		Mounter: Mounter{WorkerNum: 16},
		Sink:    defaultSink(),
		Consistent: Consistent{
			Level: "none", MaxLogSize: 64, FlushInterval: 2000, MetaFlushInterval: 200, EncodingWorkerNum: 16, FlushWorkerNum: 8,
			FlushConcurrency: 1, MemoryUsage: ConsistentShare{MemoryQuotaPercentage: 50},
		},
		Scheduler: Scheduler{
			RegionThreshold: 10000, RegionCountPerSpan: 100, RegionCountRefreshInterval: Duration(5 * time.Minute),
			SchedulingTaskCountPerNode: 20, BalanceScoreThreshold: 20, MinTrafficPercentage: 0.8, MaxTrafficPercentage: 1.25,
		},
		Integrity:    Integrity{CheckLevel: "none", CorruptionHandleLevel: "warn"},
		SyncedStatus: SyncedStatus{SyncedCheckInterval: 300, CheckpointInterval: 15},
	}
}

// FilterConfig is the filter's configuration, with what stands elsewhere in the
// changefeed's, and the zone in which expressions read TIMESTAMP columns.
func (c *Config) FilterConfig(zone *time.Location) filter.Config {
	out := c.Filter
	out.CaseSensitive, out.Zone = c.CaseSensitive, zone
	return out
}
