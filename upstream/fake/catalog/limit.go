package catalog

import (
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
)

// The most that TiDB lets there be, of its settings as they come.
const (
	nameMax       = 64 // characters
	columnsMax    = 1017
	partsMax      = 16 // columns of one index
	keyBytesMax   = 3072
	partitionsMax = 8192
)

// longName finds a name that is too long for what it is to name.
type longName struct {
	found string
}

// Enter looks at the names of databases, tables, columns and constraints.
func (v *longName) Enter(n ast.Node) (ast.Node, bool) {
	name := ""
	switch x := n.(type) {
	case *ast.CreateDatabaseStmt:
		name = x.Name.O
	case *ast.TableName:
		name = x.Name.O
	case *ast.ColumnDef:
		name = x.Name.Name.O
	case *ast.Constraint:
		name = x.Name
	case *ast.CreateIndexStmt:
		name = x.IndexName
	}
	if utf8.RuneCountInString(name) > nameMax {
		v.found = name
	}
	return n, false
}

// Leave goes on.
func (v *longName) Leave(n ast.Node) (ast.Node, bool) { return n, true }

// checkNames refuses a statement with a name that is too long.
func checkNames(s ast.StmtNode) error {
	v := &longName{}
	s.Accept(v)
	if v.found != "" {
		return refuse(1059, "Identifier name '%s' is too long", v.found)
	}
	return nil
}

// checkPartitions refuses more partitions than a table may have.
func checkPartitions(n uint64) error {
	if n > partitionsMax {
		return refuse(1499, "Too many partitions (including subpartitions) were defined")
	}
	return nil
}

// checkSize refuses an index that is over too many columns, or too many bytes.
func (i *IndexInfo) checkSize(t *TableInfo) error {
	if len(i.Columns) > partsMax {
		return refuse(1070, "Too many key parts specified; max %d parts allowed", partsMax)
	}
	bytes := 0
	for _, c := range i.Columns {
		bytes += t.Columns[c.Offset].Type.keyBytes(c.Length)
	}
	if bytes > keyBytesMax {
		return refuse(1071, "Specified key was too long (%d bytes); max key length is %d bytes", bytes, keyBytesMax)
	}
	return nil
}

// keyBytes is how long a value may be in an index, over so many characters.
func (t *FieldType) keyBytes(length int) int {
	if !t.isString() {
		return intBytes(t.Tp)
	}
	if length == wholeColumn {
		length = max(t.Flen, 0)
	}
	info, err := charset.GetCharsetInfo(t.Charset)
	if err != nil {
		return length
	}
	return length * info.Maxlen
}
