package encode

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-cdc/sluice/event"
)

// Cell is one column of a row to be stored. A column that the row does not
// store (it is in the key, virtual, or older than its row) has no Cell.
type Cell struct {
	Column *event.Column
	Value  Value
}

// Row format 2.
const (
	version2      = 0x80
	flagLarge     = 0x01
	flagChecksums = 0x02
)

// stored is a cell in its stored form.
type stored struct {
	id int64
	datum
}

func storedCells(cells []Cell) ([]stored, error) {
	out := make([]stored, len(cells))
	for i, c := range cells {
		d, err := datumOf(c.Column, c.Value)
		if err != nil {
			return nil, err
		}
		out[i] = stored{id: c.Column.ID, datum: d}
	}
	return out, nil
}

// Row1 is a row value in format 1: pairs of column id and value in the order
// of cells. TiDB writes its own tables so.
func Row1(cells []Cell) ([]byte, error) {
	if len(cells) == 0 {
		return []byte{flagNull}, nil
	}
	all, err := storedCells(cells)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, c := range all {
		out = binary.AppendVarint(append(out, flagVarint), c.id)
		out = c.appendRow1(out)
	}
	return out, nil
}

// Row2 is a row value in format 2, with the checksum that sum asks for; cells
// in any order.
func Row2(cells []Cell, sum Checksum) ([]byte, error) {
	all, err := storedCells(cells)
	if err != nil {
		return nil, err
	}
	// Not-null cells first, then nulls, each part by id.
	slices.SortFunc(all, func(a, b stored) int {
		return cmp.Or(nullLast(a)-nullLast(b), cmp.Compare(a.id, b.id))
	})
	notNull := 0
	large := false
	var data []byte
	ends := make([]uint32, 0, len(all))
	for _, c := range all {
		if c.id <= 0 || c.id > math.MaxUint32 {
			return nil, fmt.Errorf("encode: column id %d", c.id)
		}
		large = large || c.id > math.MaxUint8
		if c.form == formNull {
			continue
		}
		notNull++
		data = c.appendRow2(data)
		if len(data) > math.MaxUint32 {
			return nil, fmt.Errorf("encode: a row of more than %d bytes", uint32(math.MaxUint32))
		}
		ends = append(ends, uint32(len(data)))
	}
	large = large || len(data) > math.MaxUint16

	out := []byte{version2, 0}
	if large {
		out[1] |= flagLarge
	}
	out = binary.LittleEndian.AppendUint16(out, uint16(notNull))
	out = binary.LittleEndian.AppendUint16(out, uint16(len(all)-notNull))
	for _, c := range all {
		out = appendSized(out, uint32(c.id), large, 1)
	}
	for _, end := range ends {
		out = appendSized(out, end, large, 2)
	}
	out = append(out, data...)
	return sum.append(out)
}

func nullLast(c stored) int {
	if c.form == formNull {
		return 1
	}
	return 0
}

// appendSized appends a number in four bytes in a large row, else in small.
func appendSized(dst []byte, v uint32, large bool, small int) []byte {
	switch {
	case large:
		return binary.LittleEndian.AppendUint32(dst, v)
	case small == 2:
		return binary.LittleEndian.AppendUint16(dst, uint16(v))
	}
	return append(dst, byte(v))
}
