package oracle_test

import (
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
)

// jobCase is one way to have a kind of job.
type jobCase struct {
	before []string // in database d, which has one table t and is filled after them
	after  []string // once it is filled
	sql    string
	fails  bool     // the job is undone
	fast   []string // instead of sql: tables that are created together
}

// one is a case without anything before it.
func one(sql string) jobCase { return jobCase{sql: sql} }

const (
	parts  = "CREATE TABLE p (id bigint NOT NULL PRIMARY KEY, v varchar(20)) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (1002), PARTITION p2 VALUES LESS THAN (100000))"
	hashed = "CREATE TABLE h (id bigint NOT NULL PRIMARY KEY, v varchar(20)) PARTITION BY HASH (id) PARTITIONS 3"
	bare   = "CREATE TABLE k (id bigint NOT NULL, v varchar(20))"
)

func after(before, sql string) jobCase { return jobCase{before: []string{before}, sql: sql} }

// jobCases are all kinds of job that change what is replicated, each in one way
// or several.
func jobCases() map[event.Action][]jobCase {
	cases := map[event.Action][]jobCase{
		event.ActionCreateSchema:  {one("CREATE DATABASE o")},
		event.ActionDropSchema:    {{before: []string{"CREATE DATABASE o", "CREATE TABLE o.t (id bigint PRIMARY KEY, v int)", "CREATE TABLE o.h (id bigint PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2"}, sql: "DROP DATABASE o"}},
		event.ActionCreateTable:   {one("CREATE TABLE c (id bigint PRIMARY KEY, v int)"), one(hashed), one("CREATE TABLE c LIKE t"), after("CREATE TABLE q (id bigint PRIMARY KEY)", "CREATE TABLE c (id bigint PRIMARY KEY, n bigint, FOREIGN KEY (n) REFERENCES q (id))")},
		event.ActionCreateTables:  {{fast: []string{"CREATE TABLE c (id bigint PRIMARY KEY, v int)", hashed}}},
		event.ActionDropTable:     {one("DROP TABLE t"), after(parts, "DROP TABLE p"), one("DROP TABLE t, d.t2")},
		event.ActionTruncateTable: {one("TRUNCATE TABLE t"), after(parts, "TRUNCATE TABLE p")},
		event.ActionRenameTable:   {one("RENAME TABLE t TO r"), after("CREATE DATABASE o", "RENAME TABLE t TO o.t")},
		event.ActionRenameTables:  {one("RENAME TABLE t TO x, t2 TO t, x TO t2"), one("RENAME TABLE t TO r, t2 TO s")},
		event.ActionRecoverTable: {
			{after: []string{"DROP TABLE t"}, sql: "FLASHBACK TABLE t TO back"},
			{after: []string{"TRUNCATE TABLE t"}, sql: "FLASHBACK TABLE t TO back"},
			{before: []string{parts}, after: []string{"DROP TABLE p"}, sql: "RECOVER TABLE p"},
		},
		event.ActionRecoverSchema: {{before: []string{"CREATE DATABASE o", "CREATE TABLE o.t (id bigint PRIMARY KEY, v int)"}, after: []string{"DROP DATABASE o"}, sql: "FLASHBACK DATABASE o TO o2"}},
		event.ActionCreateView:    {one("CREATE VIEW w AS SELECT id FROM t"), after("CREATE VIEW w AS SELECT id FROM t", "CREATE OR REPLACE VIEW w AS SELECT v FROM t")},
		event.ActionDropView:      {after("CREATE VIEW w AS SELECT id FROM t", "DROP VIEW w")},
	}
	for kind, more := range tableCases() {
		cases[kind] = more
	}
	for kind, more := range otherCases() {
		cases[kind] = more
	}
	return cases
}

