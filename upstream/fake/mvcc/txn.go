package mvcc

import (
	"fmt"
	"slices"

	"github.com/sluice-cdc/sluice/tso"
)

// ShortValue is the longest value that a lock or a write record carries itself;
// longer ones are stored beside it. Only a short one is in a COMMIT event.
const ShortValue = 255

// Kind says at which moment of a transaction a Change was made.
type Kind uint8

// The kinds, named as in a change stream.
const (
	Prewrite   Kind = iota + 1
	Commit          // of a prewritten lock; its value only where it is short, no old value
	Committed       // one-phase, or read back from a version: complete
	RolledBack      // key and start-ts only
	Nothing         // a write that shows no data (a lock-only commit, a pessimistic lock)
)

// Change is one write as a change stream tells it.
type Change struct {
	Kind       Kind
	Op         Op
	Key        []byte
	Value      []byte
	Old        []byte // nil where the key did not exist before
	StartTS    tso.TS
	CommitTS   tso.TS // 0 in Prewrite and RolledBack
	TxnSource  uint64
	Generation uint64
}

// LockedError says that another transaction's lock is in the way.
type LockedError struct{ Lock *Lock }

// Error names the key and the transaction.
func (e *LockedError) Error() string {
	return fmt.Sprintf("key %X is locked by the transaction of start-ts %d", e.Lock.Key, e.Lock.StartTS)
}

// ConflictError says that a newer version, or its own rollback, forbids a write.
type ConflictError struct {
	Key        []byte
	StartTS    tso.TS
	ConflictTS tso.TS // start-ts of the other
	CommitTS   tso.TS // commit-ts of the other; 0 = the transaction itself was rolled back
}

