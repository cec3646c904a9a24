package mount_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
)

func TestParseRecordKey(t *testing.T) {
	for _, tt := range []struct {
		key    string
		id     int64
		handle string
		ok     bool
	}{
		{"t\x80\x00\x00\x00\x00\x00\x00\x4d_r\x80\x00\x00\x00\x00\x00\x00\x05", 77, "\x80\x00\x00\x00\x00\x00\x00\x05", true},
		{"t\x80\x00\x00\x00\x00\x00\x00\x4d_rabcdefghi", 77, "abcdefghi", true},
		{"t\x7f\xff\xff\xff\xff\xff\xff\xff_r", -1, "", true},
		{"t\x80\x00\x00\x00\x00\x00\x00\x4d_i\x80\x00\x00\x00\x00\x00\x00\x01", 0, "", false},
		{"t\x80\x00\x00\x00\x00\x00\x00\x4d_", 0, "", false},
		{"mDBs\x00\x00\x00\x00\x00\xfa_r", 0, "", false},
		{"", 0, "", false},
	} {
		id, handle, ok := mount.ParseRecordKey([]byte(tt.key))
		if id != tt.id || string(handle) != tt.handle || ok != tt.ok {
			t.Errorf("%X: %d %X %v", tt.key, id, handle, ok)
		}
	}
}

// clustered is a table whose key is all of these columns.
func clustered(columns ...event.Column) *event.Table {
	table := &event.Table{ID: 77, Schema: "s", Name: "t", Columns: columns, Handle: event.Handle{Kind: event.CommonHandle}}
	for i := range columns {
		columns[i].ID, columns[i].Name = int64(i+1), string(rune('a'+i))
		table.Handle.Parts = append(table.Handle.Parts, event.IndexPart{Column: i, Length: event.FullLength})
	}
	return table
}

func TestParseHandle(t *testing.T) {
	unsigned := event.Column{Type: event.TypeLonglong, Flag: event.FlagUnsigned}
	for name, tt := range map[string]struct {
		table  *event.Table
		handle string // in hexadecimal
		want   string
	}{
		"row id":           {&event.Table{}, "8000000000000007", "7"},
		"negative integer": {&event.Table{Columns: []event.Column{{Type: event.TypeLong}}, Handle: event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{}}}}, "7fffffffffffffff", "-1"},
		"unsigned integer": {&event.Table{Columns: []event.Column{unsigned}, Handle: event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{}}}}, "7fffffffffffffff", "18446744073709551615"},
		"integers":         {clustered(event.Column{Type: event.TypeLong}, unsigned), "037fffffffffffffff04ffffffffffffffff", "-1|18446744073709551615"},
		"year":             {clustered(event.Column{Type: event.TypeYear, Flag: event.FlagUnsigned}), "0380000000000007cf", "1999"},
		"datetime":         {clustered(event.Column{Type: event.TypeDatetime, Decimal: 6}), "0419b2421083000004", "2024-01-01 01:02:03.000004"},
		"time":             {clustered(event.Column{Type: event.TypeDuration, Decimal: 3}), "077ffffc9d2bab4900", "-01:02:03.004"},
		"float":            {clustered(event.Column{Type: event.TypeDouble}), "05c002000000000000", "2.25"},
		"negative float":   {clustered(event.Column{Type: event.TypeFloat}), "053ffdffffffffffff", "-2.25"},
		"decimal":          {clustered(event.Column{Type: event.TypeNewDecimal, Flen: 5, Decimal: 2}), "0605028001320000" + "00", "1.50"},
		"enum, set, bit":   {clustered(event.Column{Type: event.TypeEnum, Elems: []string{"x", "y"}}, event.Column{Type: event.TypeSet, Elems: []string{"x", "y"}}, event.Column{Type: event.TypeBit, Flen: 8}), "040000000000000002040000000000000003040000000000000041", "y|x,y|A"},
		"string":           {clustered(event.Column{Type: event.TypeVarchar, Charset: "utf8mb4"}), "016162630000000000fa", "abc"},
		"eight bytes":      {clustered(event.Column{Type: event.TypeVarchar, Charset: "utf8mb4"}), "016162636465666768ff0000000000000000f7", "abcdefgh"},
		"empty string":     {clustered(event.Column{Type: event.TypeVarchar, Charset: "utf8mb4"}, event.Column{Type: event.TypeLong}), "010000000000000000f7038000000000000001", "|1"},
		"binary":           {clustered(event.Column{Type: event.TypeString, Charset: "binary", Flen: 4}), "016100000000000000f9", "a\x00\x00\x00"},
		"null":             {clustered(event.Column{Type: event.TypeLong}), "00" + strings.Repeat("00", 8), ""},
	} {
		handle, err := hex.DecodeString(tt.handle)
		if err != nil {
			t.Fatal(name, err)
		}
		values, err := mount.ParseHandle(handle, tt.table)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var text []string
		for i, v := range values {
			c := &event.Column{Type: event.TypeLonglong}
			if tt.table.Handle.Kind == event.CommonHandle {
				c = &tt.table.Columns[i]
			}
			text = append(text, v.Text(c))
		}
		if got := strings.Join(text, "|"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestParseHandleRefuses(t *testing.T) {
	long, str := event.Column{Type: event.TypeLong}, event.Column{Type: event.TypeVarchar, Charset: "utf8mb4"}
	hidden := clustered(long)
	hidden.Handle.Parts[0].Column = -1
	for name, tt := range map[string]struct {
		table  *event.Table
		handle string
	}{
		"short row id":          {&event.Table{}, "80000000000007"},
		"long row id":           {&event.Table{}, "800000000000000700"},
		"short common handle":   {clustered(long), "0380000000000000"},
		"another column's flag": {clustered(str), "038000000000000001"},
		"unknown flag":          {clustered(long), "0a8000000000000001"},
		"key ends early":        {clustered(long, long), "038000000000000001"},
		"number ends early":     {clustered(str, long), "010000000000000000f70380"},
		"bytes after the end":   {clustered(long), "03800000000000000100"},
		"padding is not zero":   {clustered(event.Column{Type: event.TypeNewDecimal, Flen: 5, Decimal: 2}), "060502800132000001"},
		"string without end":    {clustered(str), "016162636465666768ff00"},
		"no marker":             {clustered(str), "0161626364656667680f"},
		"dirty padding":         {clustered(str), "016162636465666768fa"},
		"month 14":              {clustered(event.Column{Type: event.TypeDate}), "04ffffffffffffffff"},
		"hidden column":         {hidden, "038000000000000001"},
	} {
		handle, err := hex.DecodeString(tt.handle)
		if err != nil {
			t.Fatal(name, err)
		}
		if v, err := mount.ParseHandle(handle, tt.table); err == nil || !cdcerr.CorruptKey.Is(err) {
			t.Errorf("%s: %v %v", name, v, err)
		}
	}
}
