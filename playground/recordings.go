package playground

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/verify"
)

// streamSuffix ends the name of a recording's stream; everything that belongs to
// a recording NAME has a word between.
const streamSuffix = ".jsonl.gz"

// companions are the words between a recording's name and .jsonl.
var companions = []string{".meta", ".ddl", ".history", ".expected", ".store", ".messages"}

// recording is the files of one recording; a file that is not there has no path.
type recording struct {
	name     string
	stream   string
	expected string
	history  string
	ddl      string
}

// findRecordings turns what was given into recordings, directories in the order
// of names. A recording that lacks a file which it cannot be judged without is
// an error now, before anything runs.
func findRecordings(given []string) ([]recording, error) {
	var out []recording
	for _, path := range given {
		info, err := os.Stat(path)
		switch {
		case err != nil && path == defaultRecording:
			return nil, cdcerr.RecordingInvalid.Wrap(err, "the demo's recording lies in Sluice's source tree: run this from there, or give --recording")
		case err != nil:
			return nil, cdcerr.RecordingInvalid.Wrap(err, "--recording %s", path)
		case info.IsDir():
			all, err := recordingsIn(path)
			if err != nil {
				return nil, err
			}
			out = append(out, all...)
		default:
			r, err := recordingOf(path)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}

func recordingsIn(dir string) ([]recording, error) {
	entries, err := os.ReadDir(dir) // in the order of names
	if err != nil {
		return nil, cdcerr.RecordingInvalid.Wrap(err, "--recording %s", dir)
	}
	var out []recording
	var below []string
	for _, e := range entries {
		if e.IsDir() && holdsRecordings(filepath.Join(dir, e.Name())) {
			below = append(below, e.Name())
		}
		if e.IsDir() || !isStream(e.Name()) {
			continue
		}
		r, err := recordingOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	if len(out) == 0 && len(below) > 0 {
		return nil, cdcerr.RecordingInvalid.New("--recording %s: no NAME%s directly in this directory; these in it have some: %s", dir, streamSuffix, few(below))
	}
	if len(out) == 0 {
		return nil, cdcerr.RecordingInvalid.New("--recording %s: no NAME%s in this directory", dir, streamSuffix)
	}
	slices.SortFunc(out, func(a, b recording) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

func holdsRecordings(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() && isStream(e.Name()) })
}

func isStream(file string) bool {
	name, ok := strings.CutSuffix(file, streamSuffix)
	return ok && !slices.ContainsFunc(companions, func(c string) bool { return strings.HasSuffix(name, c) })
}

// companionOf is the name of the recording that a file belongs to.
func companionOf(file string) (string, bool) {
	for _, suffix := range []string{streamSuffix, ".jsonl"} {
		for _, c := range companions {
			if name, ok := strings.CutSuffix(file, c+suffix); ok {
				return name, true
			}
		}
	}
	return "", false
}

func recordingOf(path string) (recording, error) {
	base := filepath.Base(path)
	if name, ok := companionOf(base); ok {
		return recording{}, cdcerr.RecordingInvalid.New("--recording %s: this file goes with a recording, which is given as %s%s", path, name, streamSuffix)
	}
	if !isStream(base) {
		return recording{}, cdcerr.RecordingInvalid.New("--recording %s: a recording is given as NAME%s", path, streamSuffix)
	}
	stem := strings.TrimSuffix(path, streamSuffix)
	r := recording{name: strings.TrimSuffix(base, streamSuffix), stream: path}
	var err error
	if _, err = beside(stem, ".meta", true); err != nil {
		return r, err
	}
	if r.expected, err = beside(stem, ".expected", true); err != nil {
		return r, err
	}
	if r.history, err = beside(stem, ".history", false); err != nil {
		return r, err
	}
	r.ddl, err = beside(stem, ".ddl", false)
	return r, err
}

// beside finds stem.word.jsonl.gz, or the same uncompressed.
func beside(stem, word string, needed bool) (string, error) {
	for _, suffix := range []string{streamSuffix, ".jsonl"} {
		path := stem + word + suffix
		info, err := os.Stat(path)
		switch {
		case err == nil && info.Mode().IsRegular():
			return path, nil
		case err == nil:
			return "", cdcerr.RecordingInvalid.New("recording %s: %s is not a file but a %s; put the file there, or take it away", stem, path, what(info.Mode()))
		case !errors.Is(err, fs.ErrNotExist):
			return "", cdcerr.RecordingInvalid.Wrap(err, "recording %s", stem)
		}
	}
	if needed {
		return "", cdcerr.RecordingInvalid.New("recording %s: %[2]s%[3]s%[4]s is missing, and so is %[2]s%[3]s.jsonl", stem, filepath.Base(stem), word, streamSuffix)
	}
	return "", nil
}

// what is a thing in the file system that is no file.
func what(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// readFile hands the (decompressed) contents of a file to read.
func readFile[T any](ctx context.Context, path string, read func(name string, r io.Reader) (T, error)) (T, error) {
	var none T
	f, err := os.Open(path)
	if err != nil {
		return none, cdcerr.RecordingInvalid.Wrap(err, "recording")
	}
	defer f.Close()
	in := io.Reader(until(ctx, f))
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(in)
		if err != nil {
			return none, cdcerr.RecordingInvalid.Wrap(err, "%s", path)
		}
		in = z
	}
	return read(path, in)
}

// reading is a Reader made of its only method.
type reading func(b []byte) (int, error)

// Read implements io.Reader.
func (r reading) Read(b []byte) (int, error) { return r(b) }

// until breaks off when ctx ends: a large file takes seconds.
func until(ctx context.Context, r io.Reader) io.Reader {
	return reading(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(b)
	})
}

// outcome is what TiDB says the run must lead to.
type outcome struct {
	expected  *verify.Expected
	history   *verify.History // nil: none was recorded
	stream    *verify.Stream
	databases []string // every database that the run may touch
}

func (r recording) outcome(ctx context.Context) (outcome, error) {
	var o outcome
	var err error
	if o.expected, err = readFile(ctx, r.expected, verify.ReadExpected); err != nil {
		return o, err
	}
	if r.history != "" {
		if o.history, err = readFile(ctx, r.history, verify.ReadHistory); err != nil {
			return o, err
		}
	}
	if o.stream, err = readFile(ctx, r.stream, verify.ReadStream); err != nil {
		return o, err
	}
	o.databases = slices.Clone(o.expected.Databases)
	if r.ddl != "" {
		passing, err := readFile(ctx, r.ddl, readDatabases)
		if err != nil {
			return o, err
		}
		o.databases = append(o.databases, passing...)
	}
	slices.Sort(o.databases)
	o.databases = slices.Compact(o.databases)
	return o, nil
}

// namesNoDatabase are the kinds of job whose schema_name is a placement policy's
// or a resource group's.
var namesNoDatabase = []int{51, 52, 53, 68, 69, 70}

// readDatabases lists the databases that DDL jobs name: those that come and go
// in the middle of a recording stand in no end state.
func readDatabases(name string, r io.Reader) ([]string, error) {
	var out []string
	in := json.NewDecoder(r)
	for line := 1; ; line++ {
		var row struct {
			Job *struct {
				Type       int    `json:"type"`
				SchemaName string `json:"schema_name"`
				Binlog     *struct {
					DBInfo *struct {
						Name struct{ O string } `json:"db_name"`
					}
				} `json:"binlog"`
			} `json:"new_job"`
		}
		err := in.Decode(&row)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, cdcerr.RecordingInvalid.Wrap(fmt.Errorf("line %d: %w", line, err), "%s", name)
		}
		if row.Job == nil {
			continue
		}
		if row.Job.SchemaName != "" && !slices.Contains(namesNoDatabase, row.Job.Type) {
			out = append(out, row.Job.SchemaName)
		}
		if b := row.Job.Binlog; b != nil && b.DBInfo != nil && b.DBInfo.Name.O != "" {
			out = append(out, b.DBInfo.Name.O)
		}
	}
}
