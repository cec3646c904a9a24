package badline

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// conn is one connection through a line.
type conn struct {
	net.Conn
	line  *Line
	done  chan struct{}
	once  sync.Once
	until [2]deadline

	mu   sync.Mutex
	held []byte // guarded by mu: was read while the line was cut, and not handed out
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) == 0 {
		n, err := c.Conn.Read(b)
		if n == 0 {
			return 0, err
		}
		c.held = append(c.held, b[:n]...)
	}
	if err := c.pass(In); err != nil {
		return 0, err
	}
	n := copy(b, c.held)
	c.held = c.held[n:]
	return n, nil
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.pass(Out); err != nil {
		return 0, err
	}
	goes, breaks := c.line.spend(len(b))
	n, err := c.Conn.Write(b[:goes])
	if breaks {
		c.line.Break()
		return n, errors.Join(ErrBroken, err)
	}
	return n, err
}

// pass waits until the line lets something through.
func (c *conn) pass(d Direction) error {
	passed := c.until[d].wait()
	open, delay := c.line.state(d)
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.done:
			return net.ErrClosed
		case <-passed:
			return os.ErrDeadlineExceeded
		}
	}
	select {
	case <-open:
		return nil
	case <-c.done:
		return net.ErrClosed
	case <-passed:
		return os.ErrDeadlineExceeded
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.line.forget(c)
		for d := range c.until {
			c.until[d].set(time.Time{})
		}
	})
	return c.Conn.Close()
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.until[In].set(t)
	c.until[Out].set(t)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.until[In].set(t)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.until[Out].set(t)
	return c.Conn.SetWriteDeadline(t)
}

// deadline is one that whoever waits already notices too.
type deadline struct {
	mu     sync.Mutex
	timer  *time.Timer   // guarded by mu
	passed chan struct{} // guarded by mu: closed when it has passed
}

func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

// set replaces the deadline; the zero time is none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.passed // it has fired, and is about to say so
	}
	d.timer = nil
	select {
	case <-d.passed:
		d.passed = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	passed := d.passed
	d.timer = time.AfterFunc(time.Until(t), func() { close(passed) })
}
