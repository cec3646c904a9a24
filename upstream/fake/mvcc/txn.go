package mvcc

import (
	"cmp"
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

// Prewrite locks l.Key for the transaction of l.StartTS. A lock of the same
// transaction is replaced (a pessimistic lock becomes a real one, a heartbeat or
// a later generation rewrites it). The slices belong to the store from here on.
func (s *Store) Prewrite(l Lock) (Change, error) {
	e := s.entry(l.Key)
	if err := e.refuses(&l); err != nil {
		return Change{}, err
	}
	s.put(&l)
	return prewritten(&l, e), nil
}

// refuses tells why l cannot be prewritten over what the key holds.
func (e *entry) refuses(l *Lock) error {
	switch {
	case e == nil:
		return nil
	case e.lock != nil && e.lock.StartTS != l.StartTS:
		return &LockedError{e.lock}
	case e.rolledBack(l.StartTS):
		return &ConflictError{Key: l.Key, StartTS: l.StartTS, ConflictTS: l.StartTS, Reason: SelfRolledBack}
	}
	// The newest version may lie between start-ts and for-update-ts: the
	// pessimistic lock was taken after it.
	if v := e.newest(); v != nil && v.CommitTS > max(l.StartTS, l.ForUpdateTS) {
		return &ConflictError{l.Key, l.StartTS, v.StartTS, v.CommitTS, Optimistic}
	}
	return nil
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
// error: the second Change is Nothing. A pessimistic lock that a lost request
// left behind is committed as one without data.
func (s *Store) Commit(key []byte, start, commit tso.TS) (Change, error) {
	if err := s.mayCommit(key, start, commit); err != nil {
		return Change{}, err
	}
	l := s.heldBy(key, start)
	if l == nil {
		return Change{Kind: Nothing, Key: key, StartTS: start}, nil
	}
	s.settle(l, commit)
	if !l.Op.Data() {
		return Change{Kind: Nothing, Op: l.Op, Key: key, StartTS: start, CommitTS: commit}, nil
	}
	ch := Change{Kind: Commit, Op: l.Op, Key: key, StartTS: start, CommitTS: commit, TxnSource: l.TxnSource}
	if len(l.Value) <= ShortValue {
		ch.Value = l.Value
	}
	return ch, nil
}

// CommitAll commits all keys of a request, or none.
func (s *Store) CommitAll(keys [][]byte, start, commit tso.TS) ([]Change, error) {
	return all(keys, func(key []byte) error { return s.mayCommit(key, start, commit) },
		func(key []byte) (Change, error) { return s.Commit(key, start, commit) })
}

// all does one thing to several keys if it may be done to each.
func all(keys [][]byte, may func(key []byte) error, do func(key []byte) (Change, error)) ([]Change, error) {
	for _, k := range keys {
		if err := may(k); err != nil {
			return nil, err
		}
	}
	changes := make([]Change, 0, len(keys))
	for _, k := range keys {
		ch, err := do(k)
		if err != nil {
			return changes, err
		}
		changes = append(changes, ch)
	}
	return changes, nil
}

func (s *Store) mayCommit(key []byte, start, commit tso.TS) error {
	l := s.heldBy(key, start)
	switch {
	case l != nil && commit < l.MinCommitTS:
		return &TooEarlyError{key, start, commit, l.MinCommitTS}
	case l == nil && s.entry(key).byStart(start) == nil:
		return &NoLockError{key, start}
	}
	return nil
}

// settle makes a version of a lock, whether it is in the store or not.
func (s *Store) settle(l *Lock, commit tso.TS) *Version {
	v := Version{StartTS: l.StartTS, CommitTS: commit, Op: l.Op, Value: l.Value, TxnSource: l.TxnSource}
	if v.Op == Pessimistic {
		v.Op, v.Value = LockOnly, nil
	}
	var held *Lock
	s.replace(l.Key, func(e *entry) {
		held, e.lock = e.lock, nil
		e.add(v)
	})
	if held != nil {
		s.unindex(held)
	}
	return &v
}

// Put commits a write in one phase. The conflict rules are Prewrite's; the old
// value is that of commit-ts − 1.
func (s *Store) Put(l Lock, commit tso.TS) (Change, error) {
	if err := s.entry(l.Key).refuses(&l); err != nil {
		return Change{}, err
	}
	return s.onePhase(&l, commit), nil
}

func (s *Store) onePhase(l *Lock, commit tso.TS) Change {
	e := s.entry(l.Key)
	v := s.settle(l, commit)
	if !v.Op.Data() {
		return Change{Kind: Nothing, Op: v.Op, Key: l.Key, StartTS: l.StartTS, CommitTS: commit}
	}
	return committed(l.Key, e, v)
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

// Rollback ends the transaction start on key without a trace in the data,
// whether it holds a lock there or not, whatever its time to live.
func (s *Store) Rollback(key []byte, start tso.TS) (Change, error) {
	return s.cleanup(key, start, 0, false)
}

// Cleanup is a Rollback of a lock that has expired at now, or of any where now
// is 0. Where there was none, the record is there to stay.
func (s *Store) Cleanup(key []byte, start, now tso.TS) (Change, error) {
	return s.cleanup(key, start, now, true)
}

// RollbackAll ends the transaction start on all keys of a request, or on none.
func (s *Store) RollbackAll(keys [][]byte, start tso.TS) ([]Change, error) {
	return all(keys, func(key []byte) error { return s.mayRollback(key, start, 0) },
		func(key []byte) (Change, error) { return s.Rollback(key, start) })
}

func (s *Store) cleanup(key []byte, start, now tso.TS, protect bool) (Change, error) {
	if err := s.mayRollback(key, start, now); err != nil {
		return Change{}, err
	}
	if l := s.heldBy(key, start); l != nil {
		return s.rollbackLock(l), nil
	}
	if s.entry(key).rolledBack(start) {
		return Change{Kind: Nothing, Key: key, StartTS: start}, nil
	}
	return s.record(key, start, protect), nil
}

func (s *Store) mayRollback(key []byte, start, now tso.TS) error {
	if l := s.heldBy(key, start); l != nil {
		if now != 0 && !l.Expired(now) {
			return &LockedError{l}
		}
		return nil
	}
	if v := s.entry(key).byStart(start); v != nil {
		return &DoneError{key, v.CommitTS}
	}
	return nil
}

// rollbackLock takes a lock away and leaves a record. Only the record of a
// pessimistic transaction's primary must stay: a request of it that was delayed
// on its way takes its lock without looking at anything else.
func (s *Store) rollbackLock(l *Lock) Change {
	protect := l.ForUpdateTS != 0 && slices.Equal(l.Key, l.Primary)
	s.drop(l)
	return s.record(l.Key, l.StartTS, protect)
}

// record notes that start is rolled back on key. Where another transaction was
// committed at exactly start, TiKV has no room for it: an unprotected record is
// not written then, and nothing shows.
func (s *Store) record(key []byte, start tso.TS, protect bool) Change {
	shown := true
	s.replace(key, func(e *entry) {
		at, overlaps := slices.BinarySearchFunc(e.versions, start, func(v Version, ts tso.TS) int {
			return cmp.Compare(v.CommitTS, ts)
		})
		if overlaps && !protect {
			shown = false
			return
		}
		below := tso.TS(0) // commit-ts of the version before the record
		if at > 0 {
			below = e.versions[at-1].CommitTS
		}
		e.roll(rollback{start, protect}, below)
	})
	if !shown {
		return Change{Kind: Nothing, Key: key, StartTS: start}
	}
	return Change{Kind: RolledBack, Key: key, StartTS: start}
}

// roll adds a record. An unprotected one takes the place of an unprotected one
// directly before it, above below.
func (e *entry) roll(r rollback, below tso.TS) {
	next := make([]rollback, 0, len(e.rollbacks)+1)
	for _, o := range e.rollbacks {
		if o.start < r.start {
			next = append(next, o)
		}
	}
	rest := e.rollbacks[len(next):]
	if n := len(next); n > 0 && !r.protected && !next[n-1].protected && next[n-1].start > below {
		next = next[:n-1]
	}
	next = append(next, r)
	for _, o := range rest {
		if o.start != r.start {
			next = append(next, o)
		}
	}
	e.rollbacks = next
}
