package lint

import "slices"

// words are the packages of nouns that several stages speak.
var words = []string{"capture", "cdcerr", "event", "span", "tso"}

// wordsAnd is what a room imports that speaks all the words and more.
func wordsAnd(more ...string) []string { return slices.Concat(words, more) }

// rooms is the layer table, in the order of the data's path. ARCHITECTURE.md
// prints it: run the test of this package with -rewrite after a change.
var rooms = []Room{
	// Words.
	{"tso", Pure, "the timestamp that orders everything, and the record of how one moved", nil},
	{"span", Pure, "key ranges, their algebra, and the frontier over them", []string{"tso"}},
	{"event", Pure, "what flows: raw changes, rows, transactions, DDL, tables and values", []string{"cdcerr", "tso"}},
	{"capture", Pure, "the members of a cluster", nil},
	{"cdcerr", Pure, "error codes with meaning, class and remedy", nil},
	{"strict", Pure, "TOML and JSON read into structs, with every unknown key refused and the nearest named", nil},

	// Knowledge of MySQL that several rooms need.
	{"collation", Pure, "the order of strings under TiDB's collations", nil},

	// The data's path.
	{"objstore", Shell, "buckets: whole objects under names, on a disk, in memory, behind S3, GCS or Azure", []string{"cdcerr"}},
	{"upstream", Shell, "PD and TiKV: members, timestamps, region streams, snapshot reads, locks left behind, the hold on GC", wordsAnd("upstream/lock", "upstream/region")},
	{"upstream/lock", Pure, "what became of a transaction whose locks hold a region back, and what may be done to them", wordsAnd()},
	{"upstream/region", Pure, "a region's life: matching prewrites and commits, range locks, what to do about each region error", wordsAnd()},
	{"upstream/fake", Shell, "a PD and a TiKV cluster at the wire, that replay recordings, take writes, and fail on command", wordsAnd("upstream/fake/mvcc", "upstream/fake/topology", "upstream/fake/encode")},
	{"upstream/fake/mvcc", Pure, "the versions, locks and rollbacks of the fake cluster's keys", []string{"tso"}},
	{"upstream/fake/topology", Pure, "how the fake cluster's key space is cut into regions", wordsAnd()},
	{"upstream/fake/encode", Pure, "TiDB's stored forms in the writing direction", []string{"event"}},
	{"upstream/fake/catalog", Pure, "DDL as TiDB carries it out: from SQL text to the steps of its jobs", []string{"event", "span", "tso", "upstream/fake/encode"}},
	{"upstream/fake/live", Shell, "transactions on the fake cluster, the way TiDB's client does them", wordsAnd("upstream/fake", "upstream/fake/topology")},
	{"upstream/fake/workload", Shell, "what happens on a fake cluster meanwhile: writers, their tables, the DDL that changes these", wordsAnd("collation", "upstream/fake", "upstream/fake/catalog", "upstream/fake/encode", "upstream/fake/live")},
	{"sorter", Shell, "rows of many spans from their arrival, in any order, to their reading in one", wordsAnd()},
	{"ingest", Shell, "one subscription a span on a capture, shared by all changefeeds that read it", wordsAnd("sorter", "upstream")},
	{"schema", Pure, "TiDB's metadata: what every table looked like at a timestamp", wordsAnd()},
	{"mount", Pure, "bytes to typed rows; DDL job rows to jobs", wordsAnd("schema")},
	{"filter", Pure, "which tables, DDLs and rows are wanted", wordsAnd("collation", "filter/expr", "strict")},
	{"filter/expr", Pure, "SQL expressions over one row, as an operator writes them", wordsAnd("collation")},
	{"schemafeed", Shell, "the schema of one changefeed: its snapshot, its DDLs, its tables by timestamp", wordsAnd("mount", "schema", "upstream")},
	{"redo", Shell, "the redo log: its writer, its meta, what is removed of it, and its reading and applying", wordsAnd("mount", "objstore", "redo/record", "sink")},
	{"redo/record", Pure, "the bytes of the redo log: names, files, meta", wordsAnd()},
	{"redo/ticdc", Pure, "the bytes of TiCDC's redo logs, to be read", wordsAnd()},
	{"sink", Shell, "the interface to a downstream", wordsAnd()},
	{"sink/mysql", Shell, "TiDB, MySQL and MariaDB as a downstream: rows to SQL, DDL to their dialect", wordsAnd("sink", "strict")},
	{"sink/blackhole", Shell, "the downstream that only counts", wordsAnd("sink")},
	{"sink/downstream", Shell, "the switch from a sink URI's scheme to the package that speaks to that downstream", wordsAnd("sink", "sink/blackhole", "sink/mysql")},
	{"pipeline", Shell, "one changefeed's stages on one capture", wordsAnd("filter", "ingest", "mount", "schema", "sink")},
	{"changefeed", Pure, "what a changefeed is: its name, its configuration and its life", wordsAnd("filter", "strict")},
	{"scheduler", Pure, "two-phase placement: which capture writes which span of a changefeed, and when a DDL may run", wordsAnd()},
	{"agent", Shell, "one capture's work on changefeeds: what they share, the part of one that is spread over captures, and the loop that runs a whole one",
		wordsAnd("filter", "ingest", "mount", "pipeline", "scheduler", "schema", "schemafeed", "sink", "sorter", "upstream")},
	{"transport", Shell, "what captures say to each other: streams on the port that serves HTTP, and the one mapping of scheduler's messages to bytes", wordsAnd("changefeed", "scheduler")},
	{"meta", Shell, "every key in etcd, typed; watch, compare-and-set under the owner's revision, sessions, elections", wordsAnd()},
	{"playground", Shell, "a whole Sluice in one command: a recording or a workload, a capture or several servers, a database, a verdict",
		wordsAnd("agent", "api", "cli", "filter", "internal/freeport", "meta", "mount", "pipeline", "schema", "schemafeed", "server", "sink", "sink/downstream", "sink/mysql", "strict", "upstream", "upstream/fake", "upstream/fake/live", "upstream/fake/mvcc", "upstream/fake/oracle", "upstream/fake/workload", "verify")},
	{"cmd/playground", Shell, "the command of the playground", []string{"playground"}},
	{"bench", Kit, "the measuring of the data path against a bare stream", wordsAnd("agent", "api", "cli", "meta", "mount", "objstore", "objstore/objstoretest", "redo", "redo/record", "server", "filter", "ingest", "internal/mariadb", "pipeline", "schemafeed", "sink", "sink/blackhole", "sink/mysql", "sorter", "upstream", "upstream/fake", "upstream/fake/encode", "upstream/fake/catalog", "upstream/fake/live", "upstream/fake/workload")},
	{"cmd/bench", Kit, "the command that measures", []string{"bench"}},
	{"upstream/fake/oracle", Shell, "what a changefeed has to deliver of a workload, and whether it did", wordsAnd("filter", "mount", "schema", "upstream/fake", "upstream/fake/catalog", "upstream/fake/mvcc", "upstream/fake/workload", "verify")},
	{"api", Shell, "the HTTP interface: TiCDC's paths and JSON, who may call them, their OpenAPI document", wordsAnd("strict")},
	{"server", Shell, "one node: configuration, log, listener, TLS, metrics registry, the order of start and stop", wordsAnd("agent", "api", "meta", "sorter", "strict", "transport", "upstream")},
	{"coordinator", Shell, "one capture's place in its cluster: its parts in what runs, and, of the owner, the life of every changefeed", wordsAnd("agent", "api", "changefeed", "coordinator/owner", "filter", "meta", "objstore", "redo", "redo/record", "scheduler", "sink", "sink/downstream", "transport")},
	{"coordinator/owner", Shell, "one run of one changefeed on the node that leads it: scheduler's decisions made durable, carried out and told", wordsAnd("filter", "scheduler", "sink")},
	{"cli", Shell, "the commands: their words and flags, what they print, the status with which they end", wordsAnd("api", "changefeed", "coordinator", "filter", "meta", "objstore", "redo", "server", "sink", "sink/downstream", "strict", "upstream")},
	{"cmd/sluice", Shell, "the command of Sluice", []string{"cli"}},
	{"verify", Pure, "what a user may count on, as running validators and verdicts", wordsAnd()},

	{"sim", Pure, "the pure cores in one seeded, simulated cluster, and what holds after every step", wordsAnd("scheduler")},
	{"sim/shells", Kit, "the shells as they ship in one seeded, simulated cluster, in virtual time", nil},

	// For tests.
	{"objstore/objstoretest", Kit, "what every bucket has to pass, the servers that tests write to, and a bucket that fails on command", []string{"cdcerr", "internal/freeport", "objstore"}},
	{"redo/redotest", Kit, "recordings, as the redo log gets them", wordsAnd("internal/golden", "mount", "schema")},
	{"sorter/sortertest", Kit, "what every sorter has to pass", wordsAnd("sorter")},
	{"chaos", Kit, "a capture in a process of its own, killed and restarted in a storm of faults, and what arrives held against what was",
		wordsAnd("agent", "filter", "internal/mariadb", "meta", "playground", "sink", "sink/downstream", "sorter", "upstream", "upstream/fake", "upstream/fake/live", "upstream/fake/oracle", "upstream/fake/workload", "verify")},
	{"chaos/process", Kit, "the processes that a test starts: told to end, killed, stopped, and never left behind", wordsAnd()},
	{"chaos/origin", Kit, "an upstream under load in a process of its own, and what only it knows when others are judged",
		wordsAnd("chaos/process", "filter", "internal/mariadb", "playground", "upstream/fake", "upstream/fake/catalog", "upstream/fake/live", "upstream/fake/mvcc", "upstream/fake/oracle", "upstream/fake/workload", "verify")},
	{"chaos/servers", Kit, "the real command in processes of its own, what befalls them, and what a binary log and a heartbeat say came of it",
		wordsAnd("chaos/origin", "chaos/process", "internal/binlog", "internal/freeport", "internal/mariadb", "meta", "transport/badline", "upstream/fake/workload")},
	{"chaos/disaster", Kit, "an upstream that is lost for good, and whether its redo log makes the downstream one exact snapshot of it",
		wordsAnd("chaos/origin", "chaos/process", "chaos/servers", "upstream/fake/workload")},
	{"transport/badline", Kit, "what befalls connections: cut in one direction, slow, broken in the midst of a message, refused", nil},
	{"api/apitest", Kit, "a cluster in memory, for tests of what asks one", wordsAnd("api", "changefeed")},
	{"internal/lint", Kit, "the house rules and the table that you read", nil},
	{"internal/golden", Kit, "how tests read the recordings", wordsAnd()},
	{"internal/script", Kit, "stories in testdata: what is done to a machine, and what it decided", nil},
	{"internal/binlog", Kit, "what a MariaDB's binary log says was committed", []string{"internal/mariadb"}},
	{"internal/freeport", Shell, "ports for servers that are told where to listen before they do", nil},
	{"internal/mariadb", Kit, "the MariaDB server that tests write to", wordsAnd("internal/freeport")},
}

