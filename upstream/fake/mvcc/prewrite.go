package mvcc

import (
	"errors"

	"github.com/sluice-cdc/sluice/tso"
)

// Check says what a pessimistic transaction expects of a key that it prewrites.
type Check uint8

// The checks, numbered as in TiKV's messages.
const (
	NoCheck       Check = 0 // it was never locked and need not be (an index key)
	HoldsLock     Check = 1 // it holds a pessimistic lock
	CheckConflict Check = 2 // it was not locked: conflicts are found now
)

// Assertion is what a writer is sure of.
type Assertion uint8

// The assertions, numbered as in TiKV's messages.
const (
	Unsure       Assertion = 0
	MustExist    Assertion = 1
	MustNotExist Assertion = 2
)

// Write is one key of a prewrite.
type Write struct {
	Op        Op // Put, Delete or LockOnly
	Key       []byte
	Value     []byte
	Insert    bool // only if the key does not exist
	CheckOnly bool // with Insert: nothing is written
	Assertion Assertion

	// Of pessimistic transactions only.
	Check       Check
	ForUpdateTS tso.TS // that the lock must have been taken at; 0 = at any
}

// Prewriting is the first phase of a transaction on the keys of one region.
// The slices belong to the store from here on.
type Prewriting struct {
	Writes      []Write
	Primary     []byte
	StartTS     tso.TS
	ForUpdateTS tso.TS // 0 = an optimistic transaction
	TTL         uint64
	TxnSize     uint64
	TxnSource   uint64
	Generation  uint64 // of pipelined DML, else 0

	MinCommitTS tso.TS // the least commit-ts that the writer would take
	MaxCommitTS tso.TS // the greatest, for the store to choose; 0 = any
	AsyncCommit bool
	Secondaries [][]byte // with AsyncCommit, where the primary is among Writes
	OnePhase    bool     // commit at once
}

// Prewritten is what came of a Prewriting. Either Locked is empty, or nothing
// was written.
type Prewritten struct {
	Changes []Change
	Locked  []*Lock // of others, in the way

	// MinCommitTS is the commit-ts that the store chose for an async commit;
	// OnePhaseTS that of a one-phase commit, which is done. Both are 0 where the
	// writer has to go on with the second phase.
	MinCommitTS tso.TS
	OnePhaseTS  tso.TS
}

// PrewriteAll does all writes of a request, or none.
func (s *Store) PrewriteAll(p *Prewriting) (Prewritten, error) {
	var out Prewritten
	var locks []*Lock
	async, least := p.AsyncCommit || p.OnePhase, tso.TS(0)
	for i := range p.Writes {
		w := &p.Writes[i]
		a, err := s.admit(p, w)
		var locked *LockedError
		switch {
		case errors.As(err, &locked):
			out.Locked = append(out.Locked, locked.Lock)
			continue
		case err != nil:
			// The answer to an earlier try may have been lost on its way.
			if v := s.entry(w.Key).byStart(p.StartTS); v != nil && (p.AsyncCommit || p.OnePhase) {
				return p.committed(v.CommitTS), nil
			}
			return Prewritten{}, err
		}
		if a.lock != nil {
			locks = append(locks, a.lock)
		}
		async = async && (a.minCommit != 0 || a.lock != nil)
		least = max(least, a.minCommit)
	}
	if len(out.Locked) > 0 {
		return out, nil
	}
	if async {
		least, async = s.choose(p, locks, least)
	}
	s.write(p, &out, locks, least, async)
	return out, nil
}

// write puts the locks into the store, or the versions of a one-phase commit.
func (s *Store) write(p *Prewriting, out *Prewritten, locks []*Lock, least tso.TS, async bool) {
	for _, l := range locks {
		if async && p.OnePhase {
			out.Changes = append(out.Changes, s.onePhase(l, least))
			continue
		}
		if async {
			l.AsyncCommit = true
			if string(l.Key) == string(p.Primary) {
				l.Secondaries = p.Secondaries
			}
		}
		e := s.entry(l.Key)
		s.put(l)
		out.Changes = append(out.Changes, prewritten(l, e))
	}
	switch {
	case async && p.OnePhase:
		out.OnePhaseTS = least
	case async:
		out.MinCommitTS = least
	}
}

func (p *Prewriting) committed(at tso.TS) Prewritten {
	if p.OnePhase {
		return Prewritten{OnePhaseTS: at}
	}
	return Prewritten{MinCommitTS: at}
}

// choose gives every lock the least commit-ts that no reader can have looked
// past, and returns the greatest of them; ok is false where that is more than
// the writer would take, who then commits in the ordinary way.
func (s *Store) choose(p *Prewriting, locks []*Lock, least tso.TS) (ts tso.TS, ok bool) {
	floor := max(s.seen, p.StartTS, p.ForUpdateTS).Next()
	for _, l := range locks {
		ts = max(floor, l.MinCommitTS)
		if p.MaxCommitTS != 0 && ts > p.MaxCommitTS {
			return 0, false
		}
		least = max(least, ts)
	}
	for _, l := range locks {
		l.MinCommitTS = max(floor, l.MinCommitTS)
	}
	return least, true
}

