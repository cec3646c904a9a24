package upstream

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// wait for a state that comes about in the client.
func eventually(t *testing.T, what string, there func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		}
	}
}

// TestStuck: a resolved-ts that stands still leads to the lock that holds it.
func TestStuck(t *testing.T) {
	p := startPuppet(t, nil)
	stands := longAgo(60_000)
	k := keepLocks(p, written("k", "k", stands), written("l", "l", longAgo(100)))
	k.status = func(q *kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse {
		return &kvrpcpb.CheckTxnStatusResponse{CommitVersion: stands + 1}
	}
	cfg := p.config()
	cfg.StuckAfter = 40 * time.Millisecond
	c := open(t, cfg)
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	f.rows(q, prewrite("k", "1", stands), initialized)
	f.resolved(stands, q)
	eventually(t, "the lock is ended", func() bool { return c.Counts().LocksEnded == 1 })
	f.rows(q, commit("k", stands, stands+1))
	f.resolved(longAgo(1), q)
	same(t, w.until(tso.TS(stands+1)), fmt.Sprintf("k=1 (was ) %d-%d", stands, stands+1))
	// What is locked later cannot hold it back yet, and is not looked at; the
	// region is not searched again for ten seconds.
	wantTook(t, k, fmt.Sprintf("scan a-z; status k; resolve k at %d", stands+1))
}

// TestLaggard: a region that stays behind is named, then registered anew, and TiKV
// is told that the old registration is over.
func TestLaggard(t *testing.T) {
	p := startPuppet(t, nil)
	split(p)
	cfg := p.config()
	cfg.SlowAfter, cfg.RenewAfter = 50*time.Millisecond, 2*time.Second
	c := open(t, cfg)
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f, g := p.kv[1].feed(t), p.kv[2].feed(t)
	q, r := f.request(), g.request()
	f.rows(q, initialized)
	f.resolved(longAgo(60_000), q)
	g.rows(r, initialized)
	g.resolved(longAgo(1), r)
	eventually(t, "the region is named", func() bool {
		s := c.Status().Subscriptions[0]
		return s.Slow == 1 && s.Laggards[0].Region.ID == 1 && s.Laggards[0].Region.Store == 1 &&
			s.Laggards[0].Span.TableID == 7 && s.Resolved == tso.TS(longAgo(60_000)) && s.Regions == 2 && s.Scanned == 2
	})
	d := f.request()
	if d.GetDeregister() == nil || d.RegionId != 1 || d.RequestId != q.RequestId {
		t.Errorf("request %v", d)
	}
	again := f.request()
	if again.RegionId != 1 || again.RequestId == q.RequestId || again.CheckpointTs != longAgo(60_000) || again.ScanPriority != cdcpb.ScanPriority_SCAN_PRIORITY_HIGH {
		t.Errorf("request %v", again)
	}
	f.rows(again, committed("k", "v", longAgo(50_000), longAgo(49_000)), initialized)
	f.resolved(longAgo(1), again)
	w.until(tso.TS(longAgo(1)))
	eventually(t, "nobody lags", func() bool { return c.Status().Subscriptions[0].Slow == 0 })
	if n := c.Counts(); n.Renewed != 1 || n.StreamsBroken != 0 {
		t.Errorf("%+v", n)
	}
}

// TestSilentStream: a stream that is open but says nothing is opened again; one
// over which resolved-ts come is not, whether they rise or not.
func TestSilentStream(t *testing.T) {
	p := startPuppet(t, nil)
	split(p)
	cfg := p.config()
	cfg.SilentAfter = time.Second
	c := open(t, cfg)
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f, g := p.kv[1].feed(t), p.kv[2].feed(t)
	q, r := f.request(), g.request()
	f.rows(q, initialized)
	f.resolved(20, q)
	g.rows(r, initialized)
	speaks := time.NewTicker(20 * time.Millisecond)
	defer speaks.Stop()
	var h *puppetFeed
	for h == nil {
		select {
		case h = <-p.kv[1].feeds:
			h.t = t
		case <-p.kv[2].feeds:
			t.Fatal("the stream that speaks was opened again")
		case <-speaks.C:
			g.resolved(15, r)
		}
	}
	q = h.request()
	if q.CheckpointTs != 20 || q.RegionId != 1 {
		t.Errorf("request %v", q)
	}
	h.rows(q, initialized)
	h.resolved(30, q)
	g.resolved(30, r)
	w.until(30)
	if n := c.Counts(); n.StreamsSilent != 1 {
		t.Errorf("%+v", n)
	}
}

// TestUnanswered: a scan of which nothing is heard is asked for again.
func TestUnanswered(t *testing.T) {
	p := startPuppet(t, nil)
	cfg := p.config()
	cfg.UnansweredAfter = 100 * time.Millisecond
	c := open(t, cfg)
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	if d := f.request(); d.GetDeregister() == nil || d.RequestId != q.RequestId || d.RegionId != 1 {
		t.Errorf("request %v", d)
	}
	for deadline := time.After(patience); w.at() < 20; { // who answers late is asked once more
		select {
		case q = <-f.reqs:
			if q.GetDeregister() == nil {
				f.rows(q, initialized)
				f.resolved(20, q)
			}
		case <-w.moved:
		case <-deadline:
			t.Fatal("no answer counts")
		}
	}
	if n := c.Counts(); n.Unanswered == 0 {
		t.Errorf("%+v", n)
	}
}

// TestBusyStore: while a store gets on with other scans, one that waits for its turn
// is left in its place.
func TestBusyStore(t *testing.T) {
	p := startPuppet(t, nil)
	border := span.EncodeKey([]byte("m"))
	p.setRegions(puppetRegion(1, 1, 1, "", border), puppetRegion(2, 1, 1, border, ""))
	cfg := p.config()
	cfg.UnansweredAfter = time.Second
	c := open(t, cfg)
	subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q, r := f.request(), f.request()
	busy := time.NewTimer(2 * cfg.UnansweredAfter)
	defer busy.Stop()
	scans := time.NewTicker(20 * time.Millisecond)
	defer scans.Stop()
	for done := false; !done; {
		select {
		case <-busy.C:
			done = true
		case <-scans.C:
			f.rows(q, prewrite("b", "1", 21))
		}
	}
	if n := c.Counts(); n.Unanswered != 0 {
		t.Errorf("%+v", n)
	}
	for d := f.request(); d.GetDeregister() == nil || d.RequestId != r.RequestId || d.RegionId != r.RegionId; d = f.request() {
	}
}

// TestNobodyIsBlamedForUs: while our own consumer blocks the stream nothing can
// move or be heard, and nobody is registered anew for that.
func TestNobodyIsBlamedForUs(t *testing.T) {
	p := startPuppet(t, nil)
	split(p)
	cfg := p.config()
	cfg.StreamBudget = 1 << 20
	cfg.SlowAfter, cfg.RenewAfter, cfg.SilentAfter = 50*time.Millisecond, 1500*time.Millisecond, 1500*time.Millisecond
	c := open(t, cfg)
	gate := make(chan struct{})
	slow := subscribe(t, c, Subscription{Span: keys("a", "b"), StartTS: 10}, gate)
	f := p.kv[1].feed(t)
	fast := subscribe(t, c, Subscription{Span: keys("c", "z"), StartTS: 10}, nil)
	g := p.kv[2].feed(t)
	gate <- struct{}{}
	mine, other, r := f.request(), f.request(), g.request()
	if string(mine.StartKey) != string(keys("a", "b").Start) {
		mine, other = other, mine
	}
	g.rows(r, initialized)
	g.resolved(longAgo(2), r)
	f.rows(other, initialized)
	f.resolved(longAgo(60_000), other)
	for i := range uint64(4) { // more than the budget: the stream stands still
		go func() {
			row := committed("a", strings.Repeat("v", 600<<10), longAgo(50_000)+i, longAgo(49_000)+i)
			e := &cdcpb.Event{RegionId: mine.RegionId, RequestId: mine.RequestId, Event: &cdcpb.Event_Entries_{Entries: &cdcpb.Event_Entries{Entries: []*cdcpb.Event_Row{row}}}}
			p.locking.Lock()
			defer p.locking.Unlock()
			_ = f.server.Send(&cdcpb.ChangeDataEvent{Events: []*cdcpb.Event{e}})
		}()
	}
	eventually(t, "the stream starves", func() bool {
		for _, s := range c.streams.all() {
			s.pulse.mu.Lock()
			hungry := s.pulse.hungry
			s.pulse.mu.Unlock()
			if hungry {
				return true
			}
		}
		return false
	})
	fast.until(tso.TS(longAgo(60_000)))
	long := time.NewTimer(3200 * time.Millisecond) // more than twice what anybody is given
	defer long.Stop()
	speaks := time.NewTicker(20 * time.Millisecond)
	defer speaks.Stop()
	for done := false; !done; {
		select {
		case <-long.C:
			done = true
		case <-speaks.C:
			g.resolved(longAgo(1), r)
		}
	}
	if n := c.Counts(); n.Renewed != 0 || n.StreamsSilent != 0 || n.StreamsBroken != 0 {
		t.Errorf("%+v", n)
	}
	close(gate)
	p.locking.Lock()
	defer p.locking.Unlock()
	f.rows(mine, initialized)
	f.resolved(longAgo(1), mine)
	slow.until(tso.TS(longAgo(1)))
}

// TestScanWindow: a store scans no more regions at a time than the window lets in;
// urgent ones go first.
func TestScanWindow(t *testing.T) {
	p := startPuppet(t, nil)
	b := func(s string) span.Key { return span.EncodeKey([]byte(s)) }
	p.setRegions(puppetRegion(1, 1, 1, "", b("c")), puppetRegion(2, 1, 1, b("c"), b("e")), puppetRegion(3, 1, 1, b("e"), b("g")), puppetRegion(4, 1, 1, b("g"), ""))
	cfg := p.config()
	cfg.ScanWindow = 1
	c := open(t, cfg)
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	var qs []*cdcpb.ChangeDataRequest
	first := f.request()
	eventually(t, "the others wait", func() bool {
		s := c.Status().Streams
		return len(s) == 1 && s[0].Waiting == 3 && s[0].Scanning == 1 && s[0].Live == 0
	})
	// What is new for us is followed at once, whoever waits.
	urgent := subscribe(t, c, Subscription{Span: keys("h", "i"), StartTS: tso.TS(longAgo(1000))}, nil)
	u := f.request()
	if u.ScanPriority != cdcpb.ScanPriority_SCAN_PRIORITY_HIGH || first.ScanPriority != cdcpb.ScanPriority_SCAN_PRIORITY_LOW {
		t.Errorf("requests %v, %v", first, u)
	}
	f.rows(u, initialized)
	f.resolved(longAgo(1), u)
	urgent.until(tso.TS(longAgo(1)))
	qs = append(qs, first)
	for len(qs) < 4 {
		select {
		case q := <-f.reqs:
			t.Fatalf("%v goes in while %v is scanned", q, qs[len(qs)-1])
		default:
		}
		f.rows(qs[len(qs)-1], initialized)
		qs = append(qs, f.request())
	}
	f.rows(qs[3], initialized)
	for _, q := range qs {
		f.resolved(20, q)
	}
	w.until(20)
	if s := c.Status().Streams[0]; s.Waiting != 0 || s.Scanning != 0 || s.Live != 5 || s.Subscriptions != 2 {
		t.Errorf("%+v", s)
	}
	// A failed scan leaves the window too.
	f.fail(qs[0], &cdcpb.Error{})
	f.fail(qs[1], &cdcpb.Error{})
	for range 2 {
		if q := f.request(); q.RegionId > 2 || q.CheckpointTs != 20 {
			t.Errorf("request %v", q)
		}
	}
}

// account is a Memory.
type account struct {
	mu    sync.Mutex
	held  int64
	peak  int64
	tight bool

	most   int64 // above it prewrites are put away, if it is not 0
	away   map[uint64][]event.Prewrite
	put    int   // prewrites that were put away
	broken error // of what is away
}

func (a *account) Hold(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held += bytes
	a.peak = max(a.peak, a.held)
}

func (a *account) Excess() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.most == 0 || a.held <= a.most {
		return 0
	}
	return a.held
}

