package changefeed

import "time"

// Effect is what a key does in this release.
type Effect uint8

// The effects.
const (
	Works   Effect = iota // what its meaning says
	Handed                // becomes a parameter of the sink URI, unless that has one of the same name
	Nothing               // is read, checked and kept, and changes nothing here
	Lacking               // belongs to a feature that this release does not have
)

// Key is one key of a changefeed's configuration.
type Key struct {
	Path    string // as in TOML; [] after a list of tables
	Meaning string
	Effect  Effect
	// Why says, where the key does not work, what there is instead, or what lacks.
	Why string
	// sinks are the kinds of sink that the key is about, empty for all.
	sinks string
	bound bound
}

// Bounds is what the value has to be; empty where everything is allowed.
func (k *Key) Bounds() string { return k.bound.says }

// The kinds of sink, as Key.sinks and kindOf name them.
const (
	kindMySQL     = "mysql"
	kindBlackhole = "blackhole"
	kindQueue     = "kafka, pulsar"
	kindStorage   = "storage"
	kindMessages  = "kafka, pulsar, storage"
	kindNoSQL     = "blackhole, kafka, pulsar, storage"
)

const (
	whyQueue   = "no Kafka or Pulsar sink"
	whyStorage = "no storage sink"
	whyFormats = "no message formats"
	whySpread  = "a table's pieces are spread by their number, and cut anew where one has too much traffic"
	whyWorkers = "the number of workers follows the machine"
	whyOld     = "an old key without effect in TiCDC too"
)

// Keys is every key, in the order of the documents.
func Keys() []Key {
	var out []Key
	for _, part := range [][]Key{topKeys, filterKeys, sinkKeys, mysqlKeys, formatKeys, storageKeys, kafkaKeys, saslKeys, pulsarKeys, redoKeys, schedulerKeys} {
		out = append(out, part...)
	}
	return out
}

var topKeys = []Key{
	{Path: "memory-quota", Meaning: "bytes that rows on their way may take; 0 is the default", Effect: Nothing, Why: "rows wait once for all changefeeds, within the server's memory-quota and sorter.disk-quota; see docs/compatibility.md"},
	{Path: "case-sensitive", Meaning: "whether letter case counts in rules and matchers", Effect: Works},
	{Path: "force-replicate", Meaning: "replicate tables without a usable key too; a restart may double their rows", Effect: Works},
	{Path: "ignore-ineligible-table", Meaning: "create the changefeed although tables without a usable key are left out", Effect: Works},
	{Path: "check-gc-safe-point", Meaning: "refuse a start-ts that garbage collection has passed", Effect: Nothing, Why: "such a start-ts is always refused: what was collected cannot be read"},
	{Path: "enable-sync-point", Meaning: "note moments at which downstream equals upstream", Effect: Works, sinks: kindMySQL},
	{Path: "sync-point-interval", Meaning: "time between sync points", Effect: Works, sinks: kindMySQL, bound: lasting(30 * time.Second)},
	{Path: "sync-point-retention", Meaning: "how long sync points are kept", Effect: Works, sinks: kindMySQL, bound: lasting(time.Hour)},
	{Path: "bdr-mode", Meaning: "replicate both ways between two TiDB clusters: what a changefeed wrote is not sent back, and DDLs are the primary's", Effect: Works},
	{Path: "enable-table-monitor", Meaning: "metrics for every table", Effect: Nothing, Why: "there are none for single tables"},
	{Path: "changefeed-error-stuck-duration", Meaning: "how long a changefeed that makes no progress is tried again before it fails", Effect: Works, bound: lasting(30 * time.Minute)},
	{Path: "sql-mode", Meaning: "SQL mode for DDLs", Effect: Nothing, Why: "each DDL is read in the mode of the session that ran it"},
	{Path: "enable-old-value", Meaning: "read the old values of rows", Effect: Nothing, Why: "they are always read"},
	{Path: "performance-mode", Meaning: "trade throughput for latency", Effect: Nothing, Why: "rows are never held back to fill a batch", bound: oneOf("throughput", "low-latency", "")},
	{Path: "event-collector-batch-count", Meaning: "rows of a batch", Effect: Nothing, Why: "batches are sized by the pipeline", bound: between(0, 8192)},
	{Path: "event-collector-batch-bytes", Meaning: "bytes of a batch", Effect: Nothing, Why: "batches are sized by the pipeline", bound: from(0)},
	{Path: "enable-active-active", Meaning: "the last writer wins between clusters", Effect: Lacking, Why: "no active-active replication"},
	{Path: "active-active-progress-interval", Meaning: "how often progress is written for active-active", Effect: Nothing, Why: "no active-active replication", bound: lasting(0)},
	{Path: "active-active-sync-stats-interval", Meaning: "how often conflicts are counted for active-active; 0 never", Effect: Nothing, Why: "no active-active replication", bound: lasting(0)},
	{Path: "mounter.worker-num", Meaning: "threads that decode rows; 0 is the default", Effect: Nothing, Why: whyWorkers, bound: from(0)},
	{Path: "integrity.integrity-check-level", Meaning: "check the checksums of rows and send them on", Effect: Lacking, Why: "checksums that TiDB stored are always checked; they are sent to Kafka only", sinks: kindQueue, bound: oneOf("none", "correctness")},
	{Path: "integrity.corruption-handle-level", Meaning: "what a wrong checksum does", Effect: Nothing, Why: "it always ends the changefeed", bound: oneOf("warn", "error")},
	{Path: "synced-status.synced-check-interval", Meaning: "seconds without a write after which downstream may count as synced", Effect: Works, bound: from(1)},
	{Path: "synced-status.checkpoint-interval", Meaning: "seconds that the checkpoint may lag for it", Effect: Works, bound: from(1)},
}

