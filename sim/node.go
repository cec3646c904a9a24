package sim

import (
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Time in the world's ticks. A node's clock runs up to driftMax hundredths fast or
// slow, and the margin is what makes up for it.
const (
	leaseTTL    = 40
	driftMax    = 4
	leaseMargin = 4 // leaseTTL × 2 × driftMax / 100, rounded up
)

// node is one run of one server: the capture's half with the least shell that will do,
// and the owner's if it was elected.
type node struct {
	id    capture.ID
	at    int // its slot in the network
	half  *scheduler.Capture
	lead  *lead
	life  capture.Liveness
	drain bool // an operator wants it empty; known to etcd
	deaf  bool // it cannot follow all of the upstream, gets nothing ready, and says so

	asleep     int // the step until which it does nothing
	away       int // the step until which it does not reach etcd
	drift      int64
	leaseUntil int64 // by its own clock
	expires    int64 // by etcd's
	registered bool
	schema     int // DDLs of the upstream that it knows

	spans []*writing
	life0 int // which life of the half
	files int // of the redo log, in this life
}

// writing is one span's data path.
type writing struct {
	span   span.Span
	source *source
	lo, hi int
	next   int    // index of the first row that was not written
	at     tso.TS // everything of the span up to here is downstream
	term   scheduler.Term
	grant  uint64
	phase  scheduler.Verb // Stop while it ends
	batch  *batch
	// loggedTo is up to where the redo log has its rows.
	loggedTo tso.TS
}

// batch is what is on its way to the downstream.
type batch struct {
	rows     []*row
	upto     tso.TS
	deadline int64 // by the node's clock
}

func (n *node) paused(w *world) bool { return n.asleep > w.steps }

func (n *node) cutOff(w *world) bool { return n.away > w.steps }

func (n *node) clock(now int64) int64 { return now + now*n.drift/100 }

// begin starts the next life of the half.
func (n *node) begin(w *world, fault string) {
	n.half, n.spans, n.schema = n.half.Next(fault), n.spans[:0], 0
	n.life0, n.files = n.life0+1, 0
	n.learn(w)
}

// learn takes the schema up to where the upstream is.
func (n *node) learn(w *world) {
	var blocks []scheduler.Block
	for ; n.schema < len(w.up.ddls); n.schema++ {
		d := w.up.ddls[n.schema]
		blocks = append(blocks, scheduler.Block{TS: d.TS, Tables: d.Tables, Added: d.Added})
	}
	n.half.Schema(w.up.now, blocks...)
}

// tick does the work that was asked for, and reports.
func (n *node) tick(w *world) {
	r := n.half.Tick(n.life)
	for _, x := range r.Work {
		n.work(w, x)
	}
	if r.Report != nil {
		if r.Report.Deaf = n.deaf; n.deaf {
			r.Report.Warning = "it is not well"
		}
		w.send(packet{from: n.at, to: w.ownerOf(r.Report.Owner), report: r.Report})
	}
}

func (n *node) work(w *world, x scheduler.Work) {
	i := n.find(x.Span)
	switch x.Verb {
	case scheduler.Reset:
		n.spans = n.spans[:0] // what is on its way is refused by the fence
	case scheduler.Prepare:
		s := &writing{span: x.Span, source: w.up.source(x.Span.TableID), at: x.From, phase: scheduler.Prepare}
		s.lo, s.hi = keysOf(w.wholes.of(x.Span.TableID), x.Span)
		n.spans = append(n.spans, s)
	case scheduler.Write:
		s := n.spans[i]
		st, _ := n.half.Held(x.Span)
		s.at, s.term, s.grant, s.phase = x.From, x.Term, uint64(st.Grant), scheduler.Write
		for s.next < len(s.source.rows) && s.source.rows[s.next].ts <= s.at {
			s.next++
		}
		n.join(s)
		w.begins(n, s)
	case scheduler.Stop:
		s := n.spans[i]
		if s.phase == scheduler.Prepare {
			n.spans = append(n.spans[:i], n.spans[i+1:]...)
			return
		}
		s.phase = scheduler.Stop
	}
}

func (n *node) find(s span.Span) int {
	for i, x := range n.spans {
		if x.span == s {
			return i
		}
	}
	return -1
}

// step moves one span's data path on.
func (n *node) step(w *world, a, b uint32) {
	if len(n.spans) == 0 {
		return
	}
	s := n.spans[int(a)%len(n.spans)]
	if w.lazy > 0 && s.phase != scheduler.Write && b%w.lazy != 0 {
		return
	}
	switch s.phase {
	case scheduler.Prepare:
		if w.up.now >= s.at && !n.deaf {
			n.half.Prepared(s.span, w.up.now)
		}
	case scheduler.Write:
		if w.gated { // the log's reader, the sink's, or both
			if b%4 != 1 {
				n.record(w, s, b>>4)
			}
			if b%4 == 2 {
				return
			}
		}
		if s.batch != nil {
			n.flush(w, s)
			return
		}
		n.write(w, s, b>>8)
	case scheduler.Stop:
		if s.batch != nil {
			n.flush(w, s)
			return
		}
		n.half.Ended(s.span, s.at)
		i := n.find(s.span)
		n.spans = append(n.spans[:i], n.spans[i+1:]...)
		n.logged(w)
	}
}

// write puts the next rows on their way, as far as they may be written.
func (n *node) write(w *world, s *writing, b uint32) {
	limit := min(n.half.Limit(s.span), w.up.now)
	if limit <= s.at {
		n.half.Progress(s.span, scheduler.Progress{Checkpoint: s.at, Resolved: max(s.at, w.up.now)})
		return
	}
	x := &batch{upto: limit, deadline: n.leaseUntil}
	most := 1 + int(b%4)
	for i := s.next; i < len(s.source.rows) && s.source.rows[i].ts <= limit; i++ {
		if r := s.source.rows[i]; r.key >= s.lo && r.key < s.hi {
			if len(x.rows) == most {
				x.upto = r.ts.Prev()
				break
			}
			x.rows = append(x.rows, r)
		}
	}
	s.batch = x
}

// flush is the moment at which what was on its way becomes durable, or is refused.
func (n *node) flush(w *world, s *writing) {
	x := s.batch
	s.batch = nil
	if w.fenced {
		floor, ok := w.down.floors[n.id]
		if !ok && s.term.Owner() >= w.down.fence {
			w.down.floors[n.id], ok = 0, true
		}
		if !ok || s.term < floor {
			if w.nodes[n.at] == n {
				n.begin(w, "the downstream refuses a fenced writer")
			}
			return
		}
	} else if n.clock(w.now) >= x.deadline {
		if n.clock(w.now) >= n.leaseUntil || w.nodes[n.at] != n {
			return // no leave: it waits, or the session is over
		}
		x.deadline = n.leaseUntil
	}
	for _, r := range x.rows {
		if err := w.down.apply(r, n.id, s.grant, s.hi-s.lo < keys); err != nil {
			w.fail(err)
			return
		}
	}
	s.at = x.upto
	for s.next < len(s.source.rows) && s.source.rows[s.next].ts <= s.at {
		s.next++
	}
	n.half.Progress(s.span, scheduler.Progress{Checkpoint: s.at, Resolved: max(s.at, w.up.now)})
}
