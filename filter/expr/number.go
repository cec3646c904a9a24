package expr

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// number is an exact decimal: unscaled / 10^scale.
type number struct {
	unscaled *big.Int
	scale    int
}

// parseNumber reads digits with a point and an exponent; ok is false for any other text.
func parseNumber(s string) (number, bool) {
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e < -maxScale || e > maxScale {
			return number{}, false
		}
		mantissa, exponent = s[:i], e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	v, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok || strings.ContainsAny(mantissa, "_") {
		return number{}, false
	}
	n := number{v, len(fraction) - exponent}
	if n.scale < 0 {
		n = number{n.at(0), 0}
	}
	return n, true
}

// maxScale bounds an exponent: what a DOUBLE can hold, and no number that takes
// a second to write out.
const maxScale = 400

func power10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// at is the unscaled value at another scale, which is cut off where that is smaller.
func (n number) at(scale int) *big.Int {
	switch {
	case scale > n.scale:
		return new(big.Int).Mul(n.unscaled, power10(scale-n.scale))
	case scale < n.scale:
		return new(big.Int).Quo(n.unscaled, power10(n.scale-scale))
	}
	return n.unscaled
}

func (n number) sign() int { return n.unscaled.Sign() }

func (n number) compare(o number) int {
	scale := max(n.scale, o.scale)
	return n.at(scale).Cmp(o.at(scale))
}

func (n number) float() float64 {
	f, _ := strconv.ParseFloat(n.String(), 64) // a float that is out of range is infinite
	return f
}

// String is the number in digits.
func (n number) String() string {
	s := new(big.Int).Abs(n.unscaled).String()
	if n.scale > 0 {
		if len(s) <= n.scale {
			s = strings.Repeat("0", n.scale-len(s)+1) + s
		}
		s = s[:len(s)-n.scale] + "." + s[len(s)-n.scale:]
	}
	if n.unscaled.Sign() < 0 {
		s = "-" + s
	}
	return s
}

func (n number) add(o number) number {
	scale := max(n.scale, o.scale)
	return number{new(big.Int).Add(n.at(scale), o.at(scale)), scale}
}

func (n number) neg() number { return number{new(big.Int).Neg(n.unscaled), n.scale} }

func (n number) mul(o number) number {
	return number{new(big.Int).Mul(n.unscaled, o.unscaled), n.scale + o.scale}
}

// groups rounds digits up to whole groups of nine, in which databases of this
// family count them.
func groups(digits int) int { return (digits + 8) / 9 * 9 }

// quo divides by o, which is not zero, with as many digits as the databases keep:
// four more than n has, and then up to the end of their group. They are cut, not
// rounded, as long as the quotient is part of an expression.
func (n number) quo(o number) number {
	a, b := groups(n.scale), groups(o.scale)
	scale := groups(a + b + max(0, 4-(a-n.scale)-(b-o.scale)))
	top := new(big.Int).Mul(n.unscaled, power10(scale+o.scale))
	return number{top.Quo(top, new(big.Int).Mul(o.unscaled, power10(n.scale))), scale}
}

// whole is the quotient without its fraction.
func (n number) whole(o number) *big.Int {
	scale := max(n.scale, o.scale)
	return new(big.Int).Quo(n.at(scale), o.at(scale))
}

// rem has the sign of n.
func (n number) rem(o number) number {
	scale := max(n.scale, o.scale)
	return number{new(big.Int).Rem(n.at(scale), o.at(scale)), scale}
}

// round is the nearest integer, halves away from zero.
func (n number) round() *big.Int {
	if n.scale == 0 {
		return n.unscaled
	}
	half := new(big.Int).Quo(power10(n.scale), big.NewInt(2))
	if n.sign() < 0 {
		half.Neg(half)
	}
	return half.Quo(half.Add(half, n.unscaled), power10(n.scale))
}

// floor is the greatest integer that is not above n.
func (n number) floor() *big.Int {
	q, r := new(big.Int).QuoRem(n.unscaled, power10(n.scale), new(big.Int))
	if r.Sign() < 0 {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

// integer is v as a BIGINT, or else an unsigned one.
func integer(v *big.Int, wantUnsigned bool) (datum, error) {
	switch {
	case wantUnsigned && v.IsUint64():
		return uintDatum(v.Uint64()), nil
	case !wantUnsigned && v.IsInt64():
		return intDatum(v.Int64()), nil
	}
	return datum{}, fmt.Errorf("%s is out of the range of an integer", v)
}
