package ticdc_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/pierrec/lz4/v4"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/redo/ticdc"
)

// pack is a value in MessagePack, each kind in its widest form or in its shortest.
func pack(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 0xc0)
	case bool:
		if v {
			return append(b, 0xc3)
		}
		return append(b, 0xc2)
	case int:
		return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
	case uint64:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
	case uint8:
		return append(b, v&0x7f)
	case int8:
		return append(b, 0xd0, byte(v))
	case float32:
		return binary.BigEndian.AppendUint32(append(b, 0xca), math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
	case string:
		if len(v) < 32 {
			return append(append(b, 0xa0|byte(len(v))), v...)
		}
		return append(append(b, 0xda, byte(len(v)>>8), byte(len(v))), v...)
	case []byte:
		return append(append(b, 0xc4, byte(len(v))), v...)
	case list:
		b = append(b, 0xdc, byte(len(v)>>8), byte(len(v)))
		for _, x := range v {
			b = pack(b, x)
		}
		return b
	case object:
		b = append(b, 0x80|byte(len(v)/2))
		for _, x := range v {
			b = pack(b, x)
		}
		return b
	}
	return append(b, 0xc1)
}

type (
	list   []any
	object []any // name, value, …
)

func record(v any) []byte { return pack([]byte{0xff, 0xff, 0, 2}, v) }

// file frames records as TiCDC does.
func file(records ...[]byte) []byte {
	var out []byte
	for _, r := range records {
		padding := (8 - len(r)%8) % 8
		field := uint64(len(r))
		if padding != 0 {
			field |= uint64(0x80|padding) << 56
		}
		out = append(binary.LittleEndian.AppendUint64(out, field), r...)
		out = append(out, make([]byte, padding)...)
	}
	return out
}

func column(name string, kind event.Type, charset string) object {
	return object{"name", name, "type", uint64(kind), "charset", charset, "collation", ""}
}

func cell(v any, flag uint8) object {
	return object{"column", v, "value-is-empty-bytes", false, "flag", flag}
}

func sampleRow() []byte {
	shape := list{
		column("id", event.TypeLonglong, ""), column("u", event.TypeLonglong, ""), column("name", event.TypeVarchar, "utf8mb4"), column("none", event.TypeVarchar, "utf8mb4"),
		column("d", event.TypeNewDecimal, ""), column("at", event.TypeTimestamp, ""), column("f", event.TypeFloat, ""), column("raw", event.TypeBlob, "binary"),
		column("empty", event.TypeVarchar, "gbk"), column("e", event.TypeEnum, "utf8mb4"), column("j", event.TypeJSON, ""),
	}
	values := list{
		cell(-5, 0x0a), cell(uint64(math.MaxUint64), 0x40), cell("grün", 0x40), cell(nil, 0x40), cell("-12.340", 0x40), cell("2024-06-01 02:00:00.5", 0x40),
		cell(float32(1.5), 0x40), cell([]byte{0, 255}, 0x41), object{"column", nil, "value-is-empty-bytes", true, "flag", uint8(0x40)}, cell(uint64(2), 0x40), cell(`{"a": 1}`, 0x40),
	}
	values[1].(object)[5] = uint64(0xc0) // unsigned
	return record(object{"type", uint8(1), "ddl", nil, "row", object{
		"row", object{"start-ts", uint64(100), "commit-ts", uint64(105), "table", object{"db-name", "d", "tbl-name", "t", "tbl-id", 77, "is-partition", false},
			"columns", shape, "pre-columns", list{}, "index-columns", list{list{uint8(0)}}},
		"columns", values, "pre-columns", list{},
	}})
}

func sampleDDL() []byte {
	return record(object{"type", uint8(2), "row", nil, "ddl", object{
		"ddl", object{"start-ts", uint64(200), "commit-ts", uint64(205), "query", "ALTER TABLE `d`.`t` ADD COLUMN `x` INT"}, "type", uint8(5),
		"table-name", object{"db-name", "d", "tbl-name", "t"},
	}})
}

