package mvcc

import (
	"bytes"
	"slices"

	"github.com/google/btree"

	"github.com/sluice-cdc/sluice/tso"
)

// Snapshot is the store as it was at one moment: safe to read from any
// goroutine, for as long as wanted.
type Snapshot struct{ keys *btree.BTreeG[*entry] }

// Pair is one key of a read: its value, or the lock that forbids reading it.
type Pair struct {
	Key      []byte
	Value    []byte
	CommitTS tso.TS
	Locked   *Lock
}

// Read says at which ts to read, and whose locks not to mind.
type Read struct {
	At        tso.TS   // Max = the newest
	Resolved  []uint64 // start-ts of transactions known to be over, or to commit above At
	Committed []uint64 // … known to be committed at or below At: their locks are read as versions
}

// Get reads one key; ok is false where it does not exist. A lock in the way
// comes back in the Pair.
func (s Snapshot) Get(key []byte, r Read) (p Pair, ok bool) {
	e, found := s.keys.Get(&entry{key: key})
	if !found {
		return Pair{}, false
	}
	return e.read(r)
}

// Scan reads the existing keys of [start, end) in order, or in reverse; an
// empty end has no end. It stops when fn returns false.
func (s Snapshot) Scan(start, end []byte, r Read, reverse bool, fn func(Pair) bool) {
	visit := func(e *entry) bool {
		if p, ok := e.read(r); ok {
			return fn(p)
		}
		return true
	}
	switch {
	case !reverse:
		s.ascend(start, end, visit)
	case len(end) == 0:
		s.keys.Descend(func(e *entry) bool { return bytes.Compare(e.key, start) >= 0 && visit(e) })
	default:
		s.keys.DescendLessOrEqual(&entry{key: end}, func(e *entry) bool {
			if bytes.Equal(e.key, end) {
				return true
			}
			return bytes.Compare(e.key, start) >= 0 && visit(e)
		})
	}
}

// History reads [start, end) as an incremental scan of a change stream does:
// key by key its lock first, then its versions with commit-ts > after, newest
// first. It stops when fn returns false.
func (s Snapshot) History(start, end []byte, after tso.TS, fn func(Change) bool) {
	s.ascend(start, end, func(e *entry) bool {
		if e.lock != nil && e.lock.Op.Data() && !fn(prewritten(e.lock, e)) {
			return false
		}
		for i := len(e.versions) - 1; i >= 0 && e.versions[i].CommitTS > after; i-- {
			if v := &e.versions[i]; v.Op.Data() && !fn(committed(e.key, e, v)) {
				return false
			}
		}
		return true
	})
}

// Versions reads every committed version of a key, oldest first.
func (s Snapshot) Versions(key []byte) []Version {
	if e, ok := s.keys.Get(&entry{key: key}); ok {
		return e.versions
	}
	return nil
}

func (s Snapshot) ascend(start, end []byte, fn func(*entry) bool) {
	s.keys.AscendGreaterOrEqual(&entry{key: start}, func(e *entry) bool {
		if len(end) != 0 && bytes.Compare(e.key, end) >= 0 {
			return false
		}
		return fn(e)
	})
}

func (e *entry) read(r Read) (Pair, bool) {
	if l := e.lock; l != nil && l.blocks(r) {
		if !slices.Contains(r.Committed, uint64(l.StartTS)) {
			return Pair{Key: e.key, Locked: l}, true
		}
		return Pair{Key: e.key, Value: l.Value}, l.Op == Put
	}
	v := e.dataAt(r.At)
	if v == nil || v.Op != Put {
		return Pair{}, false
	}
	return Pair{Key: e.key, Value: v.Value, CommitTS: v.CommitTS}, true
}

// blocks tells whether a reader must wait for the lock's transaction: it might
// still commit at or below the ts that is read.
func (l *Lock) blocks(r Read) bool {
	if !l.Op.Data() || l.StartTS > r.At || l.MinCommitTS > r.At || slices.Contains(r.Resolved, uint64(l.StartTS)) {
		return false
	}
	// The newest version is what was committed so far, as only the primary knows:
	// but of an async commit not even that one does.
	return r.At != tso.Max || l.AsyncCommit || !bytes.Equal(l.Key, l.Primary)
}
