package mount_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// jobLine is one line of NAME.ddl.jsonl.gz.
type jobLine struct {
	Table    string
	Op       string
	JobID    int64           `json:"job_id"`
	CommitTS tso.TS          `json:"commit_ts"`
	NewJob   json.RawMessage `json:"new_job"`
	OldJob   json.RawMessage `json:"old_job"`
}

// streamLine is one line of NAME.jsonl.gz.
type streamLine struct {
	Type, Op, Key, Value, Old string
	StartTS                   tso.TS `json:"start_ts"`
	CommitTS                  tso.TS `json:"commit_ts"`
}

func gunzip(t *testing.T, path string, fn func(line []byte)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<28)
	for lines.Scan() {
		fn(lines.Bytes())
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
}

// eachChange goes through the committed changes of a recording.
func eachChange(t *testing.T, path string, fn func(*event.RawKV)) {
	t.Helper()
	prewrites := map[string]streamLine{}
	gunzip(t, path+".jsonl.gz", func(line []byte) {
		var l streamLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint(l.Key, l.StartTS)
		switch l.Type {
		case "PREWRITE":
			prewrites[key] = l
			return
		case "COMMIT":
			commit := l.CommitTS
			l = prewrites[key]
			l.CommitTS = commit
		case "COMMITTED":
		default:
			return
		}
		raw := &event.RawKV{Op: event.Put, StartTS: l.StartTS, CommitTS: l.CommitTS, Key: unhex(t, l.Key), Value: unhex(t, l.Value), Old: unhex(t, l.Old)}
		if l.Op == "DELETE" {
			raw.Op = event.Delete
		}
		fn(raw)
	})
}

// Every recorded job row is read as the recorder read it.
func TestJobRowsOfRecordings(t *testing.T) {
	for _, name := range []string{"11_partition", "12_ddl_table", "13_ddl_column", "18_batch_create"} {
		path := "../testdata/golden/" + name
		type id struct {
			commit  tso.TS
			job     int64
			history bool
		}
		want := map[id]jobLine{}
		gunzip(t, path+".ddl.jsonl.gz", func(line []byte) {
			var l jobLine
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatal(err)
			}
			want[id{l.CommitTS, l.JobID, l.Table == "tidb_ddl_history"}] = l
		})
		read := 0
		eachChange(t, path, func(raw *event.RawKV) {
			row, ok, err := mount.JobRow(raw)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !ok {
				return
			}
			read++
			recorded, known := want[id{raw.CommitTS, row.Job.ID, row.History}]
			if !known || row.Delete != (recorded.Op == "DELETE") {
				t.Fatalf("%s: job %d at %d: %+v", name, row.Job.ID, raw.CommitTS, recorded)
			}
			meta := recorded.NewJob
			if row.Delete {
				if meta = recorded.OldJob; len(meta) == 0 {
					return
				}
			}
			job, err := schema.ParseJob(meta)
			if err != nil {
				t.Fatal(err)
			}
			if job.RawArgs, row.Job.RawArgs = nil, nil; !reflect.DeepEqual(withoutRaw(job), withoutRaw(row.Job)) {
				t.Errorf("%s: job %d at %d differs", name, job.ID, raw.CommitTS)
			}
		})
		if read < len(want) {
			t.Errorf("%s: %d job rows of %d", name, read, len(want))
		}
	}
}

