package event

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A stored decimal is its precision and its number of fraction digits, one byte
// each, then MySQL's binary form: the digits on both sides of the point in
// groups of nine, counted from the point, each group as a big endian integer of
// as few bytes as it can need. The first bit is flipped, and in a negative
// number every bit, so that the bytes sort as the numbers do.
const (
	decimalHeader = 2
	groupDigits   = 9
	groupBytes    = 4
	// maxDecimalDigits is what TiDB's own decimal can hold: nine groups. A
	// column has at most 65.
	maxDecimalDigits = 81
)

// bytesFor is the bytes of a group by its digits.
var bytesFor = [groupDigits + 1]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

// digits are the precision and the scale of a DECIMAL column.
func (c *Column) digits() (precision, scale int) {
	scale = max(c.Decimal, 0)
	precision = c.Flen
	if precision <= 0 {
		precision = 10 // what DECIMAL without numbers means
	}
	precision = min(max(precision, scale, 1), maxDecimalDigits)
	return precision, min(scale, precision)
}

func decimalSize(precision, fraction int) int {
	whole := precision - fraction
	return whole/groupDigits*groupBytes + bytesFor[whole%groupDigits] +
		fraction/groupDigits*groupBytes + bytesFor[fraction%groupDigits]
}

// CutDecimal takes one stored decimal from the front of b.
func CutDecimal(b []byte) (stored, rest []byte, err error) {
	if len(b) < decimalHeader {
		return nil, nil, fmt.Errorf("decimal: %d bytes, precision and fraction alone have %d", len(b), decimalHeader)
	}
	precision, fraction := int(b[0]), int(b[1])
	if precision == 0 || precision > maxDecimalDigits || fraction > precision {
		return nil, nil, fmt.Errorf("decimal: precision %d with %d fraction digits", precision, fraction)
	}
	size := decimalHeader + decimalSize(precision, fraction)
	if len(b) < size {
		return nil, nil, fmt.Errorf("decimal(%d,%d) needs %d bytes, there are %d", precision, fraction, size, len(b))
	}
	return b[:size], b[size:], nil
}

// CheckDecimal tells whether raw is a whole stored decimal.
func CheckDecimal(raw []byte) error {
	_, rest, err := CutDecimal(raw)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("decimal: %d bytes after the end", len(rest))
	}
	var digits decimalDigits
	_, _, ok := digits.unpack(raw)
	if !ok {
		return fmt.Errorf("decimal: a group of digits holds more than it has room for")
	}
	return nil
}

// decimalDigits are the digits of a decimal as bytes 0 to 9, behind one spare
// place for a carry.
type decimalDigits [1 + maxDecimalDigits]byte

// unpack fills d and tells the sign and how many digits stand before the point.
func (d *decimalDigits) unpack(raw []byte) (negative bool, whole int, ok bool) {
	precision, fraction := int(raw[0]), int(raw[1])
	whole = precision - fraction
	body := raw[decimalHeader:]
	negative = body[0]&0x80 == 0
	at, next, ok := 1, 0, true
	group := func(n int) {
		size := bytesFor[n]
		var v uint32
		for i := range size {
			b := body[next+i]
			if next+i == 0 {
				b ^= 0x80
			}
			if negative {
				b = ^b
			}
			v = v<<8 | uint32(b)
		}
		next += size
		for i := n - 1; i >= 0; i-- {
			d[at+i] = byte(v % 10)
			v /= 10
		}
		ok = ok && v == 0
		at += n
	}
	group(whole % groupDigits)
	for range whole / groupDigits {
		group(groupDigits)
	}
	for range fraction / groupDigits {
		group(groupDigits)
	}
	group(fraction % groupDigits)
	return negative, whole, ok
}

