package event

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A stored vector is its dimension, then so many float32s, all little endian.
const (
	vectorHeader = 4
	vectorItem   = 4
	// maxDimension is the most that TiDB lets a VECTOR have.
	maxDimension = 16383
)

// CutVector takes one stored vector from the front of b.
func CutVector(b []byte) (stored, rest []byte, err error) {
	if len(b) < vectorHeader {
		return nil, nil, fmt.Errorf("vector: %d bytes, the dimension alone has %d", len(b), vectorHeader)
	}
	n := binary.LittleEndian.Uint32(b)
	if n > maxDimension {
		return nil, nil, fmt.Errorf("vector: dimension %d, the largest is %d", n, maxDimension)
	}
	size := vectorHeader + vectorItem*int(n)
	if len(b) < size {
		return nil, nil, fmt.Errorf("vector: dimension %d needs %d bytes, there are %d", n, size, len(b))
	}
	return b[:size], b[size:], nil
}

// CheckVector tells whether raw is a whole stored vector of finite numbers.
func CheckVector(raw []byte) error {
	stored, rest, err := CutVector(raw)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("vector: %d bytes after the end", len(rest))
	}
	for i := range vectorLen(stored) {
		if f := float64(vectorAt(stored, i)); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("vector: number %d is not finite", i)
		}
	}
	return nil
}

// AppendFloats appends the numbers of a Vector.
func (v Value) AppendFloats(dst []float32) []float32 {
	for i := range vectorLen(v.raw) {
		dst = append(dst, vectorAt(v.raw, i))
	}
	return dst
}

// VectorOf is the Value of these numbers.
func VectorOf(numbers []float32) Value {
	raw := binary.LittleEndian.AppendUint32(make([]byte, 0, vectorHeader+vectorItem*len(numbers)), uint32(len(numbers)))
	for _, f := range numbers {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
	}
	return VectorValue(raw)
}

// vectorLen is how many numbers raw really holds.
func vectorLen(raw []byte) int {
	if len(raw) < vectorHeader {
		return 0
	}
	n := uint64(binary.LittleEndian.Uint32(raw))
	return int(min(n, uint64(len(raw)-vectorHeader)/vectorItem))
}

func vectorAt(raw []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[vectorHeader+vectorItem*i:]))
}

func appendVector(dst, raw []byte) []byte {
	dst = append(dst, '[')
	for i := range vectorLen(raw) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(vectorAt(raw, i)), 'f', -1, 32)
	}
	return append(dst, ']')
}

func parseVector(c *Column, text string) (Value, error) {
	inner, ok := strings.CutPrefix(strings.TrimSpace(text), "[")
	inner, ok2 := strings.CutSuffix(inner, "]")
	if !ok || !ok2 {
		return Value{}, fmt.Errorf("a vector stands in [ ]")
	}
	var numbers []float32
	if strings.TrimSpace(inner) != "" {
		for part := range strings.SplitSeq(inner, ",") {
			f, err := strconv.ParseFloat(strings.TrimSpace(part), 32)
			if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
				return Value{}, fmt.Errorf("%q is no number of a vector", part)
			}
			numbers = append(numbers, float32(f))
		}
	}
	if len(numbers) > maxDimension || (c.Flen > 0 && c.Flen <= maxDimension && len(numbers) != c.Flen) {
		return Value{}, fmt.Errorf("%d numbers, the column has %d", len(numbers), c.Flen)
	}
	return VectorOf(numbers), nil
}
