package objstore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
)

// Who reads makes nothing: not the directory of a misspelt URI, no folder of its own in
// one that is there, and writes and removes nothing.
func TestAReaderMakesNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := objstore.OpenReader(t.Context(), "file://"+filepath.Join(dir, "typo")); !cdcerr.StorageGone.Is(err) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := objstore.OpenReader(t.Context(), "file://"+filepath.Join(dir, "x")); !cdcerr.StorageURIInvalid.Is(err) {
		t.Errorf("a file: %v", err)
	}
	b, err := objstore.OpenReader(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got, err := b.Get(t.Context(), "x", 0, objstore.ToEnd); err != nil || string(got) != "1" {
		t.Errorf("%q, %v", got, err)
	}
	for what, err := range map[string]error{
		"put": b.Put(t.Context(), "y", nil), "put if absent": b.PutNew(t.Context(), "y", nil), "removed": b.Delete(t.Context(), "x"),
	} {
		if err == nil {
			t.Errorf("%s by a reader", what)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "x" {
		t.Errorf("%v, %v", left, err)
	}
}
