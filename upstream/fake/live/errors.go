package live

import (
	"errors"
	"fmt"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/sluice-cdc/sluice/tso"
)

// ConflictError says that somebody else wrote, since the transaction began, a
// key that it writes. Begun anew it may succeed.
type ConflictError struct {
	Key      []byte
	StartTS  tso.TS
	CommitTS tso.TS // of the other; 0 where it is not known
}

// Error names the key.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("transaction of start-ts %d: key %X was written at %d", e.StartTS, e.Key, e.CommitTS)
}

// LostError says that the transaction was rolled back by somebody who found its
// locks and took it for dead.
type LostError struct {
	StartTS tso.TS
	Reason  string
}

// Error says what was found.
func (e *LostError) Error() string {
	return fmt.Sprintf("transaction of start-ts %d was ended by another: %s", e.StartTS, e.Reason)
}

// ExistsError says that a key that was to be inserted exists.
type ExistsError struct{ Key []byte }

// Error names the key.
func (e *ExistsError) Error() string { return fmt.Sprintf("key %X exists", e.Key) }

// DeadlockError says that the transaction and others wait for each other.
type DeadlockError struct{ Key []byte }

// Error names the key that was waited for.
func (e *DeadlockError) Error() string { return fmt.Sprintf("deadlock over key %X", e.Key) }

// Retry tells whether the transaction, begun anew, may succeed.
func Retry(err error) bool {
	var conflict *ConflictError
	var lost *LostError
	var dead *DeadlockError
	return errors.As(err, &conflict) || errors.As(err, &lost) || errors.As(err, &dead)
}

// keyError translates what a store says; locks in the way are not its business.
func keyError(e *kvrpcpb.KeyError) error {
	switch {
	case e == nil:
		return nil
	case e.Conflict != nil:
		return &ConflictError{e.Conflict.Key, tso.TS(e.Conflict.StartTs), tso.TS(e.Conflict.ConflictCommitTs)}
	case e.AlreadyExist != nil:
		return &ExistsError{e.AlreadyExist.Key}
	case e.Deadlock != nil:
		return &DeadlockError{e.Deadlock.LockKey}
	case e.TxnLockNotFound != nil:
		return &LostError{Reason: e.Retryable}
	case e.TxnNotFound != nil:
		return &LostError{tso.TS(e.TxnNotFound.StartTs), "its primary knows nothing of it"}
	case e.Retryable != "":
		return &LostError{Reason: e.Retryable}
	case e.Abort != "":
		return &LostError{Reason: e.Abort}
	}
	return fmt.Errorf("a store answers %v", e)
}
