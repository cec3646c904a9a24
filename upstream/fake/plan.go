package fake

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// A recording is what one subscriber of a real cluster saw, not what its store
// did: a re-subscription repeats rows, a scan tells old commits newest first,
// and a live COMMIT may stand before the PREWRITE that the scan delivers. The
// plan is the store's own history, worked out from that: for each key its
// transactions one after the other, each at the earliest line that speaks of it.

// hidden marks writes that TiKV keeps out of change streams: the source of
// column reorganisation.
const hidden = 1 << 8

// stepKind is what a step of a plan does.
type stepKind uint8

const (
	stepPrewrite stepKind = iota + 1
	stepCommit
	stepPut // one-phase commit
	stepRollback
	stepLoad // a version that no stream shows
	stepSplit
)

// step is one write to the store, at the time of one line.
type step struct {
	kind   stepKind
	at     int // index of the line
	rank   int // order within the line, for steps of one key
	op     mvcc.Op
	key    []byte
	value  []byte
	start  tso.TS
	commit tso.TS
	source uint64
	gen    uint64
}

// size is about what a subscriber gets of the step, in bytes.
func (s *step) size() int { return len(s.key) + len(s.value) + 64 }

// plan is everything that a replay does.
type plan struct {
	seeds []seed // in the store before the first step
	steps []step
	times []tso.TS // for each step the recorded time at which it happens; never falls
	next  []tso.TS // for each step the least commit-ts of it and all later ones
	end   tso.TS   // the newest ts that stands anywhere in the recording
}

// seed is a version from before the recording.
type seed struct {
	kv     KV
	commit tso.TS // 0 = before everything
	start  tso.TS
}

type txnKey struct {
	key   string
	start tso.TS
}

// write is everything that the lines of a recording say of one key in one transaction.
type write struct {
	key      []byte
	start    tso.TS
	commit   tso.TS
	op       mvcc.Op
	value    []byte
	old      []byte
	source   uint64
	gen      uint64
	known    bool // value and old are: a PREWRITE or a COMMITTED was seen
	live     bool // a PREWRITE or a COMMIT was seen: two phases
	prewrite int  // line of its first PREWRITE, none where there is none
	outcome  int  // line of its first COMMIT, COMMITTED or ROLLBACK, none where there is none
	rolled   bool
	line     int // number of its first line, for errors
}

const none = math.MaxInt

// planner collects lines and makes the plan.
type planner struct {
	writes map[txnKey]*write
	order  []*write // by first appearance
	splits []step
	times  []tso.TS // by line
}

// add takes line n, counted from 1.
func (b *planner) add(n int, l *line) error {
	now := max(l.TS, l.StartTS, l.CommitTS)
	if len(b.times) > 0 {
		now = max(now, b.times[len(b.times)-1])
	}
	b.times = append(b.times, now)
	at := n - 1
	switch l.Type {
	case "SPLIT":
		b.splits = append(b.splits, step{kind: stepSplit, at: at, key: l.Key})
		return nil
	case "PREWRITE", "COMMIT", "COMMITTED", "ROLLBACK":
	default:
		return nil
	}
	if l.StartTS == 0 {
		return fmt.Errorf("%s without a start_ts", l.Type)
	}
	w := b.write(n, l)
	switch l.Type {
	case "PREWRITE":
		w.live = true
		w.prewrite = min(w.prewrite, at)
		return w.tell(l)
	case "ROLLBACK":
		w.rolled = true
		w.outcome = min(w.outcome, at)
		return nil
	case "COMMIT":
		w.live = true
	}
	if l.CommitTS <= l.StartTS {
		return fmt.Errorf("%s at commit_ts %d, which is not above its start_ts %d", l.Type, l.CommitTS, l.StartTS)
	}
	if w.commit != 0 && w.commit != l.CommitTS {
		return fmt.Errorf("%s at commit_ts %d of a transaction that committed this key at %d", l.Type, l.CommitTS, w.commit)
	}
	w.commit = l.CommitTS
	w.outcome = min(w.outcome, at)
	return w.tell(l)
}

func (b *planner) write(n int, l *line) *write {
	k := txnKey{string(l.Key), l.StartTS}
	w := b.writes[k]
	if w == nil {
		w = &write{key: l.Key, start: l.StartTS, prewrite: none, outcome: none, line: n}
		b.writes[k] = w
		b.order = append(b.order, w)
	}
	return w
}

