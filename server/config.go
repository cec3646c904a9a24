package server

import (
	"fmt"
	"time"
)

// Config is a server's file, TOML with the keys of TiCDC's server, and what
// flags add to it. Keys of TiCDC's that have nothing to act on here are read
// and named in Warnings.
type Config struct {
	// PD are the endpoints of the upstream's PD; a flag only.
	PD []string `toml:"-"`

	Addr          string `toml:"addr"`           // where HTTP and gRPC listen
	AdvertiseAddr string `toml:"advertise-addr"` // what others call it by; empty: Addr
	DataDir       string `toml:"data-dir"`
	ClusterID     string `toml:"cluster-id"` // tells Sluice clusters on one metadata store apart
	TZ            string `toml:"tz"`         // of TIMESTAMP values in filters; "System" or a zone's name
	GCTTL         int64  `toml:"gc-ttl"`     // seconds for which a stopped changefeed's data is kept upstream

	LogFile  string `toml:"log-file"`
	LogLevel string `toml:"log-level"`
	Log      Log    `toml:"log"`

	CaptureSessionTTL int64 `toml:"capture-session-ttl"` // seconds

	// MemoryQuota is how many bytes of memory the server may take; 0 is a
	// gigabyte, or MemoryLimitPercentage of what the machine has where that is less.
	MemoryQuota           int64   `toml:"memory-quota"`
	MemoryLimitPercentage float64 `toml:"memory-limit-percentage"`
	Sorter                Sorter  `toml:"sorter"`

	Security Security `toml:"security"`
	Meta     Meta     `toml:"meta"`
	KVClient KVClient `toml:"kv-client"`

	// NewArch is what TiCDC chooses between its two architectures by.
	NewArch                bool           `toml:"newarch"`
	OwnerFlushInterval     Duration       `toml:"owner-flush-interval"`
	ProcessorFlushInterval Duration       `toml:"processor-flush-interval"`
	EnableLegacySafepoint  bool           `toml:"enable-legacy-safepoint"`
	GCTunerMemoryThreshold uint64         `toml:"gc-tuner-memory-threshold"`
	PerTableMemoryQuota    uint64         `toml:"per-table-memory-quota"`
	MaxMemoryPercentage    float64        `toml:"max-memory-percentage"`
	Encryption             Encryption     `toml:"encryption"`
	Debug                  map[string]any `toml:"debug"`

	// Warnings are what Load and Validate let pass and an operator should read.
	Warnings []string `toml:"-"`
}

// Log is where lines go and when files end.
type Log struct {
	File struct {
		MaxSizeMB  int `toml:"max-size"`
		MaxDays    int `toml:"max-days"`    // 0: files are kept whatever their age
		MaxBackups int `toml:"max-backups"` // 0: any number is kept
	} `toml:"file"`
	ErrorOutput string `toml:"error-output"`
}

// Sorter is where rows wait that memory has no room for.
type Sorter struct {
	SortDir       string `toml:"sort-dir"`
	CacheSizeInMB int64  `toml:"cache-size-in-mb"`
	DiskQuota     int64  `toml:"disk-quota"` // bytes
}

// Security is TLS in both directions, and who may ask for what.
type Security struct {
	CA        string   `toml:"ca-path"`
	Cert      string   `toml:"cert-path"`
	Key       string   `toml:"key-path"`
	AllowedCN []string `toml:"cert-allowed-cn"`
	// MTLS asks every client for a certificate of the CA.
	MTLS bool `toml:"mtls"`
	// ClientUserRequired asks for a TiDB user and password, one of ClientAllowedUser.
	ClientUserRequired bool     `toml:"client-user-required"`
	ClientAllowedUser  []string `toml:"client-allowed-user"`
	RedactInfoLog      string   `toml:"redact-info-log"` // off, on or marker
}

// Meta is where changefeeds, checkpoints and the election live.
type Meta struct {
	Backend   string   `toml:"backend"` // pd, external or embedded
	Endpoints []string `toml:"endpoints"`
	CA        string   `toml:"ca-path"`
	Cert      string   `toml:"cert-path"`
	Key       string   `toml:"key-path"`
	Prefix    string   `toml:"prefix"`
	// Of the embedded backend:
	Name           string `toml:"name"`
	DataDir        string `toml:"data-dir"`
	ClientAddr     string `toml:"client-addr"`
	PeerAddr       string `toml:"peer-addr"`
	InitialCluster string `toml:"initial-cluster"` // name=http://host:port, by commas
}

// KVClient is how TiKV is followed.
type KVClient struct {
	EnableMultiplexing   bool     `toml:"enable-multiplexing"`
	WorkerConcurrent     int      `toml:"worker-concurrent"`
	GRPCStreamConcurrent int      `toml:"grpc-stream-concurrent"`
	AdvanceIntervalMS    int      `toml:"advance-interval-in-ms"`
	FrontierConcurrent   int      `toml:"frontier-concurrent"`
	WorkerPoolSize       int      `toml:"worker-pool-size"`
	RegionScanLimit      int      `toml:"region-scan-limit"`
	RegionRetryDuration  Duration `toml:"region-retry-duration"`
}

// Encryption is the encryption of rows on disk, which this release lacks.
type Encryption struct {
	EnableEncryption    bool     `toml:"enable-encryption"`
	MetaRefreshInterval Duration `toml:"meta-refresh-interval"`
	MetaCacheTTL        Duration `toml:"meta-cache-ttl"`
	AllowDegradeOnError bool     `toml:"allow-degrade-on-error"`
	KMS                 any      `toml:"kms"`
}

// Default is a server without a file and without flags, as TiCDC's.
func Default() Config {
	c := Config{
		PD:        []string{"http://127.0.0.1:2379"},
		Addr:      "127.0.0.1:8300",
		ClusterID: "default",
		TZ:        "System",
		GCTTL:     24 * 3600,
		LogLevel:  "info",
		// Ten seconds, twice the least at which a session outlives a slow disk.
		CaptureSessionTTL:     10,
		MemoryLimitPercentage: 0.75,
		Security:              Security{RedactInfoLog: "off"},
		Meta:                  Meta{Backend: "pd", Prefix: "/sluice"},
		KVClient: KVClient{
			EnableMultiplexing: true, WorkerConcurrent: 8, GRPCStreamConcurrent: 1, AdvanceIntervalMS: 100,
			FrontierConcurrent: 8, RegionScanLimit: 40, RegionRetryDuration: Duration(time.Minute),
		},
	}
	c.Log.File.MaxSizeMB = 300
	c.Log.ErrorOutput = "stderr"
	c.Sorter.CacheSizeInMB = 128
	// A day of a changefeed that stands still at a megabyte a second.
	c.Sorter.DiskQuota = 80 << 30
	c.OwnerFlushInterval, c.ProcessorFlushInterval = Duration(50*time.Millisecond), Duration(50*time.Millisecond)
	return c
}

// Duration is a time.Duration as TOML writes it: "10m".
type Duration time.Duration

// UnmarshalText reads "10m".
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration such as \"30s\" or \"10m\"", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText is what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }
