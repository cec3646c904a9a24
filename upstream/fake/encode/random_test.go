package encode_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// drawColumn draws a column of any type with any value that TiDB could store in
// it, as text for messages and as a value.
func drawColumn(t *rapid.T, id int64) (event.Column, encode.Value) {
	c := event.Column{ID: id, Name: "c" + strconv.FormatInt(id, 10), Flen: -1, Decimal: -1, Charset: "binary", Collation: "binary"}
	draw := func(lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, "part") }
	fraction := func() int { // a whole number of microseconds of so many digits
		c.Decimal = draw(0, 6)
		unit := int(math.Pow10(6 - c.Decimal))
		return draw(0, 999999) / unit * unit
	}
	switch draw(0, 12) {
	case 0:
		c.Type = event.TypeLonglong
		return c, rapid.Int64().Draw(t, "int")
	case 1:
		c.Type, c.Flag = event.TypeLonglong, event.FlagUnsigned
		return c, rapid.Uint64().Draw(t, "uint")
	case 2:
		c.Type = event.TypeDouble
		f := rapid.Float64().Draw(t, "double")
		if f == 0 || math.IsInf(f, 0) {
			f = 0 // a column holds neither −0 nor what is not finite
		}
		return c, f
	case 3:
		c.Type = event.TypeNewDecimal
		c.Flen = draw(1, 65)
		c.Decimal = draw(0, min(c.Flen, 30))
		digits := rapid.StringMatching(fmt.Sprintf("[0-9]{%d}", c.Flen)).Draw(t, "digits")
		sign := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign")
		return c, encode.Decimal(sign + "0" + digits[:c.Flen-c.Decimal] + "." + digits[c.Flen-c.Decimal:])
	case 4:
		c.Type, c.Charset, c.Collation = event.TypeVarchar, "utf8mb4", "utf8mb4_bin"
		return c, []byte(rapid.String().Draw(t, "text"))
	case 5:
		c.Type = event.TypeBlob
		return c, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
	case 6:
		c.Type = event.TypeDatetime
		return c, encode.Moment{Year: draw(0, 9999), Month: draw(0, 12), Day: draw(0, 31), Hour: draw(0, 23),
			Minute: draw(0, 59), Second: draw(0, 59), Microsecond: fraction()}
	case 7:
		c.Type = event.TypeDuration
		d := time.Duration(draw(0, 838*3600))*time.Second + time.Duration(fraction())*time.Microsecond
		return c, d * time.Duration(rapid.SampledFrom([]int{-1, 1}).Draw(t, "sign"))
	case 8:
		c.Type, c.Elems = event.TypeEnum, []string{"x", "y", "z"}
		return c, uint64(draw(0, 3))
	case 9:
		c.Type, c.Elems = event.TypeSet, []string{"x", "y", "z"}
		return c, uint64(draw(0, 7))
	case 10:
		c.Type, c.Flen = event.TypeBit, 64
		return c, rapid.Uint64().Draw(t, "bits")
	case 11:
		c.Type = event.TypeVector
		return c, rapid.SliceOf(rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32)).Draw(t, "vector")
	}
	c.Type = event.TypeJSON
	return c, encode.JSON(drawJSON(t, 3))
}

// drawJSON draws a document as MySQL prints it.
func drawJSON(t *rapid.T, depth int) string {
	n := rapid.IntRange(0, 2).Draw(t, "members")
	members := make([]string, n)
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
	case 1:
		return strconv.FormatInt(rapid.Int64().Draw(t, "int"), 10)
	case 2:
		return strconv.FormatUint(rapid.Uint64().Draw(t, "uint"), 10)
	case 3:
		return strconv.Itoa(rapid.IntRange(-99, 99).Draw(t, "half")) + ".5"
	case 4:
		if depth > 0 {
			for i := range members {
				members[i] = drawJSON(t, depth-1)
			}
			return "[" + strings.Join(members, ", ") + "]"
		}
	case 5:
		if depth > 0 {
			for i := range members {
				members[i] = fmt.Sprintf(`"k%d": %s`, i, drawJSON(t, depth-1))
			}
			return "{" + strings.Join(members, ", ") + "}"
		}
	}
	return `"` + rapid.StringMatching(`[ -!#-\[\]-~é中]{0,9}`).Draw(t, "string") + `"`
}