// Error names the key and both transactions.
func (e *ConflictError) Error() string {
	if e.CommitTS == 0 {
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

// DoneError says that a transaction that should be rolled back is committed.
type DoneError struct {
	Key      []byte
	CommitTS tso.TS
}

// Error names the key and the commit-ts.
func (e *DoneError) Error() string {
	return fmt.Sprintf("key %X: the transaction is committed at %d", e.Key, e.CommitTS)
}

// Prewrite locks l.Key for the transaction of l.StartTS. A lock of the same
// transaction is replaced (a pessimistic lock becomes a real one, a heartbeat or
// a later generation rewrites it). The slices belong to the store from here on.
func (s *Store) Prewrite(l Lock) (Change, error) {
	e := s.entry(l.Key)
	if e != nil {
		if e.lock != nil && e.lock.StartTS != l.StartTS {
			return Change{}, &LockedError{e.lock}
		}
		if slices.Contains(e.rollbacks, l.StartTS) {
			return Change{}, &ConflictError{Key: l.Key, StartTS: l.StartTS}
		}
		// The newest version may lie between start-ts and for-update-ts: the
		// pessimistic lock was taken after it.
		newest := e.dataAt(tso.Max)
		if newest != nil && newest.CommitTS > max(l.StartTS, l.ForUpdateTS) {
			return Change{}, &ConflictError{l.Key, l.StartTS, newest.StartTS, newest.CommitTS}
		}
	}
	lock := &l
	s.replace(l.Key, func(e *entry) { e.lock = lock })
	s.index(lock)
	return prewritten(lock, e), nil
}

// Repeat is the Change that shows when key's lock of start is written again
// (a heartbeat, a push of min-commit-ts). ok is false where there is no such lock.
func (s *Store) Repeat(key []byte, start tso.TS) (ch Change, ok bool) {
	e := s.entry(key)
	if e == nil || e.lock == nil || e.lock.StartTS != start {
		return Change{}, false
	}
	ch = prewritten(e.lock, e)
	return ch, ch.Kind == Prewrite
}

// prewritten is the Change of a lock over what e held before it.
func prewritten(l *Lock, e *entry) Change {
	if !l.Op.Data() {
		return Change{Kind: Nothing, Op: l.Op, Key: l.Key, StartTS: l.StartTS}
	}
	ch := Change{
		Kind: Prewrite, Op: l.Op, Key: l.Key, Value: l.Value,
		StartTS: l.StartTS, TxnSource: l.TxnSource, Generation: l.Generation,
	}
	if e != nil {
		ch.Old = e.valueAt(max(l.StartTS, l.ForUpdateTS))
	}
	return ch
}

// Commit turns key's lock of start into a version. Committing twice is no
// error: the second Change is Nothing.
func (s *Store) Commit(key []byte, start, commit tso.TS) (Change, error) {
	e := s.entry(key)
	if e == nil || e.lock == nil || e.lock.StartTS != start {
		if e != nil && e.byStart(start) != nil {
			return Change{Kind: Nothing, Key: key, StartTS: start}, nil
		}
		return Change{}, &NoLockError{key, start}
	}
	l := e.lock
	s.replace(key, func(e *entry) {
		e.lock = nil
		if l.Op.Data() || l.Op == LockOnly {
			e.add(Version{StartTS: start, CommitTS: commit, Op: l.Op, Value: l.Value, TxnSource: l.TxnSource})
		}
	})
	s.unindex(l)
	if !l.Op.Data() {
		return Change{Kind: Nothing, Op: l.Op, Key: key, StartTS: start, CommitTS: commit}, nil
	}
	ch := Change{Kind: Commit, Op: l.Op, Key: key, StartTS: start, CommitTS: commit, TxnSource: l.TxnSource}
	if len(l.Value) <= ShortValue {
		ch.Value = l.Value
	}
	return ch, nil
}

// Rollback ends the transaction start on key without a trace in the data,
// whether it holds a lock there or not. The rollback of a mere pessimistic lock
// shows nothing.
func (s *Store) Rollback(key []byte, start tso.TS) (Change, error) {
	e := s.entry(key)
	if e != nil {
		if v := e.byStart(start); v != nil {
			return Change{}, &DoneError{key, v.CommitTS}
		}
		if slices.Contains(e.rollbacks, start) {
			return Change{Kind: Nothing, Key: key, StartTS: start}, nil
		}
	}
	var held *Lock
	if e != nil && e.lock != nil && e.lock.StartTS == start {
		held = e.lock
	}
	s.replace(key, func(e *entry) {
		if held != nil {
			e.lock = nil
		}
		if held == nil || held.Op != Pessimistic {
			e.rollbacks = append(slices.Clip(e.rollbacks), start)
		}
	})
	if held != nil {
		s.unindex(held)
		if held.Op == Pessimistic {
			return Change{Kind: Nothing, Key: key, StartTS: start}, nil
		}
	}
	return Change{Kind: RolledBack, Key: key, StartTS: start}, nil
}

// Put commits a write in one phase. The conflict rules are Prewrite's; the old
// value is that of commit-ts − 1.
func (s *Store) Put(l Lock, commit tso.TS) (Change, error) {
	e := s.entry(l.Key)
	if e != nil {
		if e.lock != nil && e.lock.StartTS != l.StartTS {
			return Change{}, &LockedError{e.lock}
		}
		newest := e.dataAt(tso.Max)
		if newest != nil && newest.CommitTS > max(l.StartTS, l.ForUpdateTS) {
			return Change{}, &ConflictError{l.Key, l.StartTS, newest.StartTS, newest.CommitTS}
		}
	}
	v := Version{StartTS: l.StartTS, CommitTS: commit, Op: l.Op, Value: l.Value, TxnSource: l.TxnSource}
	ch := committed(l.Key, e, &v)
	if e != nil && e.lock != nil {
		s.unindex(e.lock)
	}
	s.replace(l.Key, func(e *entry) {
		e.lock = nil
		e.add(v)
	})
	return ch, nil
}

// committed is the complete Change of version v of an entry.
func committed(key []byte, e *entry, v *Version) Change {
	ch := Change{
		Kind: Committed, Op: v.Op, Key: key, Value: v.Value,
		StartTS: v.StartTS, CommitTS: v.CommitTS, TxnSource: v.TxnSource,
	}
	if e != nil {
		ch.Old = e.valueAt(v.CommitTS.Prev())
	}
	return ch
}

func (s *Store) index(l *Lock) {
	if !l.Op.Data() {
		return
	}
	if _, had := s.locks.ReplaceOrInsert(l); had {
		return // of the same transaction: counted already
	}
	s.count(l.StartTS, 1)
}

func (s *Store) unindex(l *Lock) {
	if l.Op.Data() {
		s.locks.Delete(l)
		s.count(l.StartTS, -1)
	}
}

func (s *Store) count(start tso.TS, by int) {
	n, _ := s.starts.Get(startCount{start: start})
	n.start, n.locks = start, n.locks+by
	if n.locks == 0 {
		s.starts.Delete(n)
		return
	}
	s.starts.ReplaceOrInsert(n)
}
