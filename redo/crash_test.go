package redo_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/tso"
)

func testConfig() redo.Config {
	cfg := redo.Default()
	cfg.FlushWorkers, cfg.FlushEvery = 3, time.Millisecond
	return cfg
}

// until runs a life that is killed right after its operation number n.
func until(t *testing.T, l life, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	faulty := &objstoretest.Faulty{Bucket: l.bucket, Decide: func(_ context.Context, c objstoretest.Call) objstoretest.Fault {
		if c.Number < n {
			return objstoretest.None
		}
		cancel()
		return objstoretest.Kill
	}}
	l.bucket = faulty
	if err := l.run(ctx); !faulty.Killed() {
		t.Fatalf("it was to be killed: %v", err)
	}
}

// crash lets a writer's, a meta's and a collection's operation number n fail as
// fault says, then looks at what is left, and goes on with another life. Where
// earlier is not 0, a life was killed at that operation before. It tells whether
// there was an operation n.
func crash(t *testing.T, bucket objstore.Bucket, seed uint64, earlier, n int, fault objstoretest.Fault) bool {
	t.Helper()
	all, down := history(seed, 60), newTarget(seed)
	var before tso.TS
	if earlier > 0 {
		until(t, life{bucket: bucket, revision: 9, all: all, down: down, cfg: testConfig(), id: testID, rounds: 2}, earlier)
		before = recovers(t, bucket, all, down)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	decide, met := objstoretest.At(n, fault, cancel)
	faulty := &objstoretest.Faulty{Bucket: bucket, Decide: decide}
	first := &life{bucket: faulty, revision: 10, all: all, down: down, cfg: testConfig(), id: testID}
	err := first.run(ctx)
	if err != nil && fault != objstoretest.Kill && fault != objstoretest.Tear {
		t.Fatalf("operation %d, %v: %v", n, fault, err)
	}
	if _, err := redo.Open(t.Context(), bucket, testID); cdcerr.RedoMetaNotFound.Is(err) || cdcerr.RedoTorn.Is(err) {
		if down.highest > 0 {
			t.Fatalf("operation %d, %v: %d is downstream, and there is no meta: %v", n, fault, down.highest, err)
		}
	} else if now := recovers(t, bucket, all, down); now < before {
		t.Fatalf("P3: resolved-ts %d after %d", now, before)
	}
	for revision := int64(11); ; revision++ {
		next := &life{bucket: bucket, revision: revision, all: all, down: down, cfg: testConfig(), id: testID}
		must(t, next.run(t.Context()))
		if resolved := recovers(t, bucket, all, down); resolved != all[len(all)-1].ts() {
			t.Fatalf("operation %d, %v: resolved-ts %d at the end", n, fault, resolved)
		}
		if revision == 12 {
			return met.Load()
		}
	}
}

// For every operation of writer, meta and GC: it fails, it is torn, its answer is
// lost, the process dies right after it. What is left makes an exact snapshot, and
// the next life goes on from there.
func TestCrashMatrix(t *testing.T) {
	points, least, before := 0, 450, []int{0, 10, 20}
	if testing.Short() {
		least, before = 150, before[:1]
	}
	for _, earlier := range before {
		for _, fault := range objstoretest.Faults() {
			for n, met := 1, true; met; n++ {
				seed := uint64(n%5 + 1)
				synctest.Test(t, func(t *testing.T) { met = crash(t, objstore.NewMemory(), seed, earlier, n, fault) })
				if t.Failed() {
					t.Fatalf("operation %d, %v, seed %d, after a life of %d operations", n, fault, seed, earlier)
				}
				if met {
					points++
				}
			}
		}
	}
	t.Logf("%d points", points)
	if points < least {
		t.Errorf("%d points: a life has more operations", points)
	}
}

// The same in a directory, at every fifth point.
func TestCrashMatrixInDirectory(t *testing.T) {
	points := 0
	for i, fault := range objstoretest.Faults() {
		for n, met := 1+3*i, true; met; n += 5 {
			b, err := objstore.Open(t.Context(), "file://"+filepath.Join(t.TempDir(), fmt.Sprint(n)))
			must(t, err)
			if met = crash(t, b, 3, 0, n, fault); met {
				points++
			}
			must(t, b.Close())
		}
	}
	t.Logf("%d points", points)
}

// The same on a real S3 server, at a share of the points; make heavy takes all.
func TestCrashMatrixOnS3(t *testing.T) {
	step := 16
	if os.Getenv("SLUICE_HEAVY") != "" {
		step = 1
	}
	at, query, _ := strings.Cut(objstoretest.S3(t), "?")
	points := 0
	for i, fault := range objstoretest.Faults() {
		for n, met := 1+i*step/len(objstoretest.Faults()), true; met; n += step {
			b, err := objstore.Open(t.Context(), fmt.Sprintf("%s/%v-%d?%s", at, fault, n, query))
			must(t, err)
			if met = crash(t, b, 3, 0, n, fault); met {
				points++
			}
			must(t, b.Close())
		}
	}
	t.Logf("%d points", points)
	if points < 4 {
		t.Errorf("%d points: a life has more operations", points)
	}
}
