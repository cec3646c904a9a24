package catalog

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// indexPart is one part of an index as it stands in arguments.
type indexPart struct {
	Column columnName
	Length int
	Desc   bool
	Expr   *struct{} // never set: expressions have become hidden columns
}

// indexOption is the options of an index as they stand in arguments.
type indexOption struct {
	KeyBlockSize               uint64
	Tp                         int
	Comment                    string
	ParserName                 Name
	Visibility                 int
	PrimaryKeyTp               int
	Global                     bool
	SecondaryEngineAttr        string
	AddColumnarReplicaOnDemand int
}

// indexArg is one index that a job makes, drops or renames.
type indexArg struct {
	Unique  bool          `json:"unique,omitempty"`
	Name    Name          `json:"index_name"`
	Parts   []*indexPart  `json:"index_part_specifications"`
	Option  *indexOption  `json:"index_option,omitempty"`
	Hidden  []*ColumnInfo `json:"hidden_cols,omitempty"`
	Cond    string        `json:"condition_string,omitempty"`
	IsPK    bool          `json:"is_pk,omitempty"`
	SQLMode uint64        `json:"sql_mode,omitempty"`
	ID      int64         `json:"index_id,omitempty"`
	IfExist bool          `json:"if_exist,omitempty"`
	Global  bool          `json:"is_global,omitempty"`
}

type indexArgs struct {
	Indexes      []*indexArg `json:"index_args,omitempty"`
	PartitionIDs []int64     `json:"partition_ids,omitempty"`
}

type visibilityArgs struct {
	Name      Name `json:"index_name"`
	Invisible bool `json:"invisible"`
}

// addConstraint plans an ADD INDEX, ADD PRIMARY KEY, ADD CHECK or ADD FOREIGN KEY.
func (a *alteration) addConstraint(s *ast.AlterTableSpec) (*change, error) {
	c := s.Constraint
	switch c.Tp {
	case ast.ConstraintForeignKey:
		return a.addForeignKey(c)
	case ast.ConstraintCheck:
		return a.addCheck(c)
	case ast.ConstraintPrimaryKey:
		return a.addPrimaryKey(c)
	case ast.ConstraintUniq, ast.ConstraintUniqIndex, ast.ConstraintUniqKey:
		return a.addIndex(c, true, c.IfNotExists)
	case ast.ConstraintKey, ast.ConstraintIndex:
		return a.addIndex(c, false, c.IfNotExists)
	}
	return nil, refuse(errUnsupported, "an index of kind %d", c.Tp)
}

func (a *alteration) addIndex(c *ast.Constraint, unique, ifNotExists bool) (*change, error) {
	t := a.table
	name := c.Name
	if name == "" {
		taken := map[string]bool{}
		for _, i := range t.Indices {
			taken[i.Name.L] = true
		}
		name = indexName(taken, c.Keys)
	}
	if i := t.indexNamed(fold(name)); i != nil {
		if ifNotExists {
			return nil, nil
		}
		return nil, refuse(errDupKeyName, "Duplicate key name '%s'", name)
	}
	hidden, keys, err := a.hiddenColumns(t, name, c.Keys)
	if err != nil {
		return nil, err
	}
	with := t.clone()
	with.Columns = append(with.Columns, hidden...)
	if !a.multi {
		i, err := a.index(with, indexSpec{name: name, unique: unique, keys: keys, option: c.Option}, StateNone)
		if err != nil {
			return nil, err
		}
		probe := with.clone()
		probe.Indices = []*IndexInfo{i}
		if t.Partition != nil {
			if err := probe.uniqueCover(t.Partition, nil); err != nil {
				return nil, err
			}
		}
	}
	arg := &indexArg{Unique: unique, Name: MakeName(name), Hidden: hidden, Parts: indexParts(keys), Option: makeIndexOption(c.Option)}
	if c.Option != nil {
		arg.Global = c.Option.Global
		if c.Option.Condition != nil {
			if arg.Cond, err = restore(c.Option.Condition, restoreExpr); err != nil {
				return nil, err
			}
		}
	}
	return &change{
		action: ActionAddIndex, args: &indexArgs{Indexes: []*indexArg{arg}}, reorg: true, indexJob: true,
		meta: distReorgMeta, vars: statsVars(),
	}, nil
}

