package encode

import (
	"fmt"
	"strings"
)

// digitBytes is how many bytes a group of so many decimal digits takes.
var digitBytes = [10]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

// wordDigits is how many digits a full group has.
const wordDigits = 9

// appendDecimal appends a decimal number in MySQL's binary form behind its
// precision and scale: digits in groups of nine counted from the point, each
// big endian, the sign in the first bit so that bytes sort as numbers do.
func appendDecimal(dst []byte, text string, precision, scale int) ([]byte, error) {
	number, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(number, ".")
	whole = strings.TrimLeft(whole, "0")
	if strings.Trim(whole+fraction, "0123456789") != "" || number == "" {
		return nil, fmt.Errorf("%q is not a decimal number", text)
	}
	if precision > 65 || scale < 0 || scale > precision || len(whole) > precision-scale || len(fraction) > scale {
		return nil, fmt.Errorf("%q does not fit into decimal(%d,%d)", text, precision, scale)
	}
	whole = strings.Repeat("0", precision-scale-len(whole)) + whole
	fraction += strings.Repeat("0", scale-len(fraction))

	dst = append(dst, byte(precision), byte(scale))
	start := len(dst)
	head := len(whole) % wordDigits
	dst = appendGroup(dst, whole[:head])
	for rest := whole[head:]; rest != ""; rest = rest[wordDigits:] {
		dst = appendGroup(dst, rest[:wordDigits])
	}
	for fraction != "" {
		n := min(len(fraction), wordDigits)
		dst = appendGroup(dst, fraction[:n])
		fraction = fraction[n:]
	}
	if negative && strings.Trim(number, "0.") != "" {
		for i := start; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	if start < len(dst) {
		dst[start] ^= 0x80
	}
	return dst, nil
}

// appendGroup appends at most nine digits as one big-endian number.
func appendGroup(dst []byte, digits string) []byte {
	var n uint32
	for _, d := range []byte(digits) {
		n = n*10 + uint32(d-'0')
	}
	for i := digitBytes[len(digits)] - 1; i >= 0; i-- {
		dst = append(dst, byte(n>>(8*i)))
	}
	return dst
}
