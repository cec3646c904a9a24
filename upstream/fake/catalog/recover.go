package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// recoverInfo is what is brought back: one table, or a database with all that
// it held.
type recoverInfo struct {
	*DBInfo
	Tables        []*recoverTable `json:"RecoverTableInfos"`
	LoadOnExecute bool            `json:"LoadTablesOnExecute"`
	DropJobID     int64           `json:"DropJobID"`
	SnapshotTS    uint64          `json:"SnapshotTS"`
	OldSchemaName Name            `json:"OldSchemaName"`
}

type recoverTable struct {
	SchemaID      int64
	TableInfo     *TableInfo
	DropJobID     int64
	SnapshotTS    uint64
	AutoIDs       autoIDs
	OldSchemaName string
	OldTableName  string
}

// autoIDs are the counters of a table.
type autoIDs struct {
	RowID       int64
	IncrementID int64
	RandomID    int64
}

type recoverArgs struct {
	Info      recoverInfo `json:"recover_info"`
	CheckFlag int         `json:"check_flag,omitempty"`
}

// gcHeld is the check flag of a job that has found the data not yet deleted.
const gcHeld = 2

func (p *planner) recoverTable(s *ast.RecoverTableStmt) error {
	if s.JobID != 0 {
		j := p.c.jobs[s.JobID]
		if j == nil || j.Type != ActionDropTable && j.Type != ActionTruncateTable || j.Binlog.TableInfo == nil {
			return refuse(errUnsupported, "DDL job %d cannot be recovered", s.JobID)
		}
		return p.bringBack(j, "", false)
	}
	j, err := p.dropped(s.Table)
	if err != nil {
		return err
	}
	return p.bringBack(j, "", false)
}

func (p *planner) flashbackTable(s *ast.FlashBackTableStmt) error {
	j, err := p.dropped(s.Table)
	if err != nil {
		return err
	}
	return p.bringBack(j, s.NewName, true)
}

// dropped finds the last job that dropped or truncated a table of that name.
func (p *planner) dropped(n *ast.TableName) (*JobInfo, error) {
	db, err := p.database(n.Schema.O)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(p.c.jobs))) {
		j := p.c.jobs[id]
		if j.Type != ActionDropTable && j.Type != ActionTruncateTable {
			continue
		}
		if j.State == JobSynced && j.SchemaID == db.ID && j.Binlog.TableInfo != nil && j.Binlog.TableInfo.Name.L == n.Name.L {
			return j, nil
		}
	}
	return nil, refuse(errNoSuchTable, "Can't find localTemporary/dropped/truncated table: %s in DDL history jobs", n.Name.O)
}

// bringBack makes a job that undoes another one, under a new name if one is given.
func (p *planner) bringBack(drop *JobInfo, name string, named bool) error {
	old := p.c.tableAt(drop.SchemaID, drop.TableID, drop.StartTS)
	db := p.c.dbs[drop.SchemaID]
	if old == nil || db == nil {
		return refuse(errNoSuchTable, "table %d is not known any more", drop.TableID)
	}
	t := old.clone()
	if name != "" {
		t.Name = MakeName(name)
	}
	if p.c.tableIn(db.ID, t.Name.L) != nil || p.c.alive(t.ID) {
		return refuse(errTableExists, "Table '%s' already been flashback to or exists", t.Name.O)
	}
	t.State = StateNone
	args := &recoverArgs{}
	args.Info.Tables = []*recoverTable{{
		SchemaID: db.ID, TableInfo: t, DropJobID: drop.ID, SnapshotTS: drop.StartTS,
		AutoIDs: p.c.autoIDs(db.ID, t.ID), OldSchemaName: db.Name.L, OldTableName: old.Name.L,
	}}
	j := p.job(ActionRecoverTable, db, t, args)
	if named {
		j.info.Involving = []Involving{{Database: db.Name.L, Table: old.Name.L}, {Database: db.Name.L, Table: t.Name.L}}
	}
	return nil
}

// alive tells whether a table of that id is there, whatever it is called.
func (c *Catalog) alive(id int64) bool {
	for _, tables := range c.tables {
		if tables[id] != nil {
			return true
		}
	}
	return false
}

// autoIDs are the counters that a table has, or had when it was dropped.
func (c *Catalog) autoIDs(db, table int64) autoIDs {
	get := func(name string) int64 {
		key := hashKey(db, fmt.Sprint(name, table))
		if v := c.other[key]; v != nil {
			return number(v)
		}
		return number(c.lost[key])
	}
	return autoIDs{get("TID:"), get("IID:"), get("TARID:")}
}

