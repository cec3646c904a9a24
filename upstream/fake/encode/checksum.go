package encode

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/event"
)

// ChecksumKind is the way in which a row proves itself; TiDB's versions have
// numbers one lower.
type ChecksumKind uint8

// The kinds.
const (
	NoChecksum ChecksumKind = iota
	OverCells               // version 0, up to TiDB 8.2: every cell as text or number
	OverKey                 // version 1, TiDB 8.3: the value's bytes, then the whole key
	OverHandle              // version 2, since TiDB 8.4: the value's bytes, then the handle
)

// extraChecksum says that a second checksum follows the first.
const extraChecksum = 0x08

// Checksum is the trailer that a row in format 2 gets; the zero Checksum is none.
type Checksum struct {
	Kind ChecksumKind
	// Tail is the raw record key (OverKey) or the handle in it (OverHandle).
	Tail []byte
	// Cells is what OverCells sums: all columns of the row, those in its key too.
	// Extra, where not nil, is the row as the schema on its other side of a
	// running change has it.
	Cells []Cell
	Extra []Cell
}

// append adds the trailer to a row value and marks the value as having one.
func (s Checksum) append(row []byte) ([]byte, error) {
	if s.Kind == NoChecksum {
		return row, nil
	}
	row[1] |= flagChecksums
	head := byte(s.Kind - OverCells)
	var sums []uint32
	switch s.Kind {
	case OverKey, OverHandle:
		row = append(row, head)
		sum := crc32.ChecksumIEEE(row)
		return binary.LittleEndian.AppendUint32(row, crc32.Update(sum, crc32.IEEETable, s.Tail)), nil
	case OverCells:
		sum, err := sumCells(s.Cells)
		if err != nil {
			return nil, err
		}
		sums = append(sums, sum)
		if s.Extra != nil {
			head |= extraChecksum
			if sum, err = sumCells(s.Extra); err != nil {
				return nil, err
			}
			sums = append(sums, sum)
		}
	default:
		return nil, fmt.Errorf("encode: checksum kind %d", s.Kind)
	}
	row = append(row, head)
	for _, sum := range sums {
		row = binary.LittleEndian.AppendUint32(row, sum)
	}
	return row, nil
}

// sumCells is version 0's checksum: cells by column id, each in a form of its
// own that is neither the stored nor the printed one.
func sumCells(cells []Cell) (uint32, error) {
	sorted := slices.Clone(cells)
	slices.SortFunc(sorted, func(a, b Cell) int { return cmp.Compare(a.Column.ID, b.Column.ID) })
	var sum uint32
	for _, c := range sorted {
		b, err := summed(c)
		if err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, crc32.IEEETable, b)
	}
	return sum, nil
}

// summed is a cell as version 0 sums it: numbers in eight bytes, everything
// else as text behind its length; NULL is nothing.
func summed(c Cell) ([]byte, error) {
	number := func(v uint64) ([]byte, error) { return binary.LittleEndian.AppendUint64(nil, v), nil }
	text := func(s string) ([]byte, error) {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(s))), s...), nil
	}
	switch v := c.Value.(type) {
	case nil:
		return nil, nil
	case int64:
		return number(uint64(v))
	case uint64:
		return number(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			v = 0
		}
		return number(math.Float64bits(v))
	case []byte:
		return text(string(v))
	case Moment:
		return text(v.text(c.Column))
	case time.Duration:
		return text(durationText(v, c.Column.Decimal))
	case Decimal:
		return text(v.text(c.Column.Decimal))
	case JSON:
		return text(string(v)) // as TiDB prints it, which is how the caller has it
	case []float32:
		return appendVector(nil, v), nil
	}
	return nil, fmt.Errorf("encode %s: a %T", c.Column.Name, c.Value)
}

func (m Moment) text(c *event.Column) string {
	date := fmt.Sprintf("%04d-%02d-%02d", m.Year, m.Month, m.Day)
	if c.Type == event.TypeDate {
		return date
	}
	return fmt.Sprintf("%s %02d:%02d:%02d", date, m.Hour, m.Minute, m.Second) + fractionText(m.Microsecond, c.Decimal)
}

// text is the number with all digits of its scale, one before the point, and a
// sign where it is not zero.
func (d Decimal) text(scale int) string {
	number, negative := strings.CutPrefix(string(d), "-")
	whole, fraction, _ := strings.Cut(number, ".")
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		whole = "0"
	}
	if scale > 0 {
		whole += "." + fraction + strings.Repeat("0", max(0, scale-len(fraction)))
	}
	if negative && strings.Trim(number, "0.") != "" {
		return "-" + whole
	}
	return whole
}

func durationText(d time.Duration, digits int) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	whole := d / time.Second
	us := int(d % time.Second / time.Microsecond)
	return fmt.Sprintf("%s%02d:%02d:%02d", sign, whole/3600, whole/60%60, whole%60) + fractionText(us, digits)
}

func fractionText(us, digits int) string {
	if digits <= 0 {
		return ""
	}
	s := strconv.Itoa(us)
	s = strings.Repeat("0", max(0, 6-len(s))) + s
	return "." + s[:min(digits, 6)]
}
