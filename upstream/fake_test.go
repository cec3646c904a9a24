package upstream_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

const golden = "../testdata/golden"

// change names one committed change.
type change struct {
	key           string
	start, commit tso.TS
}

// recorded pairs the prewrites and commits of a recording up to its end with
// hindsight: a commit may be recorded before its prewrite.
func recorded(t *testing.T, path string, end tso.TS) map[change]event.RawKV {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var start tso.TS
	written, out, commits := map[change]event.RawKV{}, map[change]event.RawKV{}, []event.RawKV{}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var l struct {
			Type, Op, Key, Value, Old string
			StartTS                   tso.TS `json:"start_ts"`
			CommitTS                  tso.TS `json:"commit_ts"`
			TS                        tso.TS
		}
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		row := event.RawKV{Op: event.Put, StartTS: l.StartTS, CommitTS: l.CommitTS, Key: unhex(t, l.Key), Value: unhex(t, l.Value), Old: unhex(t, l.Old)}
		if l.Op == "DELETE" {
			row.Op, row.Value = event.Delete, nil
		}
		switch l.Type {
		case "START":
			start = l.TS
		case "PREWRITE":
			k := change{key: string(row.Key), start: l.StartTS}
			if kept, again := written[k]; !again || len(kept.Value) == 0 {
				written[k] = row
			}
		case "COMMIT":
			commits = append(commits, row)
		case "COMMITTED":
			if l.CommitTS > start && l.CommitTS <= end {
				out[change{key: string(row.Key), start: l.StartTS, commit: l.CommitTS}] = row
			}
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	for _, row := range commits {
		w, ok := written[change{key: string(row.Key), start: row.StartTS}]
		if !ok || row.CommitTS <= start || row.CommitTS > end {
			continue // without a prewrite: the scan delivered it as COMMITTED
		}
		w.Op, w.CommitTS = row.Op, row.CommitTS
		if w.Op == event.Delete {
			w.Value = nil
		}
		out[change{key: string(row.Key), start: row.StartTS, commit: row.CommitTS}] = w
	}
	return out
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// delivered is what a subscription handed on.
type delivered struct {
	t        *testing.T
	until    tso.TS
	mu       sync.Mutex
	rows     map[change]event.RawKV // guarded by mu
	repeated int                    // guarded by mu
	resolved tso.TS                 // guarded by mu
	regions  map[uint64]tso.TS      // guarded by mu: by the moves
	moved    chan struct{}          // holds a token when resolved has moved
}

func newDelivered(t *testing.T) *delivered {
	return &delivered{t: t, until: tso.Max, rows: map[change]event.RawKV{}, regions: map[uint64]tso.TS{}, moved: make(chan struct{}, 1)}
}

// reached waits until the resolved-ts is at ts.
func (d *delivered) reached(ctx context.Context, ts tso.TS) error {
	for {
		d.mu.Lock()
		resolved := d.resolved
		d.mu.Unlock()
		if resolved >= ts {
			return nil
		}
		select {
		case <-d.moved:
		case <-ctx.Done():
			return fmt.Errorf("resolved-ts is %d (%v), waiting for %d (%v): %w", resolved, resolved.Time(), ts, ts.Time(), ctx.Err())
		}
	}
}

var errThere = errors.New("resolved-ts is there")

func (d *delivered) take(b upstream.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range b.Rows {
		if r.CommitTS <= d.resolved {
			d.t.Errorf("key %X commit-ts %d comes after resolved-ts %d", r.Key, r.CommitTS, d.resolved)
		}
		k := change{key: string(r.Key), start: r.StartTS, commit: r.CommitTS}
		if before, ok := d.rows[k]; ok {
			d.repeated++
			if !alike(before, r) {
				d.t.Errorf("key %X commit-ts %d comes twice, differently", r.Key, r.CommitTS)
			}
		}
		d.rows[k] = r
	}
	for _, m := range b.Moves {
		if m.Stage == tso.StageRegion && m.From != 0 && m.From != d.regions[m.Region] {
			d.t.Errorf("%v, but it was at %d", m, d.regions[m.Region])
		}
		d.regions[m.Region] = m.To
	}
	if b.Resolved != 0 {
		if b.Resolved <= d.resolved {
			d.t.Errorf("resolved-ts %d comes after %d", b.Resolved, d.resolved)
		}
		if d.resolved = b.Resolved; d.resolved >= d.until {
			return errThere
		}
		select {
		case d.moved <- struct{}{}:
		default:
		}
	}
	return nil
}

func alike(a, b event.RawKV) bool {
	return a.Op == b.Op && bytes.Equal(a.Value, b.Value) && bytes.Equal(a.Old, b.Old)
}

// cluster runs a fake and a client of it until the test ends.
func cluster(t testing.TB, cfg fake.Config, change func(*upstream.Config)) (*fake.Cluster, *upstream.Client) {
	t.Helper()
	c, err := fake.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("fake: %v", err)
		}
	})
	up := upstream.Default()
	up.PD = c.PD()
	if change != nil {
		change(&up)
	}
	client, err := upstream.Open(t.Context(), up)
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- client.Run(running) }()
	t.Cleanup(func() {
		stop()
		<-ran
		client.Close()
	})
	return c, client
}

