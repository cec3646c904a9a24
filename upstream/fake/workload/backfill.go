package workload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
)

// backfillBatch is how many rows one transaction of a backfill writes: few, so
// that writers come between.
const backfillBatch = 16

// MySQL's numbers of what a backfill fails for.
const (
	errDuplicate    = 1062
	errNoPartition  = 1526
	errRowElsewhere = 1737
)

// backfill does what a job's step asks for. A *catalog.Error fails the job.
func (s *Server) backfill(ctx context.Context, b *catalog.Backfill) error {
	switch b.Kind {
	case catalog.ConvertColumn:
		return s.rewrite(ctx, b, physical(b.Table), func(catalog.KV) bool { return true })
	case catalog.MovePartitions:
		return s.rewrite(ctx, b, idsOf(b.Old), func(kv catalog.KV) bool { return slices.Contains(idsOf(b.New), tableOf(kv.Key)) })
	}
	return s.look(ctx, b)
}

func physical(t *catalog.TableInfo) []int64 {
	if t.Partition == nil {
		return []int64{t.ID}
	}
	return idsOf(t.Partition.Definitions)
}

func idsOf(defs []catalog.PartitionDef) []int64 {
	var out []int64
	for _, d := range defs {
		out = append(out, d.ID)
	}
	return out
}

// tableOf is the physical table of a record key: t and the id.
func tableOf(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[1:9]) ^ 1<<63) }

// rowIDOf is the hidden row id in a record key.
func rowIDOf(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[len(key)-8:]) ^ 1<<63)
}

