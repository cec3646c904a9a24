package fake

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Trouble is what the network does to the connections of one server. The zero
// Trouble is none. Bytes are held, never lost: like TCP, which sends them again.
type Trouble struct {
	HoldIn   bool          // nothing that clients send arrives
	HoldOut  bool          // nothing that the server sends arrives
	DelayIn  time.Duration // before what clients send is read on
	DelayOut time.Duration // before what the server sends is written on
}

// network is the wire of one server: its port, which it keeps for as long as
// the cluster lives, and the connections over it. While the server is down,
// whoever connects is turned away at once.
type network struct {
	lis net.Listener

	mu      sync.Mutex // guards what follows
	trouble Trouble
	changed chan struct{} // closed when trouble changes
	up      *incarnation  // nil while the server is down
	started chan struct{} // closed when up is set
}

// incarnation is one life of a server, from its start to its stop.
type incarnation struct {
	net     *network
	conns   chan net.Conn // to Accept, at once: nothing waits in it
	killed  chan struct{} // closed when it has to end
	ended   chan struct{} // closed when all its requests are over
	closing sync.Once
	lived   bool // somebody serves, and will close ended; under net.mu

	mu    sync.Mutex // guards links
	links map[*link]struct{}
}

func newNetwork(lis net.Listener) *network {
	n := &network{lis: lis, changed: make(chan struct{}), started: make(chan struct{})}
	n.start()
	return n
}

// addr is host:port.
func (n *network) addr() string { return n.lis.Addr().String() }

// accept takes connections until the port is closed.
func (n *network) accept() error {
	for {
		c, err := n.lis.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		n.mu.Lock()
		up := n.up
		n.mu.Unlock()
		if up == nil || !up.take(c) {
			reset(c)
		}
	}
}

// reset ends a connection as a dead server's host does.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // at worst it is closed in the ordinary way
	}
	_ = c.Close()
}

// start brings the server up; false if it is.
func (n *network) start() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.up != nil {
		return false
	}
	n.up = &incarnation{
		net: n, conns: make(chan net.Conn), killed: make(chan struct{}), ended: make(chan struct{}), links: map[*link]struct{}{},
	}
	close(n.started)
	return true
}

// stop takes the server down: its connections break at once. It returns the
// life that ends, nil if the server was down already.
func (n *network) stop() *incarnation {
	n.mu.Lock()
	up := n.up
	if up != nil {
		n.up = nil
		n.started = make(chan struct{})
		if !up.lived {
			close(up.ended)
		}
	}
	n.mu.Unlock()
	if up != nil {
		up.kill()
	}
	return up
}

// alive is a life of the server that nobody has lived yet, waited for where
// there is none.
func (n *network) alive(ctx context.Context) (*incarnation, error) {
	for {
		n.mu.Lock()
		up, started := n.up, n.started
		fresh := up != nil && !up.lived
		if fresh {
			up.lived = true
		}
		n.mu.Unlock()
		if fresh {
			return up, nil
		}
		select {
		case <-started:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// over says that a life has been lived to its end.
func (n *network) over(inc *incarnation) {
	n.mu.Lock()
	if n.up == inc { // nobody stopped it
		n.up, n.started = nil, make(chan struct{})
	}
	n.mu.Unlock()
	inc.kill()
	close(inc.ended)
}

func (n *network) isUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.up != nil
}

// set puts other trouble in place.
func (n *network) set(t Trouble) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble = t
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *network) now() (Trouble, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.trouble, n.changed
}

// take hands a connection to the server; false where it no longer listens.
func (i *incarnation) take(c net.Conn) bool {
	l := &link{Conn: c, life: i, closed: make(chan struct{})}
	i.mu.Lock()
	i.links[l] = struct{}{}
	i.mu.Unlock()
	select {
	case i.conns <- l:
		return true
	case <-i.killed:
		return false
	}
}

// Accept is the next connection.
func (i *incarnation) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.killed:
		return nil, net.ErrClosed
	}
}

// Close is called by whoever serves on i; the port stays.
func (i *incarnation) Close() error {
	i.kill()
	return nil
}

// Addr is the server's port.
func (i *incarnation) Addr() net.Addr { return i.net.lis.Addr() }

func (i *incarnation) kill() {
	i.closing.Do(func() { close(i.killed) })
	i.mu.Lock()
	links := i.links
	i.links = map[*link]struct{}{}
	i.mu.Unlock()
	for l := range links {
		l.end()
		reset(l.Conn)
	}
}

// link is one connection, as the server sees it.
type link struct {
	net.Conn
	life   *incarnation
	closed chan struct{}
	once   sync.Once
}

func (l *link) end() { l.once.Do(func() { close(l.closed) }) }

// Read reads what a client sent, once it may arrive.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	// The trouble may have begun while Read waited: what came is held all the same.
	if !l.pass(func(t Trouble) (bool, time.Duration) { return t.HoldIn, t.DelayIn }) {
		return 0, io.ErrClosedPipe
	}
	return n, err
}

// Write sends to a client, once it may.
func (l *link) Write(b []byte) (int, error) {
	if !l.pass(func(t Trouble) (bool, time.Duration) { return t.HoldOut, t.DelayOut }) {
		return 0, io.ErrClosedPipe
	}
	return l.Conn.Write(b)
}

// Close ends the connection.
func (l *link) Close() error {
	l.end()
	l.life.mu.Lock()
	delete(l.life.links, l)
	l.life.mu.Unlock()
	return l.Conn.Close()
}

// pass waits for as long as there is trouble in one direction; false means that
// the connection was closed.
func (l *link) pass(in func(Trouble) (hold bool, delay time.Duration)) bool {
	for {
		t, changed := l.life.net.now()
		hold, delay := in(t)
		switch {
		case hold:
			select {
			case <-changed:
				continue
			case <-l.closed:
				return false
			}
		case delay > 0:
			return l.wait(delay, changed)
		}
		return true
	}
}

// wait lasts for a delay, or until the trouble changes; false means that the
// connection was closed.
func (l *link) wait(delay time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-l.closed:
		return false
	}
	return true
}
