package record_test

import (
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/redo/record"
)

func TestExtentsComeBack(t *testing.T) {
	want := []record.Extent{{Writer: "r1", Kind: record.Rows, Files: 7, Max: 1 << 60}, {Writer: "d1", Kind: record.DDLs, Files: 1, Max: 5}}
	text, err := record.EncodeExtents(want...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := record.ParseExtents(text)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "{}", `[{"writer":"r1","files":7}]`, `[{"kind":1,"files":7}]`, `[{"writer":"r1","kind":1,"files":-1}]`, `[{"writer":"r1","kind":1,"span":"later"}]`} {
		if got, err := record.ParseExtents([]byte(bad)); !cdcerr.RedoCorrupted.Is(err) {
			t.Errorf("%q is %v, %v", bad, got, err)
		}
	}
}
