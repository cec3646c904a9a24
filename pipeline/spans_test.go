package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// part is Spans between doubles that do what they are told, in a bubble.
type part struct {
	*testing.T
	up   *source
	sc   *tables
	down *guarded
	rows *sorter.Sorter
	s    *pipeline.Spans
	logs *bytes.Buffer
	stop context.CancelFunc
	done chan struct{}
	err  error

	mu     sync.Mutex
	limits map[int64]tso.TS // by table; tso.Max where there is none
	told   []pipeline.Told
}

// partOf runs spans of a changefeed from ts 100 on. Configure may change it.
func partOf(t *testing.T, rows *sorter.Sorter, configure func(*pipeline.SpansConfig), at ...*event.Table) *part {
	t.Helper()
	rules, err := filter.New(filter.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := &part{
		T: t, up: newSource(), sc: newTables(at...), rows: rows, logs: &bytes.Buffer{}, done: make(chan struct{}), limits: map[int64]tso.TS{},
	}
	p.down = &guarded{part: p}
	cfg := pipeline.SpansConfig{
		Changefeed: "test", StartTS: 100, Filter: rules, FlushEvery: -1,
		Limit: p.limit,
		Open:  func(context.Context) (sink.Sink, error) { return p.down, nil },
		Tell:  p.tell,
		Log:   slog.New(slog.NewTextHandler(p.logs, nil)),
	}
	if configure != nil {
		configure(&cfg)
	}
	in, end := ingested(p.up, rows)
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.s = pipeline.NewSpans(cfg, in, p.sc)
	go func() {
		defer close(p.done)
		p.err = p.s.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-p.done
		end()
	})
	synctest.Wait()
	return p
}

func (p *part) limit(s span.Span) tso.TS {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ts, held := p.limits[s.TableID]; held {
		return ts
	}
	return tso.Max
}

// hold sets the limit of a table, without a word to anybody.
func (p *part) hold(id int64, at tso.TS) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[id] = at
}

func (p *part) tell(t pipeline.Told) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, t)
}

// news is what was told since it was last asked, by span.
func (p *part) news() (lines []string) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.told {
		lines = append(lines, describeTold(t))
	}
	p.told = nil
	return lines
}

func describeTold(t pipeline.Told) string {
	switch t.What {
	case pipeline.Arrived:
		return fmt.Sprintf("%d arrived %d", t.Span.TableID, t.Resolved)
	case pipeline.Moved:
		return fmt.Sprintf("%d at %d of %d", t.Span.TableID, t.Checkpoint, t.Resolved)
	case pipeline.Ended:
		return fmt.Sprintf("%d ended at %d", t.Span.TableID, t.Checkpoint)
	}
	return fmt.Sprintf("%+v", t)
}