func (p *planner) flashbackDatabase(s *ast.FlashBackDatabaseStmt) error {
	var drop *JobInfo
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(p.c.jobs))) {
		if j := p.c.jobs[id]; j.Type == ActionDropSchema && j.State == JobSynced && j.SchemaName == s.DBName.L {
			drop = j
			break
		}
	}
	if drop == nil {
		return refuse(errDBNotExists, "Can't find dropped database: %s in DDL history jobs", s.DBName.O)
	}
	old := p.c.dbAt(drop.SchemaID, drop.StartTS)
	if old == nil {
		return refuse(errDBNotExists, "database %d is not known any more", drop.SchemaID)
	}
	db := old.clone()
	if s.NewName != "" {
		db.Name = MakeName(s.NewName)
	}
	if p.c.Database(db.Name.L) != nil {
		return refuse(errDBExists, "Schema '%s' already been recover to or exists", db.Name.O)
	}
	db.State = StateNone
	args := &recoverArgs{Info: recoverInfo{
		DBInfo: db, LoadOnExecute: true, DropJobID: drop.ID, SnapshotTS: drop.StartTS, OldSchemaName: old.Name,
	}}
	j := p.job(ActionRecoverSchema, nil, nil, args)
	j.info.Involving = []Involving{{Database: db.Name.L, Table: "*"}}
	if db.Name.L != old.Name.L {
		j.info.Involving = append(j.info.Involving, Involving{Database: old.Name.L, Table: "*"})
	}
	return nil
}

// recoverStep first sees to it that the data is not deleted, then brings the
// table or database back.
func (w *work) recoverStep(a *recoverArgs) error {
	if w.info.Type == ActionRecoverSchema {
		return w.recoverSchema(a)
	}
	r := a.Info.Tables[0]
	if other := w.c.tableIn(r.SchemaID, r.TableInfo.Name.L); other != nil || w.c.alive(r.TableInfo.ID) {
		return w.cancel(errTableExists, "Table '%s' already exists", r.TableInfo.Name.O)
	}
	if w.info.SchemaState == StateNone {
		a.CheckFlag = gcHeld
		r.TableInfo.State, w.info.SchemaState = StateWriteOnly, StateWriteOnly
		return nil
	}
	t := r.TableInfo
	t.State, t.UpdateTS = StatePublic, w.start
	w.bump(func(d *SchemaDiff) {
		for _, id := range append(t.partitionIDs(), t.ID) {
			d.AffectedOptions = append(d.AffectedOptions, &AffectedOption{TableID: id, OldTableID: id})
		}
	})
	stored := t.copied()
	w.bringCounters(r.SchemaID, t, r.AutoIDs)
	w.revise(r.SchemaID, stored)
	w.doneTable(StatePublic, t)
	return nil
}

// copied is the table as TiDB writes one that it has copied: lists that are
// not there have become empty.
func (t *TableInfo) copied() *TableInfo {
	out := t.clone()
	if out.Indices == nil {
		out.Indices = []*IndexInfo{}
	}
	if p := out.Partition; p != nil {
		if p.Adding == nil {
			p.Adding = []PartitionDef{}
		}
		if p.Dropping == nil {
			p.Dropping = []PartitionDef{}
		}
	}
	return out
}

// bringCounters writes the counters that a table had.
func (w *work) bringCounters(db int64, t *TableInfo, ids autoIDs) {
	put := func(name string, v int64) {
		w.put(hashKey(db, fmt.Sprint(name, t.ID)), []byte(strconv.FormatInt(v, 10)))
	}
	put("TID:", ids.RowID)
	if ids.IncrementID > 0 {
		put("IID:", ids.IncrementID)
	}
	if ids.RandomID > 0 {
		put("TARID:", ids.RandomID)
	}
}

func (w *work) recoverSchema(a *recoverArgs) error {
	db := a.Info.DBInfo
	if w.c.Database(db.Name.L) != nil {
		return w.cancel(errDBExists, "Can't create database '%s'; database exists", db.Name.O)
	}
	if w.info.SchemaState == StateNone {
		a.CheckFlag = gcHeld
		db.State, w.info.SchemaState = StateWriteOnly, StateWriteOnly
		return nil
	}
	w.info.SchemaID = db.ID
	w.bump(func(d *SchemaDiff) {
		d.ReadTableFromMeta = true
		d.AffectedOptions = []*AffectedOption{}
	})
	db.State = StatePublic
	w.putDB(db)
	tables := w.c.tablesAt(db.ID, a.Info.SnapshotTS)
	slices.SortFunc(tables, func(x, y *TableInfo) int { return cmp.Compare(x.ID, y.ID) })
	for _, old := range tables {
		t := old.copied()
		t.State, t.UpdateTS = StatePublic, w.start
		w.bringCounters(db.ID, t, w.c.autoIDs(db.ID, t.ID))
		w.putTable(db.ID, t)
	}
	w.doneDB(StatePublic, db)
	return nil
}
