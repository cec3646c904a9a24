package region

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// world is a small TiKV: keys of one letter, transactions, regions that split,
// merge and move, and registrations that scan while live changes come in. It
// keeps what TiKV promises and does what TiKV may do.
type world struct {
	rng     *rand.Rand
	clock   tso.TS
	now     time.Duration
	regions []Region            // in key order
	nextID  uint64              // of regions
	history map[string][]commit // by key, oldest first
	locks   map[string]lock     // by key
	txns    []*txn              // prewritten, not ended on every key
	regs    []*registration
	strays  []stray           // what comes after the end of its registration
	streams map[uint64]uint64 // by store
	last    uint64            // stream number
}

// stray is a scanned entry that was under way when its registration ended.
type stray struct {
	src   Source
	entry Entry
}

type commit struct {
	start, commit tso.TS
	value         string // empty: deleted
}

type lock struct {
	start      tso.TS
	value, old string
}

type txn struct {
	start, commit tso.TS // commit is 0 until decided
	rollback      bool
	abandoned     bool     // only who searches for its locks ends it
	keys          []string // still locked
}

// registration is one region of one subscriber, from TiKV's side. Scanned and
// live entries come from two queues, in any mixture until the scan is through.
type registration struct {
	src      Source
	store    uint64
	span     span.Span
	scan     []Entry
	live     []any // Entry, resolved or Failure
	resolved tso.TS
	ready    bool // INITIALIZED was sent
	over     bool // its error is queued
	stalled  bool // the store has lost track of it: nothing comes any more
	late     []stray
}

type resolved tso.TS

func newWorld(rng *rand.Rand) *world {
	w := &world{rng: rng, clock: 100, nextID: 2, history: map[string][]commit{}, locks: map[string]lock{}, streams: map[uint64]uint64{}}
	w.regions = []Region{{ID: 1, Version: 1, Store: 1}}
	for store := uint64(1); store <= 3; store++ {
		w.cut(store)
	}
	return w
}

// ts is a new timestamp. Its wall clock follows the follower's time.
func (w *world) ts() tso.TS {
	w.clock = max(w.clock+1, tso.New(w.now.Milliseconds(), 0))
	return w.clock
}

func (w *world) key() string { return string(rune('a' + w.rng.IntN(26))) }

func (w *world) newest(key string) string {
	if h := w.history[key]; len(h) > 0 {
		return h[len(h)-1].value
	}
	return ""
}

// happen shows an entry to every registration that covers its key.
func (w *world) happen(key string, e Entry) {
	e.Key = []byte(key)
	for _, r := range w.regs {
		if !r.over && r.span.Contains(span.Key(key)) {
			r.live = append(r.live, e)
		}
	}
}

// prewrite begins a transaction on a few keys that nobody holds.
func (w *world) prewrite() {
	x := &txn{start: w.ts()}
	for range 1 + w.rng.IntN(3) {
		key := w.key()
		if _, held := w.locks[key]; held {
			continue
		}
		l := lock{start: x.start, old: w.newest(key)}
		if w.rng.IntN(4) > 0 || l.old == "" {
			l.value = fmt.Sprintf("%s%d", key, x.start)
		}
		w.locks[key] = l
		x.keys = append(x.keys, key)
		w.happen(key, l.entry())
	}
	if len(x.keys) > 0 {
		w.txns = append(w.txns, x)
	}
}

func (l lock) entry() Entry {
	e := Entry{Type: Prewrite, Op: OpPut, StartTS: l.start, Value: []byte(l.value), Old: []byte(l.old)}
	if l.value == "" {
		e.Op = OpDelete
	}
	return e
}

// heartbeat writes a lock again, sometimes without its value.
func (w *world) heartbeat() {
	if len(w.txns) == 0 {
		return
	}
	x := w.txns[w.rng.IntN(len(w.txns))]
	key := x.keys[w.rng.IntN(len(x.keys))]
	e := w.locks[key].entry()
	if w.rng.IntN(2) == 0 {
		e.Value = nil
	}
	w.happen(key, e)
}

// finish ends a transaction on one of its keys; the first one decides how.
func (w *world) finish() {
	if len(w.txns) == 0 {
		return
	}
	i := w.rng.IntN(len(w.txns))
	if !w.txns[i].abandoned {
		w.end(i, 0)
	}
}

