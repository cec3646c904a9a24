package mvcc

import (
	"bytes"
	"slices"

	"github.com/google/btree"

	"github.com/sluice-cdc/sluice/tso"
)

// degree of the trees: entries are pointers, so wide nodes stay within a few
// cache lines.
const degree = 32

// Op is what a lock or a version does to its key.
type Op uint8

// The operations. Only Put and Delete ever show in a change stream.
const (
	Put         Op = iota + 1
	Delete         // the key is gone
	LockOnly       // select … for update of an optimistic transaction: no data
	Pessimistic    // a pessimistic lock that has not been prewritten yet
)

// Data tells whether op changes what a reader sees.
func (op Op) Data() bool { return op == Put || op == Delete }

// Version is one committed write of a key.
type Version struct {
	StartTS   tso.TS
	CommitTS  tso.TS
	Op        Op // Put, Delete or LockOnly
	Value     []byte
	TxnSource uint64
}

// Lock is an open write of a key.
type Lock struct {
	Op          Op
	Key         []byte
	Value       []byte
	Primary     []byte
	StartTS     tso.TS
	ForUpdateTS tso.TS // 0 for optimistic transactions
	MinCommitTS tso.TS // 0 = not known
	TTL         uint64 // milliseconds, counted from StartTS
	TxnSize     uint64 // how many keys the transaction has in the region, as it said itself
	TxnSource   uint64
	Generation  uint64 // of pipelined DML, else 0

	// An async commit is decided by its locks: it is committed as soon as the
	// primary and all secondaries, which the primary lists, are prewritten.
	AsyncCommit bool
	Secondaries [][]byte
}

// Expired tells whether the lock has outlived its time at now. A transaction
// that lives keeps its primary from it by heartbeats.
func (l *Lock) Expired(now tso.TS) bool {
	start, at := uint64(l.StartTS.Physical()), uint64(now.Physical())
	return at > start && at-start > l.TTL
}

// entry is everything about one key. It is never edited once it is in a tree.
type entry struct {
	key       []byte
	versions  []Version // by commit-ts, oldest first
	lock      *Lock
	rollbacks []rollback // oldest first
}

// rollback keeps a transaction from prewriting a key. An unprotected one may be
// dropped when a newer one comes, as TiKV does to save space.
type rollback struct {
	start     tso.TS
	protected bool
}

// Store is the data of a cluster. See the package comment for who may call what.
type Store struct {
	keys *btree.BTreeG[*entry]

	// All locks by key, and how many of op Put and Delete, which hold resolved-ts
	// back, there are of each start-ts.
	locks  *btree.BTreeG[*Lock]
	starts *btree.BTreeG[startCount]

	// seen is the newest ts that anyone has read at or was promised: whoever
	// chooses a commit-ts without asking PD chooses above it.
	seen tso.TS
}

type startCount struct {
	start tso.TS
	locks int
}

// New is an empty store.
func New() *Store {
	return &Store{
		keys:   btree.NewG(degree, func(a, b *entry) bool { return bytes.Compare(a.key, b.key) < 0 }),
		locks:  btree.NewG(degree, func(a, b *Lock) bool { return bytes.Compare(a.Key, b.Key) < 0 }),
		starts: btree.NewG(degree, func(a, b startCount) bool { return a.start < b.start }),
	}
}

// Snapshot is the store as it is now; later writes do not show in it.
func (s *Store) Snapshot() Snapshot { return Snapshot{s.keys.Clone()} }

// Load puts a committed version in place without any event, as a restored
// backup would. The slices belong to the store from here on.
func (s *Store) Load(key []byte, v Version) {
	s.replace(key, func(e *entry) { e.add(v) })
}

// MinLock is the least start-ts of the Put and Delete locks in [start, end);
// ok is false where there is none.
func (s *Store) MinLock(start, end []byte) (least tso.TS, ok bool) {
	lowest, any := s.starts.Min()
	if !any {
		return 0, false
	}
	s.locks.AscendGreaterOrEqual(&Lock{Key: start}, func(l *Lock) bool {
		if len(end) != 0 && bytes.Compare(l.Key, end) >= 0 {
			return false
		}
		if l.Op.Data() && (!ok || l.StartTS < least) {
			least, ok = l.StartTS, true
		}
		return !ok || least > lowest.start // there is no lower one
	})
	return least, ok
}

// See says that ts is being read at, or promised as a resolved-ts.
func (s *Store) See(ts tso.TS) { s.seen = max(s.seen, ts) }

