package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// store is an upstream that keeps its rows: a subscription gets those above where it
// begins, up to where the table is let.
type store struct {
	mu    sync.Mutex
	rows  map[int64][]event.RawKV
	upto  map[int64]tso.TS
	moved chan struct{} // closed at each change
	fail  map[int64]error
	subs  int
}

func newStore() *store {
	return &store{rows: map[int64][]event.RawKV{}, upto: map[int64]tso.TS{}, moved: make(chan struct{}), fail: map[int64]error{}}
}

func (s *store) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.moved)
	s.moved = make(chan struct{})
}

func (s *store) put(id int64, commits ...tso.TS) {
	s.change(func() {
		for _, ts := range commits {
			s.rows[id] = append(s.rows[id], put(id, ts, int64(ts), 1))
		}
	})
}

func (s *store) let(id int64, upto tso.TS) { s.change(func() { s.upto[id] = upto }) }

func (s *store) Subscribe(ctx context.Context, sub upstream.Subscription, out func(upstream.Batch) error) error {
	s.change(func() { s.subs++ })
	defer s.change(func() { s.subs-- })
	id, last := sub.Span.TableID, sub.StartTS
	for {
		s.mu.Lock()
		moved, upto, err := s.moved, s.upto[id], s.fail[id]
		var rows []event.RawKV
		for _, r := range s.rows[id] {
			if r.CommitTS > last && r.CommitTS <= upto {
				rows = append(rows, r)
			}
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if upto > last {
			if err := out(upstream.Batch{Rows: rows, Resolved: upto}); err != nil {
				return err
			}
			last = upto
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// log is a redo log in memory.
type log struct {
	mu       sync.Mutex
	rows     []event.RawKV
	resolved []tso.TS
	block    chan struct{} // Append waits for it
}

func (l *log) Append(ctx context.Context, raw *event.RawKV, t *event.Table) error {
	l.mu.Lock()
	block := l.block
	l.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t == nil {
		return errors.New("a change without its table")
	}
	l.rows = append(l.rows, *raw)
	return nil
}

func (l *log) Resolve(ts tso.TS) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resolved = append(l.resolved, ts)
}

// take is what came since the last take: commit-ts, and the last resolved-ts.
func (l *log) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, r := range l.rows {
		out = append(out, fmt.Sprint(r.CommitTS))
	}
	if n := len(l.resolved); n > 0 {
		out = append(out, fmt.Sprintf("r%d", l.resolved[n-1]))
	}
	l.rows, l.resolved = nil, nil
	return strings.Join(out, " ")
}

// feedWorld is a feed between a store and a log, in a bubble.
type feedWorld struct {
	*testing.T
	up   *store
	sc   *tables
	log  *log
	rows *sorter.Sorter
	f    *pipeline.LogFeed
	done chan error
}

func startFeed(t *testing.T, quota int64) *feedWorld {
	w := &feedWorld{T: t, up: newStore(), sc: newTables(table(1, "a"), table(2, "b"), table(3, "c"), table(4, "left")), log: &log{}, rows: sorter.NewMemory(quota), done: make(chan error, 1)}
	rules, err := filter.New(filter.Config{Rules: []string{"test.*", "!test.left"}, EventFilters: []filter.EventFilter{
		{Matcher: []string{"test.c"}, IgnoreInsertValueExpr: "id = 330"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	in, end := ingested(w.up, w.rows)
	w.f = pipeline.NewLogFeed(pipeline.LogFeedConfig{
		Changefeed: "test", StartTS: 100, Log: w.log, Filter: rules,
	}, in, w.sc)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.done <- w.f.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		end()
		if m := w.rows.Used().Memory; m != 0 {
			t.Errorf("%d bytes are held after the end", m)
		}
	})
	return w
}

// resolve lets tables, and the schema, be resolved.
func (w *feedWorld) resolve(ts tso.TS, ids ...int64) {
	w.sc.resolve(ts)
	for _, id := range ids {
		w.up.let(id, ts)
	}
	w.f.Look()
}

func (w *feedWorld) want(line string) {
	w.Helper()
	synctest.Wait()
	if got := w.log.take(); got != line {
		w.Fatalf("the log got %q, want %q", got, line)
	}
}

// logged compares up to where the log has all, if it has made durable what came up to a
// timestamp.
func (w *feedWorld) logged(durable, want tso.TS) {
	w.Helper()
	synctest.Wait()
	if got := w.f.Logged(durable); got != want {
		w.Fatalf("durable up to %d, logged up to %d, want %d", durable, got, want)
	}
}

func TestLogFeedIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startFeed(t, 1<<20)
		w.logged(500, tso.Max)
		w.f.Write(span.OfTable(1), 100)
		w.f.Write(span.OfTable(2), 100)
		w.logged(500, 100) // what its rows are stored under is not known
		w.resolve(101)
		w.logged(500, 500)
		w.up.put(1, 110, 130)
		w.up.put(2, 120, 140)
		w.resolve(125, 1, 2)
		w.want("110 120 r125")
		w.logged(125, 125)
		w.up.let(1, 200) // one of them is not enough
		w.want("")
		w.up.let(2, 200) // nor is it without the schema
		w.want("")
		w.resolve(135)
		w.want("130 r135")
		w.resolve(200)
		w.want("140 r200")
		w.f.Write(span.OfTable(4), 200) // a table that the rules leave out
		w.up.put(4, 250)
		w.resolve(300, 1, 2, 4) // quiet spans move too
		w.want("r300")
		w.f.Stop(span.OfTable(1))
		w.up.put(1, 310)
		w.up.put(2, 320)
		w.resolve(400, 1, 2, 4)
		w.want("320 r400")
	})
}

// A unit is logged with what its partitions are, and goes from those of before a DDL to
// those after it, alone or behind others.
func TestLogFeedOfAUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startFeed(t, 1<<20)
		before, after, exchanged := unit(5, "u", 51, 52), unit(5, "u", 51, 53), unit(5, "u", 51, 1)
		w.sc.hold(before, 0)
		w.sc.ddl(&event.DDL{SwitchTS: 150, Tables: []event.TableChange{change(before, after)}})
		w.sc.ddl(&event.DDL{SwitchTS: 250, Tables: []event.TableChange{change(after, exchanged), change(w.sc.now(1), table(53, "a"))}})
		for _, id := range []int64{51, 52, 53, 1, 2} {
			w.up.put(id, 130+tso.TS(id), 230+tso.TS(id), 330+tso.TS(id))
		}
		w.f.Write(span.OfTable(2), 100)
		w.f.Write(span.OfTable(5), 100)
		w.f.Write(span.OfTable(1), 100)
		w.resolve(200, 1, 2, 51, 52)
		w.want("131 132 r150")
		w.resolve(200, 53) // only now can be told what there is above 150
		w.want("181 183 r200")
		w.resolve(400, 1, 2, 51, 53)
		w.want("231 232 281 331 332 381 r400") // what it shares with a span is there once, and 53 is nobody's
	})
}

