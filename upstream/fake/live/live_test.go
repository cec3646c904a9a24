package live_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is a client of a fresh cluster whose keys t0…t9 lie in two regions.
func start(t *testing.T) *live.Client {
	t.Helper()
	c, err := fake.Start(fake.Config{Calm: true, ResolvedInterval: 2 * time.Millisecond})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	c.Split([]byte("t5"))
	return live.New(c)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, c *live.Client, o live.Options) *live.Txn {
	t.Helper()
	txn, err := c.Begin(t.Context(), o)
	must(t, err)
	return txn
}

func write(t *testing.T, c *live.Client, o live.Options, keysAndValues ...string) *live.Txn {
	t.Helper()
	txn := begin(t, c, o)
	for i := 0; i < len(keysAndValues); i += 2 {
		txn.Put([]byte(keysAndValues[i]), []byte(keysAndValues[i+1]))
	}
	return txn
}

func set(t *testing.T, c *live.Client, o live.Options, keysAndValues ...string) tso.TS {
	t.Helper()
	ts, err := write(t, c, o, keysAndValues...).Commit(t.Context())
	must(t, err)
	return ts
}

// guard is when a test gives up on what has to come, on however slow a machine.
const guard = 3 * time.Minute

// read is all that exists now.
func read(t *testing.T, c *live.Client) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	at, err := c.Cluster().Timestamp(ctx)
	must(t, err)
	var out string
	must(t, c.Scan(ctx, at, []byte("t"), []byte("u"), func(p live.Pair) bool {
		out += fmt.Sprintf("%s=%s ", p.Key, p.Value)
		return true
	}))
	return out
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// kinds are the ways in which a transaction may commit.
var kinds = map[string]live.Options{
	"two phases":               {},
	"async commit":             {AsyncCommit: true},
	"one phase":                {OnePhase: true},
	"pessimistic":              {Pessimistic: true},
	"pessimistic, async":       {Pessimistic: true, AsyncCommit: true},
	"pessimistic, one phase":   {Pessimistic: true, OnePhase: true},
	"async, one phase at best": {AsyncCommit: true, OnePhase: true},
}

func eachKind(t *testing.T, test func(t *testing.T, o live.Options)) {
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, o)
		})
	}
}

func TestWhatIsCommittedIsRead(t *testing.T) {
	eachKind(t, func(t *testing.T, o live.Options) {
		c := start(t)
		ctx := t.Context()
		before := set(t, c, o, "t1", "a", "t2", "b", "t7", "c")
		txn := begin(t, c, o)
		if txn.StartTS() < before {
			t.Errorf("begun at %d, after a commit at %d", txn.StartTS(), before)
		}
		txn.Put([]byte("t1"), []byte("A"))
		txn.Delete([]byte("t2"))
		txn.Insert([]byte("t8"), nil)
		for key, want := range map[string]string{"t1": "A", "t2": "<nil>", "t7": "c", "t8": "", "t9": "<nil>"} {
			v, err := txn.Get(ctx, []byte(key))
			must(t, err)
			got := string(v)
			if v == nil {
				got = "<nil>"
			}
			expect(t, got, want)
		}
		expect(t, read(t, c), "t1=a t2=b t7=c ")
		at, err := txn.Commit(ctx)
		must(t, err)
		if at != txn.CommitTS() || at <= txn.StartTS() {
			t.Errorf("committed at %d, begun at %d", at, txn.StartTS())
		}
		expect(t, read(t, c), "t1=A t7=c t8= ")
		// One region: where the store may, it commits at once.
		set(t, c, o, "t1", "x", "t2", "y")
		expect(t, read(t, c), "t1=x t2=y t7=c t8= ")
		if v, err := c.Get(ctx, before, []byte("t1")); err != nil || string(v) != "a" {
			t.Errorf("at %d: %q, %v", before, v, err)
		}
		again := begin(t, c, o)
		again.Insert([]byte("t7"), []byte("z"))
		var exists *live.ExistsError
		if _, err := again.Commit(ctx); !errors.As(err, &exists) || live.Retry(err) {
			t.Errorf("insert of what exists: %v", err)
		}
		if err := again.Rollback(ctx); err != nil {
			t.Errorf("rolled back twice: %v", err)
		}
		if at, err := begin(t, c, o).Commit(ctx); err != nil || at != 0 {
			t.Errorf("a commit of nothing: %d, %v", at, err)
		}
	})
}

