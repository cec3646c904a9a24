package schema

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// change is one job being taken into the store.
type change struct {
	*Store
	job *Job
	ts  tso.TS // switch-ts
	row *JobRow
	ddl *event.DDL
	// nothing says that the store held the result already.
	nothing bool
}

// apply carries a job's effect into the store. The DDL is nil where nobody
// downstream has to do anything.
func (s *Store) apply(st *step) (*event.DDL, error) {
	c := &change{Store: s, job: st.done.Job, ts: st.switchTS, row: st.done}
	c.ddl = c.describe()
	if err := c.effect(st); err != nil {
		return nil, err
	}
	if st.silent || c.nothing {
		return nil, nil
	}
	return c.ddl, nil
}

// effect is the one switch over what a job does.
func (c *change) effect(st *step) error {
	switch a := c.job.Type; {
	case !a.Known():
		return cdcerr.UnknownDDL.New("job %d, done at %d, is of type %d: %s", c.job.ID, c.row.CommitTS, a, c.job.Query)
	case a == event.ActionCreateSchema:
		return c.createSchema()
	case a == event.ActionDropSchema:
		return c.dropSchema()
	case a == event.ActionRecoverSchema:
		return c.recoverSchema(st.answer)
	case creates(a) || a == event.ActionRecoverTable:
		return c.createTables()
	case a == event.ActionDropTable || a == event.ActionDropView || a == event.ActionDropSequence:
		return c.dropTable()
	case a == event.ActionRenameTables:
		return c.renames()
	case a == event.ActionExchangePartition:
		return c.exchange()
	case c.job.Binlog.DBInfo != nil && c.job.Binlog.TableInfo == nil:
		return c.alterSchema()
	case c.job.Binlog.TableInfo != nil:
		return c.replace()
	case needsTable(a):
		return c.invalid("has no table info")
	}
	return nil // placement policies, resource groups, locks: no table changes
}

// needsTable tells whether a job of this kind without a table info would leave
// the store with a wrong shape.
func needsTable(a event.Action) bool {
	switch a {
	case event.ActionAddColumn, event.ActionDropColumn, event.ActionAddColumns, event.ActionDropColumns, event.ActionModifyColumn, event.ActionSetDefault,
		event.ActionAddIndex, event.ActionDropIndex, event.ActionDropIndexes, event.ActionAddPrimaryKey, event.ActionDropPrimaryKey,
		event.ActionTruncateTable, event.ActionAddPartition, event.ActionDropPartition, event.ActionTruncatePartition, event.ActionReorganizePartition,
		event.ActionAlterPartitioning, event.ActionRemovePartitioning, event.ActionMultiSchemaChange, event.ActionTableCharset, event.ActionRenameTable:
		return true
	}
	return false
}

func (c *change) createSchema() error {
	db := c.job.Binlog.DBInfo
	if db == nil {
		return c.invalid("has no database info")
	}
	c.databases[db.ID] = db
	c.ddl.DatabaseAfter = database(db)
	return nil
}

func (c *change) alterSchema() error {
	db := c.job.Binlog.DBInfo
	before := c.databases[db.ID]
	if before == nil {
		return cdcerr.SchemaNotFound.New("job %d of type %d changes database %d: %s", c.job.ID, c.job.Type, db.ID, c.job.Query)
	}
	c.databases[db.ID] = db
	c.ddl.DatabaseBefore, c.ddl.DatabaseAfter = database(before), database(db)
	return nil
}

func (c *change) dropSchema() error {
	db := c.databases[c.job.SchemaID]
	if db == nil {
		return cdcerr.SchemaNotFound.New("job %d drops database %d: %s", c.job.ID, c.job.SchemaID, c.job.Query)
	}
	delete(c.databases, db.ID)
	c.ddl.DatabaseBefore = database(db)
	var gone []*event.Table
	for _, l := range c.lines {
		if t := l.now(); t != nil && t.SchemaID == db.ID {
			gone = append(gone, t)
		}
	}
	slices.SortFunc(gone, func(a, b *event.Table) int { return cmp.Compare(a.ID, b.ID) })
	for _, t := range gone {
		c.move(t, nil)
	}
	return nil
}

// recoverSchema brings a database back under its old id, perhaps with another
// name, and its tables under theirs.
func (c *change) recoverSchema(tables []*TableInfo) error {
	if err := c.createSchema(); err != nil {
		return err
	}
	db := c.job.Binlog.DBInfo
	tables = slices.SortedFunc(slices.Values(tables), func(a, b *TableInfo) int { return cmp.Compare(a.ID, b.ID) })
	for _, info := range tables {
		t, err := c.table(info, db.ID)
		if err != nil {
			return err
		}
		c.move(nil, t)
	}
	return nil
}

