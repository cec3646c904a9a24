package mysql

import (
	"math"
	"math/bits"
	"time"
)

// A width is how many lanes get work. Their number is a bound and no more: a
// database of few cores that is given more transactions at once than it can work
// on takes several times as long for each row, because its threads wake and wait
// for each other at every latch. On two cores MariaDB writes half as much for
// sixteen connections as for four.
//
// What tells is how long a transaction takes beside how long it takes when next to
// nothing else is under way. As long as both are the same, because a commit mostly
// waits for a disk or for another machine, more lanes write more. The difference
// between them is time in which a transaction stands in line, so that
//
//	lanes × (1 − alone ÷ now)
//
// is how many stand in line at any time: one keeps the database busy, more only get
// into each other's way. How long it takes alone is found out anew every few hundred
// transactions, with the least width for a few of them. That is two: units are given
// to lanes before their turn comes, and beside a lane that waits for somebody else's
// lock there has to be one that goes on.
type width struct {
	limit float64 // lanes
	most  float64
	alone [48]time.Duration // the least time, by the size of the transaction in powers of two; 0: not known
	probe int               // transactions, begun at the least width, that are still to be measured
	since int               // transactions since the last of those
}

const (
	widthLeast = 2
	widthFirst = 4

	lineShort = 0.8 // in line: fewer than that and there is room for more
	lineLong  = 1.5 // more than that and there are too many

	probeEvery = 400
	probeFor   = 6
)

func newWidth(lanes int) *width {
	return &width{limit: math.Min(widthFirst, float64(lanes)), most: float64(lanes), probe: probeFor}
}

// lanes is how many may be given work now.
func (w *width) lanes() int {
	if w.probe > 0 {
		return int(math.Min(widthLeast, w.most))
	}
	return int(w.limit)
}

// done takes in how long a transaction of so many bytes took, and how many lanes
// were at work when it began, itself among them.
func (w *width) done(bytes int64, took time.Duration, busy int) {
	took = max(took, 1)
	alone := &w.alone[min(bits.Len64(uint64(max(bytes, 0))), len(w.alone)-1)] //nolint:gosec // not below 0
	if w.probe > 0 {
		if busy <= widthLeast {
			w.probe--
			if *alone == 0 || took < *alone {
				*alone = took
			}
		}
		return
	}
	if w.since++; w.since >= probeEvery {
		w.since, w.probe = 0, probeFor
		w.alone = [48]time.Duration{}
		return
	}
	if *alone == 0 || took < *alone {
		*alone = took
		return
	}
	line := float64(busy) * (1 - float64(*alone)/float64(took))
	switch {
	case line > lineLong:
		w.limit -= 1 / w.limit
	case line < lineShort && busy >= int(w.limit):
		w.limit += 1 / w.limit
	}
	w.limit = math.Max(math.Min(w.limit, w.most), math.Min(widthLeast, w.most))
}
