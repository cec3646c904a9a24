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
	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/sorter/sortertest"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryAgainstTwin(t *testing.T) {
	sortertest.Run(t, func(*rapid.T) sortertest.World { return sortertest.World{Sorter: sorter.NewMemory(1 << 30)} })
}

// rows makes n rows of 1 kB with commit-ts from, from+1, …
func rows(from tso.TS, n int) []event.RawKV { return rowsOf(1, from, n) }

// rowsOf makes them for a table.
func rowsOf(id int64, from tso.TS, n int) []event.RawKV {
	out := make([]event.RawKV, n)
	for i := range out {
		out[i] = event.RawKV{Op: event.Put, CommitTS: from + tso.TS(i), StartTS: from - 1,
			Key: fmt.Appendf(nil, "%d-k%09d", id, i), Value: bytes.Repeat([]byte{'v'}, 1000)}
	}
	return out
}

// added runs an Add beside the test and says when it is done.
func added(g *errgroup.Group, ctx context.Context, in *sorter.Input, rows []event.RawKV, resolved tso.TS) <-chan struct{} {
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

func newInput(s *sorter.Sorter, id int64, from tso.TS) *sorter.Input {
	return s.NewInput(span.OfTable(id), from)
}

// read makes a reader of inputs from their start.
func read(t *testing.T, s *sorter.Sorter, of ...*sorter.Input) *sorter.Reader {
	t.Helper()
	r := s.NewReader()
	for _, in := range of {
		if !r.Attach(in, in.Floor()) {
			t.Fatal("not attached")
		}
	}
	return r
}

// count reads all rows of a range.
func count(t *testing.T, r *sorter.Reader, lower, upper tso.TS) (rows int) {
	t.Helper()
	it, err := r.Fetch(lower, upper)
	must(t, err)
	defer it.Close()
	dst := make([]*event.RawKV, 10)
	for {
		n, err := it.Next(dst)
		must(t, err)
		if rows += n; n < len(dst) {
			return rows
		}
	}
}

// Over quota, Add waits while the reader has something to free, and only then.
func TestAddWaitsWhileTheReaderCanFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := errgroup.WithContext(context.Background())
		s := sorter.NewMemory(10_000)
		in := newInput(s, 1, 100)
		r := read(t, s, in)
		must(t, in.Add(ctx, rows(101, 20), 110)) // 101–110 closed, the quota is used up
		first := added(g, ctx, in, rows(130, 1), 0)
		if blocked(first) {
			t.Fatal("nothing is readable, yet Add waits: the reader could wait for it in turn")
		}
		r.Readable(110)
		second := added(g, ctx, in, rows(131, 1), 0)
		if !blocked(second) {
			t.Fatal("over quota with rows to free, yet Add came in")
		}
		must(t, in.Add(ctx, nil, 111)) // a resolved-ts alone never waits
		r.Forget(105)
		if !blocked(second) {
			t.Fatal("still over quota, yet Add came in")
		}
		r.Forget(110) // 11 of 21 rows are left, above the quota, but none is readable
		if blocked(second) {
			t.Fatal("nothing to free, yet Add waits")
		}
		r.Readable(111)
		third := added(g, ctx, in, rows(132, 1), 0)
		if !blocked(third) {
			t.Fatal("row 111 can be freed, yet Add came in")
		}
		in2 := newInput(s, 2, 111)
		if !r.Attach(in2, 111) {
			t.Fatal("not attached")
		}
		must(t, in2.Add(ctx, nil, 120))
		must(t, in.Add(ctx, nil, 120))
		r.Readable(tso.Max) // bound by what is resolved
		r.Forget(120)       // 4 rows are left
		if blocked(third) {
			t.Fatal("under quota, yet Add waits")
		}
		must(t, g.Wait())
	})
}

