package sorter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/sorter/sortertest"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryAgainstTwin(t *testing.T) {
	sortertest.Run(t, func(testing.TB) sorter.Sorter { return sorter.NewMemory(1 << 30) })
}

// rows makes n rows of 1 kB with commit-ts from, from+1, …
func rows(from tso.TS, n int) []event.RawKV {
	out := make([]event.RawKV, n)
	for i := range out {
		out[i] = event.RawKV{Op: event.Put, CommitTS: from + tso.TS(i), StartTS: from - 1,
			Key: fmt.Appendf(nil, "k%09d", i), Value: bytes.Repeat([]byte{'v'}, 1000)}
	}
	return out
}

// added runs an Add beside the test and says when it is done.
func added(g *errgroup.Group, ctx context.Context, in sorter.Input, rows []event.RawKV, resolved tso.TS) <-chan struct{} {
	done := make(chan struct{})
	g.Go(func() error {
		defer close(done)
		return in.Add(ctx, rows, resolved)
	})
	return done
}

func blocked(done <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-done:
		return false
	default:
		return true
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, s sorter.Sorter, id int64, from tso.TS) sorter.Input {
	t.Helper()
	in, err := s.Open(span.OfTable(id), from)
	must(t, err)
	return in
}

// Over quota, Add waits while the reader has something to free, and only then.
func TestAddWaitsWhileTheReaderCanFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := errgroup.WithContext(context.Background())
		s := sorter.NewMemory(10_000)
		in := open(t, s, 1, 100)
		must(t, in.Add(ctx, rows(101, 20), 110)) // 101–110 closed, the quota is used up

		first := added(g, ctx, in, rows(130, 1), 0)
		if blocked(first) {
			t.Fatal("nothing is readable, yet Add waits: the reader could wait for it in turn")
		}
		s.Readable(110)
		second := added(g, ctx, in, rows(131, 1), 0)
		if !blocked(second) {
			t.Fatal("over quota with rows to free, yet Add came in")
		}
		must(t, in.Add(ctx, nil, 111)) // a resolved-ts alone never waits
		s.Forget(105)
		if !blocked(second) {
			t.Fatal("still over quota, yet Add came in")
		}
		s.Forget(110) // 11 of 21 rows are left, above the quota, but none is readable
		if blocked(second) {
			t.Fatal("nothing to free, yet Add waits")
		}
		s.Readable(111)
		third := added(g, ctx, in, rows(132, 1), 0)
		if !blocked(third) {
			t.Fatal("row 111 can be freed, yet Add came in")
		}
		in2 := open(t, s, 2, 111)
		must(t, in2.Add(ctx, nil, 120))
		must(t, in.Add(ctx, nil, 120))
		s.Readable(tso.Max) // bound by what is resolved
		s.Forget(120)       // 4 rows are left
		if blocked(third) {
			t.Fatal("under quota, yet Add waits")
		}
		must(t, g.Wait())
	})
}

// One transaction larger than the quota: all of it has to come in before its
// resolved-ts can, so nothing may make it wait.
func TestTransactionLargerThanQuotaComesIn(t *testing.T) {
	s := sorter.NewMemory(10_000)
	in := open(t, s, 1, 100)
	s.Readable(100)
	for part := range 10 {
		big := rows(200, 10)
		for i := range big {
			big[i].CommitTS = 200
			big[i].Key = fmt.Appendf(nil, "%d-%d", part, i)
		}
		must(t, in.Add(context.Background(), big, 0))
	}
	must(t, in.Add(context.Background(), nil, 200))
	it, err := s.Fetch(100, 200)
	must(t, err)
	defer it.Close()
	if n, err := it.Next(make([]*event.RawKV, 200)); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	if s.Used() < 100_000 {
		t.Fatalf("%d bytes counted for 100 rows of 1 kB", s.Used())
	}
	s.Forget(200)
	if s.Used() != 0 {
		t.Fatalf("%d bytes left", s.Used())
	}
}