// tableCases change one table.
func tableCases() map[event.Action][]jobCase {
	return map[event.Action][]jobCase{
		event.ActionAddColumn: {
			one("ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT 5 FIRST"), one("ALTER TABLE t ADD COLUMN c varchar(20)"),
			one("ALTER TABLE t ADD COLUMN c decimal(10,2) DEFAULT 1.5"), after(hashed, "ALTER TABLE h ADD COLUMN c datetime DEFAULT '2024-02-03 04:05:06' AFTER id"),
		},
		event.ActionDropColumn: {one("ALTER TABLE t DROP COLUMN n"), after(hashed, "ALTER TABLE h DROP COLUMN v")},
		event.ActionModifyColumn: {
			one("ALTER TABLE t MODIFY COLUMN n varchar(30) NOT NULL"), one("ALTER TABLE t MODIFY COLUMN n bigint NOT NULL"), one("ALTER TABLE t MODIFY COLUMN n int"),
			one("ALTER TABLE t CHANGE COLUMN n m varchar(30) FIRST"), one("ALTER TABLE t RENAME COLUMN n TO m"),
			after("ALTER TABLE t ADD INDEX i (n)", "ALTER TABLE t MODIFY COLUMN n varchar(30)"), after(hashed, "ALTER TABLE h MODIFY COLUMN v varchar(40)"), after("CREATE TABLE m (id bigint PRIMARY KEY, d date NOT NULL, e decimal(20,4)) PARTITION BY HASH (id) PARTITIONS 2", "ALTER TABLE m MODIFY COLUMN d varchar(20)"),
			{sql: "ALTER TABLE t MODIFY COLUMN v int", fails: true}, {sql: "ALTER TABLE t MODIFY COLUMN n tinyint", fails: true},
		},
		event.ActionSetDefault:       {one("ALTER TABLE t ALTER COLUMN n SET DEFAULT 8")},
		event.ActionAddIndex:         {one("ALTER TABLE t ADD INDEX i (n)"), after(bare, "ALTER TABLE k ADD INDEX (v, id)"), {before: []string{"CREATE TABLE y (id bigint PRIMARY KEY, few tinyint NOT NULL)"}, sql: "ALTER TABLE y ADD UNIQUE INDEX (few)", fails: true}},
		event.ActionDropIndex:        {after("ALTER TABLE t ADD INDEX i (n)", "ALTER TABLE t DROP INDEX i")},
		event.ActionRenameIndex:      {after("ALTER TABLE t ADD INDEX i (n)", "ALTER TABLE t RENAME INDEX i TO j")},
		event.ActionIndexVisibility:  {after("ALTER TABLE t ADD INDEX i (n)", "ALTER TABLE t ALTER INDEX i INVISIBLE")},
		event.ActionAddPrimaryKey:    {after(bare, "ALTER TABLE k ADD PRIMARY KEY (id) NONCLUSTERED")},
		event.ActionDropPrimaryKey:   {after("CREATE TABLE k2 (id bigint NOT NULL, v int, PRIMARY KEY (id) NONCLUSTERED)", "ALTER TABLE k2 DROP PRIMARY KEY")},
		event.ActionAddForeignKey:    {{before: []string{"CREATE TABLE q (id int PRIMARY KEY)", "ALTER TABLE t ADD INDEX (n)"}, sql: "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (n) REFERENCES q (id)"}},
		event.ActionDropForeignKey:   {{before: []string{"CREATE TABLE q (id int PRIMARY KEY)", "ALTER TABLE t ADD INDEX (n)", "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (n) REFERENCES q (id)"}, sql: "ALTER TABLE t DROP FOREIGN KEY f"}},
		event.ActionAddCheck:         {one("ALTER TABLE t ADD CONSTRAINT ck CHECK (id >= 0)")},
		event.ActionDropCheck:        {after("ALTER TABLE t ADD CONSTRAINT ck CHECK (id >= 0)", "ALTER TABLE t DROP CONSTRAINT ck")},
		event.ActionAlterCheck:       {after("ALTER TABLE t ADD CONSTRAINT ck CHECK (id >= 0)", "ALTER TABLE t ALTER CONSTRAINT ck NOT ENFORCED")},
		event.ActionRebaseAutoID:     {after("CREATE TABLE a (id bigint PRIMARY KEY AUTO_INCREMENT, v int)", "ALTER TABLE a AUTO_INCREMENT = 5000")},
		event.ActionAutoIDCache:      {after("CREATE TABLE a (id bigint PRIMARY KEY AUTO_INCREMENT, v int)", "ALTER TABLE a AUTO_ID_CACHE 100")},
		event.ActionRebaseAutoRandom: {after("CREATE TABLE a (id bigint PRIMARY KEY AUTO_RANDOM, v int)", "ALTER TABLE a AUTO_RANDOM_BASE = 5000")},
		event.ActionShardRowID:       {after(bare, "ALTER TABLE k SHARD_ROW_ID_BITS = 4")},
		event.ActionTableComment:     {one("ALTER TABLE t COMMENT 'said'")},
		event.ActionTableCharset:     {after("CREATE TABLE u (id bigint PRIMARY KEY, v varchar(20)) CHARACTER SET utf8", "ALTER TABLE u CONVERT TO CHARACTER SET utf8mb4")},
		event.ActionMultiSchemaChange: {
			one("ALTER TABLE t ADD COLUMN c int DEFAULT 5, ADD COLUMN e varchar(10) NOT NULL DEFAULT 'x' FIRST"),
			one("ALTER TABLE t ADD COLUMN c int DEFAULT 5, MODIFY COLUMN n varchar(30), ADD INDEX (v)"),
			one("ALTER TABLE t DROP COLUMN v, ADD COLUMN v2 bigint DEFAULT 6"),
			after("ALTER TABLE t ADD INDEX i (v)", "ALTER TABLE t DROP INDEX i, DROP COLUMN n, RENAME COLUMN v TO z"),
			{sql: "ALTER TABLE t ADD COLUMN c int, MODIFY COLUMN v int", fails: true},
		},
		event.ActionAlterTTL:            {after("CREATE TABLE l (id bigint PRIMARY KEY, at datetime)", "ALTER TABLE l TTL = at + INTERVAL 1 DAY")},
		event.ActionRemoveTTL:           {after("CREATE TABLE l (id bigint PRIMARY KEY, at datetime) TTL = at + INTERVAL 1 DAY", "ALTER TABLE l REMOVE TTL")},
		event.ActionAddPartition:        {after(parts, "ALTER TABLE p ADD PARTITION (PARTITION p3 VALUES LESS THAN (200000), PARTITION p4 VALUES LESS THAN MAXVALUE)")},
		event.ActionDropPartition:       {after(parts, "ALTER TABLE p DROP PARTITION p0"), after(parts, "ALTER TABLE p DROP PARTITION p0, p1")},
		event.ActionTruncatePartition:   {after(parts, "ALTER TABLE p TRUNCATE PARTITION p0"), after(hashed, "ALTER TABLE h TRUNCATE PARTITION p0, p2")},
		event.ActionReorganizePartition: {after(parts, "ALTER TABLE p REORGANIZE PARTITION p0, p1 INTO (PARTITION p0 VALUES LESS THAN (3), PARTITION n1 VALUES LESS THAN (7), PARTITION p1 VALUES LESS THAN (1002))"), after(hashed, "ALTER TABLE h ADD PARTITION PARTITIONS 2"), after(hashed, "ALTER TABLE h COALESCE PARTITION 1")},
		event.ActionAlterPartitioning:   {one("ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 3"), after(parts, "ALTER TABLE p PARTITION BY HASH (id) PARTITIONS 2")},
		event.ActionRemovePartitioning:  {after(parts, "ALTER TABLE p REMOVE PARTITIONING"), after(hashed, "ALTER TABLE h REMOVE PARTITIONING")},
		event.ActionExchangePartition: {
			{before: []string{parts, "CREATE TABLE x (id bigint NOT NULL PRIMARY KEY, v varchar(20))"}, sql: "ALTER TABLE p EXCHANGE PARTITION p1 WITH TABLE x WITHOUT VALIDATION"},
			{before: []string{hashed, "CREATE TABLE x (id bigint NOT NULL PRIMARY KEY, v varchar(20))"}, sql: "ALTER TABLE h EXCHANGE PARTITION p1 WITH TABLE x", fails: true},
		},
	}
}

