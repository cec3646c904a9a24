package coordinator_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/coordinator"
	"github.com/sluice-cdc/sluice/internal/freeport"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/server"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; a test that needs it has failed.
const patience = 3 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is an upstream with a bank on it, a downstream, and the place where nodes
// keep what outlives them.
type site struct {
	*testing.T
	cluster *fake.Cluster
	bank    *workload.Workload
	down    *mariadb.Server
	dir     string
	meta    string // the etcd of several servers; empty: each has its own
	// metaUpstream has the servers believe that their metadata is in the upstream's PD.
	metaUpstream bool
}

func newSite(t *testing.T) *site {
	t.Helper()
	cluster, err := fake.Start(fake.Config{Stores: 2, ResolvedInterval: 50 * time.Millisecond})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	g := new(errgroup.Group)
	g.Go(func() error { return cluster.Run(ctx) })
	t.Cleanup(func() {
		stop()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	s := &site{T: t, cluster: cluster, down: mariadb.Start(t, mariadb.BinLog()...), dir: t.TempDir()}
	s.bank, err = workload.New(ctx, live.New(cluster), workload.Config{Kind: "bank", Seed: 1, Rate: 400, Size: 50})
	must(t, err)
	return s
}

// node is one server's life.
type node struct {
	*coordinator.Coordinator // of its present session
	present                  *mortal
	store                    *meta.Store
	leave                    context.CancelFunc
	made                     chan *mortal
	done                     chan error
}

// kill tears off what it does; the server ends.
func (n *node) kill() { n.present.kill() }

// hang tears it off, and leaves the session as if the process stood still.
func (n *node) hang() {
	n.present.hung.Store(true)
	n.present.kill()
}

// begun waits for its session.
func (n *node) begun(s *site) {
	s.Helper()
	select {
	case n.present = <-n.made:
		n.Coordinator, n.store = n.present.Coordinator, n.present.store
	case err := <-n.done:
		s.Fatal(err)
	case <-time.After(patience):
		s.Fatal("no node")
	}
}

// node starts a server and waits until it leads.
func (s *site) node() *node {
	s.Helper()
	n := s.serve(func(c *server.Config) { c.DataDir, c.Meta.Backend = s.dir, meta.BackendEmbedded })
	s.until("the node leads", func() bool { return n.Self().Owner })
	return n
}

// etcd starts one for several servers.
func (s *site) etcd() {
	s.Helper()
	cfg := meta.Default()
	cfg.Backend, cfg.Cluster, cfg.Embedded.DataDir = meta.BackendEmbedded, "etcd", s.TempDir()
	store, err := meta.Open(s.Context(), cfg)
	must(s.T, err)
	s.Cleanup(store.Close)
	s.meta = store.Endpoints()[0]
}

// beside starts a server on that etcd, on a port of its own.
func (s *site) beside() *node {
	s.Helper()
	return s.besides(nil)
}

// besides is beside for a server that is configured so.
func (s *site) besides(change func(c *server.Config)) *node {
	s.Helper()
	addr, err := freeport.PickAddress()
	must(s.T, err)
	return s.serve(func(c *server.Config) {
		c.Addr, c.AdvertiseAddr, c.DataDir = addr, addr, s.TempDir()
		c.Meta.Backend, c.Meta.Endpoints = meta.BackendExternal, []string{s.meta}
		if change != nil {
			change(c)
		}
	})
}

// serve starts a server.
func (s *site) serve(change func(c *server.Config)) *node {
	s.Helper()
	cfg := server.Default()
	cfg.PD = nil
	for _, e := range s.cluster.PD() {
		cfg.PD = append(cfg.PD, "http://"+strings.TrimPrefix(e, "http://"))
	}
	cfg.Addr, cfg.AdvertiseAddr, cfg.CaptureSessionTTL = "127.0.0.1:0", "127.0.0.1:8300", 5
	change(&cfg)
	ctx, leave := context.WithCancel(context.Background())
	n := &node{leave: leave, made: make(chan *mortal, 16), done: make(chan error, 1)}
	out := io.Discard
	if testing.Verbose() {
		out = s.Output()
	}
	plane := func(_ context.Context, g server.Given) (server.Plane, error) {
		c := coordinator.New(coordinator.Config{
			Self: g.Self, ClusterID: "test", Version: "1.0.0", Capture: g.Capture, Store: g.Store, Session: g.Session, Transport: g.Transport, GCService: "sluice-test",
			SaveEvery: 20 * time.Millisecond, Limits: changefeed.Limits{SyncPointIntervalMin: 100 * time.Millisecond, UpstreamLossGraceMin: time.Second, MetadataUpstream: s.metaUpstream},
			Log: slog.New(slog.NewTextHandler(out, nil)).With("on", g.Self.ID[:4]),
		})
		m := &mortal{Coordinator: c, store: g.Store}
		m.alive, m.kill = context.WithCancel(context.Background())
		n.made <- m
		return m, nil
	}
	go func() {
		n.done <- server.Run(ctx, cfg, server.Parts{Version: "1.0.0", Plane: plane, Stderr: out, Outlives: coordinator.Outlives, Applies: coordinator.Applies})
	}()
	s.Cleanup(func() { n.end(s) })
	n.begun(s)
	return n
}

// end has the node hand over and stop.
func (n *node) end(s *site) {
	s.Helper()
	n.leave()
	select {
	case err := <-n.done:
		must(s.T, err)
		n.done <- nil // for whoever asks again
	case <-time.After(patience):
		s.Fatal("does not end")
	}
}

// mortal is a coordinator that can be torn off in the middle.
type mortal struct {
	*coordinator.Coordinator
	store *meta.Store
	alive context.Context
	kill  context.CancelFunc
	hung  atomic.Bool
}

func (m *mortal) Run(ctx context.Context, leave <-chan struct{}) error {
	own, cut := context.WithCancel(ctx)
	defer cut()
	defer context.AfterFunc(m.alive, cut)()
	err := m.Coordinator.Run(own, leave)
	if m.hung.Load() {
		select {
		case <-leave:
			return nil
		case <-ctx.Done():
		}
	}
	return err
}

// until waits for something to become true.
func (s *site) until(what string, ok func() bool) {
	s.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s", patience, what)
		}
	}
}

var feed = api.FeedID{Keyspace: "default", Name: "bank"}

func (s *site) creation() api.Creation {
	return api.Creation{ID: feed, SinkURI: s.down.URI()}
}

func (s *site) get(n *node) api.Feed {
	s.Helper()
	f, err := n.Get(s.Context(), feed)
	must(s.T, err)
	return f
}

// caught waits until everything up to now is downstream.
func (s *site) caught(n *node) {
	s.Helper()
	now := s.cluster.TS()
	s.until("the checkpoint reaches the present", func() bool { return s.get(n).Checkpoint >= now })
}
