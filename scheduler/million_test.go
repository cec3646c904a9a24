package scheduler_test

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// BenchmarkMillionSpans measures one changefeed with a million spans over ten captures:
// a new owner's start, every step while all is placed, at rest, after a capture is lost
// and for the owner after it; and what a span costs in memory.
func BenchmarkMillionSpans(b *testing.B) {
	for range b.N {
		measure(b, 1_000_000)
	}
}

// What holds for a million spans (docs/results/bench.md): the longest step's time on a
// processor, and bytes a span.
const (
	stepMax  = 100 * time.Millisecond
	bytesMax = 1500
)

// crowd answers an owner as ten captures would that do everything at once, without
// their memory.
type crowd struct {
	owner   *scheduler.Owner
	rev     scheduler.Revision
	peers   map[capture.ID]*peer
	view    scheduler.View
	at      tso.TS
	reports []scheduler.Report
	steps   []time.Duration
	cpu     []time.Duration // what of them the thread had a processor
}

// threadTime is how long this thread had a processor. Beside the wall's clock it tells
// a slow step from a busy machine.
func threadTime(b *testing.B) time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type peer struct {
	seq, change uint64
	term        scheduler.Term
	news        []scheduler.Status
	written     map[span.Span]scheduler.Term
}

func newCrowd(n int) *crowd {
	c := &crowd{peers: map[capture.ID]*peer{}}
	for i := range n {
		id := capture.ID(fmt.Sprintf("c%02d", i))
		c.peers[id] = &peer{written: map[span.Span]scheduler.Term{}}
		c.view.Members = append(c.view.Members, scheduler.Member{ID: id})
	}
	return c
}

// begin is a new owner; what captures write is news to it.
func (c *crowd) begin(b *testing.B, rev scheduler.Revision, tables []span.TableID) {
	cfg := scheduler.Default()
	cfg.Owner, cfg.Epoch = rev, 1
	c.rev, c.reports = rev, nil
	for _, p := range c.peers {
		p.news = nil
		for s, g := range p.written {
			p.change++
			p.news = append(p.news, scheduler.Status{Change: p.change, Span: s, Phase: scheduler.Writing, Checkpoint: c.at, Resolved: c.at, Grant: g})
		}
	}
	begun := time.Now()
	var err error
	c.owner, err = scheduler.New(cfg, scheduler.Resume{Watermark: scheduler.Watermark{Checkpoint: c.at, Resolved: c.at}, Tables: tables})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("an owner's start: %v", time.Since(begun).Round(time.Millisecond))
}

// beat is the reports since the last one, the tick, and what follows it outside of the
// owner. Each report and the tick are a step of the owner.
func (c *crowd) beat(b *testing.B) {
	c.at++
	c.owner.Schema(c.at + 1000)
	for _, r := range c.reports {
		c.step(b, func() { c.owner.Step(r) })
	}
	c.reports = c.reports[:0]
	var r scheduler.Ready
	c.step(b, func() {
		r = c.owner.Tick(c.view)
		c.owner.Saved(r.Watermark)
	})
	if r.Err != nil {
		b.Fatal(r.Err)
	}
	for _, m := range r.Messages {
		c.answer(m)
	}
	for _, m := range c.view.Members {
		c.report(m.ID)
	}
}

func (c *crowd) step(b *testing.B, do func()) {
	begun, cpu := time.Now(), threadTime(b)
	do()
	c.steps = append(c.steps, time.Since(begun))
	c.cpu = append(c.cpu, threadTime(b)-cpu)
}

func (c *crowd) answer(m scheduler.Orders) {
	p := c.peers[m.Capture]
	p.term = max(p.term, m.Term)
	for _, x := range m.Orders {
		p.change++
		st := scheduler.Status{Change: p.change, Span: x.Span, Checkpoint: max(x.From, c.at), Grant: x.Grant}
		switch x.Verb {
		case scheduler.Prepare:
			st.Phase = scheduler.Prepared
		case scheduler.Write:
			st.Phase = scheduler.Writing
			p.written[x.Span] = x.Grant
		default:
			st.Phase = scheduler.Stopped
			delete(p.written, x.Span)
		}
		p.news = append(p.news, st)
	}
}

// report sends one report, as a capture does at each of its beats.
func (c *crowd) report(id capture.ID) {
	p := c.peers[id]
	n := min(len(p.news), scheduler.StatusesMax)
	p.seq++
	r := scheduler.Report{
		Head: scheduler.Head{Owner: c.rev, Epoch: 1, Capture: id, Incarnation: 1, Term: p.term, Seq: p.seq},
		Upto: p.change, Floor: scheduler.Progress{Checkpoint: c.at, Resolved: c.at}, Writes: len(p.written), Statuses: p.news[:n:n],
	}
	p.news = p.news[n:]
	if r.Complete = len(p.news) == 0; !r.Complete {
		r.Upto = r.Statuses[n-1].Change
	}
	c.reports = append(c.reports, r)
}

// until steps until every span replicates, and reports how long steps took.
func (c *crowd) until(b *testing.B, what string) {
	c.steps, c.cpu = c.steps[:0], c.cpu[:0]
	for n := range 2000 {
		if c.beat(b); n > 5 && c.owner.Settled() {
			break
		}
	}
	if !c.owner.Settled() {
		b.Fatalf("%s: not everything replicates", what)
	}
	c.tell(b, what)
}

func (c *crowd) tell(b *testing.B, what string) {
	for _, kind := range []struct {
		name  string
		times []time.Duration
	}{{"wall", c.steps}, {"cpu", c.cpu}} {
		all := kind.times
		slices.Sort(all)
		n := len(all)
		b.Logf("%-6s %5d steps, %-4s p50 %8v  p99 %8v  max %8v", what, n, kind.name, all[n/2].Round(10*time.Microsecond), all[n*99/100].Round(10*time.Microsecond), all[n-1].Round(10*time.Microsecond))
		if kind.name == "cpu" {
			if all[n-1] > stepMax {
				b.Errorf("%s: a step took %v of a processor, more than %v", what, all[n-1], stepMax)
			}
			b.ReportMetric(float64(all[n*99/100].Microseconds())/1000, what+"-p99-cpu-ms")
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func measure(b *testing.B, spans int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tables := make([]span.TableID, spans)
	for i := range tables {
		tables[i] = span.TableID(i + 1)
	}
	c := newCrowd(10)
	c.at = 100
	c.begin(b, 1, tables)
	c.until(b, "place")
	c.steps, c.cpu = c.steps[:0], c.cpu[:0]
	for range 200 {
		c.beat(b)
	}
	c.tell(b, "rest")
	delete(c.peers, "c00")
	c.view.Members = c.view.Members[1:]
	c.until(b, "lost")

	c.reports = nil
	with := heap()
	c.owner = nil
	size := float64(with-heap()) / float64(spans)
	b.ReportMetric(size, "B/span")
	if size > bytesMax {
		b.Errorf("a span takes %.0f bytes, more than %d", size, bytesMax)
	}
	c.begin(b, 2, tables)
	c.until(b, "elect")
}
