package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// What stands for no bound, and for every value that no other partition takes.
const (
	maxValue     = "MAXVALUE"
	defaultValue = "DEFAULT"
)

func (p *PartitionInfo) clone() *PartitionInfo {
	out := *p
	out.Columns = slices.Clone(p.Columns)
	out.Definitions = cloneDefs(p.Definitions)
	out.Adding = cloneDefs(p.Adding)
	out.Dropping = cloneDefs(p.Dropping)
	out.OriginalOrder = slices.Clone(p.OriginalOrder)
	out.NewIDs = slices.Clone(p.NewIDs)
	out.States = slices.Clone(p.States)
	out.DDLColumns = slices.Clone(p.DDLColumns)
	return &out
}

func cloneDefs(defs []PartitionDef) []PartitionDef {
	out := slices.Clone(defs)
	for i := range out {
		out[i].LessThan = slices.Clone(out[i].LessThan)
		out[i].InValues = slices.Clone(out[i].InValues)
		for n := range out[i].InValues {
			out[i].InValues[n] = slices.Clone(out[i].InValues[n])
		}
		out[i].Policy = out[i].Policy.clone()
	}
	return out
}

func (r *PolicyRef) clone() *PolicyRef {
	if r == nil {
		return nil
	}
	out := *r
	return &out
}

// partitionBy reads a PARTITION BY into the table.
func (p *planner) partitionBy(t *TableInfo, o *ast.PartitionOptions) error {
	info, err := p.partitionInfo(t, o)
	if err != nil {
		return err
	}
	if info != nil {
		t.Partition = info
	}
	return nil
}

// partitionInfo is what a PARTITION BY says of a table, nil where TiDB does not
// know the way and makes a table without partitions.
func (p *planner) partitionInfo(t *TableInfo, o *ast.PartitionOptions) (*PartitionInfo, error) {
	switch o.Tp {
	case ast.PartitionTypeRange, ast.PartitionTypeList, ast.PartitionTypeHash, ast.PartitionTypeKey:
	default:
		return nil, nil
	}
	info := &PartitionInfo{Type: int(o.Tp), Enable: true, Num: o.Num}
	switch {
	case o.Tp == ast.PartitionTypeKey:
		info.Columns = namesOf(o.ColumnNames)
		if len(info.Columns) == 0 {
			info.IsEmptyColumns = true
			info.Columns = t.keyColumns()
		}
		if len(info.Columns) == 0 {
			return nil, refuse(errPartitionField, "Field in list of fields for partition function not found in table")
		}
	case o.Expr != nil:
		text, err := restore(o.Expr, restorePart)
		if err != nil {
			return nil, err
		}
		info.Expr = text
	default:
		info.Columns = namesOf(o.ColumnNames)
	}
	for _, c := range info.Columns {
		if t.column(c.L) == nil {
			return nil, refuse(errPartitionField, "Field in list of fields for partition function not found in table")
		}
	}
	if o.Expr != nil {
		for name := range columnsOf(o.Expr) {
			if t.column(name) == nil {
				return nil, refuse(errBadField, "Unknown column '%s' in 'partition function'", name)
			}
		}
	}
	if err := p.intervals(t, o); err != nil {
		return nil, err
	}
	defs, err := p.definitions(t, info, o)
	if err != nil {
		return nil, err
	}
	info.Definitions = defs
	if o.Tp == ast.PartitionTypeHash || o.Tp == ast.PartitionTypeKey {
		info.Num = uint64(len(defs))
	}
	return info, t.uniqueCover(info, o)
}

func namesOf(columns []*ast.ColumnName) []Name {
	var out []Name
	for _, c := range columns {
		out = append(out, MakeName(c.Name.O))
	}
	return out
}

// keyColumns are the columns of the primary key, or else of the first unique one.
func (t *TableInfo) keyColumns() []Name {
	if t.PKIsHandle {
		for _, c := range t.Columns {
			if c.Type.has(2) {
				return []Name{c.Name}
			}
		}
	}
	for _, primary := range []bool{true, false} {
		for _, i := range t.Indices {
			if i.Unique && i.Primary == primary {
				var out []Name
				for _, c := range i.Columns {
					out = append(out, c.Name)
				}
				return out
			}
		}
	}
	return nil
}

// uniqueCover refuses unique indexes that do not hold every column that a
// table is partitioned by, unless they are global.
func (t *TableInfo) uniqueCover(info *PartitionInfo, o *ast.PartitionOptions) error {
	by := map[string]struct{}{}
	for _, c := range info.Columns {
		by[c.L] = struct{}{}
	}
	if o != nil && o.Expr != nil {
		maps.Copy(by, columnsOf(o.Expr))
	}
	wrong := refuse(errUnsupported, "Unsupported partition key: a unique key must include all columns in the table's partitioning function")
	if t.PKIsHandle {
		for name := range by {
			if !t.column(name).Type.has(2) {
				return wrong
			}
		}
	}
	for _, i := range t.Indices {
		for name := range by {
			if i.Unique && !i.Global && !i.has(name) {
				return wrong
			}
		}
	}
	return nil
}

