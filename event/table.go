package event

import "slices"

// Type is a MySQL column type code.
type Type byte

// The type codes, as TiDB stores them.
const (
	TypeTiny       Type = 1
	TypeShort      Type = 2
	TypeLong       Type = 3
	TypeFloat      Type = 4
	TypeDouble     Type = 5
	TypeNull       Type = 6
	TypeTimestamp  Type = 7
	TypeLonglong   Type = 8
	TypeInt24      Type = 9
	TypeDate       Type = 10
	TypeDuration   Type = 11
	TypeDatetime   Type = 12
	TypeYear       Type = 13
	TypeNewDate    Type = 14
	TypeVarchar    Type = 15
	TypeBit        Type = 16
	TypeVector     Type = 0xe1
	TypeJSON       Type = 0xf5
	TypeNewDecimal Type = 0xf6
	TypeEnum       Type = 0xf7
	TypeSet        Type = 0xf8
	TypeTinyBlob   Type = 0xf9
	TypeMediumBlob Type = 0xfa
	TypeLongBlob   Type = 0xfb
	TypeBlob       Type = 0xfc
	TypeVarString  Type = 0xfd
	TypeString     Type = 0xfe
	TypeGeometry   Type = 0xff
)

// Flag is a set of MySQL column flags.
type Flag uint32

// The flags, as TiDB stores them.
const (
	FlagNotNull       Flag = 1
	FlagPriKey        Flag = 2
	FlagUniqueKey     Flag = 4
	FlagMultipleKey   Flag = 8
	FlagUnsigned      Flag = 32
	FlagZerofill      Flag = 64
	FlagBinary        Flag = 128
	FlagAutoIncrement Flag = 512
	FlagNoDefault     Flag = 4096
	FlagOnUpdateNow   Flag = 8192
)

// Generated tells how a column comes by its value.
type Generated uint8

// The kinds of generation. A Virtual column is in no row: its Value is Missing.
const (
	NotGenerated Generated = iota
	Virtual
	Stored
)

// Column is one public, visible column.
type Column struct {
	ID        int64 // TiDB's column id: stable through renames, new after a converting MODIFY
	Name      string
	Type      Type
	Flag      Flag
	Flen      int // -1 unspecified
	Decimal   int // scale or fraction digits; -1 unspecified
	Charset   string
	Collation string
	Elems     []string // members of an ENUM or SET
	Comment   string

	Generated Generated
	// GenExpr is the expression of a generated column, as TiDB prints it.
	GenExpr string

	// Default is the DEFAULT clause's value as text, nil where there is none.
	// DefaultIsExpr says that it is an expression and not a literal.
	Default       *string
	DefaultIsExpr bool

	// Absent is what a row has that was written before the column existed:
	// the origin default, cast to the present type; NULL; or the type's zero.
	// HasOrigin says that it is an origin default.
	Absent    Value
	HasOrigin bool
}

// NotNull tells whether the column refuses NULL.
func (c *Column) NotNull() bool { return c.Flag&FlagNotNull != 0 }

// Unsigned tells whether an integer column has no negative values.
func (c *Column) Unsigned() bool { return c.Flag&FlagUnsigned != 0 }

// IsString tells whether the column holds character or binary strings.
func (c *Column) IsString() bool {
	switch c.Type {
	case TypeVarchar, TypeVarString, TypeString, TypeTinyBlob, TypeBlob, TypeMediumBlob, TypeLongBlob:
		return true
	}
	return false
}

// IsBinary tells whether a string column holds bytes and not characters. It is
// the charset that decides: dates and JSON carry the binary flag as well.
func (c *Column) IsBinary() bool { return c.IsString() && c.Charset == "binary" }

// FullLength is the IndexPart length of a column that is indexed whole.
const FullLength = -1

// IndexPart is one column of an index.
type IndexPart struct {
	Column int    // index into Table.Columns; -1 for a hidden (expression) column
	Length int    // prefix length in characters, or FullLength
	Expr   string // of a hidden column, as TiDB prints it; else empty
}

// Index is one public index. The primary key of a table whose handle is an
// integer column stands in the list too, with ID 0.
type Index struct {
	ID      int64
	Name    string
	Parts   []IndexPart
	Unique  bool
	Primary bool

	Invisible bool
	Global    bool // one index over all partitions
	Comment   string
	Condition string // of a partial index: rows outside are not in it
}

// HandleKind says what the key of a row is made of.
type HandleKind uint8

