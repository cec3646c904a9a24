package catalog

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// modifyKind is how much a MODIFY COLUMN has to do.
type modifyKind uint8

// The kinds, as TiDB stores them.
const (
	modifyUnknown modifyKind = 0
	modifyPlain   modifyKind = 1 // only the table's description
	modifyCheck   modifyKind = 2 // and a look whether every value fits
	modifyRewrite modifyKind = 4 // every value is converted, under a new column id
)

type modifyArgs struct {
	Column       *ColumnInfo `json:"column,omitempty"`
	OldID        int64       `json:"old_column_id,omitempty"`
	OldName      Name        `json:"old_column_name"`
	Position     *position   `json:"position,omitempty"`
	Kind         modifyKind  `json:"modify_column_type,omitempty"`
	Changing     *ColumnInfo `json:"changing_column,omitempty"`
	PartitionIDs []int64     `json:"partition_ids,omitempty"`
	IndexIDs     []int64     `json:"index_ids,omitempty"`
	NewIndexIDs  []int64     `json:"new_index_ids,omitempty"`
}

func (a *alteration) modifyColumn(s *ast.AlterTableSpec) (*change, error) {
	def := s.NewColumns[0]
	name := def.Name
	if s.Tp == ast.AlterTableChangeColumn {
		name = s.OldColumnName
	}
	old, err := a.columnOf(name)
	if err != nil {
		if s.IfExists {
			return nil, nil
		}
		return nil, err
	}
	if other := a.table.column(def.Name.Name.L); other != nil && other != old {
		return nil, refuse(errDupColumn, "Duplicate column name '%s'", def.Name.Name.O)
	}
	col, more, err := a.column(def, old.Offset, a.outerCollation(old), nil)
	if err != nil {
		return nil, err
	}
	if len(more) > 0 {
		return nil, refuse(errUnsupported, "Unsupported modify column: can't change column constraint (PRIMARY KEY, UNIQUE or CHECK)")
	}
	if err := a.compatible(old, col); err != nil {
		return nil, err
	}
	if err := a.recodes(old, col); err != nil {
		return nil, err
	}
	col.ID, col.State, col.Version = old.ID, old.State, old.Version
	col.OriginDefault, col.OriginDefaultBit = old.OriginDefault, slices.Clone(old.OriginDefaultBit)
	col.Type.Flag |= old.Type.Flag & (mysql.PriKeyFlag | mysql.UniqueKeyFlag | mysql.MultipleKeyFlag)
	if col.Type.has(mysql.PriKeyFlag) {
		col.Type.add(mysql.NotNullFlag)
	}
	rewrite, meta := changesData(&old.Type, &col.Type), tunedReorgMeta
	if rewrite {
		meta = distReorgMeta
		if err := a.rewritable(old, col); err != nil {
			return nil, err
		}
		if old.OriginDefault != nil && a.kindOf(old, col) == modifyRewrite {
			a.freshOrigin(col)
		}
	}
	return &change{
		action: ActionModifyColumn, args: &modifyArgs{Column: col, OldName: MakeName(name.Name.O), Position: makePosition(s.Position)},
		reorg: rewrite, meta: meta, vars: statsVars(),
	}, nil
}

// outerCollation is what a modified column has that names no character set: a
// string keeps the table's.
func (a *alteration) outerCollation(*ColumnInfo) collation {
	return collation{a.table.Charset, a.table.Collate}
}

// freshOrigin sets as the origin default of a column what a new one would get.
func (p *planner) freshOrigin(c *ColumnInfo) {
	c.OriginDefault, c.OriginDefaultBit = nil, nil
	p.originDefault(c)
}

// compatible refuses changes that TiDB does not make.
func (a *alteration) compatible(old, col *ColumnInfo) error {
	wrong := func(why string) error { return refuse(errUnsupported, "Unsupported modify column: %s", why) }
	auto := func(c *ColumnInfo) bool { return c.Type.has(mysql.AutoIncrementFlag) }
	switch {
	case !auto(old) && auto(col):
		return wrong("can't set auto_increment")
	case old.generated() != col.generated() || old.generated() && old.GeneratedStored != col.GeneratedStored:
		return refuse(3106, "'Changing the STORED status' is not supported for generated columns.")
	}
	if err := a.table.known(col); err != nil {
		return err
	}
	if old.Name.L != col.Name.L {
		return a.renamable(old)
	}
	return nil
}

// recodes refuses changes of type, character set or collation that TiDB does
// not make, even by converting every value.
func (a *alteration) recodes(old, col *ColumnInfo) error {
	from, to := &old.Type, &col.Type
	if from.stranger(to) {
		return refuse(errUnsupported, "Unsupported modify column: change from original type %d to %d is currently unsupported yet", from.Tp, to.Tp)
	}
	if to.hasCharset() {
		if err := a.indexed(old, collation{to.Charset, to.Collate}); err != nil {
			return err
		}
	}
	err := collation{from.Charset, from.Collate}.into(collation{to.Charset, to.Collate})
	if err != nil && from.Charset != charset.CharsetGBK && to.Charset != charset.CharsetGBK && from.converts(to) {
		return nil
	}
	return err
}