// tell takes what a line says of the data.
func (w *write) tell(l *line) error {
	switch l.Op {
	case "PUT":
		w.op = mvcc.Put
	case "DELETE":
		w.op = mvcc.Delete
	default:
		return fmt.Errorf("%s with op %q, want PUT or DELETE", l.Type, l.Op)
	}
	w.source |= l.TxnSource
	w.gen = max(w.gen, l.Generation)
	if l.Type == "COMMIT" {
		if !w.known && l.Value != nil {
			w.value = l.Value
		}
		return nil
	}
	// A repeated PREWRITE may come without its value.
	if w.known && len(l.Value) == 0 {
		return nil
	}
	w.value, w.old, w.known = l.Value, l.Old, true
	return nil
}

// build makes the plan of what was added.
func (b *planner) build(ctx context.Context, rec *Recording) (plan, error) {
	var p plan
	held := make(map[string][]byte, len(rec.snapshot))
	for _, kv := range rec.snapshot {
		held[string(kv.Key)] = kv.Value
		p.seeds = append(p.seeds, seed{kv: kv})
	}
	byKey := map[string][]*write{}
	var keys []string
	for _, w := range b.order {
		k := string(w.key)
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], w)
	}
	for _, k := range keys {
		if err := ctx.Err(); err != nil {
			return plan{}, err
		}
		kp := keyPlan{rec: rec, end: len(b.times)}
		kp.previous, kp.known = held[k]
		if err := kp.build(byKey[k]); err != nil {
			return plan{}, err
		}
		p.seeds = append(p.seeds, kp.seeds...)
		p.steps = append(p.steps, kp.steps...)
	}
	p.steps = append(p.steps, b.splits...)
	slices.SortStableFunc(p.steps, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.rank, y.rank))
	})
	p.end = max(rec.EndTS, b.times[len(b.times)-1])
	p.times = make([]tso.TS, len(p.steps))
	p.next = make([]tso.TS, len(p.steps))
	next := tso.Max
	for i := len(p.steps) - 1; i >= 0; i-- {
		s := &p.steps[i]
		if s.kind == stepCommit || s.kind == stepPut {
			next = min(next, s.commit)
		}
		p.next[i] = next
		p.times[i] = b.times[min(s.at, len(b.times)-1)]
	}
	return p, nil
}

// keyPlan is the history of one key.
type keyPlan struct {
	rec      *Recording
	end      int    // the line after the last
	previous []byte // the value before the next step, nil for none
	known    bool   // previous is
	newest   tso.TS // commit-ts of previous, 0 = before the recording
	rank     int
	at       int // the line of the last step so far
	seeds    []seed
	steps    []step
}

// build orders the writes of one key into steps and seeds.
func (kp *keyPlan) build(writes []*write) error {
	var commits, others []*write
	for _, w := range writes {
		if w.commit == 0 {
			others = append(others, w)
			continue
		}
		if w.rolled {
			return fmt.Errorf("line %d: key %X of start_ts %d is both committed and rolled back", w.line, w.key, w.start)
		}
		commits = append(commits, w)
	}
	slices.SortStableFunc(commits, func(x, y *write) int { return cmp.Compare(x.commit, y.commit) })
	untangle(commits)
	for _, w := range commits {
		if err := kp.commit(w); err != nil {
			return err
		}
	}
	kp.others(others, commits)
	return nil
}

// untangle pulls what was told late to earlier lines, so that the transactions
// of one key follow one another in commit order.
func untangle(commits []*write) {
	bound := none
	for _, w := range slices.Backward(commits) {
		w.outcome = min(w.outcome, bound)
		if !w.live {
			bound = w.outcome
			continue
		}
		w.prewrite = min(w.prewrite, w.outcome)
		bound = w.prewrite
	}
}

// commit plans one committed write.
func (kp *keyPlan) commit(w *write) error {
	if !w.known && w.op == mvcc.Put && w.value == nil {
		return fmt.Errorf("line %d: COMMIT of key %X of start_ts %d, and no line has its value", w.line, w.key, w.start)
	}
	if w.op == mvcc.Put && len(w.value) == 0 {
		return fmt.Errorf("line %d: PUT of key %X of start_ts %d with a value of 0 bytes, which TiDB never writes", w.line, w.key, w.start)
	}
	if w.known {
		if err := kp.reach(w); err != nil {
			return err
		}
	}
	if w.commit <= kp.rec.StartTS {
		// Told again by a scan from further back: it was there from the start.
		if w.op == mvcc.Put {
			kp.seeds = append(kp.seeds, seed{KV{w.key, w.value}, w.commit, w.start})
		}
	} else {
		s := step{op: w.op, key: w.key, value: w.value, start: w.start, commit: w.commit, source: w.source, gen: w.gen}
		if w.live {
			kp.step(stepPrewrite, w.prewrite, s)
			kp.step(stepCommit, w.outcome, s)
		} else {
			kp.step(stepPut, w.outcome, s)
		}
	}
	kp.newest, kp.known, kp.previous = w.commit, true, nil
	if w.op == mvcc.Put {
		kp.previous = w.value
	}
	return nil
}

