package mysql

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// alter rewrites ALTER TABLE, CREATE INDEX and DROP INDEX, and passes anything
// else on only to a TiDB.
func (s *script) alter(d *event.DDL, dialect Dialect, canFill bool) error {
	before, after, err := only(d)
	if err != nil {
		return err
	}
	if after == nil {
		return cdcerr.Bug("job %d (%v) leaves no table: %s", d.JobID, d.Action, d.Query)
	}
	if after.Kind == event.TemporaryTable && dialect.Kind != TiDB {
		s.note(FeatureTemporary, after.FullName())
		return nil
	}
	if s.zone, s.moments = momentsOf(d); s.zone != nil {
		plain := new(script)
		if err := plain.alterTable(d, dialect, canFill, before, after); err != nil {
			return err
		}
		s.inUTC = plain.main
	}
	return s.alterTable(d, dialect, canFill, before, after)
}

func (s *script) alterTable(d *event.DDL, dialect Dialect, canFill bool, before, after *event.Table) error {
	nodes, err := parse(d)
	if err != nil {
		return err
	}
	if before != nil && (d.Action == event.ActionTruncatePartition || dropsRows(nodes)) {
		if done, err := s.rowsAnew(d, dialect, canFill, before); done || err != nil {
			return err
		}
	}
	for _, n := range nodes {
		r := rewriter{script: s, ddl: d, dialect: dialect, before: before, after: after}
		if err := r.statement(n); err != nil {
			return err
		}
	}
	return nil
}

// dropsRows tells whether a statement takes rows away by their partition. A
// DROP PARTITION is never of a KEY partition: only an unknown server minds.
func dropsRows(nodes []ast.StmtNode) bool {
	for _, n := range nodes {
		a, ok := n.(*ast.AlterTableStmt)
		if ok && slices.ContainsFunc(a.Specs, func(x *ast.AlterTableSpec) bool {
			return x.Tp == ast.AlterTableDropPartition || x.Tp == ast.AlterTableDropFirstPartition
		}) {
			return true
		}
	}
	return false
}

func (r *rewriter) statement(n ast.StmtNode) error {
	switch n := n.(type) {
	case *ast.AlterTableStmt:
		return r.alterTable(n)
	case *ast.CreateIndexStmt:
		return r.alterTable(&ast.AlterTableStmt{Table: n.Table, Specs: []*ast.AlterTableSpec{{Tp: ast.AlterTableAddConstraint, Constraint: asConstraint(n)}}})
	case *ast.DropIndexStmt:
		return r.alterTable(&ast.AlterTableStmt{Table: n.Table, Specs: []*ast.AlterTableSpec{{Tp: ast.AlterTableDropIndex, Name: n.IndexName}}})
	case *ast.CreateSequenceStmt:
		n.Name = tableName(r.after)
		return r.emit(n)
	case *ast.AlterSequenceStmt:
		n.Name = tableName(r.after)
		return r.emit(n)
	}
	return cdcerr.ExecDDLFailed.New("job %d (%v): nothing is known of a %T: %s", r.ddl.JobID, r.ddl.Action, n, r.ddl.Query)
}

func asConstraint(n *ast.CreateIndexStmt) *ast.Constraint {
	c := &ast.Constraint{Tp: ast.ConstraintIndex, Name: n.IndexName, Keys: n.IndexPartSpecifications, Option: n.IndexOption}
	switch n.KeyType {
	case ast.IndexKeyTypeUnique:
		c.Tp = ast.ConstraintUniq
	case ast.IndexKeyTypeFulltext:
		c.Tp = ast.ConstraintFulltext
	case ast.IndexKeyTypeVector:
		c.Tp = ast.ConstraintVector
	case ast.IndexKeyTypeColumnar:
		c.Tp = ast.ConstraintColumnar
	}
	return c
}

// alterTable rewrites clause by clause. The statement names the table as it is
// before, which differs from after where a clause renames it.
func (r *rewriter) alterTable(n *ast.AlterTableStmt) error {
	name := r.after
	if r.before != nil {
		name = r.before
	}
	n.Table = tableName(name)
	specs := n.Specs
	n.Specs = nil
	for _, x := range oneColumnEach(specs) {
		keep, err := r.spec(x)
		if err != nil {
			return err
		}
		if keep {
			n.Specs = append(n.Specs, x)
		}
	}
	n.Specs = append(n.Specs, r.more...)
	if len(n.Specs) == 0 {
		r.script.zone = nil
		r.script.statements = append(r.script.statements, r.later...)
		return nil
	}
	return r.emit(n)
}

