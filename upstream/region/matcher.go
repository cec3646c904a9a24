package region

import (
	"unsafe"

	"github.com/sluice-cdc/sluice/tso"
)

// matcher pairs the prewrites of one registration with their commits.
//
// Until the region's scan is through (INITIALIZED) scanned and live entries
// interleave: a live COMMIT may come before the PREWRITE that the scan delivers
// for it, or its PREWRITE may never come because the scan delivers the row as
// COMMITTED. So commits without a usable prewrite wait for INITIALIZED, and so
// do rollbacks.
//
// Prewrites may be put away (Tracker.Evict) when memory has no room for them. Then
// no commit or rollback of their transaction is answered from memory alone.
type matcher struct {
	number      uint64 // of the registration, by which prewrites are put away
	initialized bool
	unmatched   map[rowKey]prewrite
	peak        int             // most entries unmatched ever held
	away        map[tso.TS]away // by start-ts: what was put away and not asked for yet
	everAway    bool
	commits     []Entry
	// closed are keys whose transaction is known to have ended before
	// INITIALIZED: rolled back, or committed and matched. A prewrite of them
	// that the scan delivers late would never be matched.
	closed  []rowKey
	scanned int // entries before INITIALIZED, live ones among them
	// The keys of those at the last two powers of two: next is the later one's.
	mark, next string

	bytes int64 // of the keys and values that the matcher keeps alive, and what they cost beside
	total *Held // of all matchers of a Tracker
}

// Held is what waits for commits, in memory.
type Held struct {
	Entries int
	Bytes   int64
}

// rowKey names one transaction's write of one key. The string aliases the
// entry's key: messages are never changed, so nothing is copied.
type rowKey struct {
	start tso.TS
	key   string
}

type prewrite struct {
	value, old []byte
	generation uint64
}

// away is a transaction's prewrites that were put away.
type away struct {
	count int
	key   string // one of their keys
}

// heldCost is what an entry costs beside its bytes: the map's room for it.
const heldCost = 128

// shrinkAbove is the number of entries above which an emptied map is thrown
// away: Go's maps do not shrink, and one huge transaction must not be paid for
// ever after.
const shrinkAbove = 1 << 12

func newMatcher(number uint64, total *Held) *matcher {
	return &matcher{number: number, unmatched: map[rowKey]prewrite{}, total: total}
}

// entries is how many the matcher holds.
func (m *matcher) entries() int {
	return len(m.unmatched) + len(m.commits) + len(m.closed) + len(m.away)
}

// hold counts entries that are kept from now on, or no longer.
func (m *matcher) hold(entries int, bytes int64) {
	bytes += int64(entries) * heldCost
	m.bytes += bytes
	m.total.Entries += entries
	m.total.Bytes += bytes
}

// forget gives everything up.
func (m *matcher) forget() {
	m.total.Entries -= m.entries()
	m.total.Bytes -= m.bytes
}

// oldest is the oldest open transaction that has written here, and one of its
// keys; 0 where there is none. It looks at every entry.
func (m *matcher) oldest() (start tso.TS, key string) {
	for k := range m.unmatched { // the least: the order does not matter
		if start == 0 || k.start < start || (k.start == start && k.key < key) {
			start, key = k.start, k.key
		}
	}
	for ts, a := range m.away { // the least again
		if start == 0 || ts < start || (ts == start && a.key < key) {
			start, key = ts, a.key
		}
	}
	return start, key
}

func keyOf(e *Entry) rowKey {
	return rowKey{start: e.StartTS, key: unsafe.String(unsafe.SliceData(e.Key), len(e.Key))}
}

func sizeOf(k rowKey, p prewrite) int64 {
	return int64(len(k.key) + len(p.value) + len(p.old))
}

// replaces tells whether p counts where both came for one key, p later.
func (p prewrite) replaces(o prewrite) bool {
	return len(p.value) > 0 && p.generation >= o.generation
}

// hollow tells whether p says nothing of what e committed: a heartbeat's copy of
// a long value's lock. Of one that came before INITIALIZED with its commit the scan
// has delivered the row.
func (p prewrite) hollow(e *Entry) bool {
	return e.Op == OpPut && len(p.value) == 0 && len(e.Value) == 0
}

// prewrite keeps e until its commit comes. It may come again: as a heartbeat's
// copy without a value, or from a later flush of a pipelined transaction.
func (m *matcher) prewrite(e *Entry) {
	k := keyOf(e)
	kept, again := m.unmatched[k]
	next := prewrite{value: e.Value, old: e.Old, generation: e.Generation}
	if again && !next.replaces(kept) {
		return
	}
	m.unmatched[k] = next
	if again {
		m.hold(0, sizeOf(k, next)-sizeOf(k, kept))
	} else {
		m.hold(1, sizeOf(k, next))
	}
	m.peak = max(m.peak, len(m.unmatched))
}

// verdict says what is known of a commit's prewrite.
type verdict uint8

const (
	matched verdict = iota
	missing
	waits   // for INITIALIZED
	distant // it may have been put away
)

// commit finds the prewrite of e. When it cannot be told yet the commit is kept
// for initialize, or to be looked for by the caller.
func (m *matcher) commit(e *Entry) (prewrite, verdict) {
	k := keyOf(e)
	p, ok := m.unmatched[k]
	_, put := m.away[k.start]
	if !m.initialized && (put || !ok || len(p.value) == 0 || p.generation > 0) {
		// The prewrite may be a heartbeat's copy or an early flush; the scan
		// still has the real one.
		m.commits = append(m.commits, *e)
		m.hold(1, int64(len(e.Key)+len(e.Value)))
		return prewrite{}, waits
	}
	switch {
	case put:
		return prewrite{}, distant
	case !ok:
		return prewrite{}, missing
	}
	m.drop(k, p)
	if p.hollow(e) {
		return prewrite{}, missing
	}
	if !m.initialized {
		m.close(k)
	}
	return p, matched
}

// rollback forgets a prewrite; there may be none. It is true when one that was
// put away is to be looked for.
func (m *matcher) rollback(e *Entry) bool {
	k := keyOf(e)
	if !m.initialized {
		m.close(k)
		return false
	}
	return m.end(k)
}

// end forgets a prewrite of a transaction that has ended on its key.
func (m *matcher) end(k rowKey) (look bool) {
	if _, put := m.away[k.start]; put {
		return true
	}
	if p, ok := m.unmatched[k]; ok {
		m.drop(k, p)
	}
	return false
}

// initialize ends the scan and gives what waited for it: commits, of which one
// that has no prewrite was delivered by the scan as a COMMITTED row, and keys
// whose transaction has ended.
func (m *matcher) initialize() (commits []Entry, closed []rowKey) {
	m.initialized = true
	commits, closed = m.commits, m.closed
	m.commits, m.closed = nil, nil
	for i := range commits {
		m.hold(-1, -int64(len(commits[i].Key)+len(commits[i].Value)))
	}
	for _, k := range closed {
		m.hold(-1, -int64(len(k.key)))
	}
	return commits, closed
}

func (m *matcher) close(k rowKey) {
	m.closed = append(m.closed, k)
	m.hold(1, int64(len(k.key)))
}

func (m *matcher) drop(k rowKey, p prewrite) {
	delete(m.unmatched, k)
	m.hold(-1, -sizeOf(k, p))
	if len(m.unmatched) == 0 && m.peak > shrinkAbove {
		m.unmatched, m.peak = map[rowKey]prewrite{}, 0
	}
}
