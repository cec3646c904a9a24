package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// watch is one subscription with what it delivered.
type watch struct {
	t      testing.TB
	cancel context.CancelFunc
	done   chan error
	moved  chan struct{}
	gate   chan struct{} // when not nil, out takes a token a call

	mu       sync.Mutex
	rows     []string // guarded by mu
	bytes    int      // guarded by mu
	resolved tso.TS   // guarded by mu
	busy     bool     // guarded by mu
}

func keys(a, b string) span.Span {
	return span.Span{TableID: 7, Start: span.EncodeKey([]byte(a)), End: span.EncodeKey([]byte(b))}
}

// subscribe follows a span until the test ends or stop is called.
func subscribe(t testing.TB, c *Client, s Subscription, gate chan struct{}) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{t: t, cancel: cancel, done: make(chan error, 1), moved: make(chan struct{}, 1), gate: gate}
	go func() { w.done <- c.Subscribe(ctx, s, func(b Batch) error { return w.take(ctx, b) }) }()
	t.Cleanup(func() { _ = w.stop() })
	return w
}

func (w *watch) take(ctx context.Context, b Batch) error {
	w.mu.Lock()
	if w.busy {
		w.t.Error("out is called while it is at work")
	}
	w.busy = true
	w.mu.Unlock()
	if w.gate != nil {
		select {
		case <-w.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	for _, r := range b.Rows {
		if r.CommitTS <= w.resolved {
			w.t.Errorf("row %s of commit-ts %d after resolved-ts %d", r.Key, r.CommitTS, w.resolved)
		}
		w.rows = append(w.rows, show(r))
		w.bytes += len(r.Value)
	}
	if b.Resolved != 0 {
		if b.Resolved <= w.resolved {
			w.t.Errorf("resolved-ts %d after %d", b.Resolved, w.resolved)
		}
		w.resolved = b.Resolved
	}
	select {
	case w.moved <- struct{}{}:
	default:
	}
	return nil
}

func show(r event.RawKV) string {
	if r.Op == event.Delete {
		return fmt.Sprintf("%s deleted (was %s) %d-%d", r.Key, r.Old, r.StartTS, r.CommitTS)
	}
	return fmt.Sprintf("%s=%s (was %s) %d-%d", r.Key, r.Value[:min(len(r.Value), 20)], r.Old, r.StartTS, r.CommitTS)
}

// stop ends the subscription and returns what it ended with.
func (w *watch) stop() error {
	w.cancel()
	return w.end()
}

// end waits for the subscription to end by itself.
func (w *watch) end() error {
	w.t.Helper()
	select {
	case err := <-w.done:
		w.done <- err
		return err
	case <-time.After(patience):
		w.t.Fatal("the subscription goes on")
		return nil
	}
}

// at is the newest resolved-ts.
func (w *watch) at() tso.TS {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resolved
}

// until waits for a resolved-ts and returns the rows so far.
func (w *watch) until(ts tso.TS) []string {
	w.t.Helper()
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		rows, resolved := w.rows, w.resolved
		w.mu.Unlock()
		if resolved >= ts {
			return rows
		}
		select {
		case <-w.moved:
		case err := <-w.done:
			w.t.Fatalf("the subscription ended: %v", err)
		case <-deadline:
			w.t.Fatalf("resolved-ts is %d, waiting for %d; rows %q", resolved, ts, rows)
		}
	}
}

func same(t testing.TB, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got rows %q, want %q", got, want)
	}
}

