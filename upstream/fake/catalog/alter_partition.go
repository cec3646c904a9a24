package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// What partitions are called that stand for a whole table.
const (
	fullTable        = "pFullTable"
	fullTableComment = "Intermediate partition during ALTER TABLE ... PARTITION BY ..."
	collapsed        = "CollapsedPartitions"
)

type partitionArgs struct {
	Names  []string       `json:"part_names,omitempty"`
	Info   *PartitionInfo `json:"part_info,omitempty"`
	OldIDs []int64        `json:"old_physical_tbl_ids,omitempty"`
}

type truncatePartitionArgs struct {
	NewIDs []int64 `json:"new_partition_ids,omitempty"`
	OldIDs []int64 `json:"old_partition_ids,omitempty"`
}

// partitionSpec plans what an ALTER TABLE does to partitions.
func (a *alteration) partitionSpec(s *ast.AlterTableSpec) (*change, error) {
	switch s.Tp {
	case ast.AlterTablePartition:
		return a.repartition(s.Partition)
	case ast.AlterTableAddPartitions, ast.AlterTableDropPartition, ast.AlterTableTruncatePartition, ast.AlterTableCoalescePartitions,
		ast.AlterTableReorganizePartition, ast.AlterTableRemovePartitioning, ast.AlterTableExchangePartition,
		ast.AlterTableAddLastPartition, ast.AlterTableDropFirstPartition, ast.AlterTablePartitionOptions:
	default:
		return nil, refuse(errUnsupported, "no change of a table that is known here: %d", s.Tp)
	}
	if a.table.Partition == nil {
		return nil, refuse(errNoPartition, "Partition management on a not partitioned table is not possible")
	}
	switch s.Tp {
	case ast.AlterTableAddPartitions:
		return a.addPartitions(s)
	case ast.AlterTableDropPartition:
		return a.dropPartitions(s)
	case ast.AlterTableTruncatePartition:
		return a.truncatePartitions(s)
	case ast.AlterTableCoalescePartitions:
		return a.coalesce(s)
	case ast.AlterTableReorganizePartition:
		return a.reorganize(s)
	case ast.AlterTableRemovePartitioning:
		return a.removePartitioning()
	case ast.AlterTableExchangePartition:
		return a.exchange(s)
	case ast.AlterTableAddLastPartition:
		return a.lastPartition(s)
	case ast.AlterTableDropFirstPartition:
		return a.firstPartition(s)
	}
	return a.partitionPolicy(s)
}

// blank is a PartitionInfo that says how the table is cut, but for where.
func (t *TableInfo) blank() *PartitionInfo {
	p := t.Partition
	return &PartitionInfo{Type: p.Type, Expr: p.Expr, Columns: slices.Clone(p.Columns), Enable: p.Enable, IsEmptyColumns: p.IsEmptyColumns}
}

// number gives the partitions ids.
func (p *PartitionInfo) number(ids *allocator) {
	for i := range p.Definitions {
		p.Definitions[i].ID = ids.next()
	}
}

func (a *alteration) addPartitions(s *ast.AlterTableSpec) (*change, error) {
	p := a.table.Partition
	if kind := ast.PartitionType(p.Type); kind == ast.PartitionTypeHash || kind == ast.PartitionTypeKey {
		more := s.Num
		if n := uint64(len(s.PartDefinitions)); n > 0 {
			more = n
		}
		if err := checkPartitions(max(more, p.Num+min(more, partitionsMax))); err != nil {
			return nil, err
		}
		return a.recount(p.Num+max(more, 1), s.PartDefinitions)
	}
	if len(s.PartDefinitions) == 0 {
		return nil, errNoDefinitions(ast.PartitionType(p.Type))
	}
	info := a.table.blank()
	defs, err := a.namedDefinitions(a.table, info, s.PartDefinitions)
	if err != nil {
		return nil, err
	}
	for _, d := range defs {
		if p.definition(d.Name.L) >= 0 {
			if s.IfNotExists {
				return nil, nil
			}
			return nil, refuse(errPartitionDup, "Duplicate partition name %s", d.Name.O)
		}
	}
	if last := p.Definitions[len(p.Definitions)-1]; len(last.LessThan) == 1 && last.LessThan[0] == maxValue {
		return nil, refuse(1481, "MAXVALUE can only be used in last partition definition")
	}
	if err := checkPartitions(p.Num + uint64(len(defs))); err != nil {
		return nil, err
	}
	info.Definitions, info.Num = defs, uint64(len(defs))
	return &change{
		action: ActionAddPartition, args: &partitionArgs{Info: info}, vars: scatter(),
		assign: func(_ *Job, ids *allocator) { info.number(ids) },
	}, nil
}

