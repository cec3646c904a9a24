package event_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
)

func TestParseText(t *testing.T) {
	date, datetime, year := column(event.TypeDate, 10, 0), column(event.TypeDatetime, 19, 0), column(event.TypeYear, 4, 0)
	enum := members(event.TypeEnum, "utf8mb4_general_ci", "a", "", "1", "ä", "d,e")
	set := members(event.TypeSet, "utf8mb4_bin", "x", "y", "z")
	for _, tt := range []struct {
		c          *event.Column
		text, want string
	}{
		{column(event.TypeTiny, 4, 0), "-128", "-128"},
		{unsigned(column(event.TypeLonglong, 20, 0)), "18446744073709551615", "18446744073709551615"},
		{unsigned(column(event.TypeInt24, 9, 0)), "16777215", "16777215"},
		{column(event.TypeLong, 11, 0), "-1.5", "-2"},
		{column(event.TypeLong, 11, 0), "1e3", "1000"},
		{unsigned(column(event.TypeLonglong, 20, 0)), "18446744073709551614.6", "18446744073709551615"},
		{column(event.TypeFloat, 12, -1), "123456789", "123456790"},
		{column(event.TypeFloat, 7, 3), "1234.5678", "1234.568"},
		{column(event.TypeDouble, 15, 5), "1234567890.12345", "1234567890.12345"},
		{column(event.TypeDouble, 22, -1), "-0.0", "0"},
		{column(event.TypeNewDecimal, 5, 2), "1.5", "1.50"},
		{column(event.TypeNewDecimal, 5, 2), "-0.001", "0.00"},

		{column(event.TypeString, 10, 0), "a  ", "a"},
		{column(event.TypeVarchar, 10, 0), "a  ", "a  "},
		{binaryColumn(event.TypeString, 4), "ab", "ab\x00\x00"},
		{binaryColumn(event.TypeVarchar, 4), "ab ", "ab "},

		{date, "2024-02-29", "2024-02-29"},
		{date, "2024-02-29 23:59:59.9", "2024-02-29"},
		{date, "2024-00-00", "2024-00-00"},
		{date, "20240131", "2024-01-31"},
		{date, "700131", "1970-01-31"},
		{datetime, "2024-05-05", "2024-05-05 00:00:00"},
		{datetime, "0", "0000-00-00 00:00:00"},
		{datetime, "69/1/2 3.4.5", "2069-01-02 03:04:05"},
		{datetime, "2024-05-05T05:05:05", "2024-05-05 05:05:05"},
		{datetime, "20240505050607", "2024-05-05 05:06:07"},
		{datetime, "2024-02-29 23:59:59.5", "2024-03-01 00:00:00"},
		{datetime, "2023-02-28 23:59:59.5", "2023-03-01 00:00:00"},
		{datetime, "1999-12-31 23:59:59.9999999", "2000-01-01 00:00:00"},
		{datetime, "2024-00-00 23:59:59.9", "2024-00-00 23:59:59"},
		{column(event.TypeDatetime, 23, 3), "2024-05-05 05:05:05", "2024-05-05 05:05:05.000"},
		{column(event.TypeTimestamp, 23, 3), "2021-06-01 04:00:00.1236", "2021-06-01 04:00:00.124"},
		{column(event.TypeDatetime, 26, 6), "2024-12-31 23:59:59.9999999", "2025-01-01 00:00:00.000000"},

		{column(event.TypeDuration, 10, 0), "-838:59:59", "-838:59:59"},
		{column(event.TypeDuration, 13, 2), "-01:02:03.04", "-01:02:03.04"},
		{column(event.TypeDuration, 14, 3), "-00:00:00.001", "-00:00:00.001"},
		{column(event.TypeDuration, 10, 0), "1 10:11", "34:11:00"},
		{column(event.TypeDuration, 10, 0), "1", "00:00:01"},
		{column(event.TypeDuration, 11, 1), "1234.56", "00:12:34.6"},
		{column(event.TypeDuration, 10, 0), "00:00:59.5", "00:01:00"},
		{year, "2155", "2155"}, {year, "0000", "0000"}, {year, "0", "0000"}, {year, "70", "1970"}, {year, "69", "2069"},

		{enum, "a", "a"}, {enum, "A", "a"}, {enum, "", ""}, {enum, "1", "1"}, {enum, "Ä", "ä"}, {enum, "d,e", "d,e"},
		{set, "z,x,x", "x,z"}, {set, "", ""},
		{column(event.TypeBit, 9, 0), "\x01\x00", "\x01\x00"},
		{column(event.TypeBit, 9, 0), "", "\x00\x00"},
		{column(event.TypeBit, 8, 0), "\x00\x00\x05", "\x05"},
		{column(event.TypeJSON, -1, 0), `{"b":1,"a":1.0}`, `{"a": 1.0, "b": 1}`},
		{column(event.TypeVector, 3, 0), " [1, -0,3e10] ", "[1,-0,30000000000]"},
		{column(event.TypeVector, -1, 0), "[]", "[]"},
	} {
		v, err := event.ParseText(tt.c, tt.text)
		if err != nil {
			t.Errorf("type %d, %q: %v", tt.c.Type, tt.text, err)
			continue
		}
		if got := v.Text(tt.c); got != tt.want {
			t.Errorf("type %d, %q: %q, want %q", tt.c.Type, tt.text, got, tt.want)
		}
		if v.Kind() != tt.c.ValueKind() {
			t.Errorf("type %d, %q: kind %d", tt.c.Type, tt.text, v.Kind())
		}
	}
	if v, err := event.ParseText(members(event.TypeEnum, "", "4", "7", "3"), "3"); err != nil || v.Uint() != 3 {
		t.Errorf("a member named by a digit: %d %v", v.Uint(), err)
	}
	if v, err := event.ParseText(members(event.TypeEnum, "", "a", "b", "x", ""), ""); err != nil || v.Uint() != 4 {
		t.Errorf("the member '': %d %v", v.Uint(), err)
	}
	if v, err := event.ParseText(members(event.TypeEnum, "", "a"), ""); err != nil || v.Uint() != 0 {
		t.Errorf("no member '': %d %v", v.Uint(), err)
	}
}