func TestSubscribe(t *testing.T) {
	p := startPuppet(t, nil)
	c := open(t, p.config())
	w := subscribe(t, c, Subscription{Span: keys("a", "m"), StartTS: 100, FilterLoop: true}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	want := &cdcpb.ChangeDataRequest{
		Header:       &cdcpb.Header{ClusterId: puppetCluster, TicdcVersion: "8.5.0"},
		RegionId:     1,
		RegionEpoch:  &metapb.RegionEpoch{ConfVer: 1, Version: 1},
		CheckpointTs: 100,
		StartKey:     []byte(span.EncodeKey([]byte("a"))),
		EndKey:       []byte(span.EncodeKey([]byte("m"))),
		RequestId:    q.RequestId,
		ExtraOp:      kvrpcpb.ExtraOp_ReadOldValue,
		FilterLoop:   true,
		ScanPriority: cdcpb.ScanPriority_SCAN_PRIORITY_LOW, // 100 is history
	}
	if q.String() != want.String() || q.RequestId == 0 {
		t.Errorf("request\n%v\nwant\n%v", q, want)
	}
	f.rows(q, committed("b", "1", 99, 101), prewrite("c", "2", 102), initialized)
	f.resolved(101, q)
	same(t, w.until(101), "b=1 (was ) 99-101")
	f.rows(q, commit("c", 102, 103), &cdcpb.Event_Row{}, // an UNKNOWN row
		&cdcpb.Event_Row{Type: cdcpb.Event_PREWRITE, OpType: cdcpb.Event_Row_DELETE, Key: []byte("d"), OldValue: []byte("0"), StartTs: 104},
		&cdcpb.Event_Row{Type: cdcpb.Event_COMMIT, OpType: cdcpb.Event_Row_DELETE, Key: []byte("d"), StartTs: 104, CommitTs: 105})
	// The old form of a resolved-ts.
	f.send(&cdcpb.ChangeDataEvent{Events: []*cdcpb.Event{{RegionId: 1, RequestId: q.RequestId, Event: &cdcpb.Event_ResolvedTs{ResolvedTs: 110}}}})
	same(t, w.until(110), "b=1 (was ) 99-101", "c=2 (was ) 102-103", "d deleted (was 0) 104-105")
	if err := w.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestSubscribeSplit(t *testing.T) {
	p := startPuppet(t, nil)
	p.oldPD = true // and by the way, a PD that answers for one range only
	c := open(t, p.config())
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	f.rows(q, prewrite("n", "1", 21), initialized)
	f.resolved(20, q)
	w.until(20)

	border := span.EncodeKey([]byte("m"))
	p.setRegions(puppetRegion(2, 2, 1, "", border), puppetRegion(1, 2, 1, border, ""))
	f.fail(q, &cdcpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}})
	left, right := f.request(), f.request()
	if left.RegionId != 2 || string(left.EndKey) != string(border) || left.CheckpointTs != 20 ||
		right.RegionId != 1 || string(right.StartKey) != string(border) || right.CheckpointTs != 20 {
		t.Errorf("requests\n%v\n%v", left, right)
	}
	if right.RequestId == q.RequestId {
		t.Error("the region's new registration cannot be told from its old one")
	}
	// Late events of the old registration count for nothing.
	f.rows(q, initialized, committed("x", "late", 1, 2))
	f.rows(left, initialized)
	f.resolved(30, left)
	f.rows(right, prewrite("n", "1", 21), initialized, commit("n", 21, 25))
	f.resolved(31, right)
	same(t, w.until(30), "n=1 (was ) 21-25")
}

func TestSubscribeLeader(t *testing.T) {
	p := startPuppet(t, nil)
	c := open(t, p.config())
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	f.rows(q, initialized)
	f.resolved(20, q)
	w.until(20)
	f.fail(q, &cdcpb.Error{NotLeader: &errorpb.NotLeader{RegionId: 1, Leader: &metapb.Peer{Id: 12, StoreId: 2}}})
	g := p.kv[2].feed(t)
	r := g.request()
	if r.CheckpointTs != 20 {
		t.Errorf("request %v", r)
	}
	g.rows(r, committed("k", "v", 21, 22), initialized)
	g.resolved(30, r)
	same(t, w.until(30), "k=v (was ) 21-22")

	// Errors that ask for patience: the same region again, from where it was.
	g.fail(r, &cdcpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{Reason: "too many pending incremental scans", BackoffMs: 1}})
	r = g.request()
	g.fail(r, &cdcpb.Error{Congested: &cdcpb.Congested{RegionId: 1}})
	r = g.request()
	g.fail(r, &cdcpb.Error{})
	r = g.request()
	g.fail(r, &cdcpb.Error{RegionNotFound: &errorpb.RegionNotFound{RegionId: 1}})
	r = f.request() // PD still says store 1
	if r.CheckpointTs != 30 {
		t.Errorf("request %v", r)
	}
}

func TestSubscribeReconnects(t *testing.T) {
	p := startPuppet(t, nil)
	border := span.EncodeKey([]byte("m"))
	p.setRegions(puppetRegion(1, 1, 1, "", border), puppetRegion(2, 1, 2, border, ""))
	c := open(t, p.config())
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f, g := p.kv[1].feed(t), p.kv[2].feed(t)
	q, r := f.request(), g.request()
	f.rows(q, initialized, prewrite("b", "1", 21))
	f.resolved(20, q)
	g.rows(r, initialized)
	g.resolved(25, r)
	w.until(20)

	for i, end := range []error{nil, status.Error(codes.Unavailable, "bye"), status.Error(codes.Canceled, "quota")} {
		at := uint64(20 + i)
		f.end(end)
		f = p.kv[1].feed(t)
		q = f.request()
		if q.CheckpointTs != at || q.RegionId != 1 {
			t.Errorf("request %v", q)
		}
		f.rows(q, prewrite("b", "1", 21), initialized)
		f.resolved(at+1, q)
		w.until(tso.TS(at + 1))
	}
	f.rows(q, commit("b", 21, 24))
	f.resolved(30, q)
	same(t, w.until(25), "b=1 (was ) 21-24")

	// A whole store goes; its region is led elsewhere afterwards.
	p.kv[1].stop()
	p.setRegions(puppetRegion(1, 1, 2, "", border), puppetRegion(2, 1, 2, border, ""))
	q = g.request()
	g.rows(q, initialized)
	g.resolved(40, q)
	g.resolved(41, r)
	w.until(40)
}

