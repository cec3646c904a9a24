package mvcc

import (
	"fmt"

	"github.com/sluice-cdc/sluice/tso"
)

// LockedError says that another transaction's lock is in the way.
type LockedError struct{ Lock *Lock }

// Error names the key and the transaction.
func (e *LockedError) Error() string {
	return fmt.Sprintf("key %X is locked by the transaction of start-ts %d", e.Lock.Key, e.Lock.StartTS)
}

// ConflictReason says at which check a write met a newer version.
type ConflictReason uint8

// The reasons, numbered as in TiKV's messages.
const (
	Optimistic       ConflictReason = 1 // an optimistic prewrite
	PessimisticRetry ConflictReason = 2 // taking a pessimistic lock: to be tried again at a newer for-update-ts
	SelfRolledBack   ConflictReason = 3 // the transaction itself was rolled back
	LateCheck        ConflictReason = 5 // a check that a pessimistic transaction had put off
)

// ConflictError says that a newer version, or its own rollback, forbids a write.
type ConflictError struct {
	Key        []byte
	StartTS    tso.TS
	ConflictTS tso.TS // start-ts of the other
	CommitTS   tso.TS // commit-ts of the other; 0 = the transaction itself was rolled back
	Reason     ConflictReason
}

// Error names the key and both transactions.
func (e *ConflictError) Error() string {
	if e.Reason == SelfRolledBack {
		return fmt.Sprintf("key %X: the transaction of start-ts %d is rolled back", e.Key, e.StartTS)
	}
	return fmt.Sprintf("key %X: written at commit-ts %d, above start-ts %d", e.Key, e.CommitTS, e.StartTS)
}

// NoLockError says that there is nothing to commit.
type NoLockError struct {
	Key     []byte
	StartTS tso.TS
}

// Error names the key and the transaction.
func (e *NoLockError) Error() string {
	return fmt.Sprintf("key %X holds no lock of start-ts %d", e.Key, e.StartTS)
}

// LockLostError says that a pessimistic lock, on which a prewrite relies, is gone.
type LockLostError struct {
	Key     []byte
	StartTS tso.TS
}

// Error names the key and the transaction.
func (e *LockLostError) Error() string {
	return fmt.Sprintf("key %X lost its pessimistic lock of start-ts %d", e.Key, e.StartTS)
}

// WrongLockError says that the transaction holds a lock of another kind on the key.
type WrongLockError struct{ Lock *Lock }

// Error names the key and the transaction.
func (e *WrongLockError) Error() string {
	kind := "prewritten"
	if e.Lock.Op == Pessimistic {
		kind = "pessimistic"
	}
	return fmt.Sprintf("key %X: the lock of start-ts %d is %s", e.Lock.Key, e.Lock.StartTS, kind)
}

// TooEarlyError says that a commit-ts lies below the least that the lock allows.
type TooEarlyError struct {
	Key         []byte
	StartTS     tso.TS
	CommitTS    tso.TS
	MinCommitTS tso.TS
}

// Error names the key and the timestamps.
func (e *TooEarlyError) Error() string {
	return fmt.Sprintf("key %X: commit-ts %d of start-ts %d, below the least allowed %d", e.Key, e.CommitTS, e.StartTS, e.MinCommitTS)
}

// DoneError says that a transaction that should be rolled back is committed.
type DoneError struct {
	Key      []byte
	CommitTS tso.TS
}

// Error names the key and the commit-ts.
func (e *DoneError) Error() string {
	return fmt.Sprintf("key %X: the transaction is committed at %d", e.Key, e.CommitTS)
}

// ExistsError says that a key that was to be new exists.
type ExistsError struct{ Key []byte }

// Error names the key.
func (e *ExistsError) Error() string { return fmt.Sprintf("key %X exists", e.Key) }

// AssertionError says that a key's existence is not what the writer is sure of.
type AssertionError struct {
	Key        []byte
	StartTS    tso.TS
	Assertion  Assertion
	ExistingTS tso.TS // start-ts of the newest version, 0 for none
	CommitTS   tso.TS
}

// Error names the key and the transaction.
func (e *AssertionError) Error() string {
	if e.Assertion == MustExist {
		return fmt.Sprintf("key %X: start-ts %d asserts that it exists", e.Key, e.StartTS)
	}
	return fmt.Sprintf("key %X: start-ts %d asserts that it does not exist", e.Key, e.StartTS)
}

// UnknownError says that the primary key knows nothing of a transaction.
type UnknownError struct {
	Primary []byte
	StartTS tso.TS
}

// Error names the key and the transaction.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("primary key %X knows nothing of start-ts %d", e.Primary, e.StartTS)
}

// NotPrimaryError says that a transaction was asked for at a key whose lock
// names another one as its primary.
type NotPrimaryError struct{ Lock *Lock }

// Error names both keys.
func (e *NotPrimaryError) Error() string {
	return fmt.Sprintf("key %X is not the primary of start-ts %d: %X is", e.Lock.Key, e.Lock.StartTS, e.Lock.Primary)
}

// RolledBackError says that a pessimistic transaction is rolled back already.
type RolledBackError struct {
	Key     []byte
	StartTS tso.TS
}

// Error names the key and the transaction.
func (e *RolledBackError) Error() string {
	return fmt.Sprintf("key %X: the pessimistic transaction of start-ts %d is rolled back", e.Key, e.StartTS)
}
