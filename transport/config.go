package transport

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// Config is one capture's part in what captures say to each other.
type Config struct {
	Self    capture.ID
	Cluster string // captures of another one are refused
	// Service is where other captures' streams come in; nil for a capture that only
	// calls.
	Service *Service
	// TLS is asked at each handshake, so that files may be rotated; nil where nothing
	// is encrypted.
	TLS func() (*tls.Config, error)
	// Dial reaches an address.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Beat is how long nothing is asked of a peer on a stream; Silence how long it may
	// say nothing before the stream counts as broken, and how long a stream may take
	// to come about.
	Beat, Silence time.Duration
	// BackoffMin is the wait before a stream is tried again that was there, and the
	// first wait of one that was not; each wait is twice the last, up to BackoffMax.
	BackoffMin, BackoffMax time.Duration
	Log                    *slog.Logger
}

// Default is a Config that lacks Self and Cluster.
func Default() Config {
	var d net.Dialer
	return Config{
		Dial: func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) },
		// An owner takes a capture for silent after a second and a half by the reports
		// that it does not get; this is for the streams, and spares a busy machine.
		Beat: 500 * time.Millisecond, Silence: 2 * time.Second,
		// A stream that broke is there again before the owner gives the capture up,
		// 300 ms later.
		BackoffMin: 50 * time.Millisecond, BackoffMax: time.Second,
		Log: slog.New(slog.DiscardHandler),
	}
}

// Validate names the first key that cannot be used.
func (c *Config) Validate() error {
	switch {
	case c.Self == "" || c.Cluster == "":
		return cdcerr.InvalidArgument.New("Self %q, Cluster %q: both must be given", c.Self, c.Cluster)
	case c.Dial == nil || c.Log == nil:
		return cdcerr.InvalidArgument.New("Dial and Log: must be given; Default has them")
	case c.Beat <= 0 || c.Silence < 2*c.Beat:
		return cdcerr.InvalidArgument.New("Beat %v, Silence %v: Beat must be above 0, Silence at least twice as long, or one late answer breaks a stream", c.Beat, c.Silence)
	case c.BackoffMin <= 0 || c.BackoffMax < c.BackoffMin:
		return cdcerr.InvalidArgument.New("BackoffMin %v, BackoffMax %v: must be above 0, and the second not below the first", c.BackoffMin, c.BackoffMax)
	}
	return nil
}
