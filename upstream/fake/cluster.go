package fake

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
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
	pd     *pdServer
	stores []*storeServer

	mu         sync.Mutex // guards what follows, and the subscriptions
	store      *mvcc.Store
	regions    *topology.Map
	lastCut    []byte           // the table border that was made last
	lastRegion *topology.Region // of the last change; nil after any change of regions
	conns      map[*conn]struct{}
	byRegion   map[uint64][]*subscription
	rng        *rand.Rand
	followed   bool      // subscribed is closed
	scanning   int       // subscriptions whose scan is not over
	cutOff     time.Time // when subscriptions were last ended by a change of regions
	waiting    waiting   // pessimistic lock requests

	bulkRegions []*bulkRegion // these three only by Start and the replay
	bulkEvents  []*bulkEvent
	bulkEnd     tso.TS

	hazards    hazards
	replaying  atomic.Bool
	subscribed chan struct{} // closed when the first scan of a subscriber is over
	released   chan struct{} // closed by Go
	release    sync.Once
	replayed   chan struct{} // closed when the last step is done
	readers    sync.WaitGroup
}

// storeServer is one TiKV.
type storeServer struct {
	*tikvpb.UnimplementedTikvServer
	cluster *Cluster
	id      uint64
	lis     net.Listener
	grpc    *grpc.Server
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
	if !cfg.Calm {
		c.hazards.rng = rand.New(rand.NewPCG(cfg.Seed, 3))
	}
	ids := make([]uint64, cfg.Stores)
	for i := range ids {
		ids[i] = uint64(i) + 1
	}
	c.regions = topology.New(ids, firstID)
	if err := c.load(); err != nil {
		return nil, err
	}
	c.regions.Spread()
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
		s := &storeServer{cluster: c, id: id, lis: lis}
		opts := []grpc.ServerOption{grpc.ForceServerCodecV2(newCodec()), grpc.WaitForHandlers(true)}
		if c.cfg.TLS != nil {
			opts = append(opts, grpc.Creds(credentials.NewTLS(c.cfg.TLS)))
		}
		s.grpc = grpc.NewServer(opts...)
		tikvpb.RegisterTikvServer(s.grpc, s)
		cdcpb.RegisterChangeDataServer(s.grpc, s)
		c.stores = append(c.stores, s)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return cdcerr.InvalidArgument.Wrap(err, "fake PD")
	}
	c.pd = newPD(c, lis)
	return nil
}

// closeListeners gives up a start; that it failed is the error to tell.
func (c *Cluster) closeListeners() {
	for _, s := range c.stores {
		_ = s.lis.Close()
	}
	if c.pd != nil {
		_ = c.pd.lis.Close()
	}
}

// PD is the URLs of the PD members.
func (c *Cluster) PD() []string { return []string{c.pd.url} }

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
	for _, s := range c.stores {
		tasks.Go(func() error { return s.grpc.Serve(s.lis) })
	}
	tasks.Go(c.pd.serve)
	tasks.Go(func() error { return c.resolve(ctx) })
	tasks.Go(func() error { return c.replay(ctx) })
	tasks.Go(func() error {
		<-ctx.Done()
		for _, s := range c.stores {
			s.grpc.Stop()
		}
		return errors.Join(c.pd.stop(), ctx.Err())
	})
	err := tasks.Wait()
	c.readers.Wait()
	if errors.Is(err, context.Canceled) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Split cuts a region at a raw key. Whoever subscribed to it gets
// epoch_not_match with both parts; the right one keeps the id.
func (c *Cluster) Split(key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.splitLocked(key)
}

func (c *Cluster) splitLocked(key []byte) {
	parts, ok := c.regions.Split(key)
	if !ok {
		return
	}
	c.lastRegion = nil
	fault := &errorpb.EpochNotMatch{}
	for _, r := range parts {
		fault.CurrentRegions = append(fault.CurrentRegions, regionPB(r))
	}
	c.failRegionLocked(parts[len(parts)-1].ID, &cdcpb.Error{EpochNotMatch: fault})
}

// Lead moves the leader of a region to a store. Whoever subscribed to it gets
// not_leader.
func (c *Cluster) Lead(region, store uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.regions.Lead(region, store)
	if err != nil {
		return err
	}
	c.lastRegion = nil
	c.failRegionLocked(region, &cdcpb.Error{NotLeader: &errorpb.NotLeader{RegionId: region, Leader: peerPB(r.Leader)}})
	return nil
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

func (c *Cluster) failRegionLocked(region uint64, fault *cdcpb.Error) {
	for len(c.byRegion[region]) > 0 {
		c.cutOff = time.Now()
		c.failLocked(c.byRegion[region][0], fault)
	}
}

// Regions are all regions, in key order.
func (c *Cluster) Regions() []*topology.Region {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.regions.Range("", "", 0)
}

func (c *Cluster) storePB(s *storeServer) *metapb.Store {
	return &metapb.Store{
		Id: s.id, Address: s.lis.Addr().String(), PeerAddress: s.lis.Addr().String(),
		Version: c.cfg.Version, State: metapb.StoreState_Up, NodeState: metapb.NodeState_Serving,
	}
}

// tlsFor is the server's TLS with the protocols that PD speaks.
func tlsFor(cfg *tls.Config) *tls.Config {
	out := cfg.Clone()
	out.NextProtos = []string{"h2", "http/1.1"}
	return out
}
