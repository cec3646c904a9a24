package mysql

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/internal/freeport"
)

// A proxy stands between a sink and the server, and cuts connections where a
// test wants it.
type proxy struct {
	tb       testing.TB
	listener net.Listener
	group    errgroup.Group

	mu   sync.Mutex
	to   string
	next string // where it leads after the next cut; empty: to the same
	cuts []cut
	seen int // cuts that were made
	left int // packets until it dies; 0: it does not
	dead bool
	// instead are texts of one length of which the second goes to the server.
	instead [][2]string
	conns   []net.Conn
	holds   []*held

	diesHolding bool
}

// held is a packet that is on its way when its sender dies: the server gets it when
// the test says so.
type held struct {
	text    string
	stopped chan struct{} // closed when it has come
	packet  []byte
	up      net.Conn
	let     chan struct{} // closed when it goes on
	over    chan struct{} // closed when the server has answered and ended the connection
	answer  []byte        // then
}

// holdAt holds the next packet with that text back, and ends its sender's connection.
func (p *proxy) holdAt(text string) *held {
	h := &held{text: text, stopped: make(chan struct{}), let: make(chan struct{}), over: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
	return h
}

func (p *proxy) takeHold(packet []byte) *held {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, h := range p.holds {
		if bytes.Contains(packet, []byte(h.text)) {
			p.holds = append(p.holds[:i:i], p.holds[i+1:]...)
			p.dead = p.dead || p.diesHolding
			return h
		}
	}
	return nil
}

// release lets the server have the packet, and is what it answered.
func (h *held) release(tb testing.TB) []byte {
	tb.Helper()
	<-h.stopped
	if _, err := h.up.Write(h.packet); err != nil {
		tb.Logf("the packet came too late: %v", err)
	}
	_ = h.up.(*net.TCPConn).CloseWrite() // fails where the server has closed it
	<-h.over
	close(h.let)
	return h.answer
}

// A cut ends the connection of the first statement that holds its text: before
// the server gets it, or after the server has answered.
type cut struct {
	text   string
	before bool
}

func newProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	address, err := freeport.PickAddress() // nobody's once the proxy is closed
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{tb: tb, listener: l, to: to}
	p.group.Go(p.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		p.cutAll()
		if err := p.group.Wait(); err != nil {
			tb.Error(err)
		}
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// uri is the sink URI through the proxy.
func (p *proxy) uri(params ...string) string {
	u := url.URL{Scheme: "mysql", User: url.User("root"), Host: p.addr(), Path: "/", RawQuery: strings.Join(params, "&")}
	return u.String()
}

func (p *proxy) accept() error {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		p.mu.Lock()
		dead, to := p.dead, p.to
		p.mu.Unlock()
		if dead {
			_ = client.Close()
			continue
		}
		up, err := net.Dial("tcp", to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, up)
		p.mu.Unlock()
		p.group.Go(func() error { p.carry(client, up); return nil })
	}
}

// A wire is what the two directions of a connection know of each other.
type wire struct {
	client, up net.Conn

	mu      sync.Mutex
	swallow bool  // the next answer ends the connection
	late    *held // answers are its own
}

// carry moves statements up and answers down until one side ends or is cut.
func (p *proxy) carry(client, up net.Conn) {
	w := &wire{client: client, up: up}
	defer client.Close()
	defer up.Close()
	p.group.Go(func() error { w.answers(); return nil })
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if n > 0 {
			if c := p.take(buf[:n]); c != nil {
				if c.before {
					return
				}
				w.mu.Lock()
				w.swallow = true
				w.mu.Unlock()
			}
			if h := p.takeHold(buf[:n]); h != nil {
				w.hold(h, buf[:n])
				return
			}
			for _, x := range p.instead {
				copy(buf, bytes.ReplaceAll(buf[:n], []byte(x[0]), []byte(x[1])))
			}
			if _, err := io.Copy(up, bytes.NewReader(buf[:n])); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) hold(h *held, packet []byte) {
	w.mu.Lock()
	w.late = h
	w.mu.Unlock()
	h.packet, h.up = bytes.Clone(packet), w.up
	_ = w.client.Close()
	close(h.stopped)
	<-h.let
}

func (w *wire) answers() {
	defer w.client.Close()
	defer w.up.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := w.up.Read(buf)
		w.mu.Lock()
		gone, h := w.swallow, w.late
		w.mu.Unlock()
		switch {
		case h != nil:
			h.answer = append(h.answer, buf[:n]...)
			if err != nil {
				close(h.over)
			}
		case n > 0 && gone:
			return
		case n > 0:
			if _, err := w.client.Write(buf[:n]); err != nil {
				return // the client went away
			}
		}
		if err != nil {
			return // the server went away
		}
	}
}

// take is the next cut if the packet is its own.
func (p *proxy) take(packet []byte) *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 0 {
		p.left--
		p.dead = p.left == 0
	}
	if p.dead {
		return &cut{before: true}
	}
	if len(p.cuts) == 0 || !bytes.Contains(packet, []byte(p.cuts[0].text)) {
		return nil
	}
	c := p.cuts[0]
	p.cuts = p.cuts[1:]
	p.seen++
	if p.next != "" {
		p.to, p.next = p.next, ""
	}
	return &c
}

// cutAt queues cuts; each waits for the one before.
func (p *proxy) cutAt(cuts ...cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts = append(p.cuts, cuts...)
}

// spare forgets the cuts that nothing has met.
func (p *proxy) spare() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts = nil
}

// nowhere is where a proxy leads to whose servers are all gone.
const nowhere = "nowhere"

// failOver has the next cut take the server with it, so that another one takes over.
func (p *proxy) failOver(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = to
}

// dieAt lets nothing pass from the nth packet on, as if the process that sends them
// had been killed before it.
func (p *proxy) dieAt(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = n
}

// dieAfterHold lets nothing pass any more from the next held packet on, until live.
func (p *proxy) dieAfterHold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.diesHolding = true
}

func (p *proxy) live() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead, p.diesHolding = false, false
}

// made is how many cuts were made, and whether all were.
func (p *proxy) made() (n int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen, len(p.cuts) == 0
}

// cutAll ends every connection, as a network does that fails while nobody talks.
func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}
