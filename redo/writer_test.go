package redo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

func change(commit, startTS tso.TS, key string, size int) *event.RawKV {
	return &event.RawKV{Op: event.Put, CommitTS: commit, StartTS: startTS, Key: []byte(key), Value: []byte(strings.Repeat("v", size))}
}

// running runs a writer on virtual time while fn works with it.
func running(t *testing.T, cfg redo.Config, b objstore.Bucket, fn func(ctx context.Context, t *testing.T, w *redo.Writer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := redo.NewWriter(cfg, b, testID, start)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		fn(ctx, t, w)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if err := w.Append(t.Context(), change(1<<40, 1, "k", 1), testTable); err != nil {
			t.Errorf("a writer that has ended, and has room: %v", err)
		}
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

func logged(t *testing.T, b objstore.Bucket) []objstore.Object {
	t.Helper()
	out, err := objstore.All(t.Context(), b, "default/orders/1-x/rows/", "")
	must(t, err)
	return out
}

// A span that is quiet advances without a file, at once.
func TestQuietAdvances(t *testing.T) {
	b := objstore.NewMemory()
	running(t, redo.Default(), b, func(_ context.Context, t *testing.T, w *redo.Writer) {
		for ts := start + 1; ts < start+20; ts++ {
			begin := time.Now()
			w.Resolve(ts)
			<-w.Moved()
			if d := w.Durable(); d.TS != ts || d.Extent.Files != 0 || time.Since(begin) != 0 {
				t.Fatalf("%+v after %v", d, time.Since(begin))
			}
		}
	})
	if got := logged(t, b); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// A resolved-ts is durable as soon as files may be ended: at once after a pause, and
// every 100 ms while they keep coming. The flush interval bounds what no resolved-ts
// follows.
func TestFlushFollowsResolved(t *testing.T) {
	b := objstore.NewMemory()
	cfg := redo.Default()
	running(t, cfg, b, func(ctx context.Context, t *testing.T, w *redo.Writer) {
		pass(time.Second)
		begin := time.Now()
		for i := range tso.TS(50) {
			must(t, w.Append(ctx, change(start+1+i, start, "k", 10), testTable))
			w.Resolve(start + 1 + i)
			synctest.Wait()
			if i == 0 && w.Durable().TS != start+1 {
				t.Fatalf("the first waits: %+v", w.Durable())
			}
			pass(10 * time.Millisecond)
			if lag := start + 1 + i - w.Durable().TS; lag > 10 {
				t.Fatalf("%d behind after %v", lag, time.Since(begin))
			}
		}
		if n := len(logged(t, b)); n > 6 {
			t.Fatalf("%d files in half a second", n)
		}
		pass(cfg.FlushEvery)
		before := w.Durable()
		must(t, w.Append(ctx, change(start+100, start, "k", 10), testTable))
		pass(cfg.FlushInterval - time.Millisecond)
		files := len(logged(t, b))
		pass(2 * time.Millisecond)
		if d := w.Durable(); len(logged(t, b)) != files+1 || d.TS != before.TS || d.Extent.Files != before.Extent.Files+1 {
			t.Fatalf("%+v, %d files, then %d", d, files, len(logged(t, b)))
		}
	})
}

// Files are put side by side, and a slow one holds up none but what counts on it.
// Nobody who appends waits for it, until the quota is used up.
func TestSlowStorage(t *testing.T) {
	release := make(chan struct{})
	var mu sync.Mutex
	at, most := 0, 0
	b := &objstoretest.Faulty{Bucket: objstore.NewMemory(), Decide: func(_ context.Context, c objstoretest.Call) objstoretest.Fault {
		mu.Lock()
		at++
		most = max(most, at)
		mu.Unlock()
		if strings.HasSuffix(c.Name, "-0000000001.redo") {
			<-release
		}
		mu.Lock()
		at--
		mu.Unlock()
		return objstoretest.None
	}}
	cfg := redo.Default()
	cfg.MaxLogBytes, cfg.QuotaBytes, cfg.FlushWorkers = 1<<20, 8<<20, 4
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		running := func(ctx context.Context, w *redo.Writer) {
			for i := range tso.TS(20) { // 20 files of a MiB
				must(t, w.Append(ctx, change(start+1+i, start, "k", 1<<20), testTable))
				w.Resolve(start + 1 + i)
			}
			synctest.Wait()
			if d := w.Durable(); d.TS != start || d.Extent.Files != 0 || len(logged(t, b)) != 19 {
				t.Fatalf("%+v, %d files", d, len(logged(t, b)))
			}
			close(release)
			pass(time.Second)
			if d := w.Durable(); d.TS != start+20 || d.Extent != (record.Extent{Writer: d.Extent.Writer, Kind: record.Rows, Files: 20, Max: start + 20}) {
				t.Fatalf("%+v", d)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := redo.NewWriter(cfg, b, testID, start)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		running(ctx, w)
		cancel()
		<-ended
	})
	if most < 2 {
		t.Errorf("%d at a time", most)
	}
}

// A storage that does not answer is tried again and told of; memory stays bounded,
// and who appends waits until it answers, or gives up.
func TestStorageGone(t *testing.T) {
	var up atomic.Bool
	memory := objstore.NewMemory()
	b := &objstoretest.Faulty{Bucket: memory, Decide: func(context.Context, objstoretest.Call) objstoretest.Fault {
		if up.Load() {
			return objstoretest.None
		}
		return objstoretest.Fail
	}}
	var mu sync.Mutex
	var trouble error
	troubles := 0
	cfg := redo.Default()
	cfg.MaxLogBytes, cfg.QuotaBytes = 1<<20, 4<<20
	cfg.Trouble = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		trouble = err
		troubles++
	}
	running(t, cfg, b, func(ctx context.Context, t *testing.T, w *redo.Writer) {
		blocked, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		n := 0
		for ; n < 100; n++ {
			if err := w.Append(blocked, change(start+1+tso.TS(n), start, "k", 1<<20), testTable); err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				break
			}
		}
		mu.Lock()
		if n != 4 || !cdcerr.StorageAPI.Is(trouble) || troubles < 20 || troubles > 200 {
			t.Fatalf("%d were taken; %d times %v", n, troubles, trouble)
		}
		up.Store(true)
		mu.Unlock()
		w.Resolve(start + tso.TS(n))
		pass(10 * time.Second)
		mu.Lock()
		if trouble != nil {
			t.Errorf("still %v", trouble)
		}
		mu.Unlock()
		if d := w.Durable(); d.TS != start+tso.TS(n) {
			t.Errorf("%+v", d)
		}
	})
}

// Where the order goes back another run begins, also between files.
func TestRuns(t *testing.T) {
	b := objstore.NewMemory()
	running(t, redo.Default(), b, func(ctx context.Context, t *testing.T, w *redo.Writer) {
		last := start
		for _, c := range []*event.RawKV{
			change(1010, 5, "a", 1), change(1010, 5, "b", 1), change(1011, 1, "a", 1), // in order
			change(1011, 1, "a", 1),  // the same again: in order
			change(1010, 5, "a", 1),  // back
			change(1010, 4, "z", 1),  // back by its start-ts only
			change(1010, 5, "a", 1),  // on
			change(1010, 5, "A", 1),  // back by its key only
			change(1020, 5, "aa", 1), // on
		} {
			must(t, w.Append(ctx, c, testTable))
			if c.CommitTS == 1011 {
				last++
				w.Resolve(last) // ends a file
				pass(time.Second)
			}
		}
		w.Resolve(1020)
		pass(time.Second)
		if d := w.Durable(); d.TS != 1020 || d.Extent.Max != 1020 {
			t.Errorf("%+v", d)
		}
	})
	var got []string
	for _, o := range logged(t, b) {
		n, err := record.ParseName(strings.TrimPrefix(o.Name, "default/orders/1-x/"))
		must(t, err)
		got = append(got, fmt.Sprintf("%d: run %d, %d–%d", n.Number, n.Run, n.Min, n.Max))
	}
	want := []string{"3: run 2, 1010–1010", "4: run 3, 1010–1010", "1: run 1, 1010–1011", "2: run 1, 1011–1011", "5: run 4, 1010–1020"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestConfigRefuses(t *testing.T) {
	for key, change := range map[string]func(*redo.Config){
		"max-log-size":     func(c *redo.Config) { c.MaxLogBytes = 1 },
		"flush-interval":   func(c *redo.Config) { c.FlushInterval = 49 * time.Millisecond },
		"FlushEvery":       func(c *redo.Config) { c.FlushEvery = 0 },
		"MetaEvery":        func(c *redo.Config) { c.MetaEvery = 0 },
		"flush-worker":     func(c *redo.Config) { c.FlushWorkers = 0 },
		"flush-worker-":    func(c *redo.Config) { c.FlushWorkers = 1000 },
		"memory-usage":     func(c *redo.Config) { c.QuotaBytes = c.MaxLogBytes - 1 },
		"no key, and none": nil,
	} {
		cfg := redo.Default()
		if change == nil {
			must(t, cfg.Validate())
			continue
		}
		change(&cfg)
		if err := cfg.Validate(); !cdcerr.RedoConfigInvalid.Is(err) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
