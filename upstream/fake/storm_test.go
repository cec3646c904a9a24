package fake_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

var seed = flag.Uint64("seed", 0, "seed of the storms; 0 draws one")

func seedOf(t *testing.T) uint64 {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d", s)
	return s
}

// stormy is a cluster with a client that reads its store and one that writes.
type stormy struct {
	t       *testing.T
	cluster *fake.Cluster
	writer  *live.Client
	watcher *watcher
	seed    uint64

	mu      sync.Mutex
	struck  map[string]int // faults that struck, by name
	commits int
}

func newStormy(t *testing.T, seed uint64) *stormy {
	c := run(t, fake.Config{PDs: 3, ResolvedInterval: 5 * time.Millisecond, Seed: seed, StartTS: tso.At(time.Now())})
	for _, border := range []string{"ta", "tb"} {
		c.Split([]byte(border))
	}
	start := c.TS()
	w := newWatcher(newClient(t, c), start, tso.Max)
	w.storm = true
	return &stormy{t: t, cluster: c, writer: live.New(c), watcher: w, seed: seed, struck: map[string]int{}}
}

// write commits transactions of a few keys each, of every kind, until ctx ends.
func (s *stormy) write(ctx context.Context, id uint64) error {
	rng := rand.New(rand.NewPCG(s.seed, 10+id))
	for n := 0; ctx.Err() == nil; n++ {
		txn, err := s.writer.Begin(ctx, live.Options{
			AsyncCommit: rng.IntN(2) == 0, OnePhase: rng.IntN(2) == 0, TTL: 100 * time.Millisecond,
		})
		if err != nil {
			return ctx.Err()
		}
		for range 1 + rng.IntN(4) {
			key := fmt.Appendf(nil, "t%c%03d", 'a'+rng.IntN(2), rng.IntN(200))
			switch rng.IntN(5) {
			case 0:
				txn.Delete(key)
			case 1:
				txn.Put(key, []byte(strings.Repeat("v", 300+n%7)))
			default:
				txn.Put(key, fmt.Appendf(nil, "%d-%d", id, n))
			}
		}
		if err := s.end(ctx, txn, rng); err != nil && !live.Retry(err) && ctx.Err() == nil {
			return err
		}
		_ = nap(ctx) // its only error is that ctx has ended, which ends the loop
	}
	return nil
}

// end commits, or leaves locks for others to find.
func (s *stormy) end(ctx context.Context, txn *live.Txn, rng *rand.Rand) error {
	switch rng.IntN(20) {
	case 0:
		return txn.Prewrite(ctx)
	case 1:
		if err := txn.Prewrite(ctx); err != nil {
			return err
		}
		_, err := txn.CommitPrimary(ctx)
		return err
	case 2:
		if err := txn.Prewrite(ctx); err != nil || txn.CommitTS() != 0 {
			return err
		}
		return txn.Rollback(ctx)
	}
	_, err := txn.Commit(ctx)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.commits++
	}
	return err
}

// settle ends the locks that dead clients left, as whoever reads does: it passes
// those that may live, until their time is up.
func (s *stormy) settle(ctx context.Context) tso.TS {
	for {
		at, err := s.cluster.Timestamp(ctx)
		must(s.t, err)
		must(s.t, s.writer.Scan(ctx, at, nil, nil, func(live.Pair) bool { return true }))
		if len(s.locks()) == 0 {
			return s.cluster.TS()
		}
		must(s.t, nap(ctx))
	}
}

// rage lets writers write and faults strike for a while, and for as long as it takes
// until so many kinds of faults have struck and enough is written; the watcher follows.
func (s *stormy) rage(d time.Duration, storm fake.Storm, kinds int) error {
	ctx := within(s.t, guard)
	writing, stop := context.WithCancel(ctx)
	defer stop()
	storm.Told = func(name, what string) {
		s.t.Log(name, what)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.struck[name]++
	}
	var busy, watching errgroup.Group
	busy.Go(func() error {
		defer stop()
		for begin := time.Now(); time.Since(begin) < d || !s.enough(kinds); {
			if err := nap(ctx); err != nil {
				return fmt.Errorf("not enough has happened, by the log: %w", err)
			}
		}
		return nil
	})
	watching.Go(func() error { return s.watcher.watch(ctx) })
	for id := range uint64(3) {
		busy.Go(func() error { return s.write(writing, id) })
	}
	busy.Go(func() error { return s.cluster.Storm(writing, storm) })
	if err := busy.Wait(); err != nil {
		return fmt.Errorf("writers and storm: %w", err)
	}
	target := s.settle(ctx)
	s.watcher.mu.Lock()
	s.watcher.target = target
	s.watcher.mu.Unlock()
	err := watching.Wait()
	if err != nil {
		s.watcher.mu.Lock()
		defer s.watcher.mu.Unlock()
		for _, sub := range s.watcher.subs {
			if sub.resolved < target {
				s.t.Logf("request %d, region %v at store %d: initialized %v, resolved %d of %d", sub.request, sub.region, sub.store, sub.initialized, sub.resolved, target)
			}
		}
		s.t.Logf("%d ranges to reload, %d locks", len(s.watcher.reload), len(s.locks()))
	}
	return err
}