// recount makes a HASH or KEY table have n partitions: all rows move.
func (a *alteration) recount(n uint64, named []*ast.PartitionDefinition) (*change, error) {
	p := a.table.Partition
	info := a.table.blank()
	for i := range n {
		d := PartitionDef{Name: MakeName(fmt.Sprint("p", i))}
		switch have := uint64(len(p.Definitions)); {
		case i < have:
			d.Name, d.Comment, d.Policy = p.Definitions[i].Name, p.Definitions[i].Comment, p.Definitions[i].Policy.clone()
		case i-have < uint64(len(named)):
			d.Name = MakeName(named[i-have].Name.O)
			d.Comment, _ = named[i-have].Comment()
		}
		info.Definitions = append(info.Definitions, d)
	}
	info.Num = n
	return a.move(ActionReorganize, lowerNames(p.Definitions), info), nil
}

// move is a change that writes rows into new partitions.
func (a *alteration) move(action Action, names []string, info *PartitionInfo) *change {
	return &change{
		action: action, args: &partitionArgs{Names: names, Info: info}, reorg: true, meta: tunedReorgMeta,
		assign: func(_ *Job, ids *allocator) { info.number(ids) },
	}
}

func lowerNames(defs []PartitionDef) []string {
	out := make([]string, len(defs))
	for i, d := range defs {
		out[i] = d.Name.L
	}
	return out
}

func (a *alteration) coalesce(s *ast.AlterTableSpec) (*change, error) {
	p := a.table.Partition
	if kind := ast.PartitionType(p.Type); kind != ast.PartitionTypeHash && kind != ast.PartitionTypeKey {
		return nil, refuse(1509, "COALESCE PARTITION can only be used on HASH/KEY partitions")
	}
	if s.Num == 0 || s.Num >= uint64(len(p.Definitions)) {
		return nil, refuse(errDropLastPart, "Cannot remove all partitions, use DROP TABLE instead")
	}
	return a.recount(uint64(len(p.Definitions))-s.Num, nil)
}

// chosen are the indexes of the partitions of those names.
func (a *alteration) chosen(names []ast.CIStr, all bool) ([]int, error) {
	p := a.table.Partition
	var out []int
	if all {
		for i := range p.Definitions {
			out = append(out, i)
		}
		return out, nil
	}
	for _, n := range names {
		i := p.definition(n.L)
		if i < 0 {
			return nil, refuse(errUnknownPart, "Unknown partition '%s' in table '%s'", n.O, a.table.Name.O)
		}
		out = append(out, i)
	}
	return out, nil
}

func (a *alteration) dropPartitions(s *ast.AlterTableSpec) (*change, error) {
	p := a.table.Partition
	if kind := ast.PartitionType(p.Type); kind != ast.PartitionTypeRange && kind != ast.PartitionTypeList {
		return nil, refuse(1512, "DROP PARTITION can only be used on RANGE/LIST partitions")
	}
	at, err := a.chosen(s.PartitionNames, false)
	if err != nil {
		if s.IfExists {
			return nil, nil
		}
		return nil, refuse(errDropPartition, "Error in list of partitions to %s", "DROP")
	}
	if len(at) >= len(p.Definitions) {
		return nil, refuse(errDropLastPart, "Cannot remove all partitions, use DROP TABLE instead")
	}
	args := &partitionArgs{}
	for _, i := range at {
		args.Names = append(args.Names, p.Definitions[i].Name.L)
	}
	return &change{action: ActionDropPartition, args: args, state: StatePublic}, nil
}

func (a *alteration) truncatePartitions(s *ast.AlterTableSpec) (*change, error) {
	at, err := a.chosen(s.PartitionNames, s.OnAllPartitions)
	if err != nil {
		return nil, err
	}
	args := &truncatePartitionArgs{}
	for _, i := range at {
		args.OldIDs = append(args.OldIDs, a.table.Partition.Definitions[i].ID)
	}
	return &change{
		action: ActionTruncatePartition, args: args, state: StatePublic, vars: scatter(),
		assign: func(_ *Job, ids *allocator) {
			for range args.OldIDs {
				args.NewIDs = append(args.NewIDs, ids.next())
			}
		},
	}, nil
}

func (a *alteration) reorganize(s *ast.AlterTableSpec) (*change, error) {
	p := a.table.Partition
	if kind := ast.PartitionType(p.Type); kind != ast.PartitionTypeRange && kind != ast.PartitionTypeList {
		return nil, refuse(errUnsupported, "Unsupported REORGANIZE PARTITION of a HASH or KEY table")
	}
	at, err := a.chosen(s.PartitionNames, s.OnAllPartitions)
	if err != nil {
		return nil, err
	}
	info := a.table.blank()
	defs, err := a.namedDefinitions(a.table, info, s.PartDefinitions)
	if err != nil {
		return nil, err
	}
	for _, d := range defs {
		if i := p.definition(d.Name.L); i >= 0 && !slices.Contains(at, i) {
			return nil, refuse(errPartitionDup, "Duplicate partition name %s", d.Name.O)
		}
	}
	for n := 1; n < len(at); n++ {
		if ast.PartitionType(p.Type) == ast.PartitionTypeRange && at[n] != at[n-1]+1 {
			return nil, refuse(errUnsupported, "Unsupported REORGANIZE PARTITION of RANGE; not adjacent partitions")
		}
	}
	info.Definitions, info.Num = defs, uint64(len(defs))
	var names []string
	for _, i := range at {
		names = append(names, p.Definitions[i].Name.L)
	}
	return a.move(ActionReorganize, names, info), nil
}