// rewrite writes every row of some physical tables again, by the shape of now,
// as far as the keys are wanted.
func (s *Server) rewrite(ctx context.Context, b *catalog.Backfill, ids []int64, want func(catalog.KV) bool) error {
	shape, err := s.shapeOf(b.Table.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		keys, err := s.keys(ctx, id)
		if err != nil {
			return err
		}
		for batch := range slices.Chunk(keys, backfillBatch) {
			err := s.rewriteBatch(ctx, b, shape, batch, want)
			for live.Retry(err) {
				err = s.rewriteBatch(ctx, b, shape, batch, want)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) rewriteBatch(ctx context.Context, b *catalog.Backfill, shape *catalog.Shape, keys [][]byte, want func(catalog.KV) bool) error {
	txn, err := s.client.Begin(ctx, live.Options{TxnSource: b.Source})
	if err != nil {
		return err
	}
	for line, key := range keys {
		r, err := s.stored(ctx, txn, shape, key)
		if err != nil {
			return err
		}
		if r == nil {
			continue // deleted since
		}
		kvs, err := shape.Put(r.row(), s.sort, sumOf(shape))
		if err != nil {
			return err
		}
		row, err := written(shape, r)
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			if want(kv) {
				txn.Put(kv.Key, kv.Value)
				s.remember(kv.Key, Written{StartTS: txn.StartTS(), Row: row, Line: int64(line), Backfill: true})
			}
		}
	}
	_, err = txn.Commit(ctx)
	return err
}

// stored is the row under a key, as a transaction reads it, by the columns of a
// shape; nil where it does not exist.
func (s *Server) stored(ctx context.Context, txn *live.Txn, shape *catalog.Shape, key []byte) (*Record, error) {
	value, err := txn.Get(ctx, key)
	if err != nil || value == nil {
		return nil, err
	}
	row, ok, err := s.Newest(key, txn.StartTS())
	if err != nil || !ok {
		return nil, errors.Join(err, fmt.Errorf("key %X exists, and is not remembered", key))
	}
	r := &Record{RowID: rowIDOf(key)}
	for i := range shape.Table.Columns {
		c := &shape.Table.Columns[i]
		cell, ok := row[c.ID]
		if !ok {
			if cell, err = origin(shape.Info, c); err != nil {
				return nil, err
			}
		}
		r.Cells = append(r.Cells, cell)
	}
	return r, nil
}

// origin is what a row that is older than a column has in it.
func origin(t *catalog.TableInfo, c *event.Column) (Cell, error) {
	for _, info := range t.Columns {
		if info.ID != c.ID {
			continue
		}
		text, ok := info.OriginDefault.(string)
		switch {
		case len(info.OriginDefaultBit) > 0:
			return Cell{Value: bigEndian(info.OriginDefaultBit), Blind: true}, nil
		case ok && c.Type == event.TypeBit:
			return Cell{Value: bigEndian([]byte(text)), Blind: true}, nil
		case ok:
			v, err := encode.Parse(c, text)
			if err != nil {
				return Cell{}, err
			}
			plain, err := event.ParseText(c, text)
			return Cell{Value: v, Text: plain.Text(c)}, err
		}
	}
	return null, nil
}

func bigEndian(raw []byte) uint64 {
	var v uint64
	for _, b := range raw {
		v = v<<8 | uint64(b)
	}
	return v
}

func (s *Server) shapeOf(table int64) (*catalog.Shape, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shape := range s.current.tables {
		if shape.Table.ID == table {
			return shape, nil
		}
	}
	return nil, fmt.Errorf("table %d is not public", table)
}

// keys are the keys of a physical table's rows as they are now.
func (s *Server) keys(ctx context.Context, id int64) ([][]byte, error) {
	at, err := s.client.Cluster().Timestamp(ctx)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	start := encode.RecordKey(id, nil)
	err = s.client.Scan(ctx, at, start, next(start), func(p live.Pair) bool {
		out = append(out, p.Key)
		return true
	})
	return out, err
}

// next is the first key behind all that begin with a prefix.
func next(prefix []byte) []byte {
	end := slices.Clone(prefix)
	end[len(end)-1]++
	return end
}

// look goes through the rows of a table for what would fail its job.
func (s *Server) look(ctx context.Context, b *catalog.Backfill) error {
	ids, check := physical(b.Table), s.checker(b)
	if b.Kind == catalog.CheckPartition {
		ids = idsOf(b.Old[:1])
	}
	for _, id := range ids {
		keys, err := s.keys(ctx, id)
		if err != nil {
			return err
		}
		for _, key := range keys {
			row, ok, err := s.Newest(key, tso.Max)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := check(key, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// checker is what look does with each row.
func (s *Server) checker(b *catalog.Backfill) func(key []byte, row Row) error {
	switch b.Kind {
	case catalog.FillIndexes:
		seen := map[string]bool{}
		return func(_ []byte, row Row) error { return duplicate(b, row, seen) }
	case catalog.CheckPartition:
		return func(key []byte, row Row) error { return s.belongs(b, key, row) }
	}
	return func(_ []byte, row Row) error {
		shape, err := s.shapeOf(b.Table.ID)
		if err != nil {
			return err
		}
		for i := range shape.Table.Columns {
			c := &shape.Table.Columns[i]
			if cell, ok := row[c.ID]; ok && c.ID == b.Column.ID {
				if cell.Null && b.Column.Type.Flag&uint(event.FlagNotNull) != 0 {
					return &catalog.Error{Code: 1138, Message: "Invalid use of NULL value"}
				}
				to := *c
				to.Flen, to.Decimal, to.Flag = b.Column.Type.Flen, b.Column.Type.Decimal, event.Flag(b.Column.Type.Flag)
				to.Type, to.Elems = event.Type(b.Column.Type.Tp), b.Column.Type.Elems
				if _, err := catalog.Convert(c, cell.Value, &to, shape.Zone); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// duplicate refuses two rows with the same key in a unique index.
func duplicate(b *catalog.Backfill, row Row, seen map[string]bool) error {
	for _, x := range b.Indexes {
		if !x.Unique {
			continue
		}
		key := []string{fmt.Sprint(x.ID)}
		for _, part := range x.Columns {
			cell, ok := row[b.Table.Columns[part.Offset].ID]
			if !ok || cell.Null {
				key = nil // NULLs are never equal
				break
			}
			key = append(key, fmt.Sprint(cell.Value))
		}
		text := strings.Join(key, "\x00")
		if key != nil && seen[text] {
			return &catalog.Error{Code: errDuplicate, Message: fmt.Sprintf("Duplicate entry for key '%s'", x.Name.O)}
		}
		seen[text] = true
	}
	return nil
}

// belongs refuses a row that is not of the partition that it is to be exchanged into.
func (s *Server) belongs(b *catalog.Backfill, key []byte, row Row) error {
	shape, err := s.shapeOf(b.Table.ID)
	if err != nil {
		return err
	}
	r := &Record{RowID: rowIDOf(key)}
	for i := range shape.Table.Columns {
		cell, ok := row[shape.Table.Columns[i].ID]
		if !ok {
			cell = null
		}
		r.Cells = append(r.Cells, cell)
	}
	kvs, err := shape.Delete(r.row(), s.sort)
	if err != nil {
		return &catalog.Error{Code: errNoPartition, Message: err.Error()}
	}
	for _, d := range b.Table.Partition.Definitions {
		if d.ID == tableOf(kvs[0].Key) && d.Name.L == b.Old[0].Name.L {
			return nil
		}
	}
	return &catalog.Error{Code: errRowElsewhere, Message: "Found a row that does not match the partition"}
}
