package catalog

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// foreignKey adds a foreign key to a new table, and an index for it where none
// begins with its columns.
func (p *planner) foreignKey(t *TableInfo, db *DBInfo, c *ast.Constraint) error {
	fk, err := p.foreignKeyInfo(t, db, c)
	if err != nil {
		return err
	}
	t.ForeignKeys = append(t.ForeignKeys, fk)
	if t.leads(fk.Cols) {
		return nil
	}
	i, err := p.index(t, indexSpec{name: fk.Name.O, keys: c.Keys}, StatePublic)
	if err != nil {
		return err
	}
	t.MaxIndexID++
	i.ID = t.MaxIndexID
	t.Indices = append(t.Indices, i)
	return nil
}

func (p *planner) foreignKeyInfo(t *TableInfo, db *DBInfo, c *ast.Constraint) (*ForeignKey, error) {
	ref := c.Refer
	schema := ref.Table.Schema.O
	if schema == "" {
		schema = db.Name.O
	}
	fk := &ForeignKey{
		Name: MakeName(c.Name), RefSchema: MakeName(schema), RefTable: MakeName(ref.Table.Name.O),
		OnDelete: int(ref.OnDelete.ReferOpt), OnUpdate: int(ref.OnUpdate.ReferOpt), State: StatePublic, Version: 1,
	}
	for _, k := range ref.IndexPartSpecifications {
		fk.RefCols = append(fk.RefCols, MakeName(k.Column.Name.O))
	}
	for _, k := range c.Keys {
		if t.column(k.Column.Name.L) == nil {
			return nil, refuse(errKeyColumn, "Key column '%s' doesn't exist in table", k.Column.Name.O)
		}
		fk.Cols = append(fk.Cols, MakeName(k.Column.Name.O))
	}
	if len(fk.Cols) != len(fk.RefCols) {
		return nil, refuse(1239, "Incorrect foreign key definition for '%s': Key reference and table reference don't match", c.Name)
	}
	parent := p.c.Table(schema, fk.RefTable.L)
	if parent == nil && !(fk.RefTable.L == t.Name.L && fold(schema) == db.Name.L) {
		return nil, refuse(1824, "Failed to open the referenced table '%s'", fk.RefTable.O)
	}
	return fk, nil
}

// leads tells whether an index, or the handle, begins with those columns.
func (t *TableInfo) leads(columns []Name) bool {
	if t.PKIsHandle && len(columns) == 1 {
		if col := t.column(columns[0].L); col != nil && col.Type.has(2) {
			return true
		}
	}
	return slices.ContainsFunc(t.Indices, func(i *IndexInfo) bool {
		if len(i.Columns) < len(columns) {
			return false
		}
		for n, c := range columns {
			if i.Columns[n].Name.L != c.L {
				return false
			}
		}
		return true
	})
}

// check adds a CHECK to a new table.
func (p *planner) check(t *TableInfo, c *ast.Constraint) error {
	info, err := checkInfo(t, c)
	if err != nil {
		return err
	}
	t.MaxConstraintID++
	info.ID, info.State = t.MaxConstraintID, StatePublic
	t.Constraints = append(t.Constraints, info)
	return nil
}

func checkInfo(t *TableInfo, c *ast.Constraint) (*Constraint, error) {
	text, err := restore(c.Expr, restoreExpr)
	if err != nil {
		return nil, err
	}
	info := &Constraint{Name: MakeName(c.Name), Table: t.Name, Enforced: c.Enforced, InColumn: c.InColumn, Expr: text}
	names := columnsOf(c.Expr)
	for _, col := range t.Columns {
		if _, ok := names[col.Name.L]; ok {
			info.Cols = append(info.Cols, col.Name)
			delete(names, col.Name.L)
		}
	}
	if len(names) > 0 {
		var left []string
		for n := range names {
			left = append(left, n)
		}
		slices.Sort(left)
		return nil, refuse(3820, "Check constraint '%s' refers to non-existing column '%s'.", c.Name, strings.Join(left, ","))
	}
	return info, nil
}
