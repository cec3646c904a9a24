package fake

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// KV is one raw key and its value.
type KV struct {
	Key   []byte
	Value []byte
}

// Recording is a change stream that was recorded from a real TiDB, ready to be
// replayed: what the store held before, and what happened to it since.
type Recording struct {
	Name      string // file name without .jsonl.gz
	ClusterID uint64
	StartTS   tso.TS // the stream holds every commit above it
	EndTS     tso.TS // … and at or below this

	snapshot []KV // the m keys at StartTS
	plan     plan
}

// suffix of the stream's file; metaSuffix of the snapshot's beside it.
const (
	suffix     = ".jsonl.gz"
	metaSuffix = ".meta.jsonl.gz"
)

// longestLine bounds what a line of a recording may take in memory. The largest
// row that TiDB can be set to take is 120 MB (txn-entry-size-limit); in hex, with
// as large an old value, that is 480 MB.
const longestLine = 512 << 20

// latest is the highest ts that a recording may speak of. After the last step the
// cluster's clock goes on from there, and needs room; no cluster will hand out what
// lies above in the next two thousand years.
const latest = tso.Max - tso.TS(24*time.Hour/time.Millisecond)<<18

// hexBytes is a byte string that JSON holds in hex.
type hexBytes []byte

// UnmarshalJSON accepts a JSON string of hex digits.
func (h *hexBytes) UnmarshalJSON(b []byte) error {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return fmt.Errorf("want a string of hex digits, got %.40s", b)
	}
	b = b[1 : len(b)-1]
	out := make([]byte, hex.DecodedLen(len(b)))
	if _, err := hex.Decode(out, b); err != nil {
		return err
	}
	*h = out
	return nil
}

// line is one line of a stream.
type line struct {
	Type       string   `json:"type"`
	Op         string   `json:"op"`
	Key        hexBytes `json:"key"`
	Value      hexBytes `json:"value"`
	Old        hexBytes `json:"old"`
	StartTS    tso.TS   `json:"start_ts"`
	CommitTS   tso.TS   `json:"commit_ts"`
	TxnSource  uint64   `json:"txn_source"`
	Generation uint64   `json:"generation"`
	TS         tso.TS   `json:"ts"`
}

// LoadRecording reads NAME.jsonl.gz at path and NAME.meta.jsonl.gz beside it.
// The error of anything that is wrong with them is a cdcerr.RecordingInvalid
// and names the file and the line.
func LoadRecording(path string) (*Recording, error) {
	return ReadRecording(context.Background(), path)
}

// ReadRecording is LoadRecording that stops when ctx ends: a large recording
// takes seconds.
func ReadRecording(ctx context.Context, path string) (*Recording, error) {
	name, ok := strings.CutSuffix(filepath.Base(path), suffix)
	if !ok || strings.HasSuffix(path, metaSuffix) {
		return nil, cdcerr.RecordingInvalid.New("%s: the stream of a recording is named NAME%s", path, suffix)
	}
	rec := &Recording{Name: name}
	metaPath := strings.TrimSuffix(path, suffix) + metaSuffix
	var snapshotTS tso.TS
	// The stream first: a path that is mistyped should be the one that is named.
	b := &planner{writes: map[txnKey]*write{}}
	if err := eachLine(ctx, path, func(n int, text []byte) error { return rec.readLine(b, n, text) }); err != nil {
		return nil, err
	}
	err := eachLine(ctx, metaPath, func(n int, text []byte) error {
		if n == 1 {
			return rec.readHeader(text, &snapshotTS)
		}
		return rec.readKey(text)
	})
	if err != nil {
		return nil, err
	}
	switch {
	case snapshotTS == 0:
		return nil, cdcerr.RecordingInvalid.New("%s: empty, want the cluster id and snapshot_ts in its first line", metaPath)
	case rec.StartTS == 0:
		return nil, cdcerr.RecordingInvalid.New("%s: no START line", path)
	case rec.EndTS == 0:
		return nil, cdcerr.RecordingInvalid.New("%s: no END line: the recording was cut short", path)
	case rec.EndTS == rec.StartTS:
		return nil, cdcerr.RecordingInvalid.New("%s: START and END are both %d: nothing was recorded between them; END must be later", path, rec.EndTS)
	case rec.EndTS < rec.StartTS:
		return nil, cdcerr.RecordingInvalid.New("%s: START %d and END %d are out of order", path, rec.StartTS, rec.EndTS)
	case snapshotTS != rec.StartTS:
		return nil, cdcerr.RecordingInvalid.New("%s: snapshot_ts %d is not START's ts in %s, %d: what happened to the schema between them is on no record; take the snapshot at START",
			metaPath, snapshotTS, filepath.Base(path), rec.StartTS)
	}
	if rec.plan, err = b.build(ctx, rec); err != nil {
		return nil, cdcerr.RecordingInvalid.Wrap(err, "%s", path)
	}
	return rec, nil
}

