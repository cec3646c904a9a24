package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/transport/badline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; a test that needs it has failed.
const patience = 3 * time.Minute

var feed = changefeed.ID{Namespace: "default", Name: "feed"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// port is a node's, which outlives the captures that it is one after another.
type port struct {
	service *Service
	address string
}

// serve is how the server serves: HTTP/1, HTTP/2 and gRPC on one listener.
func serve(t *testing.T, l net.Listener) *port {
	t.Helper()
	p := &port{service: NewService(), address: l.Addr().String()}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	mux := http.NewServeMux()
	mux.Handle(Path, p.service)
	s := &http.Server{Handler: mux, Protocols: protocols, ReadHeaderTimeout: patience}
	g := new(errgroup.Group)
	g.Go(func() error { return s.Serve(l) })
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		_ = g.Wait() // the server is closed
	})
	return p
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return l
}

// node is a capture that runs.
type node struct {
	*Transport
	stop func()
}

func quick(id capture.ID, p *port) Config {
	cfg := Default()
	cfg.Self, cfg.Cluster = id, "default"
	cfg.BackoffMin, cfg.BackoffMax = time.Millisecond, 5*time.Millisecond
	if p != nil {
		cfg.Service = p.service
	}
	return cfg
}

func begin(t *testing.T, cfg Config) *node {
	t.Helper()
	x, err := New(cfg)
	must(t, err)
	return run(t, cfg, x)
}

// taking is a capture that takes orders from the first moment on.
func taking(t *testing.T, cfg Config) (*node, *Inbox) {
	t.Helper()
	x, err := New(cfg)
	must(t, err)
	got, err := x.Orders(feed)
	must(t, err)
	return run(t, cfg, x), got
}

func run(t *testing.T, cfg Config, x *Transport) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g := new(errgroup.Group)
	g.Go(func() error { return x.Run(ctx) })
	n := &node{x, func() {
		cancel()
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended with %v", cfg.Self, err)
		}
	}}
	t.Cleanup(n.stop)
	if cfg.Service != nil {
		until(t, "joined", func() bool { return cfg.Service.joined.Load() == x })
	}
	return n
}

// until asks again and again.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
		<-time.After(time.Millisecond)
	}
}

// next is all that comes until something is there.
func next(t *testing.T, b *Inbox) []Received {
	t.Helper()
	for {
		select {
		case <-b.Ready():
		case <-time.After(patience):
			t.Fatal("nothing comes")
		}
		if all := b.Take(); len(all) > 0 {
			return all
		}
	}
}

func orders(to capture.ID, seq uint64) Message {
	return Message{Changefeed: feed, Orders: &scheduler.Orders{Head: scheduler.Head{Owner: 1, Epoch: 1, Capture: to, Seq: seq}}}
}

func report(from capture.ID, seq uint64) Message {
	return Message{Changefeed: feed, Report: &scheduler.Report{Head: scheduler.Head{Owner: 1, Epoch: 1, Capture: from, Seq: seq}}}
}

// pair is an owner a and a capture b that know each other, through a line.
func pair(t *testing.T) (a, b *node, line *badline.Line, reports, got *Inbox) {
	t.Helper()
	line = badline.New()
	pa, pb := serve(t, listen(t)), serve(t, listen(t))
	cfg := quick("a", pa)
	cfg.Dial = line.Dialer(cfg.Dial)
	a, b = begin(t, cfg), begin(t, quick("b", pb))
	members := []capture.Info{{ID: "a", Address: pa.address}, {ID: "b", Address: pb.address}}
	a.SetPeers(members)
	b.SetPeers(members)
	reports, err := a.Reports(feed)
	must(t, err)
	got, err = b.Orders(feed)
	must(t, err)
	return a, b, line, reports, got
}

func TestBothWays(t *testing.T) {
	a, b, _, reports, got := pair(t)
	last := uint64(0)
	for seq := uint64(1); seq <= 200; seq++ {
		must(t, a.Send("b", orders("b", seq)))
		must(t, b.Send("a", report("b", seq)))
		for _, r := range next(t, got) {
			if r.From != "a" || r.Message.Orders.Seq <= last || r.Message.Changefeed != feed {
				t.Fatalf("after %d: %+v", last, r)
			}
			last = r.Message.Orders.Seq
		}
		if all := next(t, reports); all[0].From != "b" || all[0].Message.Report.Seq != seq {
			t.Fatalf("%+v", all)
		}
	}
	if last != 200 {
		t.Errorf("orders up to %d", last)
	}
	c := a.Counts()
	if c.OrdersSent != 200 || c.ReportsReceived != 200 || c.BytesSent == 0 || c.BytesReceived == 0 || c.Broken+c.Failed+c.Replaced != 0 || c.Streams != 1 || c.Callers != 1 {
		t.Errorf("%+v", c)
	}
	if p := a.Peers(); len(p) != 1 || p[0].ID != "b" || !p[0].Connected || p[0].Version != version || p[0].Why != "" {
		t.Errorf("%+v", p)
	}
}

