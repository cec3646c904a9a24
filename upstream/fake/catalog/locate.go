package catalog

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// cut is one way to tell which partition a row belongs to.
type cut struct {
	table *Shape
	kind  ast.PartitionType
	expr  ast.ExprNode // nil where it is cut by columns
	cols  []int        // indexes into the table's columns
	defs  []PartitionDef
	only  []int64 // nil: all; else rows of other partitions are not meant
}

// setPartitions works out where rows are, and where else they are written.
func (s *Shape) setPartitions(t *TableInfo) error {
	p := t.Partition
	if p == nil {
		return nil
	}
	var err error
	if s.read, err = s.cut(p.Type, p.Expr, p.Columns, p.Definitions); err != nil {
		return err
	}
	switch Action(p.DDLAction) {
	case ActionReorganize, ActionPartitionBy, ActionRemovePartition:
	default:
		return nil
	}
	return s.setBeside(t, Action(p.DDLAction) == ActionReorganize)
}

// setBeside works out the other places: before the switch the new partitions,
// after it the old ones.
func (s *Shape) setBeside(t *TableInfo, partial bool) (err error) {
	p := t.Partition
	switch p.DDLState {
	case StateDeleteOnly, StateWriteOnly, StateWriteReorg:
		s.forget = p.DDLState == StateDeleteOnly
		if !partial {
			s.beside, err = s.cut(p.DDLType, p.DDLExpr, p.DDLColumns, p.Adding)
			return err
		}
		s.beside, err = s.cut(p.Type, p.Expr, p.Columns, replaceDefs(p.Definitions, p.Dropping, p.Adding))
		if err == nil {
			s.beside.only = idsOf(p.Adding)
		}
	case StateDeleteReo, StatePublic:
		if !partial {
			s.beside, err = s.cut(p.DDLType, p.DDLExpr, p.DDLColumns, p.Dropping)
			return err
		}
		s.beside, err = s.cut(p.Type, p.Expr, p.Columns, oldDefs(p))
		if err == nil {
			s.beside.only = idsOf(p.Dropping)
		}
	}
	return err
}

// replaceDefs puts new partitions in the place of the first of those that go.
func replaceDefs(all, gone, added []PartitionDef) []PartitionDef {
	ids := idsOf(gone)
	var out []PartitionDef
	placed := false
	for _, d := range all {
		if !slices.Contains(ids, d.ID) {
			out = append(out, d)
			continue
		}
		if !placed {
			out = append(out, cloneDefs(added)...)
			placed = true
		}
	}
	return out
}

// oldDefs are the partitions as they were before a reorganisation.
func oldDefs(p *PartitionInfo) []PartitionDef {
	all := slices.Concat(p.Definitions, p.Dropping)
	var out []PartitionDef
	for _, id := range p.OriginalOrder {
		if i := slices.IndexFunc(all, func(d PartitionDef) bool { return d.ID == id }); i >= 0 {
			out = append(out, all[i])
		}
	}
	return out
}

func (s *Shape) cut(kind int, expr string, columns []Name, defs []PartitionDef) (*cut, error) {
	c := &cut{table: s, kind: ast.PartitionType(kind), defs: defs}
	if expr != "" {
		e, err := parseExpr(expr)
		if err != nil {
			return nil, err
		}
		c.expr = e
		return c, nil
	}
	for _, n := range columns {
		i := s.Table.Column(n.L)
		if i < 0 {
			return nil, fmt.Errorf("catalog: %s is partitioned by %s, which it has not", s.Table.FullName(), n.O)
		}
		c.cols = append(c.cols, i)
	}
	return c, nil
}

// parseExpr reads an expression as TiDB keeps it.
func parseExpr(text string) (e ast.ExprNode, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, fmt.Errorf("catalog: the parser gave up (%v) on: %s", p, text)
		}
	}()
	stmt, err := parser.New().ParseOneStmt("select "+text, "", "")
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	return stmt.(*ast.SelectStmt).Fields.Fields[0].Expr, nil
}

// places are the physical ids that a row is written to, or deleted from.
func (s *Shape) places(r Row, sort encode.Sorter, deleted bool) ([]int64, error) {
	if s.read == nil {
		return []int64{s.Info.ID}, nil
	}
	id, err := s.read.locate(r, sort)
	if err != nil {
		return nil, err
	}
	ids := []int64{id}
	if s.beside == nil || s.forget && !deleted {
		return ids, nil
	}
	other, err := s.beside.locate(r, sort)
	if err != nil {
		return nil, err
	}
	if s.beside.only != nil && !slices.Contains(s.beside.only, other) || other == id {
		return ids, nil
	}
	return append(ids, other), nil
}