func TestParseTextRefuses(t *testing.T) {
	for _, tt := range []struct {
		c    *event.Column
		text string
	}{
		{column(event.TypeTiny, 4, 0), "128"},
		{column(event.TypeLong, 11, 0), "1.5x"},
		{unsigned(column(event.TypeLong, 11, 0)), "-1"},
		{unsigned(column(event.TypeDouble, 22, -1)), "-1"},
		{unsigned(column(event.TypeNewDecimal, 5, 2)), "-1"},
		{column(event.TypeFloat, 12, -1), "1e39"},
		{column(event.TypeDouble, 22, -1), "inf"},
		{column(event.TypeDouble, 22, -1), "nan"},
		{column(event.TypeNewDecimal, 5, 2), "1000"},
		{column(event.TypeDate, 10, 0), "CURRENT_DATE"},
		{column(event.TypeDatetime, 19, 0), "CURRENT_TIMESTAMP"},
		{column(event.TypeDatetime, 19, 0), ""},
		{column(event.TypeDatetime, 19, 0), "-2024-01-01"},
		{column(event.TypeDatetime, 19, 0), "."},
		{column(event.TypeDatetime, 19, 0), "2024-13-01"},
		{column(event.TypeDatetime, 19, 0), "2024-01-32"},
		{column(event.TypeDatetime, 19, 0), "2024-01-01 24:00:00"},
		{column(event.TypeDatetime, 19, 0), "2024-01"},
		{column(event.TypeDatetime, 19, 0), "2024-01-01 00:00:00.x"},
		{column(event.TypeDatetime, 19, 0), "9999-12-31 23:59:59.9"},
		{column(event.TypeDuration, 10, 0), "839:00:00"},
		{column(event.TypeDuration, 10, 0), "1:60"},
		{column(event.TypeDuration, 10, 0), ""},
		{column(event.TypeDuration, 10, 0), "1:2:3:4"},
		{column(event.TypeYear, 4, 0), "1900"},
		{column(event.TypeYear, 4, 0), "x"},
		{members(event.TypeEnum, "utf8mb4_bin", "a"), "A"},
		{members(event.TypeSet, "utf8mb4_bin", "a"), "a,b"},
		{column(event.TypeBit, 9, 0), "\x02\x00"},
		{column(event.TypeBit, 8, 0), "\x01\x00"},
		{column(event.TypeJSON, -1, 0), "{"},
		{column(event.TypeVector, 3, 0), "[1,2]"},
		{column(event.TypeVector, -1, 0), "1,2"},
		{column(event.TypeVector, -1, 0), "[1,,2]"},
		{column(event.TypeGeometry, -1, 0), "POINT(1 1)"},
	} {
		if v, err := event.ParseText(tt.c, tt.text); err == nil {
			t.Errorf("type %d: %q became %q", tt.c.Type, tt.text, v.Text(tt.c))
		} else if !strings.HasPrefix(err.Error(), "column c: ") {
			t.Errorf("the error does not name the column: %v", err)
		}
	}
}

