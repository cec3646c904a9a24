package catalog

import (
	"encoding/json"
	"strings"
)

// State is how far TiDB's servers may use a table, column, index or database.
type State uint8

// The states, as TiDB stores them. A new thing goes through them one by one, so
// that two servers that are one version apart never contradict each other.
const (
	StateNone       State = 0
	StateDeleteOnly State = 1
	StateWriteOnly  State = 2
	StateWriteReorg State = 3
	StateDeleteReo  State = 4
	StatePublic     State = 5
	StateReplica    State = 6
	StateGlobalTxn  State = 7
)

// Name is an identifier as written and in lower case.
type Name struct {
	O string
	L string
}

// MakeName is the Name of an identifier.
func MakeName(s string) Name { return Name{O: s, L: strings.ToLower(s)} }

// FieldType is the type of a column.
type FieldType struct {
	Tp               uint8
	Flag             uint
	Flen             int
	Decimal          int
	Charset          string
	Collate          string
	Elems            []string
	ElemsIsBinaryLit []bool
	Array            bool
}

// ColumnInfo is a column of a table, whatever its state.
type ColumnInfo struct {
	ID               int64               `json:"id"`
	Name             Name                `json:"name"`
	Offset           int                 `json:"offset"`
	OriginDefault    any                 `json:"origin_default"`
	OriginDefaultBit []byte              `json:"origin_default_bit"`
	Default          any                 `json:"default"`
	DefaultBit       []byte              `json:"default_bit"`
	DefaultIsExpr    bool                `json:"default_is_expr"`
	GeneratedExpr    string              `json:"generated_expr_string"`
	GeneratedStored  bool                `json:"generated_stored"`
	Dependences      map[string]struct{} `json:"dependences"`
	Type             FieldType           `json:"type"`
	ChangingType     *FieldType          `json:"changing_type,omitempty"`
	State            State               `json:"state"`
	Comment          string              `json:"comment"`
	Hidden           bool                `json:"hidden"`
	ChangeState      *ChangeState        `json:"change_state_info"`
	Version          uint64              `json:"version"`
}

// ChangeState marks a column that another one is being converted into.
type ChangeState struct {
	DependencyOffset int `json:"relative_col_offset"`
}

// IndexColumn is one column of an index.
type IndexColumn struct {
	Name   Name `json:"name"`
	Offset int  `json:"offset"`
	Length int  `json:"length"`
}

// IndexInfo is an index of a table, whatever its state.
type IndexInfo struct {
	ID            int64           `json:"id"`
	Name          Name            `json:"idx_name"`
	Table         Name            `json:"tbl_name"`
	Columns       []*IndexColumn  `json:"idx_cols"`
	State         State           `json:"state"`
	BackfillState uint8           `json:"backfill_state"`
	Comment       string          `json:"comment"`
	Type          int             `json:"index_type"`
	Unique        bool            `json:"is_unique"`
	Primary       bool            `json:"is_primary"`
	Invisible     bool            `json:"is_invisible"`
	Global        bool            `json:"is_global"`
	MVIndex       bool            `json:"mv_index"`
	VectorInfo    json.RawMessage `json:"vector_index"`
	InvertedInfo  json.RawMessage `json:"inverted_index"`
	FullTextInfo  json.RawMessage `json:"full_text_index"`
	Condition     string          `json:"condition_expr_string"`
	GlobalVersion uint8           `json:"global_index_version,omitempty"`
}

// ForeignKey is a foreign key of a table.
type ForeignKey struct {
	ID        int64  `json:"id"`
	Name      Name   `json:"fk_name"`
	RefSchema Name   `json:"ref_schema"`
	RefTable  Name   `json:"ref_table"`
	RefCols   []Name `json:"ref_cols"`
	Cols      []Name `json:"cols"`
	OnDelete  int    `json:"on_delete"`
	OnUpdate  int    `json:"on_update"`
	State     State  `json:"state"`
	Version   int    `json:"version"`
}

// Constraint is a CHECK of a table.
type Constraint struct {
	ID       int64  `json:"id"`
	Name     Name   `json:"constraint_name"`
	Table    Name   `json:"tbl_name"`
	Cols     []Name `json:"constraint_cols"`
	Enforced bool   `json:"enforced"`
	InColumn bool   `json:"in_column"`
	Expr     string `json:"expr_string"`
	State    State  `json:"state"`
}

// PolicyRef names a placement policy.
type PolicyRef struct {
	ID   int64 `json:"id"`
	Name Name  `json:"name"`
}

// PartitionDef is one partition.
type PartitionDef struct {
	ID       int64      `json:"id"`
	Name     Name       `json:"name"`
	LessThan []string   `json:"less_than"`
	InValues [][]string `json:"in_values"`
	Policy   *PolicyRef `json:"policy_ref_info"`
	Comment  string     `json:"comment,omitempty"`
}

// PartitionState is the state of one partition while a job is at it.
type PartitionState struct {
	ID    int64 `json:"id"`
	State State `json:"state"`
}

