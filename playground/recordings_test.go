package playground

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/verify"
)

func TestOptions(t *testing.T) {
	for args, want := range map[string]Options{
		"":                                   {Recordings: []string{defaultRecording}, Speed: 1},
		"--verify":                           {Recordings: []string{defaultRecording}, Verify: true},
		"--verify --speed 2.5":               {Recordings: []string{defaultRecording}, Verify: true, Speed: 2.5},
		"--speed 0 --mysql-port 4001":        {Recordings: []string{defaultRecording}, Port: 4001},
		"--recording a --recording b":        {Recordings: []string{"a", "b"}, Speed: 1},
		"-sink-uri blackhole:// -recording=": {Recordings: []string{""}, SinkURI: "blackhole://", Speed: 1},
	} {
		o, err := ParseOptions(strings.Fields(args), io.Discard)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if strings.Join(o.Recordings, " ") != strings.Join(want.Recordings, " ") ||
			o.SinkURI != want.SinkURI || o.Verify != want.Verify || o.Speed != want.Speed || o.Port != want.Port {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// Every flag that cannot be used is named on stderr.
func TestOptionsThatCannotBeUsed(t *testing.T) {
	for args, word := range map[string]string{
		"--speed fast":                 "--speed fast",
		"--speed -1":                   "--speed -1",
		"--speed NaN":                  "--speed NaN",
		"--speed 1e-9":                 "a factor from 0.001 to 1e+06",
		"--speed 2e6":                  "--speed 2e6",
		"--mysql-port 70000":           "--mysql-port 70000",
		"--mysql-port 1 --sink-uri x:": "--mysql-port",
		"--nope":                       "there is no flag --nope; --help",
		"-verfy":                       "there is no flag --verfy, did you mean --verify?",
		"--workload bank --rate 0":     "--rate 0: want at least 1",
		"--workload bank --rate -3":    "--rate -3: want at least 1",
		"--workload bank --rate x":     "flag -rate",
		"--workload bank --duration 0": "--duration 0s: want a time",
		"--sink-uri=":                  "--sink-uri is empty",
		"testdata/golden":              "--recording",
	} {
		var stderr bytes.Buffer
		if _, err := ParseOptions(strings.Fields(args), &stderr); err == nil || !strings.Contains(stderr.String(), word) || strings.Count(stderr.String(), "\n") > 3 {
			t.Errorf("%s: %v, stderr %q", args, err, stderr.String())
		}
	}
	var stderr bytes.Buffer
	if _, err := ParseOptions([]string{"-h"}, &stderr); !errors.Is(err, flag.ErrHelp) || !strings.Contains(stderr.String(), "Exit status") {
		t.Error("no help:", stderr.String())
	}
}

// write makes an empty file, or a gzipped one with text.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if strings.HasSuffix(path, ".gz") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		text = b.String()
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestADirectoryStandsForItsRecordings(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"b.jsonl.gz", "b.meta.jsonl.gz", "b.expected.jsonl", "b.history.jsonl.gz", "b.ddl.jsonl.gz", "b.store.jsonl.gz",
		"a.v2.jsonl.gz", "a.v2.meta.jsonl.gz", "a.v2.expected.jsonl.gz",
		"open.messages.jsonl.gz", "README.md", "b.sql",
	} {
		writeFile(t, filepath.Join(dir, name), "")
	}
	if err := os.Mkdir(filepath.Join(dir, "below.jsonl.gz"), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := findRecordings([]string{dir, filepath.Join(dir, "b.jsonl.gz")})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range all {
		names = append(names, r.name)
	}
	if strings.Join(names, " ") != "a.v2 b b" {
		t.Fatal(names)
	}
	if all[0].history != "" || all[1].history == "" || all[1].ddl == "" || !strings.HasSuffix(all[0].expected, ".gz") {
		t.Fatalf("%+v", all)
	}
}

// What is missing is named before anything runs.
func TestAMissingFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	refuse := func(path, word string) {
		t.Helper()
		if _, err := findRecordings([]string{path}); !cdcerr.RecordingInvalid.Is(err) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", path, err)
		}
	}
	refuse(filepath.Join(dir, "none.jsonl.gz"), "none.jsonl.gz")
	refuse(dir, "no NAME.jsonl.gz")
	a := filepath.Join(dir, "a.jsonl.gz")
	writeFile(t, a, "")
	refuse(dir, "a.meta.jsonl.gz is missing")
	writeFile(t, filepath.Join(dir, "a.meta.jsonl.gz"), "")
	refuse(a, "a.expected.jsonl.gz is missing")
	refuse(a, "a.expected.jsonl")
	refuse(filepath.Join(dir, "a.meta.jsonl.gz"), "given as a.jsonl.gz")
	writeFile(t, filepath.Join(dir, "a.expected.jsonl"), "")
	refuse(filepath.Join(dir, "a.expected.jsonl"), "given as a.jsonl.gz")
	writeFile(t, filepath.Join(dir, "README"), "")
	refuse(filepath.Join(dir, "README"), "given as NAME.jsonl.gz")
	history := filepath.Join(dir, "a.history.jsonl.gz")
	if err := os.Mkdir(history, 0o700); err != nil {
		t.Fatal(err)
	}
	refuse(a, "a.history.jsonl.gz is not a file but a directory")
	if err := os.Remove(history); err != nil {
		t.Fatal(err)
	}
	above := t.TempDir()
	if err := os.Rename(dir, filepath.Join(above, "inner")); err != nil {
		t.Fatal(err)
	}
	refuse(above, "these in it have some: inner")
	refuse(defaultRecording, "source tree") // the tests run below it
}

func TestABadFileIsNamedWithItsLine(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.jsonl.gz": "", "a.meta.jsonl.gz": "", "a.expected.jsonl": `{"kind":"header","end_ts":1}` + "\n{", "b.ddl.jsonl.gz": "{}\n{\"new_job\":7}",
		"b.jsonl.gz": "", "b.meta.jsonl.gz": "", "b.expected.jsonl": `{"kind":"header","end_ts":1}`,
		"c.jsonl.gz": "", "c.meta.jsonl.gz": "", "c.expected.jsonl": `{"kind":"header","end_ts":1}`, "c.history.jsonl.gz": "{\"kind\":\"x\"}",
	} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	all, err := findRecordings([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	for i, word := range []string{"a.expected.jsonl line 2", "line 2", "c.history.jsonl.gz line 1"} {
		if _, err := all[i].outcome(t.Context()); !cdcerr.RecordingInvalid.Is(err) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", all[i].name, err)
		}
	}
	var at *verify.LineError
	if _, err := all[0].outcome(t.Context()); !errors.As(err, &at) || at.Line != 2 {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c.history.jsonl.gz"), []byte("not gzip"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := all[2].outcome(t.Context()); !cdcerr.RecordingInvalid.Is(err) {
		t.Error(err)
	}
}

// Databases that come and go in the middle are known beforehand.
func TestPassingDatabasesAreFound(t *testing.T) {
	r, err := recordingOf("../testdata/golden/12_ddl_table.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.outcome(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.databases, ","); got != "db1,db2,test,we`ird-db 中" {
		t.Fatal(got)
	}
}
