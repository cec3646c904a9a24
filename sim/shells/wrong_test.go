package shells_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var mutants = flag.String("mutants", "", "which wrong lines are seen to be caught: all, or those whose name has this word; none in make test, all in make sim")

// wrong are lines of the shells that somebody could write and believe in.
var wrong = []struct{ name, file, right, wrong string }{
	{"a span is in the log before the log's reader has it", "pipeline/logfeed.go", "		if durable > z.joined {\n", "		if durable >= z.base {\n"},
	{"a span is written that the log is not told of", "agent/writing.go", "		l.logFrom(x.Span, x.From) // first: rows wait for it\n", ""},
}

// TestMutants runs seeds over each wrong line, and sees that one of them fails.
func TestMutants(t *testing.T) {
	for _, m := range wrong {
		if *mutants != "all" && (*mutants == "" || !strings.Contains(m.name, *mutants)) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			file, err := filepath.Abs(filepath.Join("..", "..", m.file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte(m.right)); n != 1 {
				t.Fatalf("%q stands %d times in %s", m.right, n, m.file)
			}
			out, err := exec.Command(mutated(t, file, bytes.Replace(text, []byte(m.right), []byte(m.wrong), 1)),
				"-test.run", "^TestSchedules$", "-test.timeout", "10m").CombinedOutput()
			if err == nil {
				t.Fatalf("%d seeds do not notice it", *runs)
			}
			line, _, _ := strings.Cut(string(out[max(0, bytes.Index(out, []byte("seed "))):]), "\n")
			t.Log("caught: ", line)
		})
	}
}

// mutated builds this package's tests with another text for a file.
func mutated(t *testing.T, file string, text []byte) (binary string) {
	dir := t.TempDir()
	other, list, binary := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "shells.test")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: other}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{other: text, list: overlay} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", list, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("does not build: %v\n%s", err, out)
	}
	return binary
}
