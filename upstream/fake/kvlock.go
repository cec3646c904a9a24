package fake

import (
	"bytes"
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// The requests about locks that somebody else has left behind.

// KvTxnHeartBeat keeps a transaction alive.
func (s *storeServer) KvTxnHeartBeat(_ context.Context, req *kvrpcpb.TxnHeartBeatRequest) (*kvrpcpb.TxnHeartBeatResponse, error) {
	resp := &kvrpcpb.TxnHeartBeatResponse{}
	fault, err := s.change(req.Context, [][]byte{req.PrimaryLock}, func() (changes []mvcc.Change, err error) {
		resp.LockTtl, changes, err = s.cluster.store.Heartbeat(
			req.PrimaryLock, tso.TS(req.StartVersion), req.AdviseLockTtl, tso.TS(req.MinCommitTs))
		return changes, err
	})
	resp.RegionError, resp.Error = fault, keyErrorPB(err)
	return resp, nil
}

// KvCheckTxnStatus asks a transaction's primary key for its fate, and decides
// it where the transaction is dead.
func (s *storeServer) KvCheckTxnStatus(_ context.Context, req *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	resp := &kvrpcpb.CheckTxnStatusResponse{}
	fault, err := s.change(req.Context, [][]byte{req.PrimaryKey}, func() ([]mvcc.Change, error) {
		// Whoever asks is about to read at its ts.
		if caller := tso.TS(req.CallerStartTs); caller != tso.Max {
			s.cluster.store.See(caller)
		}
		st, changes, err := s.cluster.store.Inquire(mvcc.Inquiry{
			Primary: req.PrimaryKey, StartTS: tso.TS(req.LockTs), Caller: tso.TS(req.CallerStartTs), Now: tso.TS(req.CurrentTs),
			RollbackMissing: req.RollbackIfNotExist, ForceSync: req.ForceSyncCommit,
			ForPessimistic: req.ResolvingPessimisticLock, VerifyPrimary: req.VerifyIsPrimary,
		})
		resp.CommitVersion, resp.Action = uint64(st.CommitTS), kvrpcpb.Action(st.Action)
		if st.Lock != nil {
			resp.LockTtl, resp.LockInfo = st.Lock.TTL, lockPB(st.Lock)
		}
		return changes, err
	})
	resp.RegionError, resp.Error = fault, keyErrorPB(err)
	return resp, nil
}

// KvCheckSecondaryLocks asks the secondaries of an async commit.
func (s *storeServer) KvCheckSecondaryLocks(_ context.Context, req *kvrpcpb.CheckSecondaryLocksRequest) (*kvrpcpb.CheckSecondaryLocksResponse, error) {
	resp := &kvrpcpb.CheckSecondaryLocksResponse{}
	fault, err := s.change(req.Context, req.Keys, func() ([]mvcc.Change, error) {
		locks, commit, changes := s.cluster.store.InquireSecondaries(req.Keys, tso.TS(req.StartVersion))
		resp.CommitTs = uint64(commit)
		for _, l := range locks {
			resp.Locks = append(resp.Locks, lockPB(l))
		}
		return changes, nil
	})
	resp.RegionError, resp.Error = fault, keyErrorPB(err)
	return resp, nil
}

// KvScanLock lists the locks of a range, as far as the region and the limit go.
func (s *storeServer) KvScanLock(_ context.Context, req *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	r, fault := s.leadsLocked(req.Context)
	if fault == nil && len(req.StartKey) != 0 {
		fault = within(r, req.StartKey)
	}
	if fault != nil {
		return &kvrpcpb.ScanLockResponse{RegionError: fault}, nil
	}
	c.store.See(tso.TS(req.MaxVersion)) // no lock below it may come behind the scan's back
	resp := &kvrpcpb.ScanLockResponse{}
	start, end := clipTo(r, req.StartKey, req.EndKey)
	c.store.Locks(start, end, tso.TS(req.MaxVersion), func(l *mvcc.Lock) bool {
		resp.Locks = append(resp.Locks, lockPB(l))
		return req.Limit == 0 || len(resp.Locks) < int(req.Limit)
	})
	return resp, nil
}

// clipTo cuts a range of raw keys to a region; an empty end has no end.
func clipTo(r *topology.Region, start, end []byte) (from, to []byte) {
	if bytes.Compare(start, r.RawStart) < 0 {
		start = r.RawStart
	}
	if len(r.RawEnd) != 0 && (len(end) == 0 || bytes.Compare(end, r.RawEnd) > 0) {
		end = r.RawEnd
	}
	return start, end
}

// KvResolveLock ends transactions whose fate is known: one on the keys that are
// named, or one or several wherever the region has locks of them.
func (s *storeServer) KvResolveLock(_ context.Context, req *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, error) {
	c := s.cluster
	fault, err := s.change(req.Context, req.Keys, func() ([]mvcc.Change, error) {
		start, commit := tso.TS(req.StartVersion), tso.TS(req.CommitVersion)
		if len(req.Keys) > 0 {
			if commit == 0 {
				return c.store.RollbackAll(req.Keys, start)
			}
			return c.store.CommitAll(req.Keys, start, commit)
		}
		fates := map[tso.TS]tso.TS{start: commit}
		if len(req.TxnInfos) > 0 {
			clear(fates)
			for _, txn := range req.TxnInfos {
				fates[tso.TS(txn.Txn)] = tso.TS(txn.Status)
			}
		}
		r, _ := s.leadsLocked(req.Context)
		var locks []*mvcc.Lock
		c.store.Locks(r.RawStart, r.RawEnd, tso.Max, func(l *mvcc.Lock) bool {
			if _, known := fates[l.StartTS]; known {
				locks = append(locks, l)
			}
			return true
		})
		var changes []mvcc.Change
		for _, l := range locks {
			ch, err := c.resolveLocked(l.Key, l.StartTS, fates[l.StartTS])
			if err != nil {
				return changes, err
			}
			changes = append(changes, ch)
		}
		return changes, nil
	})
	return &kvrpcpb.ResolveLockResponse{RegionError: fault, Error: keyErrorPB(err)}, nil
}

// resolveLocked ends a transaction on one key; commit is 0 for a rollback.
func (c *Cluster) resolveLocked(key []byte, start, commit tso.TS) (mvcc.Change, error) {
	if commit == 0 {
		return c.store.Rollback(key, start)
	}
	return c.store.Commit(key, start, commit)
}
