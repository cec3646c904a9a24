package fake

import (
	"crypto/tls"
	"io"
	"time"

	"github.com/coreos/go-semver/semver"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Config says what a fake cluster is and does. The zero value of a field takes
// its default; see Default.
type Config struct {
	Recording *Recording // what to replay; nil = an empty cluster
	Bulk      *Bulk      // rows to stream without storing them; not together with Recording
	ClusterID uint64     // default: the recording's
	StartTS   tso.TS     // where the clock begins; default: the recording's, else the wall's

	Stores           int           // default 3
	PDs              int           // members of PD, the first of which leads; default 1
	ResolvedInterval time.Duration // how often resolved-ts moves; default 200 ms, as TiKV's
	Version          string        // of PD and stores; default 8.5.0
	TiDBs            []string      // addresses at which TiDB servers say they are
	// StoreAddrs are where PD says that the stores are, the first's first: of proxies
	// before them. Default: where they are.
	StoreAddrs []string

	// PDLag is how long PD may know an old state of regions after a change.
	PDLag time.Duration

	// Speed of the replay: 1 = as it was recorded, 2 = twice as fast, 0 = as
	// fast as the subscribers take it.
	Speed float64
	// Hold lets the replay wait for Go, HoldForSubscriber for the first region
	// that a subscriber has scanned to its end.
	Hold              bool
	HoldForSubscriber bool

	// Seed of everything random. Calm turns the hazards off: what TiKV may do
	// but need not (repeated prewrites, slow scans, shuffled rows …).
	Seed uint64
	Calm bool

	// QueueBytes is what a change stream may have waiting before its live rows
	// are refused with "congested"; default 64 MiB.
	QueueBytes int64

	// Journal gets every version as it is committed, for who judges after the cluster's
	// process is gone (ReadJournal). Nil: nobody's.
	Journal io.Writer

	// TLS, where set, is used by every listener.
	TLS *tls.Config
}

// maxStores and maxPDs bound how many listeners a cluster opens.
const (
	maxStores = 64
	maxPDs    = 7
)

// Default fills the fields that are zero.
func (c Config) Default() Config {
	if c.Recording != nil {
		if c.ClusterID == 0 {
			c.ClusterID = c.Recording.ClusterID
		}
		if c.StartTS == 0 {
			c.StartTS = c.Recording.StartTS
		}
	}
	if c.ClusterID == 0 {
		c.ClusterID = 7714000000000000001
	}
	if c.StartTS == 0 {
		c.StartTS = tso.At(time.Now())
	}
	if c.Stores == 0 {
		c.Stores = 3
	}
	if c.PDs == 0 {
		c.PDs = 1
	}
	if c.ResolvedInterval == 0 {
		c.ResolvedInterval = 200 * time.Millisecond
	}
	if c.Version == "" {
		c.Version = "8.5.0"
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = 64 << 20
	}
	return c
}

// Validate names the first field that cannot be used, and why.
func (c Config) Validate() error {
	bad := cdcerr.InvalidArgument.New
	switch {
	case c.Recording != nil && c.Bulk != nil:
		return bad("Bulk: not together with Recording")
	case c.Stores < 1 || c.Stores > maxStores:
		return bad("Stores: %d, want 1 to %d", c.Stores, maxStores)
	case c.PDs < 1 || c.PDs > maxPDs:
		return bad("PDs: %d, want 1 to %d", c.PDs, maxPDs)
	case c.ResolvedInterval < time.Millisecond:
		return bad("ResolvedInterval: %v, want at least 1ms", c.ResolvedInterval)
	case len(c.StoreAddrs) > 0 && len(c.StoreAddrs) != c.Stores:
		return bad("StoreAddrs: %d addresses for %d stores", len(c.StoreAddrs), c.Stores)
	case c.PDLag < 0:
		return bad("PDLag: %v, below 0", c.PDLag)
	case c.Speed < 0:
		return bad("Speed: %v, want 0 (as fast as it is read), 1 (as recorded) or another factor", c.Speed)
	case c.QueueBytes < 1<<20:
		return bad("QueueBytes: %d, want at least 1 MiB", c.QueueBytes)
	case c.Recording != nil && c.StartTS > c.Recording.StartTS:
		return bad("StartTS: %d, above the recording's %d", c.StartTS, c.Recording.StartTS)
	}
	if _, err := semver.NewVersion(c.Version); err != nil {
		return bad("Version: %q is not a semantic version: %v", c.Version, err)
	}
	if c.Bulk != nil {
		return c.Bulk.validate()
	}
	return nil
}
