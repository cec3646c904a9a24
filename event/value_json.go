package event

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// The type bytes of a stored JSON value. A document is one type byte and a
// payload; so is every value inside, except that a container keeps the type
// bytes of its members in their entries.
const (
	jsonObject    = 0x01
	jsonArray     = 0x03
	jsonLiteral   = 0x04 // payload: one byte, below
	jsonInt       = 0x09 // 8 bytes LE
	jsonUint      = 0x0a // 8 bytes LE
	jsonDouble    = 0x0b // 8 bytes LE, IEEE bits
	jsonString    = 0x0c // uvarint length, UTF-8
	jsonOpaque    = 0x0d // MySQL type code, uvarint length, bytes
	jsonDate      = 0x0e // 8 bytes LE, see jsonTime
	jsonDatetime  = 0x0f
	jsonTimestamp = 0x10
	jsonDuration  = 0x11 // 8 bytes LE nanoseconds, 4 bytes LE fraction digits
)

const (
	jsonNull  = 0x00
	jsonTrue  = 0x01
	jsonFalse = 0x02
)

// A container is: count and size in bytes (4 bytes LE each); for an object an
// entry a key (offset 4, length 2); an entry a value (type 1, offset 4, or the
// literal itself in the first byte of the offset); then keys and values.
// Offsets count from the start of the container.
const (
	jsonHeader     = 8
	jsonKeyEntry   = 6
	jsonValueEntry = 5
	// maxJSONDepth bounds the recursion over a document. TiDB refuses deeper
	// ones long before.
	maxJSONDepth = 1 << 14
)

// CutJSON takes one stored JSON document from the front of b: its length
// follows from the payload itself.
func CutJSON(b []byte) (stored, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, fmt.Errorf("json: no type byte")
	}
	n, err := jsonSize(b[0], b[1:])
	if err != nil {
		return nil, nil, err
	}
	return b[:1+n], b[1+n:], nil
}

// CheckJSON tells whether raw is a whole stored JSON document, so that it can
// be printed. It costs one walk over the document.
func CheckJSON(raw []byte) error {
	_, rest, err := CutJSON(raw)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("json: %d bytes after the end", len(rest))
	}
	walk := jsonCheck{budget: len(raw)}
	return walk.value(raw[0], raw[1:], 0)
}

// jsonSize is the length of the payload at the front of b.
func jsonSize(kind byte, b []byte) (int, error) {
	size, at := 0, 0
	switch kind {
	case jsonLiteral:
		size = 1
	case jsonInt, jsonUint, jsonDouble, jsonDate, jsonDatetime, jsonTimestamp:
		size = 8
	case jsonDuration:
		size = 12
	case jsonOpaque, jsonString:
		if kind == jsonOpaque {
			at = 1
		}
		if len(b) < at {
			return 0, fmt.Errorf("json: an opaque value without its type")
		}
		n, width := binary.Uvarint(b[at:])
		if width <= 0 || n > math.MaxInt32 {
			return 0, fmt.Errorf("json: a string without a length")
		}
		size = at + width + int(n)
	case jsonObject, jsonArray:
		if len(b) < jsonHeader {
			return 0, fmt.Errorf("json: a container of %d bytes", len(b))
		}
		if n := binary.LittleEndian.Uint32(b[4:]); n >= jsonHeader && n <= math.MaxInt32 {
			size = int(n)
			break
		}
		return 0, fmt.Errorf("json: a container whose size is less than its header")
	default:
		return 0, fmt.Errorf("json: type byte %#02x is not one", kind)
	}
	if len(b) < size {
		return 0, fmt.Errorf("json: a value of type %#02x needs %d bytes, there are %d", kind, size, len(b))
	}
	return size, nil
}

// jsonCheck walks a document. Its budget is the document's own length: every
// value visited pays for its bytes, so values that share bytes, with which a
// short document could unfold into an endless one, run out of it.
type jsonCheck struct{ budget int }

func (w *jsonCheck) pay(n int) error {
	if w.budget -= n; w.budget < 0 {
		return fmt.Errorf("json: values share their bytes")
	}
	return nil
}

// value checks one value whose payload starts at the front of b.
func (w *jsonCheck) value(kind byte, b []byte, depth int) error {
	size, err := jsonSize(kind, b)
	if err != nil {
		return err
	}
	switch kind {
	case jsonObject, jsonArray:
		return w.container(kind, b[:size], depth+1)
	case jsonLiteral:
		if b[0] > jsonFalse {
			return fmt.Errorf("json: literal %#02x is not one", b[0])
		}
	case jsonDouble:
		if f := math.Float64frombits(binary.LittleEndian.Uint64(b)); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("json: a number that is not finite")
		}
	case jsonDate, jsonDatetime, jsonTimestamp:
		if err := jsonTime(b).check(); err != nil {
			return fmt.Errorf("json: %w", err)
		}
	}
	return w.pay(size)
}

