package fake

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// The short cut reads every line of a recording as encoding/json does, and
// leaves to it what it is not sure of.
func TestPlainLinesAreReadAsJSON(t *testing.T) {
	plain := 0
	for _, name := range []string{"08_txn", "10_large", "15_split_regions", "workloads/onlinemodify"} {
		err := eachLine(t.Context(), filepath.FromSlash("../../testdata/golden/"+name+".jsonl.gz"), func(n int, text []byte) error {
			var want, got line
			if err := json.Unmarshal(text, &want); err != nil {
				return err
			}
			if got.plain(text) {
				plain++
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s line %d: got %+v, want %+v", name, n, got, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if plain < 25000 {
		t.Errorf("only %d lines took the short cut", plain)
	}
}

func TestLinesThatAreNotPlain(t *testing.T) {
	pieces := rapid.SampledFrom([]string{
		"{", "}", ",", ":", " ", `"`, `\`, "[", "]", "0", "7", "-1", "1.5", "true", "null", "18446744073709551616", "012",
		`"type"`, `"key"`, `"value"`, `"start_ts"`, `"ts"`, `"sql"`, `"x"`, `"00ff"`, `"0"`, `"zz"`, `"COMMIT"`, `"\u0041"`, `"a\"b"`,
	})
	rapid.Check(t, func(t *rapid.T) {
		text := "{"
		for _, p := range rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces") {
			text += p
		}
		var got, want line
		if !got.plain([]byte(text)) {
			return
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %+v, want %+v, %v", text, got, want, err)
		}
	})
}
