package encode_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/collation"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// unhex reads bytes in groups as people write them.
func unhex(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func column(id int64, typ event.Type, change func(*event.Column)) *event.Column {
	c := &event.Column{ID: id, Name: "c", Type: typ, Flen: -1, Decimal: -1}
	if change != nil {
		change(c)
	}
	return c
}

func unsigned(c *event.Column) { c.Flag |= event.FlagUnsigned }

func size(flen, decimal int) func(*event.Column) {
	return func(c *event.Column) { c.Flen, c.Decimal = flen, decimal }
}

func text(charset, collation string) func(*event.Column) {
	return func(c *event.Column) { c.Charset, c.Collation = charset, collation }
}

// Each value in all three forms, worked out by hand from the layouts: the bytes
// in a row of format 2, those in format 1, those in a key.
func TestValues(t *testing.T) {
	utf8 := text("utf8mb4", "utf8mb4_bin")
	for _, c := range []struct {
		name           string
		column         *event.Column
		value          encode.Value
		row2, row1, ke string
	}{
		{"int", column(1, event.TypeLong, nil), int64(-1), "ff", "08 01", "03 7fffffffffffffff"},
		{"int of two bytes", column(1, event.TypeLong, nil), int64(128), "8000", "08 8002", "03 8000000000000080"},
		{"int of four bytes", column(1, event.TypeLong, nil), int64(-32769), "ff7fffff", "08 818004", "03 7fffffffffff7fff"},
		{"bigint", column(1, event.TypeLonglong, nil), int64(math.MinInt64), "0000000000000080", "08 ffffffffffffffffff01", "03 0000000000000000"},
		{"unsigned", column(1, event.TypeLonglong, unsigned), uint64(math.MaxUint64), "ffffffffffffffff", "09 ffffffffffffffffff01", "04 ffffffffffffffff"},
		{"unsigned of one byte", column(1, event.TypeTiny, unsigned), uint64(200), "c8", "09 c801", "04 00000000000000c8"},
		{"year", column(1, event.TypeYear, unsigned), int64(2024), "e807", "08 d01f", "03 80000000000007e8"},
		{"double", column(1, event.TypeDouble, nil), float64(1), "bff0000000000000", "05 bff0000000000000", "05 bff0000000000000"},
		{"negative double", column(1, event.TypeDouble, nil), float64(-1.5), "4007ffffffffffff", "05 4007ffffffffffff", "05 4007ffffffffffff"},
		{"decimal", column(1, event.TypeNewDecimal, size(12, 4)), encode.Decimal("1.5"),
			"0c04 80000001 1388", "06 0c04 80000001 1388", "06 0c04 80000001 1388"},
		{"negative decimal", column(1, event.TypeNewDecimal, size(14, 4)), encode.Decimal("-1234567890.1234"),
			// 1 | 234567890 | 1234, all inverted, then the first bit set back.
			"0e04 7e f204c72d fb2d", "06 0e04 7e f204c72d fb2d", "06 0e04 7e f204c72d fb2d"},
		{"string", column(1, event.TypeVarchar, utf8), []byte("ab"), "6162", "02 04 6162", "01 6162000000000000 f9"},
		{"string of a whole group", column(1, event.TypeVarchar, utf8), []byte("12345678"), "3132333435363738", "02 10 3132333435363738",
			"01 3132333435363738 ff 0000000000000000 f7"},
		{"empty string", column(1, event.TypeVarchar, utf8), []byte(nil), "", "02 00", "01 0000000000000000 f7"},
		{"datetime", column(1, event.TypeDatetime, size(-1, 2)), encode.Moment{Year: 2024, Month: 1, Day: 1, Microsecond: 120000},
			"c0d401000042b219", "09 c0a9878080c090d919", "04 19b242000001d4c0"},
		{"zero date", column(1, event.TypeDate, nil), encode.Moment{}, "00", "09 00", "04 0000000000000000"},
		{"time", column(1, event.TypeDuration, nil), -time.Second, "003665c4", "08 ffa7d6b907", "07 7fffffffc4653600"},
		{"enum", column(1, event.TypeEnum, nil), uint64(2), "02", "09 02", "04 0000000000000002"},
		{"set", column(1, event.TypeSet, nil), uint64(1) << 63, "0000000000000080", "09 80808080808080808001", "04 8000000000000000"},
		{"bit", column(1, event.TypeBit, nil), uint64(0x1ff), "ff01", "09 ff03", "04 00000000000001ff"},
		{"vector", column(1, event.TypeVector, nil), []float32{1, -2}, "02000000 0000803f 000000c0", "14 02000000 0000803f 000000c0", "no"},
		{"json", column(1, event.TypeJSON, nil), encode.JSON("true"), "04 01", "0a 04 01", "no"},
	} {
		cell := []encode.Cell{{Column: c.column, Value: c.value}}
		data := unhex(t, c.row2)
		want := unhex(t, "80 00 0100 0000 01") + string([]byte{byte(len(data)), 0}) + data
		if got, err := encode.Row2(cell, encode.Checksum{}); err != nil || string(got) != want {
			t.Errorf("%s in format 2: %x, %v; want %x", c.name, got, err, want)
		}
		if got, err := encode.Row1(cell); err != nil || string(got) != unhex(t, "08 02"+c.row1) {
			t.Errorf("%s in format 1: %x, %v; want 0802%s", c.name, got, err, c.row1)
		}
		got, err := encode.CommonHandle([]encode.Part{{Column: c.column, Length: event.FullLength, Value: c.value}}, encode.Plain{})
		if c.ke == "no" {
			if err == nil {
				t.Errorf("%s got into a key: %x", c.name, got)
			}
			continue
		}
		if want := unhex(t, c.ke); err != nil || string(got) != want+strings.Repeat("\x00", max(0, 9-len(want))) {
			t.Errorf("%s in a key: %x, %v; want %x", c.name, got, err, want)
		}
	}
}

func TestRow2PutsNullsLastAndSortsByID(t *testing.T) {
	long := func(id int64) *event.Column { return column(id, event.TypeLong, nil) }
	got, err := encode.Row2([]encode.Cell{
		{Column: long(7), Value: nil}, {Column: long(3), Value: int64(3)}, {Column: long(2), Value: nil}, {Column: long(1), Value: int64(300)},
	}, encode.Checksum{})
	if want := unhex(t, "80 00 0200 0200 01 03 02 07 0200 0300 2c01 03"); err != nil || string(got) != want {
		t.Fatalf("%x, %v; want %x", got, err, want)
	}
	empty, err := encode.Row2(nil, encode.Checksum{})
	if err != nil || string(empty) != unhex(t, "80 00 0000 0000") {
		t.Fatalf("%x, %v", empty, err)
	}
	if empty, err = encode.Row1(nil); err != nil || string(empty) != "\x00" {
		t.Fatalf("%x, %v", empty, err)
	}
}

func TestRow2GrowsLarge(t *testing.T) {
	// By a column id above 255.
	got, err := encode.Row2([]encode.Cell{{Column: column(256, event.TypeLong, nil), Value: int64(1)}}, encode.Checksum{})
	if want := unhex(t, "80 01 0100 0000 00010000 01000000 01"); err != nil || string(got) != want {
		t.Fatalf("%x, %v; want %x", got, err, want)
	}
	// By more data than 65,535 bytes, and not by just as much.
	for n, large := range map[int]byte{65535: 0, 65536: 1} {
		blob := encode.Cell{Column: column(1, event.TypeBlob, text("binary", "binary")), Value: make([]byte, n)}
		got, err = encode.Row2([]encode.Cell{blob}, encode.Checksum{})
		if err != nil || got[1] != large {
			t.Fatalf("%d bytes: flags %x, %v", n, got[1], err)
		}
	}
}

// The row of format 2 with checksum version 2 that a TiDB wrote for
// (1, 'cksum2'), integer key 0x97; and the same bytes summed over its key.
func TestChecksumOverHandleAndKey(t *testing.T) {
	cell := []encode.Cell{{Column: column(2, event.TypeVarchar, text("utf8mb4", "utf8mb4_bin")), Value: []byte("cksum2")}}
	handle := encode.IntHandle(0x97)
	got, err := encode.Row2(cell, encode.Checksum{Kind: encode.OverHandle, Tail: handle})
	if want := unhex(t, "80 02 0100 0000 02 0600") + "cksum2" + unhex(t, "02 990bb779"); err != nil || string(got) != want {
		t.Fatalf("%x, %v; want %x", got, err, want)
	}
	key := encode.RecordKey(1, handle)
	byKey, err := encode.Row2(cell, encode.Checksum{Kind: encode.OverKey, Tail: key})
	if err != nil || len(byKey) != len(got) || byKey[len(byKey)-5] != 1 || string(byKey[len(byKey)-4:]) == string(got[len(got)-4:]) {
		t.Fatalf("%x, %v", byKey, err)
	}
}

// Version 0 sums each cell by itself. CRC32 of 01 00…00 | 01000000 'a' is
// worked out by another tool (Python's zlib).
func TestChecksumOverCells(t *testing.T) {
	id := encode.Cell{Column: column(1, event.TypeLong, nil), Value: int64(1)}
	name := encode.Cell{Column: column(2, event.TypeVarchar, text("utf8mb4", "utf8mb4_bin")), Value: []byte("a")}
	none := encode.Cell{Column: column(3, event.TypeLong, nil), Value: nil}
	got, err := encode.Row2([]encode.Cell{name, none}, encode.Checksum{Kind: encode.OverCells, Cells: []encode.Cell{none, name, id}})
	if want := unhex(t, "80 02 0100 0100 02 03 0100 61 00 79e737d5"); err != nil || string(got) != want {
		t.Fatalf("%x, %v; want %x", got, err, want)
	}
	got, err = encode.Row2([]encode.Cell{name}, encode.Checksum{Kind: encode.OverCells, Cells: []encode.Cell{id, name}, Extra: []encode.Cell{}})
	if want := unhex(t, "80 02 0100 0000 02 0100 61 08 79e737d5 00000000"); err != nil || string(got) != want {
		t.Fatalf("%x, %v; want %x", got, err, want)
	}
}

func TestCommonHandlesAreJoinedAndPadded(t *testing.T) {
	a := column(1, event.TypeVarchar, text("utf8mb4", "utf8mb4_general_ci"))
	b := column(2, event.TypeLong, nil)
	got, err := encode.CommonHandle([]encode.Part{
		{Column: a, Length: 2, Value: []byte("äbc")}, {Column: b, Length: event.FullLength, Value: int64(1)},
	}, order(t))
	if want := unhex(t, "01 0041004200000000 fb 03 8000000000000001"); err != nil || string(got) != want {
		t.Fatalf("%x, %v; want %x", got, err, want)
	}
	short, err := encode.CommonHandle([]encode.Part{{Column: b, Length: event.FullLength}}, encode.Plain{})
	if err != nil || string(short) != strings.Repeat("\x00", 9) {
		t.Fatalf("%x, %v", short, err)
	}
	bin := column(1, event.TypeVarchar, text("binary", "binary"))
	cut, err := encode.CommonHandle([]encode.Part{{Column: bin, Length: 1, Value: []byte("ä")}}, order(t))
	if err != nil || string(cut) != unhex(t, "01 c300000000000000 f8") {
		t.Fatalf("%x, %v", cut, err)
	}
}

func TestHandleOfTable(t *testing.T) {
	table := &event.Table{Columns: []event.Column{*column(1, event.TypeVarchar, text("utf8mb4", "utf8mb4_bin")), *column(2, event.TypeLonglong, unsigned)}}
	table.Handle = event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{Column: 1, Length: event.FullLength}}}
	row := []encode.Value{[]byte("a"), uint64(1<<63 + 1)}
	if got, err := encode.Handle(table, row, encode.Plain{}); err != nil || string(got) != unhex(t, "0000000000000001") {
		t.Fatalf("%x, %v", got, err)
	}
	table.Handle = event.Handle{Kind: event.CommonHandle, Parts: []event.IndexPart{{Column: 0, Length: event.FullLength}}}
	if got, err := encode.Handle(table, row, encode.Plain{}); err != nil || string(got) != unhex(t, "01 6100000000000000 f8") {
		t.Fatalf("%x, %v", got, err)
	}
	table.Handle = event.Handle{Kind: event.RowIDHandle}
	if got, err := encode.Handle(table, row, encode.Plain{}); err == nil {
		t.Fatalf("a hidden row id was found in the columns: %x", got)
	}
	if got := encode.RecordKey(45, encode.IntHandle(1)); string(got) != unhex(t, "74 800000000000002d 5f72 8000000000000001") {
		t.Fatalf("%x", got)
	}
}

