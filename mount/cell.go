package mount

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sluice-cdc/sluice/event"
)

// Each of these makes a cell of column c out of what the row holds, or says
// why it is none.

func mismatch(c *event.Column, what string) error {
	return fmt.Errorf("the row holds %s, the column is of type %d", what, c.Type)
}

// signedCell is for integers and TIME.
func signedCell(c *event.Column, v int64) (event.Value, error) {
	switch c.ValueKind() {
	case event.Int:
		return event.IntValue(v), nil
	case event.Duration:
		return event.DurationValue(v), nil
	case event.Uint:
		if v >= 0 {
			return event.UintValue(uint64(v)), nil
		}
	}
	return event.Value{}, mismatch(c, "a signed integer")
}

// unsignedCell is for everything that is stored as an unsigned integer.
func unsignedCell(c *event.Column, v uint64) (event.Value, error) {
	switch c.ValueKind() {
	case event.Uint:
		return event.UintValue(v), nil
	case event.Enum: // TiDB reads a number without a member as ''
		return event.EnumValue(v), nil
	case event.Set:
		if n := len(c.Elems); n < 64 && v>>n != 0 {
			return event.Value{}, fmt.Errorf("a SET of %d members has the bits %#x", n, v)
		}
		return event.SetValue(v), nil
	case event.Bit:
		return event.BitValue(v), nil
	case event.Time:
		if err := event.CheckTime(v); err != nil {
			return event.Value{}, err
		}
		return event.TimeValue(v), nil
	case event.Int:
		if v <= math.MaxInt64 {
			return event.IntValue(int64(v)), nil
		}
	}
	return event.Value{}, mismatch(c, "an unsigned integer")
}

// floatCell narrows a FLOAT back to what it was before it was stored widened.
// What is not finite counts as 0: TiDB lets none in.
func floatCell(c *event.Column, f float64) (event.Value, error) {
	if c.ValueKind() != event.Float {
		return event.Value{}, mismatch(c, "a floating point number")
	}
	if c.Type == event.TypeFloat {
		f = float64(float32(f))
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0
	}
	return event.FloatValue(f), nil
}

func decimalCell(c *event.Column, raw []byte) (event.Value, error) {
	if c.ValueKind() != event.Decimal {
		return event.Value{}, mismatch(c, "a decimal")
	}
	if err := event.CheckDecimal(raw); err != nil {
		return event.Value{}, err
	}
	return event.DecimalValue(raw), nil
}

func stringCell(c *event.Column, raw []byte) (event.Value, error) {
	if c.ValueKind() != event.Bytes {
		return event.Value{}, mismatch(c, "a string")
	}
	return event.BytesValue(event.PadBinary(c, raw)), nil
}

func jsonCell(c *event.Column, raw []byte) (event.Value, error) {
	if c.ValueKind() != event.JSON {
		return event.Value{}, mismatch(c, "JSON")
	}
	if err := event.CheckJSON(raw); err != nil {
		return event.Value{}, err
	}
	return event.JSONValue(raw), nil
}

func vectorCell(c *event.Column, raw []byte) (event.Value, error) {
	if c.ValueKind() != event.Vector {
		return event.Value{}, mismatch(c, "a vector")
	}
	if err := event.CheckVector(raw); err != nil {
		return event.Value{}, err
	}
	return event.VectorValue(raw), nil
}

// comparableFloat undoes the form in which floats sort as bytes: the sign bit
// flipped where it was 0, all bits flipped where it was 1.
func comparableFloat(b []byte) float64 {
	bits := binary.BigEndian.Uint64(b)
	if bits&signBit != 0 {
		return math.Float64frombits(bits &^ signBit)
	}
	return math.Float64frombits(^bits)
}
