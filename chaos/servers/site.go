package servers

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/chaos/process"
	"github.com/sluice-cdc/sluice/internal/mariadb"
)

// Config is a site.
type Config struct {
	Sluice  string // the command of Sluice
	Program string // this very one, which calls ServeChild
	Dir     string // for data and logs
	Origin  origin.Config
	Servers int
	Spare   int  // servers beside these, which rest until they are told to rise
	Apart   bool // metadata is in an etcd of its own; else in the only server
	Wired   bool // servers reach etcd, each other and the stores over wires that can be cut

	// Consistent is what the changefeed has of a redo log, in the API's words; nil: none.
	Consistent map[string]any
	// LossGraceMin is the least that it may have as its upstream_loss_grace; 0 for the usual.
	LossGraceMin time.Duration
	// Slow is how late the downstream's answers come to servers, which write little at
	// a time then; 0 for not.
	Slow time.Duration

	SyncPointEvery time.Duration
	Patience       time.Duration // for whatever is waited for
}

// Validate names the first field that cannot be used, and why.
func (c Config) Validate() error {
	bad := cdcerr.InvalidArgument.New
	switch {
	case c.Servers < 1 || c.Servers > 16:
		return bad("Servers: %d, want 1 to 16", c.Servers)
	case c.Spare < 0 || c.Spare > 16:
		return bad("Spare: %d, want 0 to 16", c.Spare)
	case c.Servers+c.Spare > 1 && !c.Apart:
		return bad("Servers: %d, more than one need metadata apart", c.Servers+c.Spare)
	case c.SyncPointEvery < 100*time.Millisecond:
		return bad("SyncPointEvery: %v, want at least 100ms", c.SyncPointEvery)
	case c.Patience <= 0:
		return bad("Patience: %v, want more", c.Patience)
	}
	return c.Origin.Validate()
}

// sessionTTL is how long a server's lease outlives it, in seconds: the least that
// the server takes.
const sessionTTL = 5

// sinkUser is as whom servers write; the password is for a test's MariaDB on loopback.
const sinkUser, sinkPassword = "sluice", "under-test"

// Site is an upstream, a downstream and the servers between them.
type Site struct {
	Upstream *origin.Upstream
	Down     *mariadb.Server
	Nodes    []*Node
	Beat     *Lag // of the heartbeat, read downstream
	Told     *Lag // of the checkpoint, as servers tell it

	cfg       Config
	place     origin.Place
	db        *sql.DB // the test's own connections downstream
	etcd      *process.Process
	endpoints []string // of it
	occupied  []int    // sockets, on the addresses of an upstream that is lost
	stop      context.CancelFunc
	work      *errgroup.Group
	beats     []*Lag // of each table of the heartbeat

	wires   wires
	slow    wires // to the downstream, where that is slow
	unwire  context.CancelFunc
	carried errgroup.Group // what runs the wires: servers need them until they have ended
}

// Open sets a site up and creates its changefeed. Nothing has happened upstream by
// then.
func Open(ctx context.Context, cfg Config) (s *Site, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s = &Site{cfg: cfg, stop: func() {}, work: new(errgroup.Group), unwire: func() {}}
	s.wires.caller = s.caller
	s.slow.caller, s.slow.delay = func(net.Conn) string { return "" }, cfg.Slow
	defer func() {
		if err != nil {
			err, s = errors.Join(err, s.Close()), nil
		}
	}()
	if s.cfg.Wired {
		for i := range s.cfg.Origin.Stores {
			p, err := s.wires.open(storeName(i))
			if err != nil {
				return s, err
			}
			s.cfg.Origin.StoreAddrs = append(s.cfg.Origin.StoreAddrs, p.Address())
		}
	}
	if s.Upstream, err = origin.Open(s.cfg.Origin, cfg.Program, filepath.Join(cfg.Dir, "upstream.log")); err != nil {
		return s, err
	}
	if s.place, err = s.Upstream.Place(); err != nil {
		return s, err
	}
	if s.Down, err = mariadb.Open(filepath.Join(cfg.Dir, "mariadb"), append(mariadb.BinLog(), "--max-connections=500")...); err != nil {
		return s, err
	}
	s.db = s.Down.DB()
	for _, text := range []string{
		"CREATE USER " + sinkUser + " IDENTIFIED BY '" + sinkPassword + "'",
		"GRANT ALL ON *.* TO " + sinkUser,
	} {
		if _, err := s.db.ExecContext(ctx, text); err != nil {
			return s, fmt.Errorf("the sink's user: %w", err)
		}
	}
	if err := s.serve(ctx); err != nil {
		return s, err
	}
	return s, s.create(ctx)
}

