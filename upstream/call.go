package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
)

const (
	callTimeout  = 20 * time.Second // of one try
	callPauseMin = 20 * time.Millisecond
	callPauseMax = time.Second
	// callBusyMax is the longest that a busy store is left alone; it may ask for
	// more, but the region's leader may move in between.
	callBusyMax = 5 * time.Second
)

// kvCall asks a store something about one of its regions. What it refuses for
// the region's sake is returned apart.
type kvCall func(ctx context.Context, kv tikvpb.TikvClient, p place, in *kvrpcpb.Context) (*errorpb.Error, error)

// call makes one call to the leader of the region that holds key, and makes it
// again until the store answers for the region: elsewhere when the region moved,
// later when the store is away or busy. It gives up after patience. Regions up
// to the end of s are looked up in one go.
func (c *Client) call(ctx context.Context, key []byte, s span.Span, patience time.Duration, do kvCall) (place, error) {
	began, pause := time.Now(), callPauseMin
	for {
		p, refused, err := c.callOnce(ctx, key, s, min(callTimeout, patience), do)
		var least time.Duration
		switch {
		case ctx.Err() != nil:
			return p, ctx.Err()
		case err != nil:
			if cdcerr.Fate(err) >= cdcerr.Terminal || answers(err) || time.Since(began) > patience {
				return p, err
			}
		case refused != nil:
			if time.Since(began) > patience {
				return p, fmt.Errorf("%v refuses: %v", p.Region, refused)
			}
			c.refused(p, refused)
			least = min(time.Duration(refused.GetServerIsBusy().GetBackoffMs())*time.Millisecond, callBusyMax)
		default:
			return p, nil
		}
		pause = min(2*pause, callPauseMax)
		if err := wait(ctx, max(least, pause/2+time.Duration(rand.Int64N(int64(pause/2))))); err != nil {
			return p, err
		}
	}
}

func (c *Client) callOnce(ctx context.Context, key []byte, s span.Span, timeout time.Duration, do kvCall) (place, *errorpb.Error, error) {
	p, err := c.place(ctx, span.EncodeKey(key), s)
	if err != nil {
		return p, nil, err
	}
	address, err := c.address(ctx, p.Store)
	if err != nil {
		c.places.moved(p, nil)
		return p, nil, err
	}
	cc, err := c.conn(address)
	if err != nil {
		return p, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in := c.keyspace.context(&kvrpcpb.Context{RegionId: p.ID, RegionEpoch: p.epoch, Peer: p.peer})
	refused, err := do(ctx, tikvpb.NewTikvClient(cc), p, in)
	if err != nil && !answers(err) {
		c.places.moved(p, nil)
		c.places.lost(p.Store)
	}
	return p, refused, err
}

// answers tells whether an error is an answer that will be the same next time: the
// store does not know the call, or what it has to say is too large to come.
func answers(err error) bool {
	code := status.Code(err)
	return code == codes.Unimplemented || code == codes.ResourceExhausted
}

// refused learns from what a store says about a region that it does not serve.
func (c *Client) refused(p place, e *errorpb.Error) {
	switch {
	case e.GetServerIsBusy() != nil:
		return // it is the right one
	case e.GetStoreNotMatch() != nil:
		c.places.lost(p.Store) // another store has its address now
	}
	c.places.moved(p, e.GetNotLeader().GetLeader())
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
