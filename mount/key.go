package mount

import (
	"encoding/binary"
	"fmt"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
)

// A record key is t, the physical id, _r, and the handle.
const (
	tablePrefix  = 't'
	recordMark   = "_r"
	markAt       = 1 + 8
	handleAt     = markAt + len(recordMark)
	intHandle    = 8 // bytes of an integer handle
	commonHandle = 9 // fewest bytes of any other: shorter ones are padded with zeros
	signBit      = 1 << 63
)

// The flags before each column of a common handle, and before each cell of a
// row in format v1.
const (
	flagNull    = 0x00
	flagBytes   = 0x01 // groups of eight, see span.EncodeKey
	flagCompact = 0x02 // varint length, bytes
	flagInt     = 0x03
	flagUint    = 0x04
	flagFloat   = 0x05
	flagDecimal = 0x06
	flagTime    = 0x07 // a TIME
	flagVarint  = 0x08
	flagUvarint = 0x09
	flagJSON    = 0x0a
	flagVector  = 0x14
)

// ParseRecordKey splits a raw key into the physical table's id and the handle.
// ok is false for keys that are no rows: indexes and metadata.
func ParseRecordKey(key []byte) (physicalID int64, handle []byte, ok bool) {
	if len(key) < handleAt || key[0] != tablePrefix || string(key[markAt:handleAt]) != recordMark {
		return 0, nil, false
	}
	return comparableInt(key[1:]), key[handleAt:], true
}

// ParseHandle decodes a handle: one integer for a table whose handle is an
// integer column or the hidden _tidb_rowid, else a value for each of
// t.Handle.Parts. A string there may be a collation's sort key, or cut to the
// prefix that the primary key has: the row's value then holds the whole.
func ParseHandle(handle []byte, t *event.Table) ([]event.Value, error) {
	var m Mounter
	r := reader{m: &m, t: t, handle: handle}
	if err := r.checkHandle(); err != nil {
		return nil, cdcerr.CorruptKey.Wrap(err, "table %s, handle %X", t.FullName(), handle)
	}
	if t.Handle.Kind != event.CommonHandle {
		return []event.Value{r.intHandle()}, nil
	}
	out := make([]event.Value, 0, len(t.Handle.Parts))
	err := r.eachHandlePart(func(_ event.IndexPart, v event.Value) { out = append(out, v) })
	if err != nil {
		return nil, cdcerr.CorruptKey.Wrap(err, "table %s, handle %X", t.FullName(), handle)
	}
	return out, nil
}

// checkHandle holds the handle's length against the kind that the table has.
func (r *reader) checkHandle() error {
	if r.t.Handle.Kind == event.CommonHandle {
		if len(r.handle) < commonHandle {
			return fmt.Errorf("a handle of %d bytes, the primary key's has at least %d", len(r.handle), commonHandle)
		}
		return nil
	}
	if len(r.handle) != intHandle {
		return fmt.Errorf("a handle of %d bytes, an integer's has %d", len(r.handle), intHandle)
	}
	return nil
}

func (r *reader) intHandle() event.Value {
	h := comparableInt(r.handle)
	for _, p := range r.t.Handle.Parts {
		if p.Column >= 0 && p.Column < len(r.t.Columns) && r.t.Columns[p.Column].ValueKind() == event.Uint {
			return event.UintValue(uint64(h))
		}
	}
	return event.IntValue(h)
}

// eachHandlePart decodes the columns of a common handle in order.
func (r *reader) eachHandlePart(use func(event.IndexPart, event.Value)) error {
	rest := r.handle
	for _, p := range r.t.Handle.Parts {
		if p.Column < 0 || p.Column >= len(r.t.Columns) {
			return fmt.Errorf("the primary key has a column that the table does not show")
		}
		c := &r.t.Columns[p.Column]
		v, after, err := r.keyCell(c, rest)
		if err != nil {
			return fmt.Errorf("key column %s: %w", c.Name, err)
		}
		use(p, v)
		rest = after
	}
	for _, b := range rest {
		if b != 0 || len(r.handle) > commonHandle {
			return fmt.Errorf("%d bytes after the key's last column", len(rest))
		}
	}
	return nil
}

// keyCell decodes one column from the front of b.
func (r *reader) keyCell(c *event.Column, b []byte) (_ event.Value, rest []byte, err error) {
	if len(b) == 0 {
		return event.Value{}, nil, fmt.Errorf("the key ends before it")
	}
	flag, b := b[0], b[1:]
	switch flag {
	case flagNull:
		return event.NullValue(), b, nil
	case flagBytes:
		raw, rest, err := r.keyBytes(b)
		if err != nil {
			return event.Value{}, nil, err
		}
		v, err := stringCell(c, raw)
		return v, rest, err
	case flagDecimal:
		raw, rest, err := event.CutDecimal(b)
		if err != nil {
			return event.Value{}, nil, err
		}
		v, err := decimalCell(c, raw)
		return v, rest, err
	case flagInt, flagUint, flagFloat, flagTime:
	default:
		return event.Value{}, nil, fmt.Errorf("flag %#02x is none of a key", flag)
	}
	if len(b) < 8 {
		return event.Value{}, nil, fmt.Errorf("%d bytes, a number has 8", len(b))
	}
	number, rest := b[:8], b[8:]
	var v event.Value
	switch flag {
	case flagUint:
		v, err = unsignedCell(c, binary.BigEndian.Uint64(number))
	case flagFloat:
		v, err = floatCell(c, comparableFloat(number))
	default:
		v, err = signedCell(c, comparableInt(number))
	}
	return v, rest, err
}

// keyBytes is the string at the front of b without its groups' markers, in
// memory of the mounter's.
func (r *reader) keyBytes(b []byte) (raw, rest []byte, err error) {
	size := 0 // an upper bound
	for at := 0; ; at += 9 {
		if at+9 > len(b) {
			return nil, nil, fmt.Errorf("a string without an end")
		}
		size += 8
		if b[at+8] != 0xff {
			break
		}
	}
	return span.AppendRaw(r.m.bytes.take(size)[:0], b)
}

// comparableInt undoes the flipped sign with which integers sort as bytes.
func comparableInt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ signBit) }
