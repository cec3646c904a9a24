package catalog

import (
	"maps"
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// columnVersion marks columns whose TIMESTAMP defaults are kept in UTC.
const columnVersion = 2

func (c *ColumnInfo) clone() *ColumnInfo {
	out := *c
	out.Type = c.Type.clone()
	out.OriginDefaultBit = slices.Clone(c.OriginDefaultBit)
	out.DefaultBit = slices.Clone(c.DefaultBit)
	out.Dependences = maps.Clone(c.Dependences)
	if c.ChangingType != nil {
		t := c.ChangingType.clone()
		out.ChangingType = &t
	}
	if c.ChangeState != nil {
		s := *c.ChangeState
		out.ChangeState = &s
	}
	return &out
}

// generated tells whether the column is computed; virtual that no row holds it.
func (c *ColumnInfo) generated() bool { return c.GeneratedExpr != "" }
func (c *ColumnInfo) virtual() bool   { return c.generated() && !c.GeneratedStored }

// columnBuilder turns one column's definition into what TiDB keeps of it.
type columnBuilder struct {
	*planner
	col         *ColumnInfo
	constraints []*ast.Constraint // that the column's options ask for
	hasDefault  bool
	null        bool
	outer       *ast.Constraint // a primary key that the table declares beside its columns
}

// column reads one definition. The constraints are those among its options.
func (p *planner) column(def *ast.ColumnDef, offset int, table collation, outer *ast.Constraint) (*ColumnInfo, []*ast.Constraint, error) {
	t, err := p.fieldType(def, table)
	if err != nil {
		return nil, nil, err
	}
	b := &columnBuilder{
		planner: p, outer: outer,
		col: &ColumnInfo{Name: MakeName(def.Name.Name.O), Offset: offset, Type: t, Version: columnVersion},
	}
	for _, o := range def.Options {
		if err := b.option(def, o); err != nil {
			return nil, nil, err
		}
	}
	b.flags()
	if err := b.check(); err != nil {
		return nil, nil, err
	}
	return b.col, b.constraints, nil
}

func (b *columnBuilder) option(def *ast.ColumnDef, o *ast.ColumnOption) error {
	t := &b.col.Type
	keys := []*ast.IndexPartSpecification{{Column: def.Name, Length: -1}}
	switch o.Tp {
	case ast.ColumnOptionNotNull:
		t.add(mysql.NotNullFlag)
	case ast.ColumnOptionNull:
		t.del(mysql.NotNullFlag)
		b.null = true
	case ast.ColumnOptionAutoIncrement:
		t.add(mysql.AutoIncrementFlag | mysql.NotNullFlag)
	case ast.ColumnOptionPrimaryKey:
		if !t.has(mysql.PriKeyFlag) {
			b.constraints = append(b.constraints, &ast.Constraint{
				Tp: ast.ConstraintPrimaryKey, Keys: keys,
				Option: &ast.IndexOption{PrimaryKeyTp: o.PrimaryKeyTp, Global: o.StrValue == "Global"},
			})
			t.add(mysql.PriKeyFlag | mysql.NotNullFlag)
		}
	case ast.ColumnOptionUniqKey:
		if !t.has(mysql.UniqueKeyFlag) {
			c := &ast.Constraint{Tp: ast.ConstraintUniq, Keys: keys}
			if o.StrValue == "Global" {
				c.Option = &ast.IndexOption{Global: true}
			}
			b.constraints = append(b.constraints, c)
			t.add(mysql.UniqueKeyFlag)
		}
	case ast.ColumnOptionDefaultValue:
		b.hasDefault = true
		return b.setDefault(o.Expr)
	case ast.ColumnOptionOnUpdate:
		t.add(mysql.OnUpdateNowFlag)
	case ast.ColumnOptionComment:
		v, err := literal(o.Expr)
		b.col.Comment = v.text
		return err
	case ast.ColumnOptionGenerated:
		return b.generatedAs(o)
	case ast.ColumnOptionCheck:
		b.constraints = append(b.constraints, &ast.Constraint{
			Tp: ast.ConstraintCheck, Expr: o.Expr, Enforced: o.Enforced, Name: o.ConstraintName,
			InColumn: true, InColumnName: def.Name.Name.O,
		})
	}
	return nil
}

func (b *columnBuilder) generatedAs(o *ast.ColumnOption) error {
	text, err := restore(o.Expr, restoreExpr)
	if err != nil {
		return err
	}
	b.col.GeneratedExpr, b.col.GeneratedStored, b.col.Dependences = text, o.Stored, columnsOf(o.Expr)
	return nil
}

// known refuses a generated column that is made of columns that are not there,
// or of generated ones after it.
func (t *TableInfo) known(c *ColumnInfo) error {
	for _, name := range slices.Sorted(maps.Keys(c.Dependences)) {
		from := t.column(name)
		switch {
		case from == nil:
			return refuse(errBadField, "Unknown column '%s' in 'generated column function'", name)
		case from.Type.has(mysql.AutoIncrementFlag):
			return refuse(3109, "Generated column '%s' cannot refer to auto-increment column.", c.Name.O)
		case from.generated() && from.Offset >= c.Offset:
			return refuse(3107, "Generated column can refer only to generated columns defined prior to it.")
		}
	}
	return nil
}

// flags sets those flags of a column that follow from its type.
func (b *columnBuilder) flags() {
	t := &b.col.Type
	b.col.noDefault(b.hasDefault)
	t.typeFlags()
}

// typeFlags sets those flags that follow from the type alone.
func (t *FieldType) typeFlags() {
	if t.hasCharset() || t.isTime() || t.Tp == mysql.TypeDuration || t.Tp == mysql.TypeJSON || t.Tp == mysql.TypeTiDBVectorFloat32 {
		t.del(mysql.BinaryFlag)
		if t.Charset == charset.CharsetBin {
			t.add(mysql.BinaryFlag)
		}
	}
	switch t.Tp {
	case mysql.TypeBit:
		t.del(mysql.BinaryFlag)
		t.add(mysql.UnsignedFlag)
	case mysql.TypeYear:
		t.del(mysql.BinaryFlag)
		t.add(mysql.ZerofillFlag)
	}
	if t.has(mysql.ZerofillFlag) {
		t.add(mysql.UnsignedFlag)
	}
}

// noDefault marks a NOT NULL column that has to be given in every INSERT.
func (c *ColumnInfo) noDefault(given bool) {
	if c.Type.has(mysql.NotNullFlag) && !given && !c.Type.has(mysql.AutoIncrementFlag) {
		c.Type.add(mysql.NoDefaultValueFlag)
	}
}

// check refuses what contradicts itself.
func (b *columnBuilder) check() error {
	c := b.col
	inKey := c.Type.has(mysql.PriKeyFlag)
	if b.outer != nil {
		for _, k := range b.outer.Keys {
			inKey = inKey || k.Column != nil && k.Column.Name.L == c.Name.L
		}
	}
	if inKey && b.null {
		return refuse(1171, "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead")
	}
	if b.hasDefault && c.Default == nil && (c.Type.has(mysql.NotNullFlag) || inKey) && !c.DefaultIsExpr {
		return refuse(errBadDefault, "Invalid default value for '%s'", c.Name.O)
	}
	if c.Type.has(mysql.OnUpdateNowFlag) && c.Type.Tp != mysql.TypeTimestamp && c.Type.Tp != mysql.TypeDatetime {
		return refuse(errInvalidOnUpdate, "Invalid ON UPDATE clause for '%s' column", c.Name.O)
	}
	return nil
}
