package lock

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluice-cdc/sluice/tso"
)

// store is all of TiKV that locks need: what a store answers to each question,
// and what it does while it answers.
type store struct {
	cells map[string]*cell
	clock tso.TS
}

type cell struct {
	lock *Lock
	ends map[tso.TS]tso.TS // by start-ts: the commit-ts, 0 = rolled back
}

func (s *store) now() tso.TS { s.clock++; return s.clock }

// pass lets wall clock time go by.
func (s *store) pass(ms int64) { s.clock = tso.New(s.clock.Physical()+ms, 0) }

func (s *store) cell(key string) *cell {
	c := s.cells[key]
	if c == nil {
		c = &cell{ends: map[tso.TS]tso.TS{}}
		s.cells[key] = c
	}
	return c
}

// put sets a lock; false where the transaction was ended, or another one is there.
func (s *store) put(l Lock) bool {
	c := s.cell(string(l.Key))
	if _, ended := c.ends[l.StartTS]; ended || (c.lock != nil && c.lock.StartTS != l.StartTS) {
		return false
	}
	c.lock = &l
	return true
}

// end ends the lock of a transaction, if it is there.
func (s *store) end(key string, start, commit tso.TS) error {
	c := s.cell(key)
	if c.lock == nil || c.lock.StartTS != start {
		if was, ended := c.ends[start]; ended && was != commit {
			return fmt.Errorf("%s of %d: ended at %d, now at %d", key, start, was, commit)
		}
		return nil
	}
	if !c.lock.Pessimistic && commit != 0 && commit < c.lock.MinCommitTS && c.lock.Async {
		return fmt.Errorf("%s of %d: committed at %d, below its least %d", key, start, commit, c.lock.MinCommitTS)
	}
	c.lock, c.ends[start] = nil, commit
	return nil
}

func (s *store) status(a Ask) Status {
	key := string(a.Primary)
	c := s.cell(key)
	l := c.lock
	if l == nil || l.StartTS != a.StartTS {
		commit, ended := c.ends[a.StartTS]
		switch {
		case ended:
			return Status{CommitTS: commit}
		case !a.RollbackIfAbsent:
			return Status{Absent: true}
		case a.Pessimistic:
			return Status{Action: AbsentNothing}
		}
		c.ends[a.StartTS] = 0
		return Status{Action: AbsentRollback}
	}
	shown := *l
	switch {
	case string(l.Primary) != key:
		return Status{Mismatch: true}
	case l.Async && !a.ForceSync:
		return Status{TTLMS: l.TTLMS, Primary: &shown}
	case l.StartTS.Physical()+int64(l.TTLMS) >= a.Now.Physical():
		action := NoAction
		if l.MinCommitTS != 0 && a.Caller >= l.MinCommitTS {
			l.MinCommitTS = max(a.Caller+1, a.Now)
		}
		if a.Caller != 0 && l.MinCommitTS > a.Caller {
			action = CommitTSPushed
		}
		return Status{TTLMS: l.TTLMS, Primary: &shown, Action: action}
	case l.Pessimistic && a.Pessimistic:
		c.lock = nil
		return Status{Action: ExpiredPessimistic}
	}
	c.lock, c.ends[a.StartTS] = nil, 0
	return Status{Action: ExpiredRollback}
}

func (s *store) secondaries(keys [][]byte, start tso.TS) (there []Lock, commit tso.TS) {
	for _, k := range keys {
		c := s.cell(string(k))
		switch ended, ok := c.ends[start]; {
		case c.lock != nil && c.lock.StartTS == start && !c.lock.Pessimistic:
			there = append(there, *c.lock)
		case ok:
			commit = max(commit, ended)
		default:
			if c.lock != nil && c.lock.StartTS == start {
				c.lock = nil
			}
			c.ends[start] = 0
		}
	}
	return there, commit
}