// appendDecimal appends raw with exactly scale digits after the point; with a
// scale below zero with as many as are stored. Bytes that CutDecimal refuses
// append nothing.
func appendDecimal(dst, raw []byte, scale int) []byte {
	if _, _, err := CutDecimal(raw); err != nil {
		return dst
	}
	var digits decimalDigits
	negative, whole, _ := digits.unpack(raw)
	precision := int(raw[0])
	if scale < 0 {
		scale = precision - whole
	}
	scale = min(scale, maxDecimalDigits)
	kept := min(whole+scale, precision)
	all := digits[:1+kept]
	if kept < precision && digits[1+kept] >= 5 {
		for i := kept; i >= 0; i-- {
			if all[i]++; all[i] < 10 {
				break
			}
			all[i] = 0
		}
	}
	if negative && len(bytes.Trim(all, "\x00")) > 0 {
		dst = append(dst, '-')
	}
	start := 0
	for start < whole && all[start] == 0 {
		start++
	}
	for _, d := range all[start : 1+whole] {
		dst = append(dst, '0'+d)
	}
	if scale == 0 {
		return dst
	}
	dst = append(dst, '.')
	for _, d := range all[1+whole:] {
		dst = append(dst, '0'+d)
	}
	for range scale - (kept - whole) {
		dst = append(dst, '0')
	}
	return dst
}

// ParseDecimal is the stored form of a number in SQL text, rounded half away
// from zero to the fraction digits.
func ParseDecimal(text string, precision, fraction int) ([]byte, error) {
	if precision < 1 || precision > maxDecimalDigits || fraction < 0 || fraction > precision {
		return nil, fmt.Errorf("there is no decimal(%d,%d)", precision, fraction)
	}
	negative, digits, point, err := splitNumber(text)
	if err != nil {
		return nil, err
	}
	// digits[point] is the first digit after the point; point may lie outside.
	kept := min(point+fraction, len(digits))
	up := kept >= 0 && kept < len(digits) && kept == point+fraction && digits[kept] >= '5'
	number := append([]byte{'0'}, digits[:max(kept, 0)]...)
	if kept >= 0 && point+fraction > len(digits) {
		number = append(number, bytes.Repeat([]byte{'0'}, point+fraction-len(digits))...)
	}
	if up {
		for i := len(number) - 1; ; i-- {
			if number[i]++; number[i] <= '9' {
				break
			}
			number[i] = '0'
		}
	}
	number = bytes.TrimLeft(number, "0") // the unscaled integer
	if len(number) > precision {
		return nil, fmt.Errorf("%q does not fit decimal(%d,%d)", text, precision, fraction)
	}
	return packDecimal(nil, number, negative, precision, fraction), nil
}

// splitNumber takes sign, digits and exponent apart; leading zeros are gone.
func splitNumber(text string) (negative bool, digits string, point int, err error) {
	s := strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(s, "-"):
		negative, s = true, s[1:]
	case strings.HasPrefix(s, "+"):
		s = s[1:]
	}
	exponent := 0
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		if exponent, err = strconv.Atoi(s[e+1:]); err != nil || exponent > 400 || exponent < -400 {
			return false, "", 0, fmt.Errorf("%q is no number", text)
		}
		s = s[:e]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits = whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return false, "", 0, fmt.Errorf("%q is no number", text)
	}
	trimmed := strings.TrimLeft(digits, "0")
	point = len(whole) + exponent - (len(digits) - len(trimmed))
	return negative, trimmed, point, nil
}

// packDecimal appends the stored form of an unscaled integer of at most
// precision digits, given as text without leading zeros.
func packDecimal(dst, number []byte, negative bool, precision, fraction int) []byte {
	negative = negative && len(number) > 0
	digit := func(i int) uint32 { // the i-th of precision digits
		if i -= precision - len(number); i < 0 {
			return 0
		}
		return uint32(number[i] - '0')
	}
	dst = append(dst, byte(precision), byte(fraction))
	first := len(dst)
	at := 0
	group := func(n int) {
		var v uint32
		for range n {
			v = v*10 + digit(at)
			at++
		}
		for i := bytesFor[n] - 1; i >= 0; i-- {
			b := byte(v >> (8 * i))
			if negative {
				b = ^b
			}
			dst = append(dst, b)
		}
	}
	whole := precision - fraction
	group(whole % groupDigits)
	for range whole / groupDigits {
		group(groupDigits)
	}
	for range fraction / groupDigits {
		group(groupDigits)
	}
	group(fraction % groupDigits)
	dst[first] ^= 0x80
	return dst
}

func parseDecimal(c *Column, text string) (Value, error) {
	precision, scale := c.digits()
	raw, err := ParseDecimal(text, precision, scale)
	if err != nil {
		return Value{}, err
	}
	if c.Unsigned() && raw[decimalHeader]&0x80 == 0 {
		return Value{}, fmt.Errorf("%q is below zero in an unsigned column", text)
	}
	return DecimalValue(raw), nil
}
