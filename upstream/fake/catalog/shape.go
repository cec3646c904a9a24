package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser/mysql"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// Row is a row as a client means it.
type Row struct {
	// Values are those of the shape's Table.Columns, in order. Those of virtual
	// columns are not looked at.
	Values []encode.Value
	// RowID is the handle where the table has hidden row ids.
	RowID int64
	// Kept are cells of columns that are not public, by id, which the row held
	// before: an update writes them again, an insert has none.
	Kept map[int64]encode.Value
}

// Shape is how a server that knows one version of a table writes its rows.
// Servers may be one version apart; each writes by the shape that it knows.
type Shape struct {
	Table *event.Table // public and visible columns, and what keys are made of
	Info  *TableInfo
	// Zone is that of the writer's session, in which it converts a TIMESTAMP
	// while the column is being changed; UTC unless set.
	Zone *time.Location

	cells   []cellRule
	restore bool // the cluster's keys hold sort keys, and rows what they lose
	read    *cut // where a row is
	beside  *cut // where else it is written while partitions are reorganised; nil for nowhere
	forget  bool // … but only deleted from
}

// cellRule says where one cell of a row comes from.
type cellRule struct {
	column  *event.Column
	value   int // index into Row.Values; -1 for a column that is not public
	convert int // index into Row.Values of the column that it is converted from; -1 for none
	from    *event.Column
	origin  encode.Value  // what an insert writes
	broken  error         // why there is none
	bare    bool          // NULL is left out
	filled  bool          // NULL is refused
	narrow  *event.Column // what values have to fit already, while a MODIFY COLUMN looks at the others
}

// Shape is how rows of a table are written by servers that know the catalog as
// it is now.
func (c *Catalog) Shape(db, table string) (*Shape, error) {
	d := c.Database(db)
	if d == nil {
		return nil, refuse(errBadDB, "Unknown database '%s'", db)
	}
	t := c.tableIn(d.ID, table)
	if t == nil {
		return nil, refuse(errNoSuchTable, "Table '%s.%s' doesn't exist", db, table)
	}
	return NewShape(d, t, c.OldCollations)
}

// NewShape is how rows of a table are written by servers that know it so.
func NewShape(db *DBInfo, t *TableInfo, oldCollations bool) (*Shape, error) {
	s := &Shape{Info: t, Zone: time.UTC, restore: !oldCollations}
	s.Table = &event.Table{
		ID: t.ID, SchemaID: db.ID, Schema: db.Name.O, Name: t.Name.O, Charset: t.Charset, Collation: t.Collate, Version: t.UpdateTS,
	}
	at := map[int]int{} // index in Table.Columns by offset
	for _, c := range t.Columns {
		if c.State == StatePublic && !c.Hidden {
			at[c.Offset] = len(s.Table.Columns)
			s.Table.Columns = append(s.Table.Columns, eventColumn(c))
		}
	}
	s.setHandle(t, at)
	for _, c := range t.Columns {
		if rule, ok := s.rule(t, c, at); ok {
			s.cells = append(s.cells, rule)
		}
	}
	return s, s.setPartitions(t)
}

func eventColumn(c *ColumnInfo) event.Column {
	out := event.Column{
		ID: c.ID, Name: c.Name.O, Type: event.Type(c.Type.Tp), Flag: event.Flag(c.Type.Flag), Flen: c.Type.Flen, Decimal: c.Type.Decimal,
		Charset: c.Type.Charset, Collation: c.Type.Collate, Elems: c.Type.Elems, Comment: c.Comment,
	}
	if c.generated() {
		out.Generated, out.GenExpr = event.Virtual, c.GeneratedExpr
		if c.GeneratedStored {
			out.Generated = event.Stored
		}
	}
	return out
}

// setHandle says what keys of rows are made of.
func (s *Shape) setHandle(t *TableInfo, at map[int]int) {
	switch {
	case t.PKIsHandle:
		s.Table.Handle.Kind = event.IntHandle
		for _, c := range t.Columns {
			if c.State == StatePublic && c.Type.has(mysql.PriKeyFlag) {
				s.Table.Handle.Parts = []event.IndexPart{{Column: at[c.Offset], Length: event.FullLength}}
			}
		}
	case t.IsCommonHandle:
		s.Table.Handle.Kind = event.CommonHandle
		for _, c := range t.indexNamed(fold(primaryName)).Columns {
			s.Table.Handle.Parts = append(s.Table.Handle.Parts, event.IndexPart{Column: at[c.Offset], Length: c.Length})
		}
	}
}

// rule is where the cell of a column comes from; ok is false for one that rows
// do not hold.
func (s *Shape) rule(t *TableInfo, c *ColumnInfo, at map[int]int) (cellRule, bool) {
	switch c.State {
	case StatePublic, StateWriteOnly, StateWriteReorg:
	default:
		return cellRule{}, false
	}
	if c.virtual() || s.inKey(t, c) {
		return cellRule{}, false
	}
	col := eventColumn(c)
	r := cellRule{column: &col, value: -1, convert: -1, bare: c.Default == nil && c.OriginDefault == nil}
	switch {
	case c.State == StatePublic:
		r.value = at[c.Offset]
		r.filled = c.Type.has(mysql.NotNullFlag | flagPreventNull)
		if c.ChangingType != nil {
			to := c.clone()
			to.Type = *c.ChangingType
			narrow := eventColumn(to)
			r.narrow = &narrow
		}
	case c.ChangeState != nil:
		from := eventColumn(t.Columns[c.ChangeState.DependencyOffset])
		r.from, r.convert = &from, at[c.ChangeState.DependencyOffset]
	default:
		r.origin, r.broken = originValue(c, &col)
	}
	return r, true
}

