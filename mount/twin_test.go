package mount_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// drawn is a column with the text of a cell, or NULL.
type drawn struct {
	column event.Column
	null   bool
	text   string
}

// drawColumn draws a column of any type and a cell for it, as text.
func drawColumn(t *rapid.T, id int64) drawn {
	d := drawn{column: event.Column{ID: id, Name: "c" + strconv.FormatInt(id, 10), Decimal: -1, Charset: "utf8mb4", Collation: "utf8mb4_bin"}}
	c := &d.column
	kinds := []event.Type{
		event.TypeTiny, event.TypeShort, event.TypeInt24, event.TypeLong, event.TypeLonglong, event.TypeYear, event.TypeFloat, event.TypeDouble,
		event.TypeNewDecimal, event.TypeDate, event.TypeDatetime, event.TypeTimestamp, event.TypeDuration, event.TypeBit, event.TypeEnum, event.TypeSet,
		event.TypeVarchar, event.TypeString, event.TypeBlob, event.TypeJSON, event.TypeVector,
	}
	c.Type = rapid.SampledFrom(kinds).Draw(t, "type")
	word := rapid.Uint64().Draw(t, "word")
	bits := map[event.Type]int{event.TypeTiny: 8, event.TypeShort: 16, event.TypeInt24: 24, event.TypeLong: 32, event.TypeLonglong: 64}[c.Type]
	switch c.Type {
	case event.TypeTiny, event.TypeShort, event.TypeInt24, event.TypeLong, event.TypeLonglong:
		if d.text = strconv.FormatInt(int64(word)>>(64-bits), 10); rapid.Bool().Draw(t, "unsigned") {
			c.Flag, d.text = event.FlagUnsigned, strconv.FormatUint(word>>(64-bits), 10)
		}
	case event.TypeYear:
		c.Flag, d.text = event.FlagUnsigned, strconv.Itoa(1901+int(word%255))
	case event.TypeFloat:
		d.text = strconv.FormatFloat(float64(float32(int32(word))/8), 'f', -1, 32)
	case event.TypeDouble:
		d.text = strconv.FormatFloat(rapid.Float64Range(-1e300, 1e300).Draw(t, "double")+0, 'g', -1, 64) // + 0: no column keeps −0
	case event.TypeNewDecimal:
		c.Decimal = rapid.IntRange(0, 30).Draw(t, "scale")
		c.Flen = rapid.IntRange(max(1, c.Decimal), 65).Draw(t, "precision")
		digits := rapid.StringMatching(`[1-9][0-9]{64}`).Draw(t, "digits")[:c.Flen]
		d.text = "-"[:word%2] + digits[:c.Flen-c.Decimal]
		if c.Flen == c.Decimal {
			d.text += "0"
		}
		if c.Decimal > 0 {
			d.text += "." + digits[c.Flen-c.Decimal:]
		}
	case event.TypeDate:
		d.text = fmt.Sprintf("%04d-%02d-%02d", word%10000, word>>20%13, word>>30%32)
	case event.TypeDatetime, event.TypeTimestamp:
		c.Decimal = rapid.IntRange(0, 6).Draw(t, "fraction")
		d.text = fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d", word%10000, word>>20%13, word>>30%32, word>>35%24, word>>40%60, word>>46%60)
		d.text += fraction(word, c.Decimal)
	case event.TypeDuration:
		c.Decimal = rapid.IntRange(0, 6).Draw(t, "fraction")
		d.text = "-"[:word%2] + fmt.Sprintf("%02d:%02d:%02d", word>>20%838, word>>30%60, word>>40%60) + fraction(word, c.Decimal)
	case event.TypeBit:
		c.Flen = rapid.IntRange(1, 64).Draw(t, "length")
		d.text = strconv.FormatUint(word>>(64-c.Flen), 10)
	case event.TypeEnum:
		c.Elems, d.text = []string{"a", "b", "3"}, []string{"a", "b", "3"}[word%3]
	case event.TypeSet:
		c.Elems, d.text = []string{"a", "b", "3"}, []string{"", "a", "b", "a,b", "3", "a,3", "b,3", "a,b,3"}[word%8]
	case event.TypeJSON:
		d.text = fmt.Sprintf(`{"k": [%d, %q, null, true, {"": -1.5}], "z": "%d"}`, word, strings.Repeat("é", int(word%200)), word)
	case event.TypeVector:
		d.text = fmt.Sprintf("[%d,-0.5]", int16(word))
	default:
		if d.text = strings.TrimRight(rapid.String().Draw(t, "string"), " "); rapid.Bool().Draw(t, "binary") {
			c.Charset, c.Collation = "binary", "binary"
		}
	}
	d.null = rapid.IntRange(0, 5).Draw(t, "null") == 0
	return d
}

