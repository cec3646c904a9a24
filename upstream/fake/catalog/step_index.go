package catalog

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// addIndex takes indexes through their states. In the middle they are filled
// from the rows that were there before.
func (w *work) addIndex(a *indexArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	primary := w.info.Type == ActionAddPrimaryKey
	if w.info.SchemaState == StateNone {
		if err := w.beginIndexes(t, a, primary); err != nil || w.info.State == JobCancelled {
			return err
		}
	}
	var indexes []*IndexInfo
	for _, x := range a.Indexes {
		i := t.indexNamed(x.Name.L)
		if i == nil {
			return w.cancel(errCannotDropKey, "index %s doesn't exist", x.Name.O)
		}
		indexes = append(indexes, i)
	}
	if w.rollingback() {
		return w.undoIndexes(t, a, indexes)
	}
	switch w.info.SchemaState {
	case StateNone:
		w.reorgType(1)
		return w.setIndexes(t, indexes, StateDeleteOnly)
	case StateDeleteOnly:
		if primary {
			preventNull(t, indexes)
		}
		return w.setIndexes(t, indexes, StateWriteOnly)
	case StateWriteOnly:
		return w.setIndexes(t, indexes, StateWriteReorg)
	}
	switch {
	case w.info.SnapshotVer == 0:
		w.snapshot()
		w.backfill = &Backfill{Kind: FillIndexes, Table: t, Indexes: indexes}
		return nil
	case w.analyzed() == 0:
		w.analyze()
		w.ready()
		return nil
	}
	for _, i := range indexes {
		i.State = StatePublic
		if primary {
			for _, c := range i.Columns {
				t.Columns[c.Offset].Type.add(mysql.NotNullFlag)
				t.Columns[c.Offset].Type.del(flagPreventNull)
			}
		}
		i.mark(t)
	}
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	a.finish(indexes, t)
	w.doneTable(StatePublic, t)
	return nil
}

// preventNull lets writers refuse NULL in the columns of a primary key to be.
func preventNull(t *TableInfo, indexes []*IndexInfo) {
	for _, i := range indexes {
		for _, c := range i.Columns {
			if col := &t.Columns[c.Offset].Type; !col.has(mysql.NotNullFlag) {
				col.add(flagPreventNull)
			}
		}
	}
}

// finish leaves of the arguments what is needed to clean up.
func (a *indexArgs) finish(indexes []*IndexInfo, t *TableInfo) {
	a.Indexes = nil
	for _, i := range indexes {
		a.Indexes = append(a.Indexes, &indexArg{ID: i.ID, Global: i.Global})
	}
	a.PartitionIDs = t.partitionIDs()
}

// beginIndexes puts indexes and their hidden columns into the table.
func (w *work) beginIndexes(t *TableInfo, a *indexArgs, primary bool) error {
	p := &planner{c: w.c}
	for _, x := range a.Indexes {
		if t.indexNamed(x.Name.L) != nil {
			return w.cancel(errDupKeyName, "index already exist %s", x.Name.O)
		}
		for _, h := range x.Hidden {
			col := h.clone()
			t.MaxColumnID++
			col.ID, col.Offset, col.State = t.MaxColumnID, len(t.Columns), StatePublic
			t.Columns = append(t.Columns, col)
			h.ID, h.Offset, h.State = col.ID, col.Offset, col.State
		}
		i, err := p.index(t, x.spec(), StateNone)
		if err != nil {
			return w.cancel(errKeyColumn, "%v", err)
		}
		i.Condition = x.Cond
		t.MaxIndexID++
		i.ID = t.MaxIndexID
		t.Indices = append(t.Indices, i)
	}
	return nil
}

// setIndexes takes indexes one state on.
func (w *work) setIndexes(t *TableInfo, indexes []*IndexInfo, s State) error {
	for _, i := range indexes {
		i.State = s
	}
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.info.SchemaState = s
	return nil
}

// undoIndexes takes indexes that could not be filled away again.
func (w *work) undoIndexes(t *TableInfo, a *indexArgs, indexes []*IndexInfo) error {
	state := w.info.SchemaState
	switch {
	case state == StateWriteReorg, state == StateWriteOnly, state == StateDeleteOnly && w.info.Err == nil:
		a.Indexes = nil
		for _, i := range indexes {
			a.Indexes = append(a.Indexes, &indexArg{Name: i.Name})
		}
		w.reportFailure()
		return w.setIndexes(t, indexes, StateDeleteOnly)
	case state == StateDeleteOnly:
		return w.setIndexes(t, indexes, StateDeleteReo)
	}
	for _, i := range indexes {
		for _, c := range i.Columns {
			if i.Primary {
				t.Columns[c.Offset].Type.del(flagPreventNull)
			}
		}
	}
	w.removeIndexes(t, indexes)
	a.finish(indexes, t)
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.doneTable(StateNone, t)
	return nil
}

// removeIndexes takes indexes and their hidden columns out of the table.
func (w *work) removeIndexes(t *TableInfo, indexes []*IndexInfo) {
	t.dropIndexes(indexes)
	for _, i := range indexes {
		i.unmark(t)
	}
	for _, i := range indexes {
		for _, c := range i.Columns {
			col := t.column(c.Name.L)
			if col != nil && col.Hidden && len(t.indexesOn(col.Name.L)) == 0 {
				t.Columns = slices.Delete(t.Columns, col.Offset, col.Offset+1)
				t.renumber()
			}
		}
	}
}

// dropIndex takes an index away: out of sight, out of writers' hands, its data.
func (w *work) dropIndex(a *indexArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	var indexes []*IndexInfo
	for _, x := range a.Indexes {
		i := t.indexNamed(x.Name.L)
		if i == nil {
			return w.cancel(errCannotDropKey, "index %s doesn't exist", x.Name.O)
		}
		indexes = append(indexes, i)
	}
	if w.hold() {
		w.touch(t)
		return nil
	}
	switch w.info.SchemaState {
	case StatePublic:
		return w.setIndexes(t, indexes, StateWriteOnly)
	case StateWriteOnly:
		return w.setIndexes(t, indexes, StateDeleteOnly)
	case StateDeleteOnly:
		return w.setIndexes(t, indexes, StateDeleteReo)
	}
	w.removeIndexes(t, indexes)
	for n, i := range indexes {
		a.Indexes[n].ID = i.ID
		a.Indexes[n].Global = i.Global
	}
	a.PartitionIDs = t.partitionIDs()
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.doneTable(StateNone, t)
	return nil
}

// at changes a table in one step.
func (w *work) at(change func(t *TableInfo) error) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	if w.hold() {
		w.touch(t)
		return nil
	}
	if err := change(t); err != nil {
		return w.cancel(errUnsupported, "%v", err)
	}
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.doneTable(StatePublic, t)
	return nil
}

func (w *work) renameIndex(a *indexArgs) error {
	return w.at(func(t *TableInfo) error {
		i := t.indexNamed(a.Indexes[0].Name.L)
		if i == nil {
			return refuse(1176, "Key '%s' doesn't exist", a.Indexes[0].Name.O)
		}
		i.Name = a.Indexes[1].Name
		return nil
	})
}

func (w *work) indexVisibility(a *visibilityArgs) error {
	return w.at(func(t *TableInfo) error {
		i := t.indexNamed(a.Name.L)
		if i == nil {
			return refuse(1176, "Key '%s' doesn't exist", a.Name.O)
		}
		i.Invisible = a.Invisible
		return nil
	})
}
