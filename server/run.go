package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/transport"
	"github.com/sluice-cdc/sluice/upstream"
)

// farewell is how long a node that was told to end may take to hand over.
const farewell = 30 * time.Second

// Plane is the control plane of this node, from one session to its end.
type Plane interface {
	api.Node
	// Run works until leave is closed, and then hands over what it does and returns
	// nil; when ctx ends it returns at once. A terminal error ends the node, any
	// other has it begin anew with a new capture ID.
	Run(ctx context.Context, leave <-chan struct{}) error
	// Work is what this capture does for changefeeds, owner or not.
	Work() []api.Work
}

// Given is what a Plane is made from. All of it outlives the Plane's Run.
type Given struct {
	Config  Config
	Memory  Memory
	Self    capture.Info
	Capture *agent.Capture // runs
	Store   *meta.Store
	// Session is registered as Self, and runs.
	Session *meta.Session
	// Transport is what Self says to other captures, and hears. It runs; the Plane
	// tells it who the members are.
	Transport *transport.Transport
	Metrics   prometheus.Registerer
	Log       *slog.Logger
}

// Parts are what a server is made of beside its configuration.
type Parts struct {
	Version string // semver without v
	GitHash string
	PID     int
	// Plane makes the control plane of one session; ctx bounds the making. Without
	// one the node is a member that does nothing, and says so.
	Plane func(ctx context.Context, g Given) (Plane, error)
	// Outlives tells by the changefeeds that there are whether a server has something to do
	// while the upstream is away, and which cluster that is; Applies, whether it is doing it,
	// and is to be left at that. Nil: a server without an upstream does not start.
	Outlives func(all []*meta.Changefeed) (cluster uint64, ok bool, err error)
	Applies  func(all []*meta.Changefeed) bool
	// Cut, once it is closed, ends the server where it stands, as a second signal ends
	// the process of one: nothing is handed over, and its session runs out. Nil: never.
	Cut <-chan struct{}
	// Listening is told the address once it is bound.
	Listening func(addr net.Addr)
	Stderr    io.Writer
}

// node is a server that runs.
type node struct {
	cfg   Config
	parts Parts
	log   *Logs
	api   *api.API
	meter *meter
	peers *transport.Service
	// present is the session of now, nil before the first one.
	present atomic.Pointer[meta.Session]
	// earlier are the captures that this process was: the keys of one may outlive its
	// session. Only one session after another touches it.
	earlier map[capture.ID]bool
}

// Run is a server from its start until ctx ends, and it has handed over, or
// something without which there is no server fails.
func Run(ctx context.Context, cfg Config, parts Parts) (err error) {
	if err = cfg.Validate(); err != nil {
		return err
	}
	logs, err := OpenLogs(cfg, parts.Stderr)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && cfg.LogFile != "" { // what goes to stderr has it from whoever ran this
			logs.Error("server failed", "error", err)
		}
		err = errors.Join(err, logs.Close())
	}()
	if err = cfg.prepare(); err != nil {
		return err
	}
	n := &node{cfg: cfg, parts: parts, log: logs, meter: newMeter(parts), peers: transport.NewService(), earlier: map[capture.ID]bool{}}
	for _, w := range cfg.Warnings {
		logs.Warn(w)
	}
	n.limitMemory()
	if n.api, err = n.newAPI(); err != nil {
		return err
	}
	l, err := n.listen()
	if err != nil {
		return err
	}
	logs.Info("server started", "version", parts.Version, "address", l.Addr().String(), "advertised", cfg.AdvertiseAddr, "data-dir", cfg.DataDir)
	// What serves ends after what it serves: its context is not the caller's.
	services, outer := errgroup.WithContext(context.WithoutCancel(ctx))
	services.Go(func() error { return n.serve(outer, l) })
	services.Go(func() error { return last(n.live(outer, ctx.Done())) })
	err = services.Wait()
	logs.Info("server stopped")
	return ended(err)
}

// errDone ends a group: what the others served is over. It is an error so that
// the group takes it for the first one, before those of the others that it cuts.
var errDone = errors.New("done")

// last is what the member of a group returns with which all of it ends.
func last(err error) error {
	if err == nil {
		return errDone
	}
	return err
}

