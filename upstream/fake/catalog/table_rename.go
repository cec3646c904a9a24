package catalog

import (
	"github.com/pingcap/tidb/pkg/parser/ast"
)

type renameArgs struct {
	OldSchemaID   int64 `json:"old_schema_id,omitempty"`
	OldSchemaName Name  `json:"old_schema_name"`
	NewTableName  Name  `json:"new_table_name"`
	OldTableName  Name  `json:"old_table_name"`
	NewSchemaID   int64 `json:"new_schema_id,omitempty"`
	TableID       int64 `json:"table_id,omitempty"`
}

type renamesArgs struct {
	Tables []*renameArgs `json:"rename_table_infos,omitempty"`
}

func (a *alteration) renameTable(to *ast.TableName) (*change, error) {
	if a.multi {
		return nil, refuse(errUnsupported, "Unsupported multi schema change for rename table")
	}
	if db, err := a.database(to.Schema.O); err == nil && db == a.db && to.Name.L == a.table.Name.L {
		return nil, nil
	}
	return nil, a.rename(a.db, a.table, to)
}

func (p *planner) renameTables(s *ast.RenameTableStmt) error {
	if len(s.TableToTables) == 1 {
		db, t, err := p.table(s.TableToTables[0].OldTable)
		if err != nil {
			return err
		}
		return p.rename(db, t, s.TableToTables[0].NewTable)
	}
	return p.renameMany(s.TableToTables)
}

// rename makes a job of one table's new name.
func (p *planner) rename(db *DBInfo, t *TableInfo, to *ast.TableName) error {
	target, err := p.database(to.Schema.O)
	if err != nil {
		return err
	}
	if other := p.c.tableIn(target.ID, to.Name.L); other != nil {
		return refuse(errTableExists, "Table '%s.%s' already exists", target.Name.O, to.Name.O)
	}
	args := &renameArgs{OldSchemaID: db.ID, OldSchemaName: db.Name, NewTableName: MakeName(to.Name.O)}
	j := p.job(ActionRenameTable, target, t, args)
	j.schemas = []int64{db.ID, target.ID}
	j.info.Involving = []Involving{{Database: db.Name.L, Table: t.Name.L}, {Database: target.Name.L, Table: fold(to.Name.O)}}
	return nil
}

// renameMany makes one job of several new names, which count one after the other.
func (p *planner) renameMany(pairs []*ast.TableToTable) error {
	type place struct {
		db   int64
		name string
	}
	moved := map[place]*TableInfo{} // nil: gone from there
	find := func(at place) *TableInfo {
		if t, ok := moved[at]; ok {
			return t
		}
		return p.c.tableIn(at.db, at.name)
	}
	args := &renamesArgs{}
	var j *Job
	var involving []Involving
	var schemas, tables []int64
	for _, pair := range pairs {
		from, err := p.database(pair.OldTable.Schema.O)
		if err != nil {
			return err
		}
		to, err := p.database(pair.NewTable.Schema.O)
		if err != nil {
			return err
		}
		source, target := place{from.ID, pair.OldTable.Name.L}, place{to.ID, pair.NewTable.Name.L}
		t := find(source)
		if t == nil {
			return refuse(errNoSuchTable, "Table '%s.%s' doesn't exist", from.Name.O, pair.OldTable.Name.O)
		}
		if find(target) != nil {
			return refuse(errTableExists, "Table '%s.%s' already exists", to.Name.O, pair.NewTable.Name.O)
		}
		moved[source], moved[target] = nil, t
		if j == nil {
			j = p.job(ActionRenameTables, to, nil, args)
			j.info.TableID = t.ID
		}
		args.Tables = append(args.Tables, &renameArgs{
			OldSchemaID: from.ID, OldSchemaName: from.Name, NewTableName: MakeName(pair.NewTable.Name.O),
			OldTableName: MakeName(pair.OldTable.Name.O), NewSchemaID: to.ID, TableID: t.ID,
		})
		schemas, tables = append(schemas, from.ID, to.ID), append(tables, t.ID)
		involving = append(involving,
			Involving{Database: from.Name.L, Table: pair.OldTable.Name.L},
			Involving{Database: to.Name.L, Table: pair.NewTable.Name.L})
	}
	j.schemas, j.tables, j.info.Involving = schemas, tables, involving
	return nil
}

