package mount_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
)

// Damaged values end in an error that names the table, the key and the reason,
// and the column where it is one column's.
func TestCorruptRows(t *testing.T) {
	const head = "80000100000002" // v2, one cell of column n (id 2)
	for name, tt := range map[string]struct {
		typ   event.Column // of column n
		value string       // in hexadecimal
		why   string
	}{
		"nothing":                    {event.Column{Type: event.TypeLong}, "", "without bytes"},
		"v2 header":                  {event.Column{Type: event.TypeLong}, "8000010000", "a row value of 5 bytes"},
		"v2 flags":                   {event.Column{Type: event.TypeLong}, "800400000000", "row flags 0x04"},
		"v2 column count":            {event.Column{Type: event.TypeLong}, "8000ffff0000", "65535 columns"},
		"v2 cells cut off":           {event.Column{Type: event.TypeLong}, head + "040001", "cells of 4 bytes, there are 1"},
		"v2 large cells cut off":     {event.Column{Type: event.TypeLong}, "80010100000002000000ffffffff01", "there are 1"},
		"v2 bytes after the end":     {event.Column{Type: event.TypeLong}, head + "01000109", "1 bytes after the last cell"},
		"v2 ids do not ascend":       {event.Column{Type: event.TypeLong}, "80000200000002020100020001" + "01", "must ascend"},
		"v2 offsets do not ascend":   {event.Column{Type: event.TypeLong}, "80000200000002030200010001", "must ascend"},
		"v2 null ids do not ascend":  {event.Column{Type: event.TypeLong}, "8000000002000202", "must ascend"},
		"v2 null and not null":       {event.Column{Type: event.TypeLong}, "8000010001000202010001", "column n stands twice"},
		"v2 integer of 3 bytes":      {event.Column{Type: event.TypeLong}, head + "0300010203", "column n: an integer of 3 bytes"},
		"v2 unsigned of 0 bytes":     {event.Column{Type: event.TypeLong, Flag: event.FlagUnsigned}, head + "0000", "column n: an integer of 0 bytes"},
		"v2 float of 4 bytes":        {event.Column{Type: event.TypeFloat}, head + "040001020304", "of 4 bytes"},
		"v2 decimal":                 {event.Column{Type: event.TypeNewDecimal}, head + "020000ff", "column n: decimal: precision 0"},
		"v2 JSON":                    {event.Column{Type: event.TypeJSON}, head + "02000403", "column n: json: literal 0x03"},
		"v2 vector":                  {event.Column{Type: event.TypeVector}, head + "01000f", "column n: vector"},
		"v2 month":                   {event.Column{Type: event.TypeDatetime}, head + "0800ffffffffffffffff", "is no date and time"},
		"v2 set":                     {event.Column{Type: event.TypeSet, Elems: []string{"a", "b"}}, head + "010004", "a SET of 2 members has the bits 0x4"},
		"v2 type":                    {event.Column{Type: event.TypeGeometry}, head + "010004", "column n: no row holds type 255"},
		"v1 id":                      {event.Column{Type: event.TypeLong}, "0304", "byte 0x03 where a column id begins"},
		"v1 id without end":          {event.Column{Type: event.TypeLong}, "08ff", "a column id without an end"},
		"v1 no cell":                 {event.Column{Type: event.TypeLong}, "0804", "column n: the row ends before its cell"},
		"v1 flag":                    {event.Column{Type: event.TypeLong}, "080401", "column n: flag 0x01"},
		"v1 integer without end":     {event.Column{Type: event.TypeLong}, "080408ff", "an integer without an end"},
		"v1 string longer":           {event.Column{Type: event.TypeVarchar}, "0804020461", "longer than the row"},
		"v1 string, negative length": {event.Column{Type: event.TypeVarchar}, "0804020161", "longer than the row"},
		"v1 float":                   {event.Column{Type: event.TypeDouble}, "08040501", "1 bytes, it needs 8"},
		"v1 other type":              {event.Column{Type: event.TypeVarchar}, "08040802", "column n: the row holds a signed integer"},
		"v1 sign":                    {event.Column{Type: event.TypeLong, Flag: event.FlagUnsigned}, "08040801", "a signed integer"},
		"v1 twice":                   {event.Column{Type: event.TypeLong}, "0804080208040802", "column n stands twice"},
		"v1 unknown column":          {event.Column{Type: event.TypeLong}, "087e01", "column with id 63"},
		"v1 null, then more":         {event.Column{Type: event.TypeLong}, "0000", "where a column id begins"},
	} {
		table, raw := sample()
		tt.typ.ID, tt.typ.Name = 2, "n"
		table.Columns[2] = tt.typ
		value, err := hex.DecodeString(tt.value)
		if err != nil {
			t.Fatal(name, err)
		}
		raw.Value = value
		_, err = mount.Row(raw, table)
		if err == nil || !cdcerr.CorruptRow.Is(err) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, word := range []string{"shop.orders", "74800000000000004D5F728000000000000005", tt.why} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q is not in: %v", name, word, err)
			}
		}
		if len(value) == 0 {
			continue
		}
		raw.Op, raw.Value, raw.Old = event.Delete, nil, value
		if _, err = mount.Row(raw, table); !cdcerr.CorruptRow.Is(err) || !strings.Contains(err.Error(), "value before the change") {
			t.Errorf("%s, as the old value: %v", name, err)
		}
	}
}

