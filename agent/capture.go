package agent

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// Capture is what all changefeeds of a process share.
type Capture struct {
	Client *upstream.Client

	ingest *ingest.Ingest
	rows   *sorter.Sorter
}

// CaptureConfig says which cluster to follow, and how much may be held of it.
type CaptureConfig struct {
	Upstream upstream.Config
	Sorter   sorter.Config
}

// DefaultCapture is a CaptureConfig without PD's endpoints, in memory only.
func DefaultCapture() CaptureConfig {
	return CaptureConfig{Upstream: upstream.Default(), Sorter: sorter.Default()}
}

// Open connects to the upstream and makes room for its rows.
func Open(ctx context.Context, cfg CaptureConfig) (*Capture, error) {
	rows, err := sorter.Open(cfg.Sorter)
	if err != nil {
		return nil, err
	}
	client, err := upstream.Open(ctx, cfg.Upstream)
	if err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	return &Capture{Client: client, ingest: ingest.New(client, rows), rows: rows}, nil
}

// Absent is a Capture of a cluster that cannot be reached: see upstream.Absent.
func Absent(cfg CaptureConfig, cluster uint64) (*Capture, error) {
	rows, err := sorter.Open(cfg.Sorter)
	if err != nil {
		return nil, err
	}
	client, err := upstream.Absent(cfg.Upstream, cluster)
	if err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	return &Capture{Client: client, ingest: ingest.New(client, rows), rows: rows}, nil
}

// Run serves the changefeeds until ctx ends.
func (c *Capture) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.Client.Run(ctx) })
	g.Go(func() error { return c.ingest.Run(ctx) })
	return g.Wait()
}

// deafAfter is for how long a store may say nothing before this capture tells that it
// does not hear it: TiKV moves resolved-ts every second.
const deafAfter = 3 * time.Second

func (c *Capture) deaf() bool { return c.Client.Unheard() > deafAfter }

// Reached tells whether anything of the upstream lives, at its endpoints or where it was.
func (c *Capture) Reached(ctx context.Context, pd, stores []string) bool {
	return c.Client.Reached(ctx, upstream.Addresses{PD: pd, Stores: stores})
}

// Addresses are where the upstream's PDs and stores are.
func (c *Capture) Addresses(ctx context.Context) (pd, stores []string, err error) {
	a, err := c.Client.Addresses(ctx)
	return a.PD, a.Stores, err
}

// Feed is the schema of a changefeed above a checkpoint, for who leads it. It is to be
// loaded, and then run. Record may be nil.
func (c *Capture) Feed(checkpoint tso.TS, record func([]tso.Move)) *schemafeed.Feed {
	return schemafeed.New(schemafeed.Config{StartTS: checkpoint.Next(), Record: record}, shared{c.Client, c.ingest})
}

// Borders are the keys inside a span at which its regions meet, in order.
func (c *Capture) Borders(ctx context.Context, s span.Span) ([]span.Key, error) {
	return c.Client.Borders(ctx, s)
}

// Snapshot reads rows that no event carries.
func (c *Capture) Snapshot() *Snapshot { return &Snapshot{client: c.Client} }

// Used is what the rows that wait take, in bytes.
func (c *Capture) Used() sorter.Used { return c.rows.Used() }

// Close lets the upstream go. Run must have ended, and all changefeeds.
func (c *Capture) Close() error {
	c.Client.Close()
	return c.rows.Close()
}
