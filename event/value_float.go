package event

import (
	"bytes"
	"math"
	"strconv"
)

// From this magnitude on, and below the other, MySQL writes an exponent.
const (
	exponentFrom  = 1e15
	exponentBelow = 1e-15
)

// floatDigits are the digits after the point of a FLOAT with an exponent: six
// significant ones, although more would be needed to read the same FLOAT back.
const floatDigits = 5

// appendDouble appends the shortest text that reads back as f.
func appendDouble(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	switch {
	case abs == 0:
		return append(dst, '0')
	case abs < exponentBelow || abs >= exponentFrom:
		return appendExponent(dst, f, -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// appendFloat does the same for a FLOAT. The bounds are float32s themselves.
func appendFloat(dst []byte, f float32) []byte {
	abs := f
	if f < 0 {
		abs = -f
	}
	switch {
	case abs == 0:
		return append(dst, '0')
	case abs < float32(exponentBelow) || abs >= float32(exponentFrom):
		return appendExponent(dst, float64(f), floatDigits, 32)
	}
	return strconv.AppendFloat(dst, float64(f), 'f', -1, 32)
}

// appendExponent writes d.ddde<exp> without the + and the zeros that Go puts
// into the exponent, and without zeros at the end of the digits.
func appendExponent(dst []byte, f float64, digits, bits int) []byte {
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], f, 'e', digits, bits)
	e := bytes.IndexByte(text, 'e')
	if e < 0 { // an infinity or NaN: no column holds one
		return append(dst, text...)
	}
	mantissa, exponent := text[:e], text[e+1:]
	if bytes.IndexByte(mantissa, '.') >= 0 {
		mantissa = bytes.TrimRight(mantissa, "0")
		mantissa = bytes.TrimSuffix(mantissa, []byte{'.'})
	}
	dst = append(dst, mantissa...)
	dst = append(dst, 'e')
	if exponent[0] == '-' {
		dst = append(dst, '-')
	}
	return append(dst, bytes.TrimLeft(exponent, "+-0")...)
}

// roundFloat rounds f to the digits that FLOAT(m,d) and DOUBLE(m,d) declare.
// Where f has no more digits to lose it stays bit by bit what it was.
func roundFloat(f float64, digits int) float64 {
	if digits < 0 || digits > 30 {
		return f
	}
	shift := math.Pow10(digits)
	scaled := f * shift
	if math.Abs(scaled) >= 1<<53 {
		return f
	}
	return math.RoundToEven(scaled) / shift
}
