package changefeed

import "time"

// The keys of sinks, formats and logs that this release does not have. They are
// read and checked: a file of TiCDC's is right or wrong whatever it asks for.

var formatKeys = lacking("sink", kindMessages, whyFormats, []Key{
	{Path: "open.output-old-value", Meaning: "old values in the open protocol"},
	{Path: "debezium.output-old-value", Meaning: "old values in Debezium messages"},
	{Path: "debezium.include-start-ts", Meaning: "the start-ts in Debezium messages"},
	{Path: "csv.delimiter", Meaning: "what stands between fields", bound: characters(1, 3)},
	{Path: "csv.quote", Meaning: "what stands round a field", bound: characters(0, 1)},
	{Path: "csv.null", Meaning: "what NULL is written as"},
	{Path: "csv.include-commit-ts", Meaning: "whether rows have their commit-ts"},
	{Path: "csv.binary-encoding-method", Meaning: "how bytes are written", bound: oneOf("base64", "hex")},
	{Path: "csv.output-old-value", Meaning: "old values in CSV"},
	{Path: "csv.output-handle-key", Meaning: "the handle in CSV"},
	{Path: "csv.output-field-header", Meaning: "a line of names first"},
})

var storageKeys = lacking("sink.cloud-storage-config", kindStorage, whyStorage, []Key{
	{Path: "worker-count", Meaning: "threads that write files", bound: between(1, 512)},
	{Path: "flush-interval", Meaning: "time after which a file ends", bound: lastingBetween(100*time.Millisecond, 10*time.Minute)},
	{Path: "file-size", Meaning: "bytes after which a file ends", bound: between(1024, 512<<20)},
	{Path: "output-column-id", Meaning: "column ids in schema files"},
	{Path: "file-expiration-days", Meaning: "days after which files are removed; 0 never", bound: from(0)},
	{Path: "file-cleanup-cron-spec", Meaning: "when they are removed"},
	{Path: "flush-concurrency", Meaning: "parts of a file that are sent at once", bound: between(1, 512)},
	{Path: "output-raw-change-event", Meaning: "updates that move a row stay one event"},
	{Path: "use-table-id-as-path", Meaning: "folders by table id"},
	{Path: "spool-disk-quota", Meaning: "bytes of files that wait", bound: from(0)},
	{Path: "spool-base-dir", Meaning: "where they wait"},
})

var kafkaKeys = lacking("sink.kafka-config", kindQueue, whyQueue, []Key{
	{Path: "partition-num", Meaning: "partitions of a topic that is created", bound: from(0)},
	{Path: "replication-factor", Meaning: "copies of a topic that is created", bound: from(1)},
	{Path: "kafka-version", Meaning: "the brokers' version"},
	{Path: "max-message-bytes", Meaning: "the largest message", bound: from(1)},
	{Path: "max-retry", Meaning: "how often a message is sent again", bound: from(0)},
	{Path: "compression", Meaning: "of messages", bound: oneOf("", "none", "gzip", "snappy", "lz4", "zstd")},
	{Path: "kafka-client-id", Meaning: "the client's name"},
	{Path: "auto-create-topic", Meaning: "create topics that are not there"},
	{Path: "dial-timeout", Meaning: "how long connecting may take", bound: lasting(time.Millisecond)},
	{Path: "write-timeout", Meaning: "how long a request may take to send", bound: lasting(time.Millisecond)},
	{Path: "read-timeout", Meaning: "how long an answer may take", bound: lasting(time.Millisecond)},
	{Path: "required-acks", Meaning: "who must have a message", bound: numbers(-1, 0, 1)},
	{Path: "enable-tls", Meaning: "speak TLS"},
	{Path: "ca", Meaning: "file of the authorities"},
	{Path: "cert", Meaning: "file of the certificate"},
	{Path: "key", Meaning: "file of its key"},
	{Path: "insecure-skip-verify", Meaning: "do not check the broker's certificate"},
	{Path: "codec-config.enable-tidb-extension", Meaning: "TiDB's own fields in messages"},
	{Path: "codec-config.max-batch-size", Meaning: "rows of an open-protocol message", bound: from(1)},
	{Path: "codec-config.avro-enable-watermark", Meaning: "watermarks in Avro, for tests"},
	{Path: "codec-config.avro-decimal-handling-mode", Meaning: "decimals in Avro", bound: oneOf("precise", "string")},
	{Path: "codec-config.avro-bigint-unsigned-handling-mode", Meaning: "BIGINT UNSIGNED in Avro", bound: oneOf("long", "string")},
	{Path: "codec-config.avro-include-before-value", Meaning: "old values in Avro"},
	{Path: "codec-config.encoding-format", Meaning: "form of the simple protocol", bound: oneOf("json", "avro")},
	{Path: "codec-config.output-row-key", Meaning: "the row's key in Canal-JSON"},
	{Path: "large-message-handle.large-message-handle-option", Meaning: "what becomes of a message that is too large", bound: oneOf("", "none", "handle-key-only", "claim-check")},
	{Path: "large-message-handle.large-message-handle-compression", Meaning: "its compression", bound: oneOf("", "none", "lz4", "snappy")},
	{Path: "large-message-handle.claim-check-storage-uri", Meaning: "where it is put", bound: scheme("s3", "gcs", "gs", "azblob", "azure", "file", "local", "nfs")},
	{Path: "large-message-handle.claim-check-raw-value", Meaning: "put its value there as it is"},
	{Path: "glue-schema-registry-config.registry-name", Meaning: "AWS Glue's registry"},
	{Path: "glue-schema-registry-config.region", Meaning: "its region"},
	{Path: "glue-schema-registry-config.access-key", Meaning: "secret"},
	{Path: "glue-schema-registry-config.secret-access-key", Meaning: "secret"},
	{Path: "glue-schema-registry-config.token", Meaning: "secret"},
	{Path: "output-raw-change-event", Meaning: "updates that move a row stay one event"},
})

