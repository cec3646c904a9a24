package upstream

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/lock"
)

const (
	// visitsWaitMax bounds the regions that wait to be searched for locks. What is
	// turned away is wished for again two seconds later.
	visitsWaitMax = 1024
	// visitors search side by side. Each search is a walk over a region's locks,
	// few of which cost a store nothing.
	visitors = 4
	// visitLocks is how many locks a store lists at once, and visitPages how often
	// it is asked during one visit: more than that is a large transaction, and the
	// locks behind it are found once it has ended.
	visitLocks = 1024
	visitPages = 16
	// settledMax bounds the memory of transactions that have ended: one that left
	// locks in many regions is asked about once.
	settledMax = 4096
)

// visits lets regions be searched for locks that hold their resolved-ts back.
type visits struct {
	wake chan struct{} // holds a token for each visitor that may find work

	mu      sync.Mutex
	began   time.Time               // guarded by mu
	queue   *lock.Queue             // guarded by mu
	settled map[tso.TS]lock.Verdict // guarded by mu; final verdicts by start-ts
}

func newVisits(every time.Duration) *visits {
	return &visits{
		wake: make(chan struct{}, visitors), began: time.Now(), queue: lock.NewQueue(visitsWaitMax, every),
		settled: map[tso.TS]lock.Verdict{},
	}
}

// want wishes for a region to be searched.
func (s *visits) want(v lock.Visit) {
	s.mu.Lock()
	taken := s.queue.Want(v, time.Since(s.began))
	s.mu.Unlock()
	if taken {
		s.signal()
	}
}

func (s *visits) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // every visitor has a reason to look
	}
}

func (s *visits) next() (lock.Visit, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Next()
}

// state is how many visits wait, and how many were turned away.
func (s *visits) state() (waiting int, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Waiting(), s.queue.Refused()
}

// known are the final verdicts of the transactions of some locks.
func (s *visits) known(locks []lock.Lock) map[tso.TS]lock.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[tso.TS]lock.Verdict{}
	for i := range locks {
		if v, ok := s.settled[locks[i].StartTS]; ok {
			known[locks[i].StartTS] = v
		}
	}
	return known
}

func (s *visits) settle(start tso.TS, v lock.Verdict) {
	if !v.Outcome.Final() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.settled) >= settledMax {
		clear(s.settled)
	}
	s.settled[start] = v
}

// serveVisits searches regions until ctx ends.
func (c *Client) serveVisits(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range visitors {
		g.Go(func() error {
			for {
				select {
				case <-c.visits.wake:
				case <-ctx.Done():
					return ctx.Err()
				}
				for {
					v, ok := c.visits.next()
					if !ok {
						break
					}
					c.visits.signal() // there may be more: another one looks too
					if err := c.visit(ctx, v); err != nil && ctx.Err() == nil {
						c.counts.visitsFailed.Add(1)
						c.log.Info("locks of a region cannot be resolved; trying again", "region", v.Region, "span", v.Span, "error", err)
					}
				}
			}
		})
	}
	return g.Wait()
}

// ResolveLocks searches one region for locks with start-ts up to a timestamp, at
// once, and ends those that were left behind. It is for an operator who knows
// which region stands still.
func (c *Client) ResolveLocks(ctx context.Context, region uint64, upto tso.TS) error {
	found, err := c.pd.GetRegionByID(ctx, region)
	if err != nil {
		return c.pdError(ctx, err, cdcerr.RegionLookup, "region %d", region)
	}
	if found == nil || found.Meta == nil {
		return cdcerr.InvalidArgument.New("region %d: PD does not know it", region)
	}
	return c.visit(ctx, lock.Visit{Region: region, Span: placeOf(found).Span, Target: upto})
}

