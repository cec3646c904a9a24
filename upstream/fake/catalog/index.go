package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

const primaryName = "PRIMARY"

// wholeColumn is the length of an index column that is no prefix.
const wholeColumn = -1

func (i *IndexInfo) clone() *IndexInfo {
	out := *i
	out.Columns = slices.Clone(i.Columns)
	for n, c := range i.Columns {
		part := *c
		out.Columns[n] = &part
	}
	return &out
}

// indexSpec is an index to be made.
type indexSpec struct {
	name            string
	primary, unique bool
	keys            []*ast.IndexPartSpecification
	option          *ast.IndexOption
}

// index makes the IndexInfo of a spec over the columns of a table.
func (p *planner) index(t *TableInfo, s indexSpec, state State) (*IndexInfo, error) {
	out := &IndexInfo{Name: MakeName(s.name), State: state, Primary: s.primary, Unique: s.unique, Type: int(ast.IndexTypeBtree)}
	if o := s.option; o != nil {
		out.Comment, out.Global = o.Comment, o.Global
		out.Invisible = o.Visibility == ast.IndexVisibilityInvisible
		if o.Tp != ast.IndexTypeInvalid {
			out.Type = int(o.Tp)
		}
		if o.Condition != nil {
			text, err := restore(o.Condition, restoreExpr)
			if err != nil {
				return nil, err
			}
			out.Condition = text
		}
	}
	for _, k := range s.keys {
		col := t.column(k.Column.Name.L)
		if col == nil {
			return nil, refuse(errKeyColumn, "Key column '%s' doesn't exist in table", k.Column.Name.O)
		}
		part, err := indexColumn(col, k.Length)
		if err != nil {
			return nil, err
		}
		if out.has(col.Name.L) {
			return nil, refuse(errDupColumn, "Duplicate column name '%s'", col.Name.O)
		}
		out.Columns = append(out.Columns, part)
		out.MVIndex = out.MVIndex || col.Type.Array
	}
	return out, out.checkSize(t)
}

func indexColumn(col *ColumnInfo, length int) (*IndexColumn, error) {
	t := &col.Type
	blob := t.isBlob()
	switch {
	case t.Tp == mysql.TypeJSON && !t.Array:
		return nil, refuse(3152, "JSON column '%s' cannot be used in key specification.", col.Name.O)
	case blob && length <= 0:
		return nil, refuse(1170, "BLOB/TEXT column '%s' used in key specification without a key length", col.Name.O)
	case length > 0 && (!t.isString() || !blob && length > t.Flen):
		return nil, refuse(1089, "Incorrect prefix key; the used key part isn't a string, the used length is longer than the key part, or the storage engine doesn't support unique prefix keys")
	}
	if length <= 0 || length == t.Flen {
		length = wholeColumn
	}
	return &IndexColumn{Name: col.Name, Offset: col.Offset, Length: length}, nil
}

// has tells whether the index is over the column of that name.
func (i *IndexInfo) has(column string) bool {
	return slices.ContainsFunc(i.Columns, func(c *IndexColumn) bool { return c.Name.L == column })
}

// column finds a column by its name in lower case.
func (t *TableInfo) column(name string) *ColumnInfo {
	for _, c := range t.Columns {
		if c.Name.L == name {
			return c
		}
	}
	return nil
}

// indexNamed finds an index by its name in lower case.
func (t *TableInfo) indexNamed(name string) *IndexInfo {
	for _, i := range t.Indices {
		if i.Name.L == name {
			return i
		}
	}
	return nil
}

// mark sets on columns the flags that say which index they are in.
func (i *IndexInfo) mark(t *TableInfo) {
	if i.Primary {
		for _, c := range i.Columns {
			t.Columns[c.Offset].Type.add(mysql.PriKeyFlag)
		}
		return
	}
	first := &t.Columns[i.Columns[0].Offset].Type
	if i.Unique && len(i.Columns) == 1 {
		first.add(mysql.UniqueKeyFlag)
	} else {
		first.add(mysql.MultipleKeyFlag)
	}
}

// unmark takes them off, where no other index needs them.
func (i *IndexInfo) unmark(t *TableInfo) {
	if i.Primary {
		for _, c := range i.Columns {
			t.Columns[c.Offset].Type.del(mysql.PriKeyFlag)
		}
	} else {
		first := &t.Columns[i.Columns[0].Offset].Type
		if i.Unique && len(i.Columns) == 1 {
			first.del(mysql.UniqueKeyFlag)
		} else {
			first.del(mysql.MultipleKeyFlag)
		}
	}
	for _, other := range t.Indices {
		if other.ID != i.ID && other.Columns[0].Name.L == i.Columns[0].Name.L {
			other.mark(t)
		}
	}
}

// names gives names to the constraints that have none, and refuses two of one name.
func nameConstraints(t *TableInfo, constraints []*ast.Constraint) error {
	keys, foreign, checks := map[string]bool{}, map[string]bool{}, map[string]bool{}
	taken := func(c *ast.Constraint) map[string]bool {
		switch c.Tp {
		case ast.ConstraintForeignKey:
			return foreign
		case ast.ConstraintCheck:
			return checks
		}
		return keys
	}
	for _, c := range constraints {
		if c.Name == "" {
			continue
		}
		names := taken(c)
		if names[fold(c.Name)] {
			return refuse(errDupKeyName, "Duplicate key name '%s'", c.Name)
		}
		names[fold(c.Name)] = true
	}
	for _, c := range constraints {
		if c.Name != "" || c.Tp == ast.ConstraintPrimaryKey {
			continue
		}
		names := taken(c)
		switch c.Tp {
		case ast.ConstraintForeignKey:
			t.MaxForeignKeyID++
			c.Name = fmt.Sprintf("fk_%d", t.MaxForeignKeyID)
		case ast.ConstraintCheck:
			c.Name = freeName(names, t.Name.O+"_chk", 1)
		default:
			c.Name = indexName(names, c.Keys)
		}
		names[fold(c.Name)] = true
	}
	return nil
}

// indexName is the name of an index that was given none: that of its first column.
func indexName(taken map[string]bool, keys []*ast.IndexPartSpecification) string {
	base := "expression_index"
	if !slices.ContainsFunc(keys, func(k *ast.IndexPartSpecification) bool { return k.Expr != nil }) {
		base = keys[0].Column.Name.O
	}
	if !strings.EqualFold(base, primaryName) && !taken[fold(base)] {
		return base
	}
	return freeName(taken, base, 2)
}

// freeName is base with the first number from n on that nobody has.
func freeName(taken map[string]bool, base string, n int) string {
	for {
		name := fmt.Sprintf("%s_%d", base, n)
		if !taken[fold(name)] {
			return name
		}
		n++
	}
}
