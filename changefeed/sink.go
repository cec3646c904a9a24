package changefeed

// Sink is how what is replicated arrives.
type Sink struct {
	Protocol                         string           `toml:"protocol" json:"protocol,omitempty"`
	Dispatchers                      []Dispatcher     `toml:"dispatchers" json:"dispatchers,omitempty"`
	ColumnSelectors                  []ColumnSelector `toml:"column-selectors" json:"column_selectors,omitempty"`
	SchemaRegistry                   URI              `toml:"schema-registry" json:"schema_registry,omitempty"`
	EncoderConcurrency               int              `toml:"encoder-concurrency" json:"encoder_concurrency,omitempty"`
	TransactionAtomicity             string           `toml:"transaction-atomicity" json:"transaction_atomicity,omitempty"`
	Terminator                       string           `toml:"terminator" json:"terminator,omitempty"`
	DateSeparator                    string           `toml:"date-separator" json:"date_separator,omitempty"`
	EnablePartitionSeparator         bool             `toml:"enable-partition-separator" json:"enable_partition_separator"`
	FileIndexDigit                   int              `toml:"file-index-digit" json:"file_index_width,omitempty"`
	SafeMode                         *bool            `toml:"safe-mode" json:"safe_mode,omitempty"`
	VerifyRewritingDDL               *bool            `toml:"verify-rewriting-ddl" json:"verify_rewriting_ddl,omitempty"`
	OnlyOutputUpdatedColumns         *bool            `toml:"only-output-updated-columns" json:"only_output_updated_columns,omitempty"`
	DeleteOnlyOutputHandleKeyColumns *bool            `toml:"delete-only-output-handle-key-columns" json:"delete_only_output_handle_key_columns,omitempty"`
	ContentCompatible                *bool            `toml:"content-compatible" json:"content_compatible,omitempty"`
	EnableKafkaSinkV2                *bool            `toml:"enable-kafka-sink-v2" json:"enable_kafka_sink_v2,omitempty"`
	AdvanceTimeoutInSec              uint             `toml:"advance-timeout-in-sec" json:"advance_timeout,omitempty"`
	SendBootstrapIntervalInSec       *int64           `toml:"send-bootstrap-interval-in-sec" json:"send_bootstrap_interval_in_sec,omitempty"`
	SendBootstrapInMsgCount          *int             `toml:"send-bootstrap-in-msg-count" json:"send_bootstrap_in_msg_count,omitempty"`
	SendBootstrapToAllPartition      *bool            `toml:"send-bootstrap-to-all-partition" json:"send_bootstrap_to_all_partition,omitempty"`
	SendAllBootstrapAtStart          *bool            `toml:"send-all-bootstrap-at-start" json:"send_all_bootstrap_at_start,omitempty"`
	DebeziumDisableSchema            *bool            `toml:"debezium-disable-schema" json:"debezium_disable_schema,omitempty"`

	Open         *OpenProtocol `toml:"open" json:"open,omitempty"`
	Debezium     *Debezium     `toml:"debezium" json:"debezium,omitempty"`
	CSV          *CSV          `toml:"csv" json:"csv,omitempty"`
	Kafka        *Kafka        `toml:"kafka-config" json:"kafka_config,omitempty"`
	MySQL        *MySQL        `toml:"mysql-config" json:"mysql_config,omitempty"`
	Pulsar       *Pulsar       `toml:"pulsar-config" json:"pulsar_config,omitempty"`
	CloudStorage *CloudStorage `toml:"cloud-storage-config" json:"cloud_storage_config,omitempty"`
}

// Dispatcher says to which topic and partition rows of some tables go, or under
// which name.
type Dispatcher struct {
	Matcher      []string `toml:"matcher" json:"matcher"`
	Topic        string   `toml:"topic" json:"topic,omitempty"`
	Partition    string   `toml:"partition" json:"partition,omitempty"`
	Dispatcher   string   `toml:"dispatcher" json:"dispatcher,omitempty"` // the older word for Partition
	Index        string   `toml:"index" json:"index,omitempty"`
	Columns      []string `toml:"columns" json:"columns,omitempty"`
	TargetSchema string   `toml:"target-schema" json:"target-schema,omitempty"`
	TargetTable  string   `toml:"target-table" json:"target-table,omitempty"`
}

// ColumnSelector says which columns of some tables are sent.
type ColumnSelector struct {
	Matcher []string `toml:"matcher" json:"matcher"`
	Columns []string `toml:"columns" json:"columns"`
}

// OpenProtocol is the open protocol's.
type OpenProtocol struct {
	OutputOldValue bool `toml:"output-old-value" json:"output_old_value"`
}

// Debezium is the Debezium protocol's.
type Debezium struct {
	OutputOldValue bool  `toml:"output-old-value" json:"output_old_value"`
	IncludeStartTS *bool `toml:"include-start-ts" json:"include_start_ts,omitempty"`
}

