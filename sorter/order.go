package sorter

import "slices"

// runMean is the mean length of ascending runs from which on merging them beats
// sorting anew.
const runMean = 8

// order sorts entries. Rows of one region come in commit order, a message at a
// time, so entries are mostly a few dozen ascending runs: those are found and
// merged, pair by pair. Spare is memory as long as entries; what is not the result
// of the two comes back as the next spare.
func order(entries, spare []entry, starts []int) (sorted, rest []entry, bounds []int) {
	starts = ascending(entries, starts[:0])
	if len(starts) == 1 || len(entries) == 0 {
		return entries, spare, starts
	}
	if len(entries) < runMean*len(starts) {
		slices.SortFunc(entries, entry.compare)
		return entries, spare, starts
	}
	spare = slices.Grow(spare[:0], len(entries))[:len(entries)]
	for len(starts) > 1 {
		n := 0
		for i := 0; i < len(starts); i += 2 {
			from, middle, to := starts[i], len(entries), len(entries)
			if i+1 < len(starts) {
				middle = starts[i+1]
			}
			if i+2 < len(starts) {
				to = starts[i+2]
			}
			mergeInto(spare[from:to], entries[from:middle], entries[middle:to])
			starts[n] = from
			n++
		}
		starts = starts[:n]
		entries, spare = spare, entries
	}
	return entries, spare, starts
}

// ascending appends where each ascending run begins.
func ascending(entries []entry, starts []int) []int {
	for i := range entries {
		if i == 0 || entries[i-1].compare(entries[i]) > 0 {
			starts = append(starts, i)
		}
	}
	return starts
}

// mergeInto merges two sorted runs.
func mergeInto(dst, a, b []entry) {
	for len(a) > 0 && len(b) > 0 {
		if a[0].compare(b[0]) <= 0 {
			dst[0], a = a[0], a[1:]
		} else {
			dst[0], b = b[0], b[1:]
		}
		dst = dst[1:]
	}
	copy(dst[copy(dst, a):], b)
}
