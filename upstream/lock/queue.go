package lock

import (
	"time"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Visit is the wish to search a part of a region for locks with start-ts at or
// below Target.
type Visit struct {
	Region uint64
	Span   span.Span // memcomparable keys
	Target tso.TS
}

// Queue bounds visits: how many may wait, and how often one region is searched.
type Queue struct {
	waitMax int
	every   time.Duration

	waiting []Visit
	last    map[place]time.Duration // when a visit was wished for; swept when it has grown
	sweepAt int
	refused uint64
}

type place struct {
	region uint64
	start  span.Key
}

// NewQueue makes a Queue in which up to waitMax visits may wait, each region's
// once in every.
func NewQueue(waitMax int, every time.Duration) *Queue {
	return &Queue{waitMax: waitMax, every: every, last: map[place]time.Duration{}, sweepAt: 2 * waitMax}
}

// Want takes a visit up, unless the same was wished for less than the interval
// ago, or too many wait: then it is wished for again soon enough.
func (q *Queue) Want(v Visit, now time.Duration) bool {
	at := place{v.Region, v.Span.Start}
	if last, ok := q.last[at]; ok && now-last < q.every {
		return false
	}
	if len(q.waiting) >= q.waitMax {
		q.refused++
		return false
	}
	q.sweep(now)
	q.last[at] = now
	q.waiting = append(q.waiting, v)
	return true
}

// Next takes the visit that has waited longest.
func (q *Queue) Next() (Visit, bool) {
	if len(q.waiting) == 0 {
		return Visit{}, false
	}
	v := q.waiting[0]
	q.waiting = q.waiting[1:]
	return v, true
}

// Waiting is how many visits wait.
func (q *Queue) Waiting() int { return len(q.waiting) }

// Refused is how many visits were turned away because too many waited.
func (q *Queue) Refused() uint64 { return q.refused }

// sweep forgets visits that no longer count, once in a while.
func (q *Queue) sweep(now time.Duration) {
	if len(q.last) < q.sweepAt {
		return
	}
	for at, last := range q.last { // the order does not matter: each is judged alone
		if now-last >= q.every {
			delete(q.last, at)
		}
	}
	q.sweepAt = max(2*q.waitMax, 2*len(q.last))
}
