package live_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
)

var seed = flag.Uint64("seed", 0, "seed of the random histories; 0 draws one")

const (
	accounts = 6
	clients  = 6
	rounds   = 30
	opening  = 100
)

// account is the key of an account: they lie in two tables.
func account(i int) []byte {
	return fmt.Appendf(nil, "t%c_r%d", 'a'+i%2, i)
}

func amount(v []byte) int { return int(int64(binary.BigEndian.Uint64(v))) }
func bytesOf(n int) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(int64(n)))
}

// balances is the state of the bank.
type balances [accounts]int

// step is one transaction of the history: what it read, and what it wrote.
type step struct {
	start, commit tso.TS // commit is 0 where it only read, or was never committed
	reads         map[int]int
	writes        map[int]int
	locked        bool // pessimistic: it read, under its locks, what is newest
	unknown       bool // its client died: only the store knows
}

// bank runs clients that transfer and read, and records what they see.
type bank struct {
	t      *testing.T
	client *live.Client
	begin  time.Time

	mu      sync.Mutex
	history []porcupine.Operation
}

func (b *bank) clock() int64 { return int64(time.Since(b.begin)) }

func (b *bank) record(id int, call int64, s *step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history = append(b.history, porcupine.Operation{ClientId: id, Input: s, Call: call, Return: b.clock()})
}

// work is one client: transfers between two accounts, audits of all, sums that
// are written to an account of their own, each in any kind of transaction.
func (b *bank) work(ctx context.Context, id int, rng *rand.Rand) error {
	for round, done := 0, 0; round < rounds || done < rounds/2; round++ {
		call := b.clock()
		o := live.Options{
			Pessimistic: rng.IntN(2) == 0, AsyncCommit: rng.IntN(2) == 0, OnePhase: rng.IntN(2) == 0,
			TTL: 100 * time.Millisecond, LockWait: 20 * time.Millisecond,
		}
		txn, err := b.client.Begin(ctx, o)
		if err != nil {
			return err
		}
		s := &step{start: txn.StartTS(), locked: o.Pessimistic, reads: map[int]int{}, writes: map[int]int{}}
		if rng.IntN(3) == 0 {
			err = b.audit(ctx, txn, s)
		} else {
			err = b.transfer(ctx, txn, s, rng)
		}
		switch {
		case live.Retry(err):
			if err := txn.Rollback(ctx); err != nil && !live.Retry(err) {
				return err
			}
			continue // it did nothing
		case err != nil:
			return err
		}
		if !s.unknown {
			done++
		}
		s.commit = txn.CommitTS()
		b.record(id, call, s)
	}
	return nil
}

func (b *bank) audit(ctx context.Context, txn *live.Txn, s *step) error {
	return txn.Scan(ctx, []byte("ta_r"), []byte("tb_s"), func(p live.Pair) bool {
		s.reads[int(p.Key[len(p.Key)-1]-'0')] = amount(p.Value)
		return true
	})
}

func (b *bank) transfer(ctx context.Context, txn *live.Txn, s *step, rng *rand.Rand) error {
	from, to := rng.IntN(accounts), rng.IntN(accounts)
	if from == to {
		to = (to + 1) % accounts
	}
	both := [][]byte{account(from), account(to)}
	values, err := txn.Lock(ctx, both...)
	if err != nil {
		return err
	}
	for i, n := range []int{from, to} {
		var v []byte
		if values != nil {
			v = values[i]
		} else if v, err = txn.Get(ctx, both[i]); err != nil {
			return err
		}
		s.reads[n] = amount(v)
	}
	sum := rng.IntN(10)
	s.writes[from], s.writes[to] = s.reads[from]-sum, s.reads[to]+sum
	txn.Put(both[0], bytesOf(s.writes[from]))
	txn.Put(both[1], bytesOf(s.writes[to]))
	if rng.IntN(8) > 0 {
		_, err = txn.Commit(ctx)
		return err
	}
	// The client dies on the way.
	s.unknown = true
	if err = txn.Prewrite(ctx); err != nil {
		return err
	}
	if rng.IntN(2) == 0 {
		_, err = txn.CommitPrimary(ctx)
	}
	return err
}

// disturb splits, merges and moves regions, and kills stores, until ctx ends.
func (b *bank) disturb(ctx context.Context, rng *rand.Rand) error {
	cluster := b.client.Cluster()
	for ctx.Err() == nil {
		switch rng.IntN(5) {
		case 0:
			cluster.Split(account(rng.IntN(accounts)))
		case 1:
			if all := cluster.Regions(); len(all) > 1 {
				i := rng.IntN(len(all) - 1)
				if err := cluster.Merge(all[i].ID, all[i+1].ID); err != nil {
					return err
				}
			}
		case 2:
			all := cluster.Regions()
			if err := cluster.Lead(all[rng.IntN(len(all))].ID, 1+rng.Uint64N(3)); err != nil {
				return err
			}
		case 3:
			id := 1 + rng.Uint64N(3)
			if err := cluster.StopStore(ctx, id); err != nil {
				return ctx.Err()
			}
			if err := cluster.StartStore(id); err != nil {
				return err
			}
		}
		timer := time.NewTimer(time.Duration(rng.IntN(5)) * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	return nil
}

func seedOf(t *testing.T) uint64 {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d", s)
	return s
}

// TestHistoriesAreSnapshotIsolated runs a bank under disturbance and judges what
// its clients saw, in two ways that share nothing: by the timestamps (each read
// is that of the snapshot, no two that overlap wrote the same key), and, as a
// transfer writes all that it reads, by a linearizable bank (porcupine).
func TestHistoriesAreSnapshotIsolated(t *testing.T) {
	s := seedOf(t)
	for run := range 4 {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			t.Parallel()
			b := &bank{t: t, client: start(t), begin: time.Now()}
			b.run(rand.New(rand.NewPCG(s, uint64(run))))
			b.settle()
			b.checkSnapshots()
			b.checkLinearizable()
		})
	}
}

