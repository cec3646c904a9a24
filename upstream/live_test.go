package upstream_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
)

var seedFlag = flag.Uint64("seed", 0, "run the cluster of this seed only")

// TestLive follows a living cluster: transactions of every kind, some of them
// abandoned half way, while regions split, merge and move, streams are cut, stores
// and members of PD stop and stall. Every change arrives as it was committed, none
// after the resolved-ts that covers it (P4), and the end is reached although nobody
// else ends the locks that were left behind.
func TestLive(t *testing.T) {
	seeds := []uint64{1, 2}
	switch {
	case *seedFlag != 0:
		seeds = []uint64{*seedFlag}
	case testing.Short():
		seeds = seeds[:1]
	case heavy():
		for seed := uint64(3); seed <= 100; seed++ {
			seeds = append(seeds, seed)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel() // they wait more than they work
			runLive(t, seed)
		})
	}
}

const (
	liveWriters = 4
	liveTxns    = 60 // of each writer
	liveKeys    = 24
)

func liveKey(i int) []byte { return fmt.Appendf(nil, "t%c_r%02d", 'a'+i%2, i) }

// written is one transaction with all that it writes.
type written struct {
	start, commit tso.TS // commit 0: nobody knows
	rows          map[string][]byte
	foreign       bool // by another change-data-capture
}

// story is what the writers did.
type story struct {
	// stops: stores stop too. One that does forgets pessimistic locks, which it had
	// in memory only.
	stops bool

	mu   sync.Mutex
	txns map[tso.TS]*written // guarded by mu; by start-ts
}

