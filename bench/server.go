package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cli"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/server"
	"github.com/sluice-cdc/sluice/tso"
)

// serving is a server in this process with one changefeed on it, as `sluice server`
// and `changefeed create` make them.
type serving struct {
	capture *agent.Capture
	plane   server.Plane
	id      api.FeedID
}

// lookEvery is how often a child looks at its server.
const lookEvery = time.Millisecond

// withServer runs a server beside an etcd of its own, creates a changefeed to o.sink
// with a redo log in o.storage, and calls watch.
func withServer(ctx context.Context, o options, watch func(context.Context, *serving) error) (err error) {
	dir, err := os.MkdirTemp("", "sluice-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store := meta.Default()
	store.Backend, store.Embedded.DataDir = meta.BackendEmbedded, filepath.Join(dir, "etcd")
	etcd, err := meta.Open(ctx, store)
	if err != nil {
		return err
	}
	defer etcd.Close()
	cfg := server.Default()
	cfg.PD = []string{"http://" + strings.TrimPrefix(o.pd, "http://")}
	cfg.Addr, cfg.AdvertiseAddr = "127.0.0.1:0", "127.0.0.1:8300" // nobody else is there to call it
	cfg.DataDir, cfg.LogFile = filepath.Join(dir, "data"), filepath.Join(dir, "log")
	cfg.Meta.Backend, cfg.Meta.Endpoints = meta.BackendExternal, etcd.Endpoints()
	if o.quota > 0 {
		cfg.MemoryQuota = int64(o.quota) << 20
	}
	made := make(chan *serving, 1)
	plane := cli.Plane(cli.ReadBuild().Version)
	parts := server.Parts{Version: cli.ReadBuild().Version, Stderr: io.Discard, Plane: func(ctx context.Context, g server.Given) (server.Plane, error) {
		p, err := plane(ctx, g)
		if err == nil {
			made <- &serving{capture: g.Capture, plane: p, id: api.FeedID{Keyspace: "default", Name: "bench"}}
		}
		return p, err
	}}
	g, ctx := errgroup.WithContext(ctx)
	running, leave := context.WithCancel(ctx)
	defer leave()
	g.Go(func() error { return server.Run(running, cfg, parts) })
	g.Go(func() error {
		defer leave()
		select {
		case s := <-made:
			if err := s.create(ctx, o); err != nil {
				return err
			}
			return watch(ctx, s)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return g.Wait()
}

// create creates the changefeed, once the server leads its cluster.
func (s *serving) create(ctx context.Context, o options) error {
	if err := s.until(ctx, "the server leads", func() bool { return s.plane.Self().Owner }); err != nil {
		return err
	}
	c := api.Creation{ID: s.id, SinkURI: o.sink, StartTS: tso.TS(o.start)}
	config := map[string]any{"force_replicate": true}
	if o.quota > 0 {
		config["memory_quota"] = int64(o.quota) << 20
	}
	if o.storage != "" {
		config["consistent"] = map[string]any{"level": "eventual", "storage": o.storage}
	}
	var err error
	if c.Config, err = json.Marshal(config); err != nil {
		return err
	}
	_, err = s.plane.Create(ctx, c)
	return err
}

// until waits for something to become true.
func (s *serving) until(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("until %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// rows are how many the sink has taken.
func (s *serving) rows() (n uint64) {
	for _, w := range s.plane.Work() {
		n += w.Rows
	}
	return n
}

// served follows the load through a server, from its first row until all are downstream.
func served(ctx context.Context, o options) (l Large, err error) {
	stop, err := o.startProfile()
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	err = withServer(ctx, o, func(ctx context.Context, s *serving) error {
		err := s.until(ctx, "rows come", func() bool {
			l.Idle = peakRSS()
			used := s.capture.Used()
			return used.Memory+used.Lent > 0
		})
		if err != nil {
			return err
		}
		watch := startWatch()
		if err := s.until(ctx, "all rows are downstream", func() bool {
			l.Disk = max(l.Disk, s.capture.Used().Disk)
			return s.rows() >= uint64(o.rows)
		}); err != nil {
			return fmt.Errorf("%d of %d rows: %w", s.rows(), o.rows, err)
		}
		l.Usage = watch.stop()
		l.RSS = peakRSS()
		return nil
	})
	return l, err
}
