package badline

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// ErrBroken is what a call or a connection ends with on purpose.
var ErrBroken = errors.New("the line is broken")

// Direction is one of a line's, as seen by who dials or accepts through it.
type Direction uint8

// The directions.
const (
	Out Direction = iota // what is written
	In                   // what is read
)

// Dial reaches an address.
type Dial = func(ctx context.Context, address string) (net.Conn, error)

// Line is what connections go through.
type Line struct {
	mu     sync.Mutex
	open   [2]chan struct{}   // guarded by mu: by direction; closed while bytes pass
	cut    [2]bool            // guarded by mu
	delay  [2]time.Duration   // guarded by mu
	refuse bool               // guarded by mu
	left   int64              // guarded by mu: bytes until a break; below 0 for none
	conns  map[*conn]struct{} // guarded by mu
}

// New is a line that is good.
func New() *Line {
	l := &Line{left: -1, conns: map[*conn]struct{}{}}
	for d := range l.open {
		l.open[d] = make(chan struct{})
		close(l.open[d])
	}
	return l
}

// Cut lets nothing through in a direction, of any connection, until Heal. Who waits
// for bytes waits; who writes waits, as behind a full buffer.
func (l *Line) Cut(d Direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut[d] {
		l.cut[d], l.open[d] = true, make(chan struct{})
	}
}

// Heal ends cuts, delays and refusals: what was held goes on its way.
func (l *Line) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d := range l.cut {
		if l.cut[d] {
			l.cut[d] = false
			close(l.open[d])
		}
	}
	l.delay, l.refuse, l.left = [2]time.Duration{}, false, -1
}

// Delay lets each write, or what each read has got, wait for so long.
func (l *Line) Delay(d Direction, by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay[d] = by
}

// Refuse lets no new connection come about.
func (l *Line) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = true
}

// Break ends all connections: what is on its way is lost.
func (l *Line) Break() {
	l.mu.Lock()
	all := l.conns
	l.conns = map[*conn]struct{}{}
	l.mu.Unlock()
	for c := range all {
		_ = c.Close() // it ends either way
	}
}

// BreakAfter breaks the line once, after so many more bytes were written, in the midst
// of whatever is written then.
func (l *Line) BreakAfter(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = bytes
}

// Len is how many connections there are.
func (l *Line) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// Dialer is next through the line.
func (l *Line) Dialer(next Dial) Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		c, err := next(ctx, address)
		if err != nil {
			return nil, err
		}
		return l.take(c)
	}
}

// Listener accepts through the line. Connections that it refuses are closed.
func (l *Line) Listener(next net.Listener) net.Listener { return listener{next, l} }

type listener struct {
	net.Listener
	line *Line
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, err := l.line.take(raw); err == nil {
			return c, nil
		}
	}
}

func (l *Line) take(raw net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse {
		return nil, errors.Join(ErrBroken, raw.Close())
	}
	c := &conn{Conn: raw, line: l, done: make(chan struct{})}
	for d := range c.until {
		c.until[d].passed = make(chan struct{})
	}
	l.conns[c] = struct{}{}
	return c, nil
}

// Armed tells whether the break that BreakAfter announced is still to come.
func (l *Line) Armed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left >= 0
}

// spend counts what is written, and tells how much of it still goes.
func (l *Line) spend(n int) (goes int, breaks bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.left < 0:
		return n, false
	case int64(n) < l.left:
		l.left -= int64(n)
		return n, false
	}
	goes = int(l.left)
	l.left = -1
	return goes, true
}

func (l *Line) state(d Direction) (open <-chan struct{}, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[d], l.delay[d]
}

func (l *Line) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}
