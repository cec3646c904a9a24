package upstream

import (
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/upstream/region"
)

// Config says which cluster to speak to, and how.
type Config struct {
	// PD are the endpoints, host:port or http(s)://host:port. One that answers is enough.
	PD  []string
	TLS TLS
	// Keyspace is the name of the keyspace to speak to, in a cluster that many
	// share; empty for a cluster of TiDB's own.
	Keyspace string
	// ClusterID, where not 0, is the cluster that PD must belong to.
	ClusterID uint64
	// OpenTimeout bounds Open.
	OpenTimeout time.Duration
	// TSOTimeout is how long one timestamp is waited for.
	TSOTimeout time.Duration
	// LockWaitMax is how long a snapshot read waits for one lock to go.
	LockWaitMax time.Duration
	// StreamBudget is how many bytes of one store's stream may be received and
	// not yet handed on.
	StreamBudget int64
	// ScanWindow is how many regions of one store are scanned for us at a time; of
	// those that were followed before, or are little behind, four times as many.
	ScanWindow int
	// StuckAfter is how long a region's resolved-ts may stand still before locks
	// are looked for that hold it back; SlowAfter, before a region is named that
	// stays behind the others; RenewAfter, before it is subscribed anew.
	StuckAfter time.Duration
	SlowAfter  time.Duration
	RenewAfter time.Duration
	// SearchEvery is how often one region is searched for locks at most.
	SearchEvery time.Duration
	// SilentAfter is how long no resolved-ts may come over an open stream before
	// the stream is opened again.
	SilentAfter time.Duration
	// UnansweredAfter is how long nothing may be heard of a region's scan before it
	// is asked for again.
	UnansweredAfter time.Duration
	// Log gets what an operator may want to know; nil keeps it quiet.
	Log *slog.Logger
}

// TLS names the files of one certificate for PD, TiKV and PD's HTTP. They are read
// again at every handshake. With an empty CA nothing is encrypted.
type TLS struct {
	CA   string
	Cert string // our own, for clusters that ask for one
	Key  string
	// AllowedCN, where not empty, are the common names that TiKV's and PD's
	// certificates may have.
	AllowedCN []string
}

// Default is the configuration without endpoints.
func Default() Config {
	return Config{
		OpenTimeout: 10 * time.Second,
		// PD elects a new leader within seconds.
		TSOTimeout: 10 * time.Second,
		// Twice TiDB's longest usual lock lifetime (heartbeats renew 20 s).
		LockWaitMax: 40 * time.Second,
		// Two of TiKV's largest regular messages (6 MiB) and some: the receiver
		// reads one while the feed loop works on another.
		StreamBudget: 16 << 20,
		// TiKV scans six regions at a time; more in its queue keep it busy while
		// rows are on their way, without crowding out others'.
		ScanWindow: 32,
		// Longer than resolved-ts needs in a cluster that is well, and than most
		// transactions live.
		StuckAfter: 4 * time.Second,
		SlowAfter:  20 * time.Second,
		RenewAfter: time.Minute,
		// A search is a walk over a region's locks.
		SearchEvery: 10 * time.Second,
		// A store that lives sends resolved-ts every second, also where nothing moved.
		SilentAfter: 30 * time.Second,
		// TiKV gives a connection up that is not read for as long.
		UnansweredAfter: 5 * time.Minute,
	}
}

// Validate names the first key that cannot be used.
func (c *Config) Validate() error {
	switch {
	case len(c.PD) == 0:
		return cdcerr.InvalidArgument.New("PD: no endpoint given")
	case c.OpenTimeout <= 0:
		return cdcerr.InvalidArgument.New("OpenTimeout %v: must be positive", c.OpenTimeout)
	case c.TSOTimeout <= 0:
		return cdcerr.InvalidArgument.New("TSOTimeout %v: must be positive", c.TSOTimeout)
	case c.LockWaitMax < 0:
		return cdcerr.InvalidArgument.New("LockWaitMax %v: must not be negative", c.LockWaitMax)
	case c.StreamBudget < 1<<20:
		return cdcerr.InvalidArgument.New("StreamBudget %d: one megabyte is the least that streams well", c.StreamBudget)
	case c.ScanWindow < 1:
		return cdcerr.InvalidArgument.New("ScanWindow %d: must be positive", c.ScanWindow)
	case min(c.StuckAfter, c.SlowAfter, c.RenewAfter, c.SearchEvery, c.SilentAfter, c.UnansweredAfter) <= 0:
		return cdcerr.InvalidArgument.New("StuckAfter %v, SlowAfter %v, RenewAfter %v, SearchEvery %v, SilentAfter %v, UnansweredAfter %v: must be positive",
			c.StuckAfter, c.SlowAfter, c.RenewAfter, c.SearchEvery, c.SilentAfter, c.UnansweredAfter)
	case c.RenewAfter < c.SlowAfter:
		return cdcerr.InvalidArgument.New("RenewAfter %v: must not be below SlowAfter %v", c.RenewAfter, c.SlowAfter)
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		return cdcerr.InvalidArgument.New("TLS: Cert and Key go together")
	case c.TLS.CA == "" && (c.TLS.Cert != "" || len(c.TLS.AllowedCN) > 0):
		return cdcerr.InvalidArgument.New("TLS: CA is missing, without it nothing is encrypted")
	}
	for _, e := range c.PD {
		host := strings.TrimPrefix(strings.TrimPrefix(e, "http://"), "https://")
		if host == "" || strings.ContainsAny(host, "/ ,") {
			return cdcerr.InvalidArgument.New("PD: %q is not host:port", e)
		}
		if strings.HasPrefix(e, "https://") && c.TLS.CA == "" {
			return cdcerr.InvalidArgument.New("PD: %q is https, but TLS.CA is empty", e)
		}
	}
	return nil
}

func (c *Config) patience() region.Patience {
	return region.Patience{Stuck: c.StuckAfter, Slow: c.SlowAfter, Renew: c.RenewAfter}
}

// lookEvery is how often the clock is looked at: at least twice before anything
// is judged, and at most every two seconds, in which a lock may grow old.
func (c *Config) lookEvery() time.Duration {
	return max(10*time.Millisecond, min(2*time.Second, c.StuckAfter/2, c.SlowAfter/2, c.SilentAfter/2, c.UnansweredAfter/2))
}

// endpoints are PD's URLs with the scheme that the TLS setting calls for.
func (c *Config) endpoints() []string {
	scheme := "http://"
	if c.TLS.CA != "" {
		scheme = "https://"
	}
	out := make([]string, len(c.PD))
	for i, e := range c.PD {
		host := strings.TrimPrefix(strings.TrimPrefix(e, "http://"), "https://")
		out[i] = scheme + strings.TrimSuffix(host, "/")
	}
	return out
}
