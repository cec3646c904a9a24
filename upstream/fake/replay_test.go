package fake_test

import (
	"cmp"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
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
			if testing.Short() && strings.Contains(name, "bigtxn") {
				t.Skip("large")
			}
			t.Parallel()
			fold(t, path)
		})
	}
}

func fold(t *testing.T, path string) {
	rec, err := fake.LoadRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	c := run(t, fake.Config{Recording: rec, HoldForSubscriber: true, ResolvedInterval: 20 * time.Millisecond, Seed: 1})
	cl := newClient(t, c)
	before, err := cl.scan(within(t, 10*time.Second), rec.StartTS-1)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatcher(cl, rec.StartTS, rec.EndTS)
	if err := w.watch(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	after, err := cl.scan(within(t, 10*time.Second), rec.EndTS)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows, %v", len(w.rows), w.seen)
	got, backfilled := replayed(t, before, w.rows, rec.EndTS)
	diff := 0
	for k, v := range after {
		if got[k] != v && !backfilled[k] {
			diff++
		}
	}
	for k := range got {
		if _, ok := after[k]; !ok {
			diff++
		}
	}
	if diff > 0 {
		t.Errorf("%d keys differ from the store at END", diff)
	}
}

// replayed folds the rows over what was before, checking old values. Keys with a
// value in between that no stream shows are returned too.
func replayed(t *testing.T, before map[string]string, rows map[changeKey]change, end tso.TS) (state map[string]string, backfilled map[string]bool) {
	t.Helper()
	keys := slices.SortedFunc(maps.Keys(rows), func(a, b changeKey) int { return cmp.Compare(a.commit, b.commit) })
	state, backfilled = maps.Clone(before), map[string]bool{}
	for _, k := range keys {
		if k.commit > end {
			continue
		}
		r := rows[k]
		if state[k.key] != r.old {
			backfilled[k.key] = true
			if k.key[0] != 't' {
				t.Errorf("old value of %s is not the value before", hex.EncodeToString([]byte(k.key)))
			}
		}
		if r.op == cdcpb.Event_Row_PUT {
			state[k.key] = r.value
		} else {
			delete(state, k.key)
		}
	}
	return state, backfilled
}

var _ = os.Args