// end ends the i-th transaction on the j-th of its keys.
func (w *world) end(i, j int) {
	x := w.txns[i]
	if x.commit == 0 && !x.rollback {
		if x.rollback = w.rng.IntN(4) == 0; !x.rollback {
			x.commit = w.ts()
		}
	}
	key := x.keys[j]
	if x.keys = slices.Delete(x.keys, j, j+1); len(x.keys) == 0 {
		w.txns = slices.Delete(w.txns, i, i+1)
	}
	l := w.locks[key]
	delete(w.locks, key)
	e := l.entry()
	e.Type, e.CommitTS, e.Value, e.Old = Commit, x.commit, nil, nil
	if x.rollback {
		e.Type, e.Op = Rollback, OpUnknown
	} else {
		w.history[key] = append(w.history[key], commit{start: x.start, commit: x.commit, value: l.value})
	}
	w.happen(key, e)
}

// search is what a search for locks does: abandoned transactions end there.
func (w *world) search(s Stuck) {
	for i := len(w.txns) - 1; i >= 0; i-- {
		x := w.txns[i]
		for j := len(x.keys) - 1; j >= 0 && x.abandoned && x.start <= s.Target; j-- {
			if s.Span.Contains(span.Key(x.keys[j])) {
				w.end(i, j)
			}
		}
	}
}

// abandon lets a transaction's owner die.
func (w *world) abandon() {
	if len(w.txns) > 0 {
		w.txns[w.rng.IntN(len(w.txns))].abandoned = true
	}
}

// stall lets a store lose track of a registration that it has scanned.
func (w *world) stall() {
	for _, i := range w.rng.Perm(len(w.regs)) {
		if r := w.regs[i]; r.ready && !r.over && !r.stalled {
			r.stalled = true
			return
		}
	}
}

// deregister is what a store does when a registration is given up: nothing of it
// follows, but what was under way may come.
func (w *world) deregister(src Source) {
	for _, r := range w.regs {
		if r.src == src && !r.over && len(r.scan) > 0 && w.rng.IntN(2) == 0 {
			w.strays = append(w.strays, stray{src, r.scan[0]})
		}
	}
	w.regs = slices.DeleteFunc(w.regs, func(r *registration) bool { return r.src == src })
}

// onePhase commits a key in one go.
func (w *world) onePhase() {
	key := w.key()
	if _, held := w.locks[key]; held {
		return
	}
	c := commit{start: w.ts()}
	c.commit = w.ts()
	c.value = fmt.Sprintf("%s%d", key, c.start)
	old := w.newest(key)
	w.history[key] = append(w.history[key], c)
	w.happen(key, Entry{Type: Committed, Op: OpPut, StartTS: c.start, CommitTS: c.commit, Value: []byte(c.value), Old: []byte(old)})
}

// tick raises the resolved-ts of every registration that has scanned.
func (w *world) tick() {
	now := w.ts()
	for _, r := range w.regs {
		ts := now
		for key, l := range w.locks { // the minimum: the order does not matter
			if r.span.Contains(span.Key(key)) {
				ts = min(ts, l.start)
			}
		}
		if r.ready && !r.over && !r.stalled && ts > r.resolved {
			r.resolved = ts
			r.live = append(r.live, resolved(ts))
		}
	}
}

// fail ends the registrations of a region.
func (w *world) fail(region uint64, f Failure) {
	for _, r := range w.regs {
		if r.src.Region == region && !r.over {
			for _, e := range r.scan[:min(len(r.scan), w.rng.IntN(8))] {
				r.late = append(r.late, stray{r.src, e})
			}
			if len(r.scan) > 0 && w.rng.IntN(4) == 0 {
				r.late = append(r.late, stray{r.src, Entry{Type: Initialized}})
			}
			r.scan, r.over = nil, true
			r.live = append(r.live, f)
		}
	}
}

