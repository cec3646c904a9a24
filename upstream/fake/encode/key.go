package encode

import (
	"fmt"
	"unicode/utf8"

	"github.com/sluice-cdc/sluice/event"
)

// handleMin is the length below which a common handle is padded with zeros, so
// that none is as short as an integer's eight bytes.
const handleMin = 9

// RecordKey is the raw key of a row.
func RecordKey(physicalID int64, handle []byte) []byte {
	key := appendInt([]byte{'t'}, physicalID)
	return append(append(key, "_r"...), handle...)
}

// IntHandle is the handle of an integer key or a hidden row id. An unsigned key
// is given by its bits.
func IntHandle(v int64) []byte { return appendInt(nil, v) }

// Part is one column of a clustered primary key.
type Part struct {
	Column *event.Column
	Length int // prefix in characters, or event.FullLength
	Value  Value
}

// CommonHandle is the handle of a clustered primary key. Sort gives strings
// their place in the order of their collation.
func CommonHandle(parts []Part, sort Sorter) ([]byte, error) {
	var out []byte
	for _, p := range parts {
		d, err := datumOf(p.Column, p.Value)
		if err != nil {
			return nil, err
		}
		if d.form == formBytes {
			if d.raw, err = sort.SortKey(p.Column.Collation, p.prefix(d.raw)); err != nil {
				return nil, fmt.Errorf("encode %s: %w", p.Column.Name, err)
			}
		}
		if out, err = d.appendKey(out); err != nil {
			return nil, fmt.Errorf("encode %s: %w", p.Column.Name, err)
		}
	}
	for len(out) < handleMin {
		out = append(out, 0)
	}
	return out, nil
}

// Handle is the handle of a row of t, whose values are in the order of
// t.Columns. A table with hidden row ids has none in its columns.
func Handle(t *event.Table, row []Value, sort Sorter) ([]byte, error) {
	switch t.Handle.Kind {
	case event.IntHandle:
		switch v := row[t.Handle.Parts[0].Column].(type) {
		case int64:
			return IntHandle(v), nil
		case uint64:
			return IntHandle(int64(v)), nil
		default:
			return nil, fmt.Errorf("encode %s: a %T as integer key", t.FullName(), v)
		}
	case event.CommonHandle:
		parts := make([]Part, len(t.Handle.Parts))
		for i, p := range t.Handle.Parts {
			parts[i] = Part{Column: &t.Columns[p.Column], Length: p.Length, Value: row[p.Column]}
		}
		return CommonHandle(parts, sort)
	}
	return nil, fmt.Errorf("encode %s: its row ids are in no column", t.FullName())
}

// prefix cuts a string to the part that the key holds.
func (p Part) prefix(s []byte) []byte {
	if p.Length == event.FullLength {
		return s
	}
	if p.Column.IsBinary() {
		return s[:min(len(s), p.Length)]
	}
	end := 0
	for n := 0; n < p.Length && end < len(s); n++ {
		_, size := utf8.DecodeRune(s[end:])
		end += size
	}
	return s[:end]
}