// createTables adds the tables of a job that are not there yet: a creation may
// be told twice, and by fast create table after the snapshot has it.
func (c *change) createTables() error {
	infos := c.job.Binlog.MultipleTableInfos
	if c.job.Type != event.ActionCreateTables {
		infos = []*TableInfo{c.job.Binlog.TableInfo}
	}
	c.nothing = true
	for _, info := range infos {
		if info == nil {
			return c.invalid("has no table info")
		}
		if c.lines[info.ID].now() != nil {
			continue
		}
		t, err := c.table(info, c.job.SchemaID)
		if err != nil {
			return err
		}
		c.nothing = false
		c.move(c.replaced(t), t)
	}
	if len(infos) == 0 {
		return c.invalid("has no table infos")
	}
	return nil
}

// replaced is the view of the same name: CREATE OR REPLACE VIEW makes a new
// one, and no job drops the old.
func (c *change) replaced(t *event.Table) *event.Table {
	if t.Kind != event.View {
		return nil
	}
	id, ok := c.names[nameOf(t)]
	if !ok {
		return nil
	}
	return c.lines[id].now()
}

func (c *change) dropTable() error {
	before, err := c.known(c.job.TableID)
	if err != nil {
		return err
	}
	c.move(before, nil)
	return nil
}

// replace is what most jobs do: one table has a new shape, and perhaps a new
// id (TRUNCATE, PARTITION BY, REMOVE PARTITIONING), or a new name and database:
// a renamed table's job belongs to the database that it went to.
func (c *change) replace() error {
	before, err := c.known(c.job.TableID)
	if err != nil {
		return err
	}
	after, err := c.table(c.job.Binlog.TableInfo, c.job.SchemaID)
	if err != nil {
		return err
	}
	c.move(before, after)
	c.ddl.Conversions, err = conversions(c.job, before, after)
	return err
}

// renames walks the tables in the order of the statement: a table may stand
// there twice (a→tmp, b→a, tmp→b), and the last name stays.
func (c *change) renames() error {
	args, err := parseRenames(c.job)
	if err != nil {
		return err
	}
	infos := c.job.Binlog.MultipleTableInfos
	if len(infos) != len(args) {
		return c.invalid("renames %d tables and describes %d", len(args), len(infos))
	}
	for i, arg := range args {
		if infos[i] == nil || infos[i].ID != arg.TableID {
			return c.invalid("renames table %d and describes another", arg.TableID)
		}
		before, err := c.known(arg.TableID)
		if err != nil {
			return err
		}
		after, err := c.table(infos[i], arg.NewSchemaID)
		if err != nil {
			return err
		}
		after.Name = arg.NewTableName.O // the infos of a chain may all show its end
		c.move(before, after)
	}
	return nil
}

// exchange swaps identities: the plain table takes the partition's id with its
// rows, the partition takes the table's. Only the partitioned table is in the job.
func (c *change) exchange() error {
	arg, err := parseExchange(c.job)
	if err != nil {
		return err
	}
	if c.job.Binlog.TableInfo == nil {
		return c.invalid("has no table info")
	}
	plain, err := c.known(c.job.TableID)
	if err != nil {
		return err
	}
	parted, err := c.known(arg.TableID)
	if err != nil {
		return err
	}
	after, err := c.table(c.job.Binlog.TableInfo, parted.SchemaID)
	if err != nil {
		return err
	}
	moved := *plain
	moved.ID = arg.PartitionID // TiDB leaves its version as it was
	c.ddl.Partition, c.ddl.WithValidation = arg.PartitionName, arg.Validation
	c.ddl.Tables = []event.TableChange{{Before: parted, After: after}, {Before: plain, After: &moved}}
	c.close(plain, c.ts)
	c.close(parted, c.ts)
	c.open(after, c.ts)
	c.open(&moved, c.ts)
	return nil
}

// move puts after in the place of before; either may be nil.
func (c *change) move(before, after *event.Table) {
	if before != nil {
		c.close(before, c.ts)
		delete(c.unsettled, before.ID)
	}
	if after != nil {
		c.open(after, c.ts)
	}
	c.ddl.Tables = append(c.ddl.Tables, event.TableChange{Before: before, After: after})
}

// known is a table that must exist.
func (c *change) known(id int64) (*event.Table, error) {
	if t := c.lines[id].now(); t != nil {
		return t, nil
	}
	return nil, cdcerr.TableNotFound.New("job %d of type %d is about table %d: %s", c.job.ID, c.job.Type, id, c.job.Query)
}

// table is info as readers see it, in the database of that id.
func (c *change) table(info *TableInfo, schemaID int64) (*event.Table, error) {
	db := c.databases[schemaID]
	if db == nil {
		return nil, cdcerr.SchemaNotFound.New("job %d of type %d puts table %d into database %d: %s", c.job.ID, c.job.Type, info.ID, schemaID, c.job.Query)
	}
	return info.Table(db, c.zone)
}

func (c *change) invalid(format string, args ...any) error {
	return cdcerr.InvalidDDLJob.New("job %d of type %d %s", c.job.ID, c.job.Type, fmt.Sprintf(format, args...))
}

func database(db *DBInfo) *event.Database {
	return &event.Database{ID: db.ID, Name: db.Name.O, Charset: db.Charset, Collation: db.Collate}
}