// Of two that read and write the same key one has to fail: no update is lost.
func TestLostUpdatesAreRefused(t *testing.T) {
	eachKind(t, func(t *testing.T, o live.Options) {
		c := start(t)
		set(t, c, o, "t1", "0")
		o.Pessimistic = false
		one, two := begin(t, c, o), begin(t, c, o)
		for _, txn := range []*live.Txn{one, two} {
			v, err := txn.Get(t.Context(), []byte("t1"))
			must(t, err)
			txn.Put([]byte("t1"), append(v, '1'))
			txn.Put([]byte("t9"), []byte("x"))
		}
		_, err := two.Commit(t.Context())
		must(t, err)
		if _, err := one.Commit(t.Context()); !live.Retry(err) {
			t.Errorf("both were committed, or: %v", err)
		}
		expect(t, read(t, c), "t1=01 t9=x ")
	})
}

// Two that read what the other writes may both succeed: snapshots are isolated,
// not serialized. A lock on what was read keeps that from happening.
func TestWriteSkewIsAllowed(t *testing.T) {
	eachKind(t, func(t *testing.T, o live.Options) {
		for _, locked := range []bool{false, true} {
			c := start(t)
			set(t, c, o, "t1", "1", "t6", "1")
			o.Pessimistic = false
			one, two := begin(t, c, o), begin(t, c, o)
			for txn, keys := range map[*live.Txn][2]string{one: {"t1", "t6"}, two: {"t6", "t1"}} {
				v, err := txn.Get(t.Context(), []byte(keys[0]))
				must(t, err)
				expect(t, string(v), "1")
				if locked {
					_, err := txn.Lock(t.Context(), []byte(keys[0]))
					must(t, err)
				}
				txn.Put([]byte(keys[1]), []byte("0"))
			}
			_, err := two.Commit(t.Context())
			must(t, err)
			if _, err = one.Commit(t.Context()); (err != nil) != locked {
				t.Errorf("locked %v: %v", locked, err)
			}
		}
	})
}

func TestPessimisticLocksWait(t *testing.T) {
	c := start(t)
	ctx := t.Context()
	o := live.Options{Pessimistic: true, LockWait: 20 * time.Millisecond}
	set(t, c, o, "t1", "a", "t7", "b")
	one, two := begin(t, c, o), begin(t, c, o)
	values, err := one.Lock(ctx, []byte("t7"), []byte("t1"), []byte("t9"))
	must(t, err)
	expect(t, fmt.Sprintf("%s", values), "[b a ]")
	if values[2] != nil {
		t.Error("what does not exist has a value")
	}
	got := make(chan string, 1)
	go func() {
		v, err := two.Lock(ctx, []byte("t1"))
		got <- fmt.Sprintf("%s %v", v, err)
	}()
	select {
	case s := <-got:
		t.Errorf("the second has the lock: %s", s)
	case <-time.After(60 * time.Millisecond):
	}
	one.Put([]byte("t1"), []byte("A"))
	_, err = one.Commit(ctx)
	must(t, err)
	expect(t, <-got, "[A] <nil>") // the newest, not that of its start
	must(t, two.Rollback(ctx))
	expect(t, read(t, c), "t1=A t7=b ")

	// Each waits for the other: one of them is told.
	one, two = begin(t, c, o), begin(t, c, o)
	_, err = one.Lock(ctx, []byte("t1"))
	must(t, err)
	_, err = two.Lock(ctx, []byte("t7"))
	must(t, err)
	ends := make(chan error, 2)
	for txn, key := range map[*live.Txn]string{one: "t7", two: "t1"} {
		go func() {
			_, err := txn.Lock(ctx, []byte(key))
			if err != nil {
				err = errors.Join(err, txn.Rollback(ctx))
			}
			ends <- err
		}()
	}
	var dead *live.DeadlockError
	if first, second := <-ends, <-ends; !errors.As(first, &dead) || second != nil {
		t.Errorf("a deadlock ends with %v and %v", first, second)
	}
}

// Clients that die leave locks, which whoever comes across them ends, the way
// that the transaction had been decided.
func TestAbandonedLocks(t *testing.T) {
	eachKind(t, func(t *testing.T, o live.Options) {
		c := start(t)
		ctx := t.Context()
		set(t, c, o, "t1", "a", "t7", "b")
		short := o
		short.TTL = 50 * time.Millisecond
		prepare := func(key1, key2, value string) *live.Txn {
			txn := write(t, c, short, key1, value, key2, value)
			if o.Pessimistic {
				_, err := txn.Lock(ctx, []byte(key1), []byte(key2))
				must(t, err)
			}
			return txn
		}
		if o.Pessimistic { // dead before the first phase
			prepare("t1", "t7", "x")
		}
		txn := prepare("t1", "t7", "c") // takes the locks over, once they have expired
		must(t, txn.Prewrite(ctx))
		want := "t1=a t7=b "
		if o.AsyncCommit {
			want = "t1=c t7=c " // all its locks are there: it is committed
		}
		expect(t, read(t, c), want)

		must(t, prepare("t2", "t8", "d").Prewrite(ctx))
		must(t, begin(t, c, o).Rollback(ctx))
		set(t, c, o, "t8", "e") // a writer meets the locks too
		want2 := "t8=e "
		if o.AsyncCommit {
			want2 = "t2=d t8=e "
		}
		expect(t, read(t, c), orderOf(want+want2))

		txn = prepare("t3", "t9", "f")
		must(t, txn.Prewrite(ctx))
		_, err := txn.CommitPrimary(ctx)
		must(t, err)
		expect(t, read(t, c), orderOf(want+want2+"t3=f t9=f "))
		must(t, txn.CommitSecondaries(ctx)) // late, to no effect
		if txn.Rollback(ctx) == nil {
			t.Error("a committed transaction is rolled back")
		}
	})
}