func TestJSONBytes(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{`null`, "04 00"},
		{`-1`, "09 ffffffffffffffff"},
		{`18446744073709551615`, "0a ffffffffffffffff"},
		{`1.0`, "0b 000000000000f03f"},
		{`"é"`, "0c 02 c3a9"},
		{`[]`, "03 00000000 08000000"},
		// Two entries: a literal in place, a number behind them.
		{`[true, 1]`, "03 02000000 1a000000 04 01000000 09 12000000 0100000000000000"},
		// Keys in the order of their bytes, whatever the text's.
		{`{"b": "x", "a": null}`, "01 02000000 22000000 1e000000 0100 1f000000 0100 04 00000000 0c 20000000 61 62 0178"},
		{`{"a": {}}`, "01 01000000 1c000000 13000000 0100 01 14000000 61 00000000 08000000"},
	} {
		got, err := encode.Row1([]encode.Cell{{Column: column(1, event.TypeJSON, nil), Value: encode.JSON(c.doc)}})
		if err != nil || string(got) != unhex(t, "0802 0a"+c.want) {
			t.Errorf("%s: %x, %v; want %s", c.doc, got, err, c.want)
		}
	}
	for _, doc := range []string{"", "{", "1 2", `{"` + strings.Repeat("k", 65536) + `":1}`} {
		if got, err := encode.Row1([]encode.Cell{{Column: column(1, event.TypeJSON, nil), Value: encode.JSON(doc)}}); err == nil {
			t.Errorf("%.20q became %x", doc, got)
		}
	}
}

