package event

import "math"

// ValueKind says which form a Value has.
type ValueKind uint8

// The kinds. The zero Value is Missing.
const (
	Missing  ValueKind = iota // no event carries it: a virtual generated column
	Null                      // SQL NULL
	Int                       // signed integers, YEAR
	Uint                      // unsigned integers
	Float                     // FLOAT, DOUBLE
	Decimal                   // precision byte, fraction byte, MySQL's binary decimal
	Bytes                     // every string type; UTF-8 except in binary and (sometimes) latin1 columns
	Time                      // DATE, DATETIME, TIMESTAMP as TiDB's packed integer; TIMESTAMP in UTC
	Duration                  // TIME in nanoseconds
	Enum                      // 1-based member, 0 = ''
	Set                       // bit mask of members
	Bit                       // BIT(n) as an integer
	JSON                      // type byte and binary payload
	Vector                    // dimension (4 bytes LE) and float32s (LE)
)

// Value is one cell. What it means depends on its column: the scale of a
// decimal, the fraction digits of a time, the member names of an enum.
//
// A Value is small and copied freely; its bytes alias the row that it came from
// and must not be changed.
type Value struct {
	raw  []byte
	num  uint64
	kind ValueKind
}

// Constructors, one a form.

// NullValue is SQL NULL.
func NullValue() Value { return Value{kind: Null} }

// IntValue is a signed integer or a YEAR.
func IntValue(v int64) Value { return Value{kind: Int, num: uint64(v)} }

// UintValue is an unsigned integer.
func UintValue(v uint64) Value { return Value{kind: Uint, num: v} }

// FloatValue is a FLOAT (widened) or a DOUBLE.
func FloatValue(v float64) Value { return Value{kind: Float, num: math.Float64bits(v)} }

// DecimalValue takes the stored form: precision byte, fraction byte, digits. See CheckDecimal.
func DecimalValue(raw []byte) Value { return Value{kind: Decimal, raw: raw} }

// BytesValue is a string of any charset.
func BytesValue(raw []byte) Value { return Value{kind: Bytes, raw: raw} }

// TimeValue takes TiDB's packed integer: ((((year*13+month)<<5|day)<<17|hour<<12|minute<<6|second)<<24)|microsecond.
func TimeValue(packed uint64) Value { return Value{kind: Time, num: packed} }

// DurationValue is a TIME in nanoseconds.
func DurationValue(ns int64) Value { return Value{kind: Duration, num: uint64(ns)} }

// EnumValue is the 1-based member, 0 for the invalid empty string.
func EnumValue(member uint64) Value { return Value{kind: Enum, num: member} }

// SetValue is the bit mask of members, first member lowest.
func SetValue(mask uint64) Value { return Value{kind: Set, num: mask} }

// BitValue is a BIT(n) as an integer.
func BitValue(v uint64) Value { return Value{kind: Bit, num: v} }

// JSONValue takes the stored form: type byte and payload. See CheckJSON.
func JSONValue(raw []byte) Value { return Value{kind: JSON, raw: raw} }

// VectorValue takes the stored form: dimension and float32s. See CheckVector.
func VectorValue(raw []byte) Value { return Value{kind: Vector, raw: raw} }

// Kind is the form.
func (v Value) Kind() ValueKind { return v.kind }

// IsNull tells whether the cell is SQL NULL.
func (v Value) IsNull() bool { return v.kind == Null }

// IsMissing tells whether no event carries the cell.
func (v Value) IsMissing() bool { return v.kind == Missing }

// Int is the number of an Int (nanoseconds of a Duration).
func (v Value) Int() int64 { return int64(v.num) }

// Uint is the number of a Uint, Enum, Set, Bit or Time (packed).
func (v Value) Uint() uint64 { return v.num }

// Float is the number of a Float.
func (v Value) Float() float64 { return math.Float64frombits(v.num) }

// Raw is the bytes of a Bytes, Decimal, JSON or Vector, in stored form.
func (v Value) Raw() []byte { return v.raw }

// Equal tells whether two values of one column are the same, byte by byte:
// strings that a collation calls equal are not.
func (v Value) Equal(o Value) bool {
	return v.kind == o.kind && v.num == o.num && string(v.raw) == string(o.raw)
}