func TestSubscribersShareAStream(t *testing.T) {
	p := startPuppet(t, nil)
	c := open(t, p.config())
	one := subscribe(t, c, Subscription{Span: keys("a", "m"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	two := subscribe(t, c, Subscription{Span: keys("m", "z"), StartTS: 20}, nil)
	r := f.request()
	event := func(q *cdcpb.ChangeDataRequest, rows ...*cdcpb.Event_Row) *cdcpb.Event {
		return &cdcpb.Event{RegionId: q.RegionId, RequestId: q.RequestId,
			Event: &cdcpb.Event_Entries_{Entries: &cdcpb.Event_Entries{Entries: rows}}}
	}
	f.send(&cdcpb.ChangeDataEvent{Events: []*cdcpb.Event{
		event(q, committed("b", "1", 28, 29)), event(r, initialized), event(q, initialized), event(r, committed("n", "2", 30, 31))}})
	f.resolved(30, q)
	f.resolved(40, r)
	same(t, one.until(30), "b=1 (was ) 28-29")
	same(t, two.until(40), "n=2 (was ) 30-31")

	if err := one.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	d := f.request()
	if d.GetDeregister() == nil || d.RegionId != 0 || d.RequestId != q.RequestId {
		t.Errorf("request %v", d)
	}
	// The answer to it, and what was under way, is nobody's.
	f.fail(q, &cdcpb.Error{RegionNotFound: &errorpb.RegionNotFound{RegionId: 1}})
	f.rows(q, committed("c", "9", 41, 42))
	f.resolved(50, r)
	two.until(50)

	// The last one to leave ends the stream.
	_ = two.stop()
	select {
	case <-f.server.Context().Done():
	case <-time.After(patience):
		t.Fatal("the stream goes on without any subscription")
	}
}

func TestSubscribeEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		err  *cdcpb.Error
		code *cdcerr.Code
	}{
		{"cluster", &cdcpb.Error{ClusterIdMismatch: &cdcpb.ClusterIDMismatch{Current: 1, Request: 2}}, cdcerr.ClusterIDMismatch},
		{"version", &cdcpb.Error{Compatibility: &cdcpb.Compatibility{RequiredVersion: "99"}}, cdcerr.VersionIncompatible},
		{"duplicate", &cdcpb.Error{DuplicateRequest: &cdcpb.DuplicateRequest{RegionId: 1}}, cdcerr.Unexpected},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startPuppet(t, nil)
			client := open(t, p.config())
			w := subscribe(t, client, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
			f := p.kv[1].feed(t)
			f.fail(f.request(), c.err)
			if err := w.end(); !c.code.Is(err) {
				t.Errorf("ended with %v", err)
			}
		})
	}
	t.Run("early row", func(t *testing.T) {
		p := startPuppet(t, nil)
		client := open(t, p.config())
		w := subscribe(t, client, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
		f := p.kv[1].feed(t)
		q := f.request()
		f.rows(q, initialized)
		f.resolved(20, q)
		f.rows(q, committed("k", "v", 19, 20))
		if err := w.end(); !cdcerr.ResolvedTsRegressed.Is(err) {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("no multiplexing", func(t *testing.T) {
		p := startPuppet(t, nil)
		p.kv[1].refuse = status.Error(codes.Unimplemented, "stream-multiplexing")
		client := open(t, p.config())
		w := subscribe(t, client, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
		if err := w.end(); !cdcerr.VersionIncompatible.Is(err) {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("out", func(t *testing.T) {
		p := startPuppet(t, nil)
		client := open(t, p.config())
		mine := errors.New("mine")
		err := client.Subscribe(t.Context(), Subscription{Span: keys("a", "z")}, func(Batch) error { return mine })
		if !errors.Is(err, mine) {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("empty span", func(t *testing.T) {
		p := startPuppet(t, nil)
		client := open(t, p.config())
		if err := client.Subscribe(t.Context(), Subscription{Span: keys("a", "a")}, nil); !cdcerr.InvalidArgument.Is(err) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestSubscribeAfterRun(t *testing.T) {
	p := startPuppet(t, nil)
	c, err := Open(t.Context(), p.config())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	w := subscribe(t, c, Subscription{Span: keys("a", "z")}, nil) // before Run: waits
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	p.kv[1].feed(t).request()
	cancel()
	<-done
	if err := w.end(); !errors.Is(err, errStopped) {
		t.Errorf("ended with %v", err)
	}
}