// CSV is the CSV protocol's.
type CSV struct {
	Delimiter            string `toml:"delimiter" json:"delimiter"`
	Quote                string `toml:"quote" json:"quote"`
	Null                 string `toml:"null" json:"null"`
	IncludeCommitTS      bool   `toml:"include-commit-ts" json:"include_commit_ts"`
	BinaryEncodingMethod string `toml:"binary-encoding-method" json:"binary_encoding_method"`
	OutputOldValue       bool   `toml:"output-old-value" json:"output_old_value"`
	OutputHandleKey      bool   `toml:"output-handle-key" json:"output_handle_key"`
	OutputFieldHeader    bool   `toml:"output-field-header" json:"output_field_header"`
}

// MySQL are parameters of a mysql:// sink URI, which come first.
type MySQL struct {
	WorkerCount                  *int      `toml:"worker-count" json:"worker_count,omitempty"`
	MaxTxnRow                    *int      `toml:"max-txn-row" json:"max_txn_row,omitempty"`
	MaxMultiUpdateRowSize        *int      `toml:"max-multi-update-row-size" json:"max_multi_update_row_size,omitempty"`
	MaxMultiUpdateRow            *int      `toml:"max-multi-update-row" json:"max_multi_update_row,omitempty"`
	TiDBTxnMode                  *string   `toml:"tidb-txn-mode" json:"tidb_txn_mode,omitempty"`
	SSLCA                        *string   `toml:"ssl-ca" json:"ssl_ca,omitempty"`
	SSLCert                      *string   `toml:"ssl-cert" json:"ssl_cert,omitempty"`
	SSLKey                       *string   `toml:"ssl-key" json:"ssl_key,omitempty"`
	TimeZone                     *string   `toml:"time-zone" json:"time_zone,omitempty"`
	WriteTimeout                 *Duration `toml:"write-timeout" json:"write_timeout,omitempty"`
	ReadTimeout                  *Duration `toml:"read-timeout" json:"read_timeout,omitempty"`
	Timeout                      *Duration `toml:"timeout" json:"timeout,omitempty"`
	AsyncDDLTimeout              *Duration `toml:"async-ddl-timeout" json:"async_ddl_timeout,omitempty"`
	EnableBatchDML               *bool     `toml:"enable-batch-dml" json:"enable_batch_dml,omitempty"`
	EnableMultiStatement         *bool     `toml:"enable-multi-statement" json:"enable_multi_statement,omitempty"`
	EnableCachePreparedStatement *bool     `toml:"enable-cache-prepared-statement" json:"enable_cache_prepared_statement,omitempty"`
	HasVectorType                *bool     `toml:"has-vector-type" json:"has_vector_type,omitempty"`
	EnableDDLTS                  *bool     `toml:"enable-ddl-ts" json:"enable_ddl_ts,omitempty"`
	WhereClause                  *string   `toml:"where-clause" json:"where_clause,omitempty"`
}

// CloudStorage is the storage sink's.
type CloudStorage struct {
	WorkerCount          *int      `toml:"worker-count" json:"worker_count,omitempty"`
	FlushInterval        *Duration `toml:"flush-interval" json:"flush_interval,omitempty"`
	FileSize             *int      `toml:"file-size" json:"file_size,omitempty"`
	OutputColumnID       *bool     `toml:"output-column-id" json:"output_column_id,omitempty"`
	FileExpirationDays   *int      `toml:"file-expiration-days" json:"file_expiration_days,omitempty"`
	FileCleanupCronSpec  *string   `toml:"file-cleanup-cron-spec" json:"file_cleanup_cron_spec,omitempty"`
	FlushConcurrency     *int      `toml:"flush-concurrency" json:"flush_concurrency,omitempty"`
	OutputRawChangeEvent *bool     `toml:"output-raw-change-event" json:"output_raw_change_event,omitempty"`
	UseTableIDAsPath     *bool     `toml:"use-table-id-as-path" json:"use_table_id_as_path,omitempty"`
	SpoolDiskQuota       *int64    `toml:"spool-disk-quota" json:"spool_disk_quota,omitempty"`
	SpoolBaseDir         *string   `toml:"spool-base-dir" json:"spool_base_dir,omitempty"`
}

func defaultSink() Sink {
	on, off := true, false
	interval, count := int64(120), 10000
	return Sink{
		EncoderConcurrency: 32, TransactionAtomicity: "none", Terminator: "\r\n", DateSeparator: "day",
		EnablePartitionSeparator: true, FileIndexDigit: 20, AdvanceTimeoutInSec: 150,
		SendBootstrapIntervalInSec: &interval, SendBootstrapInMsgCount: &count,
		SendBootstrapToAllPartition: &on, SendAllBootstrapAtStart: &off,
		Open: &OpenProtocol{OutputOldValue: true}, Debezium: &Debezium{OutputOldValue: true},
		CSV: &CSV{Delimiter: ",", Quote: `"`, Null: `\N`, BinaryEncodingMethod: "base64"},
	}
}