// withoutRaw drops the arguments, which the recorder wrote with other blanks.
func withoutRaw(j *schema.Job) *schema.Job {
	if j.Multi != nil {
		for _, sub := range j.Multi.SubJobs {
			sub.RawArgs = nil
		}
	}
	return j
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// oldRow writes pairs of id and string, with an integer, a time and a NULL
// before them.
func oldRow(column int64, cell []byte) []byte {
	b := []byte{0x08, 0x02, 0x08, 0x54}                     // column 1: 42
	b = append(b, 0x08, 0x0e, 0x09, 0x80, 0x80, 0x04)       // column 7: a time
	b = append(b, 0x08, 0x0c, 0x00)                         // column 6: NULL
	b = append(b, 0x08, 0x06, 0x05, 1, 2, 3, 4, 5, 6, 7, 8) // column 3: a float
	b = binary.AppendVarint(append(b, 0x08), column)
	b = binary.AppendVarint(append(b, 0x02), int64(len(cell)))
	return append(b, cell...)
}

// newRow writes two values, at id 1 and at column, and a NULL at id 6.
func newRow(large bool, column byte, cell []byte) []byte {
	if !large {
		b := []byte{0x80, 0, 2, 0, 1, 0, 1, column, 6}
		b = binary.LittleEndian.AppendUint16(b, 1)
		b = binary.LittleEndian.AppendUint16(b, uint16(1+len(cell)))
		return append(append(b, 42), cell...)
	}
	b := []byte{0x80, 1, 2, 0, 1, 0}
	for _, id := range []uint32{1, uint32(column), 6} {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = binary.LittleEndian.AppendUint32(b, uint32(1+len(cell)))
	return append(append(b, 42), cell...)
}

func jobKey(table, job int64) []byte { return span.AppendInt(span.RecordPrefix(table), job) }

func TestJobRowFormats(t *testing.T) {
	meta := []byte(`{"id":7,"type":3,"state":4}`)
	for name, row := range map[string][]byte{
		"old": oldRow(5, meta), "new": newRow(false, 5, meta), "new large": newRow(true, 5, meta),
	} {
		got, ok, err := mount.JobRow(&event.RawKV{Op: event.Put, StartTS: 1, CommitTS: 2, Key: jobKey(mount.JobTableID, 7), Value: row})
		if err != nil || !ok || got.Job.ID != 7 || got.Job.Type != 3 || got.History || got.Delete || got.StartTS != 1 || got.CommitTS != 2 {
			t.Errorf("%s: %+v %v %v", name, got, ok, err)
		}
		// Every shorter row is refused, and none panics.
		for n := range len(row) {
			if _, _, err := mount.JobRow(&event.RawKV{Op: event.Put, Key: jobKey(mount.JobTableID, 7), Value: row[:n]}); !cdcerr.InvalidDDLJob.Is(err) {
				t.Errorf("%s: %d of %d bytes: %v", name, n, len(row), err)
			}
		}
	}
}

func TestJobRowOfHistoryAndDelete(t *testing.T) {
	meta := []byte(`{"id":7,"type":3,"state":6}`)
	got, ok, err := mount.JobRow(&event.RawKV{Op: event.Put, Key: jobKey(mount.HistoryTableID, 7), Value: oldRow(2, meta)})
	if err != nil || !ok || !got.History || got.Job.State != schema.StateSynced {
		t.Errorf("history: %+v %v %v", got, ok, err)
	}
	got, ok, err = mount.JobRow(&event.RawKV{Op: event.Delete, Key: jobKey(mount.JobTableID, 7)})
	if err != nil || !ok || !got.Delete || got.Job.ID != 7 {
		t.Errorf("delete without an old value: %+v %v %v", got, ok, err)
	}
	got, ok, err = mount.JobRow(&event.RawKV{Op: event.Delete, Key: jobKey(mount.JobTableID, 7), Old: oldRow(5, meta)})
	if err != nil || !ok || !got.Delete || got.Job.Type != 3 {
		t.Errorf("delete: %+v %v %v", got, ok, err)
	}
	if _, _, err = mount.JobRow(&event.RawKV{Op: event.Put, Key: jobKey(mount.JobTableID, 8), Value: oldRow(5, meta)}); !cdcerr.InvalidDDLJob.Is(err) {
		t.Errorf("the job of another key: %v", err)
	}
	if _, _, err = mount.JobRow(&event.RawKV{Op: event.Put, Key: jobKey(mount.JobTableID, 7), Value: oldRow(5, []byte("{"))}); !cdcerr.InvalidDDLJob.Is(err) || !strings.Contains(err.Error(), "job 7") {
		t.Errorf("no JSON: %v", err)
	}
	index := append(span.AppendInt([]byte{'t'}, mount.JobTableID), "_i\x80\x00\x00\x00\x00\x00\x00\x01"...)
	for _, key := range [][]byte{nil, {'m'}, index, jobKey(112, 7), bytes.Repeat([]byte{'t'}, 19)} {
		if _, ok, err := mount.JobRow(&event.RawKV{Op: event.Put, Key: key}); ok || err != nil {
			t.Errorf("key %x: %v %v", key, ok, err)
		}
	}
}

func TestFindJobColumns(t *testing.T) {
	if got, err := mount.FindJobColumns(nil, nil); err != nil || got != (mount.JobColumns{Job: 5, History: 2}) {
		t.Error(got, err)
	}
	job := &event.Table{Columns: []event.Column{{ID: 1, Name: "job_id"}, {ID: 9, Name: "Job_Meta"}}}
	columns, err := mount.FindJobColumns(job, nil)
	if err != nil || columns.Job != 9 || columns.History != 2 {
		t.Fatal(columns, err)
	}
	got, ok, err := columns.JobRow(&event.RawKV{Op: event.Put, Key: jobKey(mount.JobTableID, 7), Value: oldRow(9, []byte(`{"id":7}`))})
	if err != nil || !ok || got.Job.ID != 7 {
		t.Error(got, ok, err)
	}
	if _, err := mount.FindJobColumns(&event.Table{}, nil); !cdcerr.SchemaSnapshot.Is(err) {
		t.Error(err)
	}
}
