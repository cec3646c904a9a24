package meta_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// Etcd's members leave some connections between them to the end of the process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"), goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"))
}

// embedded is a Config of an etcd in this process with quick elections.
func embedded(dir string) meta.Config {
	cfg := meta.Default()
	cfg.Backend = meta.BackendEmbedded
	cfg.Embedded.DataDir, cfg.Embedded.Tick = dir, 10*time.Millisecond
	return cfg
}

func open(t *testing.T, cfg meta.Config) *meta.Store {
	t.Helper()
	s, err := meta.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// beside is a second Store on the etcd of the first.
func beside(t *testing.T, s *meta.Store, change func(*meta.Config)) *meta.Store {
	t.Helper()
	cfg := meta.Default()
	cfg.Backend, cfg.Endpoints = meta.BackendExternal, s.Endpoints()
	if change != nil {
		change(&cfg)
	}
	return open(t, cfg)
}

// raw is etcd itself, for who damages what is in it.
func raw(t *testing.T, s *meta.Store) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Logger: zap.NewNop()})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused wants an error of one code that says something.
func refused(t *testing.T, err error, code *cdcerr.Code, says string) {
	t.Helper()
	if !code.Is(err) || !strings.Contains(err.Error(), says) {
		t.Fatalf("got %v, want %s with %q", err, code.ID, says)
	}
}

var (
	feed = meta.ChangefeedID{Namespace: meta.DefaultNamespace, Name: "orders"}
	info = json.RawMessage(`{"sink-uri":"blackhole://"}`)
)

func at(checkpoint, resolved tso.TS) meta.Status {
	return meta.Status{CheckpointTS: checkpoint, ResolvedTS: resolved, Epoch: 1, State: "normal"}
}

// session is one that is renewed until the test ends, or until stop.
func session(t *testing.T, s *meta.Store, id string, ttl time.Duration) (live *meta.Session, stop func() error) {
	t.Helper()
	live, err := s.NewSession(t.Context(), capture.ID(id), ttl)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- live.Run(ctx) }()
	var ended error
	over := false
	stop = func() error {
		if !over {
			over = true
			cancel()
			ended = <-done
		}
		return ended
	}
	t.Cleanup(func() {
		if err := stop(); !errors.Is(err, context.Canceled) && !cdcerr.SessionLost.Is(err) {
			t.Error(err)
		}
	})
	return live, stop
}