func (b *bank) run(rng *rand.Rand) {
	txn := begin(b.t, b.client, live.Options{})
	for i := range accounts {
		txn.Put(account(i), bytesOf(opening))
	}
	_, err := txn.Commit(b.t.Context())
	must(b.t, err)
	ctx, cancel := context.WithTimeout(b.t.Context(), guard)
	defer cancel()
	calm, stop := context.WithCancel(ctx)
	var trouble, work errgroup.Group
	weather := rand.New(rand.NewPCG(rng.Uint64(), 0))
	trouble.Go(func() error { return b.disturb(calm, weather) })
	for id := range clients {
		mine := rand.New(rand.NewPCG(rng.Uint64(), 1))
		work.Go(func() error { return b.work(ctx, id, mine) })
	}
	err = work.Wait()
	stop()
	if err := errors.Join(err, trouble.Wait()); err != nil && !errors.Is(err, context.Canceled) {
		b.t.Fatal(err)
	}
}

// settle finds out what became of the transactions whose clients died: whoever
// reads everything has to decide it. They may have taken effect at any time after.
func (b *bank) settle() {
	read(b.t, b.client)
	kept := b.history[:0]
	for _, op := range b.history {
		s := op.Input.(*step)
		if s.unknown {
			s.commit = b.committed(s)
			op.Return = b.clock()
			if s.commit == 0 {
				continue
			}
		}
		kept = append(kept, op)
	}
	b.history = kept
	if len(b.history) < clients*rounds/4 {
		b.t.Errorf("only %d of %d transactions were committed", len(b.history), clients*rounds)
	}
}

func (b *bank) committed(s *step) tso.TS {
	for i := range s.writes {
		for _, v := range b.client.Cluster().Snapshot().Versions(account(i)) {
			if v.StartTS == s.start {
				return v.CommitTS
			}
		}
	}
	return 0
}

// checkSnapshots judges by timestamps.
func (b *bank) checkSnapshots() {
	var writers []*step
	for _, op := range b.history {
		if s := op.Input.(*step); s.commit != 0 {
			writers = append(writers, s)
		}
	}
	slices.SortFunc(writers, func(a, b *step) int { return int(int64(a.commit - b.commit)) })
	for i, s := range writers {
		for _, o := range writers[:i] {
			for key := range s.writes {
				if _, both := o.writes[key]; both && o.commit > s.start && !s.locked {
					b.t.Errorf("%d-%d and %d-%d both wrote account %d: an update is lost", o.start, o.commit, s.start, s.commit, key)
				}
			}
		}
	}
	for _, op := range b.history {
		s := op.Input.(*step)
		at := s.start
		if s.commit != 0 {
			at = s.commit.Prev() // what it read it also wrote, so it is the newest
		}
		sum := 0
		for key, got := range s.reads {
			want := opening
			for _, w := range writers {
				if v, wrote := w.writes[key]; wrote && w.commit <= at {
					want = v
				}
			}
			if got != want {
				b.t.Errorf("%d-%d read %d of account %d, at %d it held %d", s.start, s.commit, got, key, at, want)
			}
			sum += got
		}
		if len(s.reads) == accounts && sum != accounts*opening {
			b.t.Errorf("the audit at %d finds %d", s.start, sum)
		}
	}
}

// checkLinearizable asks porcupine for one order that explains everything.
func (b *bank) checkLinearizable() {
	model := porcupine.Model{
		Init: func() any {
			var all balances
			for i := range all {
				all[i] = opening
			}
			return all
		},
		Step: func(state, input, _ any) (bool, any) {
			all, s := state.(balances), input.(*step)
			for key, v := range s.reads {
				if all[key] != v {
					return false, state
				}
			}
			for key, v := range s.writes {
				all[key] = v
			}
			return true, all
		},
	}
	switch porcupine.CheckOperationsTimeout(model, b.history, guard) {
	case porcupine.Illegal:
		b.t.Error("no order of the transactions explains what they read")
	case porcupine.Unknown:
		b.t.Error("no verdict in time")
	}
}

// The judges see what is wrong: a history with a lost update, and one with a
// torn read.
func TestTheJudgesSee(t *testing.T) {
	lost := []*step{
		{start: 1, commit: 5, reads: map[int]int{0: 100, 1: 100}, writes: map[int]int{0: 90, 1: 110}},
		{start: 2, commit: 6, reads: map[int]int{0: 100, 2: 100}, writes: map[int]int{0: 80, 2: 120}},
	}
	torn := []*step{
		{start: 1, commit: 5, reads: map[int]int{0: 100, 1: 100}, writes: map[int]int{0: 90, 1: 110}},
		{start: 3, reads: map[int]int{0: 90, 1: 100}},
	}
	for name, steps := range map[string][]*step{"lost update": lost, "torn read": torn} {
		blind := &testing.T{}
		b := &bank{t: blind}
		for i, s := range steps {
			b.history = append(b.history, porcupine.Operation{ClientId: i, Input: s, Call: 0, Return: 10})
		}
		b.checkSnapshots()
		if !blind.Failed() {
			t.Errorf("%s: the judge by timestamps is blind", name)
		}
		blind = &testing.T{}
		b.t = blind
		b.checkLinearizable()
		if !blind.Failed() {
			t.Errorf("%s: the judge by order is blind", name)
		}
	}
}
