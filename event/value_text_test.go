package event_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
)

func column(t event.Type, flen, decimal int) *event.Column {
	c := &event.Column{Name: "c", Type: t, Flen: flen, Decimal: decimal, Charset: "binary"}
	if c.IsString() {
		c.Charset = "utf8mb4"
	}
	return c
}

func unsigned(c *event.Column) *event.Column {
	c.Flag |= event.FlagUnsigned
	return c
}

func binaryColumn(t event.Type, flen int) *event.Column {
	c := column(t, flen, 0)
	c.Charset = "binary"
	return c
}

func members(t event.Type, collation string, names ...string) *event.Column {
	return &event.Column{Name: "c", Type: t, Collation: collation, Elems: names}
}

func TestAppendText(t *testing.T) {
	long := column(event.TypeLonglong, 20, 0)
	double, float := column(event.TypeDouble, 22, -1), column(event.TypeFloat, 12, -1)
	tests := []struct {
		name  string
		c     *event.Column
		v     event.Value
		want  string
		bytes bool // not text
	}{
		{"smallest integer", long, event.IntValue(math.MinInt64), "-9223372036854775808", false},
		{"largest unsigned", unsigned(column(event.TypeLonglong, 20, 0)), event.UintValue(math.MaxUint64), "18446744073709551615", false},
		{"zerofill is not padded", &event.Column{Type: event.TypeLong, Flen: 10, Flag: event.FlagZerofill | event.FlagUnsigned}, event.UintValue(7), "7", false},
		{"year", column(event.TypeYear, 4, 0), event.IntValue(2024), "2024", false},
		{"year zero", unsigned(column(event.TypeYear, 4, 0)), event.IntValue(0), "0000", false},
		{"enum", members(event.TypeEnum, "", "a", "b"), event.EnumValue(2), "b", false},
		{"enum without member", members(event.TypeEnum, "", "a", "b"), event.EnumValue(0), "", false},
		{"enum beyond its members", members(event.TypeEnum, "", "a", "b"), event.EnumValue(3), "", false},
		{"set in bit order", members(event.TypeSet, "", "x", "y", "z"), event.SetValue(5), "x,z", false},
		{"empty set", members(event.TypeSet, "", "x", "y"), event.SetValue(0), "", false},
		{"last of 64 members", members(event.TypeSet, "", strings.Split(strings.Repeat("m,", 63)+"last", ",")...), event.SetValue(1 << 63), "last", false},

		{"double keeps no point", double, event.FloatValue(-25000000000), "-25000000000", false},
		{"double below 1e15", double, event.FloatValue(999999999999999.9), "999999999999999.9", false},
		{"double from 1e15", double, event.FloatValue(1e15), "1e15", false},
		{"double with exponent and digits", double, event.FloatValue(9007199254740992), "9.007199254740992e15", false},
		{"double at 1e-15", double, event.FloatValue(1e-15), "0.000000000000001", false},
		{"double below 1e-15", double, event.FloatValue(9.5e-16), "9.5e-16", false},
		{"double, one digit exponent", double, event.FloatValue(1e-300), "1e-300", false},
		{"double largest", double, event.FloatValue(-math.MaxFloat64), "-1.7976931348623157e308", false},
		{"double tenth", double, event.FloatValue(0.1), "0.1", false},
		{"double negative zero", double, event.FloatValue(math.Copysign(0, -1)), "0", false},
		{"declared digits are not padded", column(event.TypeDouble, 15, 5), event.FloatValue(1.5), "1.5", false},
		{"float tenth", float, event.FloatValue(float64(float32(0.1))), "0.1", false},
		{"float whole", float, event.FloatValue(16777216), "16777216", false},
		{"float shortest, then zeros", float, event.FloatValue(float64(float32(123456789))), "123456790", false},
		{"float nearest to 1e15", float, event.FloatValue(999999986991104), "1e15", false},
		{"float just below 1e15", float, event.FloatValue(float64(math.Nextafter32(1e15, 0))), "999999900000000", false},
		{"float six digits", float, event.FloatValue(-float64(float32(3.402823466e38))), "-3.40282e38", false},
		{"float six digits, zeros cut", float, event.FloatValue(float64(float32(1e-38))), "1e-38", false},
		{"float underflow", float, event.FloatValue(1e-60), "0", false},

		{"date", column(event.TypeDate, 10, 0), event.TimeValue(event.DateTime{Year: 2024, Month: 2, Day: 29}.Pack()), "2024-02-29", false},
		{"half-zero date", column(event.TypeDate, 10, 0), event.TimeValue(event.DateTime{Year: 2024}.Pack()), "2024-00-00", false},
		{"zero datetime", column(event.TypeDatetime, 19, 0), event.TimeValue(0), "0000-00-00 00:00:00", false},
		{"datetime cut, not rounded", column(event.TypeDatetime, 23, 3), event.TimeValue(event.DateTime{Year: 9999, Month: 12, Day: 31, Hour: 23, Minute: 59, Second: 59, Micro: 999999}.Pack()), "9999-12-31 23:59:59.999", false},
		{"timestamp six digits", column(event.TypeTimestamp, 26, 6), event.TimeValue(event.DateTime{Year: 1970, Month: 1, Day: 1, Second: 1, Micro: 1}.Pack()), "1970-01-01 00:00:01.000001", false},
		{"unspecified fraction", column(event.TypeDatetime, 19, -1), event.TimeValue(event.DateTime{Year: 1, Month: 1, Day: 1, Micro: 5}.Pack()), "0001-01-01 00:00:00", false},
		{"time", column(event.TypeDuration, 10, 0), event.DurationValue(45296e9), "12:34:56", false},
		{"time of three digits", column(event.TypeDuration, 17, 6), event.DurationValue(-(838*3600+59*60+58)*1e9 - 999999000), "-838:59:58.999999", false},
		{"time, only the sign", column(event.TypeDuration, 14, 3), event.DurationValue(-1e6), "-00:00:00.001", false},
		{"time smallest", column(event.TypeDuration, 10, 0), event.DurationValue(math.MinInt64), "-2562047:47:16", false},

		{"bit of nine", column(event.TypeBit, 9, 0), event.BitValue(0x101), "\x01\x01", true},
		{"bit of 64", column(event.TypeBit, 64, 0), event.BitValue(5), "\x00\x00\x00\x00\x00\x00\x00\x05", true},
		{"bit without length", column(event.TypeBit, -1, 0), event.BitValue(1), "\x01", true},
		{"varchar", column(event.TypeVarchar, 10, 0), event.BytesValue([]byte("日本 ")), "日本 ", false},
		{"varchar with broken bytes", column(event.TypeVarchar, 10, 0), event.BytesValue([]byte("M\xfcller")), "M\xfcller", true},
		{"varbinary", binaryColumn(event.TypeVarchar, 10), event.BytesValue([]byte("abc")), "abc", true},
		{"blob", binaryColumn(event.TypeBlob, 65535), event.BytesValue([]byte("abc")), "abc", true},
		{"null", long, event.NullValue(), "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(tt.v.AppendText([]byte("before "), tt.c)); got != "before "+tt.want {
				t.Errorf("AppendText = %q, want %q", got, tt.want)
			}
			if got := tt.v.Text(tt.c); got != tt.want {
				t.Errorf("Text = %q, want %q", got, tt.want)
			}
			if tt.v.IsText(tt.c) == tt.bytes {
				t.Errorf("IsText = %v", !tt.bytes)
			}
		})
	}
}