// What is durable says of a span that has joined only what came after it had.
func TestLogFeedLetsASpanCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startFeed(t, 1<<20)
		w.up.put(1, 110, 150)
		w.up.put(2, 120, 180, 250)
		w.f.Write(span.OfTable(1), 100)
		w.resolve(200, 1)
		w.want("110 150 r200")
		w.f.Write(span.OfTable(2), 130)
		w.logged(200, 130)
		w.up.let(2, 150)
		w.want("")
		w.resolve(260, 2)
		w.up.let(1, 220) // and is waited for by the other
		w.want("180 r220")
		w.logged(200, 130) // which does not have what it caught up with
		w.logged(220, 220)
		w.resolve(260, 1)
		w.want("250 r260")
		w.f.Stop(span.OfTable(2))
		w.f.Stop(span.OfTable(1))
		w.logged(220, tso.Max)
		w.f.Write(span.OfTable(3), 300) // above all that there was
		w.up.put(3, 310, 330, 340)      // of which an expression leaves one out
		w.resolve(400, 3)
		w.want("310 340 r400")
		w.logged(260, 300) // what was durable before says nothing of it
		w.logged(400, 400)
	})
}

// A span that is far behind does not keep the others; one that has come near does, or it
// would never be there.
func TestLogFeedWaitsForOneThatIsNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startFeed(t, 1<<20)
		at := func(s int64) tso.TS { return tso.New(s*1000, 0) }
		w.f.Write(span.OfTable(1), at(1))
		w.resolve(at(100), 1)
		w.want(fmt.Sprintf("r%d", at(100)))
		w.f.Write(span.OfTable(2), at(10))
		w.up.put(2, at(20))
		w.up.let(2, at(50))
		w.resolve(at(110), 1)
		w.want(fmt.Sprintf("%d r%d", at(20), at(110)))
		w.up.let(2, at(110).Prev())
		w.want("")
		w.resolve(at(111), 1)
		w.want("")
		w.up.let(2, at(111))
		w.want(fmt.Sprintf("r%d", at(111)))
	})
}