// otherCases change nothing that rows are decoded by.
func otherCases() map[event.Action][]jobCase {
	const policy = "CREATE PLACEMENT POLICY pol PRIMARY_REGION='a' REGIONS='a,b'"
	return map[event.Action][]jobCase{
		event.ActionSchemaCharset:       {one("ALTER DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")},
		event.ActionTableAttributes:     {one("ALTER TABLE t ATTRIBUTES 'merge_option=deny'")},
		event.ActionPartitionAttributes: {after(parts, "ALTER TABLE p PARTITION p0 ATTRIBUTES 'merge_option=deny'")},
		event.ActionSetTiFlashReplica:   {one("ALTER TABLE t SET TIFLASH REPLICA 1")},
		event.ActionCreateSequence:      {one("CREATE SEQUENCE s")},
		event.ActionAlterSequence:       {after("CREATE SEQUENCE s", "ALTER SEQUENCE s INCREMENT BY 5")},
		event.ActionDropSequence:        {after("CREATE SEQUENCE s", "DROP SEQUENCE s")},
		event.ActionCacheTable:          {one("ALTER TABLE t CACHE")},
		event.ActionNoCacheTable:        {after("ALTER TABLE t CACHE", "ALTER TABLE t NOCACHE")},
		event.ActionCreatePlacement:     {one(policy)},
		event.ActionAlterPlacement:      {after(policy, "ALTER PLACEMENT POLICY pol PRIMARY_REGION='b' REGIONS='a,b'")},
		event.ActionDropPlacement:       {after(policy, "DROP PLACEMENT POLICY pol")},
		event.ActionTablePlacement:      {after(policy, "ALTER TABLE t PLACEMENT POLICY = pol")},
		event.ActionSchemaPlacement:     {after(policy, "ALTER DATABASE d PLACEMENT POLICY = pol")},
		event.ActionPartitionPlacement:  {{before: []string{policy, parts}, sql: "ALTER TABLE p PARTITION p0 PLACEMENT POLICY = pol"}},
		event.ActionCreateResourceGroup: {one("CREATE RESOURCE GROUP g RU_PER_SEC = 100")},
		event.ActionAlterResourceGroup:  {after("CREATE RESOURCE GROUP g RU_PER_SEC = 100", "ALTER RESOURCE GROUP g RU_PER_SEC = 200")},
		event.ActionDropResourceGroup:   {after("CREATE RESOURCE GROUP g RU_PER_SEC = 100", "DROP RESOURCE GROUP g")},
	}
}

