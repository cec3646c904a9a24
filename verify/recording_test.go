package verify_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/verify"
)

func TestCells(t *testing.T) {
	e := expected(t, tableT,
		`{"kind":"row","db":"db","table":"t","row":{"a":"x","b":{"hex":"00ff"},"c":null}}`)
	row := e.Tables[0].Rows[0]
	if row[0] != verify.Text("x") || row[1] != verify.Hex([]byte{0, 255}) || row[2] != (verify.Cell{}) {
		t.Fatal(row)
	}
	if verify.Text("x") == verify.Hex([]byte("x")) || verify.Text("") == (verify.Cell{}) {
		t.Fatal("cells of different forms are the same")
	}
}

func TestALongCellIsCutForMessages(t *testing.T) {
	s := verify.Text(strings.Repeat("é", 500)).String()
	if len(s) > 200 || !strings.Contains(s, "(1000 bytes)") {
		t.Fatal(s)
	}
}

func TestSnapshotsAreInOrderOfTime(t *testing.T) {
	e := expected(t,
		`{"kind":"invariant","text":"x"}`,
		`{"kind":"snapshot","ts":20,"db":"db","table":"t","columns":["id"],"rows":[["1"]]}`,
		`{"kind":"snapshot","ts":10,"db":"db","table":"t","table_id":7,"columns":["id","v"],"rows":[["1",null],["2","x"]]}`,
		tableT)
	if len(e.Snapshots) != 2 || e.Snapshots[0].TS != 10 || len(e.Snapshots[0].Rows) != 2 || e.EndTS != 900 {
		t.Fatalf("%+v", e)
	}
}

// Every bad line is named.
func TestABadLineIsNamed(t *testing.T) {
	header := `{"kind":"header","end_ts":9}` + "\n"
	for text, line := range map[string]int{
		header + `{"kind":"row","db":"db","table":"t","row":{"a":"1"}}`:                      2,
		header + tableT + "\n" + `{"kind":"row","db":"db","table":"t","row":{"a":1}}`:        3,
		header + tableT + "\n" + `{"kind":"row","db":"db","table":"t","row":{"a":{"h":""}}}`: 3,
		header + tableT + "\n" + rowOne + "\n" +
			`{"kind":"row","db":"db","table":"t","row":{"id":"1"}}`: 4,
		header + tableT + "\n" + rowOne + "\n" +
			`{"kind":"row","db":"db","table":"t","row":{"id":"1","w":"2"}}`: 4,
		header + `{"kind":"snapshot","ts":1,"db":"db","table":"t","columns":["a","b"],"rows":[["1"]]}`: 2,
		header + "{":               2,
		header + `{"kind":"rows"}`: 2,
		`{"kind":"header"}`:        1,
	} {
		_, err := verify.ReadExpected("x.expected.jsonl", strings.NewReader(text))
		var at *verify.LineError
		if !errors.As(err, &at) || at.Line != line || !cdcerr.RecordingInvalid.Is(err) {
			t.Errorf("%s\nwant line %d, got %v", text, line, err)
		}
	}
	if _, err := verify.ReadExpected("x", strings.NewReader(tableT)); !cdcerr.RecordingInvalid.Is(err) {
		t.Error("a file without a header was taken:", err)
	}
	for text, line := range map[string]int{
		rowOne: 1,
		`{"kind":"snapshot","commit_ts":1,"known":true}`:                                             1,
		`{"kind":"snapshot","commit_ts":1,"physical_id":2,"known":false,"db":"db"}` + "\n" + rowOne:  2,
		`{"kind":"snapshot","commit_ts":1,"physical_id":2,"known":true,"db":"db2"}` + "\n" + rowOne:  2,
		`{"kind":"snapshot","commit_ts":1,"physical_id":2,"known":false}` + "\n" + `{"kind":"what"}`: 2,
	} {
		_, err := verify.ReadHistory("x.history.jsonl", strings.NewReader(text))
		var at *verify.LineError
		if !errors.As(err, &at) || at.Line != line {
			t.Errorf("%s\nwant line %d, got %v", text, line, err)
		}
	}
}

func TestABrokenReaderIsNamed(t *testing.T) {
	_, err := verify.ReadHistory("x.history.jsonl", &cutOff{text: "{\"kind\":\"snap"})
	var at *verify.LineError
	if !errors.As(err, &at) || !strings.Contains(err.Error(), "x.history.jsonl line 1: cut off") {
		t.Fatal(err)
	}
}

// cutOff breaks after its text, as a truncated compressed file does.
type cutOff struct{ text string }

func (c *cutOff) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, errors.New("cut off")
	}
	n := copy(p, c.text)
	c.text = c.text[n:]
	return n, nil
}
