package catalog

import (
	"slices"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// columnName is a column as it stands in arguments.
type columnName struct {
	Schema Name
	Table  Name
	Name   Name
}

// position is where a column is put.
type position struct {
	Tp       int
	Relative *columnName `json:"RelativeColumn"`
}

type columnArgs struct {
	Column       *ColumnInfo `json:"column_info,omitempty"`
	Position     *position   `json:"position,omitempty"`
	IgnoreExist  bool        `json:"ignore_existence_err,omitempty"`
	IndexIDs     []int64     `json:"index_ids,omitempty"`
	PartitionIDs []int64     `json:"partition_ids,omitempty"`
}

type defaultArgs struct {
	Column *ColumnInfo `json:"column_info,omitempty"`
}

func makePosition(p *ast.ColumnPosition) *position {
	if p == nil {
		return nil
	}
	out := &position{Tp: int(p.Tp)}
	if p.RelativeColumn != nil {
		out.Relative = &columnName{Name: MakeName(p.RelativeColumn.Name.O)}
	}
	return out
}

// place is the offset at which a column at present at an offset ends.
func (t *TableInfo) place(p *position, present int) (int, error) {
	if p == nil {
		return present, nil
	}
	switch ast.ColumnPositionType(p.Tp) {
	case ast.ColumnPositionFirst:
		return 0, nil
	case ast.ColumnPositionAfter:
		rel := t.column(p.Relative.Name.L)
		if rel == nil || rel.State != StatePublic {
			return 0, refuse(errBadField, "Unknown column '%s' in '%s'", p.Relative.Name.O, t.Name.O)
		}
		// The column is taken out of where it stands first.
		if present <= rel.Offset {
			return rel.Offset, nil
		}
		return rel.Offset + 1, nil
	}
	return present, nil
}

func (a *alteration) addColumn(s *ast.AlterTableSpec) (*change, error) {
	def := s.NewColumns[0]
	if a.table.column(def.Name.Name.L) != nil {
		if s.IfNotExists {
			return nil, nil
		}
		return nil, refuse(errDupColumn, "Duplicate column name '%s'", def.Name.Name.O)
	}
	for _, o := range def.Options {
		switch {
		case o.Tp == ast.ColumnOptionAutoIncrement, o.Tp == ast.ColumnOptionPrimaryKey, o.Tp == ast.ColumnOptionUniqKey, o.Tp == ast.ColumnOptionAutoRandom:
			return nil, refuse(errUnsupported, "unsupported add column '%s' constraint of kind %d when altering '%s.%s'", def.Name.Name.O, o.Tp, a.db.Name.O, a.table.Name.O)
		case o.Tp == ast.ColumnOptionGenerated && o.Stored:
			return nil, refuse(3106, "'Adding generated stored column through ALTER TABLE' is not supported for generated columns.")
		}
	}
	if len(a.table.Columns) >= columnsMax {
		return nil, refuse(1117, "Too many columns")
	}
	col, _, err := a.column(def, len(a.table.Columns), collation{a.table.Charset, a.table.Collate}, nil)
	if err != nil {
		return nil, err
	}
	if err := a.table.known(col); err != nil {
		return nil, err
	}
	a.originDefault(col)
	pos := makePosition(s.Position)
	if _, err := a.table.place(pos, len(a.table.Columns)); err != nil && !a.multi {
		return nil, err
	}
	return &change{action: ActionAddColumn, args: &columnArgs{Column: col, Position: pos}, meta: a.plainMeta(), vars: a.multiVars()}, nil
}

// plainMeta and multiVars are what changes carry in a multi-schema change only.
func (a *alteration) plainMeta() reorgKind {
	if a.multi {
		return plainReorgMeta
	}
	return noReorgMeta
}

func (a *alteration) multiVars() map[string]string {
	if a.multi {
		return statsVars()
	}
	return nil
}

// originDefault sets what rows have in a column that is added later than them:
// its default as of now, or the type's zero.
func (p *planner) originDefault(c *ColumnInfo) {
	if c.generated() {
		return
	}
	if c.Default == nil {
		if c.Type.has(mysql.NotNullFlag) {
			c.putOrigin(c.Type.zero())
		}
		return
	}
	text, ok := c.Default.(string)
	if !ok || c.DefaultIsExpr {
		return
	}
	if strings.EqualFold(text, ast.CurrentTimestamp) {
		now := p.session.Now.UTC()
		if c.Type.Tp != mysql.TypeTimestamp {
			now = p.session.Now.In(p.session.Zone)
		}
		text = momentOf(now.Truncate(time.Microsecond)).cut(max(c.Type.Decimal, 0)).text(&c.Type)
	}
	c.putOrigin(text)
}

// cut cuts the moment to so many digits of a second.
func (m moment) cut(digits int) moment {
	unit := 1
	for range 6 - digits {
		unit *= 10
	}
	m.micro -= m.micro % unit
	return m
}

func (c *ColumnInfo) putOrigin(text string) {
	c.OriginDefault, c.OriginDefaultBit = text, nil
	if c.Type.Tp == mysql.TypeBit {
		c.OriginDefaultBit = []byte(text)
	}
}

// zero is the value of a NOT NULL column that was given none, as text.
func (t *FieldType) zero() string {
	switch t.Tp {
	case mysql.TypeEnum:
		return t.Elems[0]
	case mysql.TypeDate, mysql.TypeDatetime, mysql.TypeTimestamp:
		return moment{}.text(t)
	case mysql.TypeDuration:
		return "00:00:00" + fractionText(0, t.Decimal)
	case mysql.TypeYear:
		return "0000"
	case mysql.TypeJSON:
		return "null"
	case mysql.TypeBit, mysql.TypeSet:
		return ""
	case mysql.TypeString:
		if t.Charset == "binary" {
			return strings.Repeat("\x00", max(t.Flen, 0))
		}
		return ""
	}
	if t.isString() {
		return ""
	}
	return "0"
}

func (a *alteration) dropColumn(s *ast.AlterTableSpec) (*change, error) {
	col, err := a.columnOf(s.OldColumnName)
	if err != nil {
		if s.IfExists {
			return nil, nil
		}
		return nil, refuse(errCannotDropKey, "Can't DROP '%s'; check that column/key exists", s.OldColumnName.Name.O)
	}
	if a.table.visible()-a.more <= 1 {
		return nil, refuse(errCannotDropAll, "You can't delete all columns with ALTER TABLE; use DROP TABLE instead")
	}
	if err := a.droppable(col); err != nil {
		return nil, err
	}
	a.more++
	out := &ColumnInfo{Name: MakeName(s.OldColumnName.Name.O)}
	return &change{
		action: ActionDropColumn, args: &columnArgs{Column: out}, state: StatePublic,
		meta: a.plainMeta(), vars: a.multiVars(),
	}, nil
}

// droppable refuses a column that something else needs.
func (a *alteration) droppable(col *ColumnInfo) error {
	t := a.table
	if t.PKIsHandle && col.Type.has(mysql.PriKeyFlag) {
		return refuse(errUnsupported, "Unsupported drop integer primary key")
	}
	for _, i := range t.indexesOn(col.Name.L) {
		if i.Primary || len(i.Columns) > 1 {
			return refuse(errUnsupported, "can't drop column %s with composite index covered or Primary Key covered now", col.Name.O)
		}
	}
	for _, c := range t.Columns {
		if _, ok := c.Dependences[col.Name.L]; ok {
			if c.Hidden {
				return refuse(3837, "Column '%s' has an expression index dependency and cannot be dropped or renamed", col.Name.O)
			}
			return refuse(3108, "Column '%s' has a generated column dependency.", col.Name.O)
		}
	}
	if t.partitionedBy(col.Name.L) {
		return refuse(3855, "Column '%s' has a partitioning function dependency and cannot be dropped or renamed", col.Name.O)
	}
	for _, k := range t.ForeignKeys {
		if slices.ContainsFunc(k.Cols, func(n Name) bool { return n.L == col.Name.L }) {
			return refuse(1828, "Cannot drop column '%s': needed in a foreign key constraint '%s'", col.Name.O, k.Name.O)
		}
	}
	switch {
	case t.TTL != nil && t.TTL.Column.L == col.Name.L:
		return refuse(8149, "Cannot drop column '%s': needed in TTL config", col.Name.O)
	case col.Type.has(mysql.AutoIncrementFlag):
		return refuse(errUnsupported, "can't remove column with AUTO_INCREMENT when @@tidb_allow_remove_auto_inc disabled")
	}
	return t.unchecked(col, 1)
}

// unchecked refuses a column that a CHECK names, but for one that names no
// more than so many columns.
func (t *TableInfo) unchecked(col *ColumnInfo, upTo int) error {
	for _, c := range t.Constraints {
		if len(c.Cols) > upTo && slices.ContainsFunc(c.Cols, func(n Name) bool { return n.L == col.Name.L }) {
			return refuse(3959, "Check constraint '%s' uses column '%s', hence column cannot be dropped or renamed.", c.Name.O, col.Name.O)
		}
	}
	return nil
}

// partitionedBy tells whether the table is cut by the column.
func (t *TableInfo) partitionedBy(column string) bool {
	if t.Partition == nil {
		return false
	}
	for _, c := range t.Partition.Columns {
		if c.L == column {
			return true
		}
	}
	return strings.Contains(strings.ToLower(t.Partition.Expr), "`"+column+"`")
}

func (a *alteration) alterDefault(s *ast.AlterTableSpec) (*change, error) {
	def := s.NewColumns[0]
	old, err := a.columnOf(def.Name)
	if err != nil {
		return nil, err
	}
	col := old.clone()
	b := &columnBuilder{planner: a.planner, col: col}
	col.Default, col.DefaultBit, col.DefaultIsExpr = nil, nil, false
	if len(def.Options) == 0 {
		col.Type.add(mysql.NoDefaultValueFlag)
	} else {
		if err := b.setDefault(def.Options[0].Expr); err != nil {
			return nil, err
		}
		if col.Default == nil && col.Type.has(mysql.NotNullFlag) {
			return nil, refuse(errBadDefault, "Invalid default value for '%s'", col.Name.O)
		}
		col.Type.del(mysql.NoDefaultValueFlag)
	}
	return &change{action: ActionSetDefault, args: &defaultArgs{Column: col}, meta: a.plainMeta(), vars: a.multiVars()}, nil
}
