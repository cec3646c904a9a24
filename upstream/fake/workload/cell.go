package workload

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// Cell is a value with the text that Sluice is to show for it, which is made
// first: the value is read from it, or beside it, and never the other way round.
type Cell struct {
	Value encode.Value
	Text  string // of binary strings and BIT in hex
	Null  bool
	Blind bool // the text was never made: a server has converted the value
}

// null is SQL's NULL.
var null = Cell{Null: true}

// Text is the cell of a value, read from its text.
func Text(c *event.Column, text string) (Cell, error) { return textCell(c, text) }

func textCell(c *event.Column, text string) (Cell, error) {
	v, err := encode.Parse(c, text)
	return Cell{Value: v, Text: text}, err
}

// words go into strings: ASCII, quotes, what needs several bytes, what sorts
// unlike it is written.
var words = []string{"plum", "O'Hara", `back\slash`, "zażółć", "日本", "🦥", "ÄÖ", "  lead", "a\"b", "NULL", "0", "straße", "%_", "", "tab\there"}

// draw makes up a value for a column; seldom NULL where it may be.
func draw(rng *rand.Rand, c *event.Column) (Cell, error) {
	if !c.NotNull() && rng.IntN(8) == 0 {
		return null, nil
	}
	switch {
	case c.IsBinary():
		drawn := rng.IntN(max(min(c.Flen, 24), 1))
		raw := make([]byte, drawn)
		if c.Type == event.TypeString { // BINARY(n) is padded
			raw = make([]byte, c.Flen)
		}
		for i := range drawn {
			raw[i] = byte(rng.UintN(256))
		}
		return Cell{Value: raw, Text: hex.EncodeToString(raw)}, nil
	case c.IsString():
		return textCell(c, drawString(rng, c))
	case c.Type == event.TypeBit:
		v := rng.Uint64() >> (64 - min(max(c.Flen, 1), 64))
		return Cell{Value: v, Text: fmt.Sprintf("%0*x", (c.Flen+7)/8*2, v)}, nil
	}
	text, err := drawText(rng, c)
	if err != nil {
		return Cell{}, err
	}
	return textCell(c, text)
}

func drawString(rng *rand.Rand, c *event.Column) string {
	s := words[rng.IntN(len(words))] + strconv.Itoa(rng.IntN(1000)) + words[rng.IntN(len(words))]
	if rng.IntN(50) == 0 && c.Type != event.TypeString {
		s += strings.Repeat("long ", rng.IntN(100))
	}
	if r := []rune(s); c.Flen > 0 && len(r) > c.Flen {
		s = string(r[:c.Flen])
	}
	if c.Type == event.TypeString {
		s = strings.TrimRight(s, " ") // CHAR keeps no blanks at its end
	}
	return s
}

// bitsOf are the widths of integers.
var bitsOf = map[event.Type]uint{
	event.TypeTiny: 8, event.TypeShort: 16, event.TypeInt24: 24, event.TypeLong: 32, event.TypeLonglong: 64,
}

func drawText(rng *rand.Rand, c *event.Column) (string, error) {
	if bits, ok := bitsOf[c.Type]; ok {
		v := rng.Uint64() >> (64 - bits) >> rng.UintN(bits)
		if c.Unsigned() {
			return strconv.FormatUint(v, 10), nil
		}
		signed := int64(v >> 1)
		if rng.IntN(3) == 0 {
			signed = -signed
		}
		return strconv.FormatInt(signed, 10), nil
	}
	switch c.Type {
	case event.TypeFloat, event.TypeDouble:
		// Halves and quarters are the same in every width and every print.
		return strconv.FormatFloat(float64(rng.IntN(2_000_001)-1_000_000)/4, 'f', -1, 64), nil
	case event.TypeNewDecimal:
		return drawDecimal(rng, c), nil
	case event.TypeYear:
		return strconv.Itoa(1901 + rng.IntN(255)), nil
	case event.TypeDate:
		return drawDate(rng), nil
	case event.TypeDatetime, event.TypeTimestamp:
		return fmt.Sprintf("%s %02d:%02d:%02d", drawDate(rng), rng.IntN(24), rng.IntN(60), rng.IntN(60)) + fraction(rng, c), nil
	case event.TypeDuration:
		sign := ""
		if rng.IntN(3) == 0 {
			sign = "-"
		}
		return fmt.Sprintf("%s%02d:%02d:%02d", sign, rng.IntN(838), rng.IntN(60), 1+rng.IntN(59)) + fraction(rng, c), nil
	case event.TypeEnum:
		return c.Elems[rng.IntN(len(c.Elems))], nil
	case event.TypeSet:
		some := slices.DeleteFunc(slices.Clone(c.Elems), func(string) bool { return rng.IntN(2) == 0 })
		return strings.Join(some, ","), nil
	case event.TypeJSON:
		return fmt.Sprintf(`{"a": %d, "b": ["x%d", null, true], "c": {"d": %d.5}}`, rng.IntN(1000), rng.IntN(10), rng.IntN(10)), nil
	}
	return "", fmt.Errorf("no values for column %s of type %d", c.Name, c.Type)
}

// drawDate is a day that every zone and every type has.
func drawDate(rng *rand.Rand) string {
	return fmt.Sprintf("%04d-%02d-%02d", 1990+rng.IntN(40), 1+rng.IntN(12), 1+rng.IntN(28))
}

func fraction(rng *rand.Rand, c *event.Column) string {
	if c.Decimal <= 0 {
		return ""
	}
	return "." + fmt.Sprintf("%06d", rng.IntN(1_000_000))[:c.Decimal]
}

func drawDecimal(rng *rand.Rand, c *event.Column) string {
	whole, scale := c.Flen-c.Decimal, max(c.Decimal, 0)
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(byte('0' + rng.IntN(10)))
		}
		return b.String()
	}
	text := strings.TrimLeft(digits(rng.IntN(whole+1)), "0")
	if text == "" {
		text = "0"
	}
	if scale > 0 {
		text += "." + digits(scale)
	}
	if rng.IntN(3) == 0 && strings.Trim(text, "0.") != "" {
		text = "-" + text
	}
	return text
}

// intCell reads one signed integer from a row of small format 2: version and
// flags, two counts, ids of the cells that are not NULL, their ends, the data.
func intCell(row []byte, column int64) (int64, error) {
	if len(row) < 6 || row[0] != 0x80 || row[1]&1 != 0 {
		return 0, fmt.Errorf("no small row of format 2: %X", row)
	}
	cells, nulls := int(row[2])|int(row[3])<<8, int(row[4])|int(row[5])<<8
	ids := row[6:]
	ends := ids[cells+nulls:]
	data := ends[2*cells:]
	from := 0
	for i := range cells {
		end := int(ends[2*i]) | int(ends[2*i+1])<<8
		if int64(ids[i]) == column {
			v := int64(0)
			for n, b := range data[from:end] {
				v |= int64(b) << (8 * n)
			}
			unused := 64 - 8*(end-from)
			return v << unused >> unused, nil
		}
		from = end
	}
	return 0, fmt.Errorf("no column %d in row %X", column, row)
}