var filterKeys = []Key{
	{Path: "filter.rules", Meaning: "which tables, the last rule that matches decides", Effect: Works},
	{Path: "filter.ignore-txn-start-ts", Meaning: "transactions that are left out, by start-ts", Effect: Works},
	{Path: "filter.event-filters[].matcher", Meaning: "the tables that the event filter is about", Effect: Works, bound: rules()},
	{Path: "filter.event-filters[].ignore-event", Meaning: "kinds of event that are left out", Effect: Works},
	{Path: "filter.event-filters[].ignore-sql", Meaning: "regular expressions on DDLs that are left out", Effect: Works},
	{Path: "filter.event-filters[].ignore-insert-value-expr", Meaning: "inserts that are left out", Effect: Works},
	{Path: "filter.event-filters[].ignore-update-new-value-expr", Meaning: "updates that are left out, by the new row", Effect: Works},
	{Path: "filter.event-filters[].ignore-update-old-value-expr", Meaning: "updates that are left out, by the old row", Effect: Works},
	{Path: "filter.event-filters[].ignore-delete-value-expr", Meaning: "deletes that are left out", Effect: Works},
	{Path: "filter.event-filters[].ignore-update-only-columns", Meaning: "updates that are left out if they change nothing else", Effect: Works},
}

var sinkKeys = []Key{
	{Path: "sink.protocol", Meaning: "the message format", Effect: Lacking, Why: whyFormats, sinks: kindMessages,
		bound: oneOf("", "default", "open-protocol", "canal-json", "canal", "avro", "flat-avro", "maxwell", "craft", "debezium", "debezium-avro", "simple", "csv")},
	{Path: "sink.dispatchers[].matcher", Meaning: "the tables that the dispatcher is about", Effect: Lacking, Why: whyQueue, sinks: kindQueue, bound: rules()},
	{Path: "sink.dispatchers[].topic", Meaning: "the topic, with {schema} and {table}", Effect: Lacking, Why: whyQueue, sinks: kindQueue},
	{Path: "sink.dispatchers[].partition", Meaning: "how the partition is chosen: default, table, ts, index-value, columns, rowid; for Pulsar any key", Effect: Lacking, Why: whyQueue, sinks: kindQueue},
	{Path: "sink.dispatchers[].dispatcher", Meaning: "the older word for partition", Effect: Lacking, Why: whyQueue, sinks: kindQueue},
	{Path: "sink.dispatchers[].index", Meaning: "the index for index-value", Effect: Lacking, Why: whyQueue, sinks: kindQueue},
	{Path: "sink.dispatchers[].columns", Meaning: "the columns for columns", Effect: Lacking, Why: whyQueue, sinks: kindQueue},
	{Path: "sink.dispatchers[].target-schema", Meaning: "the database's name downstream", Effect: Lacking, Why: "no routing of tables to other names"},
	{Path: "sink.dispatchers[].target-table", Meaning: "the table's name downstream", Effect: Lacking, Why: "no routing of tables to other names"},
	{Path: "sink.column-selectors[].matcher", Meaning: "the tables that the selector is about", Effect: Lacking, Why: whyFormats, sinks: kindMessages, bound: rules()},
	{Path: "sink.column-selectors[].columns", Meaning: "the columns that are sent", Effect: Lacking, Why: whyFormats, sinks: kindMessages, bound: some()},
	{Path: "sink.schema-registry", Meaning: "address of the schema registry for Avro", Effect: Lacking, Why: whyFormats, sinks: kindQueue, bound: scheme("http", "https")},
	{Path: "sink.encoder-concurrency", Meaning: "threads that encode messages", Effect: Lacking, Why: whyFormats, sinks: kindMessages, bound: from(1)},
	{Path: "sink.transaction-atomicity", Meaning: "none: a transaction that is too large to be held may be written in pieces; table: it ends the changefeed", Effect: Handed, bound: oneOf("none", "table", "")},
	{Path: "sink.terminator", Meaning: "what ends a row in a file", Effect: Lacking, Why: whyStorage, sinks: kindStorage},
	{Path: "sink.date-separator", Meaning: "folders by date", Effect: Lacking, Why: whyStorage, sinks: kindStorage, bound: oneOf("none", "year", "month", "day")},
	{Path: "sink.enable-partition-separator", Meaning: "folders by partition", Effect: Lacking, Why: whyStorage, sinks: kindStorage},
	{Path: "sink.file-index-digit", Meaning: "digits of a file's number", Effect: Lacking, Why: whyStorage, sinks: kindStorage, bound: between(6, 20)},
	{Path: "sink.safe-mode", Meaning: "write rows so that a second delivery changes nothing", Effect: Handed, Why: "docs/mysql.md says which values it takes", sinks: kindMySQL},
	{Path: "sink.verify-rewriting-ddl", Meaning: "compare columns that a DDL rewrote with upstream's, and write rows anew that differ", Effect: Handed, Why: "docs/mysql.md says how; it is on", sinks: kindMySQL},
	{Path: "sink.only-output-updated-columns", Meaning: "old rows with changed columns only", Effect: Lacking, Why: whyFormats, sinks: kindMessages},
	{Path: "sink.delete-only-output-handle-key-columns", Meaning: "deletes with key columns only", Effect: Lacking, Why: whyFormats, sinks: kindMessages},
	{Path: "sink.content-compatible", Meaning: "what Canal itself would write", Effect: Lacking, Why: whyFormats, sinks: kindMessages},
	{Path: "sink.enable-kafka-sink-v2", Meaning: "another Kafka client", Effect: Nothing, Why: whyOld, sinks: kindQueue},
	{Path: "sink.advance-timeout-in-sec", Meaning: "seconds without progress before a table's sink is opened again", Effect: Nothing, Why: "what stands still is judged by whether there is something to write", bound: from(0)},
	{Path: "sink.send-bootstrap-interval-in-sec", Meaning: "seconds between bootstraps of the simple protocol; 0 or less never", Effect: Lacking, Why: whyFormats, sinks: kindQueue},
	{Path: "sink.send-bootstrap-in-msg-count", Meaning: "messages between them; 0 or less never", Effect: Lacking, Why: whyFormats, sinks: kindQueue},
	{Path: "sink.send-bootstrap-to-all-partition", Meaning: "whether every partition gets them", Effect: Lacking, Why: whyFormats, sinks: kindQueue},
	{Path: "sink.send-all-bootstrap-at-start", Meaning: "whether all are sent at the start", Effect: Lacking, Why: whyFormats, sinks: kindQueue},
	{Path: "sink.debezium-disable-schema", Meaning: "leave the schema out of Debezium messages", Effect: Lacking, Why: whyFormats, sinks: kindQueue},
}