// oneColumnEach makes a clause a column of ADD COLUMN (a …, b …), which not
// every server reads.
func oneColumnEach(specs []*ast.AlterTableSpec) []*ast.AlterTableSpec {
	var out []*ast.AlterTableSpec
	for _, x := range specs {
		if x.Tp != ast.AlterTableAddColumns || len(x.NewColumns)+len(x.NewConstraints) < 2 {
			out = append(out, x)
			continue
		}
		for _, def := range x.NewColumns {
			out = append(out, &ast.AlterTableSpec{Tp: ast.AlterTableAddColumns, NewColumns: []*ast.ColumnDef{def}, Position: &ast.ColumnPosition{}})
		}
		for _, c := range x.NewConstraints {
			out = append(out, &ast.AlterTableSpec{Tp: ast.AlterTableAddConstraint, Constraint: c})
		}
	}
	return out
}

// spec rewrites one clause in place and says whether it stays.
func (r *rewriter) spec(x *ast.AlterTableSpec) (bool, error) {
	x.IfExists, x.IfNotExists, x.NoWriteToBinlog = false, false, false
	switch x.Tp {
	case ast.AlterTableOption:
		return r.optionSpec(x), nil
	case ast.AlterTableAddColumns:
		return r.addColumn(x)
	case ast.AlterTableModifyColumn, ast.AlterTableChangeColumn:
		return r.modifyColumn(x)
	case ast.AlterTableAlterColumn:
		return r.alterColumn(x)
	case ast.AlterTableAddConstraint:
		return r.constraint(x.Constraint, nil)
	case ast.AlterTableDropPrimaryKey:
		return r.dropPrimaryKey(x), nil
	case ast.AlterTableDropIndex:
		return r.knownIndex(x.Name), nil
	case ast.AlterTableRenameIndex:
		return r.knownIndex(x.FromKey.O), nil
	case ast.AlterTableIndexInvisible:
		return r.indexVisibility(x), nil
	case ast.AlterTableDropColumn:
		x.OldColumnName = plainName(x.OldColumnName)
		return true, nil
	case ast.AlterTableRenameColumn:
		return r.renameColumn(x)
	case ast.AlterTableDropForeignKey:
		return true, nil
	case ast.AlterTableRenameTable:
		x.NewTable = tableName(r.after)
		return true, nil
	}
	if isPartitionSpec(x.Tp) {
		return r.partitionSpec(x)
	}
	if r.native() {
		return true, nil
	}
	r.note(specFeature(x.Tp), "clause left out")
	return false, nil
}

func specFeature(t ast.AlterTableType) string {
	switch t {
	case ast.AlterTableAddStatistics, ast.AlterTableDropStatistics, ast.AlterTableAttributes, ast.AlterTablePartitionAttributes,
		ast.AlterTableCache, ast.AlterTableNoCache, ast.AlterTableStatsOptions, ast.AlterTableSetTiFlashReplica:
		return FeatureCluster
	case ast.AlterTableRemoveTTL:
		return FeatureTTL
	case ast.AlterTableAlterCheck, ast.AlterTableDropCheck:
		return FeatureCheck
	case ast.AlterTablePartitionOptions:
		return FeaturePlacement
	case ast.AlterTableSplitIndex:
		return FeatureHints
	}
	return FeatureEngine
}

// plainName is a column's name without its table.
func plainName(c *ast.ColumnName) *ast.ColumnName { return &ast.ColumnName{Name: c.Name} }

// optionSpec keeps comment, AUTO_INCREMENT, and charset with collation, of
// which the text may say only one.
func (r *rewriter) optionSpec(x *ast.AlterTableSpec) bool {
	charset := slices.IndexFunc(x.Options, func(o *ast.TableOption) bool {
		return o.Tp == ast.TableOptionCharset || o.Tp == ast.TableOptionCollate
	})
	convert := slices.ContainsFunc(x.Options, func(o *ast.TableOption) bool {
		return o.Tp == ast.TableOptionCharset && o.UintValue == ast.TableOptionCharsetWithConvertTo
	})
	all := r.tableOptions(x.Options)
	stated := len(all) // tableOptions ends with charset and collation
	for stated > 0 && (all[stated-1].Tp == ast.TableOptionCharset || all[stated-1].Tp == ast.TableOptionCollate) {
		stated--
	}
	x.Options = all[:stated]
	if charset >= 0 {
		x.Options = append(x.Options, all[stated:]...)
		if convert && all[stated].Tp == ast.TableOptionCharset {
			all[stated].UintValue = ast.TableOptionCharsetWithConvertTo
		}
	}
	return len(x.Options) > 0
}

func (r *rewriter) addColumn(x *ast.AlterTableSpec) (bool, error) {
	def := x.NewColumns[0]
	indexes, err := r.column(def)
	if err != nil {
		return false, err
	}
	for _, c := range indexes {
		keep, err := r.constraint(c, x.NewColumns)
		if err != nil {
			return false, err
		}
		if keep {
			r.more = append(r.more, &ast.AlterTableSpec{Tp: ast.AlterTableAddConstraint, Constraint: c})
		}
	}
	if x.Position == nil {
		x.Position = &ast.ColumnPosition{} // else the parser prints a list
	}
	r.plainPosition(x)
	return true, r.backfilled(def)
}

