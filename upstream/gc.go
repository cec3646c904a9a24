package upstream

import (
	"context"
	"math"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// gcTries is how often the safepoint is written before giving up: with pauses
// that double from a quarter of a second, some minutes.
const gcTries = 9

// HoldGC keeps the upstream's garbage collection from taking anything at or
// above ts, in the name of service, for ttl; it must be renewed before.
//
// It sets first and compares afterwards: the safepoint that PD returns tells
// whether the collection was faster (P7). Then the error is SnapshotLostByGC,
// and nothing is held.
func (c *Client) HoldGC(ctx context.Context, service string, ttl time.Duration, ts tso.TS) error {
	least, err := c.safepoint(ctx, service, max(1, int64(ttl/time.Second)), uint64(ts))
	if err != nil {
		return err
	}
	if least > ts {
		return cdcerr.SnapshotLostByGC.New("timestamp %d (%v) is below the GC safepoint %d (%v)",
			ts, ts.Time().Format(time.RFC3339), least, least.Time().Format(time.RFC3339))
	}
	return nil
}

// ReleaseGC takes a service's hold back.
func (c *Client) ReleaseGC(ctx context.Context, service string) error {
	_, err := c.safepoint(ctx, service, 0, math.MaxUint64)
	return err
}

// safepoint writes a service's safepoint and returns the least of all services.
func (c *Client) safepoint(ctx context.Context, service string, ttl int64, ts uint64) (tso.TS, error) {
	pause := 250 * time.Millisecond
	for try := 1; ; try++ {
		least, err := c.pd.UpdateServiceGCSafePoint(ctx, service, ttl, ts) //nolint:staticcheck // barriers are newer than the PDs that we support
		if err == nil {
			return tso.TS(least), nil
		}
		if try == gcTries || ctx.Err() != nil {
			return 0, cdcerr.PDUnreachable.Wrap(err, "the GC safepoint of %s cannot be set", service)
		}
		if err := wait(ctx, pause); err != nil {
			return 0, err
		}
		pause *= 2
	}
}