func (a *account) PutAway(of uint64, bytes int64, sorted iter.Seq[event.Prewrite]) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != nil {
		return a.broken
	}
	if a.away == nil {
		a.away = map[uint64][]event.Prewrite{}
	}
	for p := range sorted {
		bytes -= int64(len(p.Key) + len(p.Value) + len(p.Old))
		a.away[of] = append(a.away[of], p)
		a.put++
	}
	if bytes != 0 {
		return fmt.Errorf("off by %d bytes", bytes)
	}
	return nil
}

func (a *account) TakeBack(of uint64, wanted []event.Prewrite, found func(int, event.Prewrite)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != nil {
		return a.broken
	}
	for i, w := range wanted {
		a.away[of] = slices.DeleteFunc(a.away[of], func(p event.Prewrite) bool {
			if p.StartTS != w.StartTS || string(p.Key) != string(w.Key) {
				return false
			}
			found(i, p)
			return true
		})
	}
	return nil
}

func (a *account) Drop(of uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.away, of)
}

func (a *account) Tight() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tight
}

func (a *account) now() (held, peak int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held, a.peak
}

// TestPutAway: what memory has no room for is put away and found again, and what
// cannot be ends the subscription.
func TestPutAway(t *testing.T) {
	p := startPuppet(t, nil)
	c := open(t, p.config())
	a := &account{most: 1000}
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10, Memory: a}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	f.rows(q, initialized)
	value := strings.Repeat("v", 600)
	f.rows(q, prewrite("a", value, 21), prewrite("b", value, 21), prewrite("c", "small", 22))
	eventually(t, "all of it is put away", func() bool {
		held, _ := a.now()
		a.mu.Lock()
		defer a.mu.Unlock()
		return held < 1000 && a.put == 3
	})
	f.rows(q, commit("a", 21, 30), commit("b", 21, 30))
	f.resolved(30, q)
	same(t, w.until(30), "a=vvvvvvvvvvvvvvvvvvvv (was ) 21-30", "b=vvvvvvvvvvvvvvvvvvvv (was ) 21-30")
	f.fail(q, &cdcpb.Error{})
	q = f.request()
	eventually(t, "the rest is dropped", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.away) == 0
	})
	f.rows(q, prewrite("a", value, 31), prewrite("b", value, 31), initialized)
	eventually(t, "it is put away again", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.put == 5
	})
	a.mu.Lock()
	a.broken = errors.New("the disk is broken")
	a.mu.Unlock()
	f.rows(q, commit("a", 31, 40))
	if err := w.end(); !errors.Is(err, a.broken) {
		t.Errorf("ended with %v", err)
	}
}

