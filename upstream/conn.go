package upstream

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/sluice-cdc/sluice/cdcerr"
)

const (
	// A slow reader must make TiKV stop soon, so a stream's window is small; the
	// connection's is not, or one stream would stop the reads beside it.
	streamWindow = 1 << 20
	connWindow   = 8 << 20
	// The largest message that TiKV sends is one row of its own: 120 MB of value
	// and of old value by TiDB's limits.
	messageMax = 256 << 20
)

func keepaliveParams() keepalive.ClientParameters {
	return keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second, PermitWithoutStream: true}
}

// conn is the connection to an address, made when first asked for. Addresses
// come from PD: there are as many as stores, and those that moved.
func (c *Client) conn(address string) (*grpc.ClientConn, error) {
	c.conns.mu.Lock()
	defer c.conns.mu.Unlock()
	if cc := c.conns.by[address]; cc != nil {
		return cc, nil
	}
	cc, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(c.cfg.TLS.credentials()),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageMax)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1.1, Jitter: 0.1, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepaliveParams()),
	)
	if err != nil {
		return nil, cdcerr.EventFeed.Wrap(err, "address %s", address)
	}
	if c.conns.by == nil {
		c.conns.by = map[string]*grpc.ClientConn{}
	}
	c.conns.by[address] = cc
	return cc, nil
}

// drop closes the connection to an address; the next call makes a new one. Calls
// that are under way fail, and are made again.
func (c *conns) drop(address *string) {
	if address == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cc := c.by[*address]; cc != nil {
		delete(c.by, *address)
		_ = cc.Close() // the only error is that it is closed already
	}
}

func (c *conns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cc := range c.by {
		_ = cc.Close() // the only error is that it is closed already
	}
	c.by = nil
}
