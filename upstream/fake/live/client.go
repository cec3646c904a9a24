package live

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// Client sends requests to the stores of a cluster.
type Client struct{ cluster *fake.Cluster }

// New is a client of a cluster.
func New(c *fake.Cluster) *Client { return &Client{c} }

// Cluster is the cluster that the client writes to.
func (c *Client) Cluster() *fake.Cluster { return c.cluster }

// backoffMin and backoffMax are the least and the greatest pause before a
// request is tried again: short, since all of it is one process.
const (
	backoffMin = 200 * time.Microsecond
	backoffMax = 10 * time.Millisecond
)

// backoff grows from try to try. The zero backoff is ready to use.
type backoff struct{ next time.Duration }

// wait pauses; an error means that ctx is over.
func (b *backoff) wait(ctx context.Context) error {
	b.next = min(max(2*b.next, backoffMin), backoffMax)
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// request is one call to a store about keys of one of its regions. A region
// error means that the keys are elsewhere by now.
type request func(kv tikvpb.TikvServer, head *kvrpcpb.Context, keys [][]byte) (*errorpb.Error, error)

// send makes a request for each region of keys, which are sorted here. It goes
// on through region errors and stores that are down, until ctx ends.
func (c *Client) send(ctx context.Context, keys [][]byte, do request) error {
	keys = slices.SortedFunc(slices.Values(keys), bytes.Compare)
	var pause backoff
	for len(keys) > 0 {
		r := c.cluster.Locate(keys[0])
		n := 1
		for n < len(keys) && (len(r.RawEnd) == 0 || bytes.Compare(keys[n], r.RawEnd) < 0) {
			n++
		}
		again, err := c.once(ctx, r, keys[:n], do)
		if err != nil {
			return err
		}
		if again {
			if err := pause.wait(ctx); err != nil {
				return err
			}
			continue
		}
		keys = keys[n:]
	}
	return nil
}

// once tries one request; again tells that it has to be tried again.
func (c *Client) once(ctx context.Context, r *topology.Region, keys [][]byte, do request) (again bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	kv, err := c.cluster.KV(ctx, r.Leader.Store)
	if err != nil {
		return true, ctx.Err()
	}
	fault, err := do(kv, headOf(r), keys)
	return fault != nil, err
}

func headOf(r *topology.Region) *kvrpcpb.Context {
	return &kvrpcpb.Context{
		RegionId: r.ID, RegionEpoch: &metapb.RegionEpoch{Version: r.Version, ConfVer: r.ConfVer},
		Peer: &metapb.Peer{Id: r.Leader.ID, StoreId: r.Leader.Store},
	}
}

// one sends a request about one key.
func (c *Client) one(ctx context.Context, key []byte, do func(kv tikvpb.TikvServer, head *kvrpcpb.Context) (*errorpb.Error, error)) error {
	return c.send(ctx, [][]byte{key}, func(kv tikvpb.TikvServer, head *kvrpcpb.Context, _ [][]byte) (*errorpb.Error, error) {
		return do(kv, head)
	})
}

// Pair is a key and its value.
type Pair struct{ Key, Value []byte }

// Get reads a key at a ts; nil where it does not exist.
func (c *Client) Get(ctx context.Context, at tso.TS, key []byte) ([]byte, error) {
	s := settling{client: c, caller: at}
	for {
		var value []byte
		var locked *kvrpcpb.LockInfo
		err := c.one(ctx, key, func(kv tikvpb.TikvServer, head *kvrpcpb.Context) (*errorpb.Error, error) {
			head.ResolvedLocks = s.passed
			resp, err := kv.KvGet(ctx, &kvrpcpb.GetRequest{Context: head, Key: key, Version: uint64(at)})
			if err != nil || resp.RegionError != nil {
				return resp.GetRegionError(), err
			}
			value, locked = resp.Value, resp.Error.GetLocked()
			if resp.NotFound {
				value = nil
			} else if value == nil {
				value = []byte{}
			}
			if locked == nil {
				return nil, keyError(resp.Error)
			}
			return nil, nil
		})
		if err != nil || locked == nil {
			return value, err
		}
		if err := s.settle(ctx, locked); err != nil {
			return nil, err
		}
	}
}

// scanPage is how many keys one request of a scan brings.
const scanPage = 256

// Scan reads the keys of [start, end) at a ts, in order; an empty end has no
// end. It stops when fn returns false.
func (c *Client) Scan(ctx context.Context, at tso.TS, start, end []byte, fn func(Pair) bool) error {
	s := settling{client: c, caller: at}
	var pause backoff
	for {
		r := c.cluster.Locate(start)
		var page []*kvrpcpb.KvPair
		again, err := c.once(ctx, r, nil, func(kv tikvpb.TikvServer, head *kvrpcpb.Context, _ [][]byte) (*errorpb.Error, error) {
			head.ResolvedLocks = s.passed
			resp, err := kv.KvScan(ctx, &kvrpcpb.ScanRequest{Context: head, StartKey: start, EndKey: end, Limit: scanPage, Version: uint64(at)})
			if err != nil || resp.RegionError != nil {
				return resp.GetRegionError(), err
			}
			page = resp.Pairs
			return nil, keyError(resp.Error)
		})
		if err != nil {
			return err
		}
		if again {
			if err := pause.wait(ctx); err != nil {
				return err
			}
			continue
		}
		locked := false
		for _, p := range page {
			if p.Error != nil {
				locked = true
				if err := s.settle(ctx, p.Error.Locked); err != nil {
					return err
				}
				break
			}
			if !fn(Pair{p.Key, p.Value}) {
				return nil
			}
			start = append(slices.Clone(p.Key), 0)
		}
		if !locked && len(page) < scanPage {
			if len(r.RawEnd) == 0 || (len(end) != 0 && bytes.Compare(r.RawEnd, end) >= 0) {
				return nil
			}
			start = r.RawEnd
		}
	}
}
