package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// Config is what an API serves from.
type Config struct {
	Version string
	GitHash string
	PID     int
	// Self is what the server knows of itself before there is a Node.
	Self Self
	// Missing says why there is no Node, to those who ask for one.
	Missing string
	// SetLogLevel takes effect at once.
	SetLogLevel func(name string) error
	// Login is nil if user and password are right and the user may; nil lets
	// everybody in.
	Login func(ctx context.Context, user, password string) error
	// Client and Scheme (http or https) lead to other captures.
	Client *http.Client
	Scheme string
	Now    func() time.Time
	Log    *slog.Logger
}

// API serves HTTP for one capture.
type API struct {
	cfg    Config
	joined atomic.Pointer[Node]
	source atomic.Pointer[Upstream]
	routes []route
	mux    *http.ServeMux
}

// New is an API without a Node: until Join it answers what needs none.
func New(cfg Config) *API {
	a := &API{cfg: cfg}
	a.routes = routes()
	a.mux = a.serveMux(a.routes)
	return a
}

// Join gives the API the Node that it speaks for from now on; nil takes it away.
func (a *API) Join(n Node) {
	if n == nil {
		a.joined.Store(nil)
		return
	}
	a.joined.Store(&n)
}

// Connect gives the API the cluster that is replicated.
func (a *API) Connect(up Upstream) { a.source.Store(&up) }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

func (a *API) node() Node {
	if n := a.joined.Load(); n != nil {
		return *n
	}
	return nil
}

// self is the capture, joined or not.
func (a *API) self() Self {
	if n := a.node(); n != nil {
		return n.Self()
	}
	return a.cfg.Self
}

// members is the node for what every capture can answer.
func (c *call) members() (Node, error) {
	if n := c.node(); n != nil {
		return n, nil
	}
	return nil, cdcerr.ServerNotReady.New("%s", c.cfg.Missing)
}

// upstream is the cluster that is replicated.
func (c *call) upstream() (Upstream, error) {
	if up := c.source.Load(); up != nil {
		return *up, nil
	}
	return nil, cdcerr.ServerNotReady.New("no connection to PD yet")
}

// captures are all members in their JSON form.
func (c *call) captures() ([]Capture, error) {
	n, err := c.members()
	if err != nil {
		return nil, err
	}
	all, err := n.Captures(c.Context())
	if err != nil {
		return nil, err
	}
	var owner capture.ID
	if o, err := n.Owner(c.Context()); err == nil {
		owner = o.ID
	} else if !cdcerr.OwnerNotFound.Is(err) {
		return nil, err
	}
	out := make([]Capture, 0, len(all))
	for _, i := range all {
		out = append(out, Capture{ID: string(i.ID), IsOwner: i.ID == owner, Address: i.Address, ClusterID: n.Self().ClusterID})
	}
	return out, nil
}