// A storage that does not take anything does not keep a feed from ending.
func TestLogFeedEndsWhileTheLogIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startFeed(t, 1<<20)
		w.log.block = make(chan struct{})
		w.f.Write(span.OfTable(1), 100)
		w.up.put(1, 110)
		w.resolve(200, 1)
		w.want("")
	})
}

func TestLogFeedFailsWithItsSpans(t *testing.T) {
	for _, behind := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := startFeed(t, 1<<20)
			w.f.Write(span.OfTable(1), 100)
			w.resolve(200, 1)
			w.want("r200")
			id := int64(1)
			if behind {
				w.f.Write(span.OfTable(2), 100)
				synctest.Wait()
				id = 2
			}
			w.up.change(func() { w.up.fail[id] = errors.New("the store is gone") })
			if err := <-w.done; err == nil || !strings.Contains(err.Error(), "feeding the redo log") || !strings.Contains(err.Error(), "the store is gone") {
				t.Fatalf("ended with %v", err)
			}
			w.done <- nil
		})
	}
}

// Whatever comes and goes, what counts as logged is in the log.
func TestLogFeedHasWhatItSays(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playFeed(t, rand.New(rand.NewPCG(uint64(seed), 7))) })
		})
	}
}

func playFeed(t *testing.T, rng *rand.Rand) {
	w := startFeed(t, int64(1+rng.IntN(3))*1000)
	now, durable := tso.TS(101), tso.TS(0)
	base := map[int64]tso.TS{} // of the spans that are written
	last := map[int64]tso.TS{} // up to where each table was logged whenever it was let go
	var had []event.RawKV
	for range 150 {
		id := int64(1 + rng.IntN(3))
		switch rng.IntN(7) {
		case 0, 1:
			now += tso.TS(1 + rng.IntN(3))
			w.up.put(id, now)
		case 2:
			w.up.let(id, now)
		case 3:
			w.sc.resolve(now)
			w.f.Look()
		case 4:
			if base[id] == 0 {
				base[id] = max(last[id], 100+tso.TS(rng.IntN(int(now-100))))
				w.f.Write(span.OfTable(id), base[id])
			}
		case 5:
			if base[id] != 0 && rng.IntN(3) == 0 {
				w.f.Stop(span.OfTable(id))
				delete(base, id)
			}
		case 6:
			synctest.Wait()
			w.log.mu.Lock()
			had = append(had, w.log.rows...)
			if n := len(w.log.resolved); n > 0 {
				durable = w.log.resolved[n-1]
			}
			w.log.rows = nil
			w.log.mu.Unlock()
		}
		logged := w.f.Logged(durable)
		for id, from := range base {
			if logged < 100 {
				t.Fatalf("logged up to %d", logged)
			}
			for _, r := range w.up.rows[id] {
				if r.CommitTS > from && r.CommitTS <= logged && !slices.ContainsFunc(had, func(h event.RawKV) bool { return string(h.Key) == string(r.Key) && h.CommitTS == r.CommitTS }) {
					t.Fatalf("logged up to %d, table %d is written from %d on, and its row of %d is not in the log", logged, id, from, r.CommitTS)
				}
			}
		}
	}
	for id := int64(1); id <= 3; id++ {
		w.up.let(id, now+10)
	}
	w.sc.resolve(now + 10)
	w.f.Look()
	synctest.Wait()
	if n := len(w.log.resolved); len(base) > 0 && (n == 0 || w.log.resolved[n-1] != now+10) {
		t.Fatalf("in the end it stands at %v, everything is resolved up to %d", w.log.resolved, now+10)
	}
}
