package event

import (
	"strconv"
	"unicode/utf8"
)

// ValueKind is the form that the column's cells have when they are neither
// NULL nor Missing. It is Missing for a type that no row can hold.
func (c *Column) ValueKind() ValueKind {
	switch c.Type {
	case TypeTiny, TypeShort, TypeLong, TypeLonglong, TypeInt24:
		if c.Unsigned() {
			return Uint
		}
		return Int
	case TypeYear: // stored signed although the column carries the unsigned flag
		return Int
	case TypeFloat, TypeDouble:
		return Float
	case TypeNewDecimal:
		return Decimal
	case TypeDate, TypeNewDate, TypeDatetime, TypeTimestamp:
		return Time
	case TypeDuration:
		return Duration
	case TypeEnum:
		return Enum
	case TypeSet:
		return Set
	case TypeBit:
		return Bit
	case TypeJSON:
		return JSON
	case TypeVector:
		return Vector
	case TypeNull:
		return Null
	}
	if c.IsString() {
		return Bytes
	}
	return Missing
}

// Zero is what a NOT NULL column without any default holds in rows older than
// itself: 0, ”, the zero date, and the first member of an ENUM.
func (c *Column) Zero() Value {
	switch kind := c.ValueKind(); kind {
	case Decimal:
		precision, scale := c.digits()
		return DecimalValue(packDecimal(nil, nil, false, precision, scale))
	case Bytes:
		return BytesValue(PadBinary(c, nil))
	case Enum:
		return EnumValue(min(1, uint64(len(c.Elems))))
	case JSON:
		return JSONValue([]byte{jsonLiteral, jsonNull})
	case Vector:
		return VectorValue(make([]byte, vectorHeader))
	default:
		return Value{kind: kind}
	}
}

// AppendText appends the cell as SELECT returns it to a client whose time zone
// is UTC: numbers and times as text, strings as they are. For a BIT and for a
// string of charset binary that is bytes, not text: IsText tells. NULL and
// Missing append nothing.
func (v Value) AppendText(dst []byte, c *Column) []byte {
	switch v.kind {
	case Int:
		if c.Type == TypeYear {
			return appendYear(dst, v.Int())
		}
		return strconv.AppendInt(dst, v.Int(), 10)
	case Uint:
		return strconv.AppendUint(dst, v.num, 10)
	case Float:
		if c.Type == TypeFloat {
			return appendFloat(dst, float32(v.Float()))
		}
		return appendDouble(dst, v.Float())
	case Decimal:
		return appendDecimal(dst, v.raw, c.Decimal)
	case Bytes:
		return append(dst, v.raw...)
	case Time:
		return appendTime(dst, v.num, c)
	case Duration:
		return appendDuration(dst, v.Int(), c.Fraction())
	case Enum:
		return append(dst, c.Member(v.num)...)
	case Set:
		return appendSet(dst, v.num, c.Elems)
	case Bit:
		return appendBit(dst, v.num, c.Flen)
	case JSON:
		return appendJSON(dst, v.raw)
	case Vector:
		return appendVector(dst, v.raw)
	}
	return dst
}

// Text is AppendText as a string.
func (v Value) Text(c *Column) string {
	if v.kind == Bytes {
		return string(v.raw)
	}
	var buf [64]byte
	return string(v.AppendText(buf[:0], c))
}

// IsText tells whether AppendText gives characters. It gives bytes, to be
// shown in hexadecimal, for a BIT, for strings of charset binary, and for a
// string that is no UTF-8 (a latin1 column holds whatever its client sent).
func (v Value) IsText(c *Column) bool {
	switch v.kind {
	case Bit:
		return false
	case Bytes:
		return !c.IsBinary() && utf8.Valid(v.raw)
	}
	return true
}

// Fraction is the number of digits after the seconds' point.
func (c *Column) Fraction() int { return min(max(c.Decimal, 0), maxFraction) }

// Member is the name of an ENUM's member by its 1-based number; ” for 0 and
// for a number that has no member, as TiDB reads them.
func (c *Column) Member(number uint64) string {
	if number == 0 || number > uint64(len(c.Elems)) {
		return ""
	}
	return c.Elems[number-1]
}

// PadBinary is raw, filled up with zero bytes to the length of a BINARY(n)
// column. Columns of every other type leave it as it is.
func PadBinary(c *Column, raw []byte) []byte {
	if c.Type != TypeString || !c.IsBinary() || len(raw) >= c.Flen || c.Flen > maxBinary {
		return raw
	}
	padded := make([]byte, c.Flen)
	copy(padded, raw)
	return padded
}

// maxBinary is the longest BINARY(n) there is; a longer Flen is "unspecified".
const maxBinary = 255

func appendYear(dst []byte, year int64) []byte {
	if year < 0 || year > 9999 {
		return strconv.AppendInt(dst, year, 10)
	}
	return appendPadded(dst, uint64(year), 4)
}

func appendSet(dst []byte, mask uint64, elems []string) []byte {
	first := true
	for i := 0; i < len(elems) && i < 64; i++ {
		if mask&(1<<i) == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		dst = append(dst, elems[i]...)
		first = false
	}
	return dst
}

// appendBit appends a BIT(n) as MySQL sends it: big endian, as many bytes as n bits need.
func appendBit(dst []byte, v uint64, flen int) []byte {
	for i := bitBytes(flen) - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

func bitBytes(flen int) int { return (min(max(flen, 1), 64) + 7) / 8 }

// appendPadded appends v with at least width digits.
func appendPadded(dst []byte, v uint64, width int) []byte {
	for limit := uint64(10); width > 1; width, limit = width-1, limit*10 {
		if v < limit {
			for range width - 1 {
				dst = append(dst, '0')
			}
			break
		}
	}
	return strconv.AppendUint(dst, v, 10)
}
