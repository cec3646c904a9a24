package expr

import (
	"math"
	"math/big"
	"strconv"

	"github.com/sluice-cdc/sluice/event"
)

type kind uint8

const (
	null kind = iota
	signed
	unsigned
	exact // a decimal
	double
	text
	moment // TiDB's packed date and time
	clock  // nanoseconds
	opaque // JSON, a vector: there, and no more is known
)

// datum is one value in an expression.
type datum struct {
	kind   kind
	member bool // a text that is an ENUM's or a SET's: num is its number
	day    bool // a moment that is a date, without a time of day
	num    uint64
	dec    number
	text   []byte
}

func intDatum(v int64) datum      { return datum{kind: signed, num: uint64(v)} }
func uintDatum(v uint64) datum    { return datum{kind: unsigned, num: v} }
func doubleDatum(v float64) datum { return datum{kind: double, num: math.Float64bits(v)} }
func textDatum(v []byte) datum    { return datum{kind: text, text: v} }
func exactDatum(v number) datum   { return datum{kind: exact, dec: v} }

func boolDatum(v bool) datum {
	if v {
		return intDatum(1)
	}
	return intDatum(0)
}

func (d datum) isNull() bool   { return d.kind == null }
func (d datum) float() float64 { return math.Float64frombits(d.num) }

// truth is what the value says where a condition is wanted; it is not null.
func (d datum) truth() bool {
	switch n := d.numeric(); n.kind {
	case double:
		return n.float() != 0
	case exact:
		return n.dec.sign() != 0
	default:
		return n.num != 0
	}
}

// numeric is the value as a number: signed, unsigned, exact or double. It is not null.
func (d datum) numeric() datum {
	switch d.kind {
	case text:
		if d.member {
			return uintDatum(d.num)
		}
		f, _ := strconv.ParseFloat(numberPrefix(string(d.text)), 64) // out of range is infinite, nothing is 0
		return doubleDatum(f)
	case moment:
		t := event.TimeValue(d.num).DateTime()
		if d.day {
			return intDatum(int64(t.Year*10000 + t.Month*100 + t.Day))
		}
		return momentNumber(t)
	case clock:
		return clockNumber(event.DurationValue(int64(d.num)).ClockTime())
	}
	return d
}

// momentNumber is YYYYMMDDHHMMSS, with a fraction where there is one.
func momentNumber(t event.DateTime) datum {
	whole := int64(t.Year*10000+t.Month*100+t.Day)*1_000_000 + int64(t.Hour*10000+t.Minute*100+t.Second)
	return withMicros(whole, t.Micro)
}

func clockNumber(t event.ClockTime) datum {
	whole, micros := int64(t.Hours*10000+t.Minutes*100+t.Seconds), t.Micro
	if t.Negative {
		whole, micros = -whole, -micros
	}
	return withMicros(whole, micros)
}

func withMicros(whole int64, micros int) datum {
	if micros == 0 {
		return intDatum(whole)
	}
	v := big.NewInt(whole)
	v.Mul(v, big.NewInt(1_000_000)).Add(v, big.NewInt(int64(micros)))
	return exactDatum(number{v, 6})
}

// toDouble is a numeric value as a floating-point number.
func (d datum) toDouble() float64 {
	switch d.kind {
	case signed:
		return float64(int64(d.num))
	case unsigned:
		return float64(d.num)
	case exact:
		return d.dec.float()
	default:
		return d.float()
	}
}

// toExact is a signed, unsigned or exact value as a decimal.
func (d datum) toExact() number {
	switch d.kind {
	case signed:
		return number{big.NewInt(int64(d.num)), 0}
	case unsigned:
		return number{new(big.Int).SetUint64(d.num), 0}
	default:
		return d.dec
	}
}

// compareNumbers orders two numeric values.
func compareNumbers(a, b datum) int {
	switch {
	case a.kind == double || b.kind == double:
		x, y := a.toDouble(), b.toDouble()
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	case a.kind == exact || b.kind == exact:
		return a.toExact().compare(b.toExact())
	}
	aNegative, bNegative := a.kind == signed && int64(a.num) < 0, b.kind == signed && int64(b.num) < 0
	switch {
	case aNegative != bNegative:
		if aNegative {
			return -1
		}
		return 1
	case a.num < b.num: // of one sign, two's complement orders as the numbers do
		return -1
	case a.num > b.num:
		return 1
	}
	return 0
}

// numberPrefix is the longest front of s, blanks aside, that is a number; "0"
// where there is none.
func numberPrefix(s string) string {
	start := 0
	for start < len(s) && (s[start] == ' ' || s[start] >= '\t' && s[start] <= '\r') {
		start++
	}
	s = s[start:]
	at := 0
	if at < len(s) && (s[at] == '+' || s[at] == '-') {
		at++
	}
	digits := func() int {
		n := 0
		for at < len(s) && s[at] >= '0' && s[at] <= '9' {
			at++
			n++
		}
		return n
	}
	n := digits()
	if at < len(s) && s[at] == '.' {
		at++
		n += digits()
	}
	if n == 0 {
		return "0"
	}
	end := at
	if at < len(s) && (s[at] == 'e' || s[at] == 'E') {
		at++
		if at < len(s) && (s[at] == '+' || s[at] == '-') {
			at++
		}
		if digits() > 0 {
			end = at
		}
	}
	return s[:end]
}
