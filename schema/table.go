package schema

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// Table is what readers of the table see: its public and visible columns, its
// public indexes, its key and its partitions. zone is the one in which columns
// of version 0 keep TIMESTAMP defaults; nil means UTC.
func (t *TableInfo) Table(db *DBInfo, zone *time.Location) (*event.Table, error) {
	out := &event.Table{
		ID:             t.ID,
		SchemaID:       db.ID,
		Schema:         db.Name.O,
		Name:           t.Name.O,
		Kind:           t.kind(),
		Charset:        t.Charset,
		Collation:      t.Collate,
		Comment:        t.Comment,
		Version:        t.UpdateTS,
		ShardRowIDBits: t.ShardRowIDBits,
		AutoRandomBits: t.AutoRandomBits,
	}
	if err := t.columns(out, zone); err != nil {
		return nil, err
	}
	if err := t.indexes(out); err != nil {
		return nil, err
	}
	if err := t.handle(out); err != nil {
		return nil, err
	}
	out.Key = chooseKey(out, t)
	t.parts(out)
	if t.View != nil {
		out.View = &event.ViewDef{Select: t.View.Select, Columns: originals(t.View.Columns)}
	}
	return out, nil
}

func (t *TableInfo) parts(out *event.Table) {
	p := t.Partition
	if p == nil || !p.Enable {
		return
	}
	// While a plain table is being partitioned, it stands there as the one
	// partition of itself.
	if len(p.Definitions) == 1 && p.Definitions[0].ID == t.ID {
		return
	}
	out.PartitionBy = &event.PartitionBy{Kind: event.PartitionKind(p.Type), Expr: p.Expr, Columns: originals(p.Columns)}
	out.Partitions = make([]event.Partition, len(p.Definitions))
	for i, d := range p.Definitions {
		out.Partitions[i] = event.Partition{ID: d.ID, Name: d.Name.O, LessThan: d.LessThan, InValues: d.InValues}
	}
}

// originals are the names as written.
func originals(names []Name) []string {
	if len(names) == 0 {
		return nil
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n.O
	}
	return out
}

// keeping is t with the column in sight that a running DROP COLUMN has hidden.
func (t *TableInfo) keeping(j *Job) (*TableInfo, error) {
	name, err := parseDropColumn(j)
	if err != nil {
		return nil, err
	}
	out := *t
	out.Columns = slices.Clone(t.Columns)
	for i := range out.Columns {
		if c := &out.Columns[i]; c.Name.L == strings.ToLower(name.O) && j.SchemaState != SchemaPublic {
			c.State = SchemaPublic
		}
	}
	return &out, nil
}

func (t *TableInfo) kind() event.Kind {
	switch {
	case t.View != nil:
		return event.View
	case present(t.Sequence):
		return event.Sequence
	case t.TempTableType != 0:
		return event.TemporaryTable
	}
	return event.BaseTable
}

func (t *TableInfo) columns(out *event.Table, zone *time.Location) error {
	out.Columns = make([]event.Column, 0, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		if !c.shown() {
			continue
		}
		col := event.Column{
			ID:            c.ID,
			Name:          c.Name.O,
			Type:          event.Type(c.Type.Tp),
			Flag:          event.Flag(c.Type.Flag),
			Flen:          c.Type.Flen,
			Decimal:       c.Type.Decimal,
			Charset:       c.Type.Charset,
			Collation:     c.Type.Collate,
			Elems:         c.Type.Elems,
			Comment:       c.Comment,
			Default:       c.defaultText(),
			DefaultIsExpr: c.DefaultIsExpr,
		}
		if c.GeneratedExpr != "" {
			col.GenExpr, col.Generated = c.GeneratedExpr, event.Virtual
			if c.GeneratedStored {
				col.Generated = event.Stored
			}
		}
		if err := fillAbsent(&col, c, t.UpdateTS, zone); err != nil {
			return cdcerr.SchemaSnapshot.Wrap(err, "table %s (id %d)", t.Name.O, t.ID)
		}
		out.Columns = append(out.Columns, col)
	}
	return nil
}

