package fake_test

import (
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// writeRecording makes a recording of lines, written with ' for ", and returns
// the path of its stream. Keys and values may be given as text in [].
func writeRecording(t *testing.T, meta, stream string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.jsonl.gz")
	writeGzip(t, path, stream)
	writeGzip(t, strings.TrimSuffix(path, ".jsonl.gz")+".meta.jsonl.gz", meta)
	return path
}

func writeGzip(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	z := gzip.NewWriter(f)
	_, err = z.Write([]byte(inQuotes(text)))
	must(t, err)
	must(t, z.Close())
}

// inQuotes turns ' into " and [text] into the hex of text.
func inQuotes(text string) string {
	var out strings.Builder
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		hexing := false
		for _, r := range line {
			switch {
			case r == '[' || r == ']':
				hexing = r == '['
				out.WriteByte('"')
			case hexing:
				const digits = "0123456789abcdef"
				out.WriteByte(digits[r>>4&15])
				out.WriteByte(digits[r&15])
			case r == '\'':
				out.WriteByte('"')
			default:
				out.WriteRune(r)
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

const (
	goodMeta   = `{'snapshot_ts':100,'cluster_id':9}` + "\n" + `{'key':[m1],'value':[v]}`
	goodStream = `{'type':'START','ts':100}` + "\n" + `{'type':'END','ts':900}`
)

func TestRecordingsThatCannotBeRead(t *testing.T) {
	for _, tc := range []struct{ name, meta, stream, want string }{
		{"no header", "", goodStream, "meta.jsonl.gz: empty"},
		{"header without cluster", `{'snapshot_ts':100}`, goodStream, "meta.jsonl.gz line 1: want snapshot_ts and cluster_id"},
		{"bad meta", goodMeta + "\n{", goodStream, "meta.jsonl.gz line 3: "},
		{"no start", goodMeta, `{'type':'END','ts':900}`, "no START line"},
		{"late start", goodMeta, `{'type':'ROLLBACK','key':[k],'start_ts':50}` + "\n" + goodStream, "line 1: ROLLBACK before the START line"},
		{"empty", goodMeta, "", "no START line"},
		{"no end", goodMeta, `{'type':'START','ts':100}`, "no END line"},
		{"snapshot after start", `{'snapshot_ts':101,'cluster_id':9}`, goodStream, "snapshot_ts 101 is not START's ts"},
		{"snapshot before start", `{'snapshot_ts':99,'cluster_id':9}`, goodStream, "snapshot_ts 99 is not START's ts in x.jsonl.gz, 100"},
		{"end before start", goodMeta, `{'type':'START','ts':100}` + "\n" + `{'type':'END','ts':99}`, "out of order"},
		{"end at start", goodMeta, `{'type':'START','ts':100}` + "\n" + `{'type':'END','ts':100}`, "nothing was recorded between them"},
		{"end beyond all time", goodMeta, `{'type':'START','ts':100}` + "\n" + `{'type':'END','ts':18446744073709551615}`, "line 2: END at ts 18446744073709551615, above"},
		{"commit beyond all time", goodMeta, goodStream + "\n" + `{'type':'COMMITTED','op':'PUT','key':[k],'value':[v],'start_ts':200,'commit_ts':18446744073709551614}`,
			"line 3: COMMITTED at ts 18446744073709551614, above"},
		{"an empty value", goodMeta, goodStream + "\n" + `{'type':'COMMITTED','op':'PUT','key':[k],'value':'','start_ts':200,'commit_ts':300}`,
			"line 3: PUT of key 6B of start_ts 200 with a value of 0 bytes"},
		{"not json", goodMeta, goodStream + "\nPREWRITE", "x.jsonl.gz line 3: invalid character"},
		{"not hex", goodMeta, goodStream + "\n" + `{'type':'PREWRITE','key':'zz'}`, "line 3: encoding/hex"},
		{"unknown type", goodMeta, goodStream + "\n" + `{'type':'WARP'}`, `line 3: type "WARP" is not known`},
		{"no key", goodMeta, goodStream + "\n" + `{'type':'COMMIT','op':'PUT','start_ts':200,'commit_ts':300}`, "line 3: COMMIT without a key"},
		{"no start_ts", goodMeta, goodStream + "\n" + `{'type':'PREWRITE','op':'PUT','key':[k]}`, "line 3: PREWRITE without a start_ts"},
		{"bad op", goodMeta, goodStream + "\n" + `{'type':'PREWRITE','op':'LOCK','key':[k],'start_ts':200}`, `line 3: PREWRITE with op "LOCK"`},
		{"commit below start", goodMeta, goodStream + "\n" + `{'type':'COMMIT','op':'PUT','key':[k],'start_ts':200,'commit_ts':200}`, "not above its start_ts"},
		{"two commits", goodMeta, goodStream + "\n" + `{'type':'COMMITTED','op':'PUT','key':[k],'value':[v],'start_ts':200,'commit_ts':300}` +
			"\n" + `{'type':'COMMITTED','op':'PUT','key':[k],'value':[v],'start_ts':200,'commit_ts':301}`, "line 4: COMMITTED at commit_ts 301"},
		{"no value anywhere", goodMeta, goodStream + "\n" + `{'type':'COMMIT','op':'PUT','key':[k],'start_ts':200,'commit_ts':300}`, "line 3: COMMIT of key 6B"},
		{"committed and rolled back", goodMeta, goodStream + "\n" + `{'type':'COMMITTED','op':'PUT','key':[k],'value':[v],'start_ts':200,'commit_ts':300}` +
			"\n" + `{'type':'ROLLBACK','key':[k],'start_ts':200}`, "both committed and rolled back"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := fake.LoadRecording(writeRecording(t, tc.meta, tc.stream))
			if !cdcerr.RecordingInvalid.Is(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// A row may be 120 MB, in hex.
func TestALongLineIsRead(t *testing.T) {
	value := strings.Repeat("61", 33<<20)
	path := writeRecording(t, goodMeta, goodStream+"\n"+`{'type':'COMMITTED','op':'PUT','key':[k],'value':'`+value+`','start_ts':200,'commit_ts':300}`)
	_, err := fake.LoadRecording(path)
	must(t, err)
}

func TestRecordingFilesThatAreNotThere(t *testing.T) {
	load := func(path string) error {
		t.Helper()
		_, err := fake.LoadRecording(path)
		if !cdcerr.RecordingInvalid.Is(err) {
			t.Errorf("%s: %v", path, err)
		}
		return err
	}
	if err := load(filepath.Join(t.TempDir(), "nothing.jsonl.gz")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	path := writeRecording(t, goodMeta, goodStream)
	meta := strings.TrimSuffix(path, ".jsonl.gz") + ".meta.jsonl.gz"
	must(t, os.Remove(meta))
	if err := load(path); !strings.Contains(err.Error(), "x.meta.jsonl.gz") {
		t.Error(err)
	}
	for _, path := range []string{meta, "x.jsonl"} {
		if err := load(path); !strings.Contains(err.Error(), "is named NAME.jsonl.gz") {
			t.Error(err)
		}
	}
	// Not gzip; and gzip that ends too early.
	must(t, os.WriteFile(path, []byte("{}"), 0o600))
	if err := load(path); !strings.Contains(err.Error(), "not a gzip file") {
		t.Error(err)
	}
	whole, err := os.ReadFile(filepath.Join(golden, "08_txn.jsonl.gz"))
	must(t, err)
	must(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	if err := load(path); !strings.Contains(err.Error(), "mid-stream") {
		t.Error(err)
	}
	whole[len(whole)/2] ^= 0xff
	must(t, os.WriteFile(path, whole, 0o600))
	if err := load(path); !strings.Contains(err.Error(), "x.jsonl.gz") {
		t.Error(err)
	}
}

// Lines in the orders that a subscriber may see them in, and what the store
// must have made of them.
func TestPlanUntanglesWhatASubscriberSaw(t *testing.T) {
	rec, err := fake.LoadRecording(writeRecording(t, strings.ReplaceAll(goodMeta, "100", "262144000"), `
		{'type':'START','ts':262144000}
		{'type':'COMMIT','op':'PUT','key':[t-live-first],'value':[a],'start_ts':262144010,'commit_ts':262144020}
		{'type':'PREWRITE','op':'PUT','key':[t-live-first],'value':[a],'start_ts':262144010}
		{'type':'COMMITTED','op':'PUT','key':[t-newest-first],'value':[c],'old':[b],'start_ts':262144030,'commit_ts':262144031}
		{'type':'COMMITTED','op':'PUT','key':[t-newest-first],'value':[b],'old':[a],'start_ts':262144028,'commit_ts':262144029}
		{'type':'PREWRITE','op':'PUT','key':[t-twice],'value':[a],'start_ts':262144040}
		{'type':'PREWRITE','op':'PUT','key':[t-twice],'old':[z],'start_ts':262144040}
		{'type':'COMMIT','op':'PUT','key':[t-twice],'start_ts':262144040,'commit_ts':262144041}
		{'type':'COMMITTED','op':'PUT','key':[t-twice],'value':[a],'start_ts':262144040,'commit_ts':262144041}
		{'type':'COMMIT','op':'PUT','key':[t-scan-told],'start_ts':262144050,'commit_ts':262144051}
		{'type':'COMMITTED','op':'PUT','key':[t-scan-told],'value':[a],'start_ts':262144050,'commit_ts':262144051}
		{'type':'PREWRITE','op':'PUT','key':[t-undone],'value':[n],'old':[o],'start_ts':262144060}
		{'type':'ROLLBACK','key':[t-undone],'start_ts':262144060}
		{'type':'ROLLBACK','key':[t-never],'start_ts':262144061}
		{'type':'PREWRITE','op':'DELETE','key':[t-open],'old':[o],'start_ts':262144062}
		{'type':'COMMITTED','op':'PUT','key':[t-hidden],'value':[a],'start_ts':262144070,'commit_ts':262144071}
		{'type':'COMMITTED','op':'PUT','key':[t-hidden],'value':[c],'old':[b],'start_ts':262144080,'commit_ts':262144081}
		{'type':'COMMITTED','op':'DELETE','key':[m1],'old':[v],'start_ts':262144090,'commit_ts':262144091}
		{'type':'END','ts':524288000}`))
	must(t, err)
	c := run(t, fake.Config{Recording: rec, Hold: true, Calm: true, ResolvedInterval: time.Millisecond})
	cl := newClient(t, c)
	before, err := cl.scan(within(t, guard), rec.StartTS-1)
	must(t, err)
	for k, want := range map[string]string{"m1": "v", "t-newest-first": "a", "t-undone": "o", "t-open": "o"} {
		if before[k] != want {
			t.Errorf("before: %s=%q, want %q", k, before[k], want)
		}
	}
	w := newWatcher(cl, rec.StartTS, rec.EndTS)
	c.Go()
	must(t, w.watch(within(t, guard)))
	after, err := cl.scan(within(t, guard), rec.EndTS)
	must(t, err)
	want := map[string]string{
		"t-live-first": "a", "t-newest-first": "c", "t-twice": "a", "t-scan-told": "a", "t-undone": "o", "t-open": "o", "t-hidden": "c",
	}
	for k, v := range want {
		if after[k] != v {
			t.Errorf("after: %s=%q, want %q", k, after[k], v)
		}
	}
	if len(after) != len(want) {
		t.Errorf("after: %q", after)
	}
	if got := w.rows[changeKey{"t-hidden", 262144080, 262144081}].old; got != "b" {
		t.Errorf("the old value that only a reorganisation wrote: %q", got)
	}
	if got := w.rows[changeKey{"t-newest-first", 262144030, 262144031}].old; got != "b" {
		t.Errorf("old value of what a scan told first: %q", got)
	}
	if len(w.rows) != 8 {
		t.Errorf("%d changes: %v", len(w.rows), w.rows)
	}
}