// planned are rooms that the design names and nobody has built.
var planned = []string{
	"codec", "sink/kafka",
	"sink/storage",
	"web", "fault",
}

// doors are the foreign modules, each with the rooms where its types stop.
// docs/design/0001-dependencies.md prints them.
var doors = []Door{
	{"github.com/pingcap/kvproto", []string{"upstream", "upstream/fake", "upstream/fake/live", "bench"}, "the messages of PD and TiKV, generated from their protocol files"},
	{"github.com/tikv/pd/client", []string{"upstream"}, "follows PD's leader, batches timestamps, looks regions up"},
	{"google.golang.org/grpc", []string{"upstream", "upstream/fake", "bench", "meta", "transport"}, "what PD, TiKV and etcd speak, and captures among themselves"},
	{"google.golang.org/protobuf", []string{"upstream", "upstream/fake", "redo/record", "transport"}, "the messages of the redo log and between captures; reads and writes a stream's rows on the wire by hand, without a copy a row"},
	{"github.com/coreos/go-semver", []string{"upstream", "upstream/fake"}, "versions of PD and TiKV, with their suffixes"},
	{"go.uber.org/zap", []string{"upstream", "meta"}, "what PD's and etcd's clients log with: their lines end in slog"},
	{"github.com/pingcap/log", []string{"upstream"}, "where PD's client finds its logger"},
	{"github.com/google/btree", []string{"span", "upstream", "upstream/region", "upstream/fake/mvcc", "upstream/fake/topology"}, "ordered maps with cheap snapshots"},
	{"github.com/cockroachdb/pebble/v2", []string{"sorter"}, "tables on disk: sorted, compressed, with a checksum a block, readable by key"},
	{"go.etcd.io/etcd/api/v3", []string{"meta"}, "etcd's messages and errors"},
	{"go.etcd.io/etcd/client/pkg/v3", []string{"meta"}, "etcd's TLS, with files that are read again"},
	{"go.etcd.io/etcd/client/v3", []string{"meta"}, "etcd's client: follows its members, renews leases, watches"},
	{"go.etcd.io/etcd/server/v3", []string{"meta"}, "an etcd in the process, where metadata has to outlive PD and there is no other"},
	{"go.etcd.io/bbolt", []string{"meta"}, "the file of the embedded etcd, looked through before etcd opens it"},
	{"golang.org/x/sys", []string{"meta", "objstore"}, "the clock that runs on while a machine is suspended; how long a connection may go unacknowledged"},
	{"golang.org/x/sync", nil, "errgroup: goroutines with an owner that waits for them"},
	{"github.com/pingcap/tidb/pkg/parser", []string{"filter", "filter/expr", "internal/binlog", "sink/mysql", "upstream/fake/catalog"}, "TiDB's grammar is not MySQL's; only TiDB's parser reads all of it and prints it again"},
	{"github.com/go-sql-driver/mysql", []string{"server", "sink/mysql", "internal/mariadb"}, "the driver of MySQL-compatible databases"},
	{"github.com/go-mysql-org/go-mysql", []string{"internal/binlog"}, "reading a MariaDB binary log in tests"},
	{"github.com/dolthub/go-mysql-server", []string{"playground"}, "a MySQL-protocol database in the process, so that a first try needs nothing but Go"},
	{"github.com/dolthub/vitess", []string{"playground"}, "the protocol of that database"},
	{"github.com/sirupsen/logrus", []string{"playground"}, "what that database logs with, to keep it quiet"},
	{"github.com/minio/minio-go/v7", []string{"objstore"}, "the client of any S3-compatible store: conditional puts, the usual chain of credentials"},
	{"github.com/Azure/azure-sdk-for-go/sdk/azcore", []string{"objstore"}, "what Azure's clients share: requests, retries, errors"},
	{"github.com/Azure/azure-sdk-for-go/sdk/azidentity", []string{"objstore"}, "Azure's usual chain of credentials"},
	{"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob", []string{"objstore", "objstore/objstoretest"}, "the client of Azure's blob storage"},
	{"golang.org/x/oauth2", []string{"objstore"}, "Google's usual chain of credentials; its storage is spoken to without a library"},
	{"github.com/klauspost/compress", []string{"redo/record"}, "zstd"},
	{"github.com/pierrec/lz4/v4", []string{"redo/record", "redo/ticdc"}, "lz4"},
	{"github.com/pelletier/go-toml/v2", []string{"changefeed", "strict"}, "reads and writes TOML and knows where in the text a key stands"},
	{"github.com/prometheus/client_golang", []string{"server"}, "the registry of metrics, and the form in which they are read"},
	{"golang.org/x/text", []string{"collation"}, "GBK and GB18030"},
	{"github.com/spf13/cobra", []string{"cli"}, "commands within commands, their flags and help"},
	{"github.com/spf13/pflag", []string{"cli"}, "the flags of these"},
	{"golang.org/x/text", []string{"upstream/fake/encode"}, "GBK and GB18030"},
	{"pgregory.net/rapid", []string{"sorter/sortertest"}, "random cases that shrink"},
}

// exceptions are the places that may break a rule, each with its reason.
var exceptions = []Exception{
	{"path", "Makefile", "GOLDEN_SRC", "where recordings are kept outside of the project, if they are: any other place can be given"},
}
