// Package downstream owns the switch from a sink URI's scheme to the package that
// speaks to that downstream.
//
// It is a package of its own because it is the one place that links them all:
// each of them imports sink for the interface, so sink cannot import them, and
// pipeline, which only needs the interface, would carry every driver into every
// program and test. It starts no goroutine.
package downstream

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/sink/mysql"
)

// Config is what a downstream may need beside its URI.
type Config struct {
	// Snapshot reads rows that no event carries; nil: DDLs that need them are refused.
	Snapshot mysql.Snapshot
	// Cluster and Changefeed are what the control tables downstream call the writer,
	// SyncPointRetention how long they keep sync points; zero values stand for the
	// sink's own.
	Cluster, Changefeed string
	SyncPointRetention  time.Duration
	// Warn is told, with a code, of what a sink rides out, by any of its goroutines:
	// work goes on once that is over. May be nil.
	Warn func(error)
	// Log gets what an operator may want to know; nil keeps it quiet.
	Log *slog.Logger
}

// Open connects to the downstream that the URI names. No error holds the URI's
// text, in which a password may stand.
func Open(ctx context.Context, uri string, cfg Config) (sink.Sink, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	scheme, _, ok := strings.Cut(uri, "://")
	switch {
	case !ok:
		return nil, cdcerr.SinkURIInvalid.New("no scheme: a sink URI begins with %s", known)
	case scheme == blackhole.Scheme:
		return blackhole.Open(uri)
	case mysql.Handles(scheme):
		c, err := mysql.ParseURI(uri)
		if err != nil {
			return nil, err
		}
		if cfg.Changefeed != "" {
			c.Cluster, c.Changefeed = cfg.Cluster, cfg.Changefeed
		}
		if cfg.SyncPointRetention != 0 {
			c.SyncPointRetention = cfg.SyncPointRetention
		}
		c.Warn = cfg.Warn
		return mysql.Open(ctx, c, cfg.Snapshot, cfg.Log)
	}
	return nil, cdcerr.SinkURIInvalid.New("scheme %q: want %s", scheme, known)
}

const known = "blackhole://, mysql://, mysql+ssl://, tidb:// or tidb+ssl://"
