package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an ingest over an upstream that sends what the test gives it, in a
// bubble: after settle everything that can happen has happened.
type world struct {
	*testing.T
	up   *source
	rows *sorter.Sorter
	in   *ingest.Ingest
	stop context.CancelFunc
}

func start(t *testing.T) *world {
	w := &world{T: t, up: &source{}, rows: sorter.NewMemory(1 << 20)}
	w.in = ingest.New(w.up, w.rows)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	done := make(chan error, 1)
	go func() { done <- w.in.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return w
}

// reader follows tables from a ts.
func (w *world) reader(loop bool, from tso.TS, tables ...int64) *ingest.Reader {
	w.Helper()
	r := w.in.NewReader(ingest.ReaderConfig{FilterLoop: loop})
	for _, id := range tables {
		must(w.T, r.Follow(context.Background(), span.OfTable(id), from))
		synctest.Wait() // so that the list of subscriptions has this order
	}
	return r
}

// want settles and compares the subscriptions that live: table, start-ts and
// "loop" where rows of others are left out.
func (w *world) want(subs ...string) {
	w.Helper()
	synctest.Wait()
	if got := w.up.list(); !slices.Equal(got, subs) {
		w.Fatalf("subscriptions %q, want %q", got, subs)
	}
}

// read settles, reads all that is resolved above a ts and forgets it.
func (w *world) read(r *ingest.Reader, above tso.TS) (tso.TS, string) {
	w.Helper()
	synctest.Wait()
	upper := r.Resolved()
	it, err := r.Fetch(above, upper)
	must(w.T, err)
	defer it.Close()
	dst := make([]*event.RawKV, 100)
	n, err := it.Next(dst)
	must(w.T, err)
	var out []string
	for _, row := range dst[:n] {
		out = append(out, fmt.Sprint(row.CommitTS))
	}
	r.Forget(upper)
	return upper, strings.Join(out, " ")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source is an upstream of tables whose rows are known to it.
type source struct {
	mu   sync.Mutex
	subs []*sub
}

type sub struct {
	upstream.Subscription
	batches chan batch
}

type batch struct {
	upstream.Batch
	err error
}

func (s *source) Subscribe(ctx context.Context, of upstream.Subscription, out func(upstream.Batch) error) error {
	mine := &sub{of, make(chan batch, 100)}
	s.mu.Lock()
	s.subs = append(s.subs, mine)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subs = slices.DeleteFunc(s.subs, func(o *sub) bool { return o == mine })
	}()
	for {
		select {
		case b := <-mine.batches:
			if b.err != nil {
				return b.err
			}
			if err := out(b.Batch); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *source) list() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.subs {
		text := fmt.Sprintf("%d from %d", o.Span.TableID, o.StartTS)
		if o.FilterLoop {
			text += " loop"
		}
		out = append(out, text)
	}
	return out
}

// send gives a subscription rows and a resolved-ts; i is its place in the list.
func (s *source) send(i int, resolved tso.TS, commits ...tso.TS) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := batch{Batch: upstream.Batch{Resolved: resolved, Moves: []tso.Move{{Stage: tso.StageSpan, To: resolved}}}}
	for _, ts := range commits {
		b.Rows = append(b.Rows, event.RawKV{Op: event.Put, CommitTS: ts, StartTS: ts - 1,
			Key: span.AppendInt(span.RecordPrefix(s.subs[i].Span.TableID), int64(ts)), Value: []byte("v")})
	}
	s.subs[i].batches <- b
}

func (s *source) fail(i int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[i].batches <- batch{err: err}
}

func bubble(t *testing.T, name string, f func(w *world)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(start(t)) }) })
}

