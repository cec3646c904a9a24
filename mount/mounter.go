package mount

import (
	"fmt"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// How much a Mounter allocates at once. Whoever keeps one row keeps its whole
// chunk alive, so chunks are small: 14 kB of rows, 80 kB of values, 4 kB of keys.
const (
	rowChunk   = 128
	valueChunk = 2048
	byteChunk  = 4096
)

// Mounter makes rows. It hands out memory from chunks, so that a row costs far
// less than one allocation. The zero Mounter allocates for each row anew.
type Mounter struct {
	rows   slab[event.Row]
	values slab[event.Value]
	bytes  slab[byte]
}

// New is a Mounter for a stream of rows.
func New() *Mounter {
	return &Mounter{
		rows:   slab[event.Row]{chunk: rowChunk},
		values: slab[event.Value]{chunk: valueChunk},
		bytes:  slab[byte]{chunk: byteChunk},
	}
}

// Row is Mounter.Row for a single row.
func Row(raw *event.RawKV, t *event.Table) (*event.Row, error) {
	var m Mounter
	return m.Row(raw, t)
}

// Row decodes a change by t, the table in force at its commit-ts. It is nil,
// without an error, for the deletion of a row that never was: TiKV sends one
// for a row that a transaction both inserted and deleted.
func (m *Mounter) Row(raw *event.RawKV, t *event.Table) (*event.Row, error) {
	id, handle, ok := ParseRecordKey(raw.Key)
	if !ok {
		return nil, cdcerr.CorruptKey.New("key %X given for a row of table %s is no record key", raw.Key, t.FullName())
	}
	r := reader{m: m, t: t, key: raw.Key, handle: handle}
	if err := r.checkHandle(); err != nil {
		return nil, cdcerr.CorruptKey.Wrap(err, "table %s, key %X", t.FullName(), raw.Key)
	}
	var before, after event.Image
	var err error
	if len(raw.Old) > 0 {
		if before, err = r.image(raw.Old, false); err != nil {
			return nil, cdcerr.CorruptRow.Wrap(err, "table %s, key %X, value before the change", t.FullName(), raw.Key)
		}
	}
	switch raw.Op {
	case event.Put:
		if after, err = r.image(raw.Value, true); err != nil {
			return nil, cdcerr.CorruptRow.Wrap(err, "table %s, key %X", t.FullName(), raw.Key)
		}
	case event.Delete:
		if before == nil {
			return nil, nil
		}
	default:
		return nil, cdcerr.Bug("mount: a change of table %s with operation %d", t.FullName(), raw.Op)
	}
	row := &m.rows.take(1)[0]
	*row = event.Row{
		StartTS: raw.StartTS, CommitTS: raw.CommitTS, Table: t, PhysicalID: id, Key: raw.Key,
		Before: before, After: after, Raw: raw,
	}
	return row, nil
}

// reader decodes the images of one change.
type reader struct {
	m      *Mounter
	t      *event.Table
	key    []byte
	handle []byte
}

// image decodes one side of a change; fresh says that t is the table by which
// it was written.
func (r *reader) image(value []byte, fresh bool) (event.Image, error) {
	cells := r.m.values.take(len(r.t.Columns))
	if len(value) == 0 {
		return nil, fmt.Errorf("a row value without bytes")
	}
	if value[0] != versionV2 {
		if err := r.readV1(value, cells); err != nil {
			return nil, err
		}
		if err := r.fillFromHandle(cells); err != nil {
			return nil, err
		}
		r.fillAbsent(cells)
		return cells, nil
	}
	v2, err := parseV2(value)
	if err != nil {
		return nil, err
	}
	if err := r.verifyBytes(&v2); err != nil {
		return nil, err
	}
	unknown, err := r.readV2(&v2, cells)
	if err != nil {
		return nil, err
	}
	if err := r.fillFromHandle(cells); err != nil {
		return nil, err
	}
	if fresh {
		if err := r.verifyColumns(&v2, cells, unknown); err != nil {
			return nil, err
		}
	}
	r.fillAbsent(cells)
	return cells, nil
}

// fillFromHandle takes key columns that the value does not have from the key.
// A cell of the value wins: it is always whole, while the key may hold a sort
// key or a prefix.
func (r *reader) fillFromHandle(cells event.Image) error {
	missing := false
	for _, p := range r.t.Handle.Parts {
		missing = missing || (p.Column >= 0 && p.Column < len(cells) && cells[p.Column].IsMissing())
	}
	if !missing {
		return nil
	}
	if r.t.Handle.Kind == event.IntHandle {
		cells[r.t.Handle.Parts[0].Column] = r.intHandle()
		return nil
	}
	return r.eachHandlePart(func(p event.IndexPart, v event.Value) {
		if cells[p.Column].IsMissing() {
			cells[p.Column] = v
		}
	})
}

// fillAbsent gives every column that the row is too old for, or that the
// writer left out because it is NULL, what the schema says about it.
func (r *reader) fillAbsent(cells event.Image) {
	for i := range cells {
		if c := &r.t.Columns[i]; cells[i].IsMissing() && c.Generated != event.Virtual {
			cells[i] = c.Absent
		}
	}
}

// column finds the column with this id. The next id usually belongs to the next
// column: next remembers which. known is false where the table does not show it.
func (r *reader) column(id int64, next *int) (at int, known bool) {
	columns := r.t.Columns
	for range columns {
		if *next >= len(columns) {
			*next = 0
		}
		at = *next
		*next++
		if columns[at].ID == id {
			return at, true
		}
	}
	return 0, false
}

// set stores a cell, unless the column is virtual.
func (r *reader) set(cells event.Image, at int, v event.Value) error {
	c := &r.t.Columns[at]
	if !cells[at].IsMissing() {
		return fmt.Errorf("column %s stands twice", c.Name)
	}
	if c.Generated != event.Virtual {
		cells[at] = v
	}
	return nil
}

// slab hands out pieces of chunks. Nothing is ever given back.
type slab[T any] struct {
	free  []T
	chunk int
}

// take is n zero items.
func (s *slab[T]) take(n int) []T {
	if n > len(s.free) {
		if n > s.chunk/4 { // would waste what is left of the chunk for one row
			return make([]T, n)
		}
		s.free = make([]T, s.chunk)
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}
