package upstream

import (
	"context"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/lock"
)

const (
	// pageMax is the most pairs of one KvScan, pageBytes what they should come to.
	// TiKV knows no limit in bytes, so one that fits the pairs seen so far is asked
	// for; an answer that was too large to come is asked for in smaller pieces.
	pageMax   = 1024
	pageFirst = 64
	pageBytes = 4 << 20
	// readPatience is how long a read goes on without any answer, longer than a
	// store or PD takes to come back after a crash.
	readPatience = time.Minute
)

// Scan reads all pairs of the raw range [start, end) as they were at a
// timestamp, in key order; an empty end has no end. fn may keep what it gets.
//
// A lock that may belong to the snapshot is waited for while its transaction
// lives, unless that can be made to commit later; one that its transaction left
// behind is ended. If a lock stays for longer than the configured time, the error
// names it.
func (c *Client) Scan(ctx context.Context, start, end []byte, at tso.TS, fn func(key, value []byte) error) error {
	start, end = c.keyspace.full(start), c.keyspace.fullEnd(end)
	whole := span.Span{Start: span.EncodeKey(start)}
	if len(end) > 0 {
		whole.End = span.EncodeKey(end)
	}
	limit := uint32(pageFirst)
	for key := start; ; {
		page, next, err := c.page(ctx, key, end, whole, at, &limit)
		if err != nil {
			return err
		}
		for _, kv := range page {
			key, err := c.keyspace.cut(kv.Key)
			if err != nil {
				return err
			}
			if err := fn(key, kv.Value); err != nil {
				return err
			}
		}
		if len(next) == 0 || (len(end) > 0 && string(next) >= string(end)) {
			return nil
		}
		key = next
	}
}

// page reads what one region has from key on, up to limit pairs, and says how many
// the next one should have. next is where to go on; empty at the end of everything.
func (c *Client) page(ctx context.Context, key, end []byte, whole span.Span, at tso.TS, limit *uint32) (pairs []*kvrpcpb.KvPair, next []byte, err error) {
	var resp *kvrpcpb.ScanResponse
	p, err := c.read(ctx, key, whole, at, func(ctx context.Context, kv tikvpb.TikvClient, in *kvrpcpb.Context) (answered, error) {
		var err error
		for {
			resp, err = kv.KvScan(ctx, &kvrpcpb.ScanRequest{Context: in, StartKey: key, EndKey: end, Limit: *limit, Version: uint64(at)})
			if status.Code(err) != codes.ResourceExhausted || *limit == 1 {
				break
			}
			*limit = max(*limit/8, 1)
		}
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
	asked := int(*limit)
	*limit = nextLimit(resp.Pairs, *limit)
	for i, kv := range resp.Pairs {
		if kv.Error != nil { // a lock: read up to it; the next page waits for it
			last := resp.Pairs[i-1].Key
			return resp.Pairs[:i], append(last[:len(last):len(last)], 0), nil
		}
	}
	if len(resp.Pairs) >= asked {
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

// nextLimit is how many pairs like these make up a page; it grows slowly, since
// the next ones may be larger.
func nextLimit(pairs []*kvrpcpb.KvPair, limit uint32) uint32 {
	if len(pairs) == 0 {
		return limit
	}
	var bytes int
	for _, kv := range pairs {
		bytes += len(kv.Key) + len(kv.Value)
	}
	fit := uint32(min(pageBytes/max(bytes/len(pairs), 1), pageMax))
	return max(min(fit, 4*limit), 1)
}

// Get reads one raw key as it was at a timestamp; nil where there is none.
// Locks are treated as by Scan.
func (c *Client) Get(ctx context.Context, key []byte, at tso.TS) ([]byte, error) {
	key = c.keyspace.full(key)
	var resp *kvrpcpb.GetResponse
	_, err := c.read(ctx, key, oneKey(key), at, func(ctx context.Context, kv tikvpb.TikvClient, in *kvrpcpb.Context) (answered, error) {
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

// read makes one call to the leader of the region that holds key until it is
// answered without a lock in the way.
func (c *Client) read(ctx context.Context, key []byte, s span.Span, at tso.TS,
	do func(context.Context, tikvpb.TikvClient, *kvrpcpb.Context) (answered, error),
) (place, error) {
	w := lockWait{at: at, pause: callPauseMin}
	for {
		var a answered
		p, err := c.call(ctx, key, s, readPatience, func(ctx context.Context, kv tikvpb.TikvClient, _ place, in *kvrpcpb.Context) (*errorpb.Error, error) {
			in.ResolvedLocks = w.above
			var err error
			a, err = do(ctx, kv, in)
			return a.region, err
		})
		switch l := a.key.GetLocked(); {
		case ctx.Err() != nil:
			return p, ctx.Err()
		case err != nil:
			return p, cdcerr.SnapshotRead.Wrap(err, "key %X at %d", key, at)
		case a.key == nil:
			return p, nil
		case l == nil:
			return p, cdcerr.SnapshotRead.New("key %X at %d: store %d says: %v", key, at, p.Store, a.key)
		default:
			if err := w.met(ctx, c, l); err != nil {
				return p, err
			}
		}
	}
}

// lockWait is how one read gets past locks.
type lockWait struct {
	at    tso.TS
	since time.Time // when the first lock was met
	pause time.Duration
	above []uint64 // transactions that will commit above at, if at all: their locks are not in the way
}

// met waits a while for a lock to go. From the second time on it sees to it that
// one that was left behind goes.
func (w *lockWait) met(ctx context.Context, c *Client, found *kvrpcpb.LockInfo) error {
	first := w.since.IsZero()
	if first {
		w.since = time.Now()
	}
	if waited := time.Since(w.since); waited > c.cfg.LockWaitMax {
		return lockError(found, w.at, waited)
	}
	if !first {
		switch v, err := c.endLock(ctx, found, w.at); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.log.Info("a lock in a read's way cannot be judged; waiting for it", "lock", found.GetLockVersion(), "error", err)
		case v.Outcome == lock.Alive && v.Pushed:
			w.above = append(w.above, found.GetLockVersion())
			return nil
		case v.Outcome.Final():
			return nil
		}
	}
	w.pause = min(2*w.pause, callPauseMax)
	return wait(ctx, w.pause)
}

func lockError(l *kvrpcpb.LockInfo, at tso.TS, waited time.Duration) error {
	return cdcerr.SnapshotRead.New(
		"key %X at %d: locked for %v by the transaction with start-ts %d, primary key %X, time to live %d ms; it neither commits nor rolls back",
		l.GetKey(), at, waited.Round(time.Millisecond), l.GetLockVersion(), l.GetPrimaryLock(), l.GetLockTtl())
}
