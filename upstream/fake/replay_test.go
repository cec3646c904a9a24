package fake_test

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const golden = "../../testdata/golden"

// streams are the paths of all recordings.
func streams(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.jsonl.gz", "workloads/*.jsonl.gz", "kafka/*/*.jsonl.gz"} {
		found, err := filepath.Glob(filepath.Join(golden, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if strings.Count(filepath.Base(path), ".") == 2 {
				out = append(out, path)
			}
		}
	}
	if len(out) != 44 {
		t.Fatalf("%d recordings, want 44", len(out))
	}
	return out
}

// A subscriber from START, whatever it met on the way, ends with what a scan at
// END returns, and every old value that it was told is the value before.
func TestEveryRecordingFolds(t *testing.T) {
	for _, path := range streams(t) {
		name, _ := filepath.Rel(golden, path)
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			if testing.Short() && (strings.Contains(name, "bigtxn") || strings.HasPrefix(name, "kafka")) {
				t.Skip("large, or much like another")
			}
			t.Parallel()
			rec, err := fake.LoadRecording(path)
			must(t, err)
			c := run(t, fake.Config{Recording: rec, HoldForSubscriber: true, ResolvedInterval: 20 * time.Millisecond, Seed: 1})
			cl := newClient(t, c)
			w := newWatcher(cl, rec.StartTS, rec.EndTS)
			must(t, w.watch(within(t, guard)))
			t.Logf("%d rows, %v", len(w.rows), w.seen)
			w.judge(t, rec)
		})
	}
}

// reorganised are the recordings in which a MODIFY COLUMN rewrote rows, which no
// stream shows: there an old value may be another one than was last seen.
var reorganised = []string{"13_ddl_column", "16_batch_ddl", "ddlstorm", "onlinemodify"}

// judge folds what the watcher saw over a scan at START and compares it with one
// at END.
func (w *watcher) judge(t *testing.T, rec *fake.Recording) {
	t.Helper()
	before, err := w.cl.scan(within(t, guard), rec.StartTS-1)
	must(t, err)
	after, err := w.cl.scan(within(t, guard), rec.EndTS)
	must(t, err)
	keys := slices.SortedFunc(maps.Keys(w.rows), func(a, b changeKey) int { return cmp.Compare(a.commit, b.commit) })
	state, rewritten := before, 0
	for _, k := range keys {
		r := w.rows[k]
		if k.commit > rec.EndTS {
			continue
		}
		if state[k.key] != r.old {
			rewritten++
			if k.key[0] != 't' || k.key[10] != 'r' {
				t.Errorf("old value of %x is not the value before", k.key)
			}
		}
		if state[k.key] = r.value; r.op != cdcpb.Event_Row_PUT {
			delete(state, k.key)
		}
	}
	if rewritten > 0 && !slices.Contains(reorganised, rec.Name) {
		t.Errorf("%d old values are not the values before", rewritten)
	}
	if !maps.Equal(state, after) {
		t.Errorf("the fold has %d keys, the store at END %d, or their values differ", len(state), len(after))
	}
	w.cl.compareStore(t, rec, after)
}

// compareStore holds a scan at END to what the recorded store held, where that
// was kept: record keys of user tables. Rows that a MODIFY COLUMN rewrote and
// that nobody touched later are in no stream; of those only the presence is
// compared.
func (cl *client) compareStore(t *testing.T, rec *fake.Recording, after map[string]string) {
	t.Helper()
	path := filepath.Join(golden, "workloads", rec.Name+".store.jsonl.gz")
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	lines := json.NewDecoder(z)
	var head struct {
		End tso.TS `json:"end_ts"`
	}
	must(t, lines.Decode(&head))
	if head.End != rec.EndTS {
		t.Fatalf("%s is of %d, the recording ends at %d", path, head.End, rec.EndTS)
	}
	differ, n := 0, 0
	for ; lines.More(); n++ {
		var kv struct{ Key, Value string }
		must(t, lines.Decode(&kv))
		key, err := hex.DecodeString(kv.Key)
		must(t, err)
		got, ok := after[string(key)]
		if !ok {
			t.Errorf("key %s is missing", kv.Key)
		}
		if hex.EncodeToString([]byte(got)) != kv.Value {
			differ++
		}
	}
	t.Logf("%d of %d rows differ from the recorded store", differ, n)
	if n == 0 || (differ > 0 && !slices.Contains(reorganised, rec.Name)) {
		t.Errorf("%d of %d rows differ from the recorded store", differ, n)
	}
}