// heavyRecordings are one transaction in one region: whoever disturbs it has it
// scanned anew from the beginning, which takes seconds each time.
var heavyRecordings = []string{"bigtxn"}

// heavy tells whether tests that take minutes run too: make heavy.
func heavy() bool { return os.Getenv("SLUICE_HEAVY") != "" }

// TestRecordings follows every recording through the fake, which replays it with
// all hazards, while regions split and leaders move.
func TestRecordings(t *testing.T) {
	for _, pattern := range []string{"*.jsonl.gz", "workloads/*.jsonl.gz"} {
		paths, err := filepath.Glob(filepath.Join(golden, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no recordings: %v", err)
		}
		for _, path := range paths {
			name := strings.TrimSuffix(filepath.Base(path), ".jsonl.gz")
			if strings.Contains(name, ".") {
				continue
			}
			t.Run(name, func(t *testing.T) {
				if testing.Short() && (strings.Contains(path, "workloads") || name != "15_split_regions") {
					t.Skip("short")
				}
				if slices.Contains(heavyRecordings, name) && !heavy() {
					fmt.Fprintf(os.Stderr, "upstream: TestRecordings/%s is left to make heavy\n", name)
					t.Skip("left to make heavy")
				}
				follow(t, path)
			})
		}
	}
}

func follow(t *testing.T, path string) {
	rec, err := fake.LoadRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	const seed = 7
	c, client := cluster(t, fake.Config{Recording: rec, HoldForSubscriber: true, ResolvedInterval: 10 * time.Millisecond, Seed: seed}, nil)
	d := newDelivered(t)
	d.until = rec.EndTS
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return client.Subscribe(ctx, upstream.Subscription{StartTS: rec.StartTS}, d.take) })
	times := 60
	if rec.Name == "bigtxn" {
		times = 5 // each scan of its one large region takes seconds
	}
	g.Go(func() error { return disturb(ctx, c, rand.New(rand.NewPCG(seed, 0)), times, d) })
	if err := g.Wait(); !errors.Is(err, errThere) {
		t.Fatalf("%v; resolved-ts %d of %d", err, d.resolved, rec.EndTS)
	}
	want := recorded(t, path, rec.EndTS)
	for k, w := range want {
		g, ok := d.rows[k]
		switch {
		case !ok:
			t.Errorf("key %X start-ts %d commit-ts %d is missing", k.key, k.start, k.commit)
		case !alike(g, w):
			t.Errorf("key %X commit-ts %d: got %d %X was %X, want %d %X was %X", k.key, k.commit, g.Op, g.Value, g.Old, w.Op, w.Value, w.Old)
		}
	}
	for k := range d.rows {
		if _, ok := want[k]; !ok && k.commit <= rec.EndTS {
			t.Errorf("key %X start-ts %d commit-ts %d was never recorded", k.key, k.start, k.commit)
		}
	}
	t.Logf("%d changes, %d repeated, %d regions", len(want), d.repeated, len(c.Regions()))
}

// disturb splits regions at keys that were written and moves leaders.
func disturb(ctx context.Context, c *fake.Cluster, rng *rand.Rand, times int, d *delivered) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range times {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		regions := c.Regions()
		r := regions[rng.IntN(len(regions))]
		if rng.IntN(2) == 0 {
			if err := c.Lead(r.ID, 1+rng.Uint64N(3)); err != nil {
				return err
			}
			continue
		}
		d.mu.Lock()
		for k := range d.rows { // any one of them
			c.Split([]byte(k.key))
			break
		}
		d.mu.Unlock()
	}
	return nil
}

// TestScanOfFake reads the snapshot before a recording in several regions.
func TestScanOfFake(t *testing.T) {
	rec, err := fake.LoadRecording(filepath.Join(golden, "12_ddl_table.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	c, client := cluster(t, fake.Config{Recording: rec, Hold: true}, nil)
	read := func() (keys []string) {
		err := client.Scan(t.Context(), []byte("m"), []byte("n"), rec.StartTS.Prev(), func(k, v []byte) error {
			got, err := client.Get(t.Context(), k, rec.StartTS.Prev())
			if err != nil || !bytes.Equal(got, v) {
				t.Errorf("key %X: scanned %X, got %X, %v", k, v, got, err)
			}
			keys = append(keys, string(k))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	before := read()
	for _, i := range []int{1, len(before) / 2, len(before) - 1} {
		c.Split([]byte(before[i]))
	}
	after := read()
	if len(before) == 0 || strings.Join(before, "") != strings.Join(after, "") {
		t.Errorf("%d keys before splits, %d after", len(before), len(after))
	}
}