func TestSharing(t *testing.T) {
	bubble(t, "one stream for all who follow a table", func(w *world) {
		a, b := w.reader(false, 100, 1, 2), w.reader(false, 100, 2, 1)
		w.want("1 from 100", "2 from 100")
		w.up.send(0, 110, 105)
		w.up.send(1, 111, 106, 107)
		if ts, got := w.read(a, 100); ts != 110 || got != "105 106 107" {
			w.Fatal(ts, got)
		}
		if w.rows.Used().Memory == 0 {
			w.Fatal("the other reader's rows are gone")
		}
		if ts, got := w.read(b, 100); ts != 110 || got != "105 106 107" {
			w.Fatal(ts, got)
		}
		if w.rows.Used().Memory != 0 {
			w.Fatal("rows are held that both have forgotten")
		}
		a.Close()
		w.want("1 from 100", "2 from 100")
		b.Leave(span.OfTable(1))
		w.want("2 from 100")
		b.Close()
		w.want()
	})
	bubble(t, "not with a changefeed that leaves rows out", func(w *world) {
		defer w.reader(false, 100, 1).Close()
		defer w.reader(true, 100, 1).Close()
		w.want("1 from 100", "1 from 100 loop")
	})
	bubble(t, "following twice is following once", func(w *world) {
		r := w.reader(false, 100, 1, 1)
		w.want("1 from 100")
		r.Leave(span.OfTable(1))
		r.Leave(span.OfTable(1))
		w.want()
		must(w.T, r.Follow(context.Background(), span.OfTable(1), 120))
		w.want("1 from 120")
		r.Close()
	})
	bubble(t, "a reader above what is held joins", func(w *world) {
		a := w.reader(false, 100, 1)
		w.up.send(0, 120, 105, 115)
		b := w.reader(false, 110, 1)
		w.want("1 from 100")
		if ts, got := w.read(b, 110); ts != 120 || got != "115" {
			w.Fatal(ts, got)
		}
		if ts, got := w.read(a, 100); ts != 120 || got != "105 115" {
			w.Fatal(ts, got)
		}
		a.Close()
		b.Close()
	})
}

// Moves go to every reader that shares the subscription.
func TestMovesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		var mu sync.Mutex
		seen := map[string]int{}
		follow := func(name string) *ingest.Reader {
			r := w.in.NewReader(ingest.ReaderConfig{Record: func(m ...tso.Move) {
				mu.Lock()
				defer mu.Unlock()
				seen[name] += len(m)
			}})
			must(t, r.Follow(context.Background(), span.OfTable(1), 100))
			return r
		}
		a, b := follow("a"), follow("b")
		synctest.Wait()
		w.up.send(0, 110)
		synctest.Wait()
		a.Close()
		w.up.send(0, 120)
		synctest.Wait()
		b.Close()
		if seen["a"] != 1 || seen["b"] != 2 {
			t.Fatal(seen)
		}
	})
}

// Who takes batches shares with who reads.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		r := w.reader(false, 100, 1)
		defer r.Close()
		var got []string
		var moves int
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- w.in.Subscribe(ctx, upstream.Subscription{Span: span.OfTable(1), StartTS: 103}, func(b upstream.Batch) error {
				for _, row := range b.Rows {
					got = append(got, fmt.Sprint(row.CommitTS))
				}
				if b.Resolved != 0 {
					got = append(got, fmt.Sprintf("resolved %d", b.Resolved))
				}
				moves += len(b.Moves)
				return nil
			})
		}()
		w.want("1 from 100")
		w.up.send(0, 110, 107, 102, 105)
		w.want("1 from 100")
		w.up.send(0, 120)
		w.want("1 from 100")
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if want := []string{"105", "107", "resolved 110", "resolved 120"}; !slices.Equal(got, want) || moves != 2 {
			t.Fatal(got, moves)
		}
		broken := errors.New("broken")
		go func() {
			done <- w.in.Subscribe(context.Background(), upstream.Subscription{Span: span.OfTable(1), StartTS: 120}, func(upstream.Batch) error { return broken })
		}()
		w.want("1 from 100")
		w.up.send(0, 130)
		if err := <-done; !errors.Is(err, broken) {
			t.Fatal(err)
		}
		go func() {
			done <- w.in.Subscribe(context.Background(), upstream.Subscription{Span: span.OfTable(1), StartTS: 130}, func(upstream.Batch) error { return nil })
		}()
		w.want("1 from 100")
		w.up.fail(0, broken)
		if err := <-done; !errors.Is(err, broken) {
			t.Fatal(err)
		}
	})
}

// What the upstream holds for the commits to come counts against the sorter's quota.
func TestPrewritesCountAgainstTheQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		r := w.reader(false, 100, 1)
		defer r.Close()
		w.up.mu.Lock()
		memory := w.up.subs[0].Memory
		w.up.mu.Unlock()
		memory.Hold(1000)
		if lent := w.rows.Used().Lent; lent != 1000 || memory.Tight() {
			t.Errorf("%d bytes are lent", lent)
		}
	})
}