func (r *rewriter) modifyColumn(x *ast.AlterTableSpec) (bool, error) {
	if x.OldColumnName != nil {
		x.OldColumnName = plainName(x.OldColumnName)
	}
	_, err := r.column(x.NewColumns[0])
	r.plainPosition(x)
	r.convertAsTiDB(x.NewColumns[0].Name.Name.O)
	return true, err
}

// convertAsTiDB adds what MariaDB needs to make of old values what TiDB made
// of them: a time becomes a number rounded, not cut, and a document is spaced
// out as TiDB prints it (to MariaDB it is text).
func (r *rewriter) convertAsTiDB(name string) {
	if r.dialect.Kind != MariaDB || r.before == nil {
		return
	}
	table := qualified(r.before.Schema, r.before.Name)
	for _, c := range r.ddl.Conversions {
		from, to := columnByID(r.before, c.FromID), columnByID(r.after, c.ToID)
		if from == nil || to == nil || !sameName(to.Name, name) {
			continue
		}
		switch kind := to.ValueKind(); {
		case from.Fraction() > 0 && (from.ValueKind() == event.Time || from.ValueKind() == event.Duration) && (kind == event.Int || kind == event.Uint):
			word := map[event.Type]string{event.TypeDuration: "TIME", event.TypeTimestamp: "TIMESTAMP"}[from.Type]
			if word == "" {
				word = "DATETIME"
			}
			r.script.first = append(r.script.first, "ALTER TABLE "+table+" MODIFY COLUMN "+ident(from.Name)+" "+word+" NULL DEFAULT NULL")
		case kind == event.JSON && from.ValueKind() != event.JSON:
			r.later = append(r.later, "UPDATE "+table+" SET "+ident(to.Name)+" = JSON_LOOSE("+ident(to.Name)+")"+
				keepMoments(r.after)+" WHERE JSON_VALID("+ident(to.Name)+")")
		}
	}
}

func columnByID(t *event.Table, id int64) *event.Column {
	for i := range t.Columns {
		if t.Columns[i].ID == id {
			return &t.Columns[i]
		}
	}
	return nil
}

// keepMoments are assignments that keep ON UPDATE CURRENT_TIMESTAMP from
// taking an UPDATE of this sink's for one of the user's.
func keepMoments(t *event.Table) string {
	var out string
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Flag&event.FlagOnUpdateNow != 0 {
			out += ", " + ident(c.Name) + " = " + ident(c.Name)
		}
	}
	return out
}

// renameColumn is a CHANGE to the same type where there is no RENAME COLUMN.
func (r *rewriter) renameColumn(x *ast.AlterTableSpec) (bool, error) {
	x.OldColumnName, x.NewColumnName = plainName(x.OldColumnName), plainName(x.NewColumnName)
	at := r.after.Column(x.NewColumnName.Name.O)
	if at < 0 || !(r.dialect.Kind == MySQL && !r.dialect.atLeast(8, 0, 0) || r.dialect.Kind == MariaDB && !r.dialect.atLeast(10, 5, 2)) {
		return true, nil
	}
	def, err := columnNode(&r.after.Columns[at])
	if err != nil {
		return false, cdcerr.ExecDDLFailed.Wrap(err, "job %d: %s", r.ddl.JobID, r.ddl.Query)
	}
	_, err = r.column(def)
	x.Tp, x.NewColumns, x.Position = ast.AlterTableChangeColumn, []*ast.ColumnDef{def}, &ast.ColumnPosition{}
	return true, err
}

func (r *rewriter) plainPosition(x *ast.AlterTableSpec) {
	if x.Position != nil && x.Position.RelativeColumn != nil {
		x.Position.RelativeColumn = plainName(x.Position.RelativeColumn)
	}
}

// alterColumn is SET DEFAULT and DROP DEFAULT.
func (r *rewriter) alterColumn(x *ast.AlterTableSpec) (bool, error) {
	def := x.NewColumns[0]
	def.Name = plainName(def.Name)
	if len(def.Options) != 1 {
		return true, nil
	}
	var c *event.Column
	if i := r.after.Column(def.Name.Name.O); i >= 0 {
		c = &r.after.Columns[i]
	}
	return r.defaultOption(def.Name.Name.O, c, def.Options[0])
}

