package event_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
)

var jsonColumn = &event.Column{Name: "j", Type: event.TypeJSON}

func TestJSONTextComesBack(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for text, want := range map[string]string{
		`{}`: `{}`, `[]`: `[]`, `null`: `null`, ` true `: `true`, `false`: `false`, `""`: `""`,
		`123`: `123`, `-123`: `-123`, `-0`: `0`,
		`18446744073709551615`:  `18446744073709551615`,
		`-9223372036854775808`:  `-9223372036854775808`,
		`100000000000000000000`: `1e20`,
		`1.0`:                   `1.0`, `1.5`: `1.5`, `1e100`: `1e100`, `1e-7`: `0.0000001`, `1e14`: `100000000000000.0`, `1e15`: `1e15`, `-0.0`: `-0.0`,
		`{"b":1,"a":[1,2,{"c":null}],"长":"v","":"empty"}`: `{"": "empty", "a": [1, 2, {"c": null}], "b": 1, "长": "v"}`,
		`{"k":1,"k":true}`:                                                          `{"k": true}`,
		`[1,"x",true,false,null,{"k":{"k":[]}}]`:                                    `[1, "x", true, false, null, {"k": {"k": []}}]`,
		`"uni 中文 😀 \u0041 \n \" \\ \/ <&>"`:                                         `"uni 中文 😀 A \n \" \\ / <&>"`,
		`"\u0000\u0001\b\t\n\u000b\f\r\u001f\u007f\u2028"`:                          "\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f\u007f\u2028\"",
		`{"` + strings.Repeat("k", 300) + `":"` + strings.Repeat("v", 70000) + `"}`: `{"` + strings.Repeat("k", 300) + `": "` + strings.Repeat("v", 70000) + `"}`,
		deep: deep,
	} {
		raw, err := event.ParseJSON(text)
		if err != nil {
			t.Errorf("%.60s: %v", text, err)
			continue
		}
		if err := event.CheckJSON(raw); err != nil {
			t.Errorf("%.60s: %v", text, err)
		}
		if got := event.JSONValue(raw).Text(jsonColumn); got != want {
			t.Errorf("%.60s: %.200q, want %.200q", text, got, want)
		}
		stored, rest, err := event.CutJSON(append(raw[:len(raw):len(raw)], "tail"...))
		if err != nil || string(stored) != string(raw) || string(rest) != "tail" {
			t.Errorf("%.60s: cut to %d and %q: %v", text, len(stored), rest, err)
		}
	}
	for _, bad := range []string{"", "{", "[1,]", "1 2", "nul", `{"a"}`, "1e999", `{"` + strings.Repeat("k", 70000) + `":1}`, "01"} {
		if raw, err := event.ParseJSON(bad); err == nil {
			t.Errorf("%.60q became %x", bad, raw)
		}
	}
}

// What JSON text cannot give: the types that only SQL functions make.
func TestJSONTypesOfSQL(t *testing.T) {
	core := func(year, month, day, hour, minute, second, micro uint64) string {
		v := year<<50 | month<<46 | day<<41 | hour<<36 | minute<<30 | second<<24 | micro<<4 | 0xd
		return string(binary.LittleEndian.AppendUint64(nil, v))
	}
	for _, tt := range []struct{ raw, want string }{
		{"\x0e" + core(2024, 1, 2, 0, 0, 0, 0), `"2024-01-02"`},
		{"\x0f" + core(2024, 1, 2, 3, 4, 5, 6), `"2024-01-02 03:04:05.000006"`},
		{"\x10" + core(2024, 1, 2, 3, 4, 5, 0), `"2024-01-02 03:04:05.000000"`},
		{"\x11" + string(binary.LittleEndian.AppendUint64(nil, 3723500000000)) + "\x01\x00\x00\x00", `"01:02:03.500000"`},
		{"\x0d\xfd\x03abc", `"base64:type253:YWJj"`},
		{"\x0d\xfe\x03\x00\x01\xff", `"base64:type254:AAH/"`},
		{"\x0d\x10\x00", `"base64:type16:"`},
	} {
		if err := event.CheckJSON([]byte(tt.raw)); err != nil {
			t.Errorf("%x: %v", tt.raw, err)
			continue
		}
		if got := event.JSONValue([]byte(tt.raw)).Text(jsonColumn); got != tt.want {
			t.Errorf("%x: %s, want %s", tt.raw, got, tt.want)
		}
	}
}

