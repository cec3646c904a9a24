package objstore

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// A folder that could not be flushed is flushed when the same is tried again, though all
// names are there by then: those of the object, and of the folders above it.
func TestFailedFlushIsDoneAgain(t *testing.T) {
	for failing := range 3 { // the root for a, a for b, b for the object
		bucket, err := Open(t.Context(), "file://"+filepath.Join(t.TempDir(), "d"))
		if err != nil {
			t.Fatal(err)
		}
		b := bucket.(*file)
		calls, flushed := 0, map[string]bool{}
		b.flush = func(f *os.File) error {
			calls++
			if calls == failing+1 {
				return syscall.EIO
			}
			flushed[filepath.Base(f.Name())] = true
			return nil
		}
		if err := PutOnce(t.Context(), b, "a/b/x", []byte("x")); !cdcerr.StorageAPI.Is(err) {
			t.Fatalf("flush %d fails: %v", failing, err)
		}
		if err := PutOnce(t.Context(), b, "a/b/x", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if len(flushed) != 3 {
			t.Errorf("flush %d failed; flushed is %v", failing, flushed)
		}
		b.Close()
	}
}
