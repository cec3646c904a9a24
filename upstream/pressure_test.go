package upstream

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"

	"github.com/sluice-cdc/sluice/tso"
)

// TestBackPressure blocks the consumer: the server must run into a wall soon,
// and everything must arrive once the consumer goes on.
func TestBackPressure(t *testing.T) {
	p := startPuppet(t, nil)
	cfg := p.config()
	cfg.StreamBudget = 1 << 20
	c := open(t, cfg)
	gate := make(chan struct{})
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, gate)
	gate <- struct{}{} // for the moves of the registration
	f := p.kv[1].feed(t)
	q := f.request()
	const messages, size = 64, 1 << 20
	sent := make(chan int, messages)
	go func() {
		defer close(sent)
		value := strings.Repeat("v", size)
		for i := range messages {
			row := committed("k", value, uint64(100+i), uint64(101+i))
			e := &cdcpb.ChangeDataEvent{Events: []*cdcpb.Event{{RegionId: 1, RequestId: q.RequestId,
				Event: &cdcpb.Event_Entries_{Entries: &cdcpb.Event_Entries{Entries: []*cdcpb.Event_Row{row}}}}}}
			if f.server.Send(e) != nil {
				return
			}
			sent <- i
		}
	}()
	n := 1
	<-sent
	for quiet := false; !quiet; {
		select {
		case <-sent:
			n++
		case <-time.After(300 * time.Millisecond): // long for a loopback: it is stuck
			quiet = true
		}
	}
	// The consumer has one, the budget one, the receiver one, and gRPC's windows a few.
	if n > 16 {
		t.Errorf("%d messages of a megabyte were sent while the consumer was blocked", n)
	}
	close(gate)
	for range sent {
		n++
	}
	if n != messages {
		t.Fatalf("%d messages were sent", n)
	}
	f.rows(q, initialized)
	f.resolved(1000, q)
	if got := len(w.until(1000)); got != messages {
		t.Errorf("%d rows arrived", got)
	}
}

// TestHugeRow passes a row that is larger than the whole budget.
func TestHugeRow(t *testing.T) {
	p := startPuppet(t, nil)
	cfg := p.config()
	cfg.StreamBudget = 1 << 20
	c := open(t, cfg)
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	value := bytes.Repeat([]byte("v"), 8<<20)
	f.rows(q, committed("k", string(value), 20, 21), initialized)
	f.resolved(30, q)
	w.until(30)
	if w.bytes != len(value) {
		t.Errorf("%d bytes arrived", w.bytes)
	}
}

// TestLeaveGivesBack ends subscriptions that never took what was sent: those
// that stay must not be starved of the stream's budget.
func TestLeaveGivesBack(t *testing.T) {
	p := startPuppet(t, nil)
	cfg := p.config()
	cfg.StreamBudget = 1 << 20
	c := open(t, cfg)
	stay := subscribe(t, c, Subscription{Span: keys("a", "m"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	f.rows(q, initialized)
	value := strings.Repeat("v", 600<<10)
	for i := range uint64(4) {
		gate := make(chan struct{})
		leave := subscribe(t, c, Subscription{Span: keys("m", "z"), StartTS: 10}, gate)
		gate <- struct{}{}
		var r *cdcpb.ChangeDataRequest
		for r = f.request(); r.GetDeregister() != nil; r = f.request() {
		}
		// The first is being handed on, the second waits for the budget.
		f.rows(r, committed("n", value, 20, 21))
		f.rows(r, committed("n", value, 22, 23))
		f.resolved(100+i, q)
		_ = leave.stop()
		stay.until(tso.TS(100 + i))
	}
}
