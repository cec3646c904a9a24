package event

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseText is the cell that a text gives in column c: the inverse of
// AppendText, and the cast that SQL makes where the text has more than the
// column keeps. Fractions of numbers and of seconds are rounded, a CHAR loses the
// spaces at its end, a BINARY(n) is padded with zero bytes, members of an ENUM
// or SET are found by name. A BIT and a binary string are given as bytes.
//
// TIMESTAMP text is UTC. A word that stands for a moment (CURRENT_DATE) is
// refused: only the caller knows which one.
func ParseText(c *Column, text string) (Value, error) {
	v, err := parseText(c, text)
	if err != nil {
		return Value{}, fmt.Errorf("column %s: %w", c.Name, err)
	}
	return v, nil
}

func parseText(c *Column, text string) (Value, error) {
	switch c.ValueKind() {
	case Int:
		if c.Type == TypeYear {
			return parseYear(text)
		}
		v, err := strconv.ParseInt(wholeNumber(text), 10, intBits(c.Type))
		if err != nil {
			return Value{}, fmt.Errorf("%q is no integer of the column's range", text)
		}
		return IntValue(v), nil
	case Uint:
		v, err := strconv.ParseUint(wholeNumber(text), 10, intBits(c.Type))
		if err != nil {
			return Value{}, fmt.Errorf("%q is no unsigned integer of the column's range", text)
		}
		return UintValue(v), nil
	case Float:
		return parseFloat(c, text)
	case Decimal:
		return parseDecimal(c, text)
	case Bytes:
		if c.Type == TypeString && !c.IsBinary() {
			text = strings.TrimRight(text, " ")
		}
		return BytesValue(PadBinary(c, []byte(text))), nil
	case Time:
		return parseTime(c, text)
	case Duration:
		return parseDuration(c, text)
	case Enum:
		return parseEnum(c, text)
	case Set:
		return parseSet(c, text)
	case Bit:
		return parseBit(c, text)
	case JSON:
		raw, err := ParseJSON(text)
		return JSONValue(raw), err
	case Vector:
		return parseVector(c, text)
	case Null:
		return NullValue(), nil
	}
	return Value{}, fmt.Errorf("no row holds type %d", c.Type)
}

// wholeNumber rounds a text with a point or an exponent, as a cast to an
// integer does; every other text stays.
func wholeNumber(text string) string {
	text = strings.TrimSpace(text)
	if !strings.ContainsAny(text, ".eE") {
		return text
	}
	raw, err := ParseDecimal(text, 20, 0)
	if err != nil {
		return text
	}
	return string(appendDecimal(nil, raw, 0))
}

func intBits(t Type) int {
	switch t {
	case TypeTiny:
		return 8
	case TypeShort:
		return 16
	case TypeInt24:
		return 24
	case TypeLong:
		return 32
	}
	return 64
}

func parseFloat(c *Column, text string) (Value, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, fmt.Errorf("%q is no number", text)
	}
	f = roundFloat(f, c.Decimal)
	if c.Type == TypeFloat {
		if f = float64(float32(f)); math.IsInf(f, 0) {
			return Value{}, fmt.Errorf("%q is too large for FLOAT", text)
		}
	}
	if c.Unsigned() && f < 0 {
		return Value{}, fmt.Errorf("%q is below zero in an unsigned column", text)
	}
	if f == 0 { // no column keeps the sign of a zero
		f = 0
	}
	return FloatValue(f), nil
}

// memberByName finds a member: as written, then without regard to case where
// the collation has none; -1 if there is none.
func memberByName(c *Column, name string) int {
	name = strings.TrimRight(name, " ")
	for i, m := range c.Elems {
		if m == name {
			return i
		}
	}
	if strings.HasSuffix(c.Collation, "_ci") {
		for i, m := range c.Elems {
			if equalFold(m, name) {
				return i
			}
		}
	}
	return -1
}

func parseEnum(c *Column, text string) (Value, error) {
	if i := memberByName(c, text); i >= 0 {
		return EnumValue(uint64(i) + 1), nil
	}
	if text == "" {
		return EnumValue(0), nil
	}
	return Value{}, fmt.Errorf("%q is no member", text)
}

func parseSet(c *Column, text string) (Value, error) {
	var mask uint64
	if text == "" {
		return SetValue(0), nil
	}
	for name := range strings.SplitSeq(text, ",") {
		i := memberByName(c, name)
		if i < 0 || i > 63 {
			return Value{}, fmt.Errorf("%q is no member", name)
		}
		mask |= 1 << i
	}
	return SetValue(mask), nil
}

func parseBit(c *Column, text string) (Value, error) {
	text = strings.TrimLeft(text, "\x00")
	if len(text) > bitBytes(c.Flen) {
		return Value{}, fmt.Errorf("%d bytes are too many for BIT(%d)", len(text), c.Flen)
	}
	var v uint64
	for i := range len(text) {
		v = v<<8 | uint64(text[i])
	}
	if c.Flen > 0 && c.Flen < 64 && v>>c.Flen != 0 {
		return Value{}, fmt.Errorf("%#x is too large for BIT(%d)", v, c.Flen)
	}
	return BitValue(v), nil
}
