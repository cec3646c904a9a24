package collation

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
)

// weightsFile holds what no rule gives: a server's own weights. The test of
// this package compares all of it with a server and writes it anew.
//
//	general  u32 count, count × { rune u16, weight u16 }      other runes weigh themselves
//	unicode  u32 count, count × { rune u16, n u16, n × u16 }  other runes have implicit weights
//	gbk      u32 count, count × { rune u16, weight u16 }      other runes are not in GBK; a small weight is one byte
//
// All little endian, gzipped.
//
//go:embed weights.bin.gz
var weightsFile []byte

// Order is that of clusters with the new collations, TiDB's default.
type Order struct {
	general map[rune]uint16
	unicode map[rune][]uint16
	gbk     map[rune]uint16
}

// New reads the weights: some milliseconds.
func New() (*Order, error) {
	zr, err := gzip.NewReader(bytes.NewReader(weightsFile))
	if err != nil {
		return nil, fmt.Errorf("collation: weights: %w", err)
	}
	raw, err := io.ReadAll(zr)
	if err != nil {
		return nil, fmt.Errorf("collation: weights: %w", err)
	}
	r := &weightReader{left: raw}
	c := &Order{general: r.single(), unicode: r.multiple(), gbk: r.single()}
	if r.short || len(r.left) != 0 {
		return nil, fmt.Errorf("collation: the file of weights does not end where it should")
	}
	return c, nil
}

// weightReader reads numbers until there are none left.
type weightReader struct {
	left  []byte
	short bool
}

func (r *weightReader) u16() uint16 {
	if len(r.left) < 2 {
		r.short = true
		return 0
	}
	v := binary.LittleEndian.Uint16(r.left)
	r.left = r.left[2:]
	return v
}

func (r *weightReader) count() int {
	low, high := r.u16(), r.u16()
	return int(high)<<16 | int(low)
}

func (r *weightReader) single() map[rune]uint16 {
	out := map[rune]uint16{}
	for n := r.count(); n > 0 && !r.short; n-- {
		c := rune(r.u16())
		out[c] = r.u16()
	}
	return out
}

func (r *weightReader) multiple() map[rune][]uint16 {
	out := map[rune][]uint16{}
	for n := r.count(); n > 0 && !r.short; n-- {
		c := rune(r.u16())
		weights := make([]uint16, r.u16())
		for i := range weights {
			weights[i] = r.u16()
		}
		out[c] = weights
	}
	return out
}

// Known tells whether the collation's order is known here.
func Known(collation string) bool {
	_, err := (&Order{}).SortKey(collation, nil)
	return err == nil
}

// Compare orders a and b: below 0 where a comes first, 0 where they are equal.
func (c *Order) Compare(collation string, a, b []byte) (int, error) {
	switch collation {
	case "utf8mb4_bin", "utf8_bin", "ascii_bin", "latin1_bin":
		return bytes.Compare(bytes.TrimRight(a, " "), bytes.TrimRight(b, " ")), nil
	case "binary", "utf8mb4_0900_bin":
		return bytes.Compare(a, b), nil
	}
	if bytes.Equal(a, b) && Known(collation) {
		return 0, nil
	}
	left, err := c.SortKey(collation, a)
	if err != nil {
		return 0, err
	}
	right, err := c.SortKey(collation, b)
	return bytes.Compare(left, right), err
}

// SortKey is the sort key of s, or an error for a collation without weights here.
func (c *Order) SortKey(collation string, s []byte) ([]byte, error) {
	switch collation {
	case "binary", "utf8mb4_0900_bin":
		return s, nil
	}
	// All others compare as if padded with blanks: those at the end do not count.
	text := strings.TrimRight(string(s), " ")
	switch collation {
	case "utf8mb4_bin", "utf8_bin", "ascii_bin", "latin1_bin":
		return []byte(text), nil
	case "utf8mb4_general_ci", "utf8_general_ci":
		return c.byRune(text, c.appendGeneral)
	case "utf8mb4_unicode_ci", "utf8_unicode_ci":
		return c.byRune(text, c.appendUnicode)
	case "gbk_chinese_ci":
		return c.byRune(text, c.appendGBK)
	case "gbk_bin":
		return simplifiedchinese.GBK.NewEncoder().Bytes([]byte(text))
	case "gb18030_bin":
		return simplifiedchinese.GB18030.NewEncoder().Bytes([]byte(text))
	}
	return nil, fmt.Errorf("no weights for collation %s", collation)
}

func (c *Order) byRune(text string, appendWeight func([]byte, rune) ([]byte, error)) ([]byte, error) {
	var out []byte
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return nil, fmt.Errorf("%q is not UTF-8", text)
		}
		var err error
		if out, err = appendWeight(out, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// beyondPlane is what every rune weighs that two bytes cannot number.
const beyondPlane = 0xFFFD

func (c *Order) appendGeneral(dst []byte, r rune) ([]byte, error) {
	weight, listed := c.general[r]
	switch {
	case r > 0xFFFF:
		weight = beyondPlane
	case !listed:
		weight = uint16(r)
	}
	return binary.BigEndian.AppendUint16(dst, weight), nil
}

func (c *Order) appendUnicode(dst []byte, r rune) ([]byte, error) {
	weights, listed := c.unicode[r]
	switch {
	case r > 0xFFFF:
		weights = []uint16{beyondPlane}
	case !listed:
		first, second := implicit(r)
		weights = []uint16{first, second}
	}
	for _, w := range weights {
		dst = binary.BigEndian.AppendUint16(dst, w)
	}
	return dst, nil
}

// implicit gives a rune that no table lists its place: ideographs first, their
// first extension next, all else last, each in the order of its number.
func implicit(r rune) (first, second uint16) {
	base := 0xFBC0
	switch {
	case r >= 0x4E00 && r <= 0x9FA5:
		base = 0xFB40
	case r >= 0x3400 && r <= 0x4DB5:
		base = 0xFB80
	}
	return uint16(base + int(r)>>15), uint16(r)&0x7FFF | 0x8000
}

func (c *Order) appendGBK(dst []byte, r rune) ([]byte, error) {
	weight, listed := c.gbk[r]
	if !listed {
		return nil, fmt.Errorf("%q is not in GBK", r)
	}
	if weight <= 0xFF {
		return append(dst, byte(weight)), nil
	}
	return binary.BigEndian.AppendUint16(dst, weight), nil
}