func TestRowKinds(t *testing.T) {
	table, raw := sample()
	value := raw.Value
	for _, tt := range []struct {
		op         event.Op
		value, old []byte
		want       event.RowKind
	}{
		{event.Put, value, nil, event.Insert},
		{event.Put, value, value, event.Update},
		{event.Delete, nil, value, event.DeleteRow},
	} {
		raw.Op, raw.Value, raw.Old = tt.op, tt.value, tt.old
		row, err := mount.Row(raw, table)
		if err != nil || row.Kind() != tt.want || row.Table != table || row.PhysicalID != 77 || row.Raw != raw || row.StartTS != 1 || row.CommitTS != 2 {
			t.Errorf("%v: %+v %v", tt.want, row, err)
		}
	}
	raw.Op, raw.Value, raw.Old = event.Delete, nil, nil
	if row, err := mount.Row(raw, table); row != nil || err != nil {
		t.Errorf("deletion of a row that never was: %v %v", row, err)
	}
	raw.Op, raw.Value = 0, value
	if _, err := mount.Row(raw, table); !cdcerr.Unexpected.Is(err) {
		t.Errorf("no operation: %v", err)
	}
	raw.Op, raw.Key = event.Put, raw.Key[:18]
	if _, err := mount.Row(raw, table); !cdcerr.CorruptKey.Is(err) || !strings.Contains(err.Error(), "shop.orders") {
		t.Errorf("short key: %v", err)
	}
	raw.Key = []byte("mDB")
	if _, err := mount.Row(raw, table); !cdcerr.CorruptKey.Is(err) {
		t.Errorf("no record key: %v", err)
	}
}

// Numbers that TiDB does not let in, but that bytes can hold.
func TestFloatsThatNoColumnHolds(t *testing.T) {
	table, raw := sample()
	for value, want := range map[string]string{
		"fff8000000000000": "0", // not a number
		"fff0000000000000": "0", // an infinity
		"c7efffffe0000000": "3.40282e38",
		"ffefffffffffffff": "0", // too large for a FLOAT
		"8000000000000001": "0", // the smallest float64 is none of a FLOAT
	} {
		b, err := hex.DecodeString("8000010000000208" + "00" + value)
		if err != nil {
			t.Fatal(err)
		}
		table.Columns[2].Type = event.TypeFloat
		raw.Value = b
		row, err := mount.Row(raw, table)
		if err != nil {
			t.Fatal(err)
		}
		if v := row.After[2]; v.Text(&table.Columns[2]) != want || (v.Float() == 0) != (want == "0") {
			t.Errorf("%s: %v, want %s", value, v.Float(), want)
		}
	}
}
