package catalog

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// Convert turns a value of one column into one of another, as a MODIFY COLUMN
// does; a value that does not fit is an *Error. Zone is where a TIMESTAMP, which
// is kept in UTC, is read as a time of day.
func Convert(from *event.Column, v encode.Value, to *event.Column, zone *time.Location) (encode.Value, error) {
	if v == nil {
		return nil, nil
	}
	if m, ok := v.(encode.Moment); ok && from.Type == event.TypeTimestamp && to.Type != event.TypeTimestamp {
		v = inZone(m, time.UTC, zone)
	}
	out, err := convert(from, v, to)
	if m, ok := out.(encode.Moment); ok && to.Type == event.TypeTimestamp && from.Type != event.TypeTimestamp {
		out = inZone(m, zone, time.UTC)
	}
	return out, err
}

// inZone reads a moment in one zone and tells it in another.
func inZone(m encode.Moment, from, to *time.Location) encode.Moment {
	if m == (encode.Moment{}) {
		return m
	}
	at := momentOf(time.Date(m.Year, time.Month(m.Month), m.Day, m.Hour, m.Minute, m.Second, m.Microsecond*1000, from).In(to))
	return at.value()
}

func (m moment) value() encode.Moment {
	return encode.Moment{
		Year: m.year, Month: m.month, Day: m.day, Hour: m.hour, Minute: m.minute, Second: m.second, Microsecond: m.micro,
	}
}

func convert(from *event.Column, v encode.Value, to *event.Column) (encode.Value, error) {
	text, err := textOf(from, v)
	if err != nil {
		return nil, err
	}
	switch {
	case to.IsString():
		return fitString(to, text)
	case isNumber(to.Type) || to.Type == event.TypeYear || to.Type == event.TypeBit:
		return fitNumber(from, v, to, text)
	case to.Type == event.TypeDate || to.Type == event.TypeDatetime || to.Type == event.TypeTimestamp:
		return fitMoment(to, text)
	case to.Type == event.TypeDuration:
		s, err := fitDuration(text, max(to.Decimal, 0))
		if err != nil {
			return nil, wrongValue(to, text)
		}
		return encode.Parse(to, s)
	case to.Type == event.TypeEnum || to.Type == event.TypeSet:
		return fitMember(from, to, text)
	case to.Type == event.TypeJSON:
		if from.IsString() || isNumber(from.Type) {
			return encode.JSON(text), nil
		}
		return encode.JSON(strconv.Quote(text)), nil
	}
	out, err := encode.Parse(to, text)
	if err != nil {
		return nil, wrongValue(to, text)
	}
	return out, nil
}

func wrongValue(c *event.Column, text string) error {
	return refuse(1292, "Incorrect value: '%s' for column '%s'", text, c.Name)
}

func outOfRange(c *event.Column, text string) error {
	return refuse(1264, "Out of range value for column '%s': %s", c.Name, text)
}

func isNumber(t event.Type) bool {
	switch t {
	case event.TypeTiny, event.TypeShort, event.TypeInt24, event.TypeLong, event.TypeLonglong,
		event.TypeFloat, event.TypeDouble, event.TypeNewDecimal:
		return true
	}
	return false
}

// textOf is a value as SQL prints it.
func textOf(c *event.Column, v encode.Value) (string, error) {
	switch x := v.(type) {
	case int64:
		return strconv.FormatInt(x, 10), nil
	case uint64:
		return textOfMask(c, x), nil
	case float64:
		bits := 64
		if c.Type == event.TypeFloat {
			bits = 32
		}
		return strconv.FormatFloat(x, 'f', -1, bits), nil
	case encode.Decimal:
		return roundText(string(x), max(c.Decimal, 0))
	case []byte:
		return string(x), nil
	case encode.JSON:
		return string(x), nil
	case encode.Moment:
		m := moment{x.Year, x.Month, x.Day, x.Hour, x.Minute, x.Second, x.Microsecond}
		return m.text(&FieldType{Tp: uint8(c.Type), Decimal: c.Decimal}), nil
	case time.Duration:
		return textOfDuration(x, max(c.Decimal, 0)), nil
	}
	return "", fmt.Errorf("catalog: no text for a %T", v)
}

func textOfMask(c *event.Column, v uint64) string {
	switch c.Type {
	case event.TypeEnum:
		if v == 0 || v > uint64(len(c.Elems)) {
			return ""
		}
		return c.Elems[v-1]
	case event.TypeSet:
		var names []string
		for i, e := range c.Elems {
			if v&(1<<i) != 0 {
				names = append(names, e)
			}
		}
		return strings.Join(names, ",")
	case event.TypeBit:
		n := max((c.Flen+7)/8, 1)
		return string(binary.BigEndian.AppendUint64(nil, v)[8-n:])
	}
	return strconv.FormatUint(v, 10)
}

