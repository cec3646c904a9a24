package meta

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Store is the metadata of one cluster of Sluice.
type Store struct {
	cfg      Config
	log      *slog.Logger
	keys     layout
	client   *clientv3.Client
	server   *member // nil where etcd runs elsewhere
	endpoint []string
	identity string
}

// layoutVersion is that of docs/design/0006. A Sluice that finds a higher one
// leaves the keys alone.
const layoutVersion = 1

// openTimeout bounds Open: an embedded member of several waits for the others.
const openTimeout = 30 * time.Second

// Open finds etcd, or starts it, and makes sure that the keys there are such as this
// Sluice knows. A cluster that is not there is founded.
func Open(ctx context.Context, cfg Config) (s *Store, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s = &Store{cfg: cfg, log: cfg.Log, keys: newLayout(cfg.Prefix, cfg.Cluster)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			s.Close()
			s = nil
		}
	}()
	if err := s.connect(ctx); err != nil {
		return s, err
	}
	return s, s.found(ctx)
}

// connect opens the client, and the server before it where it is ours.
func (s *Store) connect(ctx context.Context) error {
	cfg := clientv3.Config{
		DialTimeout: s.cfg.RequestTimeout, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: etcdLog(s.log, nil),
	}
	switch s.cfg.Backend {
	case BackendEmbedded:
		var err error
		if s.server, err = startEmbedded(ctx, &s.cfg, s.log); err != nil {
			return err
		}
		own, err := clientURL(s.server.Etcd, s.cfg.scheme())
		if err != nil {
			return err
		}
		cfg.Endpoints = []string{own}
		for _, m := range s.server.Server.Cluster().Members() {
			if m.ID != s.server.Server.MemberID() {
				cfg.Endpoints = append(cfg.Endpoints, m.ClientURLs...)
			}
		}
	case BackendPD:
		cfg.AutoSyncInterval = 30 * time.Second // PD's members come and go
		fallthrough
	default:
		for _, e := range s.cfg.Endpoints {
			cfg.Endpoints = append(cfg.Endpoints, s.cfg.endpoint(e))
		}
	}
	var err error
	if cfg.TLS, err = s.cfg.TLS.client(); err != nil {
		return err
	}
	s.endpoint = cfg.Endpoints
	if s.client, err = clientv3.New(cfg); err != nil {
		return cdcerr.MetaUnreachable.Wrap(err, "etcd %v", cfg.Endpoints)
	}
	return nil
}

// client is the client's side of TLS; nil where nothing is encrypted. Certificates
// are read anew at each handshake.
func (t TLS) client() (*tls.Config, error) {
	if t.CA == "" {
		return nil, nil
	}
	info := transport.TLSInfo{CertFile: t.Cert, KeyFile: t.Key, TrustedCAFile: t.CA}
	cfg, err := info.ClientConfig()
	return cfg, cdcerr.InvalidArgument.Wrap(err, "TLS")
}

// identity is the value of the key that names a cluster for good.
type identity struct {
	ID      string    `json:"id"`
	Founded time.Time `json:"founded"`
}

// found checks the version of the keys, and the cluster's name for good: whoever
// opens a cluster first writes them.
func (s *Store) found(ctx context.Context) error {
	seed := make([]byte, 16)
	if _, err := rand.Read(seed); err != nil {
		return cdcerr.MetaUnreachable.Wrap(err, "naming the cluster")
	}
	fresh, err := json.Marshal(identity{ID: hex.EncodeToString(seed), Founded: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return cdcerr.Bug("a cluster's name: %v", err)
	}
	version, err := json.Marshal(layoutVersion)
	if err != nil {
		return cdcerr.Bug("a layout's version: %v", err)
	}
	res, err := s.txn(ctx, "opening the cluster",
		[]clientv3.Cmp{absent(s.keys.version())},
		[]clientv3.Op{clientv3.OpPut(s.keys.version(), string(version)), clientv3.OpPut(s.keys.identity(), string(fresh)), clientv3.OpGet(s.keys.identity())},
		[]clientv3.Op{clientv3.OpGet(s.keys.version()), clientv3.OpGet(s.keys.identity())})
	if err != nil {
		return err
	}
	if !res.Succeeded {
		var found int
		kv := res.Responses[0].GetResponseRange().Kvs[0]
		if err := json.Unmarshal(kv.Value, &found); err != nil {
			return corrupted(kv, err)
		}
		if found != layoutVersion {
			return cdcerr.MetaVersion.New("etcd holds layout version %d of cluster %s, this Sluice writes %d", found, s.cfg.Cluster, layoutVersion)
		}
	}
	last := res.Responses[len(res.Responses)-1].GetResponseRange().Kvs
	if len(last) == 0 {
		return cdcerr.MetaCorrupted.New("key %s is missing", s.keys.identity())
	}
	var id identity
	if err := json.Unmarshal(last[0].Value, &id); err != nil || id.ID == "" {
		return corrupted(last[0], err)
	}
	s.identity = id.ID
	return nil
}

// Run waits until ctx ends, or the etcd that is embedded has stopped by itself.
func (s *Store) Run(ctx context.Context) error {
	if s.server == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case err := <-s.server.Err():
		return cdcerr.MetaUnreachable.Wrap(errors.Join(errors.New("it says why"), err), "the embedded etcd has stopped")
	case <-s.server.Server.StopNotify():
		return cdcerr.MetaUnreachable.New("the embedded etcd has stopped")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close lets etcd go, the embedded one too. What runs on the Store must have ended.
func (s *Store) Close() {
	if s.client != nil {
		if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			s.log.Info("closing etcd's client", "error", err)
		}
	}
	// After the client: the server waits for open streams.
	if s.server != nil {
		s.server.end()
	}
}

// Endpoints are where the etcd of this Store can be reached, the embedded one too.
func (s *Store) Endpoints() []string { return s.endpoint }

// Identity names the cluster for good: another one of the same name in another
// etcd has another.
func (s *Store) Identity() string { return s.identity }