// indexed refuses another collation of a column that an index sorts by.
func (a *alteration) indexed(c *ColumnInfo, to collation) error {
	from := c.Type.Collate
	if !c.Type.hasCharset() || from == to.collate || a.c.OldCollations || len(a.table.indexesOn(c.Name.L)) == 0 || alike(from, to.collate) {
		return nil
	}
	return refuse(errUnsupported, "Unsupported modifying collation of column from '%s' to '%s' when index is defined on it.", from, to.collate)
}

// into refuses a change of character set or collation that needs more than
// another description. To UTF-8 from what is a part of it there is nothing to do.
func (c collation) into(to collation) error {
	switch [2]string{c.charset, to.charset} {
	case [2]string{charset.CharsetUTF8, charset.CharsetUTF8MB4}, [2]string{charset.CharsetUTF8, charset.CharsetUTF8},
		[2]string{charset.CharsetUTF8MB4, charset.CharsetUTF8MB4}, [2]string{charset.CharsetLatin1, charset.CharsetUTF8MB4}:
		return nil
	}
	switch {
	case c.charset != to.charset:
		return refuse(errUnsupported, "Unsupported modify charset from %s to %s", c.charset, to.charset)
	case c.collate != to.collate:
		return refuse(errUnsupported, "Unsupported modify change collate from %s to %s", c.collate, to.collate)
	}
	return nil
}

// alike tells whether strings compare alike under two collations, so that
// indexes need not be written anew.
func alike(a, b string) bool {
	trim := func(s string) string { _, rest, _ := strings.Cut(s, "_"); return rest }
	utf8 := func(s string) bool { return strings.HasPrefix(s, "utf8_") || strings.HasPrefix(s, "utf8mb4_") }
	return utf8(a) && utf8(b) && trim(a) == trim(b)
}

// converts tells whether values have to be converted on their way to a type,
// for more than its character set.
func (t *FieldType) converts(to *FieldType) bool {
	if t.isString() && to.isString() {
		char, padded := mysql.TypeString, t.Charset == charset.CharsetBin && to.Charset == charset.CharsetBin
		return (t.Tp == char) != (to.Tp == char) || to.Flen > 0 && to.Flen < t.Flen || padded && t.Tp == char && t.Flen != to.Flen
	}
	return changesData(t, to)
}

// stranger tells whether there is no way from one type to the other.
func (t *FieldType) stranger(to *FieldType) bool {
	from, target := t.Tp, to.Tp
	text := t.isString() || from == mysql.TypeJSON
	real := from == mysql.TypeNewDecimal || from == mysql.TypeFloat || from == mysql.TypeDouble
	member := from == mysql.TypeEnum || from == mysql.TypeSet
	clock := t.isTime() || from == mysql.TypeDuration || from == mysql.TypeYear
	switch {
	case from == target:
		return false
	case from == mysql.TypeTiDBVectorFloat32, target == mysql.TypeTiDBVectorFloat32:
		return true
	case target == mysql.TypeBit:
		return text || clock
	case target == mysql.TypeEnum, target == mysql.TypeSet:
		return clock || real || from == mysql.TypeJSON || from == mysql.TypeBit
	case to.isTime():
		return member || real || from == mysql.TypeBit
	}
	return target == mysql.TypeDuration && (member || from == mysql.TypeBit)
}

// renamable refuses to rename a column that an expression names.
func (a *alteration) renamable(col *ColumnInfo) error {
	for _, c := range a.table.Columns {
		if _, ok := c.Dependences[col.Name.L]; ok {
			return refuse(3108, "Column '%s' has a generated column dependency.", col.Name.O)
		}
	}
	if a.table.partitionedBy(col.Name.L) {
		return refuse(3855, "Column '%s' has a partitioning function dependency and cannot be dropped or renamed", col.Name.O)
	}
	return a.table.unchecked(col, 0)
}