// Locks reads the locks of [start, end) with start-ts ≤ upTo in the order of
// keys, those without data too; an empty end has no end. It stops when fn
// returns false.
func (s *Store) Locks(start, end []byte, upTo tso.TS, fn func(*Lock) bool) {
	s.locks.AscendGreaterOrEqual(&Lock{Key: start}, func(l *Lock) bool {
		if len(end) != 0 && bytes.Compare(l.Key, end) >= 0 {
			return false
		}
		return l.StartTS > upTo || fn(l)
	})
}

// Locked is the lock that key holds, nil where it holds none.
func (s *Store) Locked(key []byte) *Lock {
	if e := s.entry(key); e != nil {
		return e.lock
	}
	return nil
}

// Newest is the newest committed version that changes data, nil where there is none.
func (s *Store) Newest(key []byte) *Version {
	if e := s.entry(key); e != nil {
		return e.dataAt(tso.Max)
	}
	return nil
}

// Versions are the committed writes of a key, oldest first. They must not be changed.
func (s *Store) Versions(key []byte) []Version {
	if e := s.entry(key); e != nil {
		return e.versions
	}
	return nil
}

func (s *Store) entry(key []byte) *entry {
	e, _ := s.keys.Get(&entry{key: key})
	return e
}

// heldBy is the lock that the transaction start holds on key, nil for none.
func (s *Store) heldBy(key []byte, start tso.TS) *Lock {
	if l := s.Locked(key); l != nil && l.StartTS == start {
		return l
	}
	return nil
}

// replace puts an edited copy of key's entry in place of the old one.
func (s *Store) replace(key []byte, edit func(*entry)) {
	next := &entry{key: key}
	if old := s.entry(key); old != nil {
		*next = *old
	}
	edit(next)
	s.keys.ReplaceOrInsert(next)
}

// put makes l the lock of its key.
func (s *Store) put(l *Lock) {
	var before *Lock
	s.replace(l.Key, func(e *entry) { before, e.lock = e.lock, l })
	if before != nil {
		s.unindex(before)
	}
	s.index(l)
}

// drop takes the lock of a key away.
func (s *Store) drop(l *Lock) {
	s.replace(l.Key, func(e *entry) { e.lock = nil })
	s.unindex(l)
}

func (s *Store) index(l *Lock) {
	s.locks.ReplaceOrInsert(l)
	if l.Op.Data() {
		s.count(l.StartTS, 1)
	}
}

func (s *Store) unindex(l *Lock) {
	s.locks.Delete(l)
	if l.Op.Data() {
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

// add puts v among the versions. Appending writes beyond the length that older
// entries know of, so they may share the array; anything else copies.
func (e *entry) add(v Version) {
	n := len(e.versions)
	if n == 0 || e.versions[n-1].CommitTS < v.CommitTS {
		e.versions = append(e.versions, v)
		return
	}
	at, found := slices.BinarySearchFunc(e.versions, v.CommitTS, func(o Version, ts tso.TS) int {
		switch {
		case o.CommitTS < ts:
			return -1
		case o.CommitTS > ts:
			return 1
		}
		return 0
	})
	next := make([]Version, 0, n+1)
	next = append(next, e.versions[:at]...)
	next = append(next, v)
	if found {
		at++
	}
	e.versions = append(next, e.versions[at:]...)
}

// dataAt is the newest Put or Delete with commit-ts ≤ at.
func (e *entry) dataAt(at tso.TS) *Version {
	if e == nil {
		return nil
	}
	for i := len(e.versions) - 1; i >= 0; i-- {
		if v := &e.versions[i]; v.CommitTS <= at && v.Op.Data() {
			return v
		}
	}
	return nil
}

// newest is the newest version, with data or not.
func (e *entry) newest() *Version {
	if e == nil || len(e.versions) == 0 {
		return nil
	}
	return &e.versions[len(e.versions)-1]
}

// exists tells whether the newest data of the key is a value.
func (e *entry) exists() bool {
	v := e.dataAt(tso.Max)
	return v != nil && v.Op == Put
}

// valueAt is the value that a reader at ts sees, nil for none.
func (e *entry) valueAt(at tso.TS) []byte {
	if v := e.dataAt(at); v != nil && v.Op == Put {
		return v.Value
	}
	return nil
}

// byStart is the version that the transaction start wrote, nil where it wrote none.
func (e *entry) byStart(start tso.TS) *Version {
	if e == nil {
		return nil
	}
	for i := len(e.versions) - 1; i >= 0; i-- {
		if e.versions[i].StartTS == start {
			return &e.versions[i]
		}
	}
	return nil
}

// rolledBack tells whether the transaction start is known to be rolled back.
func (e *entry) rolledBack(start tso.TS) bool {
	return e != nil && slices.ContainsFunc(e.rollbacks, func(r rollback) bool { return r.start == start })
}