// repartition cuts the table another way: a table of a new id.
func (a *alteration) repartition(o *ast.PartitionOptions) (*change, error) {
	info, err := a.partitionInfo(a.table, o)
	if err != nil {
		return nil, err
	}
	if info == nil {
		return nil, refuse(errUnsupported, "Unsupported partition type")
	}
	names := []string{fold(fullTable)}
	if old := a.table.Partition; old != nil {
		names, info.DDLType = lowerNames(old.Definitions), old.Type
	}
	c := a.move(ActionPartitionBy, names, info)
	c.assign = func(_ *Job, ids *allocator) {
		info.number(ids)
		info.NewTableID = ids.next()
	}
	return c, nil
}

func (a *alteration) removePartitioning() (*change, error) {
	info := a.table.blank()
	info.Type, info.Num = int(ast.PartitionTypeNone), 1
	info.Definitions = []PartitionDef{{Name: MakeName(collapsed)}}
	c := a.move(ActionRemovePartition, lowerNames(a.table.Partition.Definitions), info)
	c.assign = func(_ *Job, ids *allocator) {
		info.number(ids)
		info.NewTableID = info.Definitions[0].ID
	}
	return c, nil
}

func (a *alteration) partitionPolicy(s *ast.AlterTableSpec) (*change, error) {
	at, err := a.chosen(s.PartitionNames, s.OnAllPartitions)
	if err != nil {
		return nil, err
	}
	for _, o := range s.Options {
		if o.Tp != ast.TableOptionPlacementPolicy {
			continue
		}
		ref, err := a.policyRef(o.StrValue)
		if err != nil {
			return nil, err
		}
		c := &change{action: ActionPartitionPolicy, args: &partitionPolicyArgs{a.table.Partition.Definitions[at[0]].ID, ref}}
		if ref != nil {
			c.involving = []Involving{{Database: a.db.Name.L, Table: a.table.Name.L}, {Policy: ref.Name.L, Mode: 1}}
		}
		return c, nil
	}
	return nil, nil
}

type partitionPolicyArgs struct {
	ID     int64      `json:"partition_id,omitempty"`
	Policy *PolicyRef `json:"policy_ref_info,omitempty"`
}

// lastPartition and firstPartition are the short forms for tables that were
// made with INTERVAL; TiDB writes the long form into the query.
func (a *alteration) lastPartition(s *ast.AlterTableSpec) (*change, error) {
	p := a.table.Partition
	interval, column, err := a.table.interval()
	if err != nil {
		return nil, err
	}
	last := p.Definitions[len(p.Definitions)-1].LessThan[0]
	from := boundExpr(last)
	interval.FirstRangeEnd, interval.LastRangeEnd = &from, &s.Partition.Expr
	bounds, err := a.steps(column, interval)
	if err != nil {
		return nil, err
	}
	bounds = bounds[1:] // the first is there already
	if len(bounds) == 0 {
		return nil, refuse(errUnsupported, "LAST PARTITION less than the last one")
	}
	long := *s
	long.Tp, long.PartDefinitions = ast.AlterTableAddPartitions, nil
	for _, b := range bounds {
		long.PartDefinitions = append(long.PartDefinitions, intervalPartition(b))
	}
	a.query = strings.Replace(a.query, s.Partition.OriginalText(), "ADD PARTITION ("+definitionText(bounds)+")", 1)
	return a.addPartitions(&long)
}

func (a *alteration) firstPartition(s *ast.AlterTableSpec) (*change, error) {
	p := a.table.Partition
	if len(p.Definitions[0].LessThan) != 1 {
		return nil, refuse(errUnsupported, "FIRST PARTITION of a table that was not made with INTERVAL")
	}
	info := a.table.blank()
	to, err := a.bound(a.table, info, 0, s.Partition.Expr)
	if err != nil {
		return nil, err
	}
	long := *s
	long.Tp = ast.AlterTableDropPartition
	var quoted []string
	found := false
	for _, d := range p.Definitions {
		if d.LessThan[0] == to {
			found = true
			break
		}
		long.PartitionNames = append(long.PartitionNames, ast.NewCIStr(d.Name.O))
		quoted = append(quoted, "`"+d.Name.O+"`")
	}
	if !found || len(quoted) == 0 {
		return nil, refuse(errUnsupported, "FIRST PARTITION that is no bound of the table")
	}
	a.query = strings.Replace(a.query, s.Partition.OriginalText(), "DROP PARTITION "+strings.Join(quoted, ","), 1)
	return a.dropPartitions(&long)
}
