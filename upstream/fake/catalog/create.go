package catalog

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/test_driver"
)

// tableVersion is the version of the form of table infos.
const tableVersion = 5

// createTableArgs are the arguments of CREATE TABLE, VIEW and SEQUENCE.
type createTableArgs struct {
	Table          *TableInfo `json:"table_info"`
	OnExistReplace bool       `json:"on_exist_replace,omitempty"`
	OldViewID      int64      `json:"old_view_tbl_id,omitempty"`
	FKCheck        bool       `json:"fk_check,omitempty"`
}

// scatter are the session variables that a job carries whose table may be
// split into regions.
func scatter() map[string]string { return map[string]string{"tidb_scatter_region": ""} }

func (p *planner) createTable(s *ast.CreateTableStmt) error {
	db, err := p.database(s.Table.Schema.O)
	if err != nil {
		return err
	}
	if s.TemporaryKeyword == ast.TemporaryLocal {
		return nil // lives in its session: no job
	}
	if old := p.c.tableIn(db.ID, s.Table.Name.L); old != nil {
		if s.IfNotExists {
			return nil
		}
		return refuse(errTableExists, "Table '%s.%s' already exists", db.Name.O, s.Table.Name.O)
	}
	var involving []Involving
	var t *TableInfo
	if s.ReferTable != nil {
		t, involving, err = p.tableLike(s, db)
	} else {
		t, err = p.tableOf(s, db)
	}
	if err != nil {
		return err
	}
	j := p.job(ActionCreateTable, db, t, &createTableArgs{Table: t, FKCheck: true})
	if len(t.ForeignKeys) > 0 {
		involving = foreignTables(db, t)
	}
	if t.Policy != nil && s.ReferTable == nil {
		involving = append(involving, Involving{Database: db.Name.L, Table: t.Name.L}, Involving{Policy: t.Policy.Name.L, Mode: 1})
	}
	j.info.Involving = involving
	j.info.SessionVars = scatter()
	j.assign = func(ids *allocator) {
		t.ID = ids.next()
		j.info.TableID = t.ID
		t.numberPartitions(ids)
	}
	return nil
}

// foreignTables are a table and those that its foreign keys point to.
func foreignTables(db *DBInfo, t *TableInfo) []Involving {
	out := []Involving{{Database: db.Name.L, Table: t.Name.L}}
	for _, k := range t.ForeignKeys {
		out = append(out, Involving{Database: k.RefSchema.L, Table: k.RefTable.L, Mode: 1})
	}
	return out
}

// numberPartitions gives ids to the partitions of a new table.
func (t *TableInfo) numberPartitions(ids *allocator) {
	if t.Partition == nil {
		return
	}
	for i := range t.Partition.Definitions {
		t.Partition.Definitions[i].ID = ids.next()
	}
}

// tableLike is the table of a CREATE TABLE LIKE.
func (p *planner) tableLike(s *ast.CreateTableStmt, db *DBInfo) (*TableInfo, []Involving, error) {
	from, old, err := p.table(s.ReferTable)
	if err != nil {
		return nil, nil, err
	}
	if old.View != nil || old.Sequence != nil {
		return nil, nil, refuse(errWrongObject, "'%s.%s' is not BASE TABLE", from.Name.O, old.Name.O)
	}
	t := old.clone()
	t.Name = MakeName(s.Table.Name.O)
	t.keepPublic()
	t.AutoIncID, t.AutoIDSchemaID = 0, 0
	t.ForeignKeys = nil
	t.TempTableType = uint8(0)
	if s.TemporaryKeyword == ast.TemporaryGlobal {
		t.TempTableType = 1
	}
	return t, []Involving{
		{Database: db.Name.L, Table: t.Name.L},
		{Database: from.Name.L, Table: old.Name.L, Mode: 1},
	}, nil
}