// PartitionInfo is how a table is cut into partitions, and how a running job
// cuts it anew: Definitions are what readers see, Adding and Dropping what a
// writer has to write besides.
type PartitionInfo struct {
	Type           int              `json:"type"`
	Expr           string           `json:"expr"`
	Columns        []Name           `json:"columns"`
	Enable         bool             `json:"enable"`
	IsEmptyColumns bool             `json:"is_empty_columns"`
	Definitions    []PartitionDef   `json:"definitions"`
	Adding         []PartitionDef   `json:"adding_definitions"`
	Dropping       []PartitionDef   `json:"dropping_definitions"`
	OriginalOrder  []int64          `json:"original_partition_ids_order,omitempty"`
	NewIDs         []int64          `json:"new_partition_ids,omitempty"`
	States         []PartitionState `json:"states"`
	Num            uint64           `json:"num"`
	DDLAction      int              `json:"ddl_action,omitempty"`
	DDLState       State            `json:"ddl_state"`
	NewTableID     int64            `json:"new_table_id,omitempty"`
	DDLType        int              `json:"ddl_type,omitempty"`
	DDLExpr        string           `json:"ddl_expr,omitempty"`
	DDLColumns     []Name           `json:"ddl_columns,omitempty"`
}

// UserIdentity is who a view is defined by.
type UserIdentity struct {
	Username     string
	Hostname     string
	CurrentUser  bool
	AuthUsername string
	AuthHostname string
	AuthPlugin   string
}

// ViewInfo is what a view stands for.
type ViewInfo struct {
	Algorithm   int          `json:"view_algorithm"`
	Definer     UserIdentity `json:"view_definer"`
	Security    int          `json:"view_security"`
	Select      string       `json:"view_select"`
	CheckOption int          `json:"view_checkoption"`
	Cols        []Name       `json:"view_cols"`
}

// SequenceInfo is what a sequence counts by.
type SequenceInfo struct {
	Start      int64  `json:"sequence_start"`
	Cache      bool   `json:"sequence_cache"`
	Cycle      bool   `json:"sequence_cycle"`
	MinValue   int64  `json:"sequence_min_value"`
	MaxValue   int64  `json:"sequence_max_value"`
	Increment  int64  `json:"sequence_increment"`
	CacheValue int64  `json:"sequence_cache_value"`
	Comment    string `json:"sequence_comment"`
}

// TTLInfo is when rows of a table expire.
type TTLInfo struct {
	Column      Name   `json:"column"`
	Interval    string `json:"interval_expr"`
	Unit        int    `json:"interval_time_unit"`
	Enable      bool   `json:"enable"`
	JobInterval string `json:"job_interval"`
}

// ExchangeInfo marks a table that is about to change places with a partition.
type ExchangeInfo struct {
	TableID int64 `json:"exchange_partition_id"`
	DefID   int64 `json:"exchange_partition_def_id"`
	Flag    bool  `json:"exchange_partition_flag"`
}

// TableInfo is a table, view or sequence, as TiDB keeps it.
type TableInfo struct {
	ID                  int64           `json:"id"`
	Name                Name            `json:"name"`
	Charset             string          `json:"charset"`
	Collate             string          `json:"collate"`
	Columns             []*ColumnInfo   `json:"cols"`
	Indices             []*IndexInfo    `json:"index_info"`
	Constraints         []*Constraint   `json:"constraint_info"`
	ForeignKeys         []*ForeignKey   `json:"fk_info"`
	State               State           `json:"state"`
	PKIsHandle          bool            `json:"pk_is_handle"`
	IsCommonHandle      bool            `json:"is_common_handle"`
	CommonHandleVersion uint16          `json:"common_handle_version"`
	Comment             string          `json:"comment"`
	AutoIncID           int64           `json:"auto_inc_id"`
	AutoIDCache         int64           `json:"auto_id_cache"`
	AutoRandID          int64           `json:"auto_rand_id"`
	MaxColumnID         int64           `json:"max_col_id"`
	MaxIndexID          int64           `json:"max_idx_id"`
	MaxForeignKeyID     int64           `json:"max_fk_id"`
	MaxConstraintID     int64           `json:"max_cst_id"`
	UpdateTS            uint64          `json:"update_timestamp"`
	AutoIDSchemaID      int64           `json:"old_schema_id,omitempty"`
	ShardRowIDBits      uint64          `json:"ShardRowIDBits"`
	MaxShardRowIDBits   uint64          `json:"max_shard_row_id_bits"`
	AutoRandomBits      uint64          `json:"auto_random_bits"`
	AutoRandomRangeBits uint64          `json:"auto_random_range_bits"`
	PreSplitRegions     uint64          `json:"pre_split_regions"`
	Partition           *PartitionInfo  `json:"partition"`
	Compression         string          `json:"compression"`
	View                *ViewInfo       `json:"view"`
	Sequence            *SequenceInfo   `json:"sequence"`
	Lock                json.RawMessage `json:"Lock"`
	Version             uint16          `json:"version"`
	TiFlashReplica      json.RawMessage `json:"tiflash_replica"`
	IsColumnar          bool            `json:"is_columnar"`
	TempTableType       uint8           `json:"temp_table_type"`
	CacheStatus         uint8           `json:"cache_table_status"`
	Policy              *PolicyRef      `json:"policy_ref_info"`
	StatsOptions        json.RawMessage `json:"stats_options"`
	Exchange            *ExchangeInfo   `json:"exchange_partition_info"`
	TTL                 *TTLInfo        `json:"ttl_info"`
	Revision            uint64          `json:"revision"`
}

// DBInfo is a database, as TiDB keeps it.
type DBInfo struct {
	ID         int64      `json:"id"`
	Name       Name       `json:"db_name"`
	Charset    string     `json:"charset"`
	Collate    string     `json:"collate"`
	Deprecated struct{}   `json:"Deprecated"`
	State      State      `json:"state"`
	Policy     *PolicyRef `json:"policy_ref_info"`
}
