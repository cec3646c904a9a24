package span

import "fmt"

// Span is the range [Start, End) of encoded keys; an empty End has no end.
type Span struct {
	TableID TableID
	Start   Key
	End     Key
}

// OfTable is the span of all rows of a physical table, without its indexes.
func OfTable(id TableID) Span {
	start := RecordPrefix(id)
	end := append(AppendInt([]byte{'t'}, id), '_', 's')
	return Span{TableID: id, Start: EncodeKey(start), End: EncodeKey(end)}
}

// OfMeta is the span of all schema metadata (raw keys that start with m).
func OfMeta() Span {
	return Span{Start: EncodeKey([]byte{'m'}), End: EncodeKey([]byte{'n'})}
}

// String shows the range in hexadecimal, as TiKV logs do.
func (s Span) String() string {
	return fmt.Sprintf("table %d [%X, %X)", s.TableID, string(s.Start), string(s.End))
}

// Empty tells whether no key is inside.
func (s Span) Empty() bool { return s.End != "" && s.Start >= s.End }

// Contains tells whether k is inside.
func (s Span) Contains(k Key) bool { return s.Start <= k && (s.End == "" || k < s.End) }

// Covers tells whether every key of o is inside s.
func (s Span) Covers(o Span) bool {
	return s.Start <= o.Start && (s.End == "" || (o.End != "" && o.End <= s.End))
}

// Overlaps tells whether some key is in both.
func (s Span) Overlaps(o Span) bool {
	return (o.End == "" || s.Start < o.End) && (s.End == "" || o.Start < s.End)
}

// Intersect is the part of s that is in o as well, with s's TableID; ok is
// false where there is none.
func (s Span) Intersect(o Span) (_ Span, ok bool) {
	out := s
	if o.Start > out.Start {
		out.Start = o.Start
	}
	out.End = minEnd(s.End, o.End)
	return out, s.Overlaps(o) && !out.Empty()
}

// Subtract is what remains of s without o: none, one or two spans in order.
func (s Span) Subtract(o Span) []Span {
	if !s.Overlaps(o) {
		return []Span{s}
	}
	var out []Span
	if s.Start < o.Start {
		out = append(out, Span{TableID: s.TableID, Start: s.Start, End: o.Start})
	}
	if o.End != "" && (s.End == "" || o.End < s.End) {
		out = append(out, Span{TableID: s.TableID, Start: o.End, End: s.End})
	}
	return out
}

// minEnd is the earlier of two ends, the empty one being the latest.
func minEnd(a, b Key) Key {
	if a == "" || (b != "" && b < a) {
		return b
	}
	return a
}