// keepPublic drops columns and indexes that are not public.
func (t *TableInfo) keepPublic() {
	t.Columns = slices.DeleteFunc(t.Columns, func(c *ColumnInfo) bool { return c.State != StatePublic })
	indices := []*IndexInfo{}
	for _, i := range t.Indices {
		if i.State == StatePublic {
			indices = append(indices, i)
		}
	}
	t.Indices = indices
	t.renumber()
}

// renumber sets the offsets of columns, and of index columns after them.
func (t *TableInfo) renumber() {
	at := map[string]int{}
	for i, c := range t.Columns {
		c.Offset = i
		at[c.Name.L] = i
	}
	for _, i := range t.Indices {
		for _, c := range i.Columns {
			c.Offset = at[c.Name.L]
		}
	}
}

// tableOf is the table of a CREATE TABLE with columns.
func (p *planner) tableOf(s *ast.CreateTableStmt, db *DBInfo) (*TableInfo, error) {
	cs, err := p.c.tableCollation(s.Options, collation{db.Charset, db.Collate})
	if err != nil {
		return nil, err
	}
	t := &TableInfo{Name: MakeName(s.Table.Name.O), Charset: cs.charset, Collate: cs.collate, Version: tableVersion}
	constraints, err := p.columns(t, s, cs)
	if err != nil {
		return nil, err
	}
	if err := nameConstraints(t, constraints); err != nil {
		return nil, err
	}
	for _, c := range constraints {
		if err := p.constraint(t, db, c); err != nil {
			return nil, err
		}
	}
	if s.TemporaryKeyword == ast.TemporaryGlobal {
		t.TempTableType = 1
	}
	if err := p.autoRandom(t, s.Cols); err != nil {
		return nil, err
	}
	if err := p.tableOptions(t, s.Options); err != nil {
		return nil, err
	}
	if s.Partition != nil {
		if err := p.partitionBy(t, s.Partition); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// columns reads the columns of a new table, and all its constraints: those
// beside the columns come first.
func (p *planner) columns(t *TableInfo, s *ast.CreateTableStmt, cs collation) ([]*ast.Constraint, error) {
	var outer *ast.Constraint
	constraints := slices.Clone(s.Constraints)
	for _, c := range constraints {
		if c.Tp == ast.ConstraintPrimaryKey && outer == nil {
			outer = c
		}
	}
	for i, def := range s.Cols {
		if t.column(def.Name.Name.L) != nil {
			return nil, refuse(errDupColumn, "Duplicate column name '%s'", def.Name.Name.O)
		}
		col, more, err := p.column(def, i, cs, outer)
		if err != nil {
			return nil, err
		}
		t.MaxColumnID++
		col.ID, col.State = t.MaxColumnID, StatePublic
		t.Columns = append(t.Columns, col)
		constraints = append(constraints, more...)
	}
	if len(t.Columns) > columnsMax {
		return nil, refuse(1117, "Too many columns")
	}
	if len(t.Columns) == 0 {
		return nil, refuse(1113, "A table must have at least 1 column")
	}
	for _, c := range t.Columns {
		if err := t.known(c); err != nil {
			return nil, err
		}
	}
	for _, c := range constraints {
		t.flagColumns(c)
	}
	return constraints, nil
}

// flagColumns sets on columns the flags of a constraint over them.
func (t *TableInfo) flagColumns(c *ast.Constraint) {
	for i, k := range c.Keys {
		if k.Expr != nil {
			continue
		}
		col := t.column(k.Column.Name.L)
		if col == nil {
			continue // the index refuses it later, with its name
		}
		switch c.Tp {
		case ast.ConstraintPrimaryKey:
			col.Type.add(mysql.PriKeyFlag | mysql.NotNullFlag)
			col.noDefault(col.Default != nil)
		case ast.ConstraintUniq, ast.ConstraintUniqIndex, ast.ConstraintUniqKey:
			if len(c.Keys) == 1 {
				col.Type.add(mysql.UniqueKeyFlag)
			} else if i == 0 {
				col.Type.add(mysql.MultipleKeyFlag)
			}
		case ast.ConstraintKey, ast.ConstraintIndex:
			if i == 0 {
				col.Type.add(mysql.MultipleKeyFlag)
			}
		}
	}
}

// constraint adds one constraint to a new table.
func (p *planner) constraint(t *TableInfo, db *DBInfo, c *ast.Constraint) error {
	spec := indexSpec{name: c.Name, keys: c.Keys, option: c.Option}
	switch c.Tp {
	case ast.ConstraintForeignKey:
		return p.foreignKey(t, db, c)
	case ast.ConstraintCheck:
		return p.check(t, c)
	case ast.ConstraintPrimaryKey:
		if t.PKIsHandle || t.indexNamed("primary") != nil {
			return refuse(errMultiplePriKey, "Multiple primary key defined")
		}
		single := t.integerKey(c.Keys)
		tp := ast.PrimaryKeyTypeDefault
		if c.Option != nil {
			tp = c.Option.PrimaryKeyTp
		}
		if p.session.Clustered.covers(tp, single) {
			t.PKIsHandle, t.IsCommonHandle = single, !single
			if single {
				return nil
			}
			t.CommonHandleVersion = 1
		}
		spec.name, spec.primary, spec.unique = primaryName, true, true
	case ast.ConstraintUniq, ast.ConstraintUniqIndex, ast.ConstraintUniqKey:
		spec.unique = true
	case ast.ConstraintKey, ast.ConstraintIndex:
	default:
		return nil // FULLTEXT and the like are read and ignored
	}
	hidden, keys, err := p.hiddenColumns(t, c.Name, c.Keys)
	if err != nil {
		return err
	}
	for _, col := range hidden {
		t.MaxColumnID++
		col.ID, col.State, col.Offset = t.MaxColumnID, StatePublic, len(t.Columns)
		t.Columns = append(t.Columns, col)
	}
	spec.keys = keys
	i, err := p.index(t, spec, StatePublic)
	if err != nil {
		return err
	}
	t.MaxIndexID++
	i.ID = t.MaxIndexID
	t.Indices = append(t.Indices, i)
	if len(hidden) > 0 {
		i.mark(t)
	}
	return nil
}

// integerKey tells whether a primary key is one integer column: the handle.
func (t *TableInfo) integerKey(keys []*ast.IndexPartSpecification) bool {
	if len(keys) != 1 || keys[0].Expr != nil || keys[0].Length > 0 {
		return false
	}
	col := t.column(keys[0].Column.Name.L)
	return col != nil && col.Type.isInteger()
}

// autoRandom reads the AUTO_RANDOM of a column.
func (p *planner) autoRandom(t *TableInfo, defs []*ast.ColumnDef) error {
	const bitsDefault, rangeDefault = 5, 64
	for _, def := range defs {
		for _, o := range def.Options {
			if o.Tp != ast.ColumnOptionAutoRandom {
				continue
			}
			if !t.PKIsHandle {
				return refuse(errUnsupported, "auto_random is only supported on the tables with clustered primary key")
			}
			t.AutoRandomBits, t.AutoRandomRangeBits = bitsDefault, rangeDefault
			if o.AutoRandOpt.ShardBits > 0 {
				t.AutoRandomBits = uint64(o.AutoRandOpt.ShardBits)
			}
			if o.AutoRandOpt.RangeBits > 0 {
				t.AutoRandomRangeBits = uint64(o.AutoRandOpt.RangeBits)
			}
		}
	}
	return nil
}

// tableCollation is the character set that options name, inside of a database's.
func (c *Catalog) tableCollation(options []*ast.TableOption, outer collation) (collation, error) {
	var own collation
	for _, o := range options {
		switch o.Tp {
		case ast.TableOptionCharset:
			own.charset = o.StrValue
		case ast.TableOptionCollate:
			own.collate = o.StrValue
		}
	}
	return c.resolve(own, outer)
}

// tableOptions sets what the options of CREATE TABLE say.
func (p *planner) tableOptions(t *TableInfo, options []*ast.TableOption) error {
	for _, o := range options {
		switch o.Tp {
		case ast.TableOptionAutoIncrement:
			t.AutoIncID = int64(o.UintValue)
		case ast.TableOptionAutoIdCache:
			t.AutoIDCache = int64(o.UintValue)
		case ast.TableOptionAutoRandomBase:
			t.AutoRandID = int64(o.UintValue)
		case ast.TableOptionComment:
			t.Comment = o.StrValue
		case ast.TableOptionCompression:
			t.Compression = o.StrValue
		case ast.TableOptionShardRowID:
			t.ShardRowIDBits = o.UintValue
			t.MaxShardRowIDBits = o.UintValue
		case ast.TableOptionPreSplitRegion:
			t.PreSplitRegions = o.UintValue
		case ast.TableOptionPlacementPolicy:
			ref, err := p.policyRef(o.StrValue)
			if err != nil {
				return err
			}
			t.Policy = ref
		}
	}
	ttl, _, err := p.ttl(t, options)
	if err != nil {
		return err
	}
	t.TTL = ttl
	if t.ShardRowIDBits > 0 && (t.PKIsHandle || t.IsCommonHandle) {
		return refuse(errUnsupported, "Unsupported shard_row_id_bits for table with primary key as row id")
	}
	return nil
}

// ttl reads the TTL options; enable is what TTL_ENABLE says, nil for nothing.
func (p *planner) ttl(t *TableInfo, options []*ast.TableOption) (info *TTLInfo, enable *bool, err error) {
	interval := ""
	for _, o := range options {
		switch o.Tp {
		case ast.TableOptionTTL:
			if t.column(o.ColumnName.Name.L) == nil {
				return nil, nil, refuse(errBadField, "Unknown column '%s' in 'TTL config'", o.ColumnName.Name.O)
			}
			v, ok := o.Value.(*test_driver.ValueExpr)
			if !ok {
				return nil, nil, refuse(errUnsupported, "a TTL of %T", o.Value)
			}
			text, err := restore(v, restoreExpr)
			if err != nil {
				return nil, nil, err
			}
			info = &TTLInfo{Column: MakeName(o.ColumnName.Name.O), Interval: text, Unit: int(o.TimeUnitValue.Unit), Enable: true, JobInterval: "24h"}
		case ast.TableOptionTTLEnable:
			on := o.BoolValue
			enable = &on
		case ast.TableOptionTTLJobInterval:
			interval = o.StrValue
		}
	}
	if info != nil && enable != nil {
		info.Enable = *enable
	}
	if info != nil && interval != "" {
		info.JobInterval = interval
	}
	return info, enable, nil
}

// createTable makes the table. One with foreign keys is hidden from writers for
// a step, so that the parent's deletes are checked before its first row.
func (w *work) createTable(a *createTableArgs) error {
	t := a.Table
	db := w.info.SchemaID
	if old := w.c.tableIn(db, t.Name.L); old != nil && old.ID != t.ID {
		return w.cancel(errTableExists, "Table '%s' already exists", t.Name.O)
	}
	foreign := len(t.ForeignKeys) > 0
	w.bump(func(d *SchemaDiff) {
		if foreign && w.info.SchemaState != StateNone {
			d.OldTableID = t.ID
		}
	})
	if foreign && w.info.SchemaState == StateNone {
		for _, k := range t.ForeignKeys {
			t.MaxForeignKeyID++
			k.ID = t.MaxForeignKeyID
		}
		t.UpdateTS, t.State = w.start, StateDeleteOnly
		w.revise(db, t)
		w.info.SchemaState = StateDeleteOnly
		return nil
	}
	t.State = StatePublic
	if foreign {
		w.update(db, t)
	} else {
		t.UpdateTS = w.start
		w.putTable(db, t)
	}
	w.doneTable(StatePublic, t)
	return nil
}
