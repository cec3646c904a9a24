package cdcerr

// The codes, by the room in which they enter. All lists every one of them.
var (
	// Anywhere.
	Unexpected = &Code{"CDC:ErrUnexpected", "an internal invariant is broken",
		"stop trusting this changefeed's output since its last sync point and report the bug with the text of this error", Terminal}

	// Configuration and command line.
	InvalidArgument = &Code{"CDC:ErrAPIInvalidParam", "an argument cannot be used",
		"correct the named argument", Terminal}
	FilterRuleInvalid = &Code{"CDC:ErrFilterRuleInvalid", "a filter rule cannot be parsed",
		"correct the named rule; rules look like db.table, with * and ? as wildcards and ! in front to leave out", Terminal}
	FilterExpression = &Code{"CDC:ErrInvalidFilterExpression", "an event filter's expression cannot be evaluated",
		"correct the named expression; docs/config.md says what may stand in one", Terminal}
	FilterColumn = &Code{"CDC:ErrExpressionColumnNotFound", "an event filter's expression names a column that the table does not have",
		"correct the expression, or give the event filter a matcher that takes only tables with that column", Terminal}
	IgnoreEventInvalid = &Code{"CDC:ErrInvalidIgnoreEventType", "an event filter ignores a kind of event that there is not",
		"write one of the kinds that docs/config.md lists", Terminal}
	ConfigInvalid = &Code{"CDC:ErrInvalidReplicaConfig", "a changefeed's configuration cannot be used",
		"correct the named key; docs/config.md lists all of them with their bounds", Terminal}
	ChangefeedIDInvalid = &Code{"CDC:ErrInvalidChangefeedID", "a changefeed cannot have this name",
		"use letters, digits and single - between them, 128 bytes at most", Terminal}
	NamespaceInvalid = &Code{"CDC:ErrInvalidNamespace", "a namespace cannot have this name",
		"use letters, digits and single - between them, 128 bytes at most", Terminal}
	SinkURIInvalid = &Code{"CDC:ErrSinkURIInvalid", "the sink URI cannot be used",
		"correct the named part of the sink URI", Terminal}

	// A server, its API, and those who ask it.
	ServerConfigInvalid = &Code{"CDC:ErrInvalidServerOption", "the server's configuration cannot be used",
		"correct the named key of the file or the named flag", CaptureFatal}
	ServerListen = &Code{"CDC:ErrServeHTTP", "the server cannot listen where it is told to",
		"stop what uses the address, or give another one by addr", CaptureFatal}
	ServerNotReady = &Code{"CDC:ErrServerIsNotReady", "the server has not joined its cluster yet",
		"ask again in some seconds; if it goes on, read the server's log", Retry}
	ServerUnreachable = &Code{"CDC:ErrServerUnreachable", "the server does not answer as a Sluice server does",
		"check the address given by --server, that the server runs, and the TLS files", Retry}
	OwnerNotFound = &Code{"CDC:ErrOwnerNotFound", "no capture owns the cluster at the moment",
		"ask again in some seconds: the captures elect one as soon as the last one's session is over", Retry}
	RequestForward = &Code{"CDC:ErrRequestForwardErr", "a request could not be handed on to the owner",
		"ask again in some seconds; if it goes on, check the network between the captures", Retry}
	ClusterUnhealthy = &Code{"CDC:ErrClusterIsUnhealthy", "the cluster cannot do its work",
		"look at what the error names", Retry}
	CaptureNotFound = &Code{"CDC:ErrCaptureNotExist", "there is no capture of this id",
		"list the captures; a server that was started again has a new id", Terminal}
	CaptureSilent = &Code{"CDC:ErrCaptureSilent", "a capture that the changefeed waits for does not answer",
		"look at that capture's log, and at the network between it and the owner; where it cannot be mended, stop it: its tables go elsewhere when its session is over", Retry}
	SchedulerRequest = &Code{"CDC:ErrSchedulerRequestFailed", "tables cannot be moved as asked for",
		"do what the error names first, such as starting another capture", Terminal}
	Unauthorized = &Code{"CDC:ErrUnauthorized", "the user may not do this, or the password is wrong",
		"give a TiDB user that security.client-allowed-user names, and its password", Terminal}
	CredentialMissing = &Code{"CDC:ErrCredentialNotFound", "the server asks for a user, and none was given",
		"give --user and --password, or set TICDC_USER and TICDC_PASSWORD", Terminal}
	NotInRelease = &Code{"CDC:ErrNotInThisRelease", "this release does not have what was asked for",
		"docs/compatibility.md lists what there is, and what to use instead", Terminal}
	UnknownPath = &Code{"CDC:ErrAPIUnknownPath", "the API has no such path or method",
		"GET /api/v2/openapi.json lists what there is", Terminal}
	RequestTooLarge = &Code{"CDC:ErrAPIRequestTooLarge", "the request's body is larger than any that makes sense",
		"send one changefeed's configuration at a time", Terminal}
	ChangefeedStuck = &Code{"CDC:ErrChangefeedUnretryable", "the changefeed has not gone on for changefeed-error-stuck-duration",
		"mend what the error names, then resume the changefeed", Terminal}
	StartTSBeforeGC = &Code{"CDC:ErrStartTsBeforeGC", "garbage collection has passed the timestamp to start from",
		"start from a timestamp above the GC safepoint, after copying the data anew", Terminal}
	GCTTLExceeded = &Code{"CDC:ErrGCTTLExceeded", "the changefeed has held the upstream's garbage collection back for longer than gc-ttl",
		"create the changefeed anew from a newer start-ts after copying the data anew; a longer gc-ttl gives more time", Terminal}
	UpdateRefused = &Code{"CDC:ErrChangefeedUpdateRefused", "the changefeed is not in a state in which this can be done to it",
		"read the named state: a changefeed is updated while it is stopped, failed or finished, so pause one that runs first; it is resumed from these, and from pending to be tried at once", Terminal}
	TargetTSInvalid = &Code{"CDC:ErrTargetTsBeforeStartTs", "the target-ts is not above the start-ts",
		"give a target-ts above the start-ts and the checkpoint, or none", Terminal}
	CheckpointInvalid = &Code{"CDC:ErrCliInvalidCheckpointTs", "the checkpoint to resume from cannot be used",
		"give now, or a timestamp of the upstream above its GC safepoint and not in the future", Terminal}
	Aborted = &Code{"CDC:ErrCliAborted", "the operator did not confirm",
		"answer Y, or give --no-confirm", Terminal}

	// PD and TiKV.
	PDUnreachable = &Code{"CDC:ErrPDUnreachable", "no PD endpoint answers",
		"check the PD endpoints, the network and the TLS files", Retry}
	UpstreamAway = &Code{"CDC:ErrUpstreamUnreachable", "nothing of the upstream answers, neither PD nor a store",
		"bring any of PD or TiKV back, or the network to it, before the time that the warning names is over; a changefeed that is not to be ended then is paused", Warn}
	UpstreamLost = &Code{"CDC:ErrUpstreamLost", "the upstream was taken for lost, and the changefeed ends with what its redo log holds",
		"use the downstream: it is the upstream's snapshot at the timestamp that the changefeed has ended with; docs/operations.md says how to go on from there", Warn}
	VersionIncompatible = &Code{"CDC:ErrVersionIncompatible", "a PD or TiKV version is outside the supported range",
		"upgrade the named component, or use a release of Sluice that supports it", Terminal}
	OtherUpstream = &Code{"CDC:ErrUpstreamMismatch", "a changefeed is of another upstream than the one that the servers follow",
		"start the servers with the --pd of the changefeed's upstream, or remove the changefeed and create it anew", Terminal}
	ClusterIDMismatch = &Code{"CDC:ErrClusterIDMismatch", "a store belongs to another cluster than the PD",
		"check the PD endpoints: they lead to more than one cluster", Terminal}
	EventFeed = &Code{"CDC:ErrEventFeedEventError", "a change stream from TiKV broke",
		"none: the stream is opened again; if it goes on, look at the named store", Retry}
	RegionLookup = &Code{"CDC:ErrRegionsNotCoverSpan", "PD's regions do not cover the span",
		"none: PD is asked again; if it goes on, check PD's region health", Retry}
	PrewriteNotMatch = &Code{"CDC:ErrPrewriteNotMatch", "TiKV sent a commit without its prewrite",
		"recreate the changefeed from the last sync point, and report the bug with the text of this error", Terminal}
	ResolvedTsRegressed = &Code{"CDC:ErrRowBelowResolvedTs", "TiKV sent a row at or below a resolved-ts that it had promised",
		"recreate the changefeed from before the named resolved-ts, and report the bug with the text of this error", Terminal}
	SnapshotRead = &Code{"CDC:ErrKVScan", "reading the upstream at a timestamp failed",
		"none: the read is tried again; if it goes on, look at the named store", Retry}
	LockResolve = &Code{"CDC:ErrResolveLock", "a lock that a transaction left behind cannot be ended",
		"none: it is tried again; if it goes on, look at the named store", Retry}
	KeyspaceNotFound = &Code{"CDC:ErrKeyspaceNotFound", "the upstream has no such keyspace, or it is not enabled",
		"correct the keyspace's name, or enable it", Terminal}
	GCHold = &Code{"CDC:ErrUpdateServiceSafepointFailed", "the hold on the upstream's garbage collection could not be renewed",
		"check PD: until it answers the collection may take what a changefeed still needs", Retry}
	SnapshotLostByGC = &Code{"CDC:ErrSnapshotLostByGC", "the timestamp to read at is older than the GC safepoint",
		"create the changefeed from a newer start-ts after copying the data anew", Terminal}

	// Metadata.
	MetaUnreachable = &Code{"CDC:ErrPDEtcdAPIError", "the etcd that holds the metadata does not answer",
		"check the endpoints, the network, the TLS files and etcd's own health", Retry}
	MetaConflict = &Code{"CDC:ErrEtcdTryAgain", "the metadata was changed by somebody else in the meantime",
		"none: it is read again and tried again", Retry}
	MetaCorrupted = &Code{"CDC:ErrUnmarshalFailed", "a value of the metadata cannot be read",
		"restore the named key from a backup of etcd, or remove it and create the changefeed again from its last known checkpoint", Terminal}
	MetaDirDamaged = &Code{"CDC:ErrMetaDirDamaged", "the directory of the embedded etcd is damaged",
		"restore the named directory from a backup; where other members run, remove this one from their cluster, move its directory away and add it anew; where there is neither, move it away and create the changefeeds again from their last checkpoints, which the log names", Terminal}
	MetaDisk = &Code{"CDC:ErrMetaDiskFull", "the embedded etcd cannot write to its disk",
		"free space on the device of the named directory, or make it writable, and start the server again; nothing in the directory has to be removed", Terminal}
	MetaVersion = &Code{"CDC:ErrMetaVersionIncompatible", "the metadata was written by another version of Sluice that lays it out differently",
		"use the version of Sluice that wrote it, or a newer one", Terminal}
	NotOwner = &Code{"CDC:ErrNotOwner", "a capture that is not the owner tried what only the owner may",
		"none: the owner does it", Retry}
	EpochChanged = &Code{"CDC:ErrChangefeedEpochChanged", "an operator has set the changefeed's checkpoint while it ran",
		"none: the changefeed begins anew from there", Retry}
	SessionLost = &Code{"CDC:ErrEtcdSessionDone", "a capture could not renew its session in time",
		"none: the capture begins anew; if it goes on, check the network to etcd and the load of this machine", CaptureFatal}
	AddressTaken = &Code{"CDC:ErrAdvertiseAddrInUse", "another capture of the cluster has this address, and lives",
		"give each server an --advertise-addr of its own, at which the others reach it; a server that was killed and started again waits by itself until its earlier session has run out", Terminal}
	LeaveEnded = &Code{"CDC:ErrWriteLeaveEnded", "the leave to write ended before something could commit: whoever gives it could not renew its session in time",
		"none: the changefeed begins anew from its checkpoint, here or on another capture; if it goes on, check the network to etcd and the load of this machine", Retry}
	Fenced = &Code{"CDC:ErrWriterFenced", "the downstream does not take what this writer has: another one has its place",
		"none where another capture, or the same one started again, goes on with the changefeed; after sluice redo apply, pause and resume it; if it comes back, two servers write as the same changefeed of the same cluster id: stop one", Retry}
	ChangefeedExists = &Code{"CDC:ErrChangeFeedAlreadyExists", "there is a changefeed of this name",
		"choose another name, or remove the other changefeed", Terminal}
	ChangefeedNotFound = &Code{"CDC:ErrChangeFeedNotExists", "there is no changefeed of this name",
		"check the name and the namespace; list the changefeeds", Terminal}

	// Rows on disk.
	DiskFull = &Code{"CDC:ErrDiskFull", "rows that wait have filled the place on disk that they may take",
		"free space on the named device, raise the disk quota, or find the span or the sink that everything waits for; the rows are pulled again", Retry}
	SorterIO = &Code{"CDC:ErrSorterIOError", "rows that wait on disk cannot be written or read",
		"none: the rows are pulled again; if it goes on, check the named directory and its device", Retry}
	DataDirInUse = &Code{"CDC:ErrDataDirInUse", "another process uses the data directory",
		"stop the other process, or give each capture a data directory of its own", CaptureFatal}

	// Decoding.
	CorruptKey = &Code{"CDC:ErrInvalidRecordKey", "a row key cannot be decoded",
		"compare the named key with TiKV (tikv-ctl); report the bug if TiKV holds it like that", Terminal}
	CorruptRow = &Code{"CDC:ErrDecodeRowToDatum", "a row value cannot be decoded",
		"compare the named row with SELECT upstream; report the bug if TiDB reads it", Terminal}
	ChecksumMismatch = &Code{"CDC:ErrCorruptedDataMutation", "a row does not match its own checksum",
		"compare the named row with SELECT upstream: the stored value was damaged, or this is a bug", Terminal}
	InvalidDDLJob = &Code{"CDC:ErrInvalidDDLJob", "a DDL job row cannot be decoded",
		"report the bug with the job's text (ADMIN SHOW DDL JOBS)", Terminal}

	// Schema.
	UnknownDDL = &Code{"CDC:ErrDDLUnsupportedType", "a DDL job is of a kind that this release does not know",
		"upgrade Sluice, or create the changefeed again from after this DDL", Terminal}
	FlashbackCluster = &Code{"CDC:ErrFlashbackCluster", "the upstream cluster was set back in time, and its change streams do not say so",
		"create the changefeed again from after the FLASHBACK CLUSTER, with the data copied anew", Terminal}
	SchemaSnapshot = &Code{"CDC:ErrSchemaSnapshotNotFound", "the schema at the start-ts cannot be read",
		"check that start-ts lies above the GC safepoint", Terminal}
	SchemaNotFound = &Code{"CDC:ErrSnapshotSchemaNotFound", "a DDL names a database that the schema does not hold",
		"report the bug with the text of this error", Terminal}
	TableNotFound = &Code{"CDC:ErrSnapshotTableNotFound", "a DDL names a table that the schema does not hold",
		"report the bug with the text of this error", Terminal}
	RenameIntoScope = &Code{"CDC:ErrSyncRenameTableFailed", "a RENAME brings a table into the filter whose rows were never replicated",
		"create the changefeed again from after this DDL with the table's data copied, or rename it back", Terminal}
	TableIneligible = &Code{"CDC:ErrTableIneligible", "a table has no primary key and no usable unique key",
		"add a key, exclude the table by a filter rule, or set force-replicate = true and accept that its rows may be doubled after a restart", Terminal}

	// Transactions.
	TxnTooLarge = &Code{"CDC:ErrTransactionTooLarge", "a transaction is larger than what may be held to be written at once",
		"set transaction-atomicity=none in the sink URI, so that it may be written in pieces, or raise the memory quota", Terminal}

	// MySQL-compatible sinks.
	MySQLConnection = &Code{"CDC:ErrMySQLConnectionError", "the downstream database cannot be reached",
		"check host, port, user, password and TLS of the sink URI", Retry}
	MySQLReadOnly = &Code{"CDC:ErrMySQLReadOnly", "the downstream database is read-only",
		"set its read_only and super_read_only to OFF, or name in the sink URI the server that takes writes; after a failover it is tried again", Retry}
	MySQLTxn = &Code{"CDC:ErrMySQLTxnError", "the downstream database refused rows",
		"read the database's own message in this error; rows are retried", Retry}
	MySQLDuplicateEntry = &Code{"CDC:ErrMySQLDuplicateEntry", "the downstream database already holds another row with this key",
		"find who else writes the downstream table, or a unique key or trigger there that upstream's table does not have", Retry}
	MySQLAccessDenied = &Code{"CDC:ErrMySQLAccessDenied", "the downstream database does not let this user in, or not do what a changefeed does",
		"check user and password of the sink URI, whether the password has expired or the account is locked, and the privileges that docs/mysql.md lists", Retry}
	MySQLTableDiffers = &Code{"CDC:ErrMySQLTableDiffers", "a table of the downstream database is not what upstream's table is",
		"give the named table upstream's columns, keys and partitions back, or leave it out by a filter rule; the changefeed then goes on by itself", Retry}
	MySQLPacket = &Code{"CDC:ErrMySQLPacketTooLarge", "a row is larger than what the downstream database takes in one statement",
		"raise max_allowed_packet downstream above the named size; the changefeed then goes on by itself", Retry}
	MySQLQuery = &Code{"CDC:ErrMySQLQueryError", "a question about the downstream database's own state failed",
		"read the database's own message in this error, and check the user's privileges; it is asked again", Retry}
	SameUpstreamDownstream = &Code{"CDC:ErrSameUpstreamDownstream", "the downstream is the cluster that the changefeed reads",
		"check host and port of the sink URI: every row would come back as a change of its own", Terminal}
	ExecDDLFailed = &Code{"CDC:ErrExecDDLFailed", "the downstream database refused a DDL",
		"read the database's own message in this error; make the DDL possible downstream, or leave it out by a filter rule", Terminal}
	DDLNotPortable = &Code{"CDC:ErrDDLNotPortable", "the downstream database has nothing that this DDL could become",
		"leave the table out by a filter rule, or use a downstream that has the feature; docs/mysql.md lists them", Terminal}

	// Object storage.
	StorageURIInvalid = &Code{"CDC:ErrStorageURIInvalid", "the storage URI cannot be used",
		"correct the named part of the storage URI", Terminal}
	StorageAPI = &Code{"CDC:ErrS3StorageAPI", "object storage did not do what it was asked for",
		"none: it is tried again; if it goes on, check the storage and the network to it", Retry}
	StorageDenied = &Code{"CDC:ErrStorageAccessDenied", "object storage does not let us in, or not do this",
		"check the credentials, and that they may list, read, write and remove objects below the named prefix; it is tried again", Retry}
	StorageGone = &Code{"CDC:ErrStorageGone", "the bucket or directory is not there, or is another one than before",
		"bring the named bucket or directory back with what was in it; it is tried again; a directory that was mounted anew is taken after a pause and a resume of the changefeed", Retry}
	StorageFull = &Code{"CDC:ErrStorageFull", "the storage is full",
		"free space on the named storage or raise its quota; it is tried again", Retry}
	StorageUnfit = &Code{"CDC:ErrStorageUnfit", "the storage overwrites an object that was to be put only if there was none",
		"use a storage that knows If-None-Match, as S3 itself, GCS and Azure do, or a directory", Terminal}
	ObjectExists = &Code{"CDC:ErrObjectExists", "there is an object of this name already",
		"none: the object that is there is looked at", Retry}
	ObjectNotFound = &Code{"CDC:ErrObjectNotFound", "there is no object of this name",
		"check who removed the named object", Retry}

	// The redo log.
	RedoConfigInvalid = &Code{"CDC:ErrRedoConfigInvalid", "the configuration of the redo log cannot be used",
		"correct the named key of [consistent]", Terminal}
	RedoCorrupted = &Code{"CDC:ErrRedoLogCorrupted", "a file of the redo log is not what was written",
		"bring the named file back from a copy of the storage; sluice redo verify says up to which timestamp the log is whole without, which makes a snapshot only of a downstream that holds nothing above", Terminal}
	RedoTorn = &Code{"CDC:ErrRedoLogTorn", "a file of the redo log ends too soon",
		"bring the named file back from a copy of the storage; sluice redo verify says up to which timestamp the log is whole without, which makes a snapshot only of a downstream that holds nothing above", Terminal}
	RedoGap = &Code{"CDC:ErrRedoLogIncomplete", "files of the redo log are missing",
		"bring the named files back from a copy of the storage; sluice redo verify says up to which timestamp the log is whole without, which makes a snapshot only of a downstream that holds nothing above", Terminal}
	RedoVersion = &Code{"CDC:ErrRedoVersionUnsupported", "the redo log was written by a newer release, in a format that this one does not know",
		"use the release that wrote it, or a newer one", Terminal}
	RedoTooYoung = &Code{"CDC:ErrRedoLogTooYoung", "the redo log began on a downstream that was further, and has not come to there yet",
		"name the changefeed's older log by --incarnation, if there is one that this one has not overtaken yet; with none, only the upstream makes the downstream a snapshot", Terminal}
	RedoOvertaken = &Code{"CDC:ErrRedoLogOvertaken", "the changefeed went on with a later redo log, so that this one does not make the downstream a snapshot any more",
		"name the later log by --incarnation, or where it is by --storage; where that is too young, or there is none, only the upstream makes the downstream a snapshot", Terminal}
	RedoBehind = &Code{"CDC:ErrRedoLogBehind", "the redo log is not all that there was: its newest meta is gone, so that the downstream may be above what is left of it",
		"bring the newest meta back from a copy of the storage; sluice redo apply --force applies what there is, and does not call it a snapshot", Terminal}
	RedoApplied = &Code{"CDC:ErrRedoLogApplied", "a redo log was applied to the downstream before, and what was written there since would be overwritten or left beside it",
		"none, where the downstream is in use; where nobody has written to it since, sluice redo apply --force applies the log once more, and does not call it a snapshot", Terminal}
	RedoNeedsUpstream = &Code{"CDC:ErrRedoNeedsUpstream", "a DDL in the redo log brings rows that only the upstream can tell",
		"leave the named tables out by --filter of sluice redo apply, and restore them by other means", Terminal}
	RedoForeign = &Code{"CDC:ErrRedoForeignDirectory", "the place belongs to the redo logs of another cluster, or to something else",
		"give consistent.storage a place of its own for each cluster", Terminal}
	RedoElsewhere = &Code{"CDC:ErrRedoLogElsewhere", "this capture and the owner do not have the redo log in the same place",
		"give all servers the same storage: mount the directory of consistent.storage on each; nothing is written downstream meanwhile, and it is tried again", Retry}
	RedoMetaNotFound = &Code{"CDC:ErrRedoMetaFileNotFound", "there is no meta of a redo log, so that nothing is known of what its files are good for",
		"check the storage URI and the changefeed's name", Terminal}
	RedoStopped = &Code{"CDC:ErrRedoWriterStopped", "the redo log's writer has ended and takes nothing more",
		"none: the changefeed begins anew from its checkpoint", Retry}

	// Recordings (playground).
	RecordingInvalid = &Code{"CDC:ErrRecordingInvalid", "a recording cannot be read",
		"check the named file: a recording is NAME.jsonl.gz with NAME.meta.jsonl.gz beside it", Terminal}
)

