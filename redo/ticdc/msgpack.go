package ticdc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// depthMax bounds how deep values lie in each other; a record's do six times.
const depthMax = 32

// value takes one value of MessagePack from the front of b: nil, bool, int64,
// uint64, float32, float64, string, []byte, []any or map[string]any.
func value(b []byte, depth int) (v any, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errShort
	}
	if depth > depthMax {
		return nil, nil, errors.New("values lie too deep in each other")
	}
	c := b[0]
	b = b[1:]
	switch {
	case c < 0x80:
		return int64(c), b, nil
	case c >= 0xe0:
		return int64(int8(c)), b, nil
	case c < 0x90:
		return object(b, int(c&15), depth)
	case c < 0xa0:
		return list(b, int(c&15), depth)
	case c < 0xc0:
		return text(b, int(c&31))
	}
	switch c {
	case 0xc0:
		return nil, b, nil
	case 0xc2, 0xc3:
		return c == 0xc3, b, nil
	}
	return wide(c, b, depth)
}

var errShort = errors.New("a value ends too soon")

// wide is a value whose length or number stands behind its kind.
func wide(c byte, b []byte, depth int) (any, []byte, error) {
	// How many bytes that is: 1, 2, 4 or 8.
	widths := map[byte]int{
		0xc4: 1, 0xc5: 2, 0xc6: 4, 0xca: 4, 0xcb: 8, 0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8,
		0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4,
	}
	width, known := widths[c]
	if !known {
		return nil, nil, fmt.Errorf("a value of the kind %#02x", c)
	}
	if len(b) < width {
		return nil, nil, errShort
	}
	var full [8]byte
	copy(full[8-width:], b)
	n := binary.BigEndian.Uint64(full[:])
	b = b[width:]
	switch c {
	case 0xc4, 0xc5, 0xc6:
		return blob(b, n)
	case 0xca:
		return math.Float32frombits(uint32(n)), b, nil
	case 0xcb:
		return math.Float64frombits(n), b, nil
	case 0xcc, 0xcd, 0xce, 0xcf:
		return n, b, nil
	case 0xd0, 0xd1, 0xd2, 0xd3:
		shift := 64 - 8*width
		return int64(n<<shift) >> shift, b, nil
	case 0xd9, 0xda, 0xdb:
		return text(b, int(n))
	case 0xdc, 0xdd:
		return list(b, int(n), depth)
	}
	return object(b, int(n), depth)
}

func text(b []byte, n int) (any, []byte, error) {
	if n > len(b) {
		return nil, nil, errShort
	}
	return string(b[:n]), b[n:], nil
}

func blob(b []byte, n uint64) (any, []byte, error) {
	if n > uint64(len(b)) {
		return nil, nil, errShort
	}
	return b[:n:n], b[n:], nil
}

func list(b []byte, n, depth int) (any, []byte, error) {
	if n > len(b) { // each takes a byte at least
		return nil, nil, errShort
	}
	out := make([]any, n)
	for i := range out {
		var err error
		if out[i], b, err = value(b, depth+1); err != nil {
			return nil, nil, err
		}
	}
	return out, b, nil
}

func object(b []byte, n, depth int) (any, []byte, error) {
	if n > len(b) {
		return nil, nil, errShort
	}
	out := make(map[string]any, n)
	for range n {
		key, rest, err := value(b, depth+1)
		if err != nil {
			return nil, nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, nil, fmt.Errorf("a key that is no text: %v", key)
		}
		if out[name], b, err = value(rest, depth+1); err != nil {
			return nil, nil, err
		}
	}
	return out, b, nil
}
