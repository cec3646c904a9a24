package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// run does one step of the job.
func (w *work) run() error {
	if w.info.Type == ActionMultiSchemaChange {
		return w.runMulti()
	}
	return w.runAction()
}

// runAction does one step of the job's action.
func (w *work) runAction() error {
	switch a := w.j.args.(type) {
	case *createSchemaArgs:
		return w.createSchema(a)
	case *createTableArgs:
		switch w.info.Type {
		case ActionCreateView:
			return w.createView(a)
		case ActionCreateSequence:
			return w.createSequence(a)
		}
		return w.createTable(a)
	case *createTablesArgs:
		return w.createTables(a)
	case *recoverArgs:
		return w.recoverStep(a)
	case *alterSequenceArgs:
		return w.alterSequence(a)
	case *policyArgs:
		return w.policyStep(a)
	case *groupArgs:
		return w.groupStep(a)
	case *columnArgs:
		if w.info.Type == ActionAddColumn {
			return w.addColumn(a)
		}
		return w.dropColumn(a)
	case *defaultArgs:
		return w.setDefault(a)
	case *modifyArgs:
		return w.modifyColumn(a)
	case *indexArgs:
		switch w.info.Type {
		case ActionAddIndex, ActionAddPrimaryKey:
			return w.addIndex(a)
		case ActionRenameIndex:
			return w.renameIndex(a)
		}
		return w.dropIndex(a)
	case *visibilityArgs:
		return w.indexVisibility(a)
	case *checkArgs:
		return w.checkConstraint(a)
	case *foreignKeyArgs:
		return w.foreignKeyStep(a)
	}
	return w.runTable()
}

// runTable does one step of an action on a whole table or database.
func (w *work) runTable() error {
	switch w.info.Type {
	case ActionDropSchema:
		return w.dropSchema()
	case ActionCacheTable, ActionNoCacheTable:
		return w.cacheTable()
	}
	switch a := w.j.args.(type) {
	case *charsetArgs:
		if w.info.Type == ActionSchemaCharset {
			return w.schemaCharset(a)
		}
	case *policyRefArgs:
		if w.info.Type == ActionSchemaPolicy {
			return w.setSchemaPolicy(a)
		}
	case *dropTableArgs:
		return w.dropTable(a)
	case *truncateArgs:
		return w.truncateTable(a)
	case *renameArgs:
		return w.renameTable(a)
	case *renamesArgs:
		return w.renameTables(a)
	case *partitionArgs:
		switch w.info.Type {
		case ActionAddPartition:
			return w.addPartition(a)
		case ActionDropPartition:
			return w.dropPartition(a)
		}
		return w.reorganize(a)
	case *truncatePartitionArgs:
		return w.truncatePartition(a)
	case *partitionPolicyArgs:
		return w.setPartitionPolicy(a)
	case *exchangeArgs:
		return w.exchangePartition(a)
	case *commentArgs, *rebaseArgs, *idCacheArgs, *shardBitsArgs, *ttlArgs, *replicaArgs, *attributesArgs, *emptyArgs:
	default:
		return fmt.Errorf("no steps for action %d", w.info.Type)
	}
	return w.tableOption(w.j.args)
}

// keepsArgs tells whether a job's arguments stay in its history: those that say
// what data is left to delete, or what to recover.
func keepsArgs(a Action) bool {
	return slices.Contains([]Action{
		ActionDropSchema, ActionDropTable, ActionDropColumn, ActionAddIndex, ActionDropIndex, ActionTruncateTable,
		ActionModifyColumn, ActionDropPartition, ActionTruncatePartition, ActionRecoverTable, ActionAddPrimaryKey,
		ActionDropPrimaryKey, ActionRecoverSchema, ActionReorganize, ActionPartitionBy, ActionRemovePartition,
	}, a)
}

// bump takes the next schema version and says what it changes: the job's own
// table, unless set says more.
func (w *work) bump(set func(*SchemaDiff)) {
	if w.multi != nil && w.multi.skip {
		return
	}
	w.version = w.c.Version() + 1
	d := &SchemaDiff{Version: w.version, Type: w.info.Type, SchemaID: w.info.SchemaID, TableID: w.info.TableID}
	if set != nil {
		set(d)
	}
	w.put("SchemaVersionKey", []byte(strconv.FormatInt(w.version, 10)))
	w.putJSON(fmt.Sprint("Diff:", w.version), d)
}