// orderOf sorts "t7=b t1=a ".
func orderOf(s string) string {
	var pairs []string
	for len(s) > 0 {
		n := 0
		for s[n] != ' ' {
			n++
		}
		pairs, s = append(pairs, s[:n+1]), s[n+1:]
	}
	out := ""
	for range pairs {
		least := ""
		for _, p := range pairs {
			if p > "" && (least == "" || p < least) {
				least = p
			}
		}
		for i, p := range pairs {
			if p == least {
				pairs[i] = ""
			}
		}
		out += least
	}
	return out
}

// An async commit of which a part never came is rolled back.
func TestHalfAnAsyncCommit(t *testing.T) {
	c := start(t)
	o := live.Options{AsyncCommit: true, TTL: 50 * time.Millisecond}
	set(t, c, o, "t1", "a", "t7", "b")
	stopped := c.Cluster().Locate([]byte("t7")).Leader.Store
	if other := c.Cluster().Locate([]byte("t1")).Leader.Store; other == stopped {
		stopped = other%3 + 1
		must(t, c.Cluster().Lead(c.Cluster().Locate([]byte("t7")).ID, stopped))
	}
	must(t, c.Cluster().StopStore(t.Context(), stopped))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	txn := write(t, c, o, "t1", "x", "t7", "x")
	go func() {
		defer cancel()
		for !locked(c) && t.Context().Err() == nil {
			<-time.After(time.Millisecond)
		}
	}()
	if err := txn.Prewrite(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("prewritten on a store that is down: %v", err)
	}
	must(t, c.Cluster().StartStore(stopped))
	expect(t, read(t, c), "t1=a t7=b ")
	if err := txn.Prewrite(t.Context()); !live.Retry(err) {
		t.Errorf("the client comes back: %v", err)
	}
}

// locked says whether a lock with data stands.
func locked(c *live.Client) bool {
	found := false
	c.Cluster().Snapshot().History(nil, nil, tso.Max, func(mvcc.Change) bool {
		found = true
		return false
	})
	return found
}

// A transaction that lives is not hindered: readers pass it, and it commits
// above them; heartbeats keep it from being taken for dead.
func TestLargeTransactionsLive(t *testing.T) {
	c := start(t)
	ctx := t.Context()
	set(t, c, live.Options{}, "t1", "a", "t7", "b")
	txn := write(t, c, live.Options{TTL: 150 * time.Millisecond}, "t1", "c", "t7", "c")
	must(t, txn.Prewrite(ctx))
	for c.Cluster().TS().Sub(txn.StartTS()) < 400*time.Millisecond {
		expect(t, read(t, c), "t1=a t7=b ")
		must(t, txn.Heartbeat(ctx))
	}
	asked, err := c.Cluster().Timestamp(ctx)
	must(t, err)
	expect(t, read(t, c), "t1=a t7=b ")
	at, err := txn.CommitPrimary(ctx)
	must(t, err)
	if at <= asked {
		t.Errorf("committed at %d, passed by a reader at %d or above", at, asked)
	}
	must(t, txn.CommitSecondaries(ctx))
	expect(t, read(t, c), "t1=c t7=c ")
}

// What is committed before the cluster runs lies below what is promised afterwards: a
// changefeed that starts there sees it.
func TestCommitBeforeRun(t *testing.T) {
	c, err := fake.Start(fake.Config{Calm: true})
	must(t, err)
	defer func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		must(t, c.Run(ctx)) // closes what was opened
	}()
	txn, err := live.New(c).Begin(t.Context(), live.Options{})
	must(t, err)
	txn.Put([]byte("t1"), []byte("early"))
	at, err := txn.Commit(t.Context())
	must(t, err)
	if now := c.TS(); now <= at {
		t.Errorf("committed at %d, and now it is %d", at, now)
	}
}