// move puts a table under another name, perhaps into another database. Its
// counters stay where they are, and the table says where.
func (w *work) move(t *TableInfo, a *renameArgs, target int64) {
	if a.OldSchemaID != target {
		w.put(tableKey(a.OldSchemaID, t.ID), nil)
		delete(w.written, tableKey(a.OldSchemaID, t.ID))
		if t.AutoIDSchemaID == 0 {
			t.AutoIDSchemaID = a.OldSchemaID
		}
		if t.AutoIDSchemaID == target {
			t.AutoIDSchemaID = 0
		}
	}
	t.Name = a.NewTableName
	w.putTable(target, t)
}

// renameTable gives the table its new name, then lets every server see it.
func (w *work) renameTable(a *renameArgs) error {
	target := w.info.SchemaID
	if w.info.SchemaState == StatePublic {
		w.bump(func(d *SchemaDiff) { d.OldSchemaID = target })
		t := w.c.tables[target][w.info.TableID]
		if t == nil {
			return w.cancel(errNoSuchTable, "Table '%s' doesn't exist", a.NewTableName.O)
		}
		w.doneTable(StatePublic, t.clone())
		return nil
	}
	old := w.c.tables[a.OldSchemaID][w.info.TableID]
	if old == nil {
		return w.cancel(errNoSuchTable, "Table '%s.%s' doesn't exist", a.OldSchemaName.O, w.info.TableName)
	}
	a.NewSchemaID = target
	w.bump(func(d *SchemaDiff) { d.OldSchemaID = a.OldSchemaID })
	w.move(old.clone(), a, target)
	w.info.SchemaState = StatePublic
	return nil
}

// renameTables does the same to several tables, in order.
func (w *work) renameTables(a *renamesArgs) error {
	second := w.info.SchemaState == StatePublic
	first := a.Tables[0]
	w.bump(func(d *SchemaDiff) {
		d.SchemaID, d.TableID, d.OldSchemaID = first.NewSchemaID, first.TableID, first.OldSchemaID
		if second {
			d.OldSchemaID = first.NewSchemaID
		}
		for _, x := range a.Tables[1:] {
			o := &AffectedOption{SchemaID: x.NewSchemaID, TableID: x.TableID, OldTableID: x.TableID, OldSchemaID: x.OldSchemaID}
			if second {
				o.OldSchemaID = x.NewSchemaID
			}
			d.AffectedOptions = append(d.AffectedOptions, o)
		}
	})
	if second {
		last := map[int64]*TableInfo{}
		for _, x := range a.Tables {
			if t := w.c.tables[x.NewSchemaID][x.TableID]; t != nil {
				last[x.TableID] = t.clone()
			}
		}
		w.done(StatePublic)
		for _, x := range a.Tables {
			w.info.Binlog.TableInfo = last[x.TableID]
			w.info.Binlog.MultipleTableInfos = append(w.info.Binlog.MultipleTableInfos, last[x.TableID])
		}
		return nil
	}
	for _, x := range a.Tables {
		old := w.written[tableKey(x.OldSchemaID, x.TableID)]
		if old == nil {
			old = w.c.tables[x.OldSchemaID][x.TableID]
		}
		if old == nil {
			return w.cancel(errNoSuchTable, "Table '%s.%s' doesn't exist", x.OldSchemaName.O, x.OldTableName.O)
		}
		w.move(old.clone(), x, x.NewSchemaID)
		w.info.TableID, w.info.TableName = x.TableID, x.OldTableName.L
	}
	w.info.SchemaState = StatePublic
	return nil
}
