package span

import (
	"container/heap"
	"fmt"

	"github.com/google/btree"

	"github.com/sluice-cdc/sluice/tso"
)

// Frontier holds a resolved-ts for every key of one span and knows the least.
// Forward on a part of a piece splits the piece; pieces that meet with the same
// resolved-ts stay apart until Forward covers both (region borders move seldom,
// so pieces stay about as many as regions). Not safe for concurrent use.
type Frontier struct {
	whole  Span
	pieces *btree.BTreeG[*piece]
	lowest lowest
}

type piece struct {
	start, end Key
	ts         tso.TS
	at         int // index in lowest
}

// NewFrontier starts every key of s at ts.
func NewFrontier(s Span, ts tso.TS) *Frontier {
	f := &Frontier{
		whole:  s,
		pieces: btree.NewG(16, func(a, b *piece) bool { return a.start < b.start }),
	}
	f.add(&piece{start: s.Start, end: s.End, ts: ts})
	return f
}

// Min is the resolved-ts of the whole span.
func (f *Frontier) Min() tso.TS { return f.lowest[0].ts }

// Len is the number of pieces held.
func (f *Frontier) Len() int { return len(f.lowest) }

// Slowest is one piece whose resolved-ts is Min.
func (f *Frontier) Slowest() (Span, tso.TS) {
	p := f.lowest[0]
	return Span{TableID: f.whole.TableID, Start: p.start, End: p.end}, p.ts
}

// Forward raises every key of s to at least ts and reports whether Min rose.
// Keys of s outside the frontier's span are ignored.
func (f *Frontier) Forward(s Span, ts tso.TS) bool {
	before := f.Min()
	s, ok := s.Intersect(f.whole)
	if !ok {
		return false
	}
	for _, p := range f.overlapping(s) {
		if p.ts >= ts {
			continue
		}
		f.cut(p, s)
		p.ts = ts
		heap.Fix(&f.lowest, p.at)
	}
	return f.Min() > before
}

// MinOf is the least resolved-ts of the keys of s.
func (f *Frontier) MinOf(s Span) tso.TS {
	least := tso.Max
	for _, p := range f.overlapping(s) {
		least = min(least, p.ts)
	}
	return least
}

// Check verifies that the pieces cover the whole span without gap or overlap (P2).
func (f *Frontier) Check() error {
	want, first := f.whole.Start, true
	var err error
	f.pieces.Ascend(func(p *piece) bool {
		if p.start != want || (!first && want == "") {
			err = fmt.Errorf("frontier of %v: piece starts at %X, the one before ends at %X", f.whole, p.start, want)
		}
		want, first = p.end, false
		return err == nil
	})
	if err == nil && want != f.whole.End {
		err = fmt.Errorf("frontier of %v: last piece ends at %X", f.whole, want)
	}
	return err
}

func (f *Frontier) add(p *piece) {
	f.pieces.ReplaceOrInsert(p)
	heap.Push(&f.lowest, p)
}

// cut shrinks p to its part in s; the rest becomes pieces of its own at p's ts.
func (f *Frontier) cut(p *piece, s Span) {
	if s.End != "" && (p.end == "" || s.End < p.end) {
		f.add(&piece{start: s.End, end: p.end, ts: p.ts})
		p.end = s.End
	}
	if p.start < s.Start {
		f.pieces.Delete(p)
		f.add(&piece{start: p.start, end: s.Start, ts: p.ts})
		p.start = s.Start
		f.pieces.ReplaceOrInsert(p)
	}
}

func (f *Frontier) overlapping(s Span) []*piece {
	var out []*piece
	f.pieces.DescendLessOrEqual(&piece{start: s.Start}, func(p *piece) bool {
		if p.end == "" || p.end > s.Start {
			out = append(out, p)
		}
		return false
	})
	f.pieces.AscendGreaterOrEqual(&piece{start: s.Start}, func(p *piece) bool {
		if s.End != "" && p.start >= s.End {
			return false
		}
		if len(out) == 0 || out[0] != p {
			out = append(out, p)
		}
		return true
	})
	return out
}

// lowest is a heap of pieces by resolved-ts.
type lowest []*piece

func (h lowest) Len() int           { return len(h) }
func (h lowest) Less(i, j int) bool { return h[i].ts < h[j].ts }
func (h lowest) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *lowest) Push(x any) {
	p := x.(*piece)
	p.at = len(*h)
	*h = append(*h, p)
}
func (h *lowest) Pop() any {
	old := *h
	p := old[len(old)-1]
	*h = old[:len(old)-1]
	return p
}