// What an owner says to its own capture takes no stream.
func TestOneself(t *testing.T) {
	a := begin(t, quick("a", nil))
	mine, err := a.Orders(feed)
	must(t, err)
	must(t, a.Send("a", orders("a", 1)))
	if all := next(t, mine); len(all) != 1 || all[0].From != "a" || all[0].Message.Orders.Seq != 1 {
		t.Errorf("%+v", all)
	}
	if _, err := a.Orders(feed); !cdcerr.Unexpected.Is(err) {
		t.Errorf("two take the same: %v", err)
	}
	mine.Close()
	if _, err := a.Orders(feed); err != nil {
		t.Error(err)
	}
}

func TestSendRefuses(t *testing.T) {
	a := begin(t, quick("a", nil))
	a.SetPeers([]capture.Info{{ID: "b", Address: "127.0.0.1:0"}})
	if err := a.Send("c", orders("c", 1)); !cdcerr.CaptureNotFound.Is(err) {
		t.Error(err)
	}
	for name, m := range map[string]Message{
		"for another": orders("c", 1), "of another": report("b", 1), "of nothing": {Changefeed: feed},
		"of both": {Orders: orders("b", 1).Orders, Report: report("a", 1).Report},
	} {
		if err := a.Send("b", m); !cdcerr.Unexpected.Is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.SetPeers(nil)
	if err := a.Send("b", orders("b", 1)); !cdcerr.CaptureNotFound.Is(err) {
		t.Error(err)
	}
}

// A stream that breaks is told, comes again, and what is sent then arrives.
func TestBreak(t *testing.T) {
	a, _, line, reports, got := pair(t)
	must(t, a.Send("b", orders("b", 1)))
	next(t, got)
	line.Break()
	if all := next(t, reports); len(all) != 1 || !all[0].Broken || all[0].From != "b" {
		t.Fatalf("%+v", all)
	}
	must(t, a.Send("b", orders("b", 2)))
	if all := next(t, got); all[0].Message.Orders.Seq != 2 {
		t.Errorf("%+v", all)
	}
	if c := a.Counts(); c.Broken != 1 {
		t.Errorf("%+v", c)
	}
}

// A stream breaks in the midst of a message, at every place: nothing comes out of
// order, nothing comes in part, and what is sent in the end arrives.
func TestBreakWithin(t *testing.T) {
	a, _, line, _, got := pair(t)
	last, seq := uint64(0), uint64(0)
	for after := int64(1); after < 300; after += 7 {
		broken := a.Counts().Broken + a.Counts().Failed // before: a stream that comes about writes too
		for a.Counts().Broken+a.Counts().Failed == broken {
			if !line.Armed() { // or a connection that was ending already has taken it
				line.BreakAfter(after)
			}
			seq++
			must(t, a.Send("b", orders("b", seq)))
			until(t, "sent", func() bool { return a.Counts().Waiting == 0 || a.Counts().Broken+a.Counts().Failed > broken })
		}
	}
	seq++
	must(t, a.Send("b", orders("b", seq)))
	for last < seq {
		for _, r := range next(t, got) {
			if r.Message.Orders.Seq <= last || r.Message.Orders.Capture != "b" {
				t.Fatalf("after %d: %+v", last, r.Message.Orders)
			}
			last = r.Message.Orders.Seq
		}
	}
}

// A peer that does not answer, in either direction of the line, is given up; when the
// line is whole again the stream comes again.
func TestCut(t *testing.T) {
	for name, d := range map[string]badline.Direction{"out": badline.Out, "in": badline.In} {
		t.Run(name, func(t *testing.T) {
			a, b, line, reports, got := pair(t)
			must(t, a.Send("b", orders("b", 1)))
			next(t, got)
			line.Cut(d)
			if all := next(t, reports); !all[0].Broken || all[0].From != "b" {
				t.Fatalf("%+v", all)
			}
			// b may notice first that it hears nothing.
			if why := a.Peers()[0].Why; why != errSilent.Error() && (d == badline.In || why != errEnded.Error()) {
				t.Errorf("given up for: %s", why)
			}
			if d == badline.Out {
				until(t, "b gives a up", func() bool { return b.Counts().Callers == 0 })
			}
			line.Heal()
			must(t, a.Send("b", orders("b", 2)))
			for seq := uint64(0); seq != 2; {
				all := next(t, got)
				seq = all[len(all)-1].Message.Orders.Seq
			}
		})
	}
}

// Messages that nobody can send yet wait, but not all of them.
func TestBacklog(t *testing.T) {
	a, b, line, _, got := pair(t)
	line.Refuse()
	other := changefeed.ID{Namespace: "default", Name: "other"}
	theirs, err := b.Orders(other)
	must(t, err)
	fault, err := b.Reports(feed)
	must(t, err)
	for seq := uint64(1); seq <= 100; seq++ {
		must(t, a.Send("b", orders("b", seq)))
		must(t, a.Send("b", report("a", seq)))
	}
	m := orders("b", 1)
	m.Changefeed = other
	must(t, a.Send("b", m))
	if c := a.Counts(); c.Waiting != ordersMax+2 || c.Replaced != 100-ordersMax+99 {
		t.Errorf("%+v", c)
	}
	line.Heal()
	seen := uint64(100 - ordersMax)
	for seen < 100 {
		for _, r := range next(t, got) {
			if seen++; r.Message.Orders.Seq != seen {
				t.Fatalf("%d, want %d", r.Message.Orders.Seq, seen)
			}
		}
	}
	next(t, theirs)
	var reports []Received
	for len(reports) == 0 || reports[len(reports)-1].Broken {
		reports = append(reports, next(t, fault)...)
	}
	if r := reports[len(reports)-1]; r.Message.Report.Seq != 100 {
		t.Errorf("%+v", r)
	}
}

// An inbox that nobody takes from holds nobody up, and has the newest.
func TestSlowInbox(t *testing.T) {
	a, b, _, reports, got := pair(t)
	for seq := uint64(1); seq <= 100; seq++ {
		must(t, a.Send("b", orders("b", seq)))
		must(t, b.Send("a", report("b", seq)))
		until(t, "arrived", func() bool { return b.Counts().OrdersReceived == seq && a.Counts().ReportsReceived == seq })
	}
	all := next(t, got)
	if len(all) != ordersMax || all[0].Message.Orders.Seq != 101-ordersMax || all[ordersMax-1].Message.Orders.Seq != 100 {
		t.Errorf("%d from %d on", len(all), all[0].Message.Orders.Seq)
	}
	if all := next(t, reports); len(all) != 1 || all[0].Message.Report.Seq != 100 {
		t.Errorf("%+v", all)
	}
	if n := b.Counts().Replaced; n != 100-ordersMax {
		t.Errorf("%d replaced", n)
	}
}

// What nobody takes is refused once, and taken when somebody does.
func TestNobodyTakes(t *testing.T) {
	a, b, _, _, got := pair(t)
	got.Close()
	for seq := uint64(1); seq <= 3; seq++ {
		must(t, a.Send("b", orders("b", seq)))
		until(t, "arrived", func() bool { return b.Counts().Unclaimed == seq })
	}
	until(t, "refused", func() bool { return a.Counts().Refused == 1 })
	got, err := b.Orders(feed)
	must(t, err)
	must(t, a.Send("b", orders("b", 4)))
	if all := next(t, got); len(all) != 1 || all[0].Message.Orders.Seq != 4 {
		t.Errorf("%+v", all)
	}
}

// A message that is too large is not sent, and the next one is.
func TestOversize(t *testing.T) {
	a, _, _, _, got := pair(t)
	m := report("a", 1)
	m.Report.Fault = strings.Repeat("x", messageMax)
	must(t, a.Send("b", m))
	must(t, a.Send("b", orders("b", 2)))
	if all := next(t, got); len(all) != 1 || all[0].Message.Orders.Seq != 2 {
		t.Errorf("%d come", len(all))
	}
	if c := a.Counts(); c.Oversize != 1 || c.Broken != 0 {
		t.Errorf("%+v", c)
	}
}

func TestConfig(t *testing.T) {
	for key, spoil := range map[string]func(*Config){
		"Self": func(c *Config) { c.Self = "" }, "Cluster": func(c *Config) { c.Cluster = "" }, "Dial": func(c *Config) { c.Dial = nil },
		"Silence": func(c *Config) { c.Silence = c.Beat }, "BackoffMax": func(c *Config) { c.BackoffMax = 0 },
	} {
		cfg := quick("a", nil)
		spoil(&cfg)
		if _, err := New(cfg); !cdcerr.InvalidArgument.Is(err) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
