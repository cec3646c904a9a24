package event

import (
	"strings"

	"github.com/sluice-cdc/sluice/tso"
)

// TableChange is what a DDL did to one table. Before is nil for a new one,
// After for one that is gone. Ids tell a table's identity, not names.
type TableChange struct {
	Before *Table
	After  *Table
}

// Conversion is a column that a DDL rewrote: rows not touched since SwitchTS
// hold a value that no event carries.
type Conversion struct {
	TableID int64
	FromID  int64 // column id before
	ToID    int64 // column id after
	Name    string
}

// DDL is one finished DDL job.
//
// It counts from SwitchTS: the first moment at which TiDB's writers used the
// new shape (P6: it is carried out after every row at or below SwitchTS of the
// tables it touches, and before any above). FinishedTS is the commit-ts of the
// job's done row; for most kinds both are the same.
type DDL struct {
	JobID         int64
	Action        Action
	StartTS       tso.TS
	SwitchTS      tso.TS
	FinishedTS    tso.TS
	SchemaVersion int64

	// Query is the statement as TiDB keeps it, to be parsed with SQLMode,
	// Charset and Collation of the session that ran it; names without a
	// database in it belong to Schema.
	Query     string
	Schema    string
	SQLMode   uint64
	Charset   string
	Collation string
	// Zone is the session's time zone where TiDB recorded it: a name, or with
	// an empty name an offset in seconds east of UTC. It rules conversions
	// between TIMESTAMP and other types.
	ZoneName   string
	ZoneOffset int

	// Database changes: Before nil = created, After nil = dropped.
	DatabaseBefore *Database
	DatabaseAfter  *Database
	// Tables in the order in which the job changed them.
	Tables      []TableChange
	Conversions []Conversion

	// WithValidation belongs to EXCHANGE PARTITION; Partition names the partition.
	WithValidation bool
	Partition      string

	BDRRole     string
	WriteSource uint64
}

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }
