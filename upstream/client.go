package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pd "github.com/tikv/pd/client"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

// Client speaks to one TiDB cluster. Its methods may be called concurrently;
// Subscribe needs Run.
type Client struct {
	cfg     Config
	log     *slog.Logger
	pd      pd.Client
	cluster uint64
	holds   holds

	keyspace keyspace

	conns   conns
	follows follows
	last    atomic.Uint64 // the last timestamp of PD that was seen
	// answered is when PD gave it.
	answered atomic.Pointer[time.Time]
	visits   *visits
	counts   counts
	streams  streams
	ears     ears
	places   places

	lookups chan struct{} // a token each; see lookupsMax
	starts  chan *stream  // streams that want a goroutine from Run
	stopped chan struct{} // closed when Run has ended
	feeds   atomic.Uint64 // numbers subscriptions
}

// lookupsMax bounds questions for regions that are under way: a thousand
// subscriptions that start together must not storm PD.
const lookupsMax = 16

// Open finds PD, checks the versions of PD and of every TiKV, and is ready for
// reads. It gives up after cfg.OpenTimeout.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := newClient(cfg)
	quietPD(c.log)
	open, cancel := context.WithTimeout(ctx, cfg.OpenTimeout)
	defer cancel()
	if err := c.checkPD(open); err != nil {
		return nil, err
	}
	if err := c.checkCluster(open, cfg.ClusterID); err != nil {
		return nil, err
	}
	if err := c.connectPD(ctx, open); err != nil {
		return nil, err
	}
	// A first timestamp proves that PD has a leader.
	_, err := c.TS(open)
	if err == nil {
		err = c.checkStores(open)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func newClient(cfg Config) *Client {
	c := &Client{
		cfg: cfg, log: cfg.Log,
		lookups: make(chan struct{}, lookupsMax),
		starts:  make(chan *stream),
		visits:  newVisits(cfg.SearchEvery),
		stopped: make(chan struct{}),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Run serves streams until ctx ends. It is called once.
func (c *Client) Run(ctx context.Context) error {
	defer close(c.stopped)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			select {
			case s := <-c.starts:
				g.Go(func() error {
					s.run(ctx)
					return nil
				})
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	g.Go(func() error { return c.serveVisits(ctx) })
	g.Go(func() error { return c.watch(ctx) })
	return g.Wait()
}

// Close releases all connections. Run must have ended.
func (c *Client) Close() {
	c.conns.close()
	closePD(c.pd)
}

// ClusterID is PD's name for the cluster.
func (c *Client) ClusterID() uint64 { return c.cluster }

var errStopped = errors.New("the client of the upstream has stopped")

// launch hands a stream to Run.
func (c *Client) launch(ctx context.Context, s *stream) error {
	select {
	case c.starts <- s:
		return nil
	case <-c.stopped:
		return fmt.Errorf("store %d: %w", s.store, errStopped)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// conns holds one connection an address; streams and reads share it.
type conns struct {
	mu sync.Mutex
	by map[string]*grpc.ClientConn // guarded by mu
}