func TestParseReadsWhatSQLPrints(t *testing.T) {
	elems := func(c *event.Column) { c.Elems = []string{"x", "y", "z"} }
	for _, c := range []struct {
		column *event.Column
		text   string
		want   string // in a row of format 1, behind the column id
	}{
		{column(1, event.TypeYear, unsigned), "0000", "08 00"},
		{column(1, event.TypeLong, nil), "-1", "08 01"},
		{column(1, event.TypeInt24, unsigned), "1", "09 01"},
		{column(1, event.TypeBit, nil), "5", "09 05"},
		{column(1, event.TypeFloat, nil), "0.1", "05 bfb99999a0000000"},
		{column(1, event.TypeDouble, nil), "0.1", "05 bfb999999999999a"},
		{column(1, event.TypeNewDecimal, size(3, 2)), "-0.00", "06 0302 80 00"},
		{column(1, event.TypeDate, nil), "2024-00-00", "09 80808080808080d919"},
		{column(1, event.TypeTimestamp, size(-1, 3)), "2024-01-01 00:00:00.120", "09 c0a9878080c090d919"},
		{column(1, event.TypeDuration, nil), "-00:00:01", "08 ffa7d6b907"},
		{column(1, event.TypeDuration, size(-1, 1)), "838:59:59.5", "08 80ecb7f4b1c2dd0a"},
		{column(1, event.TypeEnum, elems), "z", "09 03"},
		{column(1, event.TypeEnum, elems), "", "09 00"},
		{column(1, event.TypeSet, elems), "x,z", "09 05"},
		{column(1, event.TypeSet, elems), "", "09 00"},
		{column(1, event.TypeVector, nil), "[1, -2]", "14 02000000 0000803f 000000c0"},
		{column(1, event.TypeVector, nil), "[]", "14 00000000"},
		{column(1, event.TypeVarchar, nil), "a,b", "02 06 612c62"},
	} {
		v, err := encode.Parse(c.column, c.text)
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := encode.Row1([]encode.Cell{{Column: c.column, Value: v}})
		if want := unhex(t, "0802"+c.want); err != nil || string(got) != want {
			t.Errorf("type %d %q: %x, %v; want %x", c.column.Type, c.text, got, err, want)
		}
	}
	for _, c := range []struct {
		column *event.Column
		text   string
	}{
		{column(1, event.TypeLong, nil), "1.5"},
		{column(1, event.TypeLong, unsigned), "-1"},
		{column(1, event.TypeEnum, elems), "w"},
		{column(1, event.TypeSet, elems), "x,,y"},
		{column(1, event.TypeDatetime, nil), "2024-01-01 00:00"},
		{column(1, event.TypeDuration, nil), "00:00:00.1234567"},
		{column(1, event.TypeVector, nil), "1,2"},
		{column(1, event.TypeGeometry, nil), "point(1 1)"},
	} {
		if v, err := encode.Parse(c.column, c.text); err == nil {
			t.Errorf("type %d: %q became %v", c.column.Type, c.text, v)
		}
	}
}