func (w *jsonCheck) container(kind byte, b []byte, depth int) error {
	if depth > maxJSONDepth {
		return fmt.Errorf("json: nested deeper than %d", maxJSONDepth)
	}
	entry := jsonValueEntry
	if kind == jsonObject {
		entry += jsonKeyEntry
	}
	count := uint64(binary.LittleEndian.Uint32(b))
	head := jsonHeader + count*uint64(entry)
	if head > uint64(len(b)) {
		return fmt.Errorf("json: %d members in a container of %d bytes", count, len(b))
	}
	if err := w.pay(int(head)); err != nil {
		return err
	}
	c := jsonContainer{kind: kind, b: b}
	for i := range int(count) {
		if kind == jsonObject {
			start, end := c.keyBounds(i)
			if start > end || end > len(b) {
				return fmt.Errorf("json: key %d lies outside its object", i)
			}
			if err := w.pay(end - start); err != nil {
				return err
			}
		}
		member, at := c.entry(i)
		if member == jsonLiteral {
			if b[at] > jsonFalse {
				return fmt.Errorf("json: literal %#02x is not one", b[at])
			}
			continue
		}
		offset := uint64(binary.LittleEndian.Uint32(b[at:]))
		if offset < head || offset >= uint64(len(b)) {
			return fmt.Errorf("json: member %d lies outside its container", i)
		}
		if err := w.value(member, b[offset:], depth); err != nil {
			return err
		}
	}
	return nil
}

// jsonContainer reads the entries of an object or array that was checked.
type jsonContainer struct {
	kind byte
	b    []byte
}

func (c jsonContainer) count() int { return int(binary.LittleEndian.Uint32(c.b)) }

func (c jsonContainer) keyBounds(i int) (start, end int) {
	at := jsonHeader + i*jsonKeyEntry
	start = int(binary.LittleEndian.Uint32(c.b[at:]))
	return start, start + int(binary.LittleEndian.Uint16(c.b[at+4:]))
}

// entry is the type of the i-th member and where its offset stands.
func (c jsonContainer) entry(i int) (kind byte, at int) {
	at = jsonHeader + i*jsonValueEntry
	if c.kind == jsonObject {
		at += c.count() * jsonKeyEntry
	}
	return c.b[at], at + 1
}

// member is the i-th value: its type and a slice that starts with its payload.
func (c jsonContainer) member(i int) (kind byte, b []byte) {
	kind, at := c.entry(i)
	if kind == jsonLiteral {
		return kind, c.b[at:]
	}
	return kind, c.b[binary.LittleEndian.Uint32(c.b[at:]):]
}

// jsonTime reads the date and time of a JSON value, which has other bits than
// one in a column: year 14, month 4, day 5, hour 5, minute 6, second 6,
// microsecond 20, and four that say nothing about its text.
func jsonTime(b []byte) DateTime {
	v := binary.LittleEndian.Uint64(b)
	return DateTime{
		Year: int(v >> 50), Month: int(v >> 46 & 15), Day: int(v >> 41 & 31),
		Hour: int(v >> 36 & 31), Minute: int(v >> 30 & 63), Second: int(v >> 24 & 63),
		Micro: int(v >> 4 & (1<<20 - 1)),
	}
}

// appendJSON prints a document that CheckJSON passed.
func appendJSON(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return dst
	}
	return appendJSONValue(dst, raw[0], raw[1:])
}

func appendJSONValue(dst []byte, kind byte, b []byte) []byte {
	switch kind {
	case jsonObject, jsonArray:
		return appendJSONContainer(dst, jsonContainer{kind: kind, b: b})
	case jsonLiteral:
		return append(dst, [...]string{"null", "true", "false"}[b[0]]...)
	case jsonInt:
		return strconv.AppendInt(dst, int64(binary.LittleEndian.Uint64(b)), 10)
	case jsonUint:
		return strconv.AppendUint(dst, binary.LittleEndian.Uint64(b), 10)
	case jsonDouble:
		return appendJSONDouble(dst, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case jsonString:
		n, width := binary.Uvarint(b)
		return appendJSONString(dst, b[width:width+int(n)])
	case jsonOpaque:
		n, width := binary.Uvarint(b[1:])
		dst = append(dst, `"base64:type`...)
		dst = strconv.AppendUint(dst, uint64(b[0]), 10)
		dst = append(dst, ':')
		dst = base64.StdEncoding.AppendEncode(dst, b[1+width:1+width+int(n)])
	case jsonDate:
		dst = append(dst, '"')
		dst = appendDate(dst, jsonTime(b))
	case jsonDatetime, jsonTimestamp:
		t := jsonTime(b)
		dst = append(dst, '"')
		dst = append(appendDate(dst, t), ' ')
		dst = appendClock(dst, t.Hour, t.Minute, t.Second, t.Micro, maxFraction)
	case jsonDuration:
		dst = append(dst, '"')
		dst = appendDuration(dst, int64(binary.LittleEndian.Uint64(b)), maxFraction)
	}
	return append(dst, '"')
}

func appendJSONContainer(dst []byte, c jsonContainer) []byte {
	open, end := byte('['), byte(']')
	if c.kind == jsonObject {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	for i := range c.count() {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if c.kind == jsonObject {
			from, to := c.keyBounds(i)
			dst = appendJSONString(dst, c.b[from:to])
			dst = append(dst, ": "...)
		}
		kind, b := c.member(i)
		dst = appendJSONValue(dst, kind, b)
	}
	return append(dst, end)
}

// appendJSONDouble keeps a double apart from an integer: 1.0, not 1.
func appendJSONDouble(dst []byte, f float64) []byte {
	start := len(dst)
	if f == 0 && math.Signbit(f) {
		dst = append(dst, '-')
	}
	dst = appendDouble(dst, f)
	for _, b := range dst[start:] {
		if b == '.' || b == 'e' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

// appendJSONString quotes as little as JSON allows.
func appendJSONString(dst, s []byte) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	plain := 0
	for i, b := range s {
		if b >= 0x20 && b != '"' && b != '\\' {
			continue
		}
		dst = append(dst, s[plain:i]...)
		plain = i + 1
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
		}
	}
	return append(append(dst, s[plain:]...), '"')
}
