package mvcc

import "github.com/sluice-cdc/sluice/tso"

// Locking asks for pessimistic locks on keys of one region.
type Locking struct {
	Keys        []LockKey
	Primary     []byte
	StartTS     tso.TS
	ForUpdateTS tso.TS // what the statement reads at; newer versions are conflicts
	MinCommitTS tso.TS
	TTL         uint64

	ReturnValues bool
	CheckExists  bool
	OnlyIfExists bool // a key that does not exist is not locked; needs ReturnValues
	// DespiteConflict takes the lock even if there is a newer version, and tells
	// what it found: the statement is then tried again without another request.
	DespiteConflict bool
}

// LockKey is one of the keys.
type LockKey struct {
	Key    []byte
	Insert bool // it must not exist
}

// LockedKey is what was found at a key that is now locked.
type LockedKey struct {
	Value      []byte
	Exists     bool
	ConflictTS tso.TS // commit-ts of a version newer than ForUpdateTS; else 0
}

// LockAll takes all locks, or none.
func (s *Store) LockAll(p *Locking) ([]LockedKey, error) {
	out := make([]LockedKey, len(p.Keys))
	locks := make([]*Lock, 0, len(p.Keys))
	for i := range p.Keys {
		l, found, err := s.acquire(p, &p.Keys[i])
		if err != nil {
			return nil, err
		}
		if l != nil {
			locks = append(locks, l)
		}
		out[i] = found
	}
	for _, l := range locks {
		s.put(l)
	}
	return out, nil
}

// acquire says which lock to put on one key, nil for none, and what is there.
func (s *Store) acquire(p *Locking, k *LockKey) (*Lock, LockedKey, error) {
	if k.Insert || p.ReturnValues || p.CheckExists {
		s.See(p.ForUpdateTS)
	}
	e := s.entry(k.Key)
	l := &Lock{
		Op: Pessimistic, Key: k.Key, Primary: p.Primary, StartTS: p.StartTS,
		ForUpdateTS: p.ForUpdateTS, MinCommitTS: p.MinCommitTS, TTL: p.TTL,
	}
	if held := s.Locked(k.Key); held != nil {
		switch {
		case held.StartTS != p.StartTS:
			return nil, LockedKey{}, &LockedError{held}
		case held.Op != Pessimistic:
			return nil, LockedKey{}, &WrongLockError{held}
		case held.ForUpdateTS < p.ForUpdateTS:
			return l, e.found(p.ForUpdateTS), nil
		case p.DespiteConflict && held.ForUpdateTS > p.ForUpdateTS:
			found := e.found(held.ForUpdateTS)
			found.ConflictTS = held.ForUpdateTS
			return nil, found, nil
		}
		return nil, e.found(p.ForUpdateTS), nil
	}
	if e.rolledBack(p.StartTS) {
		return nil, LockedKey{}, &RolledBackError{k.Key, p.StartTS}
	}
	var found LockedKey
	if v := e.newest(); v != nil && v.CommitTS > p.ForUpdateTS {
		if !p.DespiteConflict {
			return nil, LockedKey{}, &ConflictError{k.Key, p.StartTS, v.StartTS, v.CommitTS, PessimisticRetry}
		}
		l.ForUpdateTS = v.CommitTS
		found = e.found(v.CommitTS)
		found.ConflictTS = v.CommitTS
	} else {
		if k.Insert && e.exists() {
			return nil, LockedKey{}, &ExistsError{k.Key}
		}
		found = e.found(p.ForUpdateTS)
	}
	if p.OnlyIfExists && !found.Exists {
		return nil, found, nil
	}
	return l, found, nil
}

func (e *entry) found(at tso.TS) LockedKey {
	v := e.dataAt(at)
	if v == nil || v.Op != Put {
		return LockedKey{}
	}
	return LockedKey{Value: v.Value, Exists: true}
}

// Unlock takes a pessimistic lock of start away that was taken at upTo or
// before; it leaves no trace, and anything else alone.
func (s *Store) Unlock(key []byte, start, upTo tso.TS) Change {
	if l := s.heldBy(key, start); l != nil && l.Op == Pessimistic && l.ForUpdateTS <= upTo {
		s.drop(l)
	}
	return Change{Kind: Nothing, Key: key, StartTS: start}
}
