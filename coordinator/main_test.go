package coordinator_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/coordinator"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/server"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; a test that needs it has failed.
const patience = time.Minute

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
	*coordinator.Coordinator
	store       *meta.Store
	leave, kill context.CancelFunc
	done        chan error
}

// node starts a server and waits until it leads.
func (s *site) node() *node {
	s.Helper()
	cfg := server.Default()
	cfg.PD = nil
	for _, e := range s.cluster.PD() {
		cfg.PD = append(cfg.PD, "http://"+strings.TrimPrefix(e, "http://"))
	}
	cfg.Addr, cfg.AdvertiseAddr, cfg.DataDir, cfg.Meta.Backend = "127.0.0.1:0", "127.0.0.1:8300", s.dir, "embedded"
	ctx, leave := context.WithCancel(context.Background())
	n := &node{leave: leave, done: make(chan error, 1)}
	made := make(chan *coordinator.Coordinator, 16)
	out := io.Discard
	if testing.Verbose() {
		out = s.Output()
	}
	plane := func(_ context.Context, g server.Given) (server.Plane, error) {
		c := coordinator.New(coordinator.Config{
			Self: g.Self, ClusterID: "test", Version: "1.0.0", Capture: g.Capture, Store: g.Store, Session: g.Session, GCService: "sluice-test",
			SaveEvery: 20 * time.Millisecond, Limits: changefeed.Limits{SyncPointIntervalMin: 100 * time.Millisecond},
			Log: slog.New(slog.NewTextHandler(out, nil)),
		})
		n.store = g.Store
		made <- c
		return &mortal{Coordinator: c, n: n}, nil
	}
	go func() { n.done <- server.Run(ctx, cfg, server.Parts{Version: "1.0.0", Plane: plane, Stderr: out}) }()
	s.Cleanup(func() { n.end(s) })
	select {
	case n.Coordinator = <-made:
	case err := <-n.done:
		s.Fatal(err)
	case <-time.After(patience):
		s.Fatal("no node")
	}
	s.until("the node leads", func() bool { return n.Self().Owner })
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
	n *node
}

func (m *mortal) Run(ctx context.Context, leave <-chan struct{}) error {
	ctx, m.n.kill = context.WithCancel(ctx)
	return m.Coordinator.Run(ctx, leave)
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