func TestAppendTextOfDecimal(t *testing.T) {
	tests := []struct {
		text            string
		precision, frac int // as stored
		scale           int // of the column
		want            string
	}{
		{"0", 10, 0, 0, "0"},
		{"-0.00", 5, 2, 2, "0.00"},
		{"1.5", 5, 2, 2, "1.50"},
		{".5", 1, 1, 1, "0.5"},
		{"-0.9", 1, 1, 1, "-0.9"},
		{"-999.99", 5, 2, 2, "-999.99"},
		{"12345678901234567890.0123456789", 30, 10, 10, "12345678901234567890.0123456789"},
		{"-0.000000000000000000000000000001", 65, 30, 30, "-0.000000000000000000000000000001"},
		{strings.Repeat("9", 65), 65, 0, 0, strings.Repeat("9", 65)},
		{strings.Repeat("9", 81), 81, 0, 0, strings.Repeat("9", 81)},
		{"1.5", 5, 2, 4, "1.5000"}, // the column's scale wins over the stored one
		{"1.25", 5, 2, 1, "1.3"},
		{"-9.99", 3, 2, 1, "-10.0"},
		{"-0.04", 3, 2, 1, "0.0"},
		{"9.5", 2, 1, 0, "10"},
		{"1.25", 5, 2, -1, "1.25"},
		{"1e3", 5, 1, 1, "1000.0"},
		{"12.5e-1", 5, 2, 2, "1.25"},
		{"0.005", 5, 2, 2, "0.01"},
		{"0.0049", 5, 2, 2, "0.00"},
		{"9.995", 5, 2, 2, "10.00"},
		{"1e-300", 5, 2, 2, "0.00"},
		{"0e300", 5, 2, 2, "0.00"},
	}
	for _, tt := range tests {
		raw, err := event.ParseDecimal(tt.text, tt.precision, tt.frac)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if err := event.CheckDecimal(raw); err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
		c := column(event.TypeNewDecimal, tt.precision, tt.scale)
		if got := event.DecimalValue(raw).Text(c); got != tt.want {
			t.Errorf("%s as decimal(%d,%d) in a column of scale %d: %q, want %q", tt.text, tt.precision, tt.frac, tt.scale, got, tt.want)
		}
	}
	for _, bad := range []string{"", "-", "1.2.3", "x", "1e", "1e999", "100000", "99999.995", "0x10", "1 2"} {
		if raw, err := event.ParseDecimal(bad, 7, 2); err == nil {
			t.Errorf("%q became %x", bad, raw)
		}
	}
}