// All is every code, in the order of the table in the docs.
func All() []*Code {
	return []*Code{
		Unexpected,
		InvalidArgument, FilterRuleInvalid, FilterExpression, FilterColumn, IgnoreEventInvalid,
		ConfigInvalid, ChangefeedIDInvalid, NamespaceInvalid, SinkURIInvalid,
		ServerConfigInvalid, ServerListen, ServerNotReady, ServerUnreachable, OwnerNotFound, RequestForward, ClusterUnhealthy,
		CaptureNotFound, CaptureSilent, SchedulerRequest, Unauthorized, CredentialMissing, NotInRelease, UnknownPath, RequestTooLarge,
		ChangefeedStuck, StartTSBeforeGC, GCTTLExceeded, UpdateRefused, TargetTSInvalid, CheckpointInvalid, Aborted,
		PDUnreachable, UpstreamAway, UpstreamLost, VersionIncompatible, ClusterIDMismatch, OtherUpstream, EventFeed, RegionLookup,
		PrewriteNotMatch, ResolvedTsRegressed, SnapshotRead, LockResolve, KeyspaceNotFound, GCHold, SnapshotLostByGC,
		MetaUnreachable, MetaConflict, MetaCorrupted, MetaDirDamaged, MetaDisk, MetaVersion, NotOwner, EpochChanged, SessionLost, AddressTaken, LeaveEnded, Fenced, ChangefeedExists, ChangefeedNotFound,
		DiskFull, SorterIO, DataDirInUse,
		CorruptKey, CorruptRow, ChecksumMismatch, InvalidDDLJob,
		UnknownDDL, FlashbackCluster, SchemaSnapshot, SchemaNotFound, TableNotFound, RenameIntoScope, TableIneligible,
		TxnTooLarge,
		MySQLConnection, MySQLReadOnly, MySQLTxn, MySQLDuplicateEntry, MySQLAccessDenied, MySQLTableDiffers, MySQLPacket, MySQLQuery, SameUpstreamDownstream, ExecDDLFailed, DDLNotPortable,
		StorageURIInvalid, StorageAPI, StorageDenied, StorageGone, StorageFull, StorageUnfit, ObjectExists, ObjectNotFound,
		RedoConfigInvalid, RedoCorrupted, RedoTorn, RedoGap, RedoTooYoung, RedoOvertaken, RedoBehind, RedoApplied, RedoElsewhere, RedoNeedsUpstream, RedoVersion, RedoForeign, RedoMetaNotFound, RedoStopped,
		RecordingInvalid,
	}
}