// Add does not wait for one reader while another one has nothing left to do: it
// would be kept from its rows.
func TestAddDoesNotWaitForASlowReaderAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := errgroup.WithContext(context.Background())
		s := sorter.NewMemory(10_000)
		in := newInput(s, 1, 100)
		fast, slow := read(t, s, in), read(t, s, in)
		must(t, in.Add(ctx, rows(101, 20), 120))
		fast.Readable(120)
		slow.Readable(120)
		waits := added(g, ctx, in, rows(121, 1), 121)
		if !blocked(waits) {
			t.Fatal("both have something to free, yet Add came in")
		}
		fast.Forget(120)
		if blocked(waits) {
			t.Fatal("the fast reader has read everything, yet Add waits")
		}
		fast.Readable(121)
		waits = added(g, ctx, in, rows(122, 1), 122)
		if !blocked(waits) {
			t.Fatal("both have something to free, yet Add came in")
		}
		slow.Close()
		fast.Forget(121)
		if blocked(waits) {
			t.Fatal("the slow one is gone, yet Add waits")
		}
		must(t, g.Wait())
		if used := s.Used().Memory; used > 2_000 {
			t.Fatalf("%d bytes are held, one row is needed", used)
		}
	})
}

// One transaction larger than the quota: all of it has to come in before its
// resolved-ts can, so nothing may make it wait.
func TestTransactionLargerThanQuotaComesIn(t *testing.T) {
	for name, s := range map[string]*sorter.Sorter{"memory": sorter.NewMemory(10_000), "disk": openAt(t, t.TempDir(), 1<<30)} {
		t.Run(name, func(t *testing.T) {
			in := newInput(s, 1, 100)
			r := read(t, s, in)
			r.Readable(100)
			for part := range 10 {
				big := rows(200, 10)
				for i := range big {
					big[i].CommitTS = 200
					big[i].Key = fmt.Appendf(nil, "%d-%d", i, part)
				}
				must(t, in.Add(context.Background(), big, 0))
			}
			must(t, in.Add(context.Background(), nil, 200))
			if n := count(t, r, 100, 200); n != 100 {
				t.Fatal(n)
			}
			if used := s.Used(); name == "memory" && used.Memory < 100_000 || name == "disk" && used.Memory > 20_000 {
				t.Fatalf("%+v for 100 rows of 1 kB", used)
			}
			r.Forget(200)
			if s.Used() != (sorter.Used{}) {
				t.Fatalf("%+v left", s.Used())
			}
		})
	}
}

// A span far ahead fills the quota; the one behind must still get in, or the
// ahead one's rows never become readable.
func TestSpanBehindGetsInPastAFullQuota(t *testing.T) {
	s := sorter.NewMemory(10_000)
	ahead, behind := newInput(s, 1, 100), newInput(s, 2, 100)
	r := read(t, s, ahead, behind)
	must(t, ahead.Add(context.Background(), rows(101, 50), 150))
	r.Readable(tso.Max)
	must(t, behind.Add(context.Background(), rows(101, 50), 150))
	if r.Resolved() != 150 {
		t.Fatal(r.Resolved())
	}
}

func TestAddGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		s := sorter.NewMemory(1)
		in := newInput(s, 1, 100)
		r := read(t, s, in)
		must(t, in.Add(ctx, rows(101, 1), 101))
		r.Readable(101)
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

// Closing an input lets those who wait look again.
func TestCloseFreesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := errgroup.WithContext(context.Background())
		s := sorter.NewMemory(1)
		full, other := newInput(s, 1, 100), newInput(s, 2, 103)
		r := read(t, s, full, other)
		must(t, full.Add(ctx, rows(101, 3), 103))
		r.Readable(103)
		done := added(g, ctx, other, rows(104, 1), 104)
		if !blocked(done) {
			t.Fatal("came in")
		}
		r.Detach(full)
		full.Close()
		if blocked(done) {
			t.Fatal("the quota is free, yet Add waits")
		}
		must(t, g.Wait())
		r.Detach(other)
		other.Close()
		if s.Used() != (sorter.Used{}) || r.Resolved() != tso.Max {
			t.Fatal(s.Used(), r.Resolved())
		}
	})
}