func runLive(t *testing.T, seed uint64) {
	c, client := cluster(t, fake.Config{Stores: 3, PDs: 3, ResolvedInterval: 20 * time.Millisecond, PDLag: 30 * time.Millisecond, Seed: seed},
		func(cfg *upstream.Config) {
			cfg.StuckAfter, cfg.SearchEvery = 150*time.Millisecond, 150*time.Millisecond
			cfg.SlowAfter, cfg.RenewAfter = 500*time.Millisecond, 2*time.Second
			cfg.SilentAfter, cfg.ScanWindow = 2*time.Second, 2
		})
	start, err := client.TS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := &story{txns: map[tso.TS]*written{}, stops: seed%2 == 0}
	writers := live.New(c)
	all := newDelivered(t)
	plain := newDelivered(t)
	following, stop := context.WithCancel(ctx)
	g, gctx := errgroup.WithContext(ctx)
	follow := func(d *delivered, sub upstream.Subscription) {
		g.Go(func() error {
			if err := client.Subscribe(following, sub, d.take); following.Err() == nil {
				return err
			}
			return nil // it was told to end
		})
	}
	follow(all, upstream.Subscription{StartTS: start})
	follow(plain, upstream.Subscription{StartTS: start, FilterLoop: true,
		Span: span.Span{Start: span.EncodeKey([]byte("ta_r")), End: span.EncodeKey([]byte("ta_s"))}})
	g.Go(func() error {
		defer stop()
		if err := writeAndDisturb(gctx, writers, s, seed); err != nil {
			return err
		}
		if err := s.litter(gctx, writers, rand.New(rand.NewPCG(seed, 200))); err != nil {
			return err
		}
		end, err := client.TS(gctx)
		if err != nil {
			return err
		}
		if err := errors.Join(all.reached(gctx, end), plain.reached(gctx, end)); err != nil {
			return fmt.Errorf("%w\n%+v\n%+v", err, client.Status(), client.Counts())
		}
		s.judge(t, all, false)
		s.judge(t, plain, true)
		return fold(gctx, t, client, all, end)
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	n := client.Counts()
	t.Logf("%d transactions, %d changes, %d repeated, %d regions; %+v", len(s.txns), len(all.rows), all.repeated, len(c.Regions()), n)
	if n.LocksEnded == 0 {
		t.Error("no lock was left behind")
	}
}

// writeAndDisturb runs all writers while the cluster is disturbed.
func writeAndDisturb(ctx context.Context, writers *live.Client, s *story, seed uint64) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range uint64(liveWriters) {
		g.Go(func() error { return s.write(ctx, writers, rand.New(rand.NewPCG(seed, i))) })
	}
	done, stop := context.WithCancel(ctx)
	var shaken errgroup.Group
	shaken.Go(func() error { return s.shake(done, writers.Cluster(), rand.New(rand.NewPCG(seed, 100))) })
	err := g.Wait()
	stop()
	return errors.Join(err, shaken.Wait())
}

// write is one writer. What lives has ten seconds for its next step; what is to be
// abandoned has none to lose.
func (s *story) write(ctx context.Context, c *live.Client, rng *rand.Rand) error {
	for range liveTxns {
		o := live.Options{Pessimistic: rng.IntN(2) == 0, AsyncCommit: rng.IntN(2) == 0, OnePhase: rng.IntN(2) == 0,
			TTL: 10 * time.Second, LockWait: 50 * time.Millisecond, TxnSource: uint64(rng.IntN(5) / 4)}
		abandon := rng.IntN(6) == 0
		if abandon {
			o.TTL = 60 * time.Millisecond
		}
		txn, err := c.Begin(ctx, o)
		if err != nil {
			return err
		}
		w := &written{start: txn.StartTS(), rows: map[string][]byte{}, foreign: o.TxnSource != 0}
		err = w.run(ctx, txn, rng, abandon)
		if err != nil && !live.Retry(err) {
			return err
		}
		var lost *live.LostError
		if errors.As(err, &lost) && !abandon && !(s.stops && o.Pessimistic) {
			return fmt.Errorf("a transaction that lives was ended: %w", err)
		}
		if err != nil {
			if !abandon {
				if err := txn.Rollback(ctx); err != nil && !live.Retry(err) {
					return err
				}
			}
			continue
		}
		w.commit = txn.CommitTS()
		s.mu.Lock()
		s.txns[w.start] = w
		s.mu.Unlock()
	}
	return nil
}

// litter leaves locks of every kind behind that no writer will ever meet.
func (s *story) litter(ctx context.Context, c *live.Client, rng *rand.Rand) error {
	for i := range 16 {
		o := live.Options{Pessimistic: i&1 != 0, AsyncCommit: i&2 != 0, TTL: time.Duration(1+rng.IntN(100)) * time.Millisecond}
		txn, err := c.Begin(ctx, o)
		if err != nil {
			return err
		}
		w := &written{start: txn.StartTS(), rows: map[string][]byte{}}
		var keys [][]byte
		for j := range 1 + rng.IntN(20) { // small ones and large ones
			keys = append(keys, fmt.Appendf(nil, "t%c_r7%02d%02d", 'a'+j%2, i, j))
		}
		if _, err := txn.Lock(ctx, keys...); err != nil {
			return err
		}
		for _, k := range keys {
			w.rows[string(k)] = []byte("left behind")
			txn.Put(k, w.rows[string(k)])
		}
		if i&4 != 0 {
			if err := txn.Prewrite(ctx); err != nil && !live.Retry(err) {
				return err
			}
		}
		if i&12 == 12 {
			if w.commit, err = txn.CommitPrimary(ctx); err != nil && !live.Retry(err) {
				return err
			}
		}
		s.mu.Lock()
		s.txns[w.start] = w
		s.mu.Unlock()
	}
	return nil
}

func (w *written) run(ctx context.Context, txn *live.Txn, rng *rand.Rand, abandon bool) error {
	var keys [][]byte
	for _, i := range rng.Perm(liveKeys)[:1+rng.IntN(4)] {
		keys = append(keys, liveKey(i))
	}
	if _, err := txn.Lock(ctx, keys...); err != nil {
		return err
	}
	for _, k := range keys {
		if rng.IntN(5) == 0 {
			txn.Delete(k)
			w.rows[string(k)] = nil
			continue
		}
		v := fmt.Appendf(nil, "%d", w.start)
		txn.Put(k, v)
		w.rows[string(k)] = v
	}
	if !abandon {
		if rng.IntN(25) == 0 {
			return slowly(ctx, txn)
		}
		_, err := txn.Commit(ctx)
		return err
	}
	// Its owner dies before, between or after the writes.
	if rng.IntN(4) == 0 {
		return nil
	}
	if err := txn.Prewrite(ctx); err != nil {
		return err
	}
	if rng.IntN(3) == 0 {
		_, err := txn.CommitPrimary(ctx)
		return err
	}
	return nil
}

// slowly commits a transaction that others have time to take for dead.
func slowly(ctx context.Context, txn *live.Txn) error {
	if err := txn.Prewrite(ctx); err != nil {
		return err
	}
	if err := pauseFor(ctx, 400*time.Millisecond); err != nil {
		return err
	}
	if _, err := txn.CommitPrimary(ctx); err != nil {
		return err
	}
	return txn.CommitSecondaries(ctx)
}

// shake disturbs the cluster until ctx ends, and leaves it whole.
func (s *story) shake(ctx context.Context, c *fake.Cluster, rng *rand.Rand) error {
	for ctx.Err() == nil {
		if err := s.shakeOnce(ctx, c, rng); err != nil && ctx.Err() == nil {
			return err
		}
		timer := time.NewTimer(time.Duration(rng.IntN(30)) * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	var err error
	for id := uint64(1); id <= 3; id++ {
		err = errors.Join(err, c.StartStore(id), c.TroubleStore(id, fake.Trouble{}))
	}
	for i := range 3 {
		err = errors.Join(err, c.StartPD(i))
	}
	return errors.Join(err, c.LeadPD(0))
}

func (s *story) shakeOnce(ctx context.Context, c *fake.Cluster, rng *rand.Rand) error {
	all := c.Regions()
	i, store, member := rng.IntN(len(all)), 1+rng.Uint64N(3), rng.IntN(3)
	switch n := rng.IntN(20); {
	case n < 4:
		c.Split(liveKey(rng.IntN(liveKeys)))
	case n < 7:
		if i+1 < len(all) {
			return c.Merge(all[i].ID, all[i+1].ID)
		}
	case n < 12:
		return c.Lead(all[i].ID, store)
	case n < 14:
		c.Cut(store)
	case n == 14:
		if !s.stops {
			return nil
		}
		if err := c.StopStore(ctx, store); err != nil {
			return err
		}
		return errors.Join(pauseFor(ctx, 50*time.Millisecond), c.StartStore(store))
	case n == 15:
		return errors.Join(c.TroubleStore(store, fake.Trouble{HoldOut: true}), pauseFor(ctx, 100*time.Millisecond), c.TroubleStore(store, fake.Trouble{}))
	case n == 16:
		return errors.Join(c.TroubleStore(store, fake.Trouble{DelayOut: 20 * time.Millisecond}), pauseFor(ctx, 100*time.Millisecond), c.TroubleStore(store, fake.Trouble{}))
	case n < 19:
		return c.LeadPD(member)
	default:
		if err := c.StopPD(ctx, member); err != nil {
			return err
		}
		return errors.Join(pauseFor(ctx, 100*time.Millisecond), c.StartPD(member))
	}
	return nil
}

func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil // who is paused for has to be brought back in any case
}

// judge holds what was delivered against what was written.
func (s *story) judge(t *testing.T, d *delivered, part bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := func(key string, w *written) bool { return !part || key[1] == 'a' && !w.foreign }
	got := map[tso.TS]map[string]event.RawKV{}
	for k, r := range d.rows {
		w := s.txns[k.start]
		if w == nil {
			t.Errorf("a change of transaction %d, which nobody committed: %s at %d", k.start, k.key, k.commit)
			continue
		}
		v, ok := w.rows[k.key]
		if !ok || !wanted(k.key, w) || !bytes.Equal(v, r.Value) || (r.Op == event.Delete) != (v == nil) || w.commit != 0 && w.commit != k.commit {
			t.Errorf("change %s=%s of %d at %d, written was %+v", k.key, r.Value, k.start, k.commit, w)
		}
		if got[k.start] == nil {
			got[k.start] = map[string]event.RawKV{}
		}
		if other, again := got[k.start][k.key]; again {
			t.Errorf("key %s of transaction %d comes at %d and at %d", k.key, k.start, k.commit, other.CommitTS)
		}
		got[k.start][k.key] = r
	}
	for start, w := range s.txns {
		if w.commit == 0 && len(got[start]) == 0 {
			continue // rolled back
		}
		for key, v := range w.rows {
			_, ok := got[start][key]
			// Nothing is sent of the end of what was not there before.
			if !ok && wanted(key, w) && v != nil {
				t.Errorf("key %s of transaction %d, committed at %d, is missing", key, start, w.commit)
			}
		}
	}
}

// fold carries all changes out and wants what a snapshot holds.
func fold(ctx context.Context, t *testing.T, client *upstream.Client, d *delivered, at tso.TS) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	newest := map[string]event.RawKV{}
	for k, r := range d.rows {
		if old, ok := newest[k.key]; k.commit <= at && (!ok || old.CommitTS < k.commit) {
			newest[k.key] = r
		}
	}
	n := 0
	err := client.Scan(ctx, []byte("t"), []byte("u"), at, func(key, value []byte) error {
		if n++; !bytes.Equal(newest[string(key)].Value, value) {
			t.Errorf("key %s: the changes end at %s, the snapshot has %s", key, newest[string(key)].Value, value)
		}
		return nil
	})
	live := 0
	for _, r := range newest {
		if r.Op == event.Put {
			live++
		}
	}
	if n != live {
		t.Errorf("the snapshot has %d keys, the changes leave %d", n, live)
	}
	return err
}