// A span far ahead fills the quota; the one behind must still get in, or the
// ahead one's rows never become readable.
func TestSpanBehindGetsInPastAFullQuota(t *testing.T) {
	s := sorter.NewMemory(10_000)
	ahead, behind := open(t, s, 1, 100), open(t, s, 2, 100)
	must(t, ahead.Add(context.Background(), rows(101, 50), 150))
	s.Readable(tso.Max)
	must(t, behind.Add(context.Background(), rows(101, 50), 150))
	if s.Resolved() != 150 {
		t.Fatal(s.Resolved())
	}
}

func TestAddGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		s := sorter.NewMemory(1)
		in := open(t, s, 1, 100)
		must(t, in.Add(ctx, rows(101, 1), 101))
		s.Readable(101)
		before := s.Used()
		var g errgroup.Group
		done := added(&g, ctx, in, rows(102, 1), 0)
		if !blocked(done) {
			t.Fatal("came in")
		}
		why := errors.New("told to stop")
		cancel(why)
		if err := g.Wait(); !errors.Is(err, why) {
			t.Fatal(err)
		}
		if s.Used() != before {
			t.Fatal("rows that did not come in are counted")
		}
	})
}

// Closing a span, or opening one below, lets those who wait look again.
func TestCloseFreesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := errgroup.WithContext(context.Background())
		s := sorter.NewMemory(1)
		full, other := open(t, s, 1, 100), open(t, s, 2, 103)
		must(t, full.Add(ctx, rows(101, 3), 103))
		s.Readable(103)
		done := added(g, ctx, other, rows(104, 1), 104)
		if !blocked(done) {
			t.Fatal("came in")
		}
		full.Close()
		if blocked(done) {
			t.Fatal("the quota is free, yet Add waits")
		}
		must(t, g.Wait())
		other.Close()
		if s.Used() != 0 || s.Resolved() != tso.Max {
			t.Fatal(s.Used(), s.Resolved())
		}
	})
}

func TestAdvancedTellsOfEveryRise(t *testing.T) {
	s := sorter.NewMemory(1 << 20)
	a, b := open(t, s, 1, 100), open(t, s, 2, 100)
	told := func() bool {
		select {
		case <-s.Advanced():
			return true
		default:
			return false
		}
	}
	must(t, a.Add(context.Background(), nil, 110))
	if told() {
		t.Fatal("the other span still stands at 100")
	}
	must(t, b.Add(context.Background(), nil, 105))
	if !told() || told() {
		t.Fatal("want one token")
	}
	b.Close()
	if !told() {
		t.Fatal("closing the slowest span is a rise")
	}
}

// Readers and forgetters beside writers; the race detector judges.
func TestSideBySide(t *testing.T) {
	g, ctx := errgroup.WithContext(context.Background())
	s := sorter.NewMemory(200_000)
	const spans, steps, each = 4, 200, 5
	for id := range int64(spans) {
		in := open(t, s, id+1, 0)
		g.Go(func() error {
			for step := range steps {
				from := tso.TS(step*each + 1)
				if err := in.Add(ctx, rows(from, each), from+each-1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	got := 0
	g.Go(func() error {
		dst := make([]*event.RawKV, 7)
		for last := tso.TS(0); last < steps*each; {
			select {
			case <-s.Advanced():
			case <-ctx.Done():
				return ctx.Err()
			}
			upper := s.Resolved()
			s.Readable(upper)
			it, err := s.Fetch(last, upper)
			if err != nil {
				return err
			}
			for n := len(dst); n == len(dst); got += n {
				if n, err = it.Next(dst); err != nil {
					return err
				}
			}
			s.Forget(upper)
			last = upper
		}
		return nil
	})
	must(t, g.Wait())
	if got != spans*steps*each || s.Used() != 0 {
		t.Fatalf("%d rows, %d bytes left", got, s.Used())
	}
}