func TestAdvancedTellsOfEveryRise(t *testing.T) {
	s := sorter.NewMemory(1 << 20)
	a, b := newInput(s, 1, 100), newInput(s, 2, 100)
	r := read(t, s, a, b)
	told := func() bool {
		select {
		case <-r.Advanced():
			return true
		default:
			return false
		}
	}
	must(t, a.Add(context.Background(), nil, 110))
	must(t, b.Add(context.Background(), nil, 100))
	if told() {
		t.Fatal("the other span still stands at 100")
	}
	must(t, b.Add(context.Background(), nil, 105))
	if !told() || told() {
		t.Fatal("want one token")
	}
	r.Detach(b)
	if !told() {
		t.Fatal("leaving the slowest span is a rise")
	}
}

// Readers beside writers, on disk too; the race detector judges.
func TestSideBySide(t *testing.T) {
	g, ctx := errgroup.WithContext(context.Background())
	s := openAt(t, t.TempDir(), 1<<30)
	const spans, steps, each = 4, 200, 5
	var inputs []*sorter.Input
	for id := range int64(spans) {
		inputs = append(inputs, newInput(s, id+1, 0))
	}
	var readers []*sorter.Reader
	for range 3 {
		readers = append(readers, read(t, s, inputs...))
	}
	for id, in := range inputs {
		g.Go(func() error {
			for step := range steps {
				from := tso.TS(step*each + 1)
				if err := in.Add(ctx, rowsOf(int64(id), from, each), from+each-1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for lag, r := range readers {
		g.Go(func() error {
			got := 0
			dst := make([]*event.RawKV, 7)
			for last := tso.TS(0); last < steps*each; {
				select {
				case <-r.Advanced():
				case <-ctx.Done():
					return ctx.Err()
				}
				upper := r.Resolved()
				if upper < last+tso.TS(lag*100) && upper < steps*each {
					continue
				}
				r.Readable(upper)
				it, err := r.Fetch(last, upper)
				if err != nil {
					return err
				}
				for n := len(dst); n == len(dst); got += n {
					if n, err = it.Next(dst); err != nil {
						return err
					}
				}
				it.Close()
				r.Forget(upper)
				last = upper
			}
			if got != spans*steps*each {
				return fmt.Errorf("reader %d got %d rows", lag, got)
			}
			return nil
		})
	}
	must(t, g.Wait())
	if s.Used() != (sorter.Used{}) {
		t.Fatalf("%+v left", s.Used())
	}
}

// What others hold counts against the quota, but leaves rows a part of it; it is
// tight by what is lent, never by rows.
func TestHeldByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := errgroup.WithContext(context.Background())
		s := sorter.NewMemory(40_000)
		in := newInput(s, 1, 100)
		r := read(t, s, in)
		r.Readable(tso.Max)
		must(t, in.Add(ctx, rows(101, 15), 115)) // less than half of the quota
		p := s.NewPrewrites()
		if p.Tight() {
			t.Fatal("rows make it tight")
		}
		p.Hold(25_000)
		if !p.Tight() || s.Used().Lent != 25_000 {
			t.Fatalf("not tight with %+v in use", s.Used())
		}
		first := added(g, ctx, in, rows(116, 1), 116)
		if !blocked(first) {
			t.Fatal("over quota with what is lent, yet Add came in")
		}
		p.Hold(-20_000)
		if blocked(first) || p.Tight() {
			t.Fatal("given back, yet Add waits")
		}
		r.Forget(116)
		p.Hold(1 << 40) // more than the quota, and then some: a quarter is the rows'
		must(t, in.Add(ctx, rows(117, 8), 124))
		second := added(g, ctx, in, rows(125, 2), 126)
		if !blocked(second) {
			t.Fatal("over the rows' part, yet Add came in")
		}
		r.Forget(124)
		if blocked(second) {
			t.Fatal("nothing is left to be freed, yet Add waits")
		}
		must(t, g.Wait())
	})
}
