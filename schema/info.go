package schema

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Name is an identifier: as written, and folded to lower case for comparison.
type Name struct {
	O string `json:"O"`
	L string `json:"L"`
}

// UnmarshalJSON also takes a bare string, as the oldest clusters wrote it.
func (n *Name) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &n.O); err != nil {
			return err
		}
		n.L = strings.ToLower(n.O)
		return nil
	}
	type plain Name
	return json.Unmarshal(b, (*plain)(n))
}

// Literal is a default value: null, or the text of a JSON string, number or word.
type Literal struct {
	Text string
	Set  bool
}

// UnmarshalJSON keeps a number's digits as they stand.
func (l *Literal) UnmarshalJSON(b []byte) error {
	switch {
	case bytes.Equal(b, []byte("null")):
		*l = Literal{}
		return nil
	case len(b) > 0 && b[0] == '"':
		l.Set = true
		return json.Unmarshal(b, &l.Text)
	}
	*l = Literal{Text: string(b), Set: true}
	return nil
}

// MarshalJSON writes a string, or null where nothing is set.
func (l Literal) MarshalJSON() ([]byte, error) {
	if !l.Set {
		return []byte("null"), nil
	}
	return json.Marshal(l.Text)
}

// FieldType is a column's type as TiDB writes it.
type FieldType struct {
	Tp      byte     `json:"Tp"`
	Flag    uint32   `json:"Flag"`
	Flen    int      `json:"Flen"`
	Decimal int      `json:"Decimal"`
	Charset string   `json:"Charset"`
	Collate string   `json:"Collate"`
	Elems   []string `json:"Elems"`
	Array   bool     `json:"Array"`
}

// ColumnInfo is one column, public or not, visible or not.
type ColumnInfo struct {
	ID               int64     `json:"id"`
	Name             Name      `json:"name"`
	Offset           int       `json:"offset"`
	OriginDefault    Literal   `json:"origin_default"`
	OriginDefaultBit []byte    `json:"origin_default_bit"`
	Default          Literal   `json:"default"`
	DefaultBit       []byte    `json:"default_bit"`
	DefaultIsExpr    bool      `json:"default_is_expr"`
	GeneratedExpr    string    `json:"generated_expr_string"`
	GeneratedStored  bool      `json:"generated_stored"`
	Type             FieldType `json:"type"`
	State            int       `json:"state"`
	Comment          string    `json:"comment"`
	Hidden           bool      `json:"hidden"`
	// Version 0 keeps TIMESTAMP defaults in the servers' zone, 1 and above in UTC.
	Version uint64 `json:"version"`
}

// shown tells whether readers of the table see the column.
func (c *ColumnInfo) shown() bool { return c.State == SchemaPublic && !c.Hidden }

// IndexColumn is one column of an index; Length is −1 where it is indexed whole.
type IndexColumn struct {
	Name   Name `json:"name"`
	Offset int  `json:"offset"`
	Length int  `json:"length"`
}

// IndexInfo is one index, public or not.
type IndexInfo struct {
	ID        int64         `json:"id"`
	Name      Name          `json:"idx_name"`
	Columns   []IndexColumn `json:"idx_cols"`
	State     int           `json:"state"`
	Unique    bool          `json:"is_unique"`
	Primary   bool          `json:"is_primary"`
	Invisible bool          `json:"is_invisible"`
	Global    bool          `json:"is_global"`
	// MultiValued indexes have an entry per element of a JSON array.
	MultiValued bool   `json:"mv_index"`
	Comment     string `json:"comment"`
	// Condition restricts the index to some rows: it is unique only among them.
	Condition string `json:"condition_expr_string"`
}

// PartitionDef is one partition.
type PartitionDef struct {
	ID       int64      `json:"id"`
	Name     Name       `json:"name"`
	LessThan []string   `json:"less_than"`
	InValues [][]string `json:"in_values"`
}

// PartitionInfo is how a table is partitioned. Definitions are the parts that
// readers see; Adding and Dropping are on their way.
type PartitionInfo struct {
	Type        uint8          `json:"type"`
	Expr        string         `json:"expr"`
	Columns     []Name         `json:"columns"`
	Enable      bool           `json:"enable"`
	Definitions []PartitionDef `json:"definitions"`
	Adding      []PartitionDef `json:"adding_definitions"`
	Dropping    []PartitionDef `json:"dropping_definitions"`
}

// ViewInfo is what a view selects.
type ViewInfo struct {
	Select  string `json:"view_select"`
	Columns []Name `json:"view_cols"`
}

// TableInfo is a table, view or sequence.
type TableInfo struct {
	ID             int64           `json:"id"`
	Name           Name            `json:"name"`
	Charset        string          `json:"charset"`
	Collate        string          `json:"collate"`
	Columns        []ColumnInfo    `json:"cols"`
	Indexes        []IndexInfo     `json:"index_info"`
	State          int             `json:"state"`
	PKIsHandle     bool            `json:"pk_is_handle"`
	CommonHandle   bool            `json:"is_common_handle"`
	Comment        string          `json:"comment"`
	UpdateTS       uint64          `json:"update_timestamp"`
	ShardRowIDBits uint64          `json:"ShardRowIDBits"`
	AutoRandomBits uint64          `json:"auto_random_bits"`
	Partition      *PartitionInfo  `json:"partition"`
	View           *ViewInfo       `json:"view"`
	Sequence       json.RawMessage `json:"sequence"`
	TempTableType  int             `json:"temp_table_type"`
}

// DBInfo is a database.
type DBInfo struct {
	ID      int64  `json:"id"`
	Name    Name   `json:"db_name"`
	Charset string `json:"charset"`
	Collate string `json:"collate"`
	State   int    `json:"state"`
}

// ParseTableInfo reads the value of a Table:<id> field.
func ParseTableInfo(b []byte) (*TableInfo, error) {
	t := new(TableInfo)
	if err := json.Unmarshal(b, t); err != nil {
		return nil, cdcerr.SchemaSnapshot.Wrap(err, "the metadata of a table (%d bytes) is not its JSON", len(b))
	}
	if t.ID == 0 || t.Name.O == "" {
		return nil, cdcerr.SchemaSnapshot.New("the metadata of a table has id %d and name %q: both are needed", t.ID, t.Name.O)
	}
	return t, nil
}

// ParseDBInfo reads the value of a DB:<id> field of the hash DBs.
func ParseDBInfo(b []byte) (*DBInfo, error) {
	d := new(DBInfo)
	if err := json.Unmarshal(b, d); err != nil {
		return nil, cdcerr.SchemaSnapshot.Wrap(err, "the metadata of a database (%d bytes) is not its JSON", len(b))
	}
	if d.ID == 0 || d.Name.O == "" {
		return nil, cdcerr.SchemaSnapshot.New("the metadata of a database has id %d and name %q: both are needed", d.ID, d.Name.O)
	}
	return d, nil
}

// present tells whether an optional object stands in the JSON.
func present(m json.RawMessage) bool { return len(m) > 0 && !bytes.Equal(m, []byte("null")) }