func (w *world) split() {
	i := w.rng.IntN(len(w.regions))
	at := span.Key(w.key())
	old := w.regions[i]
	if !old.Span.Contains(at) || at == old.Span.Start {
		return
	}
	left, right := old, old // the old id keeps the right part
	left.ID, left.Span.End, right.Span.Start = w.nextID, at, at
	w.nextID++
	left.Version, right.Version = old.Version+1, old.Version+1
	w.regions = slices.Replace(w.regions, i, i+1, left, right)
	f := Failure{Kind: EpochNotMatch}
	if w.rng.IntN(3) > 0 {
		f.Regions = []Region{left, right}
	}
	w.fail(old.ID, f)
}

func (w *world) merge() {
	if len(w.regions) < 2 {
		return
	}
	i := w.rng.IntN(len(w.regions) - 1)
	a, b := w.regions[i], w.regions[i+1]
	if w.rng.IntN(2) == 0 {
		a, b = b, a // which of the two lives on
	}
	whole := a
	whole.Span = span.Span{Start: w.regions[i].Span.Start, End: w.regions[i+1].Span.End}
	whole.Version = max(a.Version, b.Version) + 1
	w.regions = slices.Replace(w.regions, i, i+2, whole)
	w.fail(b.ID, Failure{Kind: EpochNotMatch})
	w.fail(a.ID, Failure{Kind: EpochNotMatch})
}

func (w *world) lead() {
	r := &w.regions[w.rng.IntN(len(w.regions))]
	r.Store = 1 + w.rng.Uint64N(3)
	f := Failure{Kind: NotLeader}
	if w.rng.IntN(2) == 0 {
		f.Leader = r.Store
	}
	w.fail(r.ID, f)
}

// cut breaks a store's stream and returns the number that it had.
func (w *world) cut(store uint64) uint64 {
	old := w.streams[store]
	w.last++
	w.streams[store] = w.last
	w.regs = slices.DeleteFunc(w.regs, func(r *registration) bool { return r.src.Stream == old })
	return old
}

// register is what a store does with a request.
func (w *world) register(q Request) (Source, error) {
	r := &registration{src: Source{Stream: w.streams[q.Region.Store], Slot: q.Slot, Region: q.Region.ID}, store: q.Region.Store, span: q.Span, resolved: q.StartTS}
	for _, o := range w.regs {
		if o.src == r.src {
			return r.src, fmt.Errorf("%v is registered twice", r.src)
		}
	}
	w.regs = append(w.regs, r)
	i := slices.IndexFunc(w.regions, func(o Region) bool { return o.ID == q.Region.ID })
	switch {
	case i < 0:
		w.fail1(r, Failure{Kind: NotFound})
	case w.regions[i].Store != q.Region.Store:
		w.fail1(r, Failure{Kind: NotLeader, Leader: w.regions[i].Store})
	case w.regions[i].Version != q.Region.Version:
		w.fail1(r, Failure{Kind: EpochNotMatch, Regions: []Region{w.regions[i]}})
	case w.rng.IntN(10) == 0:
		w.fail1(r, Failure{Kind: []FailureKind{ServerIsBusy, Congested, Unexplained, NotFound}[w.rng.IntN(4)], BackoffMS: 70})
	default:
		w.scan(r, q.StartTS)
	}
	return r.src, nil
}

func (w *world) fail1(r *registration, f Failure) {
	r.over, r.live = true, append(r.live, f)
}

// scan queues a snapshot: a key's lock first, then its versions, newest first.
func (w *world) scan(r *registration, from tso.TS) {
	for c := 'a'; c <= 'z'; c++ {
		key := string(c)
		if !r.span.Contains(span.Key(key)) {
			continue
		}
		if l, held := w.locks[key]; held {
			e := l.entry()
			e.Key = []byte(key)
			r.scan = append(r.scan, e)
		}
		h := w.history[key]
		for i := len(h) - 1; i >= 0 && h[i].commit > from; i-- {
			e := Entry{Type: Committed, Op: OpPut, StartTS: h[i].start, CommitTS: h[i].commit, Key: []byte(key), Value: []byte(h[i].value)}
			if h[i].value == "" {
				e.Op = OpDelete
			}
			if i > 0 {
				e.Old = []byte(h[i-1].value)
			}
			r.scan = append(r.scan, e)
		}
	}
	r.scan = append(r.scan, Entry{Type: Initialized})
}
