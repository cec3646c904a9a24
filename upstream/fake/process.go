package fake

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// storeServer is one TiKV.
type storeServer struct {
	*tikvpb.UnimplementedTikvServer
	cluster *Cluster
	id      uint64
	net     *network
}

// run lives one life after the other until ctx ends.
func (n *network) run(ctx context.Context, life func(context.Context, *incarnation) error) error {
	for {
		inc, err := n.alive(ctx)
		if err != nil {
			return err
		}
		err = life(ctx, inc)
		n.over(inc)
		if err != nil {
			return err
		}
	}
}

// live serves on a store for one life.
func (s *storeServer) live(ctx context.Context, inc *incarnation) error {
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()), grpc.WaitForHandlers(true),
		// TiKV lets clients ask whether it is there, with calls under way and without.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	if s.cluster.cfg.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(s.cluster.cfg.TLS)))
	}
	server := grpc.NewServer(opts...)
	tikvpb.RegisterTikvServer(server, s)
	cdcpb.RegisterChangeDataServer(server, s)
	var tasks errgroup.Group
	tasks.Go(func() error {
		err := server.Serve(inc)
		if errors.Is(err, net.ErrClosed) || errors.Is(err, grpc.ErrServerStopped) {
			return nil
		}
		return err
	})
	tasks.Go(func() error {
		inc.wait(ctx)
		server.Stop()
		return nil
	})
	return errors.Join(tasks.Wait(), ctx.Err())
}

// wait returns when the life has to end.
func (i *incarnation) wait(ctx context.Context) {
	select {
	case <-i.killed:
	case <-ctx.Done():
	}
}

func (c *Cluster) storeOf(id uint64) (*storeServer, error) {
	if id < 1 || id > uint64(len(c.stores)) {
		return nil, cdcerr.InvalidArgument.New("store %d: there is none of this id", id)
	}
	return c.stores[id-1], nil
}

// StopStore kills a store: its connections break, its streams are gone when
// StopStore returns, its port refuses everyone. Its regions have no leader
// until Lead gives them another, or StartStore brings it back. What had not been
// written to disk is lost: the pessimistic locks of some of its regions.
func (c *Cluster) StopStore(ctx context.Context, id uint64) error {
	s, err := c.storeOf(id)
	if err != nil {
		return err
	}
	if err := s.net.down(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.regions.Range("", "", 0) {
		if r.Leader.Store == id && c.rng.IntN(2) == 0 {
			c.forgetLocked(r.RawStart, r.RawEnd)
		}
	}
	return nil
}

// forgetLocked drops the pessimistic locks of a range.
func (c *Cluster) forgetLocked(start, end []byte) {
	var locks []*mvcc.Lock
	c.store.Locks(start, end, tso.Max, func(l *mvcc.Lock) bool {
		if l.Op == mvcc.Pessimistic {
			locks = append(locks, l)
		}
		return true
	})
	for _, l := range locks {
		ch := c.store.Unlock(l.Key, l.StartTS, tso.Max)
		c.publishLocked(&ch)
	}
}

// down stops the server and waits for the end of its life.
func (n *network) down(ctx context.Context) error {
	life := n.stop()
	if life == nil {
		return nil
	}
	select {
	case <-life.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// StartStore brings a stopped store back, on its port.
func (c *Cluster) StartStore(id uint64) error {
	s, err := c.storeOf(id)
	if err == nil {
		s.net.start()
	}
	return err
}

// TroubleStore puts trouble between a store and its clients, until other
// trouble, or none, takes its place. A store that is held both ways is as good
// as frozen: it answers nobody, KV included.
func (c *Cluster) TroubleStore(id uint64, t Trouble) error {
	s, err := c.storeOf(id)
	if err == nil {
		s.net.set(t)
	}
	return err
}

// KV is the requests to a store for a client in this process: no network lies
// between, but the store has to be up. A frozen one is waited for; where it is
// stopped the error is what gRPC gives.
func (c *Cluster) KV(ctx context.Context, id uint64) (tikvpb.TikvServer, error) {
	s, err := c.storeOf(id)
	if err != nil {
		return nil, err
	}
	for {
		t, changed := s.net.now()
		if !s.net.isUp() {
			return nil, status.Errorf(codes.Unavailable, "store %d is down", id)
		}
		if !t.HoldIn || !t.HoldOut {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *storeServer) proto() *metapb.Store {
	addr := s.net.addr()
	if told := s.cluster.cfg.StoreAddrs; len(told) > 0 {
		addr = told[s.id-1]
	}
	return &metapb.Store{
		Id: s.id, Address: addr, PeerAddress: addr,
		Version: s.cluster.cfg.Version, State: metapb.StoreState_Up, NodeState: metapb.NodeState_Serving,
	}
}