// reach makes the value before w the old value that w was recorded with. Where
// that is not what the stream left there, a write came between that TiKV did
// not show: a row that a column reorganisation rewrote.
func (kp *keyPlan) reach(w *write) error {
	if !kp.known {
		if w.old != nil {
			kp.seeds = append(kp.seeds, seed{kv: KV{w.key, w.old}})
		}
		return nil
	}
	if bytes.Equal(kp.previous, w.old) {
		return nil
	}
	at := max(kp.newest, kp.rec.StartTS) + 1
	if at >= w.commit {
		return fmt.Errorf("line %d: the old value of key %X is not its previous value, and no ts lies between", w.line, w.key)
	}
	s := step{op: mvcc.Put, key: w.key, value: w.old, start: at.Prev(), commit: at, source: hidden}
	if w.old == nil {
		s.op = mvcc.Delete
	}
	kp.step(stepLoad, kp.at, s)
	return nil
}

// others plans the writes that came to nothing: rolled back ones, and those
// that were still open when the recording ended, which are rolled back then.
// A key holds one lock at a time: where the recorded order of lines would have
// two, only the rollback is told.
func (kp *keyPlan) others(others, commits []*write) {
	slices.SortStableFunc(others, func(x, y *write) int { return cmp.Compare(x.prewrite, y.prewrite) })
	free := 0
	for _, w := range others {
		open := !w.rolled
		if open {
			w.outcome = kp.end
		}
		s := step{op: w.op, key: w.key, value: w.value, start: w.start, source: w.source, gen: w.gen}
		kp.rank = 0
		if w.prewrite < w.outcome && w.prewrite >= free && !overlaps(w, commits) {
			if !kp.known && w.old != nil {
				kp.seeds = append(kp.seeds, seed{kv: KV{w.key, w.old}})
				kp.known = true
			}
			kp.step(stepPrewrite, w.prewrite, s)
			free = w.outcome + 1
		} else if open {
			continue
		}
		kp.step(stepRollback, w.outcome, s)
	}
}

func overlaps(w *write, commits []*write) bool {
	return slices.ContainsFunc(commits, func(c *write) bool {
		from := c.outcome
		if c.live {
			from = c.prewrite
		}
		return w.prewrite <= c.outcome && from <= w.outcome
	})
}

func (kp *keyPlan) step(kind stepKind, at int, s step) {
	s.kind, s.at, s.rank = kind, at, kp.rank
	kp.rank++
	kp.at = at
	kp.steps = append(kp.steps, s)
}

// lifetime is the time to live of recorded locks, in milliseconds: whoever wrote one
// lives until the recording says what became of it, at whatever speed that is
// replayed. Nobody else may end it.
const lifetime = 365 * 24 * 3600 * 1000

// apply does one step to a store.
func (s *step) apply(st *mvcc.Store) (mvcc.Change, error) {
	l := mvcc.Lock{
		Op: s.op, Key: s.key, Value: s.value, Primary: s.key,
		StartTS: s.start, TTL: lifetime, TxnSource: s.source, Generation: s.gen,
	}
	// A version above start-ts means that the transaction took a pessimistic
	// lock after it. When exactly is not recorded; no earlier than this.
	if v := st.Newest(s.key); v != nil && v.CommitTS > s.start {
		l.ForUpdateTS = v.CommitTS
	}
	var ch mvcc.Change
	var err error
	switch s.kind {
	case stepPrewrite:
		ch, err = st.Prewrite(l)
	case stepCommit:
		ch, err = st.Commit(s.key, s.start, s.commit)
	case stepPut:
		ch, err = st.Put(l, s.commit)
	case stepRollback:
		ch, err = st.Rollback(s.key, s.start)
	case stepLoad:
		st.Load(s.key, mvcc.Version{StartTS: s.start, CommitTS: s.commit, Op: s.op, Value: s.value, TxnSource: s.source})
	default:
		err = errors.New("not a write")
	}
	if err != nil {
		return ch, cdcerr.Bug("replay, line %d: %v", s.at+1, err)
	}
	return ch, nil
}
