package upstream

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

const (
	// pageMax is the pairs of one KvScan: the largest values that we read are
	// schemas of tens of kilobytes, so a page stays in the megabytes.
	pageMax = 256
	// readPatience is how long a read goes on without any answer, longer than a
	// store or PD takes to come back after a crash.
	readPatience = time.Minute
	readTimeout  = 20 * time.Second // of one call
	readPauseMin = 20 * time.Millisecond
	readPauseMax = time.Second
)

// Scan reads all pairs of the raw range [start, end) as they were at a
// timestamp, in key order; an empty end has no end. fn may keep what it gets.
//
// A lock that may belong to the snapshot is waited for, not resolved: one that
// does not go within the configured time is an error that names it.
func (c *Client) Scan(ctx context.Context, start, end []byte, at tso.TS, fn func(key, value []byte) error) error {
	whole := span.Span{Start: span.EncodeKey(start)}
	if len(end) > 0 {
		whole.End = span.EncodeKey(end)
	}
	key := start
	for {
		page, next, err := c.page(ctx, key, end, whole, at)
		if err != nil {
			return err
		}
		for _, kv := range page {
			if err := fn(kv.Key, kv.Value); err != nil {
				return err
			}
		}
		if len(next) == 0 || (len(end) > 0 && string(next) >= string(end)) {
			return nil
		}
		key = next
	}
}

// page reads what one region has from key on, up to pageMax pairs. next is where
// to go on; empty at the end of everything.
func (c *Client) page(ctx context.Context, key, end []byte, whole span.Span, at tso.TS) (pairs []*kvrpcpb.KvPair, next []byte, err error) {
	var resp *kvrpcpb.ScanResponse
	p, err := c.read(ctx, key, whole, at, func(ctx context.Context, kv tikvpb.TikvClient, in *kvrpcpb.Context) (answered, error) {
		var err error
		resp, err = kv.KvScan(ctx, &kvrpcpb.ScanRequest{Context: in, StartKey: key, EndKey: end, Limit: pageMax, Version: uint64(at)})
		if err != nil {
			return answered{}, err
		}
		a := answered{region: resp.RegionError, key: resp.Error}
		if len(resp.Pairs) > 0 && resp.Pairs[0].Error != nil {
			a.key = resp.Pairs[0].Error
		}
		return a, nil
	})
	if err != nil {
		return nil, nil, err
	}
	for i, kv := range resp.Pairs {
		if kv.Error != nil { // a lock: read up to it; the next page waits for it
			last := resp.Pairs[i-1].Key
			return resp.Pairs[:i], append(last[:len(last):len(last)], 0), nil
		}
	}
	if len(resp.Pairs) >= pageMax {
		last := resp.Pairs[len(resp.Pairs)-1].Key
		return resp.Pairs, append(last[:len(last):len(last)], 0), nil
	}
	if p.Span.End == "" {
		return resp.Pairs, nil, nil
	}
	next, err = span.DecodeKey(p.Span.End)
	if err != nil {
		return nil, nil, cdcerr.SnapshotRead.Wrap(err, "%v ends at %X", p.Region, string(p.Span.End))
	}
	return resp.Pairs, next, nil
}

// Get reads one raw key as it was at a timestamp; nil where there is none.
// Locks are treated as by Scan.
func (c *Client) Get(ctx context.Context, key []byte, at tso.TS) ([]byte, error) {
	var resp *kvrpcpb.GetResponse
	one := span.Span{End: span.EncodeKey(append(key[:len(key):len(key)], 0))}
	_, err := c.read(ctx, key, one, at, func(ctx context.Context, kv tikvpb.TikvClient, in *kvrpcpb.Context) (answered, error) {
		var err error
		resp, err = kv.KvGet(ctx, &kvrpcpb.GetRequest{Context: in, Key: key, Version: uint64(at)})
		if err != nil {
			return answered{}, err
		}
		return answered{region: resp.RegionError, key: resp.Error}, nil
	})
	if err != nil || resp.NotFound {
		return nil, err
	}
	return resp.Value, nil
}

// answered is what a store objects to, if anything.
type answered struct {
	region *errorpb.Error
	key    *kvrpcpb.KeyError
}

// read makes one call to the leader of the region that holds key, and makes it
// again until it is answered: elsewhere when the region moved, later when the
// store is away or a lock is in the way.
func (c *Client) read(ctx context.Context, key []byte, s span.Span, at tso.TS,
	call func(context.Context, tikvpb.TikvClient, *kvrpcpb.Context) (answered, error),
) (place, error) {
	began, pause := time.Now(), readPauseMin
	var locked time.Time // since when a lock has been in the way
	for {
		p, a, err := c.readOnce(ctx, key, s, call)
		var least time.Duration
		switch {
		case ctx.Err() != nil:
			return p, ctx.Err()
		case err != nil:
			if cdcerr.Fate(err) >= cdcerr.Terminal || time.Since(began) > readPatience {
				return p, cdcerr.SnapshotRead.Wrap(err, "key %X at %d", key, at)
			}
		case a.region != nil:
			if time.Since(began) > readPatience {
				return p, cdcerr.SnapshotRead.New("key %X at %d: store %d says: %v", key, at, p.Store, a.region)
			}
			c.places.moved(p, a.region.GetNotLeader().GetLeader())
			least = time.Duration(a.region.GetServerIsBusy().GetBackoffMs()) * time.Millisecond
		case a.key.GetLocked() != nil:
			if locked.IsZero() {
				locked = time.Now()
			}
			if waited := time.Since(locked); waited > c.cfg.LockWaitMax {
				return p, lockError(a.key.GetLocked(), at, waited)
			}
			began = time.Now()
		case a.key != nil:
			return p, cdcerr.SnapshotRead.New("key %X at %d: store %d says: %v", key, at, p.Store, a.key)
		default:
			return p, nil
		}
		pause = min(2*pause, readPauseMax)
		if err := wait(ctx, max(least, pause/2+time.Duration(rand.Int64N(int64(pause/2))))); err != nil {
			return p, err
		}
	}
}

func (c *Client) readOnce(ctx context.Context, key []byte, s span.Span,
	call func(context.Context, tikvpb.TikvClient, *kvrpcpb.Context) (answered, error),
) (place, answered, error) {
	p, err := c.place(ctx, span.EncodeKey(key), s)
	if err != nil {
		return p, answered{}, err
	}
	address, err := c.address(ctx, p.Store)
	if err != nil {
		c.places.moved(p, nil)
		return p, answered{}, err
	}
	cc, err := c.conn(address)
	if err != nil {
		return p, answered{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	a, err := call(ctx, tikvpb.NewTikvClient(cc), &kvrpcpb.Context{RegionId: p.ID, RegionEpoch: p.epoch, Peer: p.peer})
	if err != nil {
		c.places.moved(p, nil)
		c.places.lost(p.Store)
	}
	return p, a, err
}

func lockError(l *kvrpcpb.LockInfo, at tso.TS, waited time.Duration) error {
	return cdcerr.SnapshotRead.New(
		"key %X at %d: locked for %v by the transaction with start-ts %d, primary key %X, time to live %d ms; it neither commits nor rolls back",
		l.GetKey(), at, waited.Round(time.Millisecond), l.GetLockVersion(), l.GetPrimaryLock(), l.GetLockTtl())
}

// wait returns after d, or when ctx ends, with its error.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
