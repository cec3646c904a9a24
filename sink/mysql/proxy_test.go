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
}

// A cut ends the connection of the first statement that holds its text: before
// the server gets it, or after the server has answered.
type cut struct {
	text   string
	before bool
}

func newProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
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

// carry moves statements up and answers down until one side ends or is cut.
func (p *proxy) carry(client, up net.Conn) {
	defer client.Close()
	defer up.Close()
	var mu sync.Mutex
	swallow := false // the next answer ends the connection
	p.group.Go(func() error {
		defer client.Close()
		defer up.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := up.Read(buf)
			if n > 0 {
				mu.Lock()
				gone := swallow
				mu.Unlock()
				if gone {
					return nil
				}
				if _, err := client.Write(buf[:n]); err != nil {
					return nil // the client went away
				}
			}
			if err != nil {
				return nil // the server went away
			}
		}
	})
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if n > 0 {
			if c := p.take(buf[:n]); c != nil {
				if c.before {
					return
				}
				mu.Lock()
				swallow = true
				mu.Unlock()
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