// wantNews settles and compares what was told since.
func (p *part) wantNews(lines ...string) {
	p.Helper()
	if got := p.news(); !slices.Equal(got, lines) {
		p.Fatalf("told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// want settles and compares what reached the downstream since the last want.
func (p *part) want(lines ...string) {
	p.Helper()
	synctest.Wait()
	if got := p.down.take(); !slices.Equal(got, lines) {
		p.Fatalf("downstream got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// resolve lets the schema be known up to ts.
func (p *part) resolve(ts tso.TS) {
	p.sc.resolve(ts)
	p.s.Look()
}

func (p *part) ended() error {
	p.Helper()
	synctest.Wait()
	select {
	case <-p.done:
		return p.err
	default:
		p.Fatal("still running")
		return nil
	}
}

// guarded is a downstream that refuses what must not come: a row above the limit of its
// span, rows of two spans in one call, and a call after Close.
type guarded struct {
	downstream
	part   *part
	closed bool
}

func (g *guarded) Write(ctx context.Context, leave sink.Leave, txns []event.Txn) error {
	if g.closed {
		return fmt.Errorf("a write after Close")
	}
	var last tso.TS
	id := int64(0)
	for _, txn := range txns {
		if txn.CommitTS < last {
			return fmt.Errorf("%d came after %d", txn.CommitTS, last)
		}
		last = txn.CommitTS
		for _, r := range txn.Rows {
			if id != 0 && r.Table.ID != id {
				return fmt.Errorf("rows of tables %d and %d come at once", id, r.Table.ID)
			}
			id = r.Table.ID
		}
	}
	if limit := g.part.limit(span.OfTable(id)); last > limit {
		return fmt.Errorf("table %d: a row of %d, the limit is %d", id, last, limit)
	}
	return g.downstream.Write(ctx, leave, txns)
}

func (g *guarded) Checkpoint(context.Context, tso.TS) error { return fmt.Errorf("nobody asked") }

func (g *guarded) Close() error {
	g.closed = true
	return nil
}

func tableSpan(id int64) span.Span { return span.OfTable(id) }

func TestASpanIsPreparedWrittenAndStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), nil, table(1, "a"), table(2, "b"))
		p.resolve(200)
		p.s.Prepare(tableSpan(1), 100)
		p.wantNews()
		p.up.send(1, 105, put(1, 103, 1, 1), put(1, 105, 2, 2))
		p.wantNews("1 arrived 105")
		p.up.send(1, 110, put(1, 107, 3, 3))
		p.wantNews() // once
		p.want()     // nothing is written of what is prepared
		p.s.Write(tableSpan(1), 103)
		p.s.Write(tableSpan(1), 101) // twice is once
		p.s.Prepare(tableSpan(1), 100)
		p.want("105 a:insert:2=2", "107 a:insert:3=3")
		p.wantNews("1 at 110 of 110")
		p.up.send(1, 120)
		p.wantNews("1 at 120 of 120") // without rows it moves with its bound
		p.up.send(1, 130, put(1, 125, 4, 4))
		p.s.Stop(tableSpan(1))
		p.s.Stop(tableSpan(1))
		synctest.Wait()
		got := p.news()
		if len(got) == 0 || got[len(got)-1] != "1 ended at 120" && got[len(got)-1] != "1 ended at 130" {
			t.Fatal(got)
		}
		if len(p.up.ids()) != 0 || p.rows.Used().Memory != 0 {
			t.Fatal(p.up.ids(), p.rows.Used())
		}
		p.s.Stop(tableSpan(1))
		p.s.Stop(tableSpan(2))
		p.wantNews()
	})
}

func TestWhatWasOnlyPreparedHasWrittenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), func(c *pipeline.SpansConfig) {
			c.Open = func(context.Context) (sink.Sink, error) {
				t.Error("no span is to be written")
				return nil, errDown
			}
		}, table(1, "a"))
		p.s.Prepare(tableSpan(1), 100)
		p.s.Stop(tableSpan(1))
		p.s.Prepare(tableSpan(1), 102)
		p.wantNews("1 ended at 0")
		p.resolve(102)
		if synctest.Wait(); len(p.up.ids()) > 0 {
			t.Fatal("it is followed before it is known what is stored under its id")
		}
		p.resolve(103)
		synctest.Wait()
		p.up.send(1, 103)
		p.wantNews("1 arrived 103")
	})
}

// A limit holds one span and no other, and is never passed.
func TestALimitHoldsOneSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), nil, table(1, "a"), table(2, "b"))
		p.resolve(200)
		p.hold(1, 106)
		for id := range int64(2) {
			p.s.Write(tableSpan(id+1), 100)
		}
		synctest.Wait()
		for id := range int64(2) {
			p.up.send(id+1, 120, put(id+1, 104, 1, 1), put(id+1, 106, 2, 2), put(id+1, 107, 3, 3))
			synctest.Wait()
		}
		p.want("104 a:insert:1=1", "106 a:insert:2=2", "104 b:insert:1=1", "106 b:insert:2=2", "107 b:insert:3=3")
		p.wantNews("1 at 106 of 106", "2 at 120 of 120")
		p.hold(1, 115)
		p.want() // nobody looked
		p.s.Look()
		p.want("107 a:insert:3=3")
		p.wantNews("1 at 115 of 115")
		p.hold(1, 300)
		p.s.Look()
		p.wantNews("1 at 120 of 120")
		if got := p.s.Progress(); got.Rows != 6 || got.Txns != 6 || got.Written != 107 || got.Checkpoint != 120 || got.Resolved != 120 {
			t.Fatalf("%+v", got)
		}
	})
}

// Rows are those above the changefeed's start, whatever From says; the checkpoint is
// From until something moves it.
func TestNothingAtOrBelowTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), nil, table(1, "a"))
		p.resolve(99)
		p.s.Prepare(tableSpan(1), 99)
		p.s.Write(tableSpan(1), 99)
		p.wantNews()
		if got := p.s.Progress(); got.Checkpoint != 99 {
			t.Fatalf("%+v", got)
		}
		p.resolve(100)
		p.wantNews("1 at 100 of 100")
		p.resolve(200)
		p.up.send(1, 110, put(1, 100, 1, 1), put(1, 101, 2, 2))
		p.want("101 a:insert:2=2")
		p.wantNews("1 at 110 of 110")
	})
}