// unmade are the kinds of job for which no statement stands here, each with why.
var unmade = map[event.Action]string{
	event.ActionLockTable:        "TiDB makes it only where table locks are switched on, for trying them out; no recording has its form",
	event.ActionUnlockTable:      "as lock table",
	event.ActionRepairTable:      "TiDB makes it only where it was started to repair that very table",
	event.ActionTiFlashStatus:    "no statement makes it: TiDB does, when TiFlash has caught up",
	event.ActionAddColumns:       "TiDB makes a multi schema change instead since 6.2",
	event.ActionDropColumns:      "as add columns",
	event.ActionDropIndexes:      "as add columns",
	event.ActionAlterTableAlter:  "no TiDB has ever made it",
	event.ActionStatsOptions:     "of statistics alone; no recording has its form",
	event.ActionFlashbackCluster: "it ends a changefeed, which the filter's tests have",
	event.ActionAddColumnarIndex: "needs TiFlash; no recording has its form",
	event.ActionEngineAttribute:  "of storage alone; no recording has its form",
	event.ActionTableMode:        "no statement makes it: BR does",
	event.ActionRefreshMeta:      "no statement makes it: BR does",
	event.ActionSchemaReadOnly:   "newer than the recordings",
	event.ActionTableAffinity:    "newer than the recordings",
	event.ActionTableSoftDelete:  "newer than the recordings",
	event.ActionSchemaSoftDelete: "newer than the recordings",
}

// While a job takes its steps, rows are committed between any two of them, by
// servers of the schema of before and of after the last step, in transactions
// that began before it and after. None is lost, none is decoded by another
// schema than its own, and rows of ids that no table has are no error.
func TestWritersBetweenTheStepsOfEveryJob(t *testing.T) {
	cases := jobCases()
	for kind := event.ActionNone + 1; kind <= event.ActionSchemaSoftDelete; kind++ {
		if why, ok := unmade[kind]; ok {
			t.Logf("%s: %s", kind, why)
			continue
		}
		if !kind.Known() {
			continue
		}
		if len(cases[kind]) == 0 {
			t.Errorf("%s: no case, and no reason", kind)
		}
		for _, c := range cases[kind] {
			name := c.sql
			if name == "" {
				name = c.fast[0]
			}
			t.Run(kind.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				c.run(t, kind)
			})
		}
	}
}

func (c *jobCase) run(t *testing.T, kind event.Action) {
	r := newRig(t, 1)
	defer r.stop()
	quiet := func(sql string) {
		t.Helper()
		if err := r.server.Exec(r.ctx, sql, catalog.Session{DB: "d"}, nil); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	must(t, r.server.Exec(r.ctx, "CREATE DATABASE d", catalog.Session{}, nil))
	quiet("CREATE TABLE t (id bigint NOT NULL PRIMARY KEY, v varchar(20), n int NOT NULL DEFAULT 3)")
	quiet("CREATE TABLE t2 (id varchar(30) NOT NULL, w int, PRIMARY KEY (id) CLUSTERED)")
	for _, sql := range c.before {
		quiet(sql)
	}
	r.fill()
	for _, sql := range c.after {
		quiet(sql)
	}
	var err error
	if c.fast != nil {
		err = r.server.CreateTogether(r.ctx, c.fast, catalog.Session{DB: "d"}, r.noting)
		r.release()
	} else {
		err = r.exec("d", c.sql)
	}
	if (err != nil) != c.fails {
		t.Fatalf("%s: %v", c.sql, err)
	}
	r.fill()
	r.finish()
	r.past()
	if r.wrote < 4 || r.old < 2 || r.hung < 1 {
		t.Errorf("only %d transactions between %d steps, %d of the old version, %d across one", r.wrote, r.steps, r.old, r.hung)
	}
	if truncates := kind == event.ActionTruncateTable || kind == event.ActionTruncatePartition; truncates && r.into.oracle.Strays() == 0 {
		t.Error("nobody was late: no row under an id that is gone")
	}
	jobs := r.server.Jobs()
	if !slices.ContainsFunc(jobs[len(jobs)-3:], func(j *catalog.JobInfo) bool { return event.Action(j.Type) == kind }) {
		t.Errorf("the last job is of action %d", jobs[len(jobs)-1].Type)
	}
}
