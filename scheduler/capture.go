package scheduler

import (
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// CaptureConfig is one life of the capture's half of one changefeed.
type CaptureConfig struct {
	ID    capture.ID
	Epoch uint64
	// Incarnation is higher than that of any life before in this process: Capture.Next
	// makes the next one.
	Incarnation uint64
	// Floor is the least owner who may be obeyed: the revision of the owner that was
	// read from etcd after this capture's own key was there, or, if there was none,
	// the revision of that read plus one. It keeps an owner that was deposed before
	// this capture was known to its successor from giving it anything.
	Floor Revision
	// Gated tells that there is a redo log: without a word of the log's meta nothing may
	// be written.
	Gated bool
	// Fault is what ended the life before, "" for nothing.
	Fault string
	// StatusesMax bounds one report.
	StatusesMax int
}

// StatusesMax is the bound for a report: a quarter of a megabyte on the wire, and four milliseconds of the owner's time.
const StatusesMax = 2048

// Capture is the capture's half: it does what the owner of the moment says, and tells
// what it has.
type Capture struct {
	cfg     CaptureConfig
	owner   Revision
	term    Term
	seqIn   uint64
	seqOut  uint64
	ack     uint64
	known   bool // the owner of the moment knows this life
	barrier Barrier
	gate    tso.TS // the highest that any owner told
	err     error  // what cannot be, of what owners told
	logged  tso.TS // up to where the redo log has all spans that are written
	extents []byte // ... in these files
	unheard bool   // a span of those is in work
	schema  tso.TS
	blocks  map[span.TableID][]tso.TS // DDLs that are not done, in order

	held        map[span.Span]*held
	first, last *held // all of them, by the number of their last change
	news        *held // the first whose last change is not acknowledged
	changes     uint64
	checkpoints tally // of those that may write
	resolved    tally
	writes      int
	work        []Work
}

// held is a span that this capture has something of.
type held struct {
	prev, next *held
	status     Status
	told       tso.TS // the last block whose reaching it told
}

// Work is what the shell has to do, in this order, each before the next.
type Work struct {
	Verb Verb // Reset stands for all spans
	Span span.Span
	From tso.TS // of Write: the redo log needs its rows above it, but not below Capture.Gate
	Term Term   // of Write: the sink's fence
}

// Reset among Work ends everything that the half has, before anything new begins: the
// capture was fenced off.
const Reset Verb = Stop + 1

// CaptureReady is what follows: work first, then the report.
type CaptureReady struct {
	Work   []Work
	Report *Report // nil while no owner is known
}

// Block is a DDL as a capture sees it: rows of these tables above TS wait. So do those
// of the tables that it adds, where a redo log needs their rows before it is done.
type Block struct {
	TS     tso.TS
	Tables []span.TableID
	Added  []span.TableID
}

// NewCapture begins a life that has nothing.
func NewCapture(cfg CaptureConfig) (*Capture, error) {
	switch {
	case cfg.ID == "" || cfg.Incarnation == 0:
		return nil, cdcerr.InvalidArgument.New("ID %q, Incarnation %d: both must be given", cfg.ID, cfg.Incarnation)
	case cfg.StatusesMax <= 0:
		return nil, cdcerr.InvalidArgument.New("StatusesMax %d: must be above 0", cfg.StatusesMax)
	}
	return newCapture(cfg), nil
}

func newCapture(cfg CaptureConfig) *Capture {
	return &Capture{
		cfg: cfg, held: map[span.Span]*held{}, logged: tso.Max,
		blocks: map[span.TableID][]tso.TS{}, checkpoints: newTally(), resolved: newTally(),
	}
}

// Next is the next life, after everything of this one has ended; fault says why. It
// obeys nobody whom this one did not obey any more: an owner that was deposed meanwhile
// would find a capture that knows of no other.
func (c *Capture) Next(fault string) *Capture {
	cfg := c.cfg
	cfg.Incarnation++
	cfg.Floor, cfg.Fault = max(cfg.Floor, c.owner), fault
	return newCapture(cfg)
}

// Step takes orders.
func (c *Capture) Step(m Orders) {
	if deposed(m.Owner, c.owner) || deposed(m.Owner, c.cfg.Floor) || otherEpoch(m.Epoch, c.cfg.Epoch) ||
		elsewhere(m.Capture, c.cfg.ID) {
		return
	}
	if elected(m.Owner, c.owner) {
		c.owner, c.seqIn, c.ack, c.known = m.Owner, 0, 0, false
		c.news = c.first
	}
	if late(m.Seq, c.seqIn) || otherLife(m.Incarnation, c.cfg.Incarnation) {
		return // of another life: that there is an owner, who has to be told of this one, is all that it says
	}
	c.seqIn = m.Seq
	if m.Term > c.term {
		c.reset(m.Term)
	}
	c.heed(m.Barrier)
	if m.Incarnation == 0 || outgrown(m.Term, c.term) {
		return // who asks does not know what there is
	}
	c.known, c.cfg.Fault = true, "" // who is elected later need not know: it may have spans again
	c.acknowledged(m.Ack)
	for _, x := range m.Orders {
		c.obey(x)
	}
}

// Err is not nil once what owners have told cannot be: this life has to end, and say so.
func (c *Capture) Err() error { return c.err }

// reset forgets everything: what was written under the old term is refused from now on,
// and somebody else has the spans.
func (c *Capture) reset(t Term) {
	if c.term != 0 {
		c.work = append(c.work[:0], Work{Verb: Reset})
		c.held = map[span.Span]*held{}
		c.first, c.last, c.news = nil, nil, nil
		c.checkpoints, c.resolved, c.writes = newTally(), newTally(), 0
	}
	c.term = t
}

// obey does one order. What cannot be done is answered by what is the case.
func (c *Capture) obey(x Order) {
	h := c.held[x.Span]
	if h == nil {
		h = c.take(x)
		if x.Verb == Prepare {
			c.work = append(c.work, Work{Verb: Prepare, Span: x.Span, From: x.From})
		} else {
			h.status.Phase = Stopped // it was never here, or is not any more
		}
		c.touch(h)
		return
	}
	was := h.status.Phase
	switch x.Verb {
	case Prepare, Reset:
	case Write:
		switch h.status.Phase {
		case Prepared:
			h.status.Grant = x.Grant
			h.status.Checkpoint = max(h.status.Checkpoint, x.From)
			h.status.Resolved = max(h.status.Resolved, h.status.Checkpoint)
			c.phase(h, Writing)
			c.work = append(c.work, Work{Verb: Write, Span: x.Span, From: x.From, Term: c.term})
			// Of this span the log has what everybody's log has, and the shell does not
			// know of it yet.
			c.logged, c.unheard = min(c.logged, max(x.From, c.gate)), true
		case Absent, Preparing, Writing, Stopping, Stopped:
		}
	case Stop:
		switch h.status.Phase {
		case Preparing, Prepared:
			h.status.Checkpoint = 0 // it has written nothing
			c.phase(h, Stopped)
			c.work = append(c.work, Work{Verb: Stop, Span: x.Span})
		case Writing:
			c.phase(h, Stopping)
			c.work = append(c.work, Work{Verb: Stop, Span: x.Span})
		case Absent, Stopping, Stopped:
		}
	}
	// What is not acknowledged is told again in any case, and must not look newer than
	// what the owner has seen: it would take it for the answer to its next order.
	if h.status.Phase != was || h.status.Change <= c.ack {
		c.touch(h)
	}
}

func (c *Capture) take(x Order) *held {
	h := &held{status: Status{Span: x.Span, Phase: Preparing}}
	if x.Verb == Prepare {
		h.status.Checkpoint, h.status.Resolved = x.From, x.From
	}
	c.held[x.Span] = h
	return h
}

// phase changes a span's phase, and with it whether the floor counts it.
func (c *Capture) phase(h *held, to Phase) {
	was, is := counts(h.status.Phase), counts(to)
	h.status.Phase = to
	switch {
	case is && !was:
		c.checkpoints.add(h.status.Checkpoint)
		c.resolved.add(h.status.Resolved)
		c.writes++
	case was && !is:
		c.checkpoints.remove(h.status.Checkpoint)
		c.resolved.remove(h.status.Resolved)
		c.writes--
	}
}

// counts tells whether rows may still be written in this phase.
func counts(p Phase) bool { return p == Writing || p == Stopping }

// Prepared says that a span's rows have arrived up to where its primary is about.
func (c *Capture) Prepared(s span.Span, resolved tso.TS) {
	if h := c.held[s]; h != nil && h.status.Phase == Preparing {
		h.status.Resolved = max(h.status.Resolved, resolved)
		c.phase(h, Prepared)
		c.touch(h)
	}
}

// Progress says how far a span is that is written.
func (c *Capture) Progress(s span.Span, p Progress) {
	h := c.held[s]
	if h == nil || !counts(h.status.Phase) {
		return
	}
	c.forward(h, p)
	if b, ok := c.block(s.TableID); ok && h.told < b && h.status.Checkpoint >= b {
		h.told = b
		c.touch(h)
	}
}

func (c *Capture) forward(h *held, p Progress) {
	if p.Checkpoint > h.status.Checkpoint {
		c.checkpoints.remove(h.status.Checkpoint)
		c.checkpoints.add(p.Checkpoint)
		h.status.Checkpoint = p.Checkpoint
	}
	if p.Resolved > h.status.Resolved {
		c.resolved.remove(h.status.Resolved)
		c.resolved.add(p.Resolved)
		h.status.Resolved = p.Resolved
	}
}

// Load says how a span is loaded. Only what is another by an eighth, or traffic by a
// quarter, is news.
func (c *Capture) Load(s span.Span, regions uint32, traffic uint64) {
	h := c.held[s]
	if h == nil || h.status.Phase != Writing {
		return
	}
	if z := &h.status; apart(uint64(z.Regions), uint64(regions), 8) || apart(z.Traffic, traffic, 4) {
		z.Regions, z.Traffic = regions, traffic
		c.touch(h)
	}
}

func apart(a, b, nth uint64) bool {
	a, b = min(a, b), max(a, b)
	return b > a && b-a >= b/nth
}

// Ended says that nothing of a span is written any more, after Stop, and up to where
// it was.
func (c *Capture) Ended(s span.Span, checkpoint tso.TS) {
	if h := c.held[s]; h != nil && h.status.Phase == Stopping {
		c.forward(h, Progress{checkpoint, checkpoint})
		c.phase(h, Stopped)
		c.touch(h)
	}
}