// The schema and the gate bound all spans.
func TestSchemaAndGateBoundTheSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &stopGate{limit: 104, moved: make(chan struct{}, 1)}
		p := partOf(t, sorter.NewMemory(1<<30), func(c *pipeline.SpansConfig) { c.Gate = g }, table(1, "a"))
		p.s.Write(tableSpan(1), 100)
		p.resolve(101)
		synctest.Wait()
		p.up.send(1, 120, put(1, 102, 1, 1), put(1, 104, 2, 2), put(1, 106, 3, 3))
		p.want()
		p.resolve(103)
		p.want("102 a:insert:1=1")
		p.resolve(150)
		p.want("104 a:insert:2=2")
		g.limit = 110
		g.moved <- struct{}{}
		p.want("106 a:insert:3=3")
		p.wantNews("1 at 101 of 101", "1 at 103 of 103", "1 at 104 of 104", "1 at 110 of 110")
	})
}

// Stop while the downstream is slow: what is queued is written and flushed, and the
// span ends there.
func TestStopFlushesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), func(c *pipeline.SpansConfig) { c.BatchRows, c.FlushEvery = 1, 1<<40 }, table(1, "a"), table(2, "b"))
		p.resolve(1000)
		p.down.free = make(chan struct{})
		p.down.blockOn = "a:insert"
		p.s.Write(tableSpan(1), 100)
		p.s.Write(tableSpan(2), 100)
		synctest.Wait()
		var rows []event.RawKV
		for i := range tso.TS(100) {
			rows = append(rows, put(1, 101+i, int64(i), 1))
		}
		p.up.send(1, 300, rows...)
		synctest.Wait()
		p.s.Stop(tableSpan(1))
		p.s.Prepare(tableSpan(1), 100) // waits until the span has ended
		p.wantNews()
		close(p.down.free)
		synctest.Wait()
		lines := p.down.take()
		told := p.news()
		var at int
		if _, err := fmt.Sscanf(told[len(told)-1], "1 ended at %d", &at); err != nil {
			t.Fatal(told)
		}
		if at != 100+len(lines) || len(lines) >= 20 || p.down.dirty {
			t.Fatalf("%d rows are downstream, and it ended at %d", len(lines), at)
		}
		p.up.send(1, 300)
		p.wantNews("1 arrived 300")
		p.up.send(2, 300, put(2, 200, 1, 1))
		p.want("200 b:insert:1=1")
		p.wantNews("2 at 300 of 300")
	})
}

func TestFailuresNameTheTable(t *testing.T) {
	bubble("downstream", t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), nil, table(7, "a"))
		p.resolve(1000)
		p.down.failOn = "105"
		p.s.Write(tableSpan(7), 100)
		synctest.Wait()
		p.up.send(7, 300, put(7, 105, 1, 1))
		if err := p.ended(); err == nil || !strings.Contains(err.Error(), "changefeed test: table 7: writing 1 transactions of 105–105: the downstream is down") {
			t.Fatal(err)
		}
		if !p.down.closed {
			t.Fatal("the sink is open")
		}
	})
	bubble("row", t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), nil, table(7, "a"))
		p.resolve(1000)
		p.s.Write(tableSpan(7), 100)
		synctest.Wait()
		bad := put(7, 106, 1, 1)
		bad.Value = []byte{128}
		p.up.send(7, 300, put(7, 105, 1, 1), bad)
		if err := p.ended(); err == nil || !strings.Contains(err.Error(), "changefeed test: table 7: ") {
			t.Fatal(err)
		}
		p.want("105 a:insert:1=1")
	})
	bubble("subscription", t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), nil, table(7, "a"))
		p.resolve(1000)
		p.s.Prepare(tableSpan(7), 100)
		synctest.Wait()
		p.up.give(7, delivery{err: errDown})
		if err := p.ended(); err == nil || !strings.Contains(err.Error(), "changefeed test: following table 7: the downstream is down") {
			t.Fatal(err)
		}
	})
	bubble("open", t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), func(c *pipeline.SpansConfig) {
			c.Open = func(context.Context) (sink.Sink, error) { return nil, errDown }
		}, table(7, "a"))
		p.s.Write(tableSpan(7), 100)
		if err := p.ended(); err == nil || !strings.Contains(err.Error(), "changefeed test: the downstream is down") {
			t.Fatal(err)
		}
		p.s.Write(tableSpan(8), 100) // nobody hears it, and nobody waits
		p.s.Stop(tableSpan(7))
		p.s.Look()
	})
	bubble("span that has been stopped", t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), nil, table(7, "a"), table(8, "b"))
		p.resolve(1000)
		p.down.free = make(chan struct{})
		p.down.blockOn = "a:insert"
		p.s.Write(tableSpan(7), 100)
		synctest.Wait()
		p.up.send(7, 300, put(7, 105, 1, 1))
		synctest.Wait()
		p.s.Stop(tableSpan(7))
		synctest.Wait()
		p.up.give(7, delivery{err: errDown})
		synctest.Wait()
		close(p.down.free)
		p.wantNews("7 at 300 of 300", "7 ended at 300")
	})
}