// A replay with the recorded speed keeps to the recorded time, and its
// resolved-ts too.
func TestReplayOnRecordedTime(t *testing.T) {
	rec, err := fake.LoadRecording(filepath.Join(golden, "15_split_regions.jsonl.gz"))
	must(t, err)
	const speed = 2
	c := run(t, fake.Config{Recording: rec, Hold: true, Speed: speed, ResolvedInterval: 10 * time.Millisecond, Seed: 3})
	cl := newClient(t, c)
	w := newWatcher(cl, rec.StartTS, rec.EndTS)
	if c.TS() != rec.StartTS {
		t.Errorf("the clock runs before Go: %d", c.TS())
	}
	begin := time.Now()
	c.Go()
	must(t, w.watch(within(t, guard)))
	if took, want := time.Since(begin), rec.EndTS.Sub(rec.StartTS)/speed; took < want*9/10 {
		t.Errorf("END resolved after %v, recorded in %v at speed %d", took, rec.EndTS.Sub(rec.StartTS), speed)
	}
	w.judge(t, rec)
	<-c.Replayed()
	// The clock goes on by the wall.
	for at := c.TS(); c.TS() < at+50<<18; {
		if _, err := c.Timestamp(within(t, guard)); err != nil {
			t.Fatal(err)
		}
	}
}

// Who comes after everything has happened gets it from scans.
func TestLateSubscriber(t *testing.T) {
	rec, err := fake.LoadRecording(filepath.Join(golden, "11_partition.jsonl.gz"))
	must(t, err)
	c := run(t, fake.Config{Recording: rec, ResolvedInterval: 5 * time.Millisecond})
	<-c.Replayed()
	w := newWatcher(newClient(t, c), rec.StartTS, rec.EndTS)
	must(t, w.watch(within(t, guard)))
	w.judge(t, rec)
	if w.seen["COMMIT"] > 0 || w.seen["PREWRITE"] > 0 {
		t.Errorf("live rows after the end: %v", w.seen)
	}
}

// A ts in the middle is as good a place to begin as any.
func TestSubscriberFromTheMiddle(t *testing.T) {
	rec, err := fake.LoadRecording(filepath.Join(golden, "workloads", "ddlstorm.jsonl.gz"))
	must(t, err)
	c := run(t, fake.Config{Recording: rec, HoldForSubscriber: true, ResolvedInterval: 5 * time.Millisecond, Seed: 5})
	cl := newClient(t, c)
	middle := rec.StartTS + (rec.EndTS-rec.StartTS)/2
	w := newWatcher(cl, middle, rec.EndTS)
	must(t, w.watch(within(t, guard)))
	state, err := cl.scan(within(t, guard), middle)
	must(t, err)
	after, err := cl.scan(within(t, guard), rec.EndTS)
	must(t, err)
	for _, k := range slices.SortedFunc(maps.Keys(w.rows), func(a, b changeKey) int { return cmp.Compare(a.commit, b.commit) }) {
		// Live rows of before may come besides: a subscriber drops them.
		if k.commit <= middle || k.commit > rec.EndTS {
			continue
		}
		if state[k.key] = w.rows[k].value; w.rows[k].op != cdcpb.Event_Row_PUT {
			delete(state, k.key)
		}
	}
	if !maps.Equal(state, after) {
		t.Errorf("the fold has %d keys, the store at END %d, or their values differ", len(state), len(after))
	}
}

// Nobody reads, and the replay goes on.
func TestReplayWithoutSubscribers(t *testing.T) {
	rec, err := fake.LoadRecording(filepath.Join(golden, "08_txn.jsonl.gz"))
	must(t, err)
	c := run(t, fake.Config{Recording: rec})
	<-c.Replayed()
	if c.TS() < rec.EndTS {
		t.Errorf("the clock stands at %d, END is %d", c.TS(), rec.EndTS)
	}
}

// A recorded transaction's client lives until the recording says what became of it,
// however slowly that is replayed: nobody may end its locks before.
func TestRecordedLocksAreTheirOwners(t *testing.T) {
	rec, err := fake.LoadRecording(writeRecording(t, strings.ReplaceAll(goodMeta, "100", "262144000"), `
		{'type':'START','ts':262144000}
		{'type':'PREWRITE','op':'PUT','key':[t1],'value':[a],'start_ts':262144010}
		{'type':'COMMIT','op':'PUT','key':[t1],'start_ts':262144010,'commit_ts':524288000}
		{'type':'END','ts':524288001}`))
	must(t, err)
	c := run(t, fake.Config{Recording: rec, Calm: true, Speed: 1e-6})
	cl := newClient(t, c)
	eventually(t, "the lock", func(ctx context.Context) error {
		r := cl.regionOf(t, "t1")
		resp, err := cl.kv(r).KvCheckTxnStatus(ctx, &kvrpcpb.CheckTxnStatusRequest{Context: kvContext(r), PrimaryKey: []byte("t1"),
			LockTs: 262144010, CallerStartTs: math.MaxUint64, CurrentTs: uint64(tso.At(time.Unix(86400*30, 0))), VerifyIsPrimary: true})
		switch {
		case err != nil:
			return err
		case resp.Error != nil || resp.LockTtl == 0:
			return fmt.Errorf("not there yet: %v", resp)
		case resp.Action == kvrpcpb.Action_TTLExpireRollback:
			t.Errorf("the lock was ended: %v", resp)
		}
		return nil
	})
}
