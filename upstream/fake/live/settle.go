package live

import (
	"context"
	"slices"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/sluice-cdc/sluice/tso"
)

// settling is one reader's, or one writer's, way past the locks of others.
type settling struct {
	client *Client
	caller tso.TS   // the reader's ts; 0 for a writer, who cannot pass a live one
	passed []uint64 // start-ts of transactions that will commit above caller
	pause  backoff
}

// fate is what became of a transaction.
type fate struct {
	open   bool
	pushed bool   // open, and will commit above the caller
	commit tso.TS // not 0: committed
}

// settle does what can be done about a lock: it ends one whose transaction is
// over, passes one that has to commit later, or waits a little.
func (s *settling) settle(ctx context.Context, l *kvrpcpb.LockInfo) error {
	f, err := s.fate(ctx, l)
	if err != nil {
		return err
	}
	switch {
	case f.open && f.pushed:
		if !slices.Contains(s.passed, l.LockVersion) {
			s.passed = append(s.passed, l.LockVersion)
		}
		return nil
	case f.open:
		return s.pause.wait(ctx)
	}
	return s.client.resolve(ctx, l, f.commit)
}

// resolve ends a transaction on one key.
func (c *Client) resolve(ctx context.Context, l *kvrpcpb.LockInfo, commit tso.TS) error {
	return c.one(ctx, l.Key, func(kv tikvpb.TikvServer, head *kvrpcpb.Context) (*errorpb.Error, error) {
		if l.LockType == kvrpcpb.Op_PessimisticLock {
			resp, err := kv.KVPessimisticRollback(ctx, &kvrpcpb.PessimisticRollbackRequest{
				Context: head, StartVersion: l.LockVersion, ForUpdateTs: l.LockForUpdateTs, Keys: [][]byte{l.Key},
			})
			return resp.GetRegionError(), err
		}
		// Somebody else may have been faster, to the same end: what the store says
		// against it does not matter.
		resp, err := kv.KvResolveLock(ctx, &kvrpcpb.ResolveLockRequest{
			Context: head, StartVersion: l.LockVersion, CommitVersion: uint64(commit), Keys: [][]byte{l.Key},
		})
		return resp.GetRegionError(), err
	})
}

// fate asks a lock's primary, and its secondaries where they decide.
func (s *settling) fate(ctx context.Context, l *kvrpcpb.LockInfo) (fate, error) {
	now, err := s.client.cluster.Timestamp(ctx)
	if err != nil {
		return fate{}, err
	}
	dead := expiredAt(l, now)
	resp, err := s.ask(ctx, l, now, dead, false)
	if err != nil {
		return fate{}, err
	}
	switch {
	case resp.Error.GetTxnNotFound() != nil:
		return fate{open: true}, nil // its primary may still come
	case resp.Error.GetPrimaryMismatch() != nil:
		return fate{open: !dead}, nil // a left-over of a primary that was changed
	case resp.Error != nil:
		return fate{}, keyError(resp.Error)
	}
	primary := resp.LockInfo
	if primary == nil {
		return fate{commit: tso.TS(resp.CommitVersion)}, nil
	}
	if !primary.UseAsyncCommit {
		return fate{open: true, pushed: resp.Action == kvrpcpb.Action_MinCommitTSPushed}, nil
	}
	if !expiredAt(primary, now) {
		return fate{open: true}, nil
	}
	return s.asyncFate(ctx, primary, now)
}

func (s *settling) ask(ctx context.Context, l *kvrpcpb.LockInfo, now tso.TS, roll, sync bool) (resp *kvrpcpb.CheckTxnStatusResponse, err error) {
	err = s.client.one(ctx, l.PrimaryLock, func(kv tikvpb.TikvServer, head *kvrpcpb.Context) (*errorpb.Error, error) {
		resp, err = kv.KvCheckTxnStatus(ctx, &kvrpcpb.CheckTxnStatusRequest{
			Context: head, PrimaryKey: l.PrimaryLock, LockTs: l.LockVersion, CallerStartTs: uint64(s.caller), CurrentTs: uint64(now),
			RollbackIfNotExist: roll, ForceSyncCommit: sync, VerifyIsPrimary: true,
			ResolvingPessimisticLock: l.LockType == kvrpcpb.Op_PessimisticLock,
		})
		return resp.GetRegionError(), err
	})
	return resp, err
}

// asyncFate asks the secondaries of an async commit whose client is dead.
func (s *settling) asyncFate(ctx context.Context, primary *kvrpcpb.LockInfo, now tso.TS) (fate, error) {
	commit, committed, missing, fallen := tso.TS(primary.MinCommitTs), false, false, false
	err := s.client.send(ctx, primary.Secondaries, func(kv tikvpb.TikvServer, head *kvrpcpb.Context, keys [][]byte) (*errorpb.Error, error) {
		resp, err := kv.KvCheckSecondaryLocks(ctx, &kvrpcpb.CheckSecondaryLocksRequest{Context: head, Keys: keys, StartVersion: primary.LockVersion})
		if err != nil || resp.RegionError != nil {
			return resp.GetRegionError(), err
		}
		switch {
		case resp.CommitTs != 0:
			commit, committed = tso.TS(resp.CommitTs), true
		case len(resp.Locks) < len(keys):
			missing = true
		}
		for _, l := range resp.Locks {
			fallen = fallen || !l.UseAsyncCommit
			if !committed {
				commit = max(commit, tso.TS(l.MinCommitTs))
			}
		}
		return nil, keyError(resp.Error)
	})
	switch {
	case err != nil:
		return fate{}, err
	case committed:
		return fate{commit: commit}, nil
	case missing:
		commit = 0
	case fallen:
		resp, err := s.ask(ctx, primary, now, true, true)
		if err != nil {
			return fate{}, err
		}
		return fate{open: resp.LockInfo != nil, commit: tso.TS(resp.CommitVersion)}, keyError(resp.Error)
	}
	// The primary first, which decides it for everyone.
	return fate{commit: commit}, s.client.resolve(ctx, primary, commit)
}

func expiredAt(l *kvrpcpb.LockInfo, now tso.TS) bool {
	return now.Physical() > tso.TS(l.LockVersion).Physical()+int64(l.LockTtl)
}