// Whatever is encoded, in either format, with any checksum and any kind of key,
// is what mount decodes; and a byte that changes on the way is not.
func TestRandomRowsAreMounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := &event.Table{ID: 7, Schema: "s", Name: "t"}
		var cells, keyed []encode.Cell
		var parts []encode.Part
		for i := range rapid.IntRange(1, 6).Draw(t, "columns") {
			c, v := drawColumn(t, int64(i*rapid.SampledFrom([]int{1, 100}).Draw(t, "step")+i+1))
			inKey := i < 2 && c.Type != event.TypeJSON && c.Type != event.TypeVector
			if !inKey && rapid.IntRange(0, 4).Draw(t, "null") == 0 {
				v = nil
			}
			table.Columns = append(table.Columns, c)
			if inKey {
				parts = append(parts, encode.Part{Column: &c, Length: event.FullLength, Value: v})
				table.Handle.Parts = append(table.Handle.Parts, event.IndexPart{Column: i, Length: event.FullLength})
				keyed = append(keyed, encode.Cell{Column: &c, Value: v})
			} else {
				cells = append(cells, encode.Cell{Column: &c, Value: v})
			}
		}
		handle := encode.IntHandle(rapid.Int64().Draw(t, "row id"))
		if len(parts) > 0 {
			var err error
			table.Handle.Kind = event.CommonHandle
			if handle, err = encode.CommonHandle(parts, encode.Plain{}); err != nil {
				t.Fatal(err)
			}
		}
		key := encode.RecordKey(7, handle)
		value := drawRow(t, cells, keyed, key, handle)
		row, err := mount.Row(&event.RawKV{Op: event.Put, Key: key, Value: value}, table)
		if err != nil {
			t.Fatalf("%x %x: %v", key, value, err)
		}
		for _, want := range append(cells, keyed...) {
			at := table.Column(want.Column.Name)
			compareCell(t, want, row.After[at])
		}
		if value[0] == 0x80 && value[1]&2 != 0 {
			at := rapid.IntRange(len(value)-4, len(value)-1).Draw(t, "broken byte")
			value[at] ^= 0x10
			if _, err := mount.Row(&event.RawKV{Op: event.Put, Key: key, Value: value}, table); !cdcerr.ChecksumMismatch.Is(err) {
				t.Fatalf("a broken checksum passed: %v", err)
			}
		}
	})
}

func drawRow(t *rapid.T, cells, keyed []encode.Cell, key, handle []byte) []byte {
	var value []byte
	var err error
	switch rapid.IntRange(0, 4).Draw(t, "format") {
	case 0:
		value, err = encode.Row1(cells)
	case 1:
		value, err = encode.Row2(cells, encode.Checksum{})
	case 2:
		value, err = encode.Row2(cells, encode.Checksum{Kind: encode.OverKey, Tail: key})
	case 3:
		value, err = encode.Row2(cells, encode.Checksum{Kind: encode.OverHandle, Tail: handle})
	case 4:
		all := append(append([]encode.Cell(nil), cells...), keyed...)
		value, err = encode.Row2(cells, encode.Checksum{Kind: encode.OverCells, Cells: all})
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// compareCell holds a decoded cell against what went in, by encoding it again.
func compareCell(t *rapid.T, want encode.Cell, got event.Value) {
	back, err := typedValue(want.Column, got)
	if err != nil {
		t.Fatal(err)
	}
	once, err := encode.Row1([]encode.Cell{want})
	if err != nil {
		t.Fatal(err)
	}
	again, err := encode.Row1([]encode.Cell{{Column: want.Column, Value: back}})
	if err != nil || string(once) != string(again) {
		t.Fatalf("%s (type %d): %v came back as %s (%v)", want.Column.Name, want.Column.Type, want.Value, got.Text(want.Column), err)
	}
}
