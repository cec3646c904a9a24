package catalog

// columnReorgSource is the transaction source of rows that a column's
// conversion writes: TiKV keeps them out of change streams.
const columnReorgSource = 1 << 8

// BackfillKind says what a Backfill has to do.
type BackfillKind uint8

// The kinds of backfill.
const (
	// ConvertColumn: write into every row the value of From, converted to the
	// type of Column, under Column's id.
	ConvertColumn BackfillKind = iota + 1
	// CheckColumn: look whether every value fits the type of Column.
	CheckColumn
	// FillIndexes: build Indexes from the rows; a duplicate key in a unique one fails the job.
	FillIndexes
	// MovePartitions: write every row of Old under the id of the partition of New that takes it.
	MovePartitions
	// CheckPartition: look whether every row of the table of Old's id belongs into
	// the partition of that name.
	CheckPartition
)

// Backfill is data that a job has to write, or look at, before its next step.
type Backfill struct {
	Kind    BackfillKind
	Table   *TableInfo
	Column  *ColumnInfo
	From    *ColumnInfo
	Indexes []*IndexInfo
	Old     []PartitionDef
	New     []PartitionDef
	// Source is the transaction source that the rows are written with.
	Source uint64
}