func (s *stormy) enough(kinds int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.struck) >= kinds && s.commits >= 100
}

// locks are the locks with data that stand.
func (s *stormy) locks() []string {
	var out []string
	s.cluster.Snapshot().History(nil, nil, tso.Max, func(ch mvcc.Change) bool {
		out = append(out, fmt.Sprintf("%s %d", ch.Key, ch.StartTS))
		return true
	})
	return out
}

// judge compares what was told with what is in the store, version by version.
func (s *stormy) judge() error {
	var errs []error
	told := 0
	data := s.cluster.Snapshot()
	for _, prefix := range []byte{'a', 'b'} {
		for i := range 200 {
			key := fmt.Appendf(nil, "t%c%03d", prefix, i)
			old := ""
			for _, v := range data.Versions(key) {
				if !v.Op.Data() {
					continue
				}
				want := change{cdcpb.Event_Row_PUT, string(v.Value), old}
				if v.Op == mvcc.Delete {
					want.op = cdcpb.Event_Row_DELETE
				}
				old = want.value
				k := changeKey{string(key), v.StartTS, v.CommitTS}
				if got, ok := s.watcher.rows[k]; v.CommitTS <= s.watcher.target && (!ok || got != want) {
					errs = append(errs, fmt.Errorf("%s of %d-%d: told %v %+.40v, written %+.40v", key, v.StartTS, v.CommitTS, ok, got, want))
				}
				told++
				delete(s.watcher.rows, k)
			}
		}
	}
	for k := range s.watcher.rows {
		errs = append(errs, fmt.Errorf("%s of %d-%d was told and never written", k.key, k.start, k.commit))
	}
	if told < 50 {
		errs = append(errs, fmt.Errorf("only %d rows", told))
	}
	return errors.Join(errs...)
}

// Whatever befalls the cluster that TiKV allows, a subscriber that keeps to the
// protocol is told every committed row, and no promise is broken on the way.
func TestStormsKeepThePromises(t *testing.T) {
	s := seedOf(t)
	for i := range uint64(2) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			st := newStormy(t, s+i)
			err := st.rage(6*time.Second, fake.Storm{
				Seed: s + i, Every: 30 * time.Millisecond, For: 200 * time.Millisecond, AtOnce: 3,
			}, 12)
			must(t, err)
			must(t, st.judge())
			t.Logf("%v, watched %v", st.struck, st.watcher.seen)
			must(t, st.calm())
		})
	}
}

// calm checks that a storm leaves nothing behind.
func (s *stormy) calm() error {
	for _, r := range s.cluster.Regions() {
		if r.Merging {
			return fmt.Errorf("region %d is still being merged", r.ID)
		}
	}
	for id := range uint64(3) {
		if _, err := s.cluster.KV(within(s.t, guard), id+1); err != nil {
			return err
		}
	}
	return nil
}

// Each fault that breaks a promise is noticed by the watcher, which believes all
// of them, or by the judge; and it names the promise.
func TestBrokenPromisesAreNoticed(t *testing.T) {
	s := seedOf(t)
	for _, f := range fake.Faults() {
		if f.Promise == "" || f.Name == "" {
			t.Errorf("fault %+v does not say which promise", f.Name)
		}
		// Errors and cluster ids are noticed by who compares them: see below.
		if !f.Breaks || slices.Contains([]string{"wrong-cluster", "regressing-resolved", "row-after-error"}, f.Name) {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			st := newStormy(t, s)
			// early-resolved needs scans; those come of splits.
			names := []string{f.Name}
			if f.Name == "early-resolved" {
				names = append(names, "split", "stream-cut")
			}
			err := st.rage(time.Second, fake.Storm{Seed: s, Faults: names, For: 100 * time.Millisecond, AtOnce: 2}, len(names))
			if err == nil {
				err = st.judge()
			}
			if err == nil {
				t.Error("nobody noticed")
			}
			t.Log(err)
		})
	}
}

// A storm's errors are over with it: what nobody met is not kept for who comes later.
func TestNoErrorOutlivesAStorm(t *testing.T) {
	c, cl := calm(t)
	ctx, stop := context.WithTimeout(t.Context(), guard)
	defer stop()
	struck := 0
	must(t, c.Storm(ctx, fake.Storm{Seed: seedOf(t), Faults: []string{"feed-error"}, Every: time.Millisecond, For: 10 * time.Millisecond,
		Told: func(string, string) {
			if struck++; struck == 100 {
				stop()
			}
		}}))
	if struck < 100 {
		t.Fatalf("only %d errors", struck)
	}
	cl.subscribed(t, "t1")
}
