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
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/sink/mysql"
	"github.com/sluice-cdc/sluice/tso"
)

// Config is what a downstream may need beside its URI.
type Config struct {
	// Role is what of the changefeed the sink is for.
	Role sink.Role
	// Leave is an Owner's, asked when the sink is opened: it takes the record's place
	// at the fence then, before it reads what earlier owners have noted.
	Leave sink.Leave
	// Snapshot reads rows that no event carries; nil: DDLs that need them are refused.
	Snapshot mysql.Snapshot
	// NoVerify leaves columns that a DDL has rewritten as the downstream converts them,
	// whatever the URI says: the upstream does not have what TiDB made of them.
	NoVerify bool
	// Spared tells of which tables rows may stand downstream otherwise on purpose: a
	// filter leaves updates out. Nil: of none.
	Spared func(*event.Table) bool
	// Cluster and Changefeed are what the control tables downstream call the writer,
	// SyncPointRetention how long they keep sync points; zero values stand for the
	// sink's own.
	Cluster, Changefeed string
	// Capture is whose place at the downstream's fence the writer has: it has to be the
	// same when the writer comes again, or be fenced off by Raise. Empty: whoever owns
	// the changefeed.
	Capture            string
	SyncPointRetention time.Duration
	// Replayed is up to where transactions may have been written by an earlier run: the
	// upstream's present when this one began, or when it was given the span that it was
	// given last. It is asked at each Write. 0 is not known, as where it is nil: all may
	// have been.
	Replayed func() tso.TS
	// Warn is told, with a code, of what a sink rides out, by any of its goroutines:
	// work goes on once that is over. May be nil.
	Warn func(error)
	// Upstream is the id of the upstream's cluster. Life tells the changefeed from
	// another one of its name, and from itself before its checkpoint was set; without
	// one nothing is noted of DDLs, and one may run twice after a crash.
	Upstream uint64
	Life     string
	// KeepLives leaves what earlier lives have noted until ForgetLife.
	KeepLives bool
	// BDR has everything that is written marked as a changefeed's: the downstream is
	// replicated back.
	BDR bool
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
		c, err := cfg.mysql(uri)
		if err != nil {
			return nil, err
		}
		c.Role, c.Leave = cfg.Role, cfg.Leave
		c.BDR, c.Spared = cfg.BDR, cfg.Spared
		c.Warn, c.Replayed = cfg.Warn, cfg.Replayed
		c.NoVerify = c.NoVerify || cfg.NoVerify
		return mysql.Open(ctx, c, cfg.Snapshot, cfg.Log)
	}
	return nil, cdcerr.SinkURIInvalid.New("scheme %q: want %s", scheme, known)
}

// Foresee tells what may become of a DDL where there is no upstream to be read, whatever
// the downstream.
func Foresee(d *event.DDL) []sink.Doubt { return mysql.Foresee(d) }

const known = "blackhole://, mysql://, mysql+ssl://, tidb:// or tidb+ssl://"

// mysql is the config of that sink.
func (c *Config) mysql(uri string) (mysql.Config, error) {
	out, err := mysql.ParseURI(uri)
	if err != nil {
		return out, err
	}
	if c.Changefeed != "" {
		out.Cluster, out.Changefeed = c.Cluster, c.Changefeed
		out.Upstream, out.Life, out.Capture, out.KeepLives = c.Upstream, c.Life, c.Capture, c.KeepLives
	}
	if c.SyncPointRetention != 0 {
		out.SyncPointRetention = c.SyncPointRetention
	}
	return out, nil
}

// Forget removes what a changefeed that is no more has noted downstream for itself.
func Forget(ctx context.Context, uri string, cfg Config) error {
	return forget(ctx, uri, cfg, mysql.Forget)
}

// ForgetLife removes what one life of a changefeed has noted there of its DDLs.
func ForgetLife(ctx context.Context, uri string, cfg Config) error {
	return forget(ctx, uri, cfg, mysql.ForgetLife)
}

func forget(ctx context.Context, uri string, cfg Config, do func(context.Context, mysql.Config) error) error {
	scheme, _, _ := strings.Cut(uri, "://")
	if !mysql.Handles(scheme) {
		return nil
	}
	c, err := cfg.mysql(uri)
	if err != nil || c.NoDDLRecord && c.NoFence {
		return err
	}
	return do(ctx, c)
}
