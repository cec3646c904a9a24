package scheduler

import (
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// touch makes a span's status news.
func (c *Capture) touch(h *held) {
	if c.last != h {
		c.unlink(h)
		h.prev = c.last
		if c.last != nil {
			c.last.next = h
		} else {
			c.first = h
		}
		c.last = h
	}
	if c.news == nil {
		c.news = h
	}
	c.changes++
	h.status.Change = c.changes
}

func (c *Capture) unlink(h *held) {
	if c.news == h {
		c.news = h.next
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else if c.first == h {
		c.first = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else if c.last == h {
		c.last = h.prev
	}
	h.prev, h.next = nil, nil
}

// acknowledged lets what the owner knows be no news any more, and what has stopped be
// forgotten.
func (c *Capture) acknowledged(upto uint64) {
	c.ack = max(c.ack, upto)
	for c.news != nil && c.news.status.Change <= c.ack {
		h := c.news
		c.news = h.next
		if h.status.Phase == Stopped {
			c.unlink(h)
			delete(c.held, h.status.Span)
		}
	}
}

// heed takes what holds rows back.
func (c *Capture) heed(b Barrier) {
	if !b.Known {
		return
	}
	c.barrier = b
	if c.cfg.Gated && b.Gate < c.gate && c.err == nil {
		// Owners begin with the meta that is on the storage, and those before cannot put
		// another one: it does not go back.
		c.err = cdcerr.RedoGap.New("an owner has told that the redo log's meta on the storage has everything up to %d, and owner %d tells of %d: a meta that was there is gone, and rows above it may be downstream (P5)", c.gate, c.owner, b.Gate)
	}
	c.gate = max(c.gate, b.Gate) // what a meta said is durable, whoever tells it
	for _, p := range b.Tables {
		c.pass(p.Table, p.TS)
	}
}

// pass lets a table go on.
func (c *Capture) pass(id span.TableID, upto tso.TS) {
	all := c.blocks[id]
	n := 0
	for n < len(all) && all[n] <= upto {
		n++
	}
	switch {
	case n == 0:
	case n == len(all):
		delete(c.blocks, id)
	default:
		c.blocks[id] = all[n:]
	}
}

// Schema says up to where this capture knows every DDL, and which have come since, in
// order.
func (c *Capture) Schema(resolved tso.TS, blocks ...Block) {
	for _, b := range blocks {
		for _, id := range b.Tables {
			c.hold(id, b.TS)
		}
		if !c.cfg.Gated {
			continue // nobody has their spans before it is done
		}
		for _, id := range b.Added {
			c.hold(id, b.TS)
		}
	}
	c.schema = max(c.schema, resolved)
}

// hold lets a table wait at a DDL, unless that is known to be done.
func (c *Capture) hold(id span.TableID, ts tso.TS) {
	if all := c.blocks[id]; len(all) > 0 && all[len(all)-1] == ts {
		return
	}
	c.blocks[id] = append(c.blocks[id], ts)
	c.pass(id, c.upto(id))
}

// upto is up to where the DDLs of a table are known to be done.
func (c *Capture) upto(id span.TableID) tso.TS {
	ts := c.barrier.Passed
	for _, p := range c.barrier.Tables {
		if p.Table == id {
			ts = max(ts, p.TS)
		}
	}
	return ts
}

// block is the next DDL of a table that is not done.
func (c *Capture) block(id span.TableID) (tso.TS, bool) {
	if len(c.blocks) == 0 {
		return 0, false
	}
	c.pass(id, c.barrier.Passed)
	if all := c.blocks[id]; len(all) > 0 {
		return all[0], true
	}
	return 0, false
}

// Limit is up to where rows of a span may be written: the schema is known, no sync
// point and no DDL of the table lies before (P6), and the redo log has them (P5). It
// rises by Step and Schema.
func (c *Capture) Limit(s span.Span) tso.TS {
	if !c.barrier.Known {
		return 0
	}
	limit := min(c.schema, c.barrier.Sync)
	if c.cfg.Gated {
		limit = min(limit, c.gate)
	}
	if b, ok := c.block(s.TableID); ok {
		limit = min(limit, b)
	}
	return limit
}

// Gate is up to where the redo log has every row of every span, durably: what becomes
// this capture's span has to be logged from there on only. 0 as long as nobody told.
func (c *Capture) Gate() tso.TS { return c.gate }

// Logged says up to where the redo log has every row of all spans whose Write was among
// Work and that have not Ended, tso.Max where there are none, and in which files. Spans
// whose Write is still to come out of Tick are not in it: until then it says nothing of
// resolved.
func (c *Capture) Logged(resolved tso.TS, extents []byte) {
	c.extents = extents
	if !c.unheard {
		c.logged = resolved
	}
}

// Tick is one beat, or a reason to tell at once: what is to be done, and the report.
func (c *Capture) Tick(l capture.Liveness) CaptureReady {
	r := CaptureReady{Work: c.work}
	c.work, c.unheard = nil, false
	if c.owner == 0 {
		return r
	}
	c.seqOut++
	rep := &Report{
		Head: Head{Owner: c.owner, Epoch: c.cfg.Epoch, Capture: c.cfg.ID, Incarnation: c.cfg.Incarnation, Term: c.term, Seq: c.seqOut},
		Upto: c.ack, Complete: true, Writes: c.writes, Extents: c.extents, Liveness: l,
	}
	if c.writes > 0 {
		rep.Floor = Progress{c.checkpoints.min(), c.resolved.min()}
		if c.cfg.Gated {
			rep.Floor.Resolved = max(rep.Floor.Checkpoint, c.logged)
		}
	}
	if !c.known {
		rep.Fault = c.cfg.Fault
	}
	for h := c.news; h != nil; h = h.next {
		if len(rep.Statuses) == c.cfg.StatusesMax {
			rep.Complete = false
			break
		}
		rep.Statuses = append(rep.Statuses, h.status)
		rep.Upto = h.status.Change
	}
	r.Report = rep
	return r
}

// Held is what the capture has of a span.
func (c *Capture) Held(s span.Span) (Status, bool) {
	if h := c.held[s]; h != nil {
		return h.status, true
	}
	return Status{}, false
}

// Len is how many spans it has something of.
func (c *Capture) Len() int { return len(c.held) }

// Term is the leave under which it writes: the sink's fence.
func (c *Capture) Term() Term { return c.term }

// Statuses are all that the capture has of spans, by the number of their last change.
func (c *Capture) Statuses() []Status {
	out := make([]Status, 0, len(c.held))
	for h := c.first; h != nil; h = h.next {
		out = append(out, h.status)
	}
	return out
}

// Barrier is what the owner of the moment, or the last one, has told of it.
func (c *Capture) Barrier() Barrier { return c.barrier }

// Owner is the owner of the moment, 0 before any was heard.
func (c *Capture) Owner() Revision { return c.owner }
