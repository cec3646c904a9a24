package span

import "slices"

// Set is a set of keys, kept as disjoint spans in order. The zero Set is empty.
type Set struct{ spans []Span }

// Add puts every key of s in the set.
func (z *Set) Add(s Span) {
	if s.Empty() {
		return
	}
	kept := z.spans[:0:0]
	for _, o := range z.spans {
		if !o.Overlaps(s) && o.End != s.Start && (s.End != o.Start || s.End == "") {
			kept = append(kept, o)
			continue
		}
		s.Start = min(s.Start, o.Start)
		if s.End == "" || o.End == "" {
			s.End = ""
		} else {
			s.End = max(s.End, o.End)
		}
	}
	z.spans = append(kept, s)
	slices.SortFunc(z.spans, byStart)
}

// Remove takes every key of s out of the set.
func (z *Set) Remove(s Span) {
	var kept []Span
	for _, o := range z.spans {
		kept = append(kept, o.Subtract(s)...)
	}
	z.spans = kept
}

// Spans are the disjoint spans of the set in key order.
func (z *Set) Spans() []Span { return slices.Clone(z.spans) }

// Missing is what of s is not in the set.
func (z *Set) Missing(s Span) []Span {
	left := []Span{s}
	for _, o := range z.spans {
		var next []Span
		for _, l := range left {
			next = append(next, l.Subtract(o)...)
		}
		left = next
	}
	return left
}

func byStart(a, b Span) int {
	switch {
	case a.Start < b.Start:
		return -1
	case a.Start > b.Start:
		return 1
	}
	return 0
}