// inKey tells whether a column is in the key of a row, whole, and so not in its value.
func (s *Shape) inKey(t *TableInfo, c *ColumnInfo) bool {
	if t.PKIsHandle {
		return c.Type.has(mysql.PriKeyFlag)
	}
	if !t.IsCommonHandle {
		return false
	}
	return slices.ContainsFunc(t.indexNamed(fold(primaryName)).Columns, func(p *IndexColumn) bool {
		return p.Offset == c.Offset && p.Length == wholeColumn && !(s.restore && c.Type.losesInKey())
	})
}

// losesInKey tells whether a string's sort key says less than the string.
func (t *FieldType) losesInKey() bool {
	if !t.hasCharset() || !t.isString() || t.Charset == "binary" {
		return false
	}
	return t.Collate != "utf8mb4_0900_bin" && (t.Tp == mysql.TypeVarchar || !strings.HasSuffix(t.Collate, "_bin"))
}

// originValue is what an insert writes into a column that is being added or
// dropped.
func originValue(c *ColumnInfo, col *event.Column) (encode.Value, error) {
	text, ok := c.OriginDefault.(string)
	switch {
	case len(c.OriginDefaultBit) > 0:
		return bigEndian(string(c.OriginDefaultBit)), nil
	case !ok && !c.Type.has(mysql.NotNullFlag):
		return nil, nil
	case !ok:
		text = c.Type.zero()
	}
	if c.Type.Tp == mysql.TypeBit {
		return bigEndian(text), nil
	}
	return encode.Parse(col, text)
}

// cells are what a row stores in its value.
func (s *Shape) row(r Row) ([]encode.Cell, error) {
	if len(r.Values) != len(s.Table.Columns) {
		return nil, fmt.Errorf("catalog: %d values for %d columns of %s", len(r.Values), len(s.Table.Columns), s.Table.FullName())
	}
	var out []encode.Cell
	for _, rule := range s.cells {
		v, err := rule.of(r, s.Zone)
		if err != nil {
			return nil, fmt.Errorf("catalog: column %s of %s: %w", rule.column.Name, s.Table.FullName(), err)
		}
		if v == nil && rule.bare {
			continue
		}
		out = append(out, encode.Cell{Column: rule.column, Value: v})
	}
	return out, nil
}

func (r *cellRule) of(row Row, zone *time.Location) (encode.Value, error) {
	switch {
	case r.value >= 0:
		v := row.Values[r.value]
		if v == nil && r.filled {
			return nil, refuse(1048, "Column '%s' cannot be null", r.column.Name)
		}
		if r.narrow != nil {
			if _, err := Convert(r.column, v, r.narrow, zone); err != nil {
				return nil, err
			}
		}
		return v, nil
	case r.convert >= 0:
		return Convert(r.from, row.Values[r.convert], r.column, zone)
	}
	if v, ok := row.Kept[r.column.ID]; ok {
		return v, nil
	}
	return r.origin, r.broken
}

// Stored is what Put stores in a row's value, by column id: with what is
// converted, and without what is in the key alone.
func (s *Shape) Stored(r Row) (map[int64]encode.Value, error) {
	cells, err := s.row(r)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]encode.Value, len(cells))
	for _, c := range cells {
		out[c.Column.ID] = c.Value
	}
	return out, nil
}

// handle is the part of a row's key behind the table.
func (s *Shape) handle(r Row, sort encode.Sorter) ([]byte, error) {
	if s.Table.Handle.Kind == event.RowIDHandle {
		return encode.IntHandle(r.RowID), nil
	}
	return encode.Handle(s.Table, r.Values, sort)
}

// Put is what a server writes for a row: one key, or several while partitions
// are reorganised. Sum asks for a checksum over the handle.
func (s *Shape) Put(r Row, sort encode.Sorter, sum encode.ChecksumKind) ([]KV, error) {
	cells, err := s.row(r)
	if err != nil {
		return nil, err
	}
	handle, err := s.handle(r, sort)
	if err != nil {
		return nil, err
	}
	ids, err := s.places(r, sort, false)
	if err != nil {
		return nil, err
	}
	var out []KV
	for _, id := range ids {
		key := encode.RecordKey(id, handle)
		check := encode.Checksum{Kind: sum, Tail: handle}
		if sum == encode.OverKey {
			check.Tail = key
		}
		value, err := encode.Row2(cells, check)
		if err != nil {
			return nil, err
		}
		out = append(out, KV{key, value})
	}
	return out, nil
}

// Delete is what a server deletes for a row.
func (s *Shape) Delete(r Row, sort encode.Sorter) ([]KV, error) {
	handle, err := s.handle(r, sort)
	if err != nil {
		return nil, err
	}
	ids, err := s.places(r, sort, true)
	if err != nil {
		return nil, err
	}
	var out []KV
	for _, id := range ids {
		out = append(out, KV{Key: encode.RecordKey(id, handle)})
	}
	return out, nil
}
