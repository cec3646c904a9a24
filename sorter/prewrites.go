package sorter

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Prewrites is the account of one subscription's prewrites, and their place on
// disk past a part of the quota. It is used by one goroutine, except for Tight.
type Prewrites struct {
	sorter *Sorter
	held   int64
	sets   map[uint64][]*prewriteSet // by registration, the oldest first
	views  views                     // of segments that the sets use
}

// prewriteSet is what was put away at once of one registration: a segment with
// one run. The key there is the run's number (zero), start-ts and key; the value is the
// generation, the length of the new value, the new value and the old one.
type prewriteSet struct {
	segment     *segment
	first, last []byte // keys
	left        int    // not asked for yet
}

// NewPrewrites opens an account.
func (s *Sorter) NewPrewrites() *Prewrites {
	return &Prewrites{sorter: s, sets: make(map[uint64][]*prewriteSet)}
}

// Hold adds to what the subscription holds in memory; negative bytes give back. It
// never waits, since what it counts is there already: rows make room for it.
func (p *Prewrites) Hold(bytes int64) {
	s := p.sorter
	switch before := p.held; {
	case before == 0 && bytes > 0:
		s.holders.Add(1)
	case before > 0 && before+bytes == 0:
		s.holders.Add(-1)
	}
	p.held += bytes
	s.lent.Add(bytes)
	if bytes < 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wakeLocked()
	}
}

// The parts of the quota that prewrites of all subscriptions may take together:
// above the first they are put away, where there is a place; above the second, by
// which what is on its way still finds room, nobody should ask for more.
const (
	awayShare  = 4
	tightShare = 2
)

// Tight tells that so much is lent that nobody should ask for more of it. Rows do
// not count: they make room, and what they wait for may be just what is asked for.
func (p *Prewrites) Tight() bool { return p.sorter.lent.Load() > p.sorter.quota/tightShare }

// Excess is how many bytes should be put away: all, where there are too many in
// sum and this subscription holds no less than most do.
func (p *Prewrites) Excess() int64 {
	s := p.sorter
	if p.held == 0 || s.disk == nil {
		return 0
	}
	sum := s.lent.Load()
	if sum <= s.quota/awayShare || p.held < sum/max(s.holders.Load(), 1) {
		return 0
	}
	return p.held
}

// PutAway writes prewrites of one registration to disk, which come in the order of
// start-ts and key and make up so many bytes.
func (p *Prewrites) PutAway(registration uint64, size int64, sorted iter.Seq[event.Prewrite]) error {
	d := p.sorter.disk
	d.sweep()
	if err := d.admit(size); err != nil {
		return err
	}
	w, err := d.create()
	if err != nil {
		return err
	}
	set := &prewriteSet{segment: w.segment}
	w.next = 1
	for e := range sorted {
		w.key = prewriteKey(w.key[:0], e.StartTS, e.Key)
		if set.first == nil {
			set.first = slices.Clone(w.key)
		}
		w.value = binary.AppendUvarint(w.value[:0], e.Generation)
		w.value = binary.AppendUvarint(w.value, uint64(len(e.Value)))
		w.value = append(append(w.value, e.Value...), e.Old...)
		if err := w.table.Set(w.key, w.value); err != nil {
			w.abort()
			return d.fail(err, "writing "+w.segment.path)
		}
		set.left++
	}
	if set.left == 0 {
		w.abort()
		return nil
	}
	set.last = slices.Clone(w.key)
	if err := w.finish(); err != nil {
		return err
	}
	set.segment.use()
	p.sets[registration] = append(p.sets[registration], set)
	return nil
}

func prewriteKey(dst []byte, start tso.TS, key []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(start))
	return append(dst, key...)
}

