package encode

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/sluice-cdc/sluice/event"
)

// The flag bytes in front of a value in keys and in row format 1.
const (
	flagNull     = 0x00
	flagBytes    = 0x01
	flagCompact  = 0x02
	flagInt      = 0x03
	flagUint     = 0x04
	flagFloat    = 0x05
	flagDecimal  = 0x06
	flagDuration = 0x07
	flagVarint   = 0x08
	flagUvarint  = 0x09
	flagJSON     = 0x0A
	flagVector   = 0x14
)

// form is how a cell is stored, whatever the format round it.
type form uint8

const (
	formNull    form = iota
	formInt          // num as a signed integer
	formUint         // num as an unsigned one
	formFloat        // num as the bits of a float64
	formDecimal      // raw: precision, scale, digits
	formBytes        // raw
	formTime         // num as the packed integer
	formSpan         // num as signed nanoseconds
	formJSON         // raw: type byte, payload
	formVector       // raw: dimension, float32s
)

// datum is a cell that has been brought into the form of its column.
type datum struct {
	form form
	num  uint64
	raw  []byte
}

// datumOf brings v into the form of column c, or says why it does not fit.
func datumOf(c *event.Column, v Value) (datum, error) {
	d, err := formOf(c, v)
	if err != nil {
		return datum{}, fmt.Errorf("encode %s: %w", c.Name, err)
	}
	return d, nil
}

func formOf(c *event.Column, v Value) (datum, error) {
	if v == nil {
		return datum{form: formNull}, nil
	}
	mismatch := func() (datum, error) {
		return datum{}, fmt.Errorf("a %T in a column of type %d, unsigned %v", v, c.Type, c.Unsigned())
	}
	switch v := v.(type) {
	case int64:
		if c.Type == event.TypeYear || isInteger(c.Type) && !c.Unsigned() {
			return datum{form: formInt, num: uint64(v)}, nil
		}
	case uint64:
		if isInteger(c.Type) && c.Unsigned() || c.Type == event.TypeEnum || c.Type == event.TypeSet || c.Type == event.TypeBit {
			return datum{form: formUint, num: v}, nil
		}
	case float64:
		if c.Type == event.TypeFloat || c.Type == event.TypeDouble {
			return datum{form: formFloat, num: math.Float64bits(v)}, nil
		}
	case time.Duration:
		if c.Type == event.TypeDuration {
			return datum{form: formSpan, num: uint64(v)}, nil
		}
	case Moment:
		if c.Type == event.TypeDate || c.Type == event.TypeDatetime || c.Type == event.TypeTimestamp {
			return datum{form: formTime, num: v.packed()}, nil
		}
	case []byte:
		if c.IsString() {
			return datum{form: formBytes, raw: v}, nil
		}
	case Decimal:
		if c.Type == event.TypeNewDecimal {
			raw, err := appendDecimal(nil, string(v), c.Flen, c.Decimal)
			return datum{form: formDecimal, raw: raw}, err
		}
	case JSON:
		if c.Type == event.TypeJSON {
			raw, err := appendJSON(nil, string(v))
			return datum{form: formJSON, raw: raw}, err
		}
	case []float32:
		if c.Type == event.TypeVector {
			return datum{form: formVector, raw: appendVector(nil, v)}, nil
		}
	}
	return mismatch()
}

// appendRow2 appends the bytes of a value in row format 2: numbers in as few
// bytes as they need, and no flag.
func (d datum) appendRow2(dst []byte) []byte {
	switch d.form {
	case formInt, formSpan:
		return appendShortInt(dst, int64(d.num))
	case formUint, formTime:
		return appendShortUint(dst, d.num)
	case formFloat:
		return appendFloat(dst, d.num)
	}
	return append(dst, d.raw...)
}

// appendRow1 appends a value as row format 1 has it, flag first.
func (d datum) appendRow1(dst []byte) []byte {
	switch d.form {
	case formNull:
		return append(dst, flagNull)
	case formInt, formSpan:
		return binary.AppendVarint(append(dst, flagVarint), int64(d.num))
	case formUint, formTime:
		return binary.AppendUvarint(append(dst, flagUvarint), d.num)
	case formFloat:
		return appendFloat(append(dst, flagFloat), d.num)
	case formDecimal:
		dst = append(dst, flagDecimal)
	case formJSON:
		dst = append(dst, flagJSON)
	case formVector:
		dst = append(dst, flagVector)
	case formBytes:
		dst = binary.AppendVarint(append(dst, flagCompact), int64(len(d.raw)))
	}
	return append(dst, d.raw...)
}

// appendKey appends a value as keys have it: flag first, in the order of bytes.
func (d datum) appendKey(dst []byte) ([]byte, error) {
	switch d.form {
	case formNull:
		return append(dst, flagNull), nil
	case formInt:
		return appendInt(append(dst, flagInt), int64(d.num)), nil
	case formUint, formTime:
		return binary.BigEndian.AppendUint64(append(dst, flagUint), d.num), nil
	case formFloat:
		return appendFloat(append(dst, flagFloat), d.num), nil
	case formDecimal:
		return append(append(dst, flagDecimal), d.raw...), nil
	case formSpan:
		return appendInt(append(dst, flagDuration), int64(d.num)), nil
	case formBytes:
		return appendBytes(append(dst, flagBytes), d.raw), nil
	}
	return nil, fmt.Errorf("JSON and vectors stand in no key")
}

// appendInt appends an integer whose bytes sort as it does.
func appendInt(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^(1<<63))
}

// appendFloat appends the bits of a float64 so that bytes sort as numbers do.
func appendFloat(dst []byte, bits uint64) []byte {
	if bits>>63 == 0 || bits == 1<<63 {
		bits |= 1 << 63
	} else {
		bits = ^bits
	}
	return binary.BigEndian.AppendUint64(dst, bits)
}

// appendBytes appends a string in groups of eight, each with a ninth byte that
// counts its padding down from FF, so that a prefix sorts first.
func appendBytes(dst, s []byte) []byte {
	for {
		n := min(len(s), 8)
		var group [8]byte
		copy(group[:], s[:n])
		dst = append(dst, group[:]...)
		dst = append(dst, byte(0xFF-(8-n)))
		s = s[n:]
		if n < 8 {
			return dst
		}
	}
}

func appendShortInt(dst []byte, v int64) []byte {
	switch {
	case int64(int8(v)) == v:
		return append(dst, byte(v))
	case int64(int16(v)) == v:
		return binary.LittleEndian.AppendUint16(dst, uint16(v))
	case int64(int32(v)) == v:
		return binary.LittleEndian.AppendUint32(dst, uint32(v))
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(v))
}

func appendShortUint(dst []byte, v uint64) []byte {
	switch {
	case v <= math.MaxUint8:
		return append(dst, byte(v))
	case v <= math.MaxUint16:
		return binary.LittleEndian.AppendUint16(dst, uint16(v))
	case v <= math.MaxUint32:
		return binary.LittleEndian.AppendUint32(dst, uint32(v))
	}
	return binary.LittleEndian.AppendUint64(dst, v)
}

func appendVector(dst []byte, v []float32) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(v)))
	for _, x := range v {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	}
	return dst
}