func TestFile(t *testing.T) {
	plain := file(sampleRow(), sampleDDL())
	var packed bytes.Buffer
	w := lz4.NewWriter(&packed)
	if _, err := w.Write(plain); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"plain": plain, "reserved": append(bytes.Clone(plain), make([]byte, 4096)...), "lz4": packed.Bytes()} {
		var got []ticdc.Record
		err := ticdc.Records(name, data, func(r []byte) error {
			rec, err := ticdc.Decode(r, time.FixedZone("", 2*3600))
			got = append(got, rec)
			return err
		})
		if err != nil || len(got) != 2 || got[0].Row == nil || got[1].DDL == nil {
			t.Fatalf("%s: %v, %+v", name, err, got)
		}
		row, d := got[0].Row, got[1].DDL
		if row.CommitTS != 105 || row.StartTS != 100 || row.PhysicalID != 77 || row.Table.FullName() != "d.t" || row.Kind() != event.Insert || len(row.Table.Key) != 1 || row.Table.Key[0] != 0 {
			t.Errorf("%s: %+v of %+v", name, row, row.Table)
		}
		want := []string{"-5", "18446744073709551615", "grün", "", "-12.340", "2024-06-01 00:00:00.5", "1.5", "\x00\xff", "", "", `{"a": 1}`}
		for i, v := range row.After {
			if text := v.Text(&row.Table.Columns[i]); text != want[i] && !v.IsNull() || v.IsNull() != (i == 3) {
				t.Errorf("%s: column %s is %q, want %q", name, row.Table.Columns[i].Name, text, want[i])
			}
		}
		if row.After[9].Uint() != 2 { // its members are not in the log, so that it has no text
			t.Errorf("%s: the enum is %d", name, row.After[9].Uint())
		}
		if c := row.Table.Columns[8]; c.Charset != "gbk" || row.After[8].Kind() != event.Bytes {
			t.Errorf("%s: %+v", name, c)
		}
		if d.SwitchTS != 205 || d.Action != event.ActionAddColumn || d.Schema != "d" || d.Query == "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// A file that was being written ends anywhere: what is whole of it is read.
func TestTorn(t *testing.T) {
	whole := file(sampleDDL(), sampleDDL())
	first := len(file(sampleDDL()))
	for n := 1; n < len(whole); n++ {
		got := 0
		err := ticdc.Records("f", whole[:n], func([]byte) error { got++; return nil })
		want := 0
		if n >= first {
			want = 1
		}
		if n == first && err == nil && got == 1 {
			continue
		}
		if !cdcerr.RedoTorn.Is(err) || got != want {
			t.Fatalf("%d of %d bytes: %d records, %v", n, len(whole), got, err)
		}
	}
	reserved := append(bytes.Clone(whole[:first+8]), make([]byte, 4096)...)
	got := 0
	if err := ticdc.Records("f", reserved, func([]byte) error { got++; return nil }); !cdcerr.RedoTorn.Is(err) || got != 1 {
		t.Errorf("a record of zeros: %d, %v", got, err)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]ticdc.Name{
		"cap-1_feed_row_445644800000000000_0c6f.log":    {Kind: ticdc.Rows, Max: 445644800000000000},
		"cap-1_ns_feed_ddl_445644800000000000_0c6f.log": {Kind: ticdc.DDLs, Max: 445644800000000000},
		"some/dir/cap_feed_row_0_0c6f.tmp":              {Kind: ticdc.Rows, Unfinished: true},
		"cap_ns_feed_meta_0c6f.meta":                    {Kind: ticdc.Meta},
	} {
		if got, ok := ticdc.ParseName(name); !ok || got != want {
			t.Errorf("%s: %+v %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "delete_feed", "a_b_c.log", "cap_feed_row_x_0c6f.log", "cap_feed_table_5_0c6f.log", "cap_feed_row_5_0c6f.log.sort"} {
		if got, ok := ticdc.ParseName(name); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOthers(t *testing.T) {
	if m, err := ticdc.DecodeMeta(pack(nil, object{"checkpointTs", uint64(7), "resolvedTs", uint64(9), "version", uint8(1)})); err != nil || m.Checkpoint != 7 || m.Resolved != 9 {
		t.Errorf("%+v %v", m, err)
	}
	for what, tt := range map[string]struct {
		data []byte
		code *cdcerr.Code
	}{
		"version 1":   {pack(nil, object{"type", uint8(1)}), cdcerr.RedoVersion},
		"version 3":   {pack([]byte{0xff, 0xff, 0, 3}, object{}), cdcerr.RedoVersion},
		"type 3":      {record(object{"type", uint8(3)}), cdcerr.RedoCorrupted},
		"no map":      {record(list{}), cdcerr.RedoCorrupted},
		"cut off":     {sampleRow()[:60], cdcerr.RedoCorrupted},
		"another":     {record(complex(1, 2)), cdcerr.RedoCorrupted},
		"no row":      {record(object{"type", uint8(1), "row", object{}}), cdcerr.RedoCorrupted},
		"no DDL":      {record(object{"type", uint8(2)}), cdcerr.RedoCorrupted},
		"small signs": {record(int8(-3)), cdcerr.RedoCorrupted},
	} {
		if _, err := ticdc.Decode(tt.data, time.UTC); !tt.code.Is(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := ticdc.DecodeMeta(nil); !cdcerr.RedoCorrupted.Is(err) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(file(sampleRow(), sampleDDL()))
	f.Add(sampleRow())
	f.Fuzz(func(t *testing.T, data []byte) {
		visit := func(r []byte) error {
			rec, err := ticdc.Decode(r, time.UTC)
			if err == nil && rec.Row != nil {
				for i, v := range append(append(event.Image{}, rec.Row.After...), rec.Row.Before...) {
					_ = v.Text(&rec.Row.Table.Columns[i%len(rec.Row.Table.Columns)])
				}
			}
			return nil
		}
		_ = ticdc.Records("f", data, visit)
		_ = visit(data)
		_, _ = ticdc.DecodeMeta(data)
	})
}
