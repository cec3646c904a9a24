package mount

import (
	"encoding/binary"
	"fmt"

	"github.com/sluice-cdc/sluice/event"
)

// Format v2, little endian:
//
//	0x80 | flags | not-null count (2) | null count (2)
//	ids of the not-null columns, ascending, then of the null ones, ascending
//	end offset of each not-null cell
//	the cells, one after the other
//	with a checksum: header, checksum (4), with the extra bit another one (4)
//
// Ids take 1 byte and offsets 2; in a large row both take 4.
const (
	versionV2    = 0x80
	headerV2     = 6
	flagLarge    = 0x01
	flagChecksum = 0x02
)

// rowV2 is a value of format v2 taken apart. Its offsets are checked by readV2.
type rowV2 struct {
	value   []byte
	large   bool
	notNull int
	null    int
	ids     []byte
	ends    []byte
	data    []byte
	trailer []byte // empty, or the checksum's header and what follows
}

func parseV2(value []byte) (rowV2, error) {
	if len(value) < headerV2 {
		return rowV2{}, fmt.Errorf("a row value of %d bytes", len(value))
	}
	flags := value[1]
	if flags&^(flagLarge|flagChecksum) != 0 {
		return rowV2{}, fmt.Errorf("row flags %#02x are unknown", flags)
	}
	v := rowV2{
		value:   value,
		large:   flags&flagLarge != 0,
		notNull: int(binary.LittleEndian.Uint16(value[2:])),
		null:    int(binary.LittleEndian.Uint16(value[4:])),
	}
	idSize, endSize := 1, 2
	if v.large {
		idSize, endSize = 4, 4
	}
	ids := (v.notNull + v.null) * idSize
	ends := v.notNull * endSize
	rest := value[headerV2:]
	if len(rest) < ids+ends {
		return rowV2{}, fmt.Errorf("%d columns in a row value of %d bytes", v.notNull+v.null, len(value))
	}
	v.ids, v.ends, rest = rest[:ids], rest[ids:ids+ends], rest[ids+ends:]
	size := 0
	if v.notNull > 0 {
		size = v.end(v.notNull - 1)
	}
	if size < 0 || size > len(rest) {
		return rowV2{}, fmt.Errorf("cells of %d bytes, there are %d", size, len(rest))
	}
	v.data, v.trailer = rest[:size], rest[size:]
	return v, v.checkTrailer(flags&flagChecksum != 0)
}

// id is the i-th column id, the not-null ones first.
func (v *rowV2) id(i int) int64 {
	if v.large {
		return int64(binary.LittleEndian.Uint32(v.ids[4*i:]))
	}
	return int64(v.ids[i])
}

func (v *rowV2) end(i int) int {
	if v.large {
		return int(binary.LittleEndian.Uint32(v.ends[4*i:]))
	}
	return int(binary.LittleEndian.Uint16(v.ends[2*i:]))
}

// readV2 stores the cells that the value has and counts those of columns that
// the table does not show.
func (r *reader) readV2(v *rowV2, cells event.Image) (unknown int, err error) {
	next, start, last := 0, 0, int64(-1)
	for i := range v.notNull {
		id, end := v.id(i), v.end(i)
		if id <= last || end < start || end > len(v.data) {
			return 0, fmt.Errorf("column with id %d, bytes %d to %d of %d: ids and offsets must ascend", id, start, end, len(v.data))
		}
		at, known := r.column(id, &next)
		if known {
			c := &r.t.Columns[at]
			cell, err := cellV2(c, v.data[start:end])
			if err != nil {
				return 0, fmt.Errorf("column %s: %w", c.Name, err)
			}
			if err := r.set(cells, at, cell); err != nil {
				return 0, err
			}
		} else {
			unknown++
		}
		start, last = end, id
	}
	last = -1
	for i := v.notNull; i < v.notNull+v.null; i++ {
		id := v.id(i)
		if id <= last {
			return 0, fmt.Errorf("null column with id %d: ids must ascend", id)
		}
		last = id
		at, known := r.column(id, &next)
		if !known {
			unknown++
			continue
		}
		if err := r.set(cells, at, event.NullValue()); err != nil {
			return 0, err
		}
	}
	return unknown, nil
}

// cellV2 decodes one cell that is not NULL.
func cellV2(c *event.Column, b []byte) (event.Value, error) {
	switch c.ValueKind() {
	case event.Int, event.Duration:
		n, err := compactInt(b)
		if err != nil {
			return event.Value{}, err
		}
		return signedCell(c, n)
	case event.Uint, event.Enum, event.Set, event.Bit, event.Time:
		n, err := compactUint(b)
		if err != nil {
			return event.Value{}, err
		}
		return unsignedCell(c, n)
	case event.Float:
		if len(b) != 8 {
			return event.Value{}, fmt.Errorf("a floating point number of %d bytes", len(b))
		}
		return floatCell(c, comparableFloat(b))
	case event.Bytes:
		return stringCell(c, b)
	case event.Decimal:
		return decimalCell(c, b)
	case event.JSON:
		return jsonCell(c, b)
	case event.Vector:
		return vectorCell(c, b)
	}
	return event.Value{}, fmt.Errorf("no row holds type %d", c.Type)
}

// compactInt is a two's complement number of 1, 2, 4 or 8 bytes.
func compactInt(b []byte) (int64, error) {
	switch len(b) {
	case 1:
		return int64(int8(b[0])), nil
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b))), nil
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b))), nil
	case 8:
		return int64(binary.LittleEndian.Uint64(b)), nil
	}
	return 0, fmt.Errorf("an integer of %d bytes", len(b))
}

func compactUint(b []byte) (uint64, error) {
	switch len(b) {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.LittleEndian.Uint16(b)), nil
	case 4:
		return uint64(binary.LittleEndian.Uint32(b)), nil
	case 8:
		return binary.LittleEndian.Uint64(b), nil
	}
	return 0, fmt.Errorf("an integer of %d bytes", len(b))
}