// dropPrimaryKey drops the index that stands for a primary key.
func (r *rewriter) dropPrimaryKey(x *ast.AlterTableSpec) bool {
	if r.before == nil || r.native() {
		return true
	}
	for i := range r.before.Indexes {
		p := &r.before.Indexes[i]
		if p.Primary && (!staysUnique(p, r.dialect) || r.dialect.Kind == MariaDB && onGenerated(r.before, p)) {
			x.Tp, x.Name = ast.AlterTableDropIndex, generatedKeyName
		}
	}
	return true
}

func onGenerated(t *event.Table, x *event.Index) bool {
	return slices.ContainsFunc(x.Parts, func(p event.IndexPart) bool {
		return p.Column >= 0 && t.Columns[p.Column].Generated != event.NotGenerated
	})
}

// knownIndex tells whether an index that a clause names was made downstream.
func (r *rewriter) knownIndex(name string) bool {
	if r.before == nil {
		return true
	}
	x := indexNamed(r.before, name)
	if x == nil || r.dialect.carried(x) {
		return true
	}
	r.note(FeatureExpression, name)
	return false
}

// indexVisibility has the dialect's own statement, which follows.
func (r *rewriter) indexVisibility(x *ast.AlterTableSpec) bool {
	if !r.knownIndex(x.IndexName.O) {
		return false
	}
	if r.dialect.hasInvisible() {
		return true
	}
	if text := r.visibilityText(x.IndexName.O, x.Visibility == ast.IndexVisibilityInvisible); text != "" {
		r.later = append(r.later, text)
	}
	r.note(FeatureInvisible, x.IndexName.O)
	return false
}

func isPartitionSpec(t ast.AlterTableType) bool {
	switch t {
	case ast.AlterTableAddPartitions, ast.AlterTableCoalescePartitions, ast.AlterTableDropPartition,
		ast.AlterTableTruncatePartition, ast.AlterTablePartition, ast.AlterTableRemovePartitioning,
		ast.AlterTableReorganizePartition, ast.AlterTableDropFirstPartition, ast.AlterTableAddLastPartition,
		ast.AlterTableReorganizeFirstPartition, ast.AlterTableReorganizeLastPartition:
		return true
	}
	return false
}

func (r *rewriter) partitionSpec(x *ast.AlterTableSpec) (bool, error) {
	was := ""
	if r.before != nil {
		was = r.dialect.unpartitioned(r.before)
	}
	switch now := r.dialect.unpartitioned(r.after); {
	case now != "" && was == "" && r.before != nil && r.before.PartitionBy != nil:
		r.note(now, "the partitions are removed")
		r.followGlobal()
		x.Tp, x.Partition = ast.AlterTableRemovePartitioning, nil
		return true, nil
	case now != "":
		r.note(now, "clause left out")
		return false, nil
	case was != "" && x.Tp != ast.AlterTablePartition:
		r.note(was, "clause left out")
		return false, nil
	}
	switch x.Tp {
	case ast.AlterTableRemovePartitioning:
		r.followGlobal()
	case ast.AlterTablePartition:
		r.followGlobal()
		var err error
		x.Partition, err = r.partitioning(x.Partition)
		return x.Partition != nil, err
	case ast.AlterTableDropFirstPartition, ast.AlterTableAddLastPartition,
		ast.AlterTableReorganizeFirstPartition, ast.AlterTableReorganizeLastPartition:
		if r.native() {
			return true, nil
		}
		return r.intervalSpec(x)
	}
	return true, r.definitions(x.PartDefinitions)
}

// intervalSpec spells out a shorthand of INTERVAL partitioning by what it did.
func (r *rewriter) intervalSpec(x *ast.AlterTableSpec) (bool, error) {
	gone, come := partitionsNotIn(r.before, r.after), partitionsNotIn(r.after, r.before)
	for _, name := range gone {
		x.PartitionNames = append(x.PartitionNames, ast.NewCIStr(name))
	}
	if len(come) > 0 {
		all, err := partitionNode(r.after)
		if err != nil {
			return false, err
		}
		for _, def := range all.Definitions {
			if slices.Contains(come, def.Name.O) {
				x.PartDefinitions = append(x.PartDefinitions, def)
			}
		}
	}
	switch {
	case len(gone) > 0 && len(come) > 0:
		x.Tp = ast.AlterTableReorganizePartition
	case len(gone) > 0:
		x.Tp = ast.AlterTableDropPartition
	default:
		x.Tp = ast.AlterTableAddPartitions
	}
	x.Partition, x.Num = nil, 0
	r.note(FeatureInterval, "ALTER TABLE")
	return len(gone)+len(come) > 0, r.definitions(x.PartDefinitions)
}

// partitionsNotIn are the names of a's partitions that b does not have as they are.
func partitionsNotIn(a, b *event.Table) []string {
	var out []string
	for _, p := range a.Partitions {
		if !slices.ContainsFunc(b.Partitions, func(q event.Partition) bool { return q.ID == p.ID }) {
			out = append(out, p.Name)
		}
	}
	return out
}
