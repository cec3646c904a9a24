// Package span owns key ranges and their algebra.
//
// A Span is a half-open range [Start, End) of memcomparable-encoded keys, the
// form in which PD and TiKV speak of ranges; TableID says whose rows it holds.
// Keys of rows inside events are raw; EncodeKey and DecodeKey lead from one
// form to the other.
//
// A Frontier folds the resolved-ts of many sub-ranges into the one of the
// whole: its minimum. It is what P2 (whole cover) is checked against: a gap in
// the cover can never let the minimum rise.
package span
