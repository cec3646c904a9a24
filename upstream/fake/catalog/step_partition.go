package catalog

import (
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// addPartition lets every server know of new partitions before the first row
// can go to them.
func (w *work) addPartition(a *partitionArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	p := t.Partition
	w.bump(nil)
	if w.info.SchemaState == StateNone {
		for _, d := range a.Info.Definitions {
			if p.definition(d.Name.L) >= 0 {
				return w.cancel(errPartitionDup, "Duplicate partition name %s", d.Name.O)
			}
		}
		p.Adding = cloneDefs(a.Info.Definitions)
		p.DDLState, p.DDLAction = StateReplica, int(w.info.Type)
		w.update(w.info.SchemaID, t)
		w.info.SchemaState = StateReplica
		return nil
	}
	p.Definitions = append(p.Definitions, p.Adding...)
	p.Adding = nil
	p.DDLState, p.DDLAction = StateNone, 0
	w.update(w.info.SchemaID, t)
	w.doneTable(StatePublic, t)
	return nil
}

// hasGlobal tells whether the table has an index over all partitions.
func (t *TableInfo) hasGlobal() bool {
	return slices.ContainsFunc(t.Indices, func(i *IndexInfo) bool { return i.Global })
}

// cleansGlobal is the step in which entries of dropped partitions are taken
// out of global indexes; it tells whether this is that step.
func (w *work) cleansGlobal(t *TableInfo) bool {
	if !t.hasGlobal() || w.info.SnapshotVer != 0 {
		return false
	}
	w.snapshot()
	return true
}

// cleanedGlobal notes that it has been done.
func (w *work) cleanedGlobal(t *TableInfo) {
	if t.hasGlobal() && w.info.Reorg == nil {
		w.info.Reorg = &ReorgMeta{
			Warnings: map[string]*JobError{}, WarningsCount: map[string]int64{}, Location: &Location{Name: "UTC"}, Version: reorgVersion,
		}
	}
}

// dropPartition takes partitions out of sight, then out of writers' hands, then away.
func (w *work) dropPartition(a *partitionArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	p := t.Partition
	if a.Info == nil {
		a.Info = &PartitionInfo{}
	}
	set := func(s State) {
		p.DDLState = s
		w.bump(nil)
		w.update(w.info.SchemaID, t)
		w.info.SchemaState = s
	}
	switch w.info.SchemaState {
	case StatePublic:
		p.Dropping = cloneDefs(slices.DeleteFunc(slices.Clone(p.Definitions), func(d PartitionDef) bool { return !slices.Contains(a.Names, d.Name.L) }))
		p.DDLAction = int(w.info.Type)
		set(StateWriteOnly)
	case StateWriteOnly:
		p.Definitions = slices.DeleteFunc(p.Definitions, func(d PartitionDef) bool { return slices.Contains(a.Names, d.Name.L) })
		set(StateDeleteOnly)
	case StateDeleteOnly:
		set(StateDeleteReo)
	default:
		if w.cleansGlobal(t) {
			return nil
		}
		w.cleanedGlobal(t)
		a.OldIDs = idsOf(p.Dropping)
		w.bump(func(d *SchemaDiff) {
			for _, id := range a.OldIDs {
				d.AffectedOptions = append(d.AffectedOptions, &AffectedOption{TableID: id, OldTableID: id})
			}
		})
		p.Dropping = nil
		p.DDLState, p.DDLAction = StateNone, 0
		w.update(w.info.SchemaID, t)
		w.doneTable(StateNone, t)
	}
	return nil
}

// truncatePartition gives partitions new ids: from its second step on writers
// write under them.
func (w *work) truncatePartition(a *truncatePartitionArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	p := t.Partition
	set := func(s State) {
		p.DDLState = s
		w.bump(nil)
		w.revise(w.info.SchemaID, t)
		w.info.SchemaState = s
	}
	switch w.info.SchemaState {
	case StatePublic:
		p.NewIDs, p.DDLAction = slices.Clone(a.NewIDs), int(w.info.Type)
		set(StateWriteOnly)
	case StateWriteOnly:
		for i := range p.Definitions {
			if n := slices.Index(a.OldIDs, p.Definitions[i].ID); n >= 0 {
				p.Dropping = append(p.Dropping, p.Definitions[i])
				p.Definitions[i].ID = a.NewIDs[n]
			}
		}
		set(StateDeleteOnly)
	case StateDeleteOnly:
		set(StateDeleteReo)
	default:
		if w.cleansGlobal(t) {
			return nil
		}
		w.cleanedGlobal(t)
		w.bump(func(d *SchemaDiff) {
			for i, id := range p.NewIDs {
				d.AffectedOptions = append(d.AffectedOptions, &AffectedOption{TableID: id, OldTableID: a.OldIDs[i]})
			}
		})
		p.Dropping, p.NewIDs = nil, nil
		p.DDLState, p.DDLAction = StateNone, 0
		a.NewIDs = nil
		w.revise(w.info.SchemaID, t)
		w.doneTable(StateNone, t)
	}
	return nil
}

// renews tells whether the job gives the whole table a new id.
func (w *work) renews() bool {
	return w.info.Type == ActionPartitionBy || w.info.Type == ActionRemovePartition
}

// reorganize moves rows into new partitions, while writers write both.
func (w *work) reorganize(a *partitionArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	if t.Partition == nil {
		whole := PartitionDef{ID: t.ID, Name: MakeName(fullTable), Comment: fullTableComment}
		t.Partition = &PartitionInfo{Enable: true, Definitions: []PartitionDef{whole}, Num: 1}
	}
	p := t.Partition
	if w.rollingback() {
		return w.undoMove(t, a)
	}
	set := func(s State) {
		p.DDLState = s
		w.bump(w.renewed)
		w.update(w.info.SchemaID, t)
		w.info.SchemaState = s
	}
	switch w.info.SchemaState {
	case StateNone:
		w.beginMove(p, a)
		set(StateDeleteOnly)
	case StateDeleteOnly:
		set(StateWriteOnly)
	case StateWriteOnly:
		set(StateWriteReorg)
		w.backfill = &Backfill{Kind: MovePartitions, Table: t, Old: cloneDefs(p.Dropping), New: cloneDefs(p.Adding)}
	case StateWriteReorg:
		w.snapshot()
		w.reorgType(1)
		w.switchPartitions(p)
		set(StateDeleteReo)
	case StateDeleteReo:
		set(StatePublic)
	default:
		w.endMove(t, a)
	}
	return nil
}

// renewed says in a version that the table keeps its id until the end.
func (w *work) renewed(d *SchemaDiff) {
	if w.renews() {
		d.OldTableID = w.info.TableID
	}
}

func (w *work) beginMove(p *PartitionInfo, a *partitionArgs) {
	p.Adding = cloneDefs(a.Info.Definitions)
	p.Dropping = cloneDefs(slices.DeleteFunc(slices.Clone(p.Definitions), func(d PartitionDef) bool { return !slices.Contains(a.Names, d.Name.L) }))
	p.DDLAction = int(w.info.Type)
	p.DDLType, p.DDLExpr, p.DDLColumns = a.Info.Type, a.Info.Expr, slices.Clone(a.Info.Columns)
	p.NewTableID = a.Info.NewTableID
	if !w.renews() {
		p.OriginalOrder = idsOf(p.Definitions)
	}
}

// switchPartitions makes the new partitions the ones that are read.
func (w *work) switchPartitions(p *PartitionInfo) {
	if w.renews() {
		p.Definitions = cloneDefs(p.Adding)
		p.Type, p.DDLType = p.DDLType, p.Type
		p.Expr, p.DDLExpr = p.DDLExpr, p.Expr
		p.Columns, p.DDLColumns = p.DDLColumns, p.Columns
	} else {
		p.Definitions = replaceDefs(p.Definitions, p.Dropping, p.Adding)
	}
	p.Num = uint64(len(p.Definitions))
}

// undoMove drops the new partitions again.
func (w *work) undoMove(t *TableInfo, a *partitionArgs) error {
	p := t.Partition
	a.OldIDs = idsOf(p.Adding)
	p.Adding, p.Dropping, p.OriginalOrder = nil, nil, nil
	p.DDLState, p.DDLAction, p.NewTableID = StateNone, 0, 0
	p.DDLType, p.DDLExpr, p.DDLColumns = 0, "", nil
	if ast.PartitionType(p.Type) == ast.PartitionTypeNone {
		t.Partition = nil
	}
	w.bump(w.renewed)
	w.update(w.info.SchemaID, t)
	w.doneTable(StateNone, t)
	return nil
}

// endMove drops the old partitions, and with a new way to cut the table its old id.
func (w *work) endMove(t *TableInfo, a *partitionArgs) {
	p := t.Partition
	added, dropped := idsOf(p.Adding), idsOf(p.Dropping)
	old := t.ID
	if w.renews() && !slices.Contains(dropped, old) {
		dropped = append(dropped, old)
	}
	a.OldIDs = dropped
	w.bump(func(d *SchemaDiff) {
		if w.renews() {
			d.TableID, d.OldTableID = p.NewTableID, old
		}
		for i := range max(len(added), len(dropped)) {
			o := &AffectedOption{}
			if i < len(added) {
				o.TableID = added[i]
			}
			if i < len(dropped) {
				o.OldTableID = dropped[i]
			}
			d.AffectedOptions = append(d.AffectedOptions, o)
		}
	})
	p.Adding, p.Dropping, p.OriginalOrder = nil, nil, nil
	p.DDLState, p.DDLAction = StateNone, 0
	db := w.info.SchemaID
	if w.renews() {
		w.put(tableKey(db, old), nil)
		t.ID = p.NewTableID
		p.NewTableID = 0
		p.DDLType, p.DDLExpr, p.DDLColumns = 0, "", nil
		for _, counter := range counters {
			w.put(hashKey(db, fmt.Sprint(counter, t.ID)), w.counter(db, counter, old))
		}
		if ast.PartitionType(p.Type) == ast.PartitionTypeNone {
			t.Partition = nil
		}
	}
	w.update(db, t)
	w.doneTable(StateNone, t)
}

// counters are what a table's ids are counted with.
var counters = []string{"TID:", "IID:", "TARID:"}

// counter is the value of a table's counter, as text.
func (w *work) counter(db int64, name string, table int64) []byte {
	if v := w.c.other[hashKey(db, fmt.Sprint(name, table))]; v != nil {
		return v
	}
	return []byte("0")
}

func (w *work) setPartitionPolicy(a *partitionPolicyArgs) error {
	return w.at(func(t *TableInfo) error {
		for i := range t.Partition.Definitions {
			if t.Partition.Definitions[i].ID == a.ID {
				t.Partition.Definitions[i].Policy = a.Policy
			}
		}
		return nil
	})
}
