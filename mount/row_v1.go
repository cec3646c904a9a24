package mount

import (
	"encoding/binary"
	"fmt"

	"github.com/sluice-cdc/sluice/event"
)

// Format v1 is a sequence of pairs, column id and cell, in no promised order,
// each with its flag in front. A row without cells is one null flag. TiDB's own
// tables are written in it whatever the cluster's age.

// readV1 stores the cells that value has.
func (r *reader) readV1(value []byte, cells event.Image) error {
	if len(value) == 1 && value[0] == flagNull {
		return nil
	}
	next := 0
	for rest := value; len(rest) > 0; {
		if rest[0] != flagVarint {
			return fmt.Errorf("byte %#02x where a column id begins", rest[0])
		}
		id, n := binary.Varint(rest[1:])
		if n <= 0 {
			return fmt.Errorf("a column id without an end")
		}
		rest = rest[1+n:]
		at, known := r.column(id, &next)
		if !known {
			after, err := skipV1(rest)
			if err != nil {
				return fmt.Errorf("column with id %d, which the table does not show: %w", id, err)
			}
			rest = after
			continue
		}
		c := &r.t.Columns[at]
		v, after, err := cellV1(c, rest)
		if err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
		if err := r.set(cells, at, v); err != nil {
			return err
		}
		rest = after
	}
	return nil
}

// cellV1 decodes one cell from the front of b.
func cellV1(c *event.Column, b []byte) (v event.Value, rest []byte, err error) {
	flag, body, rest, err := cutV1(b)
	if err != nil {
		return event.Value{}, nil, err
	}
	switch flag {
	case flagNull:
		v = event.NullValue()
	case flagVarint:
		n, _ := binary.Varint(body)
		v, err = signedCell(c, n)
	case flagUvarint:
		n, _ := binary.Uvarint(body)
		v, err = unsignedCell(c, n)
	case flagFloat:
		v, err = floatCell(c, comparableFloat(body))
	case flagDecimal:
		v, err = decimalCell(c, body)
	case flagCompact:
		v, err = stringCell(c, body)
	case flagJSON:
		v, err = jsonCell(c, body)
	case flagVector:
		v, err = vectorCell(c, body)
	}
	return v, rest, err
}

func skipV1(b []byte) (rest []byte, err error) {
	_, _, rest, err = cutV1(b)
	return rest, err
}

// cutV1 takes one cell from the front of b without looking into it.
func cutV1(b []byte) (flag byte, body, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, nil, fmt.Errorf("the row ends before its cell")
	}
	flag, b = b[0], b[1:]
	size := 0
	switch flag {
	case flagNull:
	case flagVarint, flagUvarint: // a varint and a uvarint of the same bytes are equally long
		if _, size = binary.Uvarint(b); size <= 0 {
			return 0, nil, nil, fmt.Errorf("an integer without an end")
		}
	case flagFloat:
		size = 8
	case flagDecimal:
		body, rest, err = event.CutDecimal(b)
		return flag, body, rest, err
	case flagJSON:
		body, rest, err = event.CutJSON(b)
		return flag, body, rest, err
	case flagVector:
		body, rest, err = event.CutVector(b)
		return flag, body, rest, err
	case flagCompact:
		n, width := binary.Varint(b)
		if width <= 0 || n < 0 || n > int64(len(b)-width) {
			return 0, nil, nil, fmt.Errorf("a string that is longer than the row")
		}
		return flag, b[width : width+int(n)], b[width+int(n):], nil
	default:
		return 0, nil, nil, fmt.Errorf("flag %#02x is none of a cell", flag)
	}
	if len(b) < size {
		return 0, nil, nil, fmt.Errorf("%d bytes, it needs %d", len(b), size)
	}
	return flag, b[:size], b[size:], nil
}