func TestValuesThatDoNotFitAreRefused(t *testing.T) {
	for _, c := range []struct {
		column *event.Column
		value  encode.Value
	}{
		{column(1, event.TypeLong, nil), uint64(1)},
		{column(1, event.TypeLong, unsigned), int64(1)},
		{column(1, event.TypeVarchar, nil), "a string, not bytes"},
		{column(1, event.TypeNewDecimal, size(3, 1)), encode.Decimal("100")},
		{column(1, event.TypeNewDecimal, size(3, 1)), encode.Decimal("1.25")},
		{column(1, event.TypeNewDecimal, size(3, 1)), encode.Decimal("1e2")},
		{column(1, event.TypeNewDecimal, size(3, 1)), encode.Decimal("")},
		{column(0, event.TypeLong, nil), int64(1)},
	} {
		if got, err := encode.Row2([]encode.Cell{{Column: c.column, Value: c.value}}, encode.Checksum{}); err == nil {
			t.Errorf("type %d took a %T: %x", c.column.Type, c.value, got)
		}
	}
}

func TestPlainSortKeyIsTheStringItself(t *testing.T) {
	if got, err := (encode.Plain{}).SortKey("utf8mb4_general_ci", []byte("Ab ")); err != nil || string(got) != "Ab " {
		t.Error(got, err)
	}
}

func order(t *testing.T) *collation.Order {
	t.Helper()
	c, err := collation.New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