func textOfDuration(d time.Duration, digits int) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	s := int64(d / time.Second)
	micro := int(d % time.Second / time.Microsecond)
	return fmt.Sprintf("%s%02d:%02d:%02d%s", sign, s/3600, s/60%60, s%60, fractionText(micro, digits))
}

func fitString(to *event.Column, text string) (encode.Value, error) {
	n := utf8.RuneCountInString(text)
	if to.IsBinary() {
		n = len(text)
	}
	if to.Flen >= 0 && n > to.Flen {
		return nil, refuse(1406, "Data too long for column '%s'", to.Name)
	}
	if to.IsBinary() && to.Type == event.TypeString {
		text += strings.Repeat("\x00", to.Flen-n)
	}
	return []byte(text), nil
}

// roundText rounds a decimal number to so many digits after the point, half
// away from zero.
func roundText(text string, digits int) (string, error) {
	r, ok := new(big.Rat).SetString(strings.TrimSpace(text))
	if !ok {
		return "", refuse(1366, "Incorrect decimal value: '%s'", text)
	}
	return r.FloatString(digits), nil
}

func fitNumber(from *event.Column, v encode.Value, to *event.Column, text string) (encode.Value, error) {
	if from.Type == event.TypeEnum || from.Type == event.TypeSet || from.Type == event.TypeBit {
		if n, ok := v.(uint64); ok {
			text = strconv.FormatUint(n, 10)
		}
	}
	switch x := v.(type) {
	case encode.Moment, time.Duration:
		text = strings.NewReplacer("-", "", " ", "", ":", "").Replace(strings.TrimPrefix(text, "-"))
		if d, ok := x.(time.Duration); ok && d < 0 {
			text = "-" + text
		}
	}
	switch to.Type {
	case event.TypeNewDecimal:
		return fitDecimal(to, text)
	case event.TypeFloat, event.TypeDouble:
		bits := 64
		if to.Type == event.TypeFloat {
			bits = 32
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(text), bits)
		if err != nil || math.IsInf(f, 0) || to.Unsigned() && f < 0 {
			return nil, wrongValue(to, text)
		}
		return f, nil
	}
	whole, err := roundText(text, 0)
	if err != nil {
		return nil, wrongValue(to, text)
	}
	return fitInteger(to, whole)
}

func fitDecimal(to *event.Column, text string) (encode.Value, error) {
	out, err := roundText(text, max(to.Decimal, 0))
	if err != nil {
		return nil, err
	}
	digits, _, _ := strings.Cut(strings.TrimLeft(strings.TrimPrefix(out, "-"), "0"), ".")
	if len(digits) > to.Flen-max(to.Decimal, 0) || to.Unsigned() && strings.HasPrefix(out, "-") && strings.Trim(out, "-0.") != "" {
		return nil, outOfRange(to, text)
	}
	return encode.Decimal(out), nil
}

// fitInteger reads a whole number into an integer column, a YEAR or a BIT.
func fitInteger(to *event.Column, text string) (encode.Value, error) {
	bits := 8 * intBytes(uint8(to.Type))
	switch to.Type {
	case event.TypeYear:
		return fitYear(to, text)
	case event.TypeBit:
		bits = max(to.Flen, 1)
	}
	if to.Type == event.TypeBit || to.Unsigned() {
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "-"), 10, bits)
		if err != nil || n != 0 && strings.HasPrefix(text, "-") {
			return nil, outOfRange(to, text)
		}
		return n, nil
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return nil, outOfRange(to, text)
	}
	return n, nil
}

// fitYear reads a year of four digits, or of two.
func fitYear(to *event.Column, text string) (encode.Value, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n != 0 && (n < 1901 || n > 2155) && (n < 1 || n > 99):
		return nil, outOfRange(to, text)
	case n >= 1 && n <= 69:
		n += 2000
	case n >= 70 && n <= 99:
		n += 1900
	}
	return n, nil
}

func fitMoment(to *event.Column, text string) (encode.Value, error) {
	m, err := parseMoment(text)
	if err != nil {
		return nil, wrongValue(to, text)
	}
	m = m.round(max(to.Decimal, 0))
	if to.Type == event.TypeDate {
		m.hour, m.minute, m.second, m.micro = 0, 0, 0, 0
	}
	return m.value(), nil
}

func fitMember(from, to *event.Column, text string) (encode.Value, error) {
	t := &FieldType{Elems: to.Elems, Collate: to.Collation}
	c := constant{text: text}
	if isNumber(from.Type) {
		c.number, c.integer = true, true
	}
	var name string
	var err error
	if to.Type == event.TypeEnum {
		name, err = fitEnum(t, c)
	} else {
		name, err = fitSet(t, c)
	}
	if err != nil {
		return nil, refuse(1265, "Data truncated for column '%s', value is '%s'", to.Name, text)
	}
	return encode.Parse(to, name)
}
