package server

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/strict"
)

// fileMax bounds a file of configuration, as the API bounds a body.
const fileMax = 4 << 20

// ReadFile reads a file of configuration; one that is none, and does not end, is
// refused.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, fileMax+1))
	if err == nil && len(text) > fileMax {
		err = fmt.Errorf("%s: larger than %d bytes, which no configuration is", path, fileMax)
	}
	return text, err
}

// Load reads a file over c, which stays as it was where the file cannot be used.
func (c *Config) Load(path string) error {
	text, err := ReadFile(path)
	if err != nil {
		return cdcerr.ServerConfigInvalid.Wrap(err, "--config")
	}
	next := *c
	if err = strict.TOML(text, &next); err != nil {
		return cdcerr.ServerConfigInvalid.Wrap(err, "%s", path)
	}
	var present map[string]any
	if err = strict.TOML(text, &present); err != nil {
		return cdcerr.ServerConfigInvalid.Wrap(err, "%s", path)
	}
	for _, key := range slices.Sorted(maps.Keys(idle())) {
		if has(present, strings.Split(key, ".")) && !tuned(key, present) {
			next.Warnings = append(next.Warnings, key+": has no effect: "+idle()[key])
		}
	}
	*c = next
	return nil
}

func has(tree map[string]any, path []string) bool {
	v, ok := tree[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	below, ok := v.(map[string]any)
	return ok && has(below, path[1:])
}

// tuned tells whether all that is below [debug] is what Sluice's own parts read.
func tuned(key string, present map[string]any) bool {
	below, ok := present["debug"].(map[string]any)
	own := 0
	for _, k := range []string{SyncPointIntervalMin, UpstreamLossGraceMin} {
		if _, given := below[k]; given {
			own++
		}
	}
	return key == "debug" && ok && own > 0 && len(below) == own
}

// The keys below [debug] that let an operator's bounds be passed: how close to each other
// sync points may come, and how soon an upstream may be taken for lost.
const (
	SyncPointIntervalMin = "sync-point-interval-min"
	UpstreamLossGraceMin = "upstream-loss-grace-min"
)

// idle are TiCDC's keys that have nothing to act on, with the reason.
func idle() map[string]string {
	const events = "a checkpoint is written when it has moved, and not by a clock"
	const streams = "streams and their workers follow the number of stores"
	return map[string]string{
		"newarch":                          "there is one architecture",
		"owner-flush-interval":             events,
		"processor-flush-interval":         events,
		"enable-legacy-safepoint":          "GC barriers are used where PD knows them, service safepoints where not",
		"gc-tuner-memory-threshold":        "Go's memory limit is set from memory-quota",
		"per-table-memory-quota":           "memory is lent by what rows need, whatever their table",
		"max-memory-percentage":            "use memory-limit-percentage",
		"sorter.sort-dir":                  "rows that wait on disk are in data-dir",
		"sorter.cache-size-in-mb":          "what is read from disk is read once, and not cached",
		"kv-client.enable-multiplexing":    "streams are always shared by all spans",
		"kv-client.worker-concurrent":      streams,
		"kv-client.grpc-stream-concurrent": streams,
		"kv-client.advance-interval-in-ms": "a resolved-ts is handed on when it comes",
		"kv-client.frontier-concurrent":    streams,
		"kv-client.worker-pool-size":       streams,
		"kv-client.region-retry-duration":  "a region is asked for until it answers",
		"security.redact-info-log":         "rows are not logged, but an error about one names its table, key, column and value, and so does the downstream's message",
		"debug":                            "what it tunes is built otherwise here, save for sync-point-interval-min and upstream-loss-grace-min",
	}
}

// clusterID is what an id may look like, as TiCDC has it.
var clusterID = regexp.MustCompile(`^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$`)

// reserved are the names of folders beside those of clusters.
func reserved() []string {
	return []string{"owner", "capture", "task", "changefeed", "job", "meta"}
}

// Validate names the first key that cannot be used, fills in what follows from
// others, and warns of what works but is seldom meant.
func (c *Config) Validate() error {
	for _, check := range []func() error{
		c.checkAddresses, c.checkNames, c.checkLog, c.checkNumbers, c.checkSecurity, c.fillDataDir, c.checkMeta,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func refuse(key, format string, args ...any) error {
	return cdcerr.ServerConfigInvalid.New("%s: %s", key, fmt.Sprintf(format, args...))
}

func (c *Config) checkAddresses() error {
	if _, port, err := net.SplitHostPort(c.Addr); err != nil || port == "" {
		return refuse("addr", "%q is not host:port", c.Addr)
	}
	if c.AdvertiseAddr == "" {
		c.AdvertiseAddr = c.Addr
	}
	host, port, err := net.SplitHostPort(c.AdvertiseAddr)
	switch {
	case err != nil || port == "":
		return refuse("advertise-addr", "%q is not host:port", c.AdvertiseAddr)
	case host == "" || net.ParseIP(host) != nil && net.ParseIP(host).IsUnspecified():
		return refuse("advertise-addr", "%q is no address that others can reach: give the machine's own (it follows addr where it is not given)", c.AdvertiseAddr)
	}
	if len(c.PD) == 0 {
		return refuse("--pd", "no endpoint given")
	}
	secure := 0
	for _, e := range c.PD {
		scheme, rest, ok := strings.Cut(e, "://")
		if !ok || scheme != "http" && scheme != "https" || rest == "" || strings.ContainsAny(strings.TrimSuffix(rest, "/"), "/ ") {
			return refuse("--pd", "%q is not http://host:port or https://host:port", e)
		}
		if scheme == "https" {
			secure++
		}
	}
	switch {
	case secure > 0 && secure < len(c.PD):
		return refuse("--pd", "http and https are mixed in %q", c.PD)
	case secure > 0 && c.Security.CA == "":
		return refuse("--pd", "%s needs security.ca-path (--ca)", c.PD[0])
	}
	return nil
}

func (c *Config) checkNames() error {
	switch {
	case !clusterID.MatchString(c.ClusterID) || len(c.ClusterID) > 128:
		return refuse("cluster-id", "%q is not made of letters and digits with single - between, 128 at most", c.ClusterID)
	case slices.Contains(reserved(), c.ClusterID):
		return refuse("cluster-id", "%q is taken: the names %s have another meaning", c.ClusterID, strings.Join(reserved(), ", "))
	}
	if _, err := c.Location(); err != nil {
		return refuse("tz", "%q is no time zone's name, such as Asia/Shanghai or UTC", c.TZ)
	}
	return nil
}

// Location is the time zone that TZ names.
func (c *Config) Location() (*time.Location, error) {
	if c.TZ == "" || strings.EqualFold(c.TZ, "system") {
		return time.Local, nil
	}
	return time.LoadLocation(c.TZ)
}

func (c *Config) checkLog() error {
	if _, err := ParseLevel(c.LogLevel); err != nil {
		return refuse("log-level", "%s", err)
	}
	f := c.Log.File
	if f.MaxSizeMB <= 0 || f.MaxDays < 0 || f.MaxBackups < 0 {
		return refuse("log.file", "max-size %d must be positive, max-days %d and max-backups %d not negative", f.MaxSizeMB, f.MaxDays, f.MaxBackups)
	}
	if modes := []string{"", "off", "on", "marker", "true", "false"}; !slices.Contains(modes, c.Security.RedactInfoLog) {
		return refuse("security.redact-info-log", "%q is none of off, on, marker", c.Security.RedactInfoLog)
	}
	return nil
}

func (c *Config) checkNumbers() error {
	switch {
	case c.GCTTL <= 0:
		return refuse("gc-ttl", "%d seconds: must be positive, or a stopped changefeed could never be resumed", c.GCTTL)
	case c.MemoryLimitPercentage <= 0 || c.MemoryLimitPercentage > 1:
		return refuse("memory-limit-percentage", "%v is not above 0 and at most 1", c.MemoryLimitPercentage)
	case c.MemoryQuota != 0 && c.MemoryQuota < memoryLeast:
		return refuse("memory-quota", "%d bytes: %d are the least that a server runs in", c.MemoryQuota, int64(memoryLeast))
	case c.Sorter.DiskQuota <= 0:
		return refuse("sorter.disk-quota", "%d bytes: must be positive", c.Sorter.DiskQuota)
	case c.Sorter.CacheSizeInMB < 8:
		return refuse("sorter.cache-size-in-mb", "%d: 8 are the least", c.Sorter.CacheSizeInMB)
	case c.KVClient.RegionScanLimit <= 0:
		return refuse("kv-client.region-scan-limit", "%d: must be positive", c.KVClient.RegionScanLimit)
	case c.Encryption.EnableEncryption:
		return refuse("encryption.enable-encryption", "this release does not encrypt rows on disk; put data-dir on an encrypted device")
	}
	if c.CaptureSessionTTL < 5 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("capture-session-ttl: %d s is below the least, 5 s: 10 s are taken", c.CaptureSessionTTL))
		c.CaptureSessionTTL = 10
	}
	return nil
}

func (c *Config) checkSecurity() error {
	s := c.Security
	switch {
	case (s.Cert == "") != (s.Key == ""):
		return refuse("security", "cert-path and key-path go together")
	case s.CA == "" && (s.Cert != "" || len(s.AllowedCN) > 0 || s.MTLS):
		return refuse("security.ca-path", "is missing: without it nothing is encrypted and nobody is checked")
	case s.CA != "" && s.Cert == "":
		return refuse("security", "ca-path without cert-path and key-path: the server has no certificate to show")
	case s.ClientUserRequired && len(s.ClientAllowedUser) == 0:
		return refuse("security.client-allowed-user", "is empty, so that nobody could ever be let in; name at least one TiDB user")
	case !s.ClientUserRequired && len(s.ClientAllowedUser) > 0:
		c.Warnings = append(c.Warnings, "security.client-allowed-user: nobody is asked for a user while client-user-required is false")
	}
	return errors.Join(readable("security.ca-path", s.CA), readable("security.cert-path", s.Cert), readable("security.key-path", s.Key))
}

func readable(key, path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.ReadFile(path); err != nil {
		return cdcerr.ServerConfigInvalid.Wrap(err, "%s", key)
	}
	return nil
}

func (c *Config) checkMeta() error {
	m := &c.Meta
	backends := []string{"pd", "external", "embedded"}
	switch {
	case !slices.Contains(backends, m.Backend):
		near := ""
		if n := strict.Nearest(m.Backend, backends); n != "" {
			near = fmt.Sprintf(", did you mean %q?", n)
		}
		return refuse("meta.backend", "%q is none of %s%s", m.Backend, strings.Join(backends, ", "), near)
	case m.Backend == "external" && len(m.Endpoints) == 0:
		return refuse("meta.endpoints", "the external backend needs the endpoints of an etcd")
	case m.Backend != "external" && len(m.Endpoints) > 0:
		return refuse("meta.endpoints", "belong to the external backend; backend is %q", m.Backend)
	case m.Backend != "embedded" && (m.PeerAddr != "" || m.InitialCluster != "" || m.DataDir != "" || m.ClientAddr != ""):
		return refuse("meta", "data-dir, client-addr, peer-addr and initial-cluster belong to the embedded backend; backend is %q", m.Backend)
	case (m.Cert == "") != (m.Key == ""):
		return refuse("meta", "cert-path and key-path go together")
	}
	store := c.Metadata(nil)
	return cdcerr.ServerConfigInvalid.Wrap(store.Validate(), "meta")
}

// fillDataDir chooses a folder where none is given.
func (c *Config) fillDataDir() error {
	if c.DataDir == "" {
		_, port, err := net.SplitHostPort(c.AdvertiseAddr)
		if err != nil {
			return refuse("advertise-addr", "%q is not host:port", c.AdvertiseAddr)
		}
		c.DataDir = filepath.Join(os.TempDir(), "sluice_data", port)
		c.Warnings = append(c.Warnings, "data-dir: not given, "+c.DataDir+" is taken; name one on a device with room")
	}
	return nil
}
