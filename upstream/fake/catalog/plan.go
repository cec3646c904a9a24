package catalog

import (
	"github.com/pingcap/tidb/pkg/parser/ast"
)

// Plan reads the statements of a text, as a client sent them, and returns the
// jobs that TiDB would make of them, in order. The next is to be started when
// the one before has ended. A statement that TiDB refuses is an *Error; one
// that has nothing to do (IF EXISTS of what does not) makes no job.
func (c *Catalog) Plan(sql string, s Session) ([]*Job, error) {
	s = s.withDefaults()
	stmts, err := parse(sql, s)
	if err != nil {
		return nil, err
	}
	p := &planner{c: c, session: s, db: s.DB}
	for _, stmt := range stmts {
		p.query = sql
		if len(stmts) > 1 {
			p.query = stmt.Text()
		}
		if err := p.statement(stmt); err != nil {
			return nil, err
		}
	}
	return p.jobs, nil
}

// planner turns statements into jobs.
type planner struct {
	c       *Catalog
	session Session
	db      string // of names without one
	query   string
	jobs    []*Job
	with    map[string]*ast.CommonTableExpression // of the view at hand
}

func (p *planner) statement(stmt ast.StmtNode) error {
	if err := checkNames(stmt); err != nil {
		return err
	}
	switch s := stmt.(type) {
	case *ast.UseStmt:
		if p.c.Database(s.DBName) == nil {
			return refuse(errBadDB, "Unknown database '%s'", s.DBName)
		}
		p.db = s.DBName
		return nil
	case *ast.CreateDatabaseStmt:
		return p.createDatabase(s)
	case *ast.AlterDatabaseStmt:
		return p.alterDatabase(s)
	case *ast.DropDatabaseStmt:
		return p.dropDatabase(s)
	case *ast.CreateTableStmt:
		return p.createTable(s)
	case *ast.AlterTableStmt:
		return p.alterTable(s)
	case *ast.CreateIndexStmt:
		return p.createIndex(s)
	case *ast.DropIndexStmt:
		return p.dropIndexStmt(s)
	case *ast.DropTableStmt:
		return p.dropTable(s)
	case *ast.TruncateTableStmt:
		return p.truncate(s)
	case *ast.RenameTableStmt:
		return p.renameTables(s)
	}
	return p.otherStatement(stmt)
}

// otherStatement plans what is neither of tables nor of databases.
func (p *planner) otherStatement(stmt ast.StmtNode) error {
	switch s := stmt.(type) {
	case *ast.CreateViewStmt:
		return p.createView(s)
	case *ast.RecoverTableStmt:
		return p.recoverTable(s)
	case *ast.FlashBackTableStmt:
		return p.flashbackTable(s)
	case *ast.FlashBackDatabaseStmt:
		return p.flashbackDatabase(s)
	case *ast.CreateSequenceStmt:
		return p.createSequence(s)
	case *ast.AlterSequenceStmt:
		return p.alterSequence(s)
	case *ast.DropSequenceStmt:
		return p.dropSequence(s)
	case *ast.CreatePlacementPolicyStmt:
		return p.createPolicy(s)
	case *ast.AlterPlacementPolicyStmt:
		return p.alterPolicy(s)
	case *ast.DropPlacementPolicyStmt:
		return p.dropPolicy(s)
	case *ast.CreateResourceGroupStmt:
		return p.createGroup(s)
	case *ast.AlterResourceGroupStmt:
		return p.alterGroup(s)
	case *ast.DropResourceGroupStmt:
		return p.dropGroup(s)
	}
	return refuse(errUnsupported, "no DDL that is known here: %T", stmt)
}

// job queues a job of this session on a table of a database.
func (p *planner) job(action Action, db *DBInfo, table *TableInfo, args any) *Job {
	j := &Job{c: p.c, args: args}
	j.info = JobInfo{
		Type: action, State: JobQueueing, Query: p.query, Version: 2,
		Trace:   &TraceInfo{ConnectionID: p.session.ConnectionID, TraceID: p.session.TraceID},
		BDRRole: p.session.BDRRole, CDCWriteSource: p.session.CDCWriteSource, SQLMode: p.session.SQLMode,
	}
	if db != nil {
		j.info.SchemaID, j.info.SchemaName = db.ID, db.Name.L
	}
	if table != nil {
		j.info.TableID, j.info.TableName = table.ID, table.Name.L
	}
	p.jobs = append(p.jobs, j)
	return j
}

// database is the one of that name, or the session's where name is empty.
func (p *planner) database(name string) (*DBInfo, error) {
	if name == "" {
		name = p.db
	}
	if name == "" {
		return nil, refuse(errNoDB, "No database selected")
	}
	db := p.c.Database(name)
	if db == nil || db.State != StatePublic {
		return nil, refuse(errBadDB, "Unknown database '%s'", name)
	}
	return db, nil
}

// table is the table that a name stands for, public or on its way out.
func (p *planner) table(n *ast.TableName) (*DBInfo, *TableInfo, error) {
	db, err := p.database(n.Schema.O)
	if err != nil {
		return nil, nil, err
	}
	t := p.c.tableIn(db.ID, n.Name.L)
	if t == nil || t.State != StatePublic {
		return db, nil, refuse(errNoSuchTable, "Table '%s.%s' doesn't exist", db.Name.O, n.Name.O)
	}
	return db, t, nil
}
