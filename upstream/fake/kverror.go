package fake

import (
	"errors"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// keyErrorPB is what a client is told of a refused write. What has no message of
// its own is to be tried again, or ends the transaction.
func keyErrorPB(err error) *kvrpcpb.KeyError {
	var locked *mvcc.LockedError
	var conflict *mvcc.ConflictError
	var noLock *mvcc.NoLockError
	var lost *mvcc.LockLostError
	var early *mvcc.TooEarlyError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &locked):
		return lockedPB(locked.Lock)
	case errors.As(err, &conflict):
		return &kvrpcpb.KeyError{Conflict: &kvrpcpb.WriteConflict{
			StartTs: uint64(conflict.StartTS), ConflictTs: uint64(conflict.ConflictTS), ConflictCommitTs: uint64(conflict.CommitTS),
			Key: conflict.Key, Reason: kvrpcpb.WriteConflict_Reason(conflict.Reason),
		}}
	case errors.As(err, &noLock):
		return &kvrpcpb.KeyError{Retryable: err.Error(), TxnLockNotFound: &kvrpcpb.TxnLockNotFound{Key: noLock.Key}}
	case errors.As(err, &lost):
		return &kvrpcpb.KeyError{Retryable: err.Error()}
	case errors.As(err, &early):
		return &kvrpcpb.KeyError{CommitTsExpired: &kvrpcpb.CommitTsExpired{
			StartTs: uint64(early.StartTS), AttemptedCommitTs: uint64(early.CommitTS),
			Key: early.Key, MinCommitTs: uint64(early.MinCommitTS),
		}}
	}
	return existenceErrorPB(err)
}

// existenceErrorPB is the rest: what was expected of a key, or of a transaction,
// that is not so.
func existenceErrorPB(err error) *kvrpcpb.KeyError {
	var exists *mvcc.ExistsError
	var assertion *mvcc.AssertionError
	var unknown *mvcc.UnknownError
	var notPrimary *mvcc.NotPrimaryError
	var deadlock *deadlockError
	switch {
	case errors.As(err, &exists):
		return &kvrpcpb.KeyError{AlreadyExist: &kvrpcpb.AlreadyExist{Key: exists.Key}}
	case errors.As(err, &assertion):
		return &kvrpcpb.KeyError{AssertionFailed: &kvrpcpb.AssertionFailed{
			StartTs: uint64(assertion.StartTS), Key: assertion.Key, Assertion: kvrpcpb.Assertion(assertion.Assertion),
			ExistingStartTs: uint64(assertion.ExistingTS), ExistingCommitTs: uint64(assertion.CommitTS),
		}}
	case errors.As(err, &unknown):
		return &kvrpcpb.KeyError{TxnNotFound: &kvrpcpb.TxnNotFound{
			StartTs: uint64(unknown.StartTS), PrimaryKey: unknown.Primary,
		}}
	case errors.As(err, &notPrimary):
		return &kvrpcpb.KeyError{PrimaryMismatch: &kvrpcpb.PrimaryMismatch{LockInfo: lockPB(notPrimary.Lock)}}
	case errors.As(err, &deadlock):
		return &kvrpcpb.KeyError{Deadlock: deadlock.message()}
	}
	return &kvrpcpb.KeyError{Abort: err.Error()}
}