// putJSON writes a form of this package.
func (w *work) putJSON(key string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = nil // not reached: every form can be written
	}
	w.put(key, text)
}

func hashKey(db int64, field string) string { return fmt.Sprintf("DB:%d/%s", db, field) }
func tableKey(db, id int64) string          { return hashKey(db, fmt.Sprint("Table:", id)) }
func dbKey(id int64) string                 { return fmt.Sprint("DBs/DB:", id) }

func (w *work) putDB(db *DBInfo) { w.putJSON(dbKey(db.ID), db) }

// update writes a table that was there before.
func (w *work) update(db int64, t *TableInfo) {
	if t.State == StatePublic {
		t.UpdateTS = w.start
	}
	w.revise(db, t)
}

// revise writes a table that was there before, as of the same time.
func (w *work) revise(db int64, t *TableInfo) {
	t.Revision++
	w.putTable(db, t)
}

// putTable writes a table as it is.
func (w *work) putTable(db int64, t *TableInfo) {
	w.putJSON(tableKey(db, t.ID), t)
	w.written[tableKey(db, t.ID)] = t
}

// doneTable ends the job with a table.
func (w *work) doneTable(state State, t *TableInfo) {
	w.done(state)
	w.info.Binlog.TableInfo = t
}

// doneDB ends the job with a database.
func (w *work) doneDB(state State, db *DBInfo) {
	w.done(state)
	w.info.Binlog.DBInfo = db
}

func (w *work) done(state State) {
	w.info.State, w.info.SchemaState = JobDone, state
	if w.j.failure != nil {
		w.info.State = JobRollbackDone
	}
	w.info.Binlog.SchemaVersion = w.version
	if w.multi != nil && w.multi.skip {
		w.info.Binlog.SchemaVersion = 0
	}
}

// cancel ends a job that finds nothing to do its work on.
func (w *work) cancel(code int, format string, args ...any) error {
	w.info.State = JobCancelled
	w.info.Err = &JobError{Class: 4, Code: code, Message: fmt.Sprintf(format, args...), RFCCode: fmt.Sprint("schema:", code)}
	w.info.ErrCount++
	return nil
}

// table is the job's table, to be changed: as this step has left it, where it
// has changed it before.
func (w *work) table() (*TableInfo, error) {
	t := w.written[tableKey(w.info.SchemaID, w.info.TableID)]
	if t == nil {
		t = w.c.tables[w.info.SchemaID][w.info.TableID]
	}
	if t == nil {
		return nil, w.cancel(errNoSuchTable, "Table '%s.%s' doesn't exist", w.info.SchemaName, w.info.TableName)
	}
	return t.clone(), nil
}

func (t *TableInfo) clone() *TableInfo {
	out := *t
	out.Columns = slices.Clone(t.Columns)
	for i, c := range t.Columns {
		out.Columns[i] = c.clone()
	}
	out.Indices = slices.Clone(t.Indices)
	for i, x := range t.Indices {
		out.Indices[i] = x.clone()
	}
	out.Constraints = slices.Clone(t.Constraints)
	for i, c := range t.Constraints {
		x := *c
		x.Cols = slices.Clone(c.Cols)
		out.Constraints[i] = &x
	}
	out.ForeignKeys = slices.Clone(t.ForeignKeys)
	for i, k := range t.ForeignKeys {
		x := *k
		x.Cols, x.RefCols = slices.Clone(k.Cols), slices.Clone(k.RefCols)
		out.ForeignKeys[i] = &x
	}
	if t.Partition != nil {
		out.Partition = t.Partition.clone()
	}
	if t.View != nil {
		v := *t.View
		out.View = &v
	}
	if t.Sequence != nil {
		s := *t.Sequence
		out.Sequence = &s
	}
	if t.Exchange != nil {
		e := *t.Exchange
		out.Exchange = &e
	}
	if t.TTL != nil {
		x := *t.TTL
		out.TTL = &x
	}
	out.Policy = t.Policy.clone()
	return &out
}
