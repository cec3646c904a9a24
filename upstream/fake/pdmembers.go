package fake

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// pdMembers is what all PD members share: they are one PD, of which one member
// leads.
type pdMembers struct {
	cluster *Cluster
	members []*pdServer

	mu     sync.Mutex // guards what follows
	gc     gcState
	leader int
}

func newPDMembers(c *Cluster) *pdMembers {
	return &pdMembers{
		cluster: c,
		gc:      gcState{txnSafePoint: c.baseTS(), gcSafePoint: c.baseTS(), barriers: map[string]barrier{}},
	}
}

// leading is the member that leads.
func (a *pdMembers) leading() *pdServer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.members[a.leader]
}

// LeadPD makes a member of PD, counted from 0, the leader. The others refuse
// what only a leader may answer from then on.
func (c *Cluster) LeadPD(member int) error {
	if _, err := c.pdOf(member); err != nil {
		return err
	}
	c.pd.mu.Lock()
	defer c.pd.mu.Unlock()
	c.pd.leader = member
	return nil
}

// PDLeader is the member that leads, counted from 0.
func (c *Cluster) PDLeader() int {
	c.pd.mu.Lock()
	defer c.pd.mu.Unlock()
	return c.pd.leader
}

func (c *Cluster) pdOf(member int) (*pdServer, error) {
	if member < 0 || member >= len(c.pd.members) {
		return nil, cdcerr.InvalidArgument.New("PD member %d: there are %d", member, len(c.pd.members))
	}
	return c.pd.members[member], nil
}

// StopPD kills a member of PD. One that led still counts as the leader, and so
// there is none, until LeadPD names another.
func (c *Cluster) StopPD(ctx context.Context, member int) error {
	p, err := c.pdOf(member)
	if err != nil {
		return err
	}
	return p.net.down(ctx)
}

// StartPD brings a stopped member of PD back, on its port.
func (c *Cluster) StartPD(member int) error {
	p, err := c.pdOf(member)
	if err == nil {
		p.net.start()
	}
	return err
}

// TroublePD puts trouble between a member of PD and its clients.
func (c *Cluster) TroublePD(member int, t Trouble) error {
	p, err := c.pdOf(member)
	if err == nil {
		p.net.set(t)
	}
	return err
}

// live serves on a member for one life.
func (p *pdServer) live(ctx context.Context, inc *incarnation) error {
	calls := grpc.NewServer(
		grpc.ChainUnaryInterceptor(p.checkUnary),
		grpc.ForceServerCodecV2(newCodec()),
	)
	pdpb.RegisterPDServer(calls, p)
	keyspacepb.RegisterKeyspaceServer(calls, keyspaces{pd: p})
	// Without this service a client takes five seconds to start: it asks for
	// configuration that it then does without.
	meta_storagepb.RegisterMetaStorageServer(calls, metaStorage{pd: p})
	healthpb.RegisterHealthServer(calls, health.NewServer())
	var serving requests
	web := &http.Server{
		Handler: p.routes(calls, &serving), ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols),
		ErrorLog: log.New(io.Discard, "", 0), // clients without the right certificate are their own problem
	}
	web.Protocols.SetHTTP1(true)
	if p.cluster.cfg.TLS != nil {
		web.Protocols.SetHTTP2(true)
		web.TLSConfig = tlsFor(p.cluster.cfg.TLS)
	} else {
		web.Protocols.SetUnencryptedHTTP2(true)
	}
	var tasks errgroup.Group
	tasks.Go(func() error {
		serve := func() error { return web.Serve(inc) }
		if web.TLSConfig != nil {
			serve = func() error { return web.ServeTLS(inc, "", "") }
		}
		if err := serve(); !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	tasks.Go(func() error {
		inc.wait(ctx)
		err := web.Close()
		calls.Stop()
		return err
	})
	err := errors.Join(tasks.Wait(), ctx.Err())
	serving.end()
	return err
}
