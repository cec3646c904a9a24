package catalog

import (
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// Names of what stands in the table while a column is converted: the new column
// and index under way, and the old ones on their way out.
const (
	changingColumn = "_Col$_%s_%d"
	changingIndex  = "_Idx$_%s_%d"
	tombstone      = "_Tombstone$_%s"
)

// Stages of a converting backfill: rows, then indexes, then done.
const (
	stageRows    = 1
	stageIndexes = 2
	stageDone    = 3
)

// modifyColumn changes a column: at once, or after a look at all values, or by
// a second column that takes its place.
func (w *work) modifyColumn(a *modifyArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	if a.OldID == 0 {
		old := t.column(a.OldName.L)
		if old == nil || old.State != StatePublic {
			return w.cancel(errBadField, "Unknown column '%s'", a.OldName.O)
		}
		a.OldID, a.Kind = old.ID, kindOf(old, a.Column, w.strict())
	}
	switch a.Kind {
	case modifyRewrite:
		return w.rewriteColumn(t, a)
	case modifyCheck:
		return w.checkColumn(t, a)
	}
	if w.hold() {
		w.touch(t)
		return nil
	}
	return w.replaceColumn(t, a)
}

func (w *work) strict() bool {
	return mysql.SQLMode(w.info.SQLMode)&(mysql.ModeStrictTransTables|mysql.ModeStrictAllTables) != 0
}

// columnByID finds a column, whatever it is called at present.
func (t *TableInfo) columnByID(id int64) *ColumnInfo {
	for _, c := range t.Columns {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// replaceColumn puts the new description in the place of the old one.
func (w *work) replaceColumn(t *TableInfo, a *modifyArgs) error {
	old := t.columnByID(a.OldID)
	if old == nil {
		return w.cancel(errBadField, "Unknown column '%s'", a.OldName.O)
	}
	col := a.Column.clone()
	col.ID, col.Offset, col.State = old.ID, old.Offset, old.State
	t.renameColumn(old.Name, col.Name)
	t.Columns[old.Offset] = col
	if err := w.moveTo(t, col, a.Position); err != nil || w.info.State == JobCancelled {
		return err
	}
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.j.args = &modifyArgs{}
	w.doneTable(StatePublic, t)
	return nil
}

func (w *work) moveTo(t *TableInfo, col *ColumnInfo, p *position) error {
	to, err := t.place(p, col.Offset)
	if err != nil {
		return w.cancel(errBadField, "Unknown column in position of '%s'", col.Name.O)
	}
	t.moveColumn(col.Offset, to)
	return nil
}

// renameColumn tells indexes and the like of a column's new name.
func (t *TableInfo) renameColumn(from, to Name) {
	for _, i := range t.Indices {
		for _, c := range i.Columns {
			if c.Name.L == from.L {
				c.Name = to
			}
		}
	}
	for _, k := range t.ForeignKeys {
		for n := range k.Cols {
			if k.Cols[n].L == from.L {
				k.Cols[n] = to
			}
		}
	}
	if t.TTL != nil && t.TTL.Column.L == from.L {
		t.TTL.Column = to
	}
}

// checkColumn lets writers refuse what will not fit before it looks at what is
// there.
func (w *work) checkColumn(t *TableInfo, a *modifyArgs) error {
	old := t.columnByID(a.OldID)
	if old == nil {
		return w.cancel(errBadField, "Unknown column '%s'", a.OldName.O)
	}
	notNull := !old.Type.has(mysql.NotNullFlag) && a.Column.Type.has(mysql.NotNullFlag)
	narrows := changesData(&old.Type, &a.Column.Type)
	begun := old.ChangingType != nil || old.Type.has(flagPreventNull)
	switch {
	case w.rollingback():
		old.ChangingType = nil
		old.Type.del(flagPreventNull)
		w.bump(nil)
		w.update(w.info.SchemaID, t)
		w.doneTable(StateNone, t)
		return nil
	case !begun:
		if notNull {
			old.Type.add(flagPreventNull)
		}
		if narrows {
			changing := a.Column.Type.clone()
			old.ChangingType = &changing
		}
		w.bump(nil)
		w.update(w.info.SchemaID, t)
		w.backfill = &Backfill{Kind: CheckColumn, Table: t, Column: a.Column}
		return nil
	}
	if w.hold() {
		w.touch(t)
		return nil
	}
	return w.replaceColumn(t, a)
}

// rewriteColumn converts every value into a column of its own.
func (w *work) rewriteColumn(t *TableInfo, a *modifyArgs) error {
	if w.rollingback() {
		return w.undoRewrite(t, a)
	}
	if w.info.SchemaState == StateNone {
		return w.beginRewrite(t, a)
	}
	var col *ColumnInfo
	if a.Changing != nil {
		col = t.columnByID(a.Changing.ID)
	}
	if col == nil {
		return w.cancel(errBadField, "Unknown column '%s'", a.OldName.O)
	}
	indexes := t.changingIndexes(col)
	set := func(s State) {
		col.State = s
		for _, i := range indexes {
			i.State = s
		}
		w.bump(nil)
		w.update(w.info.SchemaID, t)
		w.info.SchemaState = s
	}
	switch w.info.SchemaState {
	case StateDeleteOnly:
		set(StateWriteOnly)
	case StateWriteOnly:
		set(StateWriteReorg)
	case StateWriteReorg:
		return w.rewriteRows(t, a, col, indexes)
	default:
		return w.dropOld(t, a, col)
	}
	return nil
}

// changingIndexes are the indexes that are built for a column under way.
func (t *TableInfo) changingIndexes(col *ColumnInfo) []*IndexInfo { return t.indexesOn(col.Name.L) }

// beginRewrite adds the column that the values are converted into, and a copy
// of each index over it.
func (w *work) beginRewrite(t *TableInfo, a *modifyArgs) error {
	old := t.columnByID(a.OldID)
	if old == nil {
		return w.cancel(errBadField, "Unknown column '%s'", a.OldName.O)
	}
	col := a.Column.clone()
	t.MaxColumnID++
	col.ID = t.MaxColumnID
	col.Name = MakeName(t.freeColumn(old.Name.O))
	col.Offset, col.State = len(t.Columns), StateDeleteOnly
	col.ChangeState = &ChangeState{DependencyOffset: old.Offset}
	t.Columns = append(t.Columns, col)
	for _, i := range t.indexesOn(old.Name.L) {
		if i.State != StatePublic {
			continue
		}
		x := i.clone()
		t.MaxIndexID++
		x.ID = t.MaxIndexID
		x.Name = MakeName(t.freeIndex(i.Name.O))
		x.State = StateDeleteOnly
		for _, c := range x.Columns {
			if c.Name.L == old.Name.L {
				c.Name, c.Offset = col.Name, col.Offset
				if c.Length > 0 && (!col.Type.isString() || c.Length == col.Type.Flen) {
					c.Length = wholeColumn
				}
			}
		}
		t.Indices = append(t.Indices, x)
	}
	a.Changing = col.clone()
	if w.info.Reorg != nil {
		w.info.Reorg.Stage = stageRows
		if len(t.changingIndexes(col)) > 0 {
			w.reorgType(1)
		}
	}
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.info.SchemaState = StateDeleteOnly
	return nil
}

func (t *TableInfo) freeColumn(base string) string {
	for n := 0; ; n++ {
		if name := fmt.Sprintf(changingColumn, base, n); t.column(fold(name)) == nil {
			return name
		}
	}
}

func (t *TableInfo) freeIndex(base string) string {
	for n := 0; ; n++ {
		if name := fmt.Sprintf(changingIndex, base, n); t.indexNamed(fold(name)) == nil {
			return name
		}
	}
}

// rewriteRows runs the backfill: each stage takes a step to fix the snapshot
// that it reads, and one when it has ended.
func (w *work) rewriteRows(t *TableInfo, a *modifyArgs, col *ColumnInfo, indexes []*IndexInfo) error {
	r := w.info.Reorg
	switch {
	case r.Stage == stageRows && w.info.SnapshotVer == 0:
		w.snapshot()
		w.backfill = &Backfill{Kind: ConvertColumn, Table: t, Column: col, From: t.columnByID(a.OldID), Source: columnReorgSource}
		return nil
	case r.Stage == stageRows && len(indexes) > 0:
		w.info.SnapshotVer = 0
		r.Stage = stageIndexes
		return nil
	case r.Stage == stageIndexes && w.info.SnapshotVer == 0:
		w.snapshot()
		w.backfill = &Backfill{Kind: FillIndexes, Table: t, Indexes: indexes}
		return nil
	case r.Stage != stageDone:
		r.Stage = stageDone
		return nil
	case w.analyzed() == 0:
		w.analyze()
		w.ready()
		return nil
	}
	w.swap(t, a, col)
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.info.SchemaState = StatePublic
	return nil
}

// swap gives the new column the old one's name and place: from here on it is
// the one that is read.
func (w *work) swap(t *TableInfo, a *modifyArgs, col *ColumnInfo) {
	old := t.columnByID(a.OldID)
	indexes := t.changingIndexes(col)
	oldIndexes := slices.DeleteFunc(t.indexesOn(old.Name.L), func(i *IndexInfo) bool { return i.State != StatePublic })
	grave := MakeName(fmt.Sprintf(tombstone, old.Name.O))
	name := a.Column.Name
	changing := col.Name
	at, end := old.Offset, col.Offset
	for _, i := range t.Indices {
		for _, c := range i.Columns {
			switch {
			case slices.Contains(indexes, i) && c.Name.L == changing.L:
				c.Name = name
			case slices.Contains(oldIndexes, i) && c.Name.L == old.Name.L:
				c.Name = grave
			}
		}
	}
	t.Columns[at], t.Columns[end] = col, old
	col.Name, col.State, col.ChangeState = name, StatePublic, nil
	col.OriginDefault, col.OriginDefaultBit = nil, nil
	old.Name, old.State = grave, StateWriteOnly
	old.ChangeState = &ChangeState{DependencyOffset: at}
	for n, i := range indexes {
		before := oldIndexes[n]
		x, y := slices.Index(t.Indices, before), slices.Index(t.Indices, i)
		i.Name, before.Name = before.Name, MakeName(fmt.Sprintf(tombstone, before.Name.O))
		i.State, before.State = StatePublic, StateWriteOnly
		t.Indices[x], t.Indices[y] = i, before
	}
	t.renumber()
}

// dropOld takes the old column away, once it is in its grave.
func (w *work) dropOld(t *TableInfo, a *modifyArgs, col *ColumnInfo) error {
	old := t.columnByID(a.OldID)
	if old == nil {
		return w.cancel(errBadField, "Unknown column '%s'", a.OldName.O)
	}
	indexes := t.indexesOn(old.Name.L)
	if old.State == StateWriteOnly {
		if w.hold() {
			w.touch(t)
			return nil
		}
		old.State = StateDeleteOnly
		for _, i := range indexes {
			i.State = StateDeleteOnly
		}
		w.bump(nil)
		w.update(w.info.SchemaID, t)
		return nil
	}
	for _, i := range indexes {
		a.IndexIDs = append(a.IndexIDs, i.ID)
	}
	for _, i := range t.indexesOn(col.Name.L) {
		a.NewIndexIDs = append(a.NewIndexIDs, i.ID)
	}
	a.PartitionIDs = t.partitionIDs()
	t.dropIndexes(indexes)
	t.Columns = slices.Delete(t.Columns, old.Offset, old.Offset+1)
	t.renumber()
	if err := w.moveTo(t, col, a.Position); err != nil || w.info.State == JobCancelled {
		return err
	}
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.doneTable(StatePublic, t)
	return nil
}

// undoRewrite takes the new column away again.
func (w *work) undoRewrite(t *TableInfo, a *modifyArgs) error {
	var col *ColumnInfo
	if a.Changing != nil {
		col = t.columnByID(a.Changing.ID)
	}
	w.reportFailure()
	if col == nil {
		w.info.State = JobRollbackDone
		return nil
	}
	indexes := t.changingIndexes(col)
	t.dropIndexes(indexes)
	t.Columns = slices.Delete(t.Columns, col.Offset, col.Offset+1)
	t.renumber()
	for _, i := range indexes {
		a.IndexIDs = append(a.IndexIDs, i.ID)
	}
	a.PartitionIDs = t.partitionIDs()
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	w.doneTable(StateNone, t)
	return nil
}
