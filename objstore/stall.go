package objstore

import (
	"context"
	"net"
	"net/http"
	"time"
)

// answerMax is how long a server may take to answer a request that it was sent, and a
// connection to take another piece of one. A request whose bytes flow may take as long as
// they need; a connection that is dead, as those are whose other end lost its power, is given
// up, and the request is sent on another one.
const answerMax = 10 * time.Second

// unstalled has requests end whose server, or connection, stands still for that long.
func unstalled(t *http.Transport, most time.Duration) *http.Transport {
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: most}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &pushed{Conn: c, most: most}, nil
	}
	t.ResponseHeaderTimeout = most
	return t
}

// pushed is a connection of which each piece that is written has to be taken in time.
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
			n += took
		}
	}
	return n, err
}
