package encode

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/event"
)

// Value is one cell before it is encoded. It is nil for NULL, or, by the type
// of the column:
//
//	int64          signed integers, YEAR
//	uint64         unsigned integers, ENUM (1-based), SET and BIT (masks)
//	float64        FLOAT (widened), DOUBLE
//	Decimal        DECIMAL
//	[]byte         every string type
//	Moment         DATE, DATETIME, TIMESTAMP (UTC)
//	time.Duration  TIME
//	JSON           JSON
//	[]float32      VECTOR
type Value any

// Decimal is a decimal number as text: an optional sign, digits, and digits
// after a point.
type Decimal string

// JSON is a document as text.
type JSON string

// Moment is a date and a time of day, in parts; zero parts are legal.
type Moment struct {
	Year, Month, Day     int
	Hour, Minute, Second int
	Microsecond          int
}

// packed is the integer that TiDB stores.
func (m Moment) packed() uint64 {
	date := uint64(m.Year*13+m.Month)<<5 | uint64(m.Day)
	clock := uint64(m.Hour)<<12 | uint64(m.Minute)<<6 | uint64(m.Second)
	return (date<<17|clock)<<24 | uint64(m.Microsecond)
}

// Parse reads a cell from text as SQL prints it: strings and JSON as they are,
// ENUM and SET by name, BIT as a number, times with their fraction.
func Parse(c *event.Column, text string) (Value, error) {
	v, err := parse(c, text)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %q: %w", c.Name, text, err)
	}
	return v, nil
}

func parse(c *event.Column, text string) (Value, error) {
	switch {
	case c.IsString():
		return []byte(text), nil
	case isInteger(c.Type) && !c.Unsigned(), c.Type == event.TypeYear:
		return noTyped(strconv.ParseInt(text, 10, 64))
	case isInteger(c.Type), c.Type == event.TypeBit:
		return noTyped(strconv.ParseUint(text, 10, 64))
	}
	switch c.Type {
	case event.TypeFloat:
		return noTyped(strconv.ParseFloat(text, 32))
	case event.TypeDouble:
		return noTyped(strconv.ParseFloat(text, 64))
	case event.TypeNewDecimal:
		return Decimal(text), nil
	case event.TypeDate, event.TypeDatetime, event.TypeTimestamp:
		return noTyped(parseMoment(text))
	case event.TypeDuration:
		return noTyped(parseDuration(text))
	case event.TypeEnum:
		return noTyped(member(c, text))
	case event.TypeSet:
		return noTyped(mask(c, text))
	case event.TypeJSON:
		return JSON(text), nil
	case event.TypeVector:
		return noTyped(parseVector(text))
	}
	return nil, fmt.Errorf("no text form for type %d", c.Type)
}

// noTyped keeps a failed parse from handing on a zero that looks like a value.
func noTyped[T any](v T, err error) (Value, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

func isInteger(t event.Type) bool {
	switch t {
	case event.TypeTiny, event.TypeShort, event.TypeInt24, event.TypeLong, event.TypeLonglong:
		return true
	}
	return false
}

// parseMoment reads YYYY-MM-DD[ HH:MM:SS[.ffffff]].
func parseMoment(text string) (Moment, error) {
	var m Moment
	date, clock, _ := strings.Cut(text, " ")
	if err := parts(date, "-", &m.Year, &m.Month, &m.Day); err != nil {
		return Moment{}, err
	}
	if clock == "" {
		return m, nil
	}
	clock, fraction, _ := strings.Cut(clock, ".")
	if err := parts(clock, ":", &m.Hour, &m.Minute, &m.Second); err != nil {
		return Moment{}, err
	}
	var err error
	m.Microsecond, err = microseconds(fraction)
	return m, err
}

// parseDuration reads [-]HHH:MM:SS[.ffffff].
func parseDuration(text string) (time.Duration, error) {
	text, negative := strings.CutPrefix(text, "-")
	clock, fraction, _ := strings.Cut(text, ".")
	var h, m, s int
	if err := parts(clock, ":", &h, &m, &s); err != nil {
		return 0, err
	}
	us, err := microseconds(fraction)
	if err != nil {
		return 0, err
	}
	d := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute +
		time.Duration(s)*time.Second + time.Duration(us)*time.Microsecond
	if negative {
		d = -d
	}
	return d, nil
}

func parts(text, sep string, into ...*int) error {
	fields := strings.Split(text, sep)
	if len(fields) != len(into) {
		return fmt.Errorf("want %d parts between %q", len(into), sep)
	}
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 10, 16)
		if err != nil {
			return err
		}
		*into[i] = int(n)
	}
	return nil
}

func microseconds(fraction string) (int, error) {
	if len(fraction) > 6 {
		return 0, fmt.Errorf("fraction of %d digits", len(fraction))
	}
	return strconv.Atoi(fraction + "000000"[len(fraction):])
}

// member is the number of an ENUM's member; the empty name is the invalid 0
// unless a member has it.
func member(c *event.Column, name string) (uint64, error) {
	for i, e := range c.Elems {
		if e == name {
			return uint64(i) + 1, nil
		}
	}
	if name == "" {
		return 0, nil
	}
	return 0, fmt.Errorf("not a member of %q", c.Elems)
}

func mask(c *event.Column, names string) (uint64, error) {
	var bits uint64
	if names == "" {
		return 0, nil
	}
	for _, name := range strings.Split(names, ",") {
		i, err := member(c, name)
		if err != nil || i == 0 {
			return 0, fmt.Errorf("%q is not a member of %q", name, c.Elems)
		}
		bits |= 1 << (i - 1)
	}
	return bits, nil
}

// parseVector reads [1.5,-2,3].
func parseVector(text string) ([]float32, error) {
	inner, ok := strings.CutPrefix(text, "[")
	if inner, ok = cutSuffixIf(ok, inner, "]"); !ok {
		return nil, fmt.Errorf("want [number,…]")
	}
	out := []float32{}
	if strings.TrimSpace(inner) == "" {
		return out, nil
	}
	for _, f := range strings.Split(inner, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(f), 32)
		if err != nil {
			return nil, err
		}
		out = append(out, float32(x))
	}
	return out, nil
}

func cutSuffixIf(ok bool, s, suffix string) (string, bool) {
	if !ok {
		return s, false
	}
	return strings.CutSuffix(s, suffix)
}