// rewritable refuses to convert a column that other things are made of.
func (a *alteration) rewritable(old, col *ColumnInfo) error {
	wrong := func(why string) error { return refuse(errUnsupported, "Unsupported modify column: %s", why) }
	t := a.table
	inHandle := t.PKIsHandle && old.Type.has(mysql.PriKeyFlag)
	for _, i := range t.indexesOn(old.Name.L) {
		inHandle = inHandle || t.IsCommonHandle && i.Primary
		for _, part := range i.Columns {
			if part.Name.L == old.Name.L && part.Length > col.Type.Flen && col.Type.isString() {
				return refuse(1089, "Incorrect prefix key; the used key part isn't a string, the used length is longer than the key part, or the storage engine doesn't support unique prefix keys")
			}
		}
	}
	switch {
	case (inHandle || old.Type.has(mysql.PriKeyFlag)) && a.kindOf(old, col) == modifyRewrite:
		return wrong("this column has primary key flag")
	case t.partitionedBy(old.Name.L):
		return wrong("table is partition table")
	case old.generated():
		return wrong("newCol IsGenerated true, oldCol IsGenerated true")
	}
	for _, c := range t.Columns {
		if _, ok := c.Dependences[old.Name.L]; ok {
			return wrong("oldCol is a dependent column '" + old.Name.O + "' for generated column")
		}
	}
	return nil
}

// kindOf is how much has to be done to turn one column into another.
func (p *planner) kindOf(old, col *ColumnInfo) modifyKind {
	return kindOf(old, col, p.strict())
}

func kindOf(old, col *ColumnInfo, strict bool) modifyKind {
	toNotNull := !old.Type.has(mysql.NotNullFlag) && col.Type.has(mysql.NotNullFlag)
	switch {
	case changesData(&old.Type, &col.Type):
		if strict && onlyNarrows(&old.Type, &col.Type) {
			return modifyCheck
		}
		return modifyRewrite
	case toNotNull:
		return modifyCheck
	}
	return modifyPlain
}

// changesData tells whether a value of one type may be stored otherwise as one
// of another type, or may not fit.
func changesData(from, to *FieldType) bool {
	switch {
	case from.isInteger() && to.isInteger():
		return from.has(mysql.UnsignedFlag) != to.has(mysql.UnsignedFlag) || intBytes(to.Tp) < intBytes(from.Tp)
	case from.isString() && to.isString():
		if (from.Charset == "binary") != (to.Charset == "binary") {
			return true
		}
		if from.Tp == mysql.TypeString != (to.Tp == mysql.TypeString) && from.Charset == "binary" {
			return true // BINARY is padded
		}
		return from.Tp == mysql.TypeString != (to.Tp == mysql.TypeString) || to.Flen < from.Flen
	case from.Tp != to.Tp:
		return !(from.Tp == mysql.TypeFloat && to.Tp == mysql.TypeDouble)
	}
	switch from.Tp {
	case mysql.TypeNewDecimal:
		return from.Flen != to.Flen || from.Decimal != to.Decimal || from.has(mysql.UnsignedFlag) != to.has(mysql.UnsignedFlag)
	case mysql.TypeEnum, mysql.TypeSet:
		return len(to.Elems) < len(from.Elems) || !slices.Equal(from.Elems, to.Elems[:len(from.Elems)])
	case mysql.TypeDatetime, mysql.TypeTimestamp, mysql.TypeDuration:
		return from.Decimal > to.Decimal
	case mysql.TypeFloat, mysql.TypeDouble:
		return from.has(mysql.UnsignedFlag) != to.has(mysql.UnsignedFlag) ||
			to.Flen > 0 && to.Flen < from.Flen || to.Decimal > 0 && to.Decimal < from.Decimal
	case mysql.TypeBit:
		return to.Flen < from.Flen
	}
	return from.Flen != to.Flen && to.Flen > 0 && to.Flen < from.Flen
}

// onlyNarrows tells whether values that fit stay stored as they are.
func onlyNarrows(from, to *FieldType) bool {
	switch {
	case from.isInteger() && to.isInteger():
		return from.has(mysql.UnsignedFlag) == to.has(mysql.UnsignedFlag)
	case from.isString() && to.isString():
		return from.Charset != "binary" && to.Charset != "binary"
	}
	return false
}

func intBytes(tp uint8) int {
	switch tp {
	case mysql.TypeTiny:
		return 1
	case mysql.TypeShort:
		return 2
	case mysql.TypeInt24:
		return 3
	case mysql.TypeLong:
		return 4
	}
	return 8
}

func (a *alteration) renameColumn(s *ast.AlterTableSpec) (*change, error) {
	old, err := a.columnOf(s.OldColumnName)
	if err != nil {
		return nil, err
	}
	if old.Name.L == s.NewColumnName.Name.L {
		return nil, nil
	}
	if other := a.table.column(s.NewColumnName.Name.L); other != nil && other != old {
		return nil, refuse(errDupColumn, "Duplicate column name '%s'", s.NewColumnName.Name.O)
	}
	if err := a.renamable(old); err != nil {
		return nil, err
	}
	col := old.clone()
	col.Name = MakeName(s.NewColumnName.Name.O)
	return &change{
		action: ActionModifyColumn, args: &modifyArgs{Column: col, OldName: MakeName(s.OldColumnName.Name.O)},
		meta: tunedReorgMeta, vars: a.multiVars(),
	}, nil
}
