package api

import "slices"

// Work is what one capture does for a changefeed: rows of the tables that it has, and,
// as its owner, DDLs. It is of metrics: no path shows it.
type Work struct {
	ID    FeedID
	Rows  uint64 // that its sink has taken in this run
	Tally Tally
}

// Tally is what one capture's work on a changefeed has come to since it began.
type Tally struct {
	RunErrors   uint64 // runs that ended with an error, which only an owner counts
	SinkErrors  uint64 // errors of the downstream, also those that were ridden out
	Batches     Spread // rows of the batches that the sink got
	DDLs        Spread // seconds that a DDL took
	DDLsRunning int
}

// Spread is how often which values came: Counts has for each bound of Upto those at
// or below it and above the bound before, and no more; bounds rise.
type Spread struct {
	Upto   []float64
	Counts []uint64
	All    uint64
	Sum    float64
}

// Add counts a value.
func (s *Spread) Add(v float64) {
	s.All++
	s.Sum += v
	if len(s.Counts) < len(s.Upto) {
		s.Counts = make([]uint64, len(s.Upto))
	}
	if i, _ := slices.BinarySearch(s.Upto, v); i < len(s.Counts) {
		s.Counts[i]++
	}
}

// Clone is one of its own.
func (s *Spread) Clone() Spread {
	return Spread{Upto: slices.Clone(s.Upto), Counts: slices.Clone(s.Counts), All: s.All, Sum: s.Sum}
}

// Cumulated has for each bound how many values were at or below it.
func (s *Spread) Cumulated() map[float64]uint64 {
	out, sum := map[float64]uint64{}, uint64(0)
	for i, upto := range s.Upto {
		if i < len(s.Counts) {
			sum += s.Counts[i]
		}
		out[upto] = sum
	}
	return out
}