// shownAt maps the offset of a column in the metadata to its place in
// event.Table.Columns, −1 where readers do not see it.
func (t *TableInfo) shownAt() []int {
	at, next := make([]int, len(t.Columns)), 0
	for i := range t.Columns {
		at[i] = -1
		if t.Columns[i].shown() {
			at[i] = next
			next++
		}
	}
	return at
}

func (t *TableInfo) indexes(out *event.Table) error {
	at := t.shownAt()
	if t.PKIsHandle {
		for i, c := range out.Columns {
			if c.Flag&event.FlagPriKey != 0 {
				parts := []event.IndexPart{{Column: i, Length: event.FullLength}}
				out.Indexes = append(out.Indexes, event.Index{Name: "PRIMARY", Parts: parts, Unique: true, Primary: true})
				break
			}
		}
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if x.State != SchemaPublic {
			continue
		}
		idx := event.Index{
			ID: x.ID, Name: x.Name.O, Unique: x.Unique || x.Primary, Primary: x.Primary,
			Invisible: x.Invisible, Global: x.Global, Comment: x.Comment, Condition: x.Condition,
		}
		for _, c := range x.Columns {
			if c.Offset < 0 || c.Offset >= len(at) {
				return cdcerr.SchemaSnapshot.New("table %s (id %d): index %s has a column at offset %d of %d", t.Name.O, t.ID, x.Name.O, c.Offset, len(at))
			}
			if at[c.Offset] < 0 && x.Primary {
				return cdcerr.SchemaSnapshot.New("table %s (id %d): its primary key has the column at offset %d, which readers do not see", t.Name.O, t.ID, c.Offset)
			}
			part := event.IndexPart{Column: at[c.Offset], Length: c.Length}
			if hidden := &t.Columns[c.Offset]; hidden.Hidden {
				part.Expr = hidden.GeneratedExpr
			}
			idx.Parts = append(idx.Parts, part)
		}
		out.Indexes = append(out.Indexes, idx)
	}
	return nil
}

func (t *TableInfo) handle(out *event.Table) error {
	if !t.PKIsHandle && !t.CommonHandle {
		return nil
	}
	out.Handle.Kind = event.IntHandle
	if t.CommonHandle {
		out.Handle.Kind = event.CommonHandle
	}
	for _, x := range out.Indexes {
		if x.Primary {
			out.Handle.Parts = x.Parts
			return nil
		}
	}
	return cdcerr.SchemaSnapshot.New("table %s (id %d): its rows are keyed by a primary key that is not among its columns", t.Name.O, t.ID)
}

// chooseKey picks the columns that name a row for a sink: the primary key, else
// the unique index that every row is in with columns that every event carries
// whole, of the fewest columns, then of the smallest id. A unique index over a
// virtual column is never it, since no event carries the value; nor is one that
// is unique among some rows only, or per element of an array.
func chooseKey(t *event.Table, info *TableInfo) []int {
	partial := make(map[int64]bool, len(info.Indexes))
	for i := range info.Indexes {
		x := &info.Indexes[i]
		partial[x.ID] = x.MultiValued || x.Condition != ""
	}
	var best *event.Index
	for i := range t.Indexes {
		x := &t.Indexes[i]
		switch {
		case x.Primary:
			return keyColumns(x)
		case !x.Unique || partial[x.ID] || !namesEveryRow(t, x):
		case best == nil || len(x.Parts) < len(best.Parts) || (len(x.Parts) == len(best.Parts) && x.ID < best.ID):
			best = x
		}
	}
	if best == nil {
		return nil
	}
	return keyColumns(best)
}

func namesEveryRow(t *event.Table, x *event.Index) bool {
	for _, p := range x.Parts {
		if p.Column < 0 || p.Length != event.FullLength {
			return false
		}
		if c := &t.Columns[p.Column]; !c.NotNull() || c.Generated == event.Virtual {
			return false
		}
	}
	return len(x.Parts) > 0
}

func keyColumns(x *event.Index) []int {
	out := make([]int, len(x.Parts))
	for i, p := range x.Parts {
		out[i] = p.Column
	}
	return out
}
