package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/transport"
)

// newAPI is the API before the node has joined.
func (n *node) newAPI() (*api.API, error) {
	client, err := n.cfg.Security.Client()
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if n.cfg.Security.Encrypts() {
		scheme = "https"
	}
	missing := "the server has not joined its cluster yet: PD or the metadata's etcd has not answered"
	if n.parts.Plane == nil {
		missing = "this server has no control plane: it replicates nothing"
	}
	cfg := api.Config{
		Version: n.parts.Version, GitHash: n.parts.GitHash, PID: n.parts.PID,
		Self:        api.Self{Info: capture.Info{Address: n.cfg.AdvertiseAddr, Version: n.parts.Version}, ClusterID: n.cfg.ClusterID},
		Missing:     missing,
		SetLogLevel: n.log.SetLevel,
		// Requests to the owner may wait for a downstream that is being tried.
		Client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: client, DisableKeepAlives: true}},
		Scheme: scheme, Now: time.Now, Log: n.log.Logger,
	}
	if n.cfg.Security.ClientUserRequired {
		cfg.Login = login{allowed: n.cfg.Security.ClientAllowedUser, tidbs: n.tidbs}.check
	}
	return api.New(cfg), nil
}

// tidbs are the servers that can check a password.
func (n *node) tidbs(ctx context.Context) ([]string, error) {
	shared := n.meter.shared.Load()
	if shared == nil {
		return nil, cdcerr.ServerNotReady.New("no connection to PD yet")
	}
	return shared.Client.TiDBs(ctx)
}

// listen binds the one port that HTTP and gRPC share.
func (n *node) listen() (net.Listener, error) {
	secure, err := n.cfg.Security.Listener()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", n.cfg.Addr)
	if err != nil {
		return nil, cdcerr.ServerListen.Wrap(err, "addr %s", n.cfg.Addr)
	}
	if n.parts.Listening != nil {
		n.parts.Listening(l.Addr())
	}
	if secure != nil {
		return tls.NewListener(l, secure), nil
	}
	return l, nil
}

// pages are what the port answers: the API, other captures, metrics, and what runs inside.
func (n *node) pages() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", n.api)
	mux.Handle(transport.Path, n.peers)
	mux.Handle("/metrics", promhttp.HandlerFor(n.meter.registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelWarn)}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// serve answers until ctx ends, and lets those who ask at that moment finish.
func (n *node) serve(ctx context.Context, l net.Listener) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // what gRPC speaks without TLS
	s := &http.Server{
		Handler:   n.pages(),
		Protocols: protocols,
		// A caller who does not say what it wants holds a connection for as long.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(quiet{n.log.Logger}, "", 0),
	}
	g := new(errgroup.Group)
	g.Go(func() error {
		<-ctx.Done()
		// Requests that last, such as profiles, are cut.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := s.Shutdown(last); err != nil {
			return s.Close()
		}
		return nil
	})
	err := s.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	if err != nil {
		return cdcerr.ServerListen.Wrap(err, "serving")
	}
	return g.Wait()
}

// quiet takes what the HTTP server has to say of its callers: scanners and health
// checks that open connections and go are no warnings.
type quiet struct{ log *slog.Logger }

// Write is one line.
func (q quiet) Write(line []byte) (int, error) {
	q.log.Debug("http", "said", string(line))
	return len(line), nil
}
