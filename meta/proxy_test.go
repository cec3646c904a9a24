package meta_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy stands between a client and etcd, and may let nothing pass.
type proxy struct {
	in net.Listener

	mu      sync.Mutex
	to      string
	open    *sync.Cond
	stalled bool
	conns   map[net.Conn]bool // nil: closed
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{to: strings.TrimPrefix(to, "http://"), in: in, conns: map[net.Conn]bool{}}
	p.open = sync.NewCond(&p.mu)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			c, err := in.Accept()
			if err != nil {
				return
			}
			p.carry(c, &wg)
		}
	}()
	t.Cleanup(func() {
		p.stall(false)
		_ = in.Close()
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.conns = nil
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.in.Addr().String() }

func (p *proxy) carry(c net.Conn, wg *sync.WaitGroup) {
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	far, err := net.Dial("tcp", to)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.conns == nil {
		_ = c.Close()
		return
	}
	p.conns[c], p.conns[far] = true, true
	for _, pair := range [][2]net.Conn{{c, far}, {far, c}} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, _ = io.Copy(gate{p, pair[0]}, pair[1])
			_, _ = pair[0].Close(), pair[1].Close()
		}()
	}
}

func (p *proxy) stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = on
	p.open.Broadcast()
}

// gate writes while the proxy is not stalled.
type gate struct {
	*proxy
	to net.Conn
}

func (g gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	for g.stalled {
		g.open.Wait()
	}
	g.mu.Unlock()
	return g.to.Write(b)
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// turn leads to another place from now on.
func (p *proxy) turn(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = strings.TrimPrefix(to, "http://")
}