// scan lists locks with start-ts up to max of the keys from a to b.
func (s *store) scan(from, to string, upto tso.TS) (out []Lock) {
	var keys []string
	for k, c := range s.cells {
		if k >= from && k < to && c.lock != nil && c.lock.StartTS <= upto {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		l := *s.cells[k].lock
		l.Key = []byte(k)
		out = append(out, l)
	}
	return out
}

// do carries a deed out on the keys from a to b.
func (s *store) do(d Deed, from, to string) error {
	if d.Pessimistic {
		for _, k := range d.Keys {
			if c := s.cell(string(k)); c.lock != nil && c.lock.StartTS == d.StartTS && c.lock.Pessimistic && c.lock.ForUpdateTS <= d.ForUpdateTS {
				c.lock = nil
			}
		}
		return nil
	}
	for _, k := range d.Keys {
		if err := s.end(string(k), d.StartTS, d.CommitTS); err != nil {
			return err
		}
	}
	for _, x := range d.Txns {
		for k, c := range s.cells { // each key alone: the order does not matter
			if k >= from && k < to && c.lock != nil && c.lock.StartTS == x.StartTS {
				if err := s.end(k, x.StartTS, x.CommitTS); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// owner is a transaction's client. A dead one does nothing any more.
type owner struct {
	start   tso.TS
	keys    []string // the first is the primary
	locked  int      // pessimistic locks taken
	written int
	order   []int // in which keys are written
	async   bool
	turned  bool // fell back from async commit half way
	commit  tso.TS
	ended   int
	dead    bool
	renewed tso.TS
	told    tso.TS // the commit-ts that its user was told
	broken  string // it was hindered though it lived
}

const ttlMS = 3000

func newOwner(s *store, rng *rand.Rand) *owner {
	o := &owner{start: s.now(), async: rng.IntN(2) == 0, renewed: s.clock}
	for _, i := range rng.Perm(12)[:1+rng.IntN(4)] {
		o.keys = append(o.keys, string(rune('a'+i)))
	}
	o.order = rng.Perm(len(o.keys))
	if rng.IntN(2) == 0 {
		o.locked = len(o.keys) // optimistic: no locks before the writes
	}
	return o
}

func (o *owner) lock(i int, s *store) Lock {
	l := Lock{Key: []byte(o.keys[i]), Primary: []byte(o.keys[0]), StartTS: o.start, MinCommitTS: s.now()}
	l.TTLMS = uint64(s.clock.Physical()-o.start.Physical()) + ttlMS
	if o.async && !o.turned {
		l.Async = true
		for _, k := range o.keys[1:] {
			if i == 0 {
				l.Secondaries = append(l.Secondaries, []byte(k))
			}
		}
	}
	return l
}

// step does the next thing; false when there is nothing left to do.
func (o *owner) step(s *store, rng *rand.Rand) bool {
	if o.dead || o.broken != "" || o.ended == len(o.keys) {
		return false
	}
	switch {
	case o.locked < len(o.keys) && o.written == 0:
		l := o.lock(o.locked, s)
		l.Pessimistic, l.Async, l.Secondaries, l.ForUpdateTS, l.MinCommitTS = true, false, nil, s.now(), 0
		if !s.put(l) {
			o.hindered(s, l.Key)
			return true
		}
		o.locked++
	case o.written < len(o.keys):
		i := o.order[o.written]
		if o.async && o.written > 0 && rng.IntN(10) == 0 {
			o.turned = true
		}
		if l := o.lock(i, s); !s.put(l) {
			o.hindered(s, l.Key)
			return true
		}
		o.written++
	default:
		o.finish(s)
	}
	return true
}

// exposed tells whether locks stand whose primary is not there yet: their own
// time to live is all that protects them.
func (o *owner) exposed(s *store) bool {
	l := s.cell(o.keys[0]).lock
	return !o.dead && o.broken == "" && o.written > 0 && o.written < len(o.keys) && (l == nil || l.StartTS != o.start)
}

// hindered: another's lock is in the way, then it gives up; or it was rolled
// back, which must not happen to one that lives.
func (o *owner) hindered(s *store, key []byte) {
	if _, ended := s.cell(string(key)).ends[o.start]; ended {
		o.broken = fmt.Sprintf("transaction %d lives and was ended at %s", o.start, key)
		return
	}
	o.dead = true
}

func (o *owner) finish(s *store) {
	if o.commit == 0 {
		o.commit = s.now()
		if o.async && !o.turned {
			o.commit = 0
			for _, k := range o.keys {
				l := s.cell(k).lock
				if l == nil || l.StartTS != o.start {
					o.broken = fmt.Sprintf("transaction %d lives and its lock at %s is gone", o.start, k)
					return
				}
				o.commit = max(o.commit, l.MinCommitTS)
			}
			o.told = o.commit // committed as soon as everything is written
		}
		return
	}
	key := o.keys[o.ended]
	c := s.cell(key)
	if o.ended == 0 && c.lock != nil && c.lock.StartTS == o.start && c.lock.MinCommitTS > o.commit && o.told == 0 {
		o.commit = 0 // pushed: commit later
		return
	}
	if o.ended == 0 && o.told == 0 && (c.lock == nil || c.lock.StartTS != o.start) {
		o.broken = fmt.Sprintf("transaction %d lives and its primary %s is gone", o.start, key)
		return
	}
	if err := s.end(key, o.start, o.commit); err != nil {
		o.broken = err.Error()
		return
	}
	o.told = o.commit
	o.ended++
}

// renew is the heartbeat: it comes while the time to live is far from over.
func (o *owner) renew(s *store) {
	if o.dead || s.clock.Physical()-o.renewed.Physical() < ttlMS/3 {
		return
	}
	o.renewed = s.clock
	if c := s.cell(o.keys[0]); c.lock != nil && c.lock.StartTS == o.start {
		c.lock.TTLMS = uint64(o.renewed.Physical()-o.start.Physical()) + ttlMS
	}
}