func indexParts(keys []*ast.IndexPartSpecification) []*indexPart {
	var out []*indexPart
	for _, k := range keys {
		out = append(out, &indexPart{Column: columnName{Name: MakeName(k.Column.Name.O)}, Length: k.Length, Desc: k.Desc})
	}
	return out
}

func makeIndexOption(o *ast.IndexOption) *indexOption {
	if o == nil {
		return nil
	}
	return &indexOption{
		KeyBlockSize: o.KeyBlockSize, Tp: int(o.Tp), Comment: o.Comment, ParserName: MakeName(o.ParserName.O),
		Visibility: int(o.Visibility), PrimaryKeyTp: int(o.PrimaryKeyTp), Global: o.Global,
		SecondaryEngineAttr: o.SecondaryEngineAttr, AddColumnarReplicaOnDemand: o.AddColumnarReplicaOnDemand,
	}
}

// specs undoes indexParts and makeIndexOption.
func (x *indexArg) spec() indexSpec {
	s := indexSpec{name: x.Name.O, unique: x.Unique, primary: x.IsPK}
	for _, p := range x.Parts {
		s.keys = append(s.keys, &ast.IndexPartSpecification{Column: &ast.ColumnName{Name: ast.NewCIStr(p.Column.Name.O)}, Length: p.Length})
	}
	if o := x.Option; o != nil {
		s.option = &ast.IndexOption{Tp: ast.IndexType(o.Tp), Comment: o.Comment, Visibility: ast.IndexVisibility(o.Visibility), Global: o.Global}
	}
	return s
}

func (a *alteration) addPrimaryKey(c *ast.Constraint) (*change, error) {
	t := a.table
	if t.PKIsHandle || t.indexNamed("primary") != nil {
		return nil, refuse(errMultiplePriKey, "Multiple primary key defined")
	}
	if c.Option != nil && c.Option.PrimaryKeyTp == ast.PrimaryKeyTypeClustered {
		return nil, refuse(errUnsupported, "Adding clustered primary key is not supported. Please consider adding NONCLUSTERED primary key instead")
	}
	if _, err := a.index(t, indexSpec{name: primaryName, primary: true, unique: true, keys: c.Keys, option: c.Option}, StateNone); err != nil {
		return nil, err
	}
	for _, k := range c.Keys {
		if col := t.column(k.Column.Name.L); !col.Type.has(mysql.NotNullFlag) && a.session.has(mysql.ModeStrictTransTables) && col.virtual() {
			return nil, refuse(errUnsupported, "Unsupported add primary key on generated column '%s'", col.Name.O)
		}
	}
	arg := &indexArg{
		Unique: true, Name: MakeName(primaryName), Parts: indexParts(c.Keys), Option: makeIndexOption(c.Option),
		IsPK: true, SQLMode: a.session.SQLMode,
	}
	return &change{
		action: ActionAddPrimaryKey, args: &indexArgs{Indexes: []*indexArg{arg}}, reorg: true, prior: true, meta: distReorgMeta,
		vars: a.multiVars(),
	}, nil
}

func (a *alteration) dropIndex(name string, ifExists bool) (*change, error) {
	i := a.table.indexNamed(fold(name))
	if i == nil || i.State != StatePublic {
		if ifExists {
			return nil, nil
		}
		if a.table.PKIsHandle && fold(name) == fold(primaryName) {
			return nil, refuse(errUnsupported, "Unsupported drop primary key when the table's pkIsHandle is true")
		}
		return nil, refuse(errCannotDropKey, "Can't DROP '%s'; check that column/key exists", name)
	}
	c := &change{
		action: ActionDropIndex, args: &indexArgs{Indexes: []*indexArg{{Name: MakeName(name), IfExist: ifExists}}}, state: StatePublic,
		meta: a.plainMeta(), vars: a.multiVars(),
	}
	if i.Primary {
		if a.table.IsCommonHandle {
			return nil, refuse(errUnsupported, "Unsupported drop primary key when the table is using clustered index")
		}
		c.action = ActionDropPrimaryKey
	}
	return c, nil
}