// visit searches a part of a region for locks with start-ts up to the target, and
// ends those that were left behind.
func (c *Client) visit(ctx context.Context, v lock.Visit) error {
	c.counts.visits.Add(1)
	from, end, err := rawBorders(v.Span)
	if err != nil {
		return cdcerr.LockResolve.Wrap(err, "region %d", v.Region)
	}
	var all [lock.Outcomes]int
	for range visitPages {
		found, next, err := c.scanLocks(ctx, from, end, v)
		if err != nil {
			return err
		}
		if err := c.endLocks(ctx, found, v, &all); err != nil {
			return err
		}
		if next == nil {
			break
		}
		from = next
	}
	if ended := all[lock.Committed] + all[lock.RolledBack] + all[lock.Abandoned]; ended > 0 {
		c.log.Info("locks that held resolved-ts back are ended", "region", v.Region, "span", v.Span, "target", v.Target,
			"committed", all[lock.Committed], "rolledBack", all[lock.RolledBack], "pessimistic", all[lock.Abandoned], "alive", all[lock.Alive])
	}
	return nil
}

// scanLocks lists locks of [from, end), as many as one region and one answer has.
// next is where to go on, nil at the end.
func (c *Client) scanLocks(ctx context.Context, from, end []byte, v lock.Visit) (found []*kvrpcpb.LockInfo, next []byte, err error) {
	var resp *kvrpcpb.ScanLockResponse
	var upto []byte
	_, err = c.call(ctx, from, v.Span, lockPatience, func(ctx context.Context, kv tikvpb.TikvClient, p place, in *kvrpcpb.Context) (*errorpb.Error, error) {
		_, border, err := rawBorders(p.Span)
		if err != nil {
			return nil, cdcerr.LockResolve.Wrap(err, "%v", p.Region)
		}
		upto = end
		if len(border) > 0 && (len(end) == 0 || string(border) < string(end)) {
			upto = border
		}
		resp, err = kv.KvScanLock(ctx, &kvrpcpb.ScanLockRequest{Context: in, MaxVersion: uint64(v.Target), StartKey: from, EndKey: upto, Limit: visitLocks})
		return resp.GetRegionError(), err
	})
	switch {
	case err != nil:
		return nil, nil, cdcerr.LockResolve.Wrap(err, "locks of region %d from %X", v.Region, from)
	case resp.Error != nil:
		return nil, nil, cdcerr.LockResolve.Wrap(keyError(resp.Error), "locks of region %d from %X", v.Region, from)
	case len(resp.Locks) >= visitLocks:
		last := resp.Locks[len(resp.Locks)-1].GetKey()
		return resp.Locks, append(last[:len(last):len(last)], 0), nil
	case len(upto) == 0 || string(upto) == string(end):
		return resp.Locks, nil, nil
	}
	return resp.Locks, upto, nil
}

// endLocks judges the transactions of some locks and does what follows. One that
// cannot be judged does not keep the others from it.
func (c *Client) endLocks(ctx context.Context, found []*kvrpcpb.LockInfo, v lock.Visit, all *[lock.Outcomes]int) error {
	locks := locksOf(found)
	c.counts.locks.Add(uint64(len(locks)))
	verdicts := c.visits.known(locks)
	var failed error // the first; the others are much alike
	for _, k := range lock.Cases(locks, verdicts, v.Target) {
		verdict, err := c.judge(ctx, k)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failed = cmp.Or(failed, err)
			continue
		}
		verdicts[k.StartTS()] = verdict
		c.visits.settle(k.StartTS(), verdict)
	}
	for i := range locks {
		all[verdicts[locks[i].StartTS].Outcome]++
	}
	for _, d := range lock.Plan(locks, verdicts) {
		if err := c.carryOut(ctx, d, found[0].GetKey()); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		c.counts.deeds.Add(1)
	}
	return cdcerr.LockResolve.Wrap(failed, "region %d", v.Region)
}

// rawBorders are a span's borders as stores' other calls take them.
func rawBorders(s span.Span) (from, end []byte, err error) {
	if s.Start != "" {
		if from, err = span.DecodeKey(s.Start); err != nil {
			return nil, nil, err
		}
	}
	if s.End != "" {
		if end, err = span.DecodeKey(s.End); err != nil {
			return nil, nil, err
		}
	}
	return from, end, nil
}