var saslKeys = lacking("sink.kafka-config", kindQueue, whyQueue, []Key{
	{Path: "sasl-user", Meaning: "the user"},
	{Path: "sasl-password", Meaning: "secret"},
	{Path: "sasl-mechanism", Meaning: "how the client shows who it is", bound: oneOf("", "plain", "PLAIN", "scram-sha-256", "SCRAM-SHA-256", "scram-sha-512", "SCRAM-SHA-512", "gssapi", "GSSAPI", "oauthbearer", "OAUTHBEARER")},
	{Path: "sasl-gssapi-auth-type", Meaning: "by password or by keytab", bound: oneOf("", "user", "USER", "keytab", "KEYTAB")},
	{Path: "sasl-gssapi-keytab-path", Meaning: "the keytab"},
	{Path: "sasl-gssapi-kerberos-config-path", Meaning: "Kerberos' configuration"},
	{Path: "sasl-gssapi-service-name", Meaning: "the brokers' service"},
	{Path: "sasl-gssapi-user", Meaning: "the user"},
	{Path: "sasl-gssapi-password", Meaning: "secret"},
	{Path: "sasl-gssapi-realm", Meaning: "the realm"},
	{Path: "sasl-gssapi-disable-pafxfast", Meaning: "for old Kerberos servers"},
	{Path: "sasl-oauth-client-id", Meaning: "the client"},
	{Path: "sasl-oauth-client-secret", Meaning: "secret"},
	{Path: "sasl-oauth-token-url", Meaning: "who gives tokens"},
	{Path: "sasl-oauth-scopes", Meaning: "what for"},
	{Path: "sasl-oauth-grant-type", Meaning: "the grant"},
	{Path: "sasl-oauth-audience", Meaning: "for whom"},
})

var pulsarKeys = lacking("sink.pulsar-config", kindQueue, whyQueue, []Key{
	{Path: "tls-key-file-path", Meaning: "file of the key"},
	{Path: "tls-certificate-file", Meaning: "file of the certificate"},
	{Path: "tls-trust-certs-file-path", Meaning: "file of the authorities"},
	{Path: "pulsar-version", Meaning: "the brokers' version", Effect: Nothing, Why: whyOld},
	{Path: "pulsar-producer-cache-size", Meaning: "producers that are kept", bound: from(1)},
	{Path: "compression-type", Meaning: "of messages", bound: oneOf("", "none", "lz4", "zlib", "zstd")},
	{Path: "authentication-token", Meaning: "secret"},
	{Path: "token-from-file", Meaning: "file of the token"},
	{Path: "basic-user-name", Meaning: "the user"},
	{Path: "basic-password", Meaning: "secret"},
	{Path: "auth-tls-certificate-path", Meaning: "certificate that shows who the client is"},
	{Path: "auth-tls-private-key-path", Meaning: "file of its key"},
	{Path: "oauth2.oauth2-issuer-url", Meaning: "who gives tokens"},
	{Path: "oauth2.oauth2-audience", Meaning: "for whom"},
	{Path: "oauth2.oauth2-private-key", Meaning: "secret"},
	{Path: "oauth2.oauth2-client-id", Meaning: "the client"},
	{Path: "oauth2.oauth2-scope", Meaning: "what for"},
	{Path: "connection-timeout", Meaning: "how long connecting may take", bound: lasting(0)},
	{Path: "operation-timeout", Meaning: "how long a request may take", bound: lasting(0)},
	{Path: "batching-max-messages", Meaning: "messages of a batch", bound: from(1)},
	{Path: "batching-max-publish-delay", Meaning: "how long a batch may wait", bound: lasting(0)},
	{Path: "send-timeout", Meaning: "how long sending may take", bound: lasting(0)},
	{Path: "output-raw-change-event", Meaning: "updates that move a row stay one event"},
})