var mysqlKeys = handed("sink.mysql-config", kindMySQL, []Key{
	{Path: "worker-count", Meaning: "connections that write, 1024 at most", bound: from(1)},
	{Path: "max-txn-row", Meaning: "rows of a downstream transaction, 2048 at most", bound: from(1)},
	{Path: "max-multi-update-row-size", Meaning: "bytes of a row above which updates are not put together, 8192 at most", bound: from(0)},
	{Path: "max-multi-update-row", Meaning: "rows of an update that are put together, 256 at most", bound: from(1)},
	{Path: "tidb-txn-mode", Meaning: "how TiDB locks", bound: oneOf("optimistic", "pessimistic")},
	{Path: "ssl-ca", Meaning: "file of the authorities"},
	{Path: "ssl-cert", Meaning: "file of the certificate"},
	{Path: "ssl-key", Meaning: "file of its key"},
	{Path: "time-zone", Meaning: "the session's time zone", Effect: Nothing, Why: "every session downstream is in UTC"},
	{Path: "write-timeout", Meaning: "how long sending a packet may take", bound: lasting(time.Millisecond)},
	{Path: "read-timeout", Meaning: "how long a statement may take", bound: lasting(time.Millisecond)},
	{Path: "timeout", Meaning: "how long connecting may take", bound: lasting(time.Millisecond)},
	{Path: "async-ddl-timeout", Meaning: "how long an ADD INDEX on TiDB is waited for before TiDB goes on with it by itself", bound: lasting(time.Millisecond)},
	{Path: "enable-batch-dml", Meaning: "put rows together; batch-dml-enable in the URI"},
	{Path: "enable-multi-statement", Meaning: "several statements a packet; multi-stmt-enable in the URI"},
	{Path: "enable-cache-prepared-statement", Meaning: "keep prepared statements; cache-prep-stmts in the URI", Effect: Nothing, Why: "nothing is prepared: values are in the statements"},
	{Path: "has-vector-type", Meaning: "whether vectors become text"},
	{Path: "enable-ddl-ts", Meaning: "note downstream which DDLs ran"},
	{Path: "where-clause", Meaning: "which key finds rows", Effect: Nothing, Why: "rows are found by the key that names them"},
})

// handed are keys that become parameters of the sink URI.
func handed(table, sinks string, keys []Key) []Key {
	for i := range keys {
		keys[i].Path = table + "." + keys[i].Path
		keys[i].sinks = sinks
		if keys[i].Effect == Works { // nothing else was said
			keys[i].Effect, keys[i].Why = Handed, "docs/mysql.md says whether this release has it"
		}
	}
	return keys
}

// lacking are keys of a feature that this release does not have.
func lacking(table, sinks, why string, keys []Key) []Key {
	for i := range keys {
		if keys[i].Path = table + "." + keys[i].Path; keys[i].Effect == Works {
			keys[i].Effect = Lacking
		}
		keys[i].sinks = sinks
		if keys[i].Why == "" {
			keys[i].Why = why
		}
	}
	return keys
}