// TestMemory: what waits for its commit is on the account, until it is handed on
// or given up; while memory is tight only urgent scans begin.
func TestMemory(t *testing.T) {
	p := startPuppet(t, nil)
	split(p)
	cfg := p.config()
	cfg.StuckAfter = 20 * time.Millisecond // looks at memory often
	c := open(t, cfg)
	a := &account{}
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10, Memory: a}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	value := strings.Repeat("v", 100_000)
	f.rows(q, initialized, prewrite("a", value, 11), prewrite("b", value, 11))
	eventually(t, "both are on the account", func() bool { held, _ := a.now(); return held > 200_000 && held < 210_000 })
	f.rows(q, commit("a", 11, 12))
	eventually(t, "one is handed on", func() bool { held, _ := a.now(); return held > 100_000 && held < 110_000 })
	if held := c.Status(); held.Subscriptions[0].Span.TableID != 7 {
		t.Errorf("%+v", held)
	}
	f.fail(q, &cdcpb.Error{})
	eventually(t, "the other is given up", func() bool { held, _ := a.now(); return held == 0 })
	q = f.request()
	f.rows(q, prewrite("b", value, 11), initialized)
	eventually(t, "it is there again", func() bool { held, _ := a.now(); return held > 100_000 })
	_ = w.stop()
	if held, _ := a.now(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}

	b := &account{tight: true}
	w = subscribe(t, c, Subscription{Span: keys("a", "c"), StartTS: 10, Memory: b}, nil)
	urgent := subscribe(t, c, Subscription{Span: keys("c", "e"), StartTS: tso.TS(longAgo(1000)), Memory: b}, nil)
	f = p.kv[1].feed(t)
	q = f.request()
	if q.CheckpointTs != longAgo(1000) {
		t.Errorf("request %v", q)
	}
	f.rows(q, initialized)
	f.resolved(longAgo(1), q)
	urgent.until(tso.TS(longAgo(1)))
	b.mu.Lock()
	b.tight = false
	b.mu.Unlock()
	q = f.request()
	f.rows(q, initialized)
	f.resolved(20, q)
	w.until(20)
}
