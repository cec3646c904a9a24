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
	{"a DDL counts that is not in the log", "coordinator/owner/redo.go", "l.redo.DDLs(ctx, s.log...)", "l.redo.DDLs(ctx)"},
	{"the log's meta does not count on the DDLs' files", "redo/lead.go", "	if l.extent.Files > 0 {\n", "	if false {\n"},
	{"the gate opens before the meta is on the storage", "redo/meta.go", "	next.Claim = false\n	if err", "	next.Claim = false\n	m.gate.Open(next.Resolved)\n	if err"},
	{"a file goes that begins below the checkpoint", "redo/collect.go", "if f.Max > checkpoint {", "if f.Min > checkpoint {"},
	{"a file that could not be put is taken for there", "redo/writer.go", "		if err := put(ctx, &w.cfg, w.bucket, w.id, name, data); err != nil {\n			return err\n		}\n		w.mu.Lock()", "		_ = w.bucket.PutNew(ctx, w.id.dir()+name.String(), data)\n		w.mu.Lock()"},
	{"a DDL that failed is taken for done", "coordinator/owner/errand.go", "			return fmt.Errorf(\"DDL job %d at %d: %w\", e.ddl.Job, e.ddl.TS, err)\n", "			_ = fmt.Errorf(\"DDL job %d at %d: %w\", e.ddl.Job, e.ddl.TS, err)\n"},
	{"a sync point that failed is taken for noted", "coordinator/owner/errand.go", "		return fmt.Errorf(\"sync point at %d: %w\", ts, err)\n", "		_ = fmt.Errorf(\"sync point at %d: %w\", ts, err)\n"},
	{"a fence that failed is taken for raised", "coordinator/owner/loop.go", "		return fmt.Errorf(\"fencing off capture %s: %w\", f.Capture, err)\n", "		_ = fmt.Errorf(\"fencing off capture %s: %w\", f.Capture, err)\n"},
	{"the next run of a reign begins with its first term", "coordinator/owner/begin.go", "Resume{Watermark: l.cfg.Watermark, Term: l.cfg.Term}", "Resume{Watermark: l.cfg.Watermark}"},
	{"who is not in etcd any more is not fenced off", "coordinator/owner/begin.go", "!slices.Contains(r.Writers, id) {", "!slices.Contains(r.Writers, id) && false {"},
	{"a DDL without a record is begun before the checkpoint below it is durable", "coordinator/owner/errand.go", "			e.after = d.TS.Prev()\n", ""},
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