// locate is the id of the partition that a row belongs to.
func (c *cut) locate(r Row, sort encode.Sorter) (int64, error) {
	switch c.kind {
	case ast.PartitionTypeNone:
		return c.defs[0].ID, nil
	case ast.PartitionTypeHash:
		v, null, err := evaluate(c.expr, c.table.Table, r.Values)
		if err != nil {
			return 0, err
		}
		n := int64(len(c.defs))
		if null {
			v = 0
		}
		if v %= n; v < 0 {
			v = -v
		}
		return c.defs[v].ID, nil
	case ast.PartitionTypeKey:
		return c.key(r, sort)
	case ast.PartitionTypeRange:
		return c.byRange(r, sort)
	case ast.PartitionTypeList:
		return c.byList(r, sort)
	}
	return 0, fmt.Errorf("catalog: %s is partitioned in a way that is not known: %d", c.table.Table.FullName(), c.kind)
}

// key is KEY partitioning: a checksum over the columns.
func (c *cut) key(r Row, sort encode.Sorter) (int64, error) {
	sum := crc32.NewIEEE()
	for _, i := range c.cols {
		col, v := &c.table.Table.Columns[i], r.Values[i]
		text := []byte{0}
		if v != nil {
			s, err := textOf(col, v)
			if err != nil {
				return 0, err
			}
			text = []byte(s)
			if col.IsString() {
				if text, err = sort.SortKey(col.Collation, text); err != nil {
					return 0, err
				}
			}
		}
		if _, err := sum.Write(text); err != nil {
			return 0, err
		}
	}
	return c.defs[sum.Sum32()%uint32(len(c.defs))].ID, nil
}

// missing is a row that no partition takes.
func (c *cut) missing() error {
	return refuse(1526, "Table %s has no partition for the value", c.table.Table.FullName())
}

// byRange finds the first partition whose bound is above the row. NULL is below all.
func (c *cut) byRange(r Row, sort encode.Sorter) (int64, error) {
	for _, d := range c.defs {
		below, err := c.below(r, d.LessThan, sort)
		if err != nil {
			return 0, err
		}
		if below {
			return d.ID, nil
		}
	}
	return 0, c.missing()
}

func (c *cut) below(r Row, bounds []string, sort encode.Sorter) (bool, error) {
	if c.expr != nil {
		v, null, err := evaluate(c.expr, c.table.Table, r.Values)
		if err != nil || null || bounds[0] == maxValue {
			return err == nil, err
		}
		n, err := strconv.ParseInt(bounds[0], 10, 64)
		return v < n, err
	}
	for n, bound := range bounds {
		if bound == maxValue {
			return true, nil
		}
		order, err := c.compare(c.cols[n], r.Values[c.cols[n]], bound, sort)
		if err != nil || order != 0 {
			return order < 0, err
		}
	}
	return false, nil
}

// compare orders a value against a bound of its column. NULL is below all.
func (c *cut) compare(i int, v encode.Value, bound string, sort encode.Sorter) (int, error) {
	col := &c.table.Table.Columns[i]
	if v == nil || bound == "NULL" {
		switch {
		case v == nil && bound == "NULL":
			return 0, nil
		case v == nil:
			return -1, nil
		}
		return 1, nil
	}
	text, quoted := strings.CutPrefix(bound, "'")
	if quoted {
		text = strings.ReplaceAll(strings.TrimSuffix(text, "'"), "''", "'")
	}
	b, err := encode.Parse(col, text)
	if err != nil {
		return 0, err
	}
	x, err := orderKey(col, v, sort)
	if err != nil {
		return 0, err
	}
	y, err := orderKey(col, b, sort)
	return bytes.Compare(x, y), err
}

// byList finds the partition that names the row.
func (c *cut) byList(r Row, sort encode.Sorter) (int64, error) {
	rest := int64(0)
	for _, d := range c.defs {
		for _, tuple := range d.InValues {
			if len(tuple) == 1 && tuple[0] == defaultValue {
				rest = d.ID
				continue
			}
			same, err := c.matches(r, tuple, sort)
			if err != nil {
				return 0, err
			}
			if same {
				return d.ID, nil
			}
		}
	}
	if rest == 0 {
		return 0, c.missing()
	}
	return rest, nil
}

func (c *cut) matches(r Row, tuple []string, sort encode.Sorter) (bool, error) {
	if c.expr != nil {
		v, null, err := evaluate(c.expr, c.table.Table, r.Values)
		if err != nil || null {
			return null && tuple[0] == "NULL", err
		}
		return tuple[0] == strconv.FormatInt(v, 10), nil
	}
	for n, bound := range tuple {
		order, err := c.compare(c.cols[n], r.Values[c.cols[n]], bound, sort)
		if err != nil || order != 0 {
			return false, err
		}
	}
	return true, nil
}

// orderKey is a value in a form whose bytes are in its order.
func orderKey(c *event.Column, v encode.Value, sort encode.Sorter) ([]byte, error) {
	return encode.CommonHandle([]encode.Part{{Column: c, Length: event.FullLength, Value: v}}, sort)
}