// bomb is a document of n nested arrays, each of which names the next one
// twice: 13+10 bytes a level, but 2^n values.
func bomb(n int) []byte {
	inner := "\x00\x00\x00\x00\x08\x00\x00\x00"
	for range n {
		head := binary.LittleEndian.AppendUint32(nil, 2)
		head = binary.LittleEndian.AppendUint32(head, uint32(18+len(inner)))
		head = append(head, "\x03\x12\x00\x00\x00\x03\x12\x00\x00\x00"...)
		inner = string(head) + inner
	}
	return []byte("\x03" + inner)
}

func TestCheckJSONRefuses(t *testing.T) {
	if err := event.CheckJSON(bomb(0)); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"nothing":                "",
		"unknown type":           "\x02\x00",
		"bytes after the end":    "\x04\x00\x00",
		"literal":                "\x04\x03",
		"short number":           "\x09\x00\x00",
		"not a number":           "\x0b\x00\x00\x00\x00\x00\x00\xf8\x7f",
		"short string":           "\x0c\x05abc",
		"endless length":         "\x0c\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"opaque without type":    "\x0d",
		"month 14":               "\x0e\x00\x00\x00\x00\x00\x80\xa3\x1f",
		"container of no size":   "\x03\x00\x00\x00\x00\x00\x00\x00\x00",
		"member count":           "\x03\xff\xff\xff\x7f\x08\x00\x00\x00",
		"key outside":            "\x01\x01\x00\x00\x00\x13\x00\x00\x00\x13\x00\x00\x00\x05\x00\x04\x00\x00\x00\x00",
		"member in the header":   "\x03\x01\x00\x00\x00\x0d\x00\x00\x00\x03\x00\x00\x00\x00",
		"member outside":         "\x03\x01\x00\x00\x00\x0d\x00\x00\x00\x03\x0d\x00\x00\x00",
		"bad literal in a place": "\x03\x01\x00\x00\x00\x0d\x00\x00\x00\x04\x07\x00\x00\x00",
		"shared bytes":           string(bomb(60)),
		"too deep":               nested(1<<14 + 1),
	} {
		if err := event.CheckJSON([]byte(bad)); err == nil {
			t.Errorf("%s: %.60s accepted", name, hex.EncodeToString([]byte(bad)))
		}
	}
	if err := event.CheckJSON([]byte(nested(1 << 14))); err != nil {
		t.Error(err)
	}
}

// nested is n arrays, one inside the other.
func nested(n int) string {
	out := make([]byte, 0, 1+13*n)
	out = append(out, 3)
	for i := range n {
		members, size := uint32(1), uint32(13*(n-i)-5)
		if i == n-1 {
			members = 0
		}
		out = binary.LittleEndian.AppendUint32(out, members)
		out = binary.LittleEndian.AppendUint32(out, size)
		if members == 1 {
			out = append(out, "\x03\x0d\x00\x00\x00"...)
		}
	}
	return string(out)
}

// recordedJSON is the short documents of a recording's end state.
func recordedJSON(f *testing.F) []string {
	data, err := os.ReadFile("../testdata/golden/05_types_json_vec.expected.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		var l struct{ Row map[string]any }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			f.Fatal(err)
		}
		if text, ok := l.Row["j"].(string); ok && len(text) < 1000 {
			out = append(out, text)
		}
	}
	if len(out) < 10 {
		f.Fatal("no documents")
	}
	return out
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[1,2,{"c":null}],"长":"v","":"empty"}`, `[1,-1,1.0,"x",true,1e100]`, `"str"`} {
		raw, err := event.ParseJSON(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, text := range recordedJSON(f) {
		raw, err := event.ParseJSON(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add(bomb(20))
	f.Add([]byte("\x0d\xfd\x03abc"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if event.CheckJSON(raw) != nil {
			return
		}
		text := event.JSONValue(raw).Text(jsonColumn)
		if len(text) > 32+20*len(raw) {
			t.Fatalf("%d bytes became %d", len(raw), len(text))
		}
		stored, rest, err := event.CutJSON(raw)
		if err != nil || len(rest) > 0 || string(stored) != string(raw) {
			t.Fatalf("checked, but cut to %d with %d left: %v", len(stored), len(rest), err)
		}
	})
}
