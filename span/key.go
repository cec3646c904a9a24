package span

import (
	"encoding/binary"
	"fmt"
)

// Key is a memcomparable-encoded key. As an end the empty Key means "no end".
type Key string

// TableID is TiDB's physical id: a table's, or one partition's.
type TableID = int64

const (
	groupSize = 8
	padMarker = 0xFF
)

// EncodeKey is TiKV's memcomparable form of a raw key: groups of eight bytes,
// each followed by a marker that says how much of the group is padding.
func EncodeKey(raw []byte) Key { return Key(AppendKey(nil, raw)) }

// AppendKey appends the memcomparable form of raw to dst.
func AppendKey(dst, raw []byte) []byte {
	for {
		if len(raw) >= groupSize {
			dst = append(dst, raw[:groupSize]...)
			dst = append(dst, padMarker)
			raw = raw[groupSize:]
			continue
		}
		pad := groupSize - len(raw)
		dst = append(dst, raw...)
		dst = append(dst, make([]byte, pad)...)
		return append(dst, padMarker-byte(pad))
	}
}

// CutKey decodes one memcomparable byte string from the front of b and returns
// it with what follows it.
func CutKey(b []byte) (raw, rest []byte, err error) { return AppendRaw(nil, b) }

// AppendRaw is CutKey into memory of the caller's: it appends to dst.
func AppendRaw(dst, b []byte) (raw, rest []byte, err error) {
	for {
		if len(b) < groupSize+1 {
			return nil, nil, fmt.Errorf("memcomparable key: %d bytes left, a group has %d", len(b), groupSize+1)
		}
		group, marker := b[:groupSize], b[groupSize]
		b = b[groupSize+1:]
		pad := int(padMarker - marker)
		if pad > groupSize {
			return nil, nil, fmt.Errorf("memcomparable key: marker byte %#02x is not one", marker)
		}
		dst = append(dst, group[:groupSize-pad]...)
		if pad == 0 {
			continue
		}
		for _, c := range group[groupSize-pad:] {
			if c != 0 {
				return nil, nil, fmt.Errorf("memcomparable key: padding byte %#02x is not zero", c)
			}
		}
		return dst, b, nil
	}
}

// DecodeKey is the inverse of EncodeKey.
func DecodeKey(k Key) ([]byte, error) {
	raw, rest, err := CutKey([]byte(k))
	if err != nil {
		return nil, err
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("memcomparable key: %d bytes after the end", len(rest))
	}
	return raw, nil
}

// AppendInt appends TiDB's order-preserving form of v: big endian, sign bit flipped.
func AppendInt(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^(1<<63))
}

// RecordPrefix is the raw prefix of every row key of a physical table.
func RecordPrefix(id TableID) []byte {
	return append(AppendInt([]byte{'t'}, id), '_', 'r')
}
