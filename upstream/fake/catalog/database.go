package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

type createSchemaArgs struct {
	DB *DBInfo `json:"db_info,omitempty"`
}

type dropSchemaArgs struct {
	FKCheck bool    `json:"fk_check,omitempty"`
	Dropped []int64 `json:"all_dropped_table_ids,omitempty"`
}

type charsetArgs struct {
	Charset   string `json:"to_charset,omitempty"`
	Collate   string `json:"to_collate,omitempty"`
	Overwrite bool   `json:"needs_overwrite_cols,omitempty"`
}

// whole is all tables of a database, for the list of what a job involves.
func whole(db string) []Involving { return []Involving{{Database: db, Table: "*"}} }

func (p *planner) createDatabase(s *ast.CreateDatabaseStmt) error {
	if p.c.Database(s.Name.L) != nil {
		if s.IfNotExists {
			return nil
		}
		return refuse(errDBExists, "Can't create database '%s'; database exists", s.Name.O)
	}
	cs, policy, err := p.databaseOptions(s.Options, collation{mysql.UTF8MB4Charset, mysql.UTF8MB4DefaultCollation})
	if err != nil {
		return err
	}
	db := &DBInfo{Name: MakeName(s.Name.O), Charset: cs.charset, Collate: cs.collate, Policy: policy}
	j := p.job(ActionCreateSchema, db, nil, &createSchemaArgs{DB: db})
	j.info.Involving = whole(db.Name.L)
	j.assign = func(ids *allocator) {
		db.ID = ids.next()
		j.info.SchemaID = db.ID
	}
	return nil
}

func (p *planner) databaseOptions(options []*ast.DatabaseOption, outer collation) (collation, *PolicyRef, error) {
	var own collation
	var policy *PolicyRef
	for _, o := range options {
		switch o.Tp {
		case ast.DatabaseOptionCharset:
			own.charset = o.Value
		case ast.DatabaseOptionCollate:
			own.collate = o.Value
		case ast.DatabaseOptionPlacementPolicy:
			ref, err := p.policyRef(o.Value)
			if err != nil {
				return own, nil, err
			}
			policy = ref
		}
	}
	cs, err := p.c.resolve(own, outer)
	return cs, policy, err
}

func (p *planner) alterDatabase(s *ast.AlterDatabaseStmt) error {
	name := s.Name.O
	if s.AlterDefaultDatabase {
		name = ""
	}
	db, err := p.database(name)
	if err != nil {
		return err
	}
	for _, o := range s.Options {
		if o.Tp == ast.DatabaseOptionPlacementPolicy {
			if err := p.schemaPolicy(db, o.Value); err != nil {
				return err
			}
		}
	}
	outer := collation{db.Charset, db.Collate}
	cs, _, err := p.databaseOptions(s.Options, outer)
	if err != nil || cs == outer {
		return err
	}
	j := p.job(ActionSchemaCharset, db, nil, &charsetArgs{Charset: cs.charset, Collate: cs.collate})
	j.info.Involving = whole(db.Name.L)
	return nil
}

func (p *planner) dropDatabase(s *ast.DropDatabaseStmt) error {
	db := p.c.Database(s.Name.L)
	if db == nil {
		if s.IfExists {
			return nil
		}
		return refuse(errDBNotExists, "Can't drop database '%s'; database doesn't exist", s.Name.O)
	}
	j := p.job(ActionDropSchema, db, nil, &dropSchemaArgs{FKCheck: true})
	j.info.SchemaState = StatePublic
	j.info.Involving = whole(db.Name.L)
	return nil
}

func (w *work) createSchema(a *createSchemaArgs) error {
	if w.c.Database(a.DB.Name.L) != nil {
		return w.cancel(errDBExists, "Can't create database '%s'; database exists", a.DB.Name.O)
	}
	w.bump(nil)
	a.DB.State = StatePublic
	w.putDB(a.DB)
	w.doneDB(StatePublic, a.DB)
	return nil
}

func (w *work) dropSchema() error {
	old := w.c.dbs[w.info.SchemaID]
	if old == nil {
		return w.cancel(errDBNotExists, "Can't drop database '%s'; database doesn't exist", w.info.SchemaName)
	}
	db := old.clone()
	w.bump(nil)
	switch db.State {
	case StatePublic:
		db.State = StateWriteOnly
		w.putDB(db)
	case StateWriteOnly:
		db.State = StateDeleteOnly
		w.putDB(db)
		w.j.args = nil
	default:
		w.j.args = &dropSchemaArgs{Dropped: w.c.physical(db.ID)}
		w.put(dbKey(db.ID), nil)
		w.dropHash(db.ID)
		db.State = StateNone
		w.doneDB(StateNone, db)
		return nil
	}
	w.info.SchemaState = db.State
	return nil
}

// dropHash deletes everything that is kept of the tables of a database.
func (w *work) dropHash(db int64) {
	prefix := hashKey(db, "")
	for id := range w.c.tables[db] {
		w.put(tableKey(db, id), nil)
	}
	for _, key := range slices.Sorted(maps.Keys(w.c.other)) {
		if strings.HasPrefix(key, prefix) {
			w.put(key, nil)
		}
	}
}

// physical are the ids of all tables of a database and of their partitions.
func (c *Catalog) physical(db int64) []int64 {
	ids := []int64{}
	for _, t := range c.Tables(db) {
		ids = append(ids, t.ID)
		if t.Partition != nil {
			ids = append(ids, idsOf(t.Partition.Definitions)...)
		}
	}
	return ids
}

func (w *work) schemaCharset(a *charsetArgs) error {
	old := w.c.dbs[w.info.SchemaID]
	if old == nil {
		return w.cancel(errBadDB, "Unknown database '%s'", w.info.SchemaName)
	}
	db := old.clone()
	db.Charset, db.Collate = a.Charset, a.Collate
	w.bump(nil)
	w.putDB(db)
	w.doneDB(StatePublic, db)
	return nil
}

func (d *DBInfo) clone() *DBInfo {
	out := *d
	out.Policy = d.Policy.clone()
	return &out
}