// ended is a group's error, unless it only says that everything was told to end.
func ended(err error) error {
	if errors.Is(err, errDone) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// limitMemory tells Go's collector what there is.
func (n *node) limitMemory() {
	m := n.cfg.memory(machineMemory())
	if os.Getenv("GOMEMLIMIT") != "" {
		n.log.Info("GOMEMLIMIT is set from outside, and stays", "rows", m.Rows)
		return
	}
	debug.SetMemoryLimit(m.Limit)
	n.log.Info("memory", "limit", m.Limit, "rows", m.Rows)
}

// live is the node behind the listener: everything from PD on. When leave is
// closed it hands over; it is cut when that takes too long.
func (n *node) live(outer context.Context, leave <-chan struct{}) error {
	ctx, cut := context.WithCancel(outer)
	defer cut()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return last(n.replicate(ctx, leave)) })
	g.Go(func() error {
		if n.over(ctx, leave) {
			cut()
		}
		return nil
	})
	return ended(g.Wait())
}

// over tells when the node is to be cut, if it has not ended before.
func (n *node) over(ctx context.Context, leave <-chan struct{}) bool {
	var late <-chan time.Time
	for {
		select {
		case <-leave:
			n.log.Info("told to end, handing over")
			leave, late = nil, time.After(farewell)
		case <-late:
			n.log.Warn("handing over took too long, cutting", "after", farewell)
			return true
		case <-n.parts.Cut:
			n.log.Warn("cut: nothing is handed over")
			if s := n.present.Load(); s != nil {
				s.Abandon()
			}
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// replicate opens what every session of this node shares, and lives through one
// session after another.
func (n *node) replicate(ctx context.Context, leave <-chan struct{}) error {
	opening, done := until(ctx, leave)
	defer done()
	for {
		shared, err := agent.Open(opening, n.sharing())
		if err == nil {
			return n.follow(ctx, leave, shared, nil)
		}
		if again, err := n.outlive(ctx, opening, leave, err); !again {
			return leftFirst(opening, err)
		}
	}
}

func (n *node) sharing() agent.CaptureConfig {
	m := n.cfg.memory(machineMemory())
	return agent.CaptureConfig{
		Upstream: n.cfg.Reach(n.log.Logger),
		Sorter:   sorter.Config{MemoryQuota: m.Rows, Dir: n.cfg.DataDir, DiskQuota: n.cfg.Sorter.DiskQuota, Log: n.log.Logger},
	}
}

// follow lives through one session after another with an upstream, or without one: then on
// a store that is open already.
func (n *node) follow(ctx context.Context, leave <-chan struct{}, shared *agent.Capture, store *meta.Store) (err error) {
	defer func() { err = errors.Join(err, shared.Close()) }()
	n.api.Connect(source{shared.Client, n.cfg.ClusterID})
	n.meter.follow(shared)
	defer n.meter.follow(nil)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return shared.Run(ctx) })
	g.Go(func() error {
		return last(n.sessions(ctx, leave, Given{Config: n.cfg, Memory: n.cfg.memory(machineMemory()), Capture: shared, Store: store, Metrics: n.meter.registry}))
	})
	return ended(g.Wait())
}

// until is a context that also ends when leave is closed.
func until(ctx context.Context, leave <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	g := new(errgroup.Group)
	g.Go(func() error {
		select {
		case <-leave:
			cancel()
		case <-ctx.Done():
		}
		return nil
	})
	return ctx, func() {
		cancel()
		_ = g.Wait() // it has no error
	}
}

// leftFirst is err, unless we were told to end before it came.
func leftFirst(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end that was asked for is no error
	}
	return err
}

// source is the upstream as the API asks for it.
type source struct {
	*upstream.Client
	cluster string
}

// ReleaseGC gives up the hold of this cluster of Sluice.
func (s source) ReleaseGC(ctx context.Context) error {
	_, err := s.Client.ReleaseGC(ctx, GCService(s.cluster, s.ClusterID()))
	return cdcerr.GCHold.Wrap(err, "releasing")
}

// GCService is by which name a cluster of Sluice holds the upstream's garbage
// collection back.
func GCService(cluster string, upstream uint64) string {
	return fmt.Sprintf("sluice-%s-%d", cluster, upstream)
}
