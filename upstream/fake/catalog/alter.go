package catalog

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// change is one change of a table: a job of its own, or a part of a
// multi-schema change.
type change struct {
	action Action
	args   any
	state  State // in which the job is queued
	reorg  bool  // has data to write
	meta   reorgKind
	vars   map[string]string
	// indexJob says that the job is one of indexes, which TiDB gives a priority.
	indexJob bool
	// prior says that the job has the priority of one with a backfill.
	prior     bool
	involving []Involving
	schemas   []int64
	tables    []int64
	assign    func(j *Job, ids *allocator)
}

// reorgKind says what a job's reorg_meta holds.
type reorgKind uint8

const (
	noReorgMeta reorgKind = iota
	plainReorgMeta
	tunedReorgMeta // concurrency and batch size
	distReorgMeta  // and on how many nodes
)

// alteration is an ALTER TABLE on its way to a job.
type alteration struct {
	*planner
	db    *DBInfo
	table *TableInfo
	more  int // columns and the like that earlier changes of the statement add
	multi bool
}

func (p *planner) alterTable(s *ast.AlterTableStmt) error {
	db, t, err := p.table(s.Table)
	if err != nil {
		return err
	}
	if t.View != nil || t.Sequence != nil {
		return refuse(errWrongObject, "'%s.%s' is not BASE TABLE", db.Name.O, t.Name.O)
	}
	specs := splitSpecs(s.Specs)
	a := &alteration{planner: p, db: db, table: t, multi: len(specs) > 1}
	var changes []*change
	for _, spec := range specs {
		more, err := a.spec(spec)
		if err != nil {
			return err
		}
		changes = append(changes, more...)
	}
	switch len(changes) {
	case 0:
		return nil
	case 1:
		if len(specs) == 1 {
			p.queueChange(db, t, changes[0])
			return nil
		}
	}
	if !a.multi {
		for _, c := range changes {
			p.queueChange(db, t, c)
		}
		return nil
	}
	return p.queueChanges(db, t, changes)
}