// TakeBack looks for prewrites by start-ts and key, in that order, and tells found
// of each one with the index of what it was wanted for: the earlier put away first.
// What was found is given up.
func (p *Prewrites) TakeBack(registration uint64, wanted []event.Prewrite, found func(i int, e event.Prewrite)) error {
	sets := p.sets[registration]
	for _, set := range sets {
		if err := p.search(set, wanted, found); err != nil {
			return err
		}
	}
	rest := sets[:0]
	for _, set := range sets {
		if set.left > 0 {
			rest = append(rest, set)
			continue
		}
		if err := p.end(set); err != nil {
			return err
		}
	}
	if p.sets[registration] = rest; len(rest) == 0 {
		delete(p.sets, registration)
	}
	p.sorter.sweep()
	return nil
}

// stepsMax is how many entries are passed over before a seek is the shorter way.
const stepsMax = 8

// search finds what one set has of what is wanted.
func (p *Prewrites) search(set *prewriteSet, wanted []event.Prewrite, found func(i int, e event.Prewrite)) error {
	var key []byte
	keyOf := func(i int) []byte {
		key = prewriteKey(key[:0], wanted[i].StartTS, wanted[i].Key)
		return key
	}
	first, _ := slices.BinarySearchFunc(wanted, set.first, func(e event.Prewrite, k []byte) int {
		key = prewriteKey(key[:0], e.StartTS, e.Key)
		return bytes.Compare(key, k)
	})
	if first == len(wanted) || bytes.Compare(keyOf(first), set.last) > 0 {
		return nil
	}
	it, err := p.views.of(set.segment)
	if err != nil {
		return err
	}
	kv := it.SeekGE(key, 0)
	for i := first; i < len(wanted) && bytes.Compare(keyOf(i), set.last) <= 0; i++ {
		for steps := 0; kv != nil && bytes.Compare(kv.K.UserKey, key) < 0; steps++ {
			if steps < stepsMax {
				kv = it.Next()
			} else {
				kv = it.SeekGE(key, 0)
			}
		}
		if kv == nil {
			break // an error, since the last key is there
		}
		if !bytes.Equal(kv.K.UserKey, key) {
			continue
		}
		value, _, err := kv.Value(nil)
		if err != nil {
			return set.segment.fail(err)
		}
		e, ok := parsePrewrite(value)
		if !ok {
			return cdcerr.SorterIO.New("%s holds what nobody wrote under key %X", set.segment.path, key)
		}
		e.StartTS, e.Key = wanted[i].StartTS, wanted[i].Key
		set.left--
		found(i, e)
	}
	switch err := it.Error(); {
	case err != nil:
		return set.segment.fail(err)
	case kv == nil:
		return cdcerr.SorterIO.New("%s ends before its last key %X", set.segment.path, set.last)
	}
	return nil
}

// parsePrewrite copies what a value holds.
func parsePrewrite(value []byte) (e event.Prewrite, ok bool) {
	generation, width := binary.Uvarint(value)
	if width <= 0 {
		return e, false
	}
	rest := value[width:]
	n, width := binary.Uvarint(rest)
	if width <= 0 || n > uint64(len(rest)-width) {
		return e, false
	}
	rest = slices.Clone(rest[width:])
	e.Generation, e.Value, e.Old = generation, rest[:n:n], rest[n:]
	if len(e.Old) == 0 {
		e.Old = nil
	}
	return e, true
}

// Drop gives up what was put away for a registration.
func (p *Prewrites) Drop(registration uint64) {
	for _, set := range p.sets[registration] {
		if err := p.end(set); err != nil {
			p.sorter.disk.warn("closing a table", err)
		}
	}
	delete(p.sets, registration)
	p.sorter.sweep()
}

// end gives a set up.
func (p *Prewrites) end(set *prewriteSet) error {
	err := p.views.end(set.segment)
	set.segment.leave()
	set.segment.drop()
	return err
}

// Close gives everything up.
func (p *Prewrites) Close() {
	for registration := range p.sets {
		p.Drop(registration)
	}
	if p.held != 0 {
		p.Hold(-p.held)
	}
}
