package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/lock"
)

// lockPatience is how long one question about a lock is repeated. What gives up
// is wished for again within seconds.
const lockPatience = 10 * time.Second

// judge asks the stores what became of a transaction, until that is decided.
func (c *Client) judge(ctx context.Context, k *lock.Case) (lock.Verdict, error) {
	for k.Open() {
		now, err := c.TS(ctx)
		if err != nil {
			return lock.Verdict{}, err
		}
		if a := k.Ask(now); len(a.Keys) > 0 {
			err = c.askSecondaries(ctx, k, a)
		} else {
			err = c.askStatus(ctx, k, a)
		}
		if err != nil {
			return lock.Verdict{}, cdcerr.LockResolve.Wrap(err, "transaction with start-ts %d", k.StartTS())
		}
	}
	v := k.Verdict()
	c.counts.verdict(v.Outcome)
	if v.Outcome == lock.Unclear {
		c.log.Warn("what became of a transaction is unclear; its locks stay", "startTS", k.StartTS(), "reason", v.Reason)
	}
	return v, nil
}

func (c *Client) askStatus(ctx context.Context, k *lock.Case, a lock.Ask) error {
	var resp *kvrpcpb.CheckTxnStatusResponse
	_, err := c.call(ctx, a.Primary, oneKey(a.Primary), lockPatience,
		func(ctx context.Context, kv tikvpb.TikvClient, _ place, in *kvrpcpb.Context) (*errorpb.Error, error) {
			var err error
			resp, err = kv.KvCheckTxnStatus(ctx, &kvrpcpb.CheckTxnStatusRequest{
				Context: in, PrimaryKey: a.Primary, LockTs: uint64(a.StartTS), CallerStartTs: uint64(a.Caller), CurrentTs: uint64(a.Now),
				RollbackIfNotExist: a.RollbackIfAbsent, ForceSyncCommit: a.ForceSync, ResolvingPessimisticLock: a.Pessimistic,
				VerifyIsPrimary: true, IsTxnFile: a.File,
			})
			return resp.GetRegionError(), err
		})
	if err != nil {
		return err
	}
	k.StepStatus(statusOf(resp), a.Now)
	return nil
}

// askSecondaries asks for those keys that are in one region with the first.
func (c *Client) askSecondaries(ctx context.Context, k *lock.Case, a lock.Ask) error {
	var resp *kvrpcpb.CheckSecondaryLocksResponse
	var asked [][]byte
	_, err := c.call(ctx, a.Keys[0], oneKey(a.Keys[0]), lockPatience,
		func(ctx context.Context, kv tikvpb.TikvClient, p place, in *kvrpcpb.Context) (*errorpb.Error, error) {
			asked = within(p, a.Keys)
			var err error
			resp, err = kv.KvCheckSecondaryLocks(ctx, &kvrpcpb.CheckSecondaryLocksRequest{Context: in, Keys: asked, StartVersion: uint64(a.StartTS)})
			return resp.GetRegionError(), err
		})
	if err != nil {
		return err
	}
	if resp.Error != nil {
		k.StepTrouble(resp.Error.String())
		return nil
	}
	k.StepSecondaries(asked, locksOf(resp.Locks), tso.TS(resp.CommitTs))
	return nil
}

// carryOut does a deed on the locks of one region, or what the region has become.
func (c *Client) carryOut(ctx context.Context, d lock.Deed, near []byte) error {
	if d.Pessimistic || len(d.Keys) > 0 {
		for keys := d.Keys; len(keys) > 0; {
			done, err := c.endKeys(ctx, d, keys)
			if err != nil {
				return err
			}
			keys = slices.DeleteFunc(slices.Clone(keys), func(k []byte) bool { return done[string(k)] })
		}
		return nil
	}
	req := &kvrpcpb.ResolveLockRequest{}
	for _, t := range d.Txns {
		req.TxnInfos = append(req.TxnInfos, &kvrpcpb.TxnInfo{Txn: uint64(t.StartTS), Status: uint64(t.CommitTS), IsTxnFile: t.File})
	}
	var failed *kvrpcpb.KeyError
	_, err := c.call(ctx, near, oneKey(near), lockPatience,
		func(ctx context.Context, kv tikvpb.TikvClient, _ place, in *kvrpcpb.Context) (*errorpb.Error, error) {
			req.Context = in
			resp, err := kv.KvResolveLock(ctx, req)
			failed = resp.GetError()
			return resp.GetRegionError(), err
		})
	return errors.Join(err, keyError(failed))
}