// splitSpecs makes one spec of each column and each option that is added, and
// leaves out those that ask for nothing.
func splitSpecs(in []*ast.AlterTableSpec) []*ast.AlterTableSpec {
	var out []*ast.AlterTableSpec
	for _, s := range in {
		switch s.Tp {
		case ast.AlterTableLock, ast.AlterTableAlgorithm, ast.AlterTableForce, ast.AlterTableEnableKeys,
			ast.AlterTableDisableKeys, ast.AlterTableWithValidation, ast.AlterTableWithoutValidation, ast.AlterTableOrderByColumns:
			continue
		case ast.AlterTableAddColumns:
			if len(s.NewColumns)+len(s.NewConstraints) == 1 && len(s.NewColumns) == 1 {
				break
			}
			for _, c := range s.NewColumns {
				one := *s
				one.NewColumns, one.NewConstraints, one.Position = []*ast.ColumnDef{c}, nil, nil
				out = append(out, &one)
			}
			for _, c := range s.NewConstraints {
				out = append(out, &ast.AlterTableSpec{Tp: ast.AlterTableAddConstraint, Constraint: c})
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// spec plans one spec.
func (a *alteration) spec(s *ast.AlterTableSpec) ([]*change, error) {
	one := func(c *change, err error) ([]*change, error) {
		if err != nil || c == nil {
			return nil, err
		}
		return []*change{c}, nil
	}
	switch s.Tp {
	case ast.AlterTableAddColumns:
		return one(a.addColumn(s))
	case ast.AlterTableDropColumn:
		return one(a.dropColumn(s))
	case ast.AlterTableModifyColumn, ast.AlterTableChangeColumn:
		return one(a.modifyColumn(s))
	case ast.AlterTableRenameColumn:
		return one(a.renameColumn(s))
	case ast.AlterTableAlterColumn:
		return one(a.alterDefault(s))
	case ast.AlterTableAddConstraint:
		return one(a.addConstraint(s))
	case ast.AlterTableDropIndex:
		return one(a.dropIndex(s.Name, s.IfExists))
	case ast.AlterTableDropPrimaryKey:
		return one(a.dropIndex(primaryName, s.IfExists))
	case ast.AlterTableRenameIndex:
		return one(a.renameIndex(s))
	case ast.AlterTableIndexInvisible:
		return one(a.indexVisibility(s))
	case ast.AlterTableDropForeignKey:
		return one(a.dropForeignKey(s))
	case ast.AlterTableDropCheck:
		return one(a.dropCheck(s))
	case ast.AlterTableAlterCheck:
		return one(a.alterCheck(s))
	case ast.AlterTableOption:
		return a.options(s.Options)
	case ast.AlterTableRemoveTTL:
		return one(a.removeTTL())
	case ast.AlterTableCache, ast.AlterTableNoCache:
		return one(a.cache(s.Tp == ast.AlterTableCache))
	case ast.AlterTableRenameTable:
		return one(a.renameTable(s.NewTable))
	case ast.AlterTableSetTiFlashReplica:
		return one(a.tiflash(s.TiFlashReplica))
	case ast.AlterTableAttributes, ast.AlterTablePartitionAttributes:
		return one(a.attributes(s))
	}
	return one(a.partitionSpec(s))
}

// queueChange makes a job of one change.
func (p *planner) queueChange(db *DBInfo, t *TableInfo, c *change) *Job {
	j := p.job(c.action, db, t, c.args)
	j.reorg = c.reorg
	j.schemas, j.tables = c.schemas, c.tables
	j.info.SchemaState = c.state
	j.info.Involving = c.involving
	j.info.SessionVars = c.vars
	j.info.Reorg = p.reorgMeta(c.meta)
	if c.indexJob {
		j.info.Priority = 1
		j.info.Charset, j.info.Collate = p.sessionCharset()
	}
	if c.prior {
		j.info.Priority = 1
	}
	if c.assign != nil {
		j.assign = func(ids *allocator) { c.assign(j, ids) }
	}
	return j
}

// sessionCharset is what a job that prints values keeps of its session.
func (p *planner) sessionCharset() (cs, collate string) {
	c := p.collation()
	return c.charset, c.collate
}

// statsVars are the session variables that a job with a backfill carries.
func statsVars() map[string]string {
	return map[string]string{"tidb_analyze_version": "2", "tidb_stats_update_during_ddl": "OFF"}
}

// What TiDB is set up with for backfills.
const (
	reorgVersion     = 1
	reorgConcurrency = 4
	reorgBatch       = 256
	reorgNodes       = 3
)

func (p *planner) reorgMeta(kind reorgKind) *ReorgMeta {
	if kind == noReorgMeta {
		return nil
	}
	name, offset := p.session.zoneName()
	m := &ReorgMeta{
		SQLMode: p.session.SQLMode, Warnings: map[string]*JobError{}, WarningsCount: map[string]int64{},
		Location: &Location{Name: name, Offset: offset}, ResourceGroupName: "default", Version: reorgVersion,
	}
	if kind >= tunedReorgMeta {
		m.Concurrency, m.BatchSize = reorgConcurrency, reorgBatch
	}
	if kind == distReorgMeta {
		m.MaxNodeCount = reorgNodes
	}
	return m
}

// zoneName is the session's time zone: by its name, or where it has none, as
// seconds east of UTC.
func (s *Session) zoneName() (name string, offset int) {
	name = s.Zone.String()
	if _, off := s.Now.In(s.Zone).Zone(); name == "" || name[0] == '+' || name[0] == '-' {
		return "", off
	}
	return name, 0
}

// columnOf finds a public column of the table.
func (a *alteration) columnOf(name *ast.ColumnName) (*ColumnInfo, error) {
	col := a.table.column(name.Name.L)
	if col == nil || col.State != StatePublic || col.Hidden {
		return nil, refuse(errBadField, "Unknown column '%s' in '%s'", name.Name.O, a.table.Name.O)
	}
	return col, nil
}

// indexOn are the indexes that hold a column.
func (t *TableInfo) indexesOn(column string) []*IndexInfo {
	var out []*IndexInfo
	for _, i := range t.Indices {
		if i.has(column) {
			out = append(out, i)
		}
	}
	return out
}

// visible is how many columns a table has, but for hidden ones and those that
// are not public.
func (t *TableInfo) visible() int {
	n := 0
	for _, c := range t.Columns {
		if c.State == StatePublic && !c.Hidden {
			n++
		}
	}
	return n
}

// moveColumn puts the column at one offset to another.
func (t *TableInfo) moveColumn(from, to int) {
	if from == to {
		return
	}
	col := t.Columns[from]
	t.Columns = slices.Delete(t.Columns, from, from+1)
	t.Columns = slices.Insert(t.Columns, to, col)
	t.renumber()
}