// serve starts the servers, and what they need.
func (s *Site) serve(ctx context.Context) error {
	if s.cfg.Apart {
		var err error
		if s.etcd, s.endpoints, err = openEtcd(s.cfg); err != nil {
			return err
		}
	}
	for i := range s.cfg.Servers + s.cfg.Spare {
		if err := s.newNode(i, s.endpoints); err != nil {
			return err
		}
	}
	s.Beat, s.Told = &Lag{look: s.beat}, &Lag{look: s.checkpoint}
	for range s.cfg.Origin.Beats {
		s.beats = append(s.beats, &Lag{})
	}
	if err := s.wire(ctx); err != nil {
		return err
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx)) // what is begun ends by Close
	s.work, ctx = errgroup.WithContext(ctx)
	for _, n := range s.Nodes {
		s.work.Go(func() error { return n.run(ctx) })
	}
	s.work.Go(func() error { return s.Beat.run(ctx) })
	s.work.Go(func() error { return s.Told.run(ctx) })
	return nil
}

// newNode makes one more server, and the ports before what it calls.
func (s *Site) newNode(number int, endpoints []string) error {
	var before *port
	if s.cfg.Wired {
		var err error
		if before, err = s.wires.open(nodeName(number)); err != nil {
			return err
		}
		etcd, err := s.wires.open(etcdName)
		if err != nil {
			return err
		}
		etcd.to = strings.TrimPrefix(endpoints[0], "http://")
		endpoints = []string{"http://" + etcd.Address()}
	}
	n, err := newNode(s.cfg, number, s.place.PD, endpoints, before)
	if err == nil {
		s.Nodes = append(s.Nodes, n)
	}
	return err
}

// wire lets the ports be called.
func (s *Site) wire(ctx context.Context) error {
	ctx, s.unwire = context.WithCancel(context.WithoutCancel(ctx))
	if s.cfg.Slow > 0 {
		p, err := s.slow.open("the downstream")
		if err != nil {
			return err
		}
		p.to = s.Down.Addr()
		s.carried.Go(func() error { return s.slow.run(ctx) })
	}
	if s.cfg.Wired {
		for i, at := range s.place.Stores {
			s.wires.ports[i].to = at
		}
		s.carried.Go(func() error { return s.wires.run(ctx) })
	}
	return nil
}

// SinkURI is the downstream's, as nobody is slowed down by it.
func (s *Site) SinkURI() string { return s.sinkURI(s.Down.Addr()).String() }

func (s *Site) sinkURI(at string) *url.URL {
	return &url.URL{Scheme: "mysql", User: url.UserPassword(sinkUser, sinkPassword), Host: at, Path: "/"}
}

// Abandon ends every server where it stands, for good.
func (s *Site) Abandon(ctx context.Context) error {
	var all error
	for _, n := range s.Nodes {
		all = errors.Join(all, n.Rest(ctx, syscall.SIGKILL))
	}
	return all
}

// caller is the server that a call comes from.
func (s *Site) caller(c net.Conn) string {
	socket := socketOf(c)
	for _, n := range s.Nodes {
		if pid := n.pid(); pid != 0 && owns(pid, socket) {
			return n.Name
		}
	}
	return ""
}

// create creates the changefeed, as soon as somebody takes it.
func (s *Site) create(ctx context.Context) error {
	sink := s.sinkURI(s.Down.Addr())
	if s.cfg.Slow > 0 {
		sink = s.sinkURI(s.slow.ports[0].Address())
		sink.RawQuery = "worker-count=1&max-txn-row=16"
	}
	config := map[string]any{
		"enable_sync_point": true, "sync_point_interval": s.cfg.SyncPointEvery.String(), "sync_point_retention": "24h",
	}
	if s.cfg.Consistent != nil {
		config["consistent"] = s.cfg.Consistent
	}
	body := map[string]any{"changefeed_id": feedName, "sink_uri": sink.String(), "start_ts": s.place.TS, "replica_config": config}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return s.until(ctx, "the changefeed is created", func() error { return s.post(ctx, "/api/v2/changefeeds", text) })
}

// StopServers ends the servers in good order: what they have written is all that
// they will have.
func (s *Site) StopServers() error {
	s.stop()
	err := s.work.Wait()
	s.work = new(errgroup.Group)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Close ends everything.
func (s *Site) Close() error {
	err := s.StopServers()
	s.unwire()
	if gone := s.carried.Wait(); !errors.Is(gone, context.Canceled) {
		err = errors.Join(err, gone)
	}
	s.wires.close()
	s.slow.close()
	if s.etcd != nil {
		err = errors.Join(err, s.etcd.Leave(stopMax), s.etcd.Out.Close())
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	if s.Down != nil {
		err = errors.Join(err, s.Down.Close())
	}
	if s.Upstream != nil {
		err = errors.Join(err, s.Upstream.Close())
	}
	return errors.Join(err, s.vacate())
}

// until tries until it works.
func (s *Site) until(ctx context.Context, what string, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		err := do()
		if err == nil || errors.Is(err, errForGood) {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("not in time: %s: %w", what, err)
		}
	}
}

// errForGood is what waiting does not mend.
var errForGood = errors.New("it will stay so")

// panics looks for servers that have panicked, in what they have said.
func (s *Site) panics() (out []string, err error) {
	for _, n := range s.Nodes {
		if n.Lives() == 0 {
			continue
		}
		text, err := os.ReadFile(n.log)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "WARNING: DATA RACE") {
				out = append(out, strings.TrimSpace(line)+" ("+n.log+")")
			}
		}
	}
	return out, nil
}
