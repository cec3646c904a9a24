package fake

import (
	"context"
	"errors"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// The write requests: each is checked for its region, done on the store, and
// shown to the subscribers, all under Cluster.mu. A transaction's keys may be
// in several regions; every request has those of one.

// waitDefault is how long a pessimistic lock is waited for when the request
// does not say.
const waitDefault = time.Second

// change does a write on keys of one region.
func (s *storeServer) change(rc *kvrpcpb.Context, keys [][]byte, do func() ([]mvcc.Change, error)) (*errorpb.Error, error) {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if fault := s.ownsLocked(rc, keys); fault != nil {
		return fault, nil
	}
	changes, err := do()
	for i := range changes {
		c.publishLocked(&changes[i])
	}
	return nil, err
}

func (s *storeServer) ownsLocked(rc *kvrpcpb.Context, keys [][]byte) *errorpb.Error {
	r, fault := s.leadsLocked(rc)
	if fault == nil {
		fault = holdsAll(r, keys)
	}
	return fault
}

func holdsAll(r *topology.Region, keys [][]byte) *errorpb.Error {
	for _, k := range keys {
		if fault := within(r, k); fault != nil {
			return fault
		}
	}
	return nil
}

var opsOf = map[kvrpcpb.Op]mvcc.Op{
	kvrpcpb.Op_Put: mvcc.Put, kvrpcpb.Op_Insert: mvcc.Put, kvrpcpb.Op_Del: mvcc.Delete,
	kvrpcpb.Op_Lock: mvcc.LockOnly, kvrpcpb.Op_CheckNotExists: mvcc.LockOnly,
}

// prewriting translates a request.
func prewriting(req *kvrpcpb.PrewriteRequest) (*mvcc.Prewriting, error) {
	p := &mvcc.Prewriting{
		Primary: req.PrimaryLock, StartTS: tso.TS(req.StartVersion), ForUpdateTS: tso.TS(req.ForUpdateTs),
		TTL: req.LockTtl, TxnSize: req.TxnSize, TxnSource: req.GetContext().GetTxnSource(),
		MinCommitTS: tso.TS(req.MinCommitTs), MaxCommitTS: tso.TS(req.MaxCommitTs),
		AsyncCommit: req.UseAsyncCommit, Secondaries: req.Secondaries, OnePhase: req.TryOnePc,
	}
	for i, m := range req.Mutations {
		op, ok := opsOf[m.Op]
		if !ok {
			return nil, errors.New("a prewrite cannot do " + m.Op.String())
		}
		w := mvcc.Write{
			Op: op, Key: m.Key, Value: m.Value,
			Insert: m.Op == kvrpcpb.Op_Insert || m.Op == kvrpcpb.Op_CheckNotExists, CheckOnly: m.Op == kvrpcpb.Op_CheckNotExists,
		}
		if req.AssertionLevel != kvrpcpb.AssertionLevel_Off {
			w.Assertion = mvcc.Assertion(m.Assertion)
		}
		if i < len(req.PessimisticActions) {
			w.Check = mvcc.Check(req.PessimisticActions[i])
		}
		if p.ForUpdateTS != 0 && w.CheckOnly {
			return nil, errors.New("a pessimistic prewrite cannot only check")
		}
		p.Writes = append(p.Writes, w)
	}
	for _, want := range req.ForUpdateTsConstraints {
		if int(want.Index) < len(p.Writes) {
			p.Writes[want.Index].ForUpdateTS = tso.TS(want.ExpectedForUpdateTs)
		}
	}
	return p, nil
}

// KvPrewrite is the first phase of a commit, or with one-phase all of it.
func (s *storeServer) KvPrewrite(_ context.Context, req *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	keys := make([][]byte, len(req.Mutations))
	for i, m := range req.Mutations {
		keys[i] = m.Key
	}
	resp := &kvrpcpb.PrewriteResponse{}
	fault, err := s.change(req.Context, keys, func() ([]mvcc.Change, error) {
		p, err := prewriting(req)
		if err != nil {
			return nil, err
		}
		done, err := s.cluster.store.PrewriteAll(p)
		if err != nil {
			return nil, err
		}
		for _, l := range done.Locked {
			e := lockedPB(l)
			if p.ForUpdateTS != 0 {
				// The key needed no pessimistic lock of its own: whoever has it now is
				// to be resolved at once.
				e.Locked.LockTtl = 0
			}
			resp.Errors = append(resp.Errors, e)
		}
		resp.MinCommitTs, resp.OnePcCommitTs = uint64(done.MinCommitTS), uint64(done.OnePhaseTS)
		return done.Changes, nil
	})
	resp.RegionError = fault
	if err != nil {
		resp.Errors = append(resp.Errors, keyErrorPB(err))
	}
	return resp, nil
}

// KvCommit is the second phase.
func (s *storeServer) KvCommit(_ context.Context, req *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, error) {
	fault, err := s.change(req.Context, req.Keys, func() ([]mvcc.Change, error) {
		if req.CommitVersion <= req.StartVersion {
			return nil, errors.New("a commit-ts that is not above the start-ts")
		}
		return s.cluster.store.CommitAll(req.Keys, tso.TS(req.StartVersion), tso.TS(req.CommitVersion))
	})
	resp := &kvrpcpb.CommitResponse{RegionError: fault, Error: keyErrorPB(err)}
	if fault == nil && err == nil {
		resp.CommitVersion = req.CommitVersion
	}
	return resp, nil
}

// KvBatchRollback ends a transaction on some keys.
func (s *storeServer) KvBatchRollback(_ context.Context, req *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, error) {
	fault, err := s.change(req.Context, req.Keys, func() ([]mvcc.Change, error) {
		return s.cluster.store.RollbackAll(req.Keys, tso.TS(req.StartVersion))
	})
	return &kvrpcpb.BatchRollbackResponse{RegionError: fault, Error: keyErrorPB(err)}, nil
}

// KvCleanup rolls one key back if its lock has expired.
func (s *storeServer) KvCleanup(_ context.Context, req *kvrpcpb.CleanupRequest) (*kvrpcpb.CleanupResponse, error) {
	fault, err := s.change(req.Context, [][]byte{req.Key}, func() ([]mvcc.Change, error) {
		ch, err := s.cluster.store.Cleanup(req.Key, tso.TS(req.StartVersion), tso.TS(req.CurrentTs))
		if err != nil {
			return nil, err
		}
		return []mvcc.Change{ch}, nil
	})
	var done *mvcc.DoneError
	if errors.As(err, &done) {
		return &kvrpcpb.CleanupResponse{CommitVersion: uint64(done.CommitTS)}, nil
	}
	return &kvrpcpb.CleanupResponse{RegionError: fault, Error: keyErrorPB(err)}, nil
}

// KvPessimisticLock locks keys before they are written. It waits for the locks
// of others as long as it is told to.
func (s *storeServer) KvPessimisticLock(ctx context.Context, req *kvrpcpb.PessimisticLockRequest) (*kvrpcpb.PessimisticLockResponse, error) {
	p := &mvcc.Locking{
		Primary: req.PrimaryLock, StartTS: tso.TS(req.StartVersion), ForUpdateTS: tso.TS(req.ForUpdateTs),
		MinCommitTS: tso.TS(req.MinCommitTs), TTL: req.LockTtl,
		ReturnValues: req.ReturnValues, CheckExists: req.CheckExistence, OnlyIfExists: req.LockOnlyIfExists,
		DespiteConflict: req.WakeUpMode == kvrpcpb.PessimisticLockWakeUpMode_WakeUpModeForceLock,
	}
	var keys [][]byte
	for _, m := range req.Mutations {
		keys = append(keys, m.Key)
		p.Keys = append(p.Keys, mvcc.LockKey{Key: m.Key, Insert: m.Assertion == kvrpcpb.Assertion_NotExist})
	}
	if p.OnlyIfExists && !p.ReturnValues {
		return &kvrpcpb.PessimisticLockResponse{Errors: []*kvrpcpb.KeyError{{Abort: "to lock only what exists, ask for the values"}}}, nil
	}
	found, fault, err := s.acquire(ctx, req, p, keys)
	if fault != nil {
		return &kvrpcpb.PessimisticLockResponse{RegionError: fault}, nil
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return &kvrpcpb.PessimisticLockResponse{Errors: []*kvrpcpb.KeyError{keyErrorPB(err)}}, nil
	}
	return lockResponse(p, found), nil
}

// acquire tries until it has the locks, or may wait no longer.
func (s *storeServer) acquire(ctx context.Context, req *kvrpcpb.PessimisticLockRequest, p *mvcc.Locking, keys [][]byte) ([]mvcc.LockedKey, *errorpb.Error, error) {
	patience := time.Duration(req.WaitTimeout) * time.Millisecond
	if patience == 0 {
		patience = waitDefault
	}
	timeout := time.NewTimer(max(patience, 0))
	defer timeout.Stop()
	c := s.cluster
	for {
		var found []mvcc.LockedKey
		var gone <-chan struct{}
		var locked *mvcc.LockedError
		c.mu.Lock()
		fault := s.ownsLocked(req.Context, keys)
		var err error
		if fault == nil {
			found, err = c.store.LockAll(p)
			if errors.As(err, &locked) && patience > 0 {
				var dead error
				if gone, dead = c.waiting.add(p.StartTS, locked.Lock); dead != nil {
					err = dead
				}
			}
		}
		c.mu.Unlock()
		if gone == nil {
			return found, fault, err
		}
		select {
		case <-gone:
		case <-timeout.C:
			patience = -1
		case <-ctx.Done():
			patience = -1
		}
		c.mu.Lock()
		c.waiting.remove(p.StartTS, locked.Lock.Key, gone)
		c.mu.Unlock()
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
}

func lockResponse(p *mvcc.Locking, found []mvcc.LockedKey) *kvrpcpb.PessimisticLockResponse {
	resp := &kvrpcpb.PessimisticLockResponse{}
	for _, f := range found {
		switch {
		case p.DespiteConflict:
			r := &kvrpcpb.PessimisticLockKeyResult{}
			if f.ConflictTS != 0 {
				r.Type, r.LockedWithConflictTs = kvrpcpb.PessimisticLockKeyResultType_LockResultLockedWithConflict, uint64(f.ConflictTS)
			}
			if f.ConflictTS != 0 || p.ReturnValues {
				r.Value = f.Value
			}
			r.Existence = f.Exists && (f.ConflictTS != 0 || p.ReturnValues || p.CheckExists)
			resp.Results = append(resp.Results, r)
		case p.ReturnValues:
			resp.Values = append(resp.Values, f.Value)
			resp.NotFounds = append(resp.NotFounds, !f.Exists)
		case p.CheckExists:
			resp.NotFounds = append(resp.NotFounds, !f.Exists)
		}
	}
	return resp
}

// KVPessimisticRollback takes pessimistic locks away. Without keys: all that
// the transaction has in the region.
func (s *storeServer) KVPessimisticRollback(_ context.Context, req *kvrpcpb.PessimisticRollbackRequest) (*kvrpcpb.PessimisticRollbackResponse, error) {
	fault, err := s.change(req.Context, req.Keys, func() ([]mvcc.Change, error) {
		keys := req.Keys
		if len(keys) == 0 {
			r, _ := s.leadsLocked(req.Context)
			keys = s.cluster.locksLocked(r, tso.TS(req.StartVersion))
		}
		var changes []mvcc.Change
		for _, k := range keys {
			changes = append(changes, s.cluster.store.Unlock(k, tso.TS(req.StartVersion), tso.TS(req.ForUpdateTs)))
		}
		return changes, nil
	})
	resp := &kvrpcpb.PessimisticRollbackResponse{RegionError: fault}
	if err != nil {
		resp.Errors = []*kvrpcpb.KeyError{keyErrorPB(err)}
	}
	return resp, nil
}

// locksLocked is the keys that a transaction has locked in a region.
func (c *Cluster) locksLocked(r *topology.Region, start tso.TS) [][]byte {
	var keys [][]byte
	c.store.Locks(r.RawStart, r.RawEnd, start, func(l *mvcc.Lock) bool {
		if l.StartTS == start {
			keys = append(keys, l.Key)
		}
		return true
	})
	return keys
}
