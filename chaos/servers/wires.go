package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/transport/badline"
)

// etcdName and storeName are the names of who is called and is no server.
const etcdName = "etcd"

func storeName(number int) string { return fmt.Sprintf("store %d", number+1) }

// wire is a pair of processes that talk, by the names of who calls and who is called.
type wire struct{ from, to string }

// isPeers tells whether it is one between servers.
func (w wire) isPeers() bool { return strings.HasPrefix(w.to, serverPrefix) }

// cut is what does not pass: on the wires of some pairs, in one direction. Out is
// what the caller says.
type cut struct {
	of  func(wire) bool
	way badline.Direction
}

// wires are the connections of servers, by ports before whoever they call.
type wires struct {
	caller func(net.Conn) string // who is on the other end; "" where that is nobody known
	delay  time.Duration         // of each answer
	ports  []*port

	mu    sync.Mutex             // guards what follows
	lines map[wire]*badline.Line // one a pair, for all its connections
	cuts  []cut                  // of now
}

// port is called in somebody's place.
type port struct {
	name string // of who is meant
	lis  net.Listener
	to   string // where that one listens
}

// Address is where it is called.
func (p *port) Address() string { return p.lis.Addr().String() }

// open opens a port before somebody, who need not be there yet: calls wait until the
// wires are run.
func (w *wires) open(name string) (*port, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &port{name: name, lis: lis}
	w.ports = append(w.ports, p)
	return p, nil
}

// close gives up ports that nobody has run.
func (w *wires) close() {
	for _, p := range w.ports {
		_ = p.lis.Close() // nobody is left to call it
	}
}

// run connects callers until ctx ends.
func (w *wires) run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, p := range w.ports {
		stop := context.AfterFunc(ctx, func() { _ = p.lis.Close() }) // what ends accepting
		all.Go(func() error {
			defer stop()
			return w.accept(ctx, p)
		})
	}
	return all.Wait()
}

func (w *wires) accept(ctx context.Context, p *port) error {
	var calls errgroup.Group
	for {
		c, err := p.lis.Accept()
		if err != nil {
			_ = calls.Wait() // a call has no errors, but its ends'
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		calls.Go(func() error { return w.connect(ctx, p, c) })
	}
}

// connect carries one call, until either end has had enough.
func (w *wires) connect(ctx context.Context, p *port, client net.Conn) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var d net.Dialer
	callee, err := w.line(wire{w.caller(client), p.name}).Dialer(func(ctx context.Context, address string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", address)
	})(ctx, p.to)
	if err != nil {
		return client.Close()
	}
	var ways errgroup.Group
	for _, way := range [][2]net.Conn{{client, callee}, {callee, client}} {
		ways.Go(func() error {
			defer stop()
			_, err := io.Copy(way[1], way[0])
			return err
		})
	}
	<-ctx.Done()
	return errors.Join(client.Close(), callee.Close(), ways.Wait())
}

// line is the one of a pair, cut as it is to be now.
func (w *wires) line(of wire) *badline.Line {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lines[of]
	if l == nil {
		l = badline.New()
		if w.lines == nil {
			w.lines = map[wire]*badline.Line{}
		}
		w.lines[of] = l
		l.Delay(badline.In, w.delay)
		w.cutLocked(of, l)
	}
	return l
}

func (w *wires) cutLocked(of wire, l *badline.Line) {
	for _, c := range w.cuts {
		if c.of(of) {
			l.Cut(c.way)
		}
	}
}

// Cut lets nothing pass where it is told to, and everything elsewhere: what was held
// there goes on its way.
func (w *wires) Cut(cuts ...cut) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts = cuts
	for of, l := range w.lines {
		l.Heal()
		w.cutLocked(of, l)
	}
}
