package schema

import "github.com/sluice-cdc/sluice/event"

// fillAbsent sets what a row has in a column that it does not hold: the origin
// default, which is the default at the time of ADD COLUMN and not today's; else
// NULL; else the zero of the type. In a virtual generated column every row
// holds nothing, so its value stays missing.
func fillAbsent(col *event.Column) {
	switch {
	case col.Generated == event.Virtual:
	case !col.NotNull():
		col.Absent = event.NullValue()
	default:
		col.Absent = zero(col)
	}
}

// zero is the value that TiDB gives to a NOT NULL column without a default.
func zero(c *event.Column) event.Value {
	switch c.Type {
	case event.TypeTiny, event.TypeShort, event.TypeInt24, event.TypeLong, event.TypeLonglong:
		if c.Unsigned() {
			return event.UintValue(0)
		}
		return event.IntValue(0)
	case event.TypeYear:
		return event.IntValue(0)
	case event.TypeFloat, event.TypeDouble:
		return event.FloatValue(0)
	case event.TypeNewDecimal:
		return event.DecimalValue(zeroDecimal(c.Flen, c.Decimal))
	case event.TypeDate, event.TypeNewDate, event.TypeDatetime, event.TypeTimestamp:
		return event.TimeValue(0)
	case event.TypeDuration:
		return event.DurationValue(0)
	case event.TypeEnum:
		return event.EnumValue(1) // the first member, not the empty ''
	case event.TypeSet:
		return event.SetValue(0)
	case event.TypeBit:
		return event.BitValue(0)
	case event.TypeJSON:
		return event.JSONValue([]byte{0x04, 0x00}) // the literal null
	case event.TypeVector:
		return event.VectorValue(make([]byte, 4)) // no dimensions
	case event.TypeString:
		if c.IsBinary() && c.Flen > 0 {
			return event.BytesValue(make([]byte, c.Flen)) // BINARY(n) is stored padded
		}
	}
	if c.IsString() {
		return event.BytesValue([]byte{})
	}
	return event.NullValue()
}

// zeroDecimal is the stored form of 0 in DECIMAL(prec, frac): both numbers,
// then four bytes for nine digits and fewer for a rest, before and after the
// point; the sign bit of a number that is not negative is set.
func zeroDecimal(prec, frac int) []byte {
	if prec <= 0 {
		prec = 10
	}
	frac = min(max(frac, 0), prec)
	size := digitBytes(prec-frac) + digitBytes(frac)
	out := make([]byte, 2+size)
	out[0], out[1], out[2] = byte(prec), byte(frac), 0x80
	return out
}

func digitBytes(digits int) int { return digits/9*4 + (digits%9+1)/2 }
