package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pd "github.com/tikv/pd/client"
	"github.com/tikv/pd/client/opt"
	"github.com/tikv/pd/client/pkg/caller"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Client speaks to one TiDB cluster. Its methods may be called concurrently;
// Subscribe needs Run.
type Client struct {
	cfg     Config
	log     *slog.Logger
	tls     *tls.Config
	pd      pd.Client
	cluster uint64

	conns   conns
	follows follows
	last    atomic.Uint64 // the last timestamp of PD that was seen
	visits  *visits
	counts  counts
	streams streams
	places  places

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
	tlsConfig, err := cfg.TLS.config()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, log: cfg.Log, tls: tlsConfig,
		lookups: make(chan struct{}, lookupsMax),
		starts:  make(chan *stream),
		visits:  newVisits(visitEvery),
		stopped: make(chan struct{}),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	quietPD(c.log)
	open, cancel := context.WithTimeout(ctx, cfg.OpenTimeout)
	defer cancel()
	if err := c.checkPD(open); err != nil {
		return nil, err
	}
	if err := c.connectPD(ctx, open); err != nil {
		return nil, err
	}
	// A first timestamp proves that PD has a leader.
	if _, err = c.TS(open); err == nil {
		err = c.checkStores(open)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
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
	found := c.pd.GetServiceDiscovery()
	urls := found.GetServiceURLs()
	c.pd.Close()
	// The PD client does not wait for the goroutine that connects it to the
	// timestamp service. Where that one looks for connections it now finds closed
	// ones; what it opened in between is closed here.
	closed, err := grpc.NewClient("passthrough:///closed", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return // cannot be: the target is a constant
	}
	_ = closed.Close()
	for _, url := range urls {
		if late, ok := found.GetClientConns().Swap(url, closed); ok {
			_ = late.(*grpc.ClientConn).Close()
		}
	}
}

// ClusterID is PD's name for the cluster.
func (c *Client) ClusterID() uint64 { return c.cluster }

// TS is a new timestamp from PD.
func (c *Client) TS(ctx context.Context) (tso.TS, error) {
	physical, logical, err := c.pd.GetTS(ctx)
	if err != nil {
		return 0, cdcerr.PDUnreachable.Wrap(err, "PD gives no timestamp")
	}
	ts := tso.New(physical, logical)
	c.last.Store(uint64(ts))
	return ts, nil
}

// lastTS is the last timestamp that PD gave: at most seconds old while PD answers.
func (c *Client) lastTS() tso.TS { return tso.TS(c.last.Load()) }

// checkPD asks the endpoints in turn until one says its version.
func (c *Client) checkPD(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.tls, DisableKeepAlives: true}}
	pause := 50 * time.Millisecond
	for {
		var last error
		for _, e := range c.cfg.endpoints() {
			try, cancel := context.WithTimeout(ctx, 3*time.Second)
			version, err := pdVersion(try, client, e)
			cancel()
			if err == nil {
				return checkVersion("PD "+e, version)
			}
			if last == nil || ctx.Err() == nil {
				last = err
			}
		}
		select {
		case <-ctx.Done():
			return c.unreachable(last)
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

func (c *Client) unreachable(last error) error {
	return cdcerr.PDUnreachable.Wrap(last, "none of %s answered within %v",
		strings.Join(c.cfg.endpoints(), ", "), c.cfg.OpenTimeout)
}

// connectPD makes the PD client, which lives as long as ctx does but must be
// there before open ends.
func (c *Client) connectPD(ctx, open context.Context) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(open, cancel)
	client, err := pd.NewClientWithContext(life, caller.Component("sluice"), c.cfg.endpoints(), c.cfg.TLS.security(),
		opt.WithForwardingOption(true), // a leader that we cannot reach is reached through a follower
		opt.WithInitMetricsOption(false),
		opt.WithEnableRouterClient(false), // batches questions for single regions; we ask for ranges
		opt.WithCustomTimeoutOption(3*time.Second),
		opt.WithGRPCDialOptions(grpc.WithKeepaliveParams(keepaliveParams())),
	)
	if !stop() && err == nil {
		client.Close()
		err = open.Err()
	}
	if err != nil {
		cancel()
		if open.Err() != nil && ctx.Err() == nil {
			return c.unreachable(err)
		}
		return cdcerr.PDUnreachable.Wrap(err, "PD %s", strings.Join(c.cfg.endpoints(), ", "))
	}
	c.pd, c.cluster = client, client.GetClusterID(ctx)
	return nil
}

// checkStores asks PD for all stores and refuses the first that is too old or too new.
func (c *Client) checkStores(ctx context.Context) error {
	stores, err := c.pd.GetAllStores(ctx, opt.WithExcludeTombstone())
	if err != nil {
		return cdcerr.PDUnreachable.Wrap(err, "PD does not list its stores")
	}
	for _, s := range stores {
		if err := checkStore(s); err != nil {
			return err
		}
	}
	return nil
}

// storeAddress is where a store serves now, after a look at its version.
func (c *Client) storeAddress(ctx context.Context, store uint64) (string, error) {
	s, err := c.pd.GetStore(ctx, store)
	if err != nil {
		return "", cdcerr.PDUnreachable.Wrap(err, "PD does not tell where store %d is", store)
	}
	if s.GetAddress() == "" {
		return "", cdcerr.RegionLookup.New("PD has no address for store %d", store)
	}
	return s.GetAddress(), checkStore(s)
}

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
