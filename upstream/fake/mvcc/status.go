package mvcc

import (
	"bytes"

	"github.com/sluice-cdc/sluice/tso"
)

// Action is what a look at a transaction did to it, and why.
type Action uint8

// The actions, numbered as in TiKV's messages.
const (
	NoAction         Action = 0
	ExpiredRollback  Action = 1 // it had outlived its time: rolled back
	MissingRollback  Action = 2 // it had not come to the primary yet: it never will
	MinCommitPushed  Action = 3 // it lives, and will commit above the asking reader
	ExpiredUnlock    Action = 4 // its pessimistic primary had expired: unlocked
	MissingUndecided Action = 5 // it is not there; nothing was done
)

// Status is what became of a transaction, as its primary key tells: committed
// where CommitTS is not 0, open where Lock is not nil, else rolled back.
type Status struct {
	CommitTS tso.TS
	Lock     *Lock
	Action   Action
}

// Inquiry asks a transaction's primary key for its fate.
type Inquiry struct {
	Primary []byte
	StartTS tso.TS
	Caller  tso.TS // the asking reader's ts; 0 = none, Max = a read of the newest
	Now     tso.TS

	RollbackMissing bool // a transaction that is not there is rolled back for ever
	ForceSync       bool // an async commit that is known to have fallen back
	ForPessimistic  bool // the lock in the way is a pessimistic one
	VerifyPrimary   bool
}

// Inquire tells a transaction's fate, and decides it where it has expired or
// never came.
func (s *Store) Inquire(q Inquiry) (Status, []Change, error) {
	l := s.heldBy(q.Primary, q.StartTS)
	if l == nil {
		return s.missing(q)
	}
	if q.VerifyPrimary && !bytes.Equal(l.Key, l.Primary) {
		if q.ForPessimistic || l.Op != Pessimistic {
			return Status{}, nil, &NotPrimaryError{l}
		}
		// The transaction chose another primary and has prewritten: this lock is
		// a left-over of its first try.
		s.drop(l)
		st, changes, err := s.missing(q)
		return st, append(changes, Change{Kind: Nothing, Key: l.Key, StartTS: l.StartTS}), err
	}
	if l.AsyncCommit && !q.ForceSync {
		return Status{Lock: l}, nil, nil // its secondaries decide
	}
	if l.Expired(q.Now) {
		if q.ForPessimistic && l.Op == Pessimistic {
			s.drop(l)
			return Status{Action: ExpiredUnlock}, []Change{{Kind: Nothing, Key: l.Key, StartTS: l.StartTS}}, nil
		}
		return Status{Action: ExpiredRollback}, []Change{s.rollbackLock(l)}, nil
	}
	return s.push(l, q)
}

// push moves the least commit-ts of a live transaction above the reader, so
// that the reader may pass. A lock without one belongs to a writer that does
// not know how to take it.
func (s *Store) push(l *Lock, q Inquiry) (Status, []Change, error) {
	var changes []Change
	if l.MinCommitTS != 0 && q.Caller != tso.Max && q.Caller >= l.MinCommitTS {
		next := *l
		next.MinCommitTS = max(q.Caller.Next(), q.Now)
		changes = append(changes, s.rewrite(&next))
		l = &next
	}
	st := Status{Lock: l}
	if q.Caller == tso.Max || (q.Caller != 0 && l.MinCommitTS > q.Caller) {
		st.Action = MinCommitPushed
	}
	return st, changes, nil
}

func (s *Store) missing(q Inquiry) (Status, []Change, error) {
	e := s.entry(q.Primary)
	if v := e.byStart(q.StartTS); v != nil {
		return Status{CommitTS: v.CommitTS}, nil, nil
	}
	switch {
	case e.rolledBack(q.StartTS):
		return Status{}, nil, nil
	case !q.RollbackMissing:
		return Status{}, nil, &UnknownError{q.Primary, q.StartTS}
	case q.ForPessimistic:
		return Status{Action: MissingUndecided}, nil, nil
	}
	return Status{Action: MissingRollback}, []Change{s.record(q.Primary, q.StartTS, true)}, nil
}

// rewrite puts a lock again, and returns what a stream shows of it: once more
// the PREWRITE, without a value that is stored beside the lock.
func (s *Store) rewrite(l *Lock) Change {
	s.put(l)
	ch, _ := s.Repeat(l.Key, l.StartTS)
	if ch.Kind != Prewrite {
		return Change{Kind: Nothing, Key: l.Key, StartTS: l.StartTS}
	}
	if len(ch.Value) > ShortValue {
		ch.Value = nil
	}
	return ch
}

// Heartbeat gives a primary lock more time to live, and a greater least
// commit-ts unless the store chooses that itself. It returns the time that the
// lock has now.
func (s *Store) Heartbeat(primary []byte, start tso.TS, ttl uint64, minCommit tso.TS) (uint64, []Change, error) {
	l := s.heldBy(primary, start)
	if l == nil {
		return 0, nil, &UnknownError{primary, start}
	}
	next := *l
	next.TTL = max(l.TTL, ttl)
	if !l.AsyncCommit {
		next.MinCommitTS = max(l.MinCommitTS, minCommit)
	}
	if next.TTL == l.TTL && next.MinCommitTS == l.MinCommitTS {
		return l.TTL, nil, nil
	}
	return next.TTL, []Change{s.rewrite(&next)}, nil
}

// InquireSecondaries tells what the secondaries of an async commit say: their
// locks where all stand, else a commit-ts, else (both empty) that it is rolled
// back, which is then so for ever.
func (s *Store) InquireSecondaries(keys [][]byte, start tso.TS) (locks []*Lock, commit tso.TS, changes []Change) {
	for _, key := range keys {
		l, e := s.heldBy(key, start), s.entry(key)
		if l != nil && l.Op != Pessimistic {
			locks = append(locks, l)
			continue
		}
		if l != nil {
			s.drop(l)
		}
		if v := e.byStart(start); v != nil {
			return nil, v.CommitTS, changes
		}
		if l != nil || !e.rolledBack(start) {
			changes = append(changes, s.record(key, start, true))
		}
		return nil, 0, changes
	}
	return locks, 0, nil
}
