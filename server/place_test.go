package server

import (
	"os"
	"path/filepath"
	"testing"
)

// A copy of a data directory does not end the session of the server that it was
// copied from.
func TestASessionIsOfItsDirectory(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "session")
	if token, ok := earlierSession(file, dir); ok {
		t.Errorf("of nothing: %q", token)
	}
	if err := noteSession(file, dir, "cluster 00ff"); err != nil {
		t.Fatal(err)
	}
	// A system that does not tell its starts apart has no session of its own.
	if token, ok := earlierSession(file, dir); ok != (place(dir) != "") || token != "cluster 00ff" {
		t.Errorf("its own: %q, %v", token, ok)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(copied, "session")
	for name, b := range map[string][]byte{"copied": text, "of an older release": []byte("cluster 00ff\n")} {
		if err := os.WriteFile(other, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if token, ok := earlierSession(other, copied); ok {
			t.Errorf("%s: %q", name, token)
		}
	}
}