// endKeys ends those locks of d that are in one region with the first of keys.
func (c *Client) endKeys(ctx context.Context, d lock.Deed, keys [][]byte) (done map[string]bool, err error) {
	var failed []*kvrpcpb.KeyError
	var asked [][]byte
	_, err = c.call(ctx, keys[0], oneKey(keys[0]), lockPatience,
		func(ctx context.Context, kv tikvpb.TikvClient, p place, in *kvrpcpb.Context) (*errorpb.Error, error) {
			asked = within(p, keys)
			if d.Pessimistic {
				resp, err := kv.KVPessimisticRollback(ctx, &kvrpcpb.PessimisticRollbackRequest{
					Context: in, StartVersion: uint64(d.StartTS), ForUpdateTs: uint64(d.ForUpdateTS), Keys: asked})
				failed = resp.GetErrors()
				return resp.GetRegionError(), err
			}
			resp, err := kv.KvResolveLock(ctx, &kvrpcpb.ResolveLockRequest{
				Context: in, StartVersion: uint64(d.StartTS), CommitVersion: uint64(d.CommitTS), Keys: asked, IsTxnFile: d.File})
			failed = nil
			if e := resp.GetError(); e != nil {
				failed = append(failed, e)
			}
			return resp.GetRegionError(), err
		})
	if err != nil {
		return nil, err
	}
	for _, e := range failed {
		err = errors.Join(err, keyError(e))
	}
	done = map[string]bool{}
	for _, k := range asked {
		done[string(k)] = true
	}
	return done, err
}

// endLock finds out what became of the transaction of one lock that is in the way
// of at, and ends the lock where that may be done.
func (c *Client) endLock(ctx context.Context, found *kvrpcpb.LockInfo, at tso.TS) (lock.Verdict, error) {
	locks := locksOf([]*kvrpcpb.LockInfo{found})
	verdicts := map[tso.TS]lock.Verdict{}
	var first lock.Verdict
	for i, k := range lock.Cases(locks, verdicts, at) {
		v, err := c.judge(ctx, k)
		if err != nil {
			return v, err
		}
		verdicts[k.StartTS()] = v
		if i == 0 || !v.Outcome.Final() { // of several that share the lock, one that lives
			first = v
		}
	}
	for _, d := range lock.Plan(locks, verdicts) {
		if err := c.carryOut(ctx, d, found.GetKey()); err != nil {
			return first, cdcerr.LockResolve.Wrap(err, "lock of the transaction with start-ts %d", found.GetLockVersion())
		}
		c.counts.deeds.Add(1)
	}
	return first, nil
}

// oneKey is the span of a single raw key, as lookups want it.
func oneKey(key []byte) span.Span {
	return span.Span{Start: span.EncodeKey(key), End: span.EncodeKey(append(key[:len(key):len(key)], 0))}
}

// within are the raw keys that are in a region.
func within(p place, keys [][]byte) [][]byte {
	var in [][]byte
	for _, k := range keys {
		if p.Span.Contains(span.EncodeKey(k)) {
			in = append(in, k)
		}
	}
	return in
}

func keyError(e *kvrpcpb.KeyError) error {
	if e == nil {
		return nil
	}
	return fmt.Errorf("a store says: %v", e)
}

// statusOf understands a store's answer about a transaction.
func statusOf(r *kvrpcpb.CheckTxnStatusResponse) lock.Status {
	s := lock.Status{TTLMS: r.LockTtl, CommitTS: tso.TS(r.CommitVersion)}
	switch e := r.Error; {
	case e.GetTxnNotFound() != nil:
		s.Absent = true
	case e.GetPrimaryMismatch() != nil:
		s.Mismatch = true
	case e != nil:
		s.Trouble = e.String()
	}
	switch r.Action {
	case kvrpcpb.Action_TTLExpireRollback:
		s.Action = lock.ExpiredRollback
	case kvrpcpb.Action_LockNotExistRollback:
		s.Action = lock.AbsentRollback
	case kvrpcpb.Action_MinCommitTSPushed:
		s.Action = lock.CommitTSPushed
	case kvrpcpb.Action_TTLExpirePessimisticRollback:
		s.Action = lock.ExpiredPessimistic
	case kvrpcpb.Action_LockNotExistDoNothing:
		s.Action = lock.AbsentNothing
	}
	if r.LockInfo != nil {
		l := lockOf(r.LockInfo)
		s.Primary = &l
	}
	return s
}

// locksOf are the locks of a store's list. A shared lock is a list of its own,
// one for each transaction that holds it.
func locksOf(found []*kvrpcpb.LockInfo) []lock.Lock {
	out := make([]lock.Lock, 0, len(found))
	for _, l := range found {
		if l.GetLockType() != kvrpcpb.Op_SharedLock && len(l.GetSharedLockInfos()) == 0 {
			out = append(out, lockOf(l))
			continue
		}
		for _, s := range l.GetSharedLockInfos() {
			shared := lockOf(s)
			if len(shared.Key) == 0 {
				shared.Key = l.GetKey()
			}
			out = append(out, shared)
		}
	}
	return out
}

func lockOf(l *kvrpcpb.LockInfo) lock.Lock {
	return lock.Lock{
		Key: l.GetKey(), Primary: l.GetPrimaryLock(), StartTS: tso.TS(l.GetLockVersion()), TTLMS: l.GetLockTtl(), Size: l.GetTxnSize(),
		Pessimistic: l.GetLockType() == kvrpcpb.Op_PessimisticLock || l.GetLockType() == kvrpcpb.Op_SharedPessimisticLock,
		ForUpdateTS: tso.TS(l.GetLockForUpdateTs()),
		Async:       l.GetUseAsyncCommit(), MinCommitTS: tso.TS(l.GetMinCommitTs()), Secondaries: l.GetSecondaries(),
		File: l.GetIsTxnFile(),
	}
}