// definitions are the partitions that a PARTITION BY names, or counts.
func (p *planner) definitions(t *TableInfo, info *PartitionInfo, o *ast.PartitionOptions) ([]PartitionDef, error) {
	if o.Tp == ast.PartitionTypeHash || o.Tp == ast.PartitionTypeKey {
		if err := checkPartitions(max(o.Num, uint64(len(o.Definitions)))); err != nil {
			return nil, err
		}
		if len(o.Definitions) == 0 {
			return numbered(0, max(o.Num, 1)), nil
		}
	}
	if len(o.Definitions) == 0 {
		return nil, errNoDefinitions(o.Tp)
	}
	return p.namedDefinitions(t, info, o.Definitions)
}

// errNoDefinitions refuses partitions of RANGE or LIST that are only counted.
func errNoDefinitions(tp ast.PartitionType) error {
	return refuse(1492, "For %s partitions each partition must be defined", tp)
}

// numbered are n partitions of a HASH or KEY table, from number first on.
func numbered(first, n uint64) []PartitionDef {
	var out []PartitionDef
	for i := range n {
		out = append(out, PartitionDef{Name: MakeName(fmt.Sprint("p", first+i))})
	}
	return out
}

// namedDefinitions reads partitions that are written out.
func (p *planner) namedDefinitions(t *TableInfo, info *PartitionInfo, in []*ast.PartitionDefinition) ([]PartitionDef, error) {
	if err := checkPartitions(uint64(len(in))); err != nil {
		return nil, err
	}
	var out []PartitionDef
	seen := map[string]bool{}
	for _, d := range in {
		if seen[d.Name.L] {
			return nil, refuse(errPartitionDup, "Duplicate partition name %s", d.Name.O)
		}
		seen[d.Name.L] = true
		def := PartitionDef{Name: MakeName(d.Name.O)}
		def.Comment, _ = d.Comment()
		for _, opt := range d.Options {
			if opt.Tp == ast.TableOptionPlacementPolicy {
				ref, err := p.policyRef(opt.StrValue)
				if err != nil {
					return nil, err
				}
				def.Policy = ref
			}
		}
		if err := p.bounds(t, info, d, &def); err != nil {
			return nil, err
		}
		out = append(out, def)
	}
	return out, nil
}

// bounds reads what a partition takes.
func (p *planner) bounds(t *TableInfo, info *PartitionInfo, d *ast.PartitionDefinition, def *PartitionDef) error {
	switch clause := d.Clause.(type) {
	case *ast.PartitionDefinitionClauseLessThan:
		for i, e := range clause.Exprs {
			text, err := p.bound(t, info, i, e)
			if err != nil {
				return err
			}
			def.LessThan = append(def.LessThan, text)
		}
	case *ast.PartitionDefinitionClauseIn:
		for _, tuple := range clause.Values {
			var texts []string
			for i, e := range tuple {
				text, err := p.bound(t, info, i, e)
				if err != nil {
					return err
				}
				texts = append(texts, text)
			}
			def.InValues = append(def.InValues, texts)
		}
		if len(clause.Values) == 0 {
			def.InValues = [][]string{{defaultValue}}
		}
	}
	return nil
}

// bound is one value of a bound, as TiDB keeps it: numbers bare, all else in
// quotes and in the form of the column that it is compared with.
func (p *planner) bound(t *TableInfo, info *PartitionInfo, n int, e ast.ExprNode) (string, error) {
	switch e.(type) {
	case *ast.MaxValueExpr:
		return maxValue, nil
	case *ast.DefaultExpr:
		return defaultValue, nil
	}
	if v, ok := timeFunction(e); ok {
		return strconv.FormatInt(v, 10), nil
	}
	v, err := literal(e)
	if err != nil {
		return foldBound(e)
	}
	switch {
	case v.null:
		return "NULL", nil
	case len(info.Columns) <= n:
		if !v.number {
			return "", refuse(1697, "VALUES value for partition must have type INT")
		}
		return v.text, nil
	}
	col := &t.column(info.Columns[n].L).Type
	if v.number && !col.isTime() {
		return v.text, nil
	}
	text, err := p.fit(col, v)
	if err != nil {
		return "", refuse(1654, "Partition column values of incorrect type")
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'", nil
}

// foldBound works out a bound that is an expression.
func foldBound(e ast.ExprNode) (string, error) {
	if len(columnsOf(e)) > 0 {
		return "", refuse(1486, "Constant, random or timezone-dependent expressions in (sub)partitioning function are not allowed")
	}
	v, null, err := evaluate(e, nil, nil)
	switch {
	case err != nil:
		return restore(e, restorePart) // not known here: as it is written
	case null:
		return "NULL", nil
	}
	return strconv.FormatInt(v, 10), nil
}

// definition is the index of the partition of that name in lower case.
func (p *PartitionInfo) definition(name string) int {
	return slices.IndexFunc(p.Definitions, func(d PartitionDef) bool { return d.Name.L == name })
}

// ids are the physical ids of partitions.
func idsOf(defs []PartitionDef) []int64 {
	out := make([]int64, len(defs))
	for i := range defs {
		out[i] = defs[i].ID
	}
	return out
}
