package mysql

import (
	"errors"
	"fmt"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// Doing is what becomes of a feature downstream.
type Doing uint8

// What is done.
const (
	Kept     Doing = iota // carried out as it stands
	Rewrite               // becomes something else with the same contents
	LeaveOut              // has no trace downstream; contents are the same
	Stop                  // the DDL is refused with DDLNotPortable
)

var doingNames = [...]string{"kept", "rewritten", "left out", "stops"}

// String is the word of the documentation.
func (d Doing) String() string { return doingNames[d] }

// Treatment is what becomes of a feature in one kind of downstream, and how.
type Treatment struct {
	Doing Doing
	How   string // empty where Doing says all
}

// String is a cell of the documentation's table.
func (t Treatment) String() string {
	if t.How == "" {
		return t.Doing.String()
	}
	return t.Doing.String() + ": " + t.How
}

// Feature is one row of the table of what downstreams lack.
type Feature struct {
	ID   string
	What string // as TiDB writes it
	Why  string
	// In is what each kind of downstream gets.
	In map[Kind]Treatment
}

// The features by which notes and errors name what was done.
const (
	FeatureGB18030           = "gb18030"
	Feature0900              = "utf8mb4_0900 collations"
	FeatureVector            = "vector"
	FeatureSpecialIndex      = "vector, columnar and full-text indexes"
	FeatureGeneratedPK       = "primary key on a generated column"
	FeatureGeneratedNN       = "NOT NULL on a generated column"
	FeatureExpression        = "expression and multi-valued indexes"
	FeatureInvisible         = "invisible index"
	FeatureGlobal            = "global index"
	FeaturePartialIndex      = "partial index"
	FeatureInterval          = "INTERVAL partitioning"
	FeatureListDefault       = "VALUES IN (DEFAULT)"
	FeatureKeyPartition      = "rows of one KEY partition"
	FeaturePartitioning      = "partitioning"
	FeatureCollatedPartition = "partitions by strings of another collation"
	FeatureSubpartition      = "LINEAR and subpartitions"
	FeatureValidation        = "WITHOUT VALIDATION"
	FeatureTTL               = "TTL"
	FeatureRecover           = "FLASHBACK and RECOVER of tables and databases"
	FeatureFlashbackCluster  = "FLASHBACK CLUSTER"
	FeatureHints             = "storage hints"
	FeaturePlacement         = "placement policies"
	FeatureCluster           = "what is TiDB's own"
	FeatureSequence          = "sequences"
	FeatureTemporary         = "global temporary tables"
	FeatureCheck             = "CHECK constraints"
	FeatureEngine            = "engine options"
	FeatureReferences        = "REFERENCES in a column"
	FeatureJSON              = "JSON"
	FeatureLatin1            = "latin1 bytes"
	FeatureZone              = "time zone names"
	FeatureDefault           = "functions as DEFAULT"
	FeatureTime              = "TIME(n)"
)

func all(t Treatment) map[Kind]Treatment {
	return map[Kind]Treatment{TiDB: t, MySQL: t, MariaDB: t, Other: t}
}

// others is t for all but TiDB, which has the feature itself.
func others(t Treatment) map[Kind]Treatment {
	m := all(t)
	m[TiDB] = Treatment{Doing: Kept}
	return m
}

func with(m map[Kind]Treatment, k Kind, t Treatment) map[Kind]Treatment {
	m[k] = t
	return m
}

// Features is the table. docs/mysql.md prints it.
func Features() []Feature {
	kept := Treatment{Doing: Kept}
	return []Feature{
		{FeatureGB18030, "`CHARACTER SET gb18030`",
			"MariaDB has no gb18030. utf8mb4 holds all of it, in the form in which TiDB stores it",
			with(with(others(Treatment{Rewrite, "utf8mb4_nopad_bin: values that upstream's collation calls equal are told apart"}), MySQL, kept),
				Other, Treatment{Rewrite, "utf8mb4_bin, and gbk too"})},
		{Feature0900, "`utf8mb4_0900_ai_ci`, `utf8mb4_0900_bin`",
			"MariaDB's collations of the same kind have other weights: values that upstream holds apart could be one key",
			with(with(others(kept), MariaDB, Treatment{Rewrite, "utf8mb4_nopad_bin: values that upstream's collation calls equal are told apart"}),
				MySQL, Treatment{Kept, "before 8.0: utf8mb4_bin, and a unique index on such a column stops: every collation there takes `a` and `a` with a blank for one"})},
		{FeatureVector, "`VECTOR`, `VECTOR(n)`",
			"where there is a VECTOR it is stored in another form",
			others(Treatment{Rewrite, "LONGTEXT with the text that TiDB shows"})},
		{FeatureSpecialIndex, "`VECTOR INDEX`, `COLUMNAR INDEX`, `FULLTEXT INDEX`",
			"they speed up queries of TiDB's own functions",
			others(Treatment{LeaveOut, ""})},
		{FeatureGeneratedPK, "`PRIMARY KEY` on a stored generated column",
			"MariaDB refuses it, and takes a UNIQUE key on the same column",
			with(others(kept), MariaDB, Treatment{Rewrite, "UNIQUE KEY"})},
		{FeatureGeneratedNN, "`NOT NULL` on a generated column",
			"MariaDB's grammar has no place for it",
			with(others(kept), MariaDB, Treatment{LeaveOut, ""})},
		{FeatureExpression, "index on an expression or on the elements of a JSON array",
			"no row's contents depend on it",
			with(others(Treatment{LeaveOut, ""}), MySQL, Treatment{Kept, "before 8.0.17: left out"})},
		{FeatureInvisible, "`INVISIBLE` index",
			"MariaDB calls it IGNORED",
			with(with(others(Treatment{LeaveOut, "the index is visible"}), MySQL, Treatment{Kept, "before 8.0: left out"}),
				MariaDB, Treatment{Rewrite, "IGNORED (before 10.6: left out)"})},
		{FeatureGlobal, "`GLOBAL` unique index of a partitioned table",
			"elsewhere a unique index of a partitioned table must hold the partitioning columns",
			with(others(Treatment{Rewrite, "ordinary index; rows are deleted by key before they are inserted, so that a second delivery doubles none"}),
				Other, Treatment{LeaveOut, "the index is unique; tables are not partitioned"})},
		{FeaturePartialIndex, "index `WHERE` condition",
			"others have no partial index, and a unique one over all rows would refuse some",
			others(Treatment{Rewrite, "ordinary index over all rows"})},
		{FeatureInterval, "`PARTITION BY RANGE … INTERVAL`",
			"shorthand of TiDB's",
			others(Treatment{Rewrite, "the partitions of the table info, one by one"})},
		{FeatureListDefault, "`PARTITION … VALUES IN (DEFAULT)`",
			"MariaDB has it under another spelling, which takes values beside DEFAULT in as well; MySQL has nothing like it",
			with(others(Treatment{Stop, ""}), MariaDB, Treatment{Rewrite, "`PARTITION p DEFAULT`"})},
		{FeatureKeyPartition, "`TRUNCATE PARTITION` and `EXCHANGE PARTITION` of a table `PARTITION BY KEY`",
			"each database hashes keys in its own way, so the downstream's partition holds other rows",
			others(Treatment{Rewrite, "the tables are emptied and filled by reading the upstream at the statement's commit-ts; stops where the sink was given no reader"})},
		{FeaturePartitioning, "`PARTITION BY`, `DROP`, `TRUNCATE` and `EXCHANGE PARTITION`",
			"an unknown server may take PARTITION BY and not mean it",
			with(all(kept), Other, Treatment{LeaveOut, "tables are not partitioned; DROP, TRUNCATE and EXCHANGE PARTITION empty them and fill them from the upstream, as for KEY"})},
		{FeatureCollatedPartition, "`PARTITION BY RANGE COLUMNS`, `LIST COLUMNS` of a column whose collation is another downstream",
			"its order and its equality draw the partitions' bounds",
			others(Treatment{LeaveOut, "tables are not partitioned; DROP, TRUNCATE and EXCHANGE PARTITION empty them and fill them from the upstream, as for KEY"})},
		{FeatureSubpartition, "`LINEAR`, `SUBPARTITION BY`, `ALGORITHM`",
			"TiDB reads these words and does without them",
			all(Treatment{LeaveOut, ""})},
		{FeatureValidation, "`EXCHANGE PARTITION … WITHOUT VALIDATION`",
			"MariaDB before 11.4 always validates",
			with(all(kept), MariaDB, Treatment{LeaveOut, ""})},
		{FeatureTTL, "`TTL`",
			"rows that TiDB's TTL deletes are deleted downstream by their own events",
			with(others(Treatment{LeaveOut, ""}), TiDB, Treatment{Rewrite, "TTL_ENABLE = 'OFF'"})},
		{FeatureRecover, "`FLASHBACK TABLE`, `RECOVER TABLE`, `FLASHBACK DATABASE`",
			"the old rows come back without an event, and nobody else keeps dropped tables",
			others(Treatment{Rewrite, "created from the table info and filled by reading the upstream at the statement's commit-ts; stops where the sink was given no reader"})},
		{FeatureFlashbackCluster, "`FLASHBACK CLUSTER`",
			"it undoes rows without events",
			all(Treatment{Stop, ""})},
		{FeatureHints, "`CLUSTERED`, `NONCLUSTERED`, `AUTO_RANDOM`, `SHARD_ROW_ID_BITS`, `PRE_SPLIT_REGIONS`, `AUTO_ID_CACHE`",
			"they tell TiKV where rows lie",
			others(Treatment{LeaveOut, ""})},
		{FeaturePlacement, "placement policies",
			"the policies of another cluster name other stores",
			all(Treatment{LeaveOut, ""})},
		{FeatureCluster, "resource groups, TiFlash replicas, cached tables, attributes, statistics options, table locks and modes, schema read-only, soft delete, affinity",
			"they say how one cluster does its work",
			all(Treatment{LeaveOut, ""})},
		{FeatureSequence, "`CREATE`, `ALTER`, `DROP SEQUENCE`, `DEFAULT NEXTVAL`",
			"rows carry the numbers that were drawn; the sequence's own state is in no event",
			with(others(Treatment{LeaveOut, "with the DEFAULT that draws from it"}), MariaDB, kept)},
		{FeatureTemporary, "`CREATE GLOBAL TEMPORARY TABLE`",
			"its rows are never replicated",
			others(Treatment{LeaveOut, ""})},
		{FeatureCheck, "`CHECK`",
			"TiDB has judged the rows, or does not enforce the constraint at all (tidb_enable_check_constraint)",
			others(Treatment{LeaveOut, ""})},
		{FeatureEngine, "`ENGINE`, `ROW_FORMAT`, `COMPRESSION`, `KEY_BLOCK_SIZE` and the like; `ALGORITHM`, `LOCK`, `ORDER BY` of ALTER",
			"TiDB reads and ignores them; downstream they could turn transactions off or be refused",
			others(Treatment{LeaveOut, ""})},
		{FeatureReferences, "`REFERENCES` in a column's definition",
			"TiDB and MySQL ignore it, MariaDB would make a foreign key of it",
			others(Treatment{LeaveOut, ""})},
		{FeatureJSON, "`JSON`",
			"MariaDB's JSON is text with a check that stops at 32 levels",
			with(others(kept), MariaDB, Treatment{Rewrite, "text as TiDB prints it; the session does without check constraints"})},
		{FeatureLatin1, "bytes in a latin1 column that are no text of latin1",
			"TiDB neither checks nor converts what latin1 columns are given",
			others(Treatment{Rewrite, "the bytes stay as they are and read as other characters"})},
		{FeatureDefault, "`DEFAULT (uuid())`, `(json_object(…))` and the like",
			"MySQL before 8.0.13 has CURRENT_TIMESTAMP only; rows carry their values anyway",
			with(all(kept), MySQL, Treatment{Kept, "before 8.0.13: left out"})},
		{FeatureTime, "fractions of a `TIME`",
			"an unknown server may have no TIME(n)",
			with(all(kept), Other, Treatment{Rewrite, "TIME"})},
		{FeatureZone, "MODIFY between TIMESTAMP and other types in a session with a named time zone",
			"the conversion needs the zone's offsets",
			all(Treatment{Rewrite, "the named zone where the server knows it, else offsets from Sluice's own time zone data"})},
	}
}

// portability is the part of an error that names a row of the table.
type portability struct{ feature string }

func (p portability) Error() string { return p.feature + " (see docs/mysql.md)" }

// notPortable refuses a DDL.
func notPortable(d *event.DDL, dialect Dialect, feature, format string, args ...any) error {
	return cdcerr.DDLNotPortable.Wrap(portability{feature}, "job %d at %d, %s: %s on %s", d.JobID, d.SwitchTS, fmt.Sprintf(format, args...), d.Query, dialect)
}

// StoppedBy names the feature for which a DDL was refused, empty for any other error.
func StoppedBy(err error) string {
	var p portability
	if errors.As(err, &p) {
		return p.feature
	}
	return ""
}