func fraction(word uint64, digits int) string {
	return "."[:min(digits, 1)] + fmt.Sprintf("%06d", word%1000000)[:digits]
}

// cell is the drawn cell for the writer, which has codecs of its own.
func (d *drawn) cell(t *rapid.T) encode.Cell {
	if d.null {
		return encode.Cell{Column: &d.column}
	}
	v, err := encode.Parse(&d.column, d.text)
	if err != nil {
		t.Fatal(err)
	}
	return encode.Cell{Column: &d.column, Value: v}
}

// want is the drawn cell as it should be read.
func (d *drawn) want(t *rapid.T) event.Value {
	if d.null {
		return event.NullValue()
	}
	text := d.text
	if d.column.Type == event.TypeBit {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		text = string(binary.BigEndian.AppendUint64(nil, n))
	}
	v, err := event.ParseText(&d.column, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// keyable tells whether the column can be part of a key and can be read back
// from there: JSON and vectors cannot.
func (d *drawn) keyable() bool {
	return !d.null && d.column.Type != event.TypeJSON && d.column.Type != event.TypeVector
}

// What a writer with codecs of its own puts into keys, both row formats and all
// checksums is read back: stored, listed as NULL, taken from the key, absent, or
// of a column that the table does not show.
func TestWhatTheTwinWritesIsReadBack(t *testing.T) {
	m := mount.New()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Int64Range(1, rapid.SampledFrom([]int64{40, 300}).Draw(t, "largest id")), 1, 12, rapid.ID).Draw(t, "ids")
		table := &event.Table{ID: 7, Schema: "s", Name: "t"}
		var want []event.Value
		var cells, summed []encode.Cell
		var handle []encode.Part
		for _, id := range ids {
			d := drawColumn(t, id)
			place := rapid.SampledFrom([]string{"stored", "stored", "stored", "key", "key and stored", "absent", "not shown"}).Draw(t, "place")
			if strings.HasPrefix(place, "key") && !d.keyable() {
				place = "stored"
			}
			if place == "absent" {
				d.column.Absent = d.want(t)
			} else {
				summed = append(summed, d.cell(t))
			}
			if place != "key" && place != "absent" {
				cells = append(cells, d.cell(t))
			}
			if place == "not shown" {
				continue
			}
			if strings.HasPrefix(place, "key") {
				table.Handle.Kind = event.CommonHandle
				table.Handle.Parts = append(table.Handle.Parts, event.IndexPart{Column: len(table.Columns), Length: event.FullLength})
				handle = append(handle, encode.Part{Column: &d.column, Length: event.FullLength, Value: d.cell(t).Value})
			}
			table.Columns = append(table.Columns, d.column)
			want = append(want, d.want(t))
		}
		raw := &event.RawKV{Op: event.Put, StartTS: 1, CommitTS: 2, Key: encode.RecordKey(7, encode.IntHandle(9))}
		if len(handle) > 0 {
			h, err := encode.CommonHandle(handle, encode.Plain{})
			if err != nil {
				t.Fatal(err)
			}
			raw.Key = encode.RecordKey(7, h)
		}
		for _, value := range everyFormat(t, raw.Key, rapid.Permutation(cells).Draw(t, "order"), summed) {
			raw.Value, raw.Old = value, value
			row, err := m.Row(raw, table)
			if err != nil {
				t.Fatal(err)
			}
			for _, image := range []event.Image{row.Before, row.After} {
				if len(image) != len(want) {
					t.Fatal(len(image))
				}
				for i, v := range image {
					c := &table.Columns[i]
					if v.Kind() != want[i].Kind() || v.Text(c) != want[i].Text(c) {
						t.Fatalf("%+v of %X: %q (kind %d), want %q (kind %d)", c, value, v.Text(c), v.Kind(), want[i].Text(c), want[i].Kind())
					}
				}
			}
		}
	})
}

// everyFormat is the row in format v1, and in v2 with every kind of checksum.
func everyFormat(t *rapid.T, key []byte, cells, summed []encode.Cell) [][]byte {
	v1, err := encode.Row1(cells)
	if err != nil {
		t.Fatal(err)
	}
	out := [][]byte{v1}
	_, handle, _ := mount.ParseRecordKey(key)
	for _, sum := range []encode.Checksum{
		{},
		{Kind: encode.OverCells, Cells: summed},
		{Kind: encode.OverCells, Cells: summed[:len(summed)/2], Extra: summed},
		{Kind: encode.OverKey, Tail: key},
		{Kind: encode.OverHandle, Tail: handle},
	} {
		v2, err := encode.Row2(cells, sum)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v2)
	}
	return out
}