// admitted is a write that may be done: the lock to put, nil where none is to
// be; and the commit-ts that was chosen before, 0 where none was.
type admitted struct {
	lock      *Lock
	minCommit tso.TS
}

// admit checks one write.
func (s *Store) admit(p *Prewriting, w *Write) (admitted, error) {
	if w.Insert {
		s.See(p.StartTS) // it reads the key, at its own ts
	}
	l := &Lock{
		Op: w.Op, Key: w.Key, Value: w.Value, Primary: p.Primary, StartTS: p.StartTS, ForUpdateTS: p.ForUpdateTS,
		MinCommitTS: p.MinCommitTS, TTL: p.TTL, TxnSize: p.TxnSize, TxnSource: p.TxnSource, Generation: p.Generation,
	}
	e := s.entry(w.Key)
	if held := s.Locked(w.Key); held != nil {
		again, err := p.meets(held, w)
		if err != nil {
			return admitted{}, err
		}
		if again {
			a := admitted{}
			if held.AsyncCommit {
				a.minCommit = held.MinCommitTS
			}
			return a, nil
		}
		l.TTL, l.MinCommitTS = max(l.TTL, held.TTL), max(l.MinCommitTS, held.MinCommitTS)
	} else if p.pessimistic(w) && e.lost(p.StartTS) {
		return admitted{}, &LockLostError{w.Key, p.StartTS}
	}
	if err := e.conflict(p, w); err != nil {
		return admitted{}, err
	}
	if err := w.holds(e, p.StartTS); err != nil {
		return admitted{}, err
	}
	if w.CheckOnly {
		return admitted{minCommit: max(p.MinCommitTS, p.StartTS.Next())}, nil
	}
	return admitted{lock: l}, nil
}

// pessimistic tells whether the write relies on a pessimistic lock.
func (p *Prewriting) pessimistic(w *Write) bool { return p.ForUpdateTS != 0 && w.Check == HoldsLock }

// meets judges a lock that the key holds already: again is true for the same
// request, done before.
func (p *Prewriting) meets(held *Lock, w *Write) (again bool, err error) {
	switch {
	case held.StartTS != p.StartTS && p.pessimistic(w):
		return false, &LockLostError{w.Key, p.StartTS}
	case held.StartTS != p.StartTS:
		return false, &LockedError{held}
	case held.Op != Pessimistic:
		return held.Generation >= p.Generation, nil
	case p.ForUpdateTS == 0:
		return false, &WrongLockError{held}
	case w.ForUpdateTS != 0 && w.ForUpdateTS != held.ForUpdateTS:
		return false, &LockLostError{w.Key, p.StartTS}
	}
	return false, nil
}

// lost tells whether a pessimistic lock of start that is not there can have
// protected nothing: the key was written, or start rolled back, since. Without
// that the lock, which may not have been stored before its server died, is as
// good as there.
func (e *entry) lost(start tso.TS) bool {
	if e.rolledBack(start) {
		return true
	}
	v := e.newest()
	return v != nil && v.CommitTS >= start
}

// conflict looks for versions that the transaction cannot have seen.
func (e *entry) conflict(p *Prewriting, w *Write) error {
	if e == nil || p.pessimistic(w) {
		return nil
	}
	if e.rolledBack(p.StartTS) {
		return &ConflictError{Key: w.Key, StartTS: p.StartTS, ConflictTS: p.StartTS, Reason: SelfRolledBack}
	}
	v := e.newest()
	switch {
	case p.ForUpdateTS == 0 && v != nil && v.CommitTS > p.StartTS:
		return &ConflictError{w.Key, p.StartTS, v.StartTS, v.CommitTS, Optimistic}
	case p.ForUpdateTS == 0:
		// A newer rollback counts as a version, here only.
		if n := len(e.rollbacks); n > 0 && e.rollbacks[n-1].start > p.StartTS {
			other := e.rollbacks[n-1].start
			return &ConflictError{w.Key, p.StartTS, other, other, Optimistic}
		}
	case v != nil && w.Check == CheckConflict && v.CommitTS > p.StartTS:
		return &ConflictError{w.Key, p.StartTS, v.StartTS, v.CommitTS, LateCheck}
	case v != nil && v.CommitTS > p.ForUpdateTS:
		return &LockLostError{w.Key, p.StartTS}
	}
	return nil
}

// holds checks what the write says of the key's existence.
func (w *Write) holds(e *entry, start tso.TS) error {
	if w.Insert && e.exists() {
		return &ExistsError{w.Key}
	}
	if w.Assertion == Unsure || e.exists() == (w.Assertion == MustExist) {
		return nil
	}
	fault := &AssertionError{Key: w.Key, StartTS: start, Assertion: w.Assertion}
	if v := e.newest(); v != nil {
		fault.ExistingTS, fault.CommitTS = v.StartTS, v.CommitTS
	}
	return fault
}