var redoKeys = under("consistent", []Key{
	{Path: "level", Meaning: "eventual turns the redo log on", bound: oneOf("none", "eventual")},
	{Path: "max-log-size", Meaning: "MiB of a file, before it is compressed", bound: between(1, 1024)},
	{Path: "flush-interval", Meaning: "ms that a row may wait for its file where no resolved-ts comes", bound: between(50, 600_000)},
	{Path: "meta-flush-interval", Meaning: "ms between writes of the log's meta", bound: between(50, 600_000)},
	{Path: "encoding-worker-num", Meaning: "threads that encode", Effect: Nothing, Why: "rows are kept as TiKV sent them: there is nothing to encode", bound: from(0)},
	{Path: "flush-worker-num", Meaning: "threads that compress and write files; 0 is the default", bound: between(0, 128)},
	{Path: "storage", Meaning: "where the log is: docs/storage.md has the addresses; of these noop and blackhole keep nothing, and are refused where the log is on", bound: scheme("nfs", "local", "file", "s3", "gcs", "gs", "azblob", "azure", "noop", "blackhole")},
	{Path: "use-file-backend", Meaning: "write to a local file first", Effect: Nothing, Why: "files are written from memory"},
	{Path: "compression", Meaning: "of the log's files; zstd where nothing is said", bound: oneOf("", "none", "lz4", "zstd")},
	{Path: "flush-concurrency", Meaning: "parts of a file that are sent at once", Effect: Nothing, Why: "several files are sent at once, flush-worker-num of them, each as a whole", bound: from(0)},
	{Path: "memory-usage.memory-quota-percentage", Meaning: "part of memory-quota that rows may take on each capture while they wait for their file, and no more than an eighth of the server's own memory-quota; files are then at most a quarter of that; 0 is the default", bound: between(0, 100)},
	{Path: "memory-usage.event-cache-percentage", Meaning: "an older split of memory-quota", Effect: Nothing, Why: whyOld, bound: between(0, 100)},
	{Path: "event-collector-batch-count", Meaning: "rows of a batch", Effect: Nothing, Why: "files are sized by max-log-size", bound: between(0, 8192)},
	{Path: "on-upstream-loss", Meaning: "apply has the owner end the changefeed with what its log holds once the upstream is lost: docs/operations.md", bound: oneOf("", "none", "apply")},
	{Path: "upstream-loss-grace", Meaning: "how long PD and all stores have to be out of reach of every capture for that; 5m where nothing is said", bound: lastingOrNothing(30 * time.Second)},
})

// under are the keys of a table.
func under(table string, keys []Key) []Key {
	for i := range keys {
		keys[i].Path = table + "." + keys[i].Path
	}
	return keys
}

var schedulerKeys = under("scheduler", []Key{
	{Path: "enable-table-across-nodes", Meaning: "cut large tables up for several captures", Effect: Works},
	{Path: "region-per-span", Meaning: "an older threshold", Effect: Nothing, Why: whyOld, bound: from(0)},
	{Path: "region-threshold", Meaning: "regions above which a table is cut; 0: regions do not count", Effect: Works, bound: from(0)},
	{Path: "write-key-threshold", Meaning: "bytes a second above which a table is cut; 0 never, and from 1 on at least 10 MiB", Effect: Works, bound: from(0)},
	{Path: "region-count-per-span", Meaning: "regions of a piece as it is cut, of which a table has a hundred at most; 0: region-threshold", Effect: Works, bound: from(0)},
	{Path: "region-count-refresh-interval", Meaning: "how often regions are counted", Effect: Works, bound: lasting(time.Second)},
	{Path: "scheduling-task-count-per-node", Meaning: "moves at once", Effect: Nothing, Why: "a hundred spans move at once, however many captures there are", bound: from(0)},
	{Path: "enable-splittable-check", Meaning: "cut only tables of which nothing but the clustered primary key is unique; tables for a database always are such", Effect: Works, sinks: kindNoSQL},
	{Path: "force-split", Meaning: "cut other tables all the same", Effect: Works, sinks: kindNoSQL},
	{Path: "balance-score-threshold", Meaning: "when pieces are moved", Effect: Nothing, Why: whySpread, bound: from(0)},
	{Path: "min-traffic-percentage", Meaning: "when pieces are moved", Effect: Nothing, Why: whySpread, bound: above(0, 1)},
	{Path: "max-traffic-percentage", Meaning: "when pieces are moved", Effect: Nothing, Why: whySpread, bound: from(1)},
})
