package catalog

import (
	"fmt"
	"strconv"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

type exchangeArgs struct {
	PartitionID int64  `json:"partition_id,omitempty"`
	SchemaID    int64  `json:"pt_schema_id,omitempty"`
	TableID     int64  `json:"pt_table_id,omitempty"`
	Partition   string `json:"partition_name,omitempty"`
	Validate    bool   `json:"with_validation,omitempty"`
}

// exchange plans that a partition and a table change places. The job is one on
// the table.
func (a *alteration) exchange(s *ast.AlterTableSpec) (*change, error) {
	if a.multi {
		return nil, refuse(errUnsupported, "Unsupported multi schema change for exchange partition")
	}
	at, err := a.chosen(s.PartitionNames, false)
	if err != nil {
		return nil, err
	}
	db, t, err := a.planner.table(s.NewTable)
	if err != nil {
		return nil, err
	}
	switch {
	case t.View != nil || t.Sequence != nil:
		return nil, refuse(errWrongObject, "'%s.%s' is not BASE TABLE", db.Name.O, t.Name.O)
	case t.Partition != nil:
		return nil, refuse(1732, "Table to exchange with partition is partitioned: '%s'", t.Name.O)
	case len(t.ForeignKeys) > 0:
		return nil, refuse(1740, "Table to exchange with partition has foreign key references: '%s'", t.Name.O)
	}
	if err := a.alike(t); err != nil {
		return nil, err
	}
	def := a.table.Partition.Definitions[at[0]]
	args := &exchangeArgs{PartitionID: def.ID, SchemaID: a.db.ID, TableID: a.table.ID, Partition: def.Name.L, Validate: s.WithValidation}
	j := a.job(ActionExchangePartition, db, t, args)
	j.schemas, j.tables = []int64{a.db.ID, db.ID}, []int64{a.table.ID, t.ID}
	j.info.Involving = []Involving{{Database: a.db.Name.L, Table: a.table.Name.L}, {Database: db.Name.L, Table: t.Name.L}}
	return nil, nil
}

// alike refuses a table whose rows are not those of the partitioned one.
func (a *alteration) alike(t *TableInfo) error {
	different := refuse(1736, "Tables have different definitions")
	if len(t.Columns) != len(a.table.Columns) || t.PKIsHandle != a.table.PKIsHandle || t.IsCommonHandle != a.table.IsCommonHandle {
		return different
	}
	for i, c := range a.table.Columns {
		o := t.Columns[i]
		if c.ID != o.ID || c.Name.L != o.Name.L || c.Type.Tp != o.Type.Tp || c.Type.Flen != o.Type.Flen || c.Type.Decimal != o.Type.Decimal {
			return different
		}
	}
	return nil
}

// exchangePartition marks the table, looks whether its rows fit if it is asked
// to, and lets the two change ids.
func (w *work) exchangePartition(a *exchangeArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	db := w.info.SchemaID
	pt := w.c.tables[a.SchemaID][a.TableID]
	if pt == nil || pt.Partition == nil {
		return w.cancel(errNoSuchTable, "the partitioned table does not exist")
	}
	diff := func(id int64) {
		w.bump(func(d *SchemaDiff) {
			d.TableID, d.OldTableID, d.OldSchemaID = id, t.ID, db
			d.AffectedOptions = []*AffectedOption{{SchemaID: a.SchemaID, TableID: a.TableID}}
		})
	}
	if w.rollingback() {
		t.Exchange = nil
		w.reportFailure()
		diff(t.ID)
		w.revise(db, t)
		w.doneTable(StateNone, t)
		return nil
	}
	if w.info.SchemaState == StateNone {
		t.Exchange = &ExchangeInfo{TableID: a.TableID, DefID: a.PartitionID}
		diff(t.ID)
		w.revise(db, t)
		w.info.SchemaState = StateWriteOnly
		if a.Validate {
			w.backfill = &Backfill{Kind: CheckPartition, Table: pt, Old: []PartitionDef{{ID: t.ID, Name: MakeName(a.Partition)}}}
		}
		return nil
	}
	pt = pt.clone()
	at := pt.Partition.definition(fold(a.Partition))
	if at < 0 {
		return w.cancel(errUnknownPart, "Unknown partition '%s'", a.Partition)
	}
	diff(a.PartitionID)
	w.exchangeCounters(db, t, a)
	w.put(tableKey(db, t.ID), nil)
	pt.Partition.Definitions[at].ID = t.ID
	t.ID, t.Exchange = a.PartitionID, nil
	w.revise(a.SchemaID, pt)
	w.revise(db, t)
	w.doneTable(StateNone, pt)
	return nil
}

// exchangeCounters lets both tables count on from where the further one is.
func (w *work) exchangeCounters(db int64, t *TableInfo, a *exchangeArgs) {
	for _, name := range counters {
		v := max(number(w.counter(db, name, t.ID)), number(w.counter(a.SchemaID, name, a.TableID)))
		text := []byte(strconv.FormatInt(v, 10))
		w.put(hashKey(a.SchemaID, fmt.Sprint(name, a.TableID)), text)
		w.put(hashKey(db, fmt.Sprint(name, a.PartitionID)), text)
	}
}

// number reads decimal text; what is none counts as 0.
func number(text []byte) int64 {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
