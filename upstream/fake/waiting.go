package fake

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/pingcap/kvproto/pkg/deadlock"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// waiting is who waits for whose lock. Under Cluster.mu. It has one entry for
// each pessimistic lock request that is being served.
type waiting struct {
	byKey map[string][]chan struct{} // closed when the key's lock is gone
	edges []waitEdge
}

// waitEdge says that one transaction waits for another.
type waitEdge struct {
	waiter, holder tso.TS
	key            []byte
}

// deadlockError says that transactions wait for each other in a circle, which
// the last one to come would close.
type deadlockError struct {
	lock  *mvcc.Lock // that it would wait for
	chain []waitEdge // from the holder of lock back to the last one
}

// Error names the lock.
func (e *deadlockError) Error() string {
	return fmt.Sprintf("waiting for the lock on %X of start-ts %d would be a deadlock", e.lock.Key, e.lock.StartTS)
}

func (e *deadlockError) message() *kvrpcpb.Deadlock {
	last := e.chain[len(e.chain)-1]
	out := &kvrpcpb.Deadlock{
		LockTs: uint64(e.lock.StartTS), LockKey: e.lock.Key,
		DeadlockKey: last.key, DeadlockKeyHash: keyHash(last.key),
	}
	for _, w := range e.chain {
		out.WaitChain = append(out.WaitChain, &deadlock.WaitForEntry{
			Txn: uint64(w.waiter), WaitForTxn: uint64(w.holder), Key: w.key, KeyHash: keyHash(w.key),
		})
	}
	return out
}

func keyHash(key []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(key) // never fails
	return h.Sum64()
}

// add lets waiter wait for a lock. The channel is closed when it is gone.
func (w *waiting) add(waiter tso.TS, l *mvcc.Lock) (<-chan struct{}, error) {
	if chain := w.path(l.StartTS, waiter, nil); chain != nil {
		return nil, &deadlockError{l, chain}
	}
	if w.byKey == nil {
		w.byKey = map[string][]chan struct{}{}
	}
	gone := make(chan struct{})
	w.byKey[string(l.Key)] = append(w.byKey[string(l.Key)], gone)
	w.edges = append(w.edges, waitEdge{waiter, l.StartTS, l.Key})
	return gone, nil
}

// path is how one transaction waits for another, over others, nil if it does not.
func (w *waiting) path(from, to tso.TS, seen []tso.TS) []waitEdge {
	for _, e := range w.edges {
		if e.waiter != from || slices.Contains(seen, e.holder) {
			continue
		}
		if e.holder == to {
			return []waitEdge{e}
		}
		if rest := w.path(e.holder, to, append(seen, from)); rest != nil {
			return append([]waitEdge{e}, rest...)
		}
	}
	return nil
}

// remove ends one wait that may be over already.
func (w *waiting) remove(waiter tso.TS, key []byte, gone <-chan struct{}) {
	waits := w.byKey[string(key)]
	left := slices.DeleteFunc(waits, func(c chan struct{}) bool { return c == gone })
	if len(left) == 0 {
		delete(w.byKey, string(key))
	} else {
		w.byKey[string(key)] = left
	}
	if len(left) == len(waits) {
		return
	}
	for i, e := range w.edges {
		if e.waiter == waiter && string(e.key) == string(key) {
			w.edges = slices.Delete(w.edges, i, i+1)
			return
		}
	}
}

// wake ends the waits for a key's lock.
func (w *waiting) wake(key []byte) {
	waits := w.byKey[string(key)]
	if len(waits) == 0 {
		return
	}
	for _, gone := range waits {
		close(gone)
	}
	delete(w.byKey, string(key))
	w.edges = slices.DeleteFunc(w.edges, func(e waitEdge) bool { return string(e.key) == string(key) })
}
