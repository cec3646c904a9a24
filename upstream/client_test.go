package upstream

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/sluice-cdc/sluice/cdcerr"
)

func (p *puppet) config() Config {
	cfg := Default()
	cfg.PD = []string{p.address}
	return cfg
}

// open connects to the puppet and runs the client until the test ends.
func open(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		c.Close()
	})
	return c
}

func TestOpen(t *testing.T) {
	p := startPuppet(t, nil)
	began := time.Now()
	c := open(t, p.config())
	t.Logf("open after %v", time.Since(began))
	if c.ClusterID() != puppetCluster {
		t.Errorf("cluster id %d", c.ClusterID())
	}
	first, err := c.TS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.TS(t.Context())
	if err != nil || second <= first {
		t.Errorf("timestamp %d after %d, %v", second, first, err)
	}
}

func TestOpenChecksVersions(t *testing.T) {
	for _, c := range []struct {
		name, pd, tikv string
		code           *cdcerr.Code
	}{
		{"oldest", "v7.5.0-alpha", "7.5.0-alpha", nil},
		{"a build between releases", "v8.5.0-alpha-12-gabcdef0", "8.5.1-dirty", nil},
		{"newest", "v14.9.9", "14.9.9", nil},
		{"old PD", "v7.4.9", "8.5.0", cdcerr.VersionIncompatible},
		{"new PD", "v15.0.0", "8.5.0", cdcerr.VersionIncompatible},
		{"PD without a version", "None", "8.5.0", cdcerr.VersionIncompatible},
		{"old TiKV", "v8.5.0", "7.1.0", cdcerr.VersionIncompatible},
		{"new TiKV", "v8.5.0", "15.0.0", cdcerr.VersionIncompatible},
		{"TiKV without a version", "v8.5.0", "", cdcerr.VersionIncompatible},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startPuppet(t, nil)
			p.version = c.pd
			p.stores[1].Version = c.tikv
			// TiFlash takes no part, whatever its age.
			p.stores = append(p.stores, &metapb.Store{Id: 9, Address: "127.0.0.1:1", Version: "5.0.0",
				Labels: []*metapb.StoreLabel{{Key: "engine", Value: "tiflash"}}})
			client, err := Open(t.Context(), p.config())
			if err == nil {
				client.Close()
			}
			if cdcerr.Of(err) != c.code {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOpenUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := Default()
	cfg.PD = []string{"127.0.0.1:1", l.Addr().String()}
	cfg.OpenTimeout = 500 * time.Millisecond
	began := time.Now()
	_, err = Open(t.Context(), cfg)
	if !cdcerr.PDUnreachable.Is(err) || !strings.Contains(err.Error(), "127.0.0.1:1, http://"+l.Addr().String()) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("took %v", took)
	}
}

func TestConfigValidate(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"PD":           func(c *Config) { c.PD = nil },
		"host:port":    func(c *Config) { c.PD = []string{"a/b"} },
		"https":        func(c *Config) { c.PD = []string{"https://a:1"} },
		"OpenTimeout":  func(c *Config) { c.OpenTimeout = 0 },
		"TSOTimeout":   func(c *Config) { c.TSOTimeout = 0 },
		"LockWaitMax":  func(c *Config) { c.LockWaitMax = -1 },
		"StreamBudget": func(c *Config) { c.StreamBudget = 1 },
		"ScanWindow":   func(c *Config) { c.ScanWindow = 0 },
		"StuckAfter":   func(c *Config) { c.StuckAfter = 0 },
		"RenewAfter":   func(c *Config) { c.RenewAfter = c.SlowAfter - 1 },
		"Unanswered":   func(c *Config) { c.UnansweredAfter = -1 },
		"Cert and Key": func(c *Config) { c.TLS.CA, c.TLS.Cert = "ca", "cert" },
		"CA":           func(c *Config) { c.TLS.AllowedCN = []string{"tikv"} },
	} {
		cfg := Default()
		cfg.PD = []string{"127.0.0.1:2379"}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&cfg)
		if err := cfg.Validate(); !cdcerr.InvalidArgument.Is(err) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: got %v", key, err)
		}
	}
}
