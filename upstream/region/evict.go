package region

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Lot is prewrites of one registration that are to be put away.
type Lot struct {
	Of    uint64 // the registration: its Lots belong together
	Bytes int64  // of keys and values
	all   []kept
}

type kept struct {
	rowKey
	prewrite
}

// All are the prewrites by start-ts and key.
func (l *Lot) All() iter.Seq[event.Prewrite] {
	return func(yield func(event.Prewrite) bool) {
		for i := range l.all {
			p := &l.all[i]
			key := unsafe.Slice(unsafe.StringData(p.key), len(p.key)) // as it came
			if !yield(event.Prewrite{StartTS: p.start, Generation: p.generation, Key: key, Value: p.value, Old: p.old}) {
				return
			}
		}
	}
}

// sought is a commit, or another end, of a transaction that has prewrites put away.
type sought struct {
	h       *hold
	m       *matcher // h's
	e       Entry
	ended   bool // nothing comes of it
	scanned bool // without a prewrite the scan has delivered it
	count   int  // found so far
	p       prewrite
}

func (t *Tracker) newMatcher() *matcher {
	t.matchers++
	return newMatcher(t.matchers, &t.held)
}

// Evict gives up about so many bytes of prewrites, those of the registrations that
// hold most. They are to be put away until Sought asks for them; Gone says when
// nobody will.
func (t *Tracker) Evict(want int64) []Lot {
	var full []*hold
	for _, h := range t.regions { // to be sorted
		if h.match != nil && len(h.match.unmatched) > 0 {
			full = append(full, h)
		}
	}
	slices.SortFunc(full, func(a, b *hold) int {
		return cmp.Or(cmp.Compare(b.match.bytes, a.match.bytes), cmp.Compare(a.region.ID, b.region.ID))
	})
	var lots []Lot
	for _, h := range full {
		if want <= 0 {
			break
		}
		before := h.match.bytes
		lots = append(lots, h.match.evict())
		want -= before - h.match.bytes
	}
	return lots
}

// evict gives up all prewrites. Of each transaction their number and one key stay.
func (m *matcher) evict() Lot {
	l := Lot{Of: m.number, all: make([]kept, 0, len(m.unmatched))}
	for k, p := range m.unmatched { // to be sorted
		l.all = append(l.all, kept{k, p})
		l.Bytes += sizeOf(k, p)
	}
	m.hold(-len(l.all), -l.Bytes)
	slices.SortFunc(l.all, func(a, b kept) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return strings.Compare(a.key, b.key)
	})
	if m.away == nil {
		m.away = map[tso.TS]away{}
	}
	for rest := l.all; len(rest) > 0; {
		start, n := rest[0].start, 1
		for n < len(rest) && rest[n].start == start {
			n++
		}
		a, known := m.away[start]
		if !known {
			a.key = strings.Clone(rest[0].key) // not its message
			m.hold(1, int64(len(a.key)))
		}
		a.count += n
		m.away[start] = a
		rest = rest[n:]
	}
	m.unmatched, m.peak, m.everAway = map[rowKey]prewrite{}, 0, true
	return l
}

// found takes some of a transaction's prewrites off those that are away.
func (m *matcher) found(start tso.TS, count int) {
	a, put := m.away[start]
	if !put {
		return
	}
	if a.count -= count; a.count > 0 {
		m.away[start] = a
		return
	}
	delete(m.away, start)
	m.hold(-1, -int64(len(a.key)))
}

func (t *Tracker) seek(s sought) {
	s.m = s.h.match
	t.sought = append(t.sought, s)
}

// Sought are the prewrites that the rows of the last StepRows need and that may
// have been put away, by start-ts and key, all of one registration. They are to be
// looked for before anything else happens: each one found goes to StepFound, in
// the order in which it was put away, and StepMatched ends it.
func (t *Tracker) Sought() (of uint64, keys []event.Prewrite) {
	if len(t.sought) == 0 {
		return 0, nil
	}
	slices.SortStableFunc(t.sought, func(a, b sought) int {
		return cmp.Or(cmp.Compare(a.e.StartTS, b.e.StartTS), bytes.Compare(a.e.Key, b.e.Key))
	})
	keys = make([]event.Prewrite, len(t.sought))
	for i := range t.sought {
		keys[i].StartTS, keys[i].Key = t.sought[i].e.StartTS, t.sought[i].e.Key
	}
	return t.sought[0].m.number, keys
}

// StepFound takes a prewrite that was put away for the i-th of Sought.
func (t *Tracker) StepFound(i int, p event.Prewrite) {
	s := &t.sought[i]
	s.add(prewrite{value: p.Value, old: p.Old, generation: p.Generation})
}

func (s *sought) add(p prewrite) {
	if s.count == 0 || p.replaces(s.p) {
		s.p = p
	}
	s.count++
}

// StepMatched says that all has been found that there was.
func (t *Tracker) StepMatched() {
	for i := range t.sought {
		if t.out.Err != nil {
			break
		}
		t.out.Err = t.match(&t.sought[i])
	}
	clear(t.sought)
	t.sought = t.sought[:0]
}

// match goes on with a commit whose prewrites were looked for.
func (t *Tracker) match(s *sought) error {
	m := s.m
	m.found(s.e.StartTS, s.count)
	k := keyOf(&s.e)
	if p, ok := m.unmatched[k]; ok { // it came after the others were put away
		m.drop(k, p)
		s.add(p)
	}
	switch {
	case s.ended:
		return nil
	case s.count > 0 && !s.p.hollow(&s.e):
		return t.matched(s.h, &s.e, s.p)
	case s.scanned:
		return nil
	default:
		return t.unmatched(s.h, &s.e)
	}
}

// pending is an error if commits were left unlooked for.
func (t *Tracker) pending() error {
	if len(t.sought) == 0 {
		return nil
	}
	return cdcerr.Bug("%d commits were not looked for among what was put away; the first is of start-ts %d", len(t.sought), t.sought[0].e.StartTS)
}
