package transport

import (
	"slices"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/changefeed"
)

// ordersMax is how many orders of one changefeed wait for one capture: what an owner
// hands out in four ticks, 4 MiB at the most, and what a stream takes in some tens of
// milliseconds. Those that give way are given again after a second.
const ordersMax = 8

// line is what waits in one order, and is bounded by itself.
type line struct {
	peer       capture.ID
	changefeed changefeed.ID
	kind       kind
}

// backlog is what waits, in turn by line, so that no changefeed waits for another's
// messages. It has no lock: its owner has.
type backlog struct {
	by   map[line][]Received
	turn []line // those that hold something, each once
	n    int
}

// push lets a message wait, and tells how many gave way to it.
func (q *backlog) push(l line, r Received) (lost int) {
	if q.by == nil {
		q.by = map[line][]Received{}
	}
	waiting := q.by[l]
	if len(waiting) == 0 {
		q.turn = append(q.turn, l)
	}
	limit := 1
	if l.kind == kindOrders {
		limit = ordersMax
	}
	if len(waiting) == limit {
		waiting = append(waiting[:0], waiting[1:]...)
		q.n--
		lost = 1
	}
	q.by[l] = append(waiting, r)
	q.n++
	return lost
}

// pop is the next in turn.
func (q *backlog) pop() (Received, bool) {
	if len(q.turn) == 0 {
		return Received{}, false
	}
	l := q.turn[0]
	q.turn = slices.Delete(q.turn, 0, 1)
	waiting := q.by[l]
	r := waiting[0]
	q.n--
	if waiting = waiting[1:]; len(waiting) == 0 {
		delete(q.by, l)
	} else {
		q.by[l] = waiting
		q.turn = append(q.turn, l)
	}
	return r, true
}

// drop forgets a line.
func (q *backlog) drop(l line) {
	if waiting := q.by[l]; len(waiting) > 0 {
		q.n -= len(waiting)
		delete(q.by, l)
		q.turn = slices.DeleteFunc(q.turn, func(o line) bool { return o == l })
	}
}