// Stored forms as MySQL's documentation of its binary decimals shows them.
func TestParseDecimalBytes(t *testing.T) {
	raw, err := event.ParseDecimal("1234567890.1234", 14, 4)
	if err != nil || string(raw) != "\x0e\x04\x81\x0d\xfb\x38\xd2\x04\xd2" {
		t.Errorf("%x %v", raw, err)
	}
	raw, err = event.ParseDecimal("-1234567890.1234", 14, 4)
	if err != nil || string(raw) != "\x0e\x04\x7e\xf2\x04\xc7\x2d\xfb\x2d" {
		t.Errorf("%x %v", raw, err)
	}
}

func TestCheckDecimalRefuses(t *testing.T) {
	for _, bad := range []string{
		"", "\x05", "\x00\x00", "\x02\x03\x80", "\x52\x00" + strings.Repeat("\x80", 40),
		"\x05\x02\x80\x00",         // a byte short
		"\x05\x02\x80\x00\x00\x00", // a byte too many
		"\x03\x00\x83\xe8",         // 1000 in three digits
	} {
		if err := event.CheckDecimal([]byte(bad)); err == nil {
			t.Errorf("%x accepted", bad)
		}
	}
}

func TestAppendTextOfVector(t *testing.T) {
	c := column(event.TypeVector, -1, 0)
	for _, tt := range []struct {
		numbers []float32
		want    string
	}{
		{nil, "[]"},
		{[]float32{1.5, -2, 3e10}, "[1.5,-2,30000000000]"},
		{[]float32{1e-10, -0.5, 3.4e38}, "[0.0000000001,-0.5,340000000000000000000000000000000000000]"},
		{[]float32{float32(math.Copysign(0, -1))}, "[-0]"},
	} {
		v := event.VectorOf(tt.numbers)
		if got := v.Text(c); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
		if err := event.CheckVector(v.Raw()); err != nil {
			t.Error(err)
		}
		if back := v.AppendFloats(nil); len(back) != len(tt.numbers) {
			t.Error(back)
		}
	}
	for _, bad := range []string{"", "\x01\x00\x00", "\x01\x00\x00\x00", "\x00\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x01\x00\x00\x00\x00\x00\xc0\x7f"} {
		if err := event.CheckVector([]byte(bad)); err == nil {
			t.Errorf("%x accepted", bad)
		}
	}
}

func TestZeroOfEveryType(t *testing.T) {
	notNull := func(c *event.Column) *event.Column { c.Flag |= event.FlagNotNull; return c }
	for _, tt := range []struct {
		c    *event.Column
		want string
	}{
		{column(event.TypeLong, 11, 0), "0"},
		{unsigned(column(event.TypeLong, 11, 0)), "0"},
		{column(event.TypeYear, 4, 0), "0000"},
		{column(event.TypeDouble, 22, -1), "0"},
		{column(event.TypeNewDecimal, 20, 3), "0.000"},
		{column(event.TypeVarchar, 10, 0), ""},
		{column(event.TypeBlob, 10, 0), ""},
		{binaryColumn(event.TypeString, 3), "\x00\x00\x00"},
		{column(event.TypeDate, 10, 0), "0000-00-00"},
		{column(event.TypeTimestamp, 23, 3), "0000-00-00 00:00:00.000"},
		{column(event.TypeDuration, 10, 0), "00:00:00"},
		{members(event.TypeEnum, "", "one", "two"), "one"},
		{members(event.TypeSet, "", "one", "two"), ""},
		{column(event.TypeBit, 9, 0), "\x00\x00"},
		{column(event.TypeJSON, -1, 0), "null"},
		{column(event.TypeVector, -1, 0), "[]"},
	} {
		zero := notNull(tt.c).Zero()
		if got := zero.Text(tt.c); got != tt.want || zero.Kind() != tt.c.ValueKind() {
			t.Errorf("type %d: %q of kind %d, want %q of kind %d", tt.c.Type, got, zero.Kind(), tt.want, tt.c.ValueKind())
		}
	}
}
