package fake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// firstID leaves the small ids to the PD member and the stores.
const firstID = 1000

// Cluster is one PD and its stores, listening on loopback.
type Cluster struct {
	cfg    Config
	clock  *clock
	pd     *pdMembers
	stores []*storeServer // store i has the id i + 1

	mu         sync.Mutex // guards what follows, and the subscriptions
	store      *mvcc.Store
	regions    *topology.Map
	pdRegions  *topology.Map    // as PD knows them
	unseen     time.Time        // since when PD has not heard of a change; zero = it knows all
	lastCut    []byte           // the table border that was made last
	lastRegion *topology.Region // of the last change; nil after any change of regions
	conns      map[*conn]struct{}
	byRegion   map[uint64][]*subscription
	rng        *rand.Rand
	followed   bool      // subscribed is closed
	scanning   int       // subscriptions whose scan is not over
	cutOff     time.Time // when subscriptions were last ended by a change of regions
	waiting    waiting   // pessimistic lock requests
	breaks     breaks
	refusals   []FeedError          // for the next registrations; as many as Refuse was asked for
	lagging    map[uint64]time.Time // regions whose resolved-ts has to stay until then
	pdLag      time.Duration
	registered int // ever
	restRows   int // Restless
	restNext   func() []byte
	ticked     time.Time // when resolved-ts last moved
	promised   int       // the messages that this took
	journalErr error     // Run's, once it ends

	bulkSent int // bulkEvents that went out

	bulkRegions []*bulkRegion // these three do not change once Start has returned
	bulkEvents  []*bulkEvent
	bulkEnd     tso.TS

	hazards    hazards
	claimed    atomic.Uint64 // the cluster id that PD and the stores tell
	replaying  atomic.Bool
	subscribed chan struct{} // closed when the first scan of a subscriber is over
	released   chan struct{} // closed by Go
	release    sync.Once
	replayed   chan struct{} // closed when the last step is done
	readers    sync.WaitGroup
}

// Start loads the recording, which several clusters may share, and opens the
// listeners. The cluster answers once Run runs, and Run closes what Start opened.
func Start(cfg Config) (*Cluster, error) {
	cfg = cfg.Default()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, clock: newClock(cfg.StartTS), store: mvcc.New(),
		conns: map[*conn]struct{}{}, byRegion: map[uint64][]*subscription{},
		rng:        rand.New(rand.NewPCG(cfg.Seed, 2)),
		subscribed: make(chan struct{}), released: make(chan struct{}), replayed: make(chan struct{}),
	}
	c.pdLag = cfg.PDLag
	c.claimed.Store(cfg.ClusterID)
	if !cfg.Calm {
		c.hazards.rng = rand.New(rand.NewPCG(cfg.Seed, 3))
	}
	ids := make([]uint64, cfg.Stores)
	for i := range ids {
		ids[i] = uint64(i) + 1
	}
	c.regions = topology.New(ids, firstID)
	c.pd = newPDMembers(c)
	if err := c.load(); err != nil {
		return nil, err
	}
	c.regions.Spread()
	c.pdRegions, c.unseen = c.regions.Clone(), time.Time{}
	if err := c.listen(ids); err != nil {
		c.closeListeners()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) listen(ids []uint64) error {
	for _, id := range ids {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return cdcerr.InvalidArgument.Wrap(err, "fake store %d", id)
		}
		c.stores = append(c.stores, &storeServer{cluster: c, id: id, net: newNetwork(lis)})
	}
	for i := range c.cfg.PDs {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return cdcerr.InvalidArgument.Wrap(err, "fake PD %d", i)
		}
		c.pd.members = append(c.pd.members, newPD(c, i, lis))
	}
	return nil
}

// networks are those of all servers.
func (c *Cluster) networks() []*network {
	var all []*network
	for _, s := range c.stores {
		all = append(all, s.net)
	}
	for _, p := range c.pd.members {
		all = append(all, p.net)
	}
	return all
}

// closeListeners frees the ports.
func (c *Cluster) closeListeners() {
	for _, n := range c.networks() {
		_ = n.lis.Close() // nobody is left who could use the port
	}
}

// PD is the URLs of the PD members.
func (c *Cluster) PD() []string {
	var urls []string
	for _, p := range c.pd.members {
		urls = append(urls, p.url)
	}
	return urls
}

// Stores is where the stores listen, the first's address first.
func (c *Cluster) Stores() []string {
	var addrs []string
	for _, s := range c.stores {
		addrs = append(addrs, s.net.addr())
	}
	return addrs
}

// Cut ends every change stream of a store, as a restart or a broken network
// does, and says how many there were.
func (c *Cluster) Cut(store uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for cn := range c.conns {
		if cn.store != store {
			continue
		}
		n++
		select {
		case cn.cut <- status.Error(codes.Unavailable, "connection cut"):
		default: // one is on its way
		}
	}
	return n
}

// ClusterID is what PD says it is.
func (c *Cluster) ClusterID() uint64 { return c.cfg.ClusterID }

// TS is the newest settled timestamp, what resolved-ts can rise to: whoever
// commits from now on commits above it.
func (c *Cluster) TS() tso.TS {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	c.store.See(now)
	return now
}

// Go lets a held replay begin. More calls do nothing.
func (c *Cluster) Go() { c.release.Do(func() { close(c.released) }) }

// Subscribed is closed once a subscriber has scanned its first region.
func (c *Cluster) Subscribed() <-chan struct{} { return c.subscribed }

// Replayed is closed once everything that was recorded has happened; the clock
// then follows the wall.
func (c *Cluster) Replayed() <-chan struct{} { return c.replayed }

// Run serves until ctx ends. It returns nil then, and an error when a listener
// breaks or the recording contradicts itself.
func (c *Cluster) Run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	for _, n := range c.networks() {
		tasks.Go(n.accept)
	}
	for _, s := range c.stores {
		tasks.Go(func() error { return s.net.run(ctx, s.live) })
	}
	for _, p := range c.pd.members {
		tasks.Go(func() error { return p.net.run(ctx, p.live) })
	}
	tasks.Go(func() error { return c.resolve(ctx) })
	tasks.Go(func() error { return c.replay(ctx) })
	tasks.Go(func() error {
		<-ctx.Done()
		c.closeListeners()
		return ctx.Err()
	})
	err := tasks.Wait()
	c.readers.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.journalErr != nil {
		return fmt.Errorf("the journal: %w", c.journalErr)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Regions are all regions, in key order.
func (c *Cluster) Regions() []*topology.Region {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.regions.Range("", "", 0)
}

// tlsFor is the server's TLS with the protocols that PD speaks.
func tlsFor(cfg *tls.Config) *tls.Config {
	out := cfg.Clone()
	out.NextProtos = []string{"h2", "http/1.1"}
	return out
}

// Snapshot is the data as it is now, for whoever judges: no client sees it so.
func (c *Cluster) Snapshot() mvcc.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store.Snapshot()
}

// Versions are the committed writes of a key, oldest first, for whoever judges.
func (c *Cluster) Versions(key []byte) []mvcc.Version {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store.Versions(key)
}