func (rec *Recording) readHeader(text []byte, snapshotTS *tso.TS) error {
	var h struct {
		SnapshotTS tso.TS `json:"snapshot_ts"`
		ClusterID  uint64 `json:"cluster_id"`
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return err
	}
	if h.SnapshotTS == 0 || h.ClusterID == 0 {
		return errors.New("want snapshot_ts and cluster_id, neither of them 0")
	}
	rec.ClusterID, *snapshotTS = h.ClusterID, h.SnapshotTS
	return nil
}

func (rec *Recording) readKey(text []byte) error {
	var kv struct {
		Key   hexBytes `json:"key"`
		Value hexBytes `json:"value"`
	}
	if err := json.Unmarshal(text, &kv); err != nil {
		return err
	}
	if len(kv.Key) == 0 {
		return errors.New("no key")
	}
	rec.snapshot = append(rec.snapshot, KV{kv.Key, kv.Value})
	return nil
}

// readLine takes line n of the stream.
func (rec *Recording) readLine(b *planner, n int, text []byte) error {
	var l line
	if err := l.parse(text); err != nil {
		return err
	}
	if newest := max(l.TS, l.StartTS, l.CommitTS); newest > latest {
		return fmt.Errorf("%s at ts %d, above %d, the latest that can be replayed (%s)", l.Type, newest, latest, latest.Time().Format(time.DateOnly))
	}
	switch l.Type {
	case "START":
		if rec.StartTS != 0 || l.TS == 0 {
			return errors.New("want one START line with a ts")
		}
		rec.StartTS = l.TS
	case "END":
		if rec.EndTS != 0 || l.TS == 0 {
			return errors.New("want one END line with a ts")
		}
		rec.EndTS = l.TS
	case "PREWRITE", "COMMIT", "COMMITTED", "ROLLBACK", "SPLIT":
		if rec.StartTS == 0 {
			return fmt.Errorf("%s before the START line", l.Type)
		}
		if len(l.Key) == 0 {
			return fmt.Errorf("%s without a key", l.Type)
		}
	case "RESOLVED", "SQL", "SQLERR", "INITIALIZED", "UNKNOWN", "ERROR":
	default:
		return fmt.Errorf("type %q is not known", l.Type)
	}
	return b.add(n, &l)
}

// eachLine calls fn with every line of a gzipped file, counted from 1.
func eachLine(ctx context.Context, path string, fn func(n int, text []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return cdcerr.RecordingInvalid.Wrap(err, "recording")
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return cdcerr.RecordingInvalid.Wrap(err, "%s: not a gzip file", path)
	}
	in := bufio.NewReaderSize(z, 1<<20)
	var text []byte
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err = appendLine(text[:0], in)
		// A file that breaks off leaves half a line: say the one, not the other.
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("the file ends in mid-stream: %w", err)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return cdcerr.RecordingInvalid.Wrap(err, "%s line %d", path, n)
		}
		if err != nil && len(text) == 0 {
			return nil
		}
		if bad := fn(n, text); bad != nil {
			return cdcerr.RecordingInvalid.Wrap(bad, "%s line %d", path, n)
		}
	}
}

// appendLine reads a line without its end; at the end of the file also io.EOF.
func appendLine(text []byte, in *bufio.Reader) ([]byte, error) {
	for {
		part, err := in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case len(text) > longestLine:
			return text, fmt.Errorf("longer than %d bytes, the most that a line may have", longestLine)
		case !errors.Is(err, bufio.ErrBufferFull):
			return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r")), err
		}
	}
}
