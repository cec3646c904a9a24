package objstore

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	// pushMax is how long a connection may take nothing of a request, and how long its other
	// end may be silent where it has to acknowledge: one that lost its power does not.
	pushMax = 10 * time.Second
	// answerMax is how long a server may take to answer a request that it has all of: one
	// that syncs 64 MiB to busy disks, behind a proxy that hands them over at the end, takes
	// its time, and would take it again for each try.
	answerMax = time.Minute
)

// unstalled has requests end whose connection stands still for as long as push, or whose
// server gives no answer within that time. They are sent again on another connection. One
// whose bytes flow may take as long as it needs.
func unstalled(t *http.Transport, push, answer time.Duration) *http.Transport {
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: push}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			if err := mortal(tcp, push); err != nil {
				return nil, errors.Join(err, c.Close())
			}
		}
		return &pushed{Conn: c, most: push}, nil
	}
	t.ResponseHeaderTimeout = answer
	return t
}

// mortal has the system give a connection up whose other end acknowledges nothing for so
// long, whether something was sent or not.
func mortal(c *net.TCPConn, most time.Duration) error {
	if err := c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: most / 2, Interval: most / 4, Count: 2}); err != nil {
		return err
	}
	return acknowledged(c, most)
}

// pushed is a connection that has to take something of what is written in time.
type pushed struct {
	net.Conn
	most time.Duration
}

// Write implements net.Conn.
func (c *pushed) Write(p []byte) (n int, err error) {
	const piece = 64 << 10
	for first := true; err == nil && (first || n < len(p)); first = false {
		if err = c.SetWriteDeadline(time.Now().Add(c.most)); err == nil {
			var took int
			took, err = c.Conn.Write(p[n:min(len(p), n+piece)])
			if n += took; took > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
				err = nil // it is slow, and goes on
			}
		}
	}
	return n, err
}
