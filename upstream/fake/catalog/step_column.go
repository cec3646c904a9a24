package catalog

import "slices"

// addColumn takes a column through its states, at the end of the table; when it
// turns public it is put into its place.
func (w *work) addColumn(a *columnArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	db := w.info.SchemaID
	col := t.column(a.Column.Name.L)
	if col == nil {
		col = a.Column.clone()
		t.MaxColumnID++
		col.ID, col.Offset, col.State = t.MaxColumnID, len(t.Columns), StateNone
		t.Columns = append(t.Columns, col)
		a.Column.ID, a.Column.Offset, a.Column.State = col.ID, col.Offset, StateDeleteOnly
	} else if w.info.SchemaState == StateNone {
		return w.cancel(errDupColumn, "Duplicate column name '%s'", col.Name.O)
	}
	if w.rollingback() {
		return w.dropAdded(t, col)
	}
	switch w.info.SchemaState {
	case StateNone:
		col.State = StateDeleteOnly
	case StateDeleteOnly:
		col.State = StateWriteOnly
	case StateWriteOnly:
		col.State = StateWriteReorg
	case StateWriteReorg:
		if w.hold() {
			w.touch(t)
			return nil
		}
		to, err := t.place(a.Position, col.Offset)
		if err != nil {
			return w.cancel(errBadField, "Unknown column in position of '%s'", col.Name.O)
		}
		t.moveColumn(col.Offset, to)
		col.State = StatePublic
		w.bump(nil)
		w.update(db, t)
		w.doneTable(StatePublic, t)
		return nil
	}
	w.bump(nil)
	w.update(db, t)
	w.info.SchemaState = col.State
	if w.info.SchemaState == StateWriteReorg {
		w.ready()
	}
	return nil
}

// dropAdded takes a column that was being added away again.
func (w *work) dropAdded(t *TableInfo, col *ColumnInfo) error {
	w.bump(nil)
	switch col.State {
	case StateWriteReorg, StateWriteOnly:
		col.State = StateDeleteOnly
		w.update(w.info.SchemaID, t)
		w.info.SchemaState = StateDeleteOnly
	default:
		t.Columns = slices.Delete(t.Columns, col.Offset, col.Offset+1)
		t.renumber()
		w.update(w.info.SchemaID, t)
		w.doneTable(StateNone, t)
	}
	return nil
}

// dropColumn takes a column and the index that is over it alone away: out of
// sight, then out of writers' hands, then its data.
func (w *work) dropColumn(a *columnArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	col := t.column(a.Column.Name.L)
	if col == nil {
		return w.cancel(errCannotDropKey, "column %s doesn't exist", a.Column.Name.O)
	}
	if w.hold() {
		w.touch(t)
		return nil
	}
	indexes := t.indexesOn(col.Name.L)
	set := func(s State) {
		col.State = s
		for _, i := range indexes {
			i.State = s
		}
		w.info.SchemaState = s
	}
	switch w.info.SchemaState {
	case StatePublic:
		t.moveColumn(col.Offset, len(t.Columns)-1)
		set(StateWriteOnly)
	case StateWriteOnly:
		t.moveColumn(col.Offset, len(t.Columns)-1)
		set(StateDeleteOnly)
	case StateDeleteOnly:
		set(StateDeleteReo)
	default:
		for _, i := range indexes {
			a.IndexIDs = append(a.IndexIDs, i.ID)
		}
		t.dropIndexes(indexes)
		t.Columns = slices.Delete(t.Columns, col.Offset, col.Offset+1)
		t.renumber()
		a.PartitionIDs = t.partitionIDs()
		w.bump(nil)
		w.update(w.info.SchemaID, t)
		w.doneTable(StateNone, t)
		return nil
	}
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	return nil
}

func (t *TableInfo) dropIndexes(drop []*IndexInfo) {
	t.Indices = slices.DeleteFunc(t.Indices, func(i *IndexInfo) bool { return slices.Contains(drop, i) })
}

// partitionIDs are the ids of the partitions, nil where there are none.
func (t *TableInfo) partitionIDs() []int64 {
	if t.Partition == nil {
		return nil
	}
	return idsOf(t.Partition.Definitions)
}

// setDefault replaces a column's default.
func (w *work) setDefault(a *defaultArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	if w.hold() {
		w.touch(t)
		return nil
	}
	col := t.column(a.Column.Name.L)
	if col == nil || col.State != StatePublic {
		return w.cancel(errBadField, "Unknown column '%s'", a.Column.Name.O)
	}
	col.Default, col.DefaultBit, col.DefaultIsExpr = a.Column.Default, a.Column.DefaultBit, a.Column.DefaultIsExpr
	col.Type.Flag = a.Column.Type.Flag
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.doneTable(StatePublic, t)
	return nil
}
