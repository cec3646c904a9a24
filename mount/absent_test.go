package mount_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
)

// withColumn is the table (id int, c …) whose column c was added later.
func withColumn(t *testing.T, column string) *event.Table {
	t.Helper()
	info, err := schema.ParseTableInfo([]byte(fmt.Sprintf(`{"id":77,"name":{"O":"t","L":"t"},"pk_is_handle":true,"state":5,"update_timestamp":470825289834299411,"cols":[
		{"id":1,"name":{"O":"id","L":"id"},"offset":0,"state":5,"version":2,"type":{"Tp":3,"Flag":4099,"Flen":11,"Decimal":0,"Charset":"binary","Collate":"binary"}},
		{"id":2,"name":{"O":"c","L":"c"},"offset":1,"state":5,%s}]}`, column)))
	if err != nil {
		t.Fatal(err)
	}
	table, err := info.Table(&schema.DBInfo{ID: 1, Name: schema.Name{O: "d", L: "d"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// A row that was written before ADD COLUMN and one written after it with NULL
// are told apart by the bytes: the first lacks the column, the second lists it.
func TestRowsOlderThanAColumn(t *testing.T) {
	const utf8, binary = `"Charset":"utf8mb4","Collate":"utf8mb4_bin"`, `"Charset":"binary","Collate":"binary"`
	typ := func(tp, flag, flen, decimal int, more string) string {
		return fmt.Sprintf(`"version":2,"type":{"Tp":%d,"Flag":%d,"Flen":%d,"Decimal":%d,%s}`, tp, flag, flen, decimal, more)
	}
	origin := func(text string) string {
		b, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return `,"origin_default":` + string(b)
	}
	const notNull, unsigned = 1, 32
	null := "NULL"
	for name, tt := range map[string]struct{ column, want string }{
		"nullable without default":     {typ(3, 0, 11, 0, binary), null},
		"int":                          {typ(3, 0, 11, 0, binary) + origin("42"), "42"},
		"int not null without default": {typ(3, notNull, 11, 0, binary), "0"},
		"bigint unsigned":              {typ(8, notNull|unsigned, 20, 0, binary) + origin("18446744073709551615"), "18446744073709551615"},
		"year":                         {typ(13, unsigned, 4, 0, binary) + origin("2020"), "2020"},
		"year not null":                {typ(13, notNull|unsigned, 4, 0, binary) + origin("0"), "0000"},
		"float":                        {typ(4, 0, 12, -1, binary) + origin("0.1"), "0.1"},
		"double":                       {typ(5, 0, 22, -1, binary) + origin("-0.5"), "-0.5"},
		"decimal, text not padded":     {typ(246, notNull, 12, 4, binary) + origin("1.5"), "1.5000"},
		"decimal not null":             {typ(246, notNull, 12, 4, binary), "0.0000"},
		"date":                         {typ(10, 128, 10, 0, binary) + origin("2020-02-02"), "2020-02-02"},
		"date not null":                {typ(10, 128|notNull, 10, 0, binary) + origin("0000-00-00"), "0000-00-00"},
		"date as a word":               {typ(10, 128, 10, 0, binary) + origin("CURRENT_DATE"), "2026-11-30"},
		"datetime":                     {typ(12, 128, 19, 0, binary) + origin("2020-10-10 10:10:10"), "2020-10-10 10:10:10"},
		"datetime of three digits":     {typ(12, 128, 23, 3, binary) + origin("2024-05-05 05:05:05.555"), "2024-05-05 05:05:05.555"},
		"timestamp is UTC":             {typ(7, 128|notNull, 19, 0, binary) + origin("2021-06-01 04:00:00"), "2021-06-01 04:00:00"},
		"timestamp, now of 3 digits":   {typ(7, 128, 23, 3, binary) + origin("2021-06-01 04:00:00"), "2021-06-01 04:00:00.000"},
		"time":                         {typ(11, 128, 13, 2, binary) + origin("-01:02:03.04"), "-01:02:03.04"},
		"char loses its spaces":        {typ(254, 0, 10, 0, utf8) + origin("a  "), "a"},
		"varchar keeps its spaces":     {typ(15, 0, 10, 0, utf8) + origin("a  "), "a  "},
		"varchar not null":             {typ(15, notNull|4096, 10, 0, utf8) + origin(""), ""},
		"gbk":                          {typ(15, 0, 10, 0, `"Charset":"gbk","Collate":"gbk_bin"`) + origin("中"), "中"},
		"binary is padded":             {typ(254, 128, 4, 0, binary) + origin("ab"), "ab\x00\x00"},
		"binary not null":              {typ(254, 128|notNull, 4, 0, binary), "\x00\x00\x00\x00"},
		"varbinary, broken in JSON":    {typ(15, 128, 5, 0, binary) + origin("\ufffd\x00"), "\xef\xbf\xbd\x00"},
		"text":                         {typ(252, 0, 65535, 0, utf8), null},
		"blob not null":                {typ(252, 128|notNull, 65535, 0, binary), ""},
		"enum":                         {typ(247, 0, 4, 0, utf8+`,"Elems":["dflt","chg","new"]`) + origin("new"), "new"},
		"enum not null":                {typ(247, notNull, 3, 0, utf8+`,"Elems":["one","two"]`), "one"},
		"set":                          {typ(248, 0, 3, 0, utf8+`,"Elems":["p","q"]`) + origin("p,q"), "p,q"},
		"set not null":                 {typ(248, notNull, 3, 0, utf8+`,"Elems":["p","q"]`), ""},
		"bit, by its bytes":            {typ(16, unsigned, 9, 0, binary) + origin("\x01\ufffd") + `,"origin_default_bit":"Acc="`, "\x01\xc7"},
		"bit not null":                 {typ(16, notNull|unsigned, 9, 0, binary), "\x00\x00"},
		"bit, empty default":           {typ(16, notNull|unsigned, 9, 0, binary) + origin(""), "\x00\x00"},
		"json":                         {typ(245, 128, -1, 0, binary), null},
		"json not null":                {typ(245, 128|notNull, -1, 0, binary), "null"},
		"vector":                       {typ(225, 128, 3, 0, binary), null},
	} {
		table := withColumn(t, tt.column)
		key := []byte("t\x80\x00\x00\x00\x00\x00\x00\x4d_r\x80\x00\x00\x00\x00\x00\x00\x05")
		for format, older := range map[string]string{"v2": "\x80\x00\x00\x00\x00\x00", "v1": "\x00"} {
			row, err := mount.Row(&event.RawKV{Op: event.Put, Key: key, Value: []byte(older)}, table)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			c, v := &table.Columns[1], row.After[1]
			got := v.Text(c)
			if v.IsNull() {
				got = null
			}
			if got != tt.want || (!v.IsNull() && v.Kind() != c.ValueKind()) {
				t.Errorf("%s, %s: %q of kind %d, want %q of kind %d", name, format, got, v.Kind(), tt.want, c.ValueKind())
			}
			if id := row.After[0]; id.Kind() != event.Int || id.Int() != 5 {
				t.Errorf("%s, %s: the key's column is %v", name, format, id)
			}
		}
		for format, listed := range map[string]string{"v2": "\x80\x00\x00\x00\x01\x00\x02", "v1": "\x08\x04\x00"} {
			row, err := mount.Row(&event.RawKV{Op: event.Put, Key: key, Value: []byte(listed)}, table)
			if err != nil || !row.After[1].IsNull() {
				t.Errorf("%s, %s: a NULL that the row lists became %v: %v", name, format, row, err)
			}
		}
	}
}
