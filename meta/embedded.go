package meta

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// ticksOfElection is how many heartbeats are missed before a new leader is wanted.
const ticksOfElection = 10

// compactAfter is how much history the embedded etcd keeps: a watch that was cut
// off for longer begins anew.
const compactAfter = "1h"

// startEmbedded runs a member of etcd in this process. It is ready when it returns:
// it has a leader, and can be asked.
func startEmbedded(ctx context.Context, c *Config, log *slog.Logger) (m *member, err error) {
	m = newMember()
	cfg, err := c.embedded(log, m)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, cdcerr.InvalidArgument.Wrap(err, "Embedded.DataDir")
	}
	if err := c.Embedded.clearUnborn(log); err != nil {
		return nil, err
	}
	if err := sound(filepath.Join(cfg.Dir, "member", "snap", "db")); err != nil {
		return nil, err
	}
	// What is fatal to etcd panics in it; a log that is damaged is one such.
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		why := m.last.why()
		if m = nil; cdcerr.Of(why) != nil { // givingUp has said it all
			err = why
			return
		}
		err = fmt.Errorf("%v", r)
		if why != nil {
			err = fmt.Errorf("%v: %w", r, why)
		}
		err = failed(cfg.Dir, err, cdcerr.MetaDirDamaged)
	}()
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, failed(cfg.Dir, err, cdcerr.MetaUnreachable)
	}
	m.Etcd = server
	select {
	case <-server.Server.ReadyNotify():
		if err = c.Embedded.born(); err == nil {
			return m, nil
		}
	case err = <-server.Err():
		err = cdcerr.MetaUnreachable.Wrap(err, "the embedded etcd has stopped")
	case <-server.Server.StopNotify():
		err = cdcerr.MetaUnreachable.New("the embedded etcd has stopped")
	case <-ctx.Done():
		err = cdcerr.MetaUnreachable.Wrap(ctx.Err(), "the embedded etcd has found no leader")
	}
	// Close alone would wait for a server that is not ready to be so.
	server.Server.Stop()
	m.end()
	return nil, err
}

// bornFile says that the member was ready once: what is in its directory counts.
const bornFile = "sluice-ready"

// clearUnborn puts aside what is left of a first start that did not come to its end.
// A member makes its log before it writes there that it is a member; a process that
// is killed in between leaves a log of nobody, and the next one waits for a leader
// for good. Nobody was told anything by a member that was never ready, so that
// nothing is lost. This is for a cluster of one: among several the others tell a
// member who it is, and may have counted its vote. A directory without our mark whose
// database knows members was ready somewhere: it was copied, or restored from a backup.
// The mark is for the first moments after, when the database on disk is behind the log.
func (e *Embedded) clearUnborn(log *slog.Logger) error {
	left := filepath.Join(e.DataDir, "member")
	if exists(filepath.Join(e.DataDir, bornFile)) || !exists(left) || len(e.members()) > 1 {
		return nil
	}
	if known, err := knowsMembers(filepath.Join(left, "snap", "db")); err != nil || known {
		return err
	}
	aside := left + ".unready"
	for n := 1; exists(aside); n++ {
		aside = fmt.Sprintf("%s.unready-%d", left, n)
	}
	log.Warn("the embedded etcd was never ready here; beginning anew", "directory", left, "put aside as", aside)
	return cdcerr.InvalidArgument.Wrap(os.Rename(left, aside), "Embedded.DataDir")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// born notes that the member is ready.
func (e *Embedded) born() error {
	name := filepath.Join(e.DataDir, bornFile)
	if exists(name) {
		return nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err == nil {
		err = syncDir(e.DataDir)
	}
	return cdcerr.InvalidArgument.Wrap(err, "Embedded.DataDir")
}

// syncDir makes a new name in a directory last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// embedded is etcd's own configuration.
func (c *Config) embedded(log *slog.Logger, m *member) (*embed.Config, error) {
	e := &c.Embedded
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = e.Name, e.DataDir
	m.last.dir = e.DataDir
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLog(log, &m.last))
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(m.cut)}
	client, err := url.Parse(c.scheme() + "://" + e.ClientAddr)
	if err != nil {
		return nil, cdcerr.InvalidArgument.Wrap(err, "Embedded.ClientAddr")
	}
	peer, err := url.Parse(c.scheme() + "://" + e.PeerAddr)
	if err != nil {
		return nil, cdcerr.InvalidArgument.Wrap(err, "Embedded.PeerAddr")
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.InitialCluster = e.Name + "=" + peer.String()
	if all := e.members(); len(all) > 0 {
		for i, m := range all {
			name, addr, _ := strings.Cut(m, "=")
			all[i] = name + "=" + c.endpoint(addr)
		}
		cfg.InitialCluster = strings.Join(all, ",")
	}
	cfg.InitialClusterToken = "sluice" + c.Prefix + "/" + c.Cluster
	cfg.TickMs = uint(e.Tick / time.Millisecond)
	cfg.ElectionMs = ticksOfElection * cfg.TickMs
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "periodic", compactAfter
	if c.TLS.CA != "" {
		info := transport.TLSInfo{CertFile: c.TLS.Cert, KeyFile: c.TLS.Key, TrustedCAFile: c.TLS.CA, ClientCertAuth: true}
		cfg.ClientTLSInfo, cfg.PeerTLSInfo = info, info
	}
	if err := cfg.Validate(); err != nil {
		return nil, cdcerr.InvalidArgument.Wrap(err, "Embedded")
	}
	return cfg, nil
}

// clientURL is where a member listens, with the port that it got.
func clientURL(server *embed.Etcd, scheme string) (string, error) {
	if len(server.Clients) == 0 {
		return "", cdcerr.Bug("the embedded etcd listens nowhere")
	}
	return fmt.Sprintf("%s://%s", scheme, server.Clients[0].Addr()), nil
}