// The kinds of handle.
const (
	RowIDHandle  HandleKind = iota // hidden _tidb_rowid: in no column
	IntHandle                      // one integer primary key column
	CommonHandle                   // the columns of a clustered primary key
)

// Handle says how row keys are made.
type Handle struct {
	Kind HandleKind
	// Parts are the columns of the key in order; empty for RowIDHandle.
	Parts []IndexPart
}

// Partition is one physical part of a table.
type Partition struct {
	ID   int64
	Name string
	// LessThan is the upper bound of a RANGE part, one expression (or MAXVALUE)
	// a column; InValues are the tuples of a LIST part (or DEFAULT). As TiDB prints them.
	LessThan []string
	InValues [][]string
}

// PartitionKind is TiDB's number for a way to partition.
type PartitionKind uint8

// The kinds of partitioning.
const (
	ByRange PartitionKind = 1
	ByHash  PartitionKind = 2
	ByList  PartitionKind = 3
	ByKey   PartitionKind = 4
)

// PartitionBy is how a table is cut into its Partitions: by Expr, or where that
// is empty by Columns (RANGE COLUMNS, LIST COLUMNS, KEY).
type PartitionBy struct {
	Kind    PartitionKind
	Expr    string
	Columns []string
}

// ViewDef is what a view stands for. Every name in Select is qualified.
type ViewDef struct {
	Select  string
	Columns []string // names given to its columns; empty: those of Select
}

// Kind tells what stands behind a table's name.
type Kind uint8

// The kinds of table. Only base tables have rows to replicate.
const (
	BaseTable Kind = iota
	View
	Sequence
	TemporaryTable
)

// Table is what a table looked like at one moment. It is never changed.
type Table struct {
	ID        int64
	SchemaID  int64
	Schema    string // database name as written
	Name      string // table name as written
	Kind      Kind
	Charset   string
	Collation string
	Comment   string
	Version   uint64 // schema version: grows with each change of this table

	Columns    []Column // public and visible, in order
	Indexes    []Index  // public
	Handle     Handle
	Key        []int // columns that name a row for a sink; empty: none usable
	Partitions []Partition
	// PartitionBy is nil for a table that is not partitioned, View for all but views.
	PartitionBy *PartitionBy
	View        *ViewDef

	// ShardRowIDBits, AutoRandomBits and PreSplitRegions are TiDB's own hints.
	ShardRowIDBits uint64
	AutoRandomBits uint64
}

// PhysicalIDs are the ids under which the table's rows are stored.
func (t *Table) PhysicalIDs() []int64 {
	if t.Kind != BaseTable {
		return nil
	}
	if len(t.Partitions) == 0 {
		return []int64{t.ID}
	}
	ids := make([]int64, len(t.Partitions))
	for i, p := range t.Partitions {
		ids[i] = p.ID
	}
	return ids
}

// Unit tells whether the rows of all partitions are in one order. Each partition's
// rows have their own; but where one unique index is over all of them, a row moves from
// one to another, and a value that is given up in one is taken in another.
func (t *Table) Unit() bool {
	return t.Kind == BaseTable && len(t.Partitions) > 0 &&
		slices.ContainsFunc(t.Indexes, func(x Index) bool { return x.Global && x.Unique })
}

// OneKey tells whether nothing but a row's key names it: its handle is the primary key,
// and no other index is unique. Then rows with different keys never stand in each other's
// way, in whatever order they are written.
func (t *Table) OneKey() bool {
	return t.Kind == BaseTable && t.Handle.Kind != RowIDHandle &&
		!slices.ContainsFunc(t.Indexes, func(x Index) bool { return x.Unique && !x.Primary })
}

// SpanIDs are the ids by which the table's spans are known to all who place them: those
// of its rows, or of a unit the one of the table, under which no rows are stored.
func (t *Table) SpanIDs() []int64 {
	if t.Unit() {
		return []int64{t.ID}
	}
	return t.PhysicalIDs()
}

// Eligible tells whether a row can be named downstream.
func (t *Table) Eligible() bool { return t.Kind == BaseTable && len(t.Key) > 0 }

// Column is the index of the column of that name (as TiDB compares: without
// regard to case), -1 where there is none. For tests and set-up, not for rows.
func (t *Table) Column(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return equalFold(c.Name, name) })
}

// FullName is schema.table for messages.
func (t *Table) FullName() string { return t.Schema + "." + t.Name }

// Database is a schema at one moment.
type Database struct {
	ID        int64
	Name      string
	Charset   string
	Collation string
}
