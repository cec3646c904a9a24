package server

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/upstream"
)

// Reach is how PD and TiKV are reached.
func (c *Config) Reach(log *slog.Logger) upstream.Config {
	up := upstream.Default()
	up.PD = c.PD
	if s := c.Security; s.CA != "" {
		up.TLS = upstream.TLS{CA: s.CA, Cert: s.Cert, Key: s.Key, AllowedCN: s.AllowedCN}
	}
	up.ScanWindow = c.KVClient.RegionScanLimit
	up.Log = log
	return up
}

// Metadata is where changefeeds are kept.
func (c *Config) Metadata(log *slog.Logger) meta.Config {
	m, out := c.Meta, meta.Default()
	out.Backend, out.Prefix, out.Cluster, out.Log = m.Backend, m.Prefix, c.ClusterID, log
	out.TLS = meta.TLS{CA: m.CA, Cert: m.Cert, Key: m.Key}
	switch m.Backend {
	case meta.BackendPD:
		out.Endpoints = c.PD
		if m.CA == "" {
			out.TLS = meta.TLS{CA: c.Security.CA, Cert: c.Security.Cert, Key: c.Security.Key}
		}
	case meta.BackendExternal:
		out.Endpoints = m.Endpoints
	case meta.BackendEmbedded:
		out.Embedded.DataDir = m.DataDir
		if m.DataDir == "" {
			out.Embedded.DataDir = filepath.Join(c.DataDir, "meta")
		}
		set(&out.Embedded.Name, m.Name)
		set(&out.Embedded.ClientAddr, m.ClientAddr)
		set(&out.Embedded.PeerAddr, m.PeerAddr)
		out.Embedded.InitialCluster = m.InitialCluster
	}
	return out
}

// MetadataUpstream tells whether the metadata is in the upstream's own PD, whatever it is
// called.
func (c *Config) MetadataUpstream() bool {
	if c.Meta.Backend == meta.BackendPD {
		return true
	}
	host := func(e string) string {
		if _, rest, ok := strings.Cut(e, "://"); ok {
			e = rest
		}
		return strings.TrimSuffix(e, "/")
	}
	return slices.ContainsFunc(c.Meta.Endpoints, func(e string) bool {
		return slices.ContainsFunc(c.PD, func(pd string) bool { return host(pd) == host(e) })
	})
}

// set is for what has a default of its own.
func set(to *string, value string) {
	if value != "" {
		*to = value
	}
}