// anyColumn draws a column that can hold what anyValue draws for it.
func anyColumn(t *rapid.T) *event.Column {
	c := &event.Column{Name: "c", Type: rapid.SampledFrom([]event.Type{
		event.TypeTiny, event.TypeShort, event.TypeInt24, event.TypeLong, event.TypeLonglong, event.TypeYear,
		event.TypeFloat, event.TypeDouble, event.TypeNewDecimal, event.TypeDate, event.TypeDatetime, event.TypeTimestamp,
		event.TypeDuration, event.TypeBit, event.TypeEnum, event.TypeSet, event.TypeVarchar, event.TypeString, event.TypeBlob, event.TypeVector,
	}).Draw(t, "type")}
	c.Decimal = -1
	switch c.ValueKind() {
	case event.Time, event.Duration:
		c.Decimal = rapid.IntRange(0, 6).Draw(t, "fraction")
	case event.Decimal:
		c.Decimal = rapid.IntRange(0, 30).Draw(t, "scale")
		c.Flen = rapid.IntRange(max(1, c.Decimal), 65).Draw(t, "precision")
	case event.Bit:
		c.Flen = rapid.IntRange(1, 64).Draw(t, "length")
	case event.Enum, event.Set:
		c.Elems = []string{"a", "b", "3", "ü"}
	case event.Int:
		if c.Type != event.TypeYear && rapid.Bool().Draw(t, "unsigned") {
			c.Flag = event.FlagUnsigned
		}
	}
	return c
}

func anyValue(t *rapid.T, c *event.Column) event.Value {
	bits := map[event.Type]int{event.TypeTiny: 8, event.TypeShort: 16, event.TypeInt24: 24, event.TypeLong: 32, event.TypeLonglong: 64}[c.Type]
	word := rapid.Uint64().Draw(t, "word")
	switch c.ValueKind() {
	case event.Int:
		if c.Type == event.TypeYear {
			return event.IntValue(int64(1901 + word%255))
		}
		return event.IntValue(int64(word) >> (64 - bits))
	case event.Uint:
		return event.UintValue(word >> (64 - bits))
	case event.Float:
		if c.Type == event.TypeFloat { // plain notation: the other one keeps six digits only
			return event.FloatValue(float64(rapid.Float32Range(-1e14, 1e14).Filter(func(f float32) bool { return max(f, -f) > 1e-14 }).Draw(t, "float")))
		}
		return event.FloatValue(rapid.Float64Range(-1e300, 1e300).Filter(func(f float64) bool { return f != 0 }).Draw(t, "double"))
	case event.Decimal:
		digits := rapid.StringMatching(`-?[0-9]{1,65}`).Filter(func(s string) bool { return len(strings.TrimLeft(s, "-0")) <= c.Flen-c.Decimal }).Draw(t, "digits")
		fraction := rapid.StringMatching(`[0-9]{30}`).Draw(t, "fraction digits")[:c.Decimal]
		raw, err := event.ParseDecimal(digits+"."+fraction, c.Flen, c.Decimal)
		if err != nil {
			t.Fatal(err)
		}
		return event.DecimalValue(raw)
	case event.Time:
		d := event.DateTime{Year: int(word % 10000), Month: int(word >> 20 % 13), Day: int(word >> 30 % 32)}
		if c.Type != event.TypeDate {
			d.Hour, d.Minute, d.Second = int(word>>40%24), int(word>>45%60), int(word>>50%60)
			unit := []int{1000000, 100000, 10000, 1000, 100, 10, 1}[c.Decimal]
			d.Micro = int(word>>44) % 1000000 / unit * unit
		}
		return event.TimeValue(d.Pack())
	case event.Duration:
		unit := []int64{1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3}[c.Decimal]
		return event.DurationValue(int64(word) % (838 * 3600e9) / unit * unit)
	case event.Bit:
		return event.BitValue(word >> (64 - c.Flen))
	case event.Enum:
		return event.EnumValue(word % 5)
	case event.Set:
		return event.SetValue(word % 16)
	case event.Vector:
		return event.VectorOf(rapid.SliceOf(rapid.Float32()).Draw(t, "numbers"))
	}
	return event.BytesValue([]byte(strings.TrimRight(rapid.String().Draw(t, "string"), " ")))
}

func TestTextReadsBackAsTheSameValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyColumn(t)
		v := anyValue(t, c)
		back, err := event.ParseText(c, v.Text(c))
		if err != nil || !back.Equal(v) {
			t.Fatalf("%+v: %q became %q, %v", c, v.Text(c), back.Text(c), err)
		}
	})
}

func FuzzDecimal(f *testing.F) {
	for _, seed := range []string{"1.5", "-99999.99", "0", "0.01"} {
		raw, err := event.ParseDecimal(seed, 20, 5)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, 2)
		f.Add(raw, -1)
	}
	f.Fuzz(func(t *testing.T, raw []byte, scale int) {
		c := &event.Column{Type: event.TypeNewDecimal, Flen: 65, Decimal: scale}
		_ = event.DecimalValue(raw).Text(c) // any bytes can be printed
		if event.CheckDecimal(raw) != nil {
			return
		}
		c.Flen, c.Decimal = int(raw[0]), int(raw[1])
		text := event.DecimalValue(raw).Text(c)
		back, err := event.ParseText(c, text)
		if err != nil || back.Text(c) != text {
			t.Fatalf("%x is %q, but comes back as %q: %v", raw, text, back.Text(c), err)
		}
	})
}

// FuzzParseText: whatever text there is, a value that comes of it is one that
// prints and reads back the same.
func FuzzParseText(f *testing.F) {
	for _, seed := range []struct {
		t    byte
		text string
	}{
		{byte(event.TypeLonglong), "-42"}, {byte(event.TypeFloat), "1e38"}, {byte(event.TypeNewDecimal), "-1.005"}, {byte(event.TypeDatetime), "2024-02-29 23:59:59.9999999"},
		{byte(event.TypeDuration), "-838:59:59"}, {byte(event.TypeYear), "70"}, {byte(event.TypeEnum), "b"}, {byte(event.TypeSet), "a,b"}, {byte(event.TypeBit), "\x01\xff"},
		{byte(event.TypeJSON), `{"a":[1,2.5,"x\u0000"]}`}, {byte(event.TypeVector), "[1.5,-2]"}, {byte(event.TypeString), "a  "},
	} {
		f.Add(seed.t, 10, 3, seed.text)
	}
	f.Fuzz(func(t *testing.T, kind byte, flen, decimal int, text string) {
		c := &event.Column{Name: "c", Type: event.Type(kind), Flen: flen, Decimal: decimal, Charset: "binary", Elems: []string{"a", "b"}}
		v, err := event.ParseText(c, text)
		if err != nil {
			return
		}
		first := v.Text(c)
		back, err := event.ParseText(c, first)
		if v.Kind() == event.Null {
			return
		}
		if err != nil || back.Text(c) != first {
			t.Fatalf("%+v %q: %q, then %q: %v", c, text, first, back.Text(c), err)
		}
	})
}
