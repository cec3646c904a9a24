package catalog

import (
	"fmt"
	"strings"
)

type createTablesArgs struct {
	Tables []*createTableArgs `json:"tables,omitempty"`
}

// Merge makes one job of several that create a table in the same database, as
// TiDB does with those that wait at the same time while tables are created fast
// (tidb_enable_fast_create_table). The merged jobs must not have been started.
func Merge(jobs []*Job) (*Job, error) {
	if len(jobs) < 2 {
		return nil, fmt.Errorf("catalog: nothing to merge among %d jobs", len(jobs))
	}
	args := &createTablesArgs{}
	var queries []string
	first := jobs[0]
	merged := &Job{c: first.c, args: args, info: first.info}
	merged.info.Type, merged.info.TableID, merged.info.Involving = ActionCreateTables, 0, nil
	for _, j := range jobs {
		one, ok := j.args.(*createTableArgs)
		if !ok || j.info.Type != ActionCreateTable || j.info.ID != 0 || j.info.SchemaID != first.info.SchemaID || len(one.Table.ForeignKeys) > 0 {
			return nil, fmt.Errorf("catalog: a job of action %d on %s.%s cannot be merged", j.info.Type, j.info.SchemaName, j.info.TableName)
		}
		args.Tables = append(args.Tables, one)
		queries = append(queries, strings.TrimSuffix(strings.TrimSpace(j.info.Query), ";")+";")
		merged.info.Involving = append(merged.info.Involving, Involving{Database: j.info.SchemaName, Table: j.info.TableName})
	}
	merged.info.Query = strings.Join(queries, " ")
	merged.assign = func(ids *allocator) {
		for _, one := range args.Tables {
			one.Table.ID = ids.next()
			one.Table.numberPartitions(ids)
		}
	}
	return merged, nil
}

// createTables makes all tables in one step.
func (w *work) createTables(a *createTablesArgs) error {
	db := w.info.SchemaID
	for _, one := range a.Tables {
		if w.c.tableIn(db, one.Table.Name.L) != nil {
			return w.cancel(errTableExists, "Table '%s' already exists", one.Table.Name.O)
		}
	}
	w.bump(func(d *SchemaDiff) {
		for _, one := range a.Tables {
			id := one.Table.ID
			d.AffectedOptions = append(d.AffectedOptions, &AffectedOption{SchemaID: db, TableID: id, OldTableID: id, OldSchemaID: db})
		}
	})
	w.done(StatePublic)
	for _, one := range a.Tables {
		one.Table.State, one.Table.UpdateTS = StatePublic, w.start
		w.putTable(db, one.Table)
		w.info.Binlog.MultipleTableInfos = append(w.info.Binlog.MultipleTableInfos, one.Table)
	}
	return nil
}

// Conflicts tells whether TiDB would let one of the jobs wait until the other
// has ended: they work on the same table, or one of them on a whole database of
// the other's.
func (j *Job) Conflicts(o *Job) bool {
	for _, a := range j.involves() {
		for _, b := range o.involves() {
			if a.Policy != b.Policy || a.ResourceGroup != b.ResourceGroup || a.Database != b.Database {
				continue
			}
			if a.Table == b.Table || a.Table == "*" || b.Table == "*" {
				return true
			}
		}
	}
	return false
}

// involves is what a job works on, by name.
func (j *Job) involves() []Involving {
	out := []Involving{{Database: j.info.SchemaName, Table: j.info.TableName}}
	if j.info.TableName == "" {
		out = nil
	}
	for _, i := range j.info.Involving {
		i.Mode = 0
		out = append(out, i)
	}
	return out
}