func (a *alteration) renameIndex(s *ast.AlterTableSpec) (*change, error) {
	if a.table.indexNamed(s.FromKey.L) == nil {
		return nil, refuse(1176, "Key '%s' doesn't exist in table '%s'", s.FromKey.O, a.table.Name.O)
	}
	if a.table.indexNamed(s.ToKey.L) != nil && s.FromKey.L != s.ToKey.L {
		return nil, refuse(errDupKeyName, "Duplicate key name '%s'", s.ToKey.O)
	}
	args := &indexArgs{Indexes: []*indexArg{{Name: MakeName(s.FromKey.O)}, {Name: MakeName(s.ToKey.O)}}}
	return &change{action: ActionRenameIndex, args: args, meta: a.plainMeta(), vars: a.multiVars()}, nil
}

func (a *alteration) indexVisibility(s *ast.AlterTableSpec) (*change, error) {
	i := a.table.indexNamed(s.IndexName.L)
	if i == nil {
		return nil, refuse(1176, "Key '%s' doesn't exist in table '%s'", s.IndexName.O, a.table.Name.O)
	}
	invisible := s.Visibility == ast.IndexVisibilityInvisible
	if i.Invisible == invisible {
		return nil, nil
	}
	args := &visibilityArgs{Name: MakeName(s.IndexName.O), Invisible: invisible}
	return &change{action: ActionIndexVisibility, args: args, meta: a.plainMeta(), vars: a.multiVars()}, nil
}

// createIndex and dropIndexStmt are the statements beside ALTER TABLE.
func (p *planner) createIndex(s *ast.CreateIndexStmt) error {
	db, t, err := p.table(s.Table)
	if err != nil {
		return err
	}
	if s.KeyType != ast.IndexKeyTypeNone && s.KeyType != ast.IndexKeyTypeUnique {
		return refuse(errUnsupported, "an index of kind %d", s.KeyType)
	}
	a := &alteration{planner: p, db: db, table: t}
	option := s.IndexOption
	if option == nil {
		option = &ast.IndexOption{}
	}
	c, err := a.addIndex(&ast.Constraint{Name: s.IndexName, Keys: s.IndexPartSpecifications, Option: option}, s.KeyType == ast.IndexKeyTypeUnique, s.IfNotExists)
	if err != nil || c == nil {
		return err
	}
	p.queueChange(db, t, c)
	return nil
}

func (p *planner) dropIndexStmt(s *ast.DropIndexStmt) error {
	db, t, err := p.table(s.Table)
	if err != nil {
		return err
	}
	a := &alteration{planner: p, db: db, table: t}
	c, err := a.dropIndex(s.IndexName, s.IfExists)
	if err != nil || c == nil {
		return err
	}
	p.queueChange(db, t, c)
	return nil
}

// mergeIndexes makes one change of all that add an index, at the end, as TiDB
// does so that it reads the table once.
func mergeIndexes(in []*change) []*change {
	var merged *change
	count := 0
	for _, c := range in {
		if c.action == ActionAddIndex {
			count++
		}
	}
	if count < 2 {
		return in
	}
	var out []*change
	for _, c := range in {
		if c.action != ActionAddIndex {
			out = append(out, c)
			continue
		}
		if merged == nil {
			merged = c
			continue
		}
		merged.args.(*indexArgs).Indexes = append(merged.args.(*indexArgs).Indexes, c.args.(*indexArgs).Indexes...)
	}
	return slices.Concat(out, []*change{merged})
}
