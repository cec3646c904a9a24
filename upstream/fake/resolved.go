package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"

	"github.com/sluice-cdc/sluice/tso"
)

// TiKV sends the least resolved-ts of so many regions first, then of four times
// as many, and so on: those that lag hold only few others back.
const (
	firstBatch  = 8
	batchGrowth = 4
)

// A replay as fast as it is read has its ticks close together: by recorded time,
// and by a wall whose interval is a few milliseconds. Over thousands of
// subscriptions, each of which gets a message, nothing else would be done. So
// the messages of a tick are paid for: by steps of the replay, or by time.
const (
	promisesPerStep = 4
	promisePause    = 50 * time.Microsecond
)

// paid tells whether the last tick's messages are paid for, by steps since then
// or by the wall.
func (c *Cluster) paid(steps int) bool {
	if c.cfg.Recording == nil || c.cfg.Speed != 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return steps*promisesPerStep >= c.promised || time.Since(c.ticked) >= time.Duration(c.promised)*promisePause
}

// tick moves the resolved-ts of every subscription whose scan is over: the
// clock's, or the least start-ts of a lock that it still covers.
// It is an error where something could not be written down: nobody is told of a ts then.
func (c *Cluster) tick() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.journalErr != nil {
		return fmt.Errorf("the journal: %w", c.journalErr)
	}
	now := c.clock.Now()
	c.promised = 0
	defer func() { c.ticked = time.Now() }()
	c.store.See(now)
	for cn := range c.conns {
		var subs []*subscription
		for _, sub := range cn.subs {
			if !sub.initialized {
				continue
			}
			ts := now
			if least, ok := c.store.MinLock(sub.start, sub.end); ok {
				ts = min(ts, least)
			}
			if c.lagsLocked(sub.region) {
				if ts = sub.resolved; ts == 0 {
					continue
				}
			}
			sub.resolved = max(sub.resolved, ts)
			subs = append(subs, sub)
		}
		if items := c.breaks.promises(cn, now); len(items) > 0 {
			cn.resolve(nil, items)
		}
		if len(subs) == 0 {
			continue
		}
		slices.SortFunc(subs, func(a, b *subscription) int {
			return cmp.Or(cmp.Compare(a.request, b.request), cmp.Compare(a.resolved, b.resolved), cmp.Compare(a.region, b.region))
		})
		items := cn.promises(subs)
		c.promised += len(items)
		cn.resolve(subs, items)
	}
	c.breaks.overdue()
	return nil
}

// promises are the messages of one tick for subs, which are sorted by request
// and resolved-ts.
func (cn *conn) promises(subs []*subscription) []*item {
	var items []*item
	if !cn.batchResolved {
		for _, sub := range subs {
			items = append(items, &item{event: &cdcpb.Event{
				RegionId: sub.region, RequestId: sub.request,
				Event: &cdcpb.Event_ResolvedTs{ResolvedTs: uint64(sub.resolved)},
			}})
		}
		return items
	}
	var last *cdcpb.ResolvedTs
	size := 0
	for _, sub := range subs {
		request := sub.request
		if !cn.multiplex {
			request = 0
		}
		switch {
		case last == nil || last.RequestId != request:
			size = firstBatch
			last = nil
		case len(last.Regions) == size:
			size *= batchGrowth
			last = nil
		}
		if last == nil {
			last = &cdcpb.ResolvedTs{RequestId: request, Ts: uint64(sub.resolved)}
			items = append(items, &item{resolved: last})
		}
		last.Regions = append(last.Regions, sub.region)
	}
	return items
}

// resolve ticks by the wall. A replay that runs faster than it was recorded
// ticks by the recorded time besides.
func (c *Cluster) resolve(ctx context.Context) error {
	ticker := time.NewTicker(c.cfg.ResolvedInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if !c.paid(0) {
				continue
			}
			if err := c.tick(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// intervalTS is an interval as a distance of timestamps.
func intervalTS(d time.Duration) tso.TS { return tso.TS(d.Milliseconds()) << 18 }
