package shells_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// downstream takes rows, DDLs and sync points, and knows what it must never see.
type downstream struct {
	fenced    bool // it refuses writers below their floor, and keeps a record of DDLs
	floors    map[capture.ID]scheduler.Term
	fence     scheduler.Revision
	applied   int // rows of the log before it are all here
	highest   tso.TS
	synced    tso.TS // the last sync point
	syncEvery int64
	rows      int
	ddls      int
	syncs     int
	refused   int // writes
}

func (d *downstream) nextSync() tso.TS {
	if d.syncEvery == 0 {
		return tso.Max
	}
	return tso.New((d.synced.Physical()/d.syncEvery+1)*d.syncEvery, 0)
}

// batch is what is on its way to the downstream.
type batch struct {
	by       *node
	term     scheduler.Term
	deadline time.Time
	replayed tso.TS // nobody else had written above
	rows     []*row
	grants   []uint64
}

// arriveLocked is the moment at which a batch becomes durable, or is refused.
func (w *world) arriveLocked(b *batch) error {
	d := &w.down
	if d.fenced {
		floor, ok := d.floors[b.by.id]
		if !ok && b.term.Owner() >= d.fence {
			d.floors[b.by.id], ok = 0, true
		}
		if !ok || b.term < floor {
			d.refused++
			return cdcerr.Fenced.New("term %d of %s, the floor is at %d", b.term, b.by.id, floor)
		}
	}
	for i, r := range b.rows {
		w.rowLocked(b, r, b.grants[i])
	}
	return nil
}

// rowLocked takes one row of a writer whose placement is grant.
func (w *world) rowLocked(b *batch, r *row, grant uint64) {
	d, s := &w.down, r.of
	for _, c := range s.ddls {
		switch {
		case !c.done && r.CommitTS > c.SwitchTS:
			w.failLocked("P6: %s writes row %d of table %d before DDL %d at %d", b.by.id, r.CommitTS, s.shape.ID, c.JobID, c.SwitchTS)
		case c.begun && r.CommitTS <= c.SwitchTS:
			w.failLocked("P6: %s writes row %d of table %d after DDL %d at %d was begun", b.by.id, r.CommitTS, s.shape.ID, c.JobID, c.SwitchTS)
		}
	}
	if r.applied && r.CommitTS > b.replayed {
		w.failLocked("%s was told that nobody has written above %d, and row %d of table %d is downstream", b.by.id, b.replayed, r.CommitTS, s.shape.ID)
	}
	if r.CommitTS > d.nextSync() {
		w.failLocked("P6: %s writes row %d before sync point %d", b.by.id, r.CommitTS, d.nextSync())
	}
	if was := s.grants[string(r.Key)]; grant < was {
		w.failLocked("P1: %s writes row %d of table %d by placement %d after placement %d did", b.by.id, r.CommitTS, s.shape.ID, grant, was)
	}
	for _, n := range w.nodes {
		if n == b.by || !w.effectiveLocked(n) {
			continue
		}
		for _, st := range n.spans() {
			if st.Span.TableID == s.shape.ID && st.Span.Contains(span.EncodeKey(r.Key)) && (st.Phase == scheduler.Writing || st.Phase == scheduler.Stopping) {
				w.failLocked("P1: %s writes row %d of table %d while %s is %v with it", b.by.id, r.CommitTS, s.shape.ID, n.id, st.Phase)
			}
		}
	}
	w.inLogLocked(b.by, "row", r.CommitTS, s.shape.ID)
	s.grants[string(r.Key)] = grant
	r.applied = true
	s.content[string(r.Key)] = r.CommitTS
	d.rows++
	d.highest = max(d.highest, r.CommitTS)
}

// inLogLocked checks that what goes downstream is in the redo log (P5).
func (w *world) inLogLocked(by *node, what string, ts tso.TS, of int64) {
	if w.storage != nil && ts > w.storage.meta.Resolved {
		w.failLocked("P5: %s has %s %d of %d go downstream, and the log's meta says %d", by.id, what, ts, of, w.storage.meta.Resolved)
	}
}

// effectiveLocked tells whether what a node writes now could become durable.
func (w *world) effectiveLocked(n *node) bool {
	if w.down.fenced {
		floor, ok := w.down.floors[n.id]
		return ok && n.part != nil && n.part.Term() >= floor
	}
	return time.Now().Before(n.lease)
}

// wholeLocked tells what is missing of everything up to ts.
func (w *world) wholeLocked(ts tso.TS) (missing string) {
	d := &w.down
	for d.applied < len(w.up.log) && w.up.log[d.applied].applied {
		d.applied++
	}
	if d.applied < len(w.up.log) && w.up.log[d.applied].CommitTS <= ts {
		r := w.up.log[d.applied]
		return text("row %d of table %d", r.CommitTS, r.of.shape.ID)
	}
	for _, c := range w.up.ddls {
		if c.SwitchTS <= ts && !c.done {
			return text("DDL %d at %d", c.JobID, c.SwitchTS)
		}
	}
	return ""
}

// rowSink is a capture's.
type rowSink struct {
	w    *world
	n    *node
	part *agent.Part
	term scheduler.Term
	sent []batch

	grants map[span.Span]uint64

	replayed func() tso.TS // up to here others may have written
}

// Write lets some of it become durable on the way.
func (s *rowSink) Write(ctx context.Context, leave sink.Leave, txns []event.Txn) error {
	if err := leave.Check(); err != nil {
		return err
	}
	for _, st := range s.part.Spans() {
		if st.Grant != 0 {
			s.grants[st.Span] = uint64(st.Grant)
		}
	}
	g := leave()
	b := batch{by: s.n, term: scheduler.Term(g.Fence), deadline: g.Deadline, replayed: s.replayed()}
	s.w.mu.Lock()
	if b.term != s.term {
		s.w.failLocked("P1: a sink opened under term %d writes under %d", s.term, b.term)
	}
	for i := range txns {
		for _, r := range txns[i].Rows {
			id, _, _ := mount.ParseRecordKey(r.Key)
			b.rows = append(b.rows, s.w.up.all[id].byTS[r.CommitTS])
			b.grants = append(b.grants, s.grantOf(id, span.EncodeKey(r.Key)))
		}
	}
	early := s.w.rng.IntN(3) == 0
	s.w.mu.Unlock()
	s.sent = append(s.sent, b)
	if early {
		return s.send(ctx, leave)
	}
	return nil
}

// grantOf is the latest placement under which a key is written here.
func (s *rowSink) grantOf(table int64, key span.Key) (grant uint64) {
	for of, g := range s.grants {
		if of.TableID == table && of.Contains(key) {
			grant = max(grant, g)
		}
	}
	return grant
}

func (s *rowSink) Flush(ctx context.Context) error {
	for len(s.sent) > 0 {
		if err := s.send(ctx, s.flushed()); err != nil {
			return err
		}
	}
	return nil
}

// flushed is the leave under which what was written is flushed: that of its moment.
func (s *rowSink) flushed() sink.Leave {
	return func() sink.Grant { return sink.Grant{Deadline: s.w.leaseOf(s.n), Epoch: 1, Fence: uint64(s.term)} }
}

// send lets one batch arrive. What was sent by a process that died may arrive later.
func (s *rowSink) send(ctx context.Context, leave sink.Leave) error {
	b := s.sent[0]
	s.sent = s.sent[1:]
	if err := leave.Check(); err != nil {
		return err
	}
	b.deadline = leave().Deadline
	s.w.at(s.n)
	defer s.w.at(s.n)
	err := s.w.pass(ctx, 15)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.n.stuck && err == nil {
		err = s.w.hangLocked(ctx)
	}
	if err != nil {
		if s.n.dead && (s.n.stuck || s.w.rng.IntN(2) == 0) {
			s.w.late++
			if s.w.down.fenced && s.w.rng.IntN(2) == 0 {
				s.w.stragglers = append(s.w.stragglers, b)
				return err
			}
			time.AfterFunc(time.Duration(s.w.rng.IntN(3000))*time.Millisecond, func() {
				s.w.mu.Lock()
				defer s.w.mu.Unlock()
				if !s.w.over && (s.w.down.fenced || time.Now().Before(b.deadline)) {
					_ = s.w.arriveLocked(&b) // who would hear of it is gone
				}
			})
		}
		return err
	}
	if !s.w.down.fenced && !time.Now().Before(b.deadline) {
		return cdcerr.LeaveEnded.New("on its way")
	}
	// What fails may have arrived.
	err = s.w.injectedLocked()
	if err != nil && s.w.rng.IntN(2) == 0 {
		return err
	}
	return errors.Join(s.w.arriveLocked(&b), err)
}

func (s *rowSink) Whole() bool { return false }
func (s *rowSink) DDL(context.Context, sink.Leave, *event.DDL) error {
	return cdcerr.Bug("a capture carries a DDL out")
}
func (s *rowSink) SyncPoint(context.Context, sink.Leave, event.SyncPoint) error {
	return cdcerr.Bug("a capture notes a sync point")
}
func (s *rowSink) Checkpoint(context.Context, tso.TS) error {
	return cdcerr.Bug("a capture's sink is told of a checkpoint")
}
func (s *rowSink) Close() error { return nil }

// ddlSink is an owner's, in a downstream that keeps no record and refuses nobody.
type ddlSink struct {
	w   *world
	n   *node
	rev scheduler.Revision
}

// fullSink is one's that does.
type fullSink struct{ ddlSink }

func (w *world) openForOwner(n *node, rev scheduler.Revision) (sink.Sink, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := ddlSink{w, n, rev}
	if err := w.injectedLocked(); err != nil {
		return nil, err
	}
	if !w.down.fenced {
		return s, nil
	}
	if rev < w.down.fence {
		return nil, cdcerr.Fenced.New("the record's fence is at %d", w.down.fence)
	}
	w.down.fence = rev
	return fullSink{s}, nil
}

func (s ddlSink) Write(context.Context, sink.Leave, []event.Txn) error {
	return cdcerr.Bug("an owner writes rows")
}
func (s ddlSink) Flush(context.Context) error { return cdcerr.Bug("an owner flushes") }
func (s ddlSink) Whole() bool                 { return false }
func (s ddlSink) Close() error                { return nil }

func (s ddlSink) refusedLocked() error {
	if s.w.down.fenced && s.rev < s.w.down.fence {
		return cdcerr.Fenced.New("the record's fence is at %d", s.w.down.fence)
	}
	return nil
}

// DDL is begun, and done a while later: rows have to be right at both.
func (s ddlSink) DDL(ctx context.Context, leave sink.Leave, d *event.DDL) error {
	if err := leave.Check(); err != nil {
		return err
	}
	w := s.w
	w.at(s.n)
	defer w.at(s.n)
	w.mu.Lock()
	c := w.up.ddls[d.JobID-1]
	err := s.refusedLocked()
	w.inLogLocked(s.n, "DDL", c.SwitchTS, c.JobID)
	switch {
	case err != nil:
	case c.done:
		w.againLocked(c)
	default:
		w.dueLocked(c)
		c.begun = true
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	w.at(s.n)
	if err := w.pass(ctx, 100); err != nil {
		return err
	}
	if err := leave.Check(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := s.refusedLocked(); err != nil {
		return err
	}
	failed := w.injectedLocked()
	if failed != nil && w.rng.IntN(2) == 0 {
		return failed // it was begun
	}
	if !c.done {
		w.down.ddls++
	}
	c.done = true
	return failed
}

// againLocked checks that nothing is downstream that a DDL which is carried out once more
// would destroy.
func (w *world) againLocked(c *change) {
	tables := slices.Clone(c.touched)
	for _, t := range c.Tables {
		if t.After != nil {
			tables = append(tables, w.up.all[t.After.ID])
		}
	}
	for _, s := range tables {
		for _, r := range s.rows {
			if r.applied && r.CommitTS > c.SwitchTS {
				w.failLocked("P6: DDL %d at %d is carried out again after row %d of table %d", c.JobID, c.SwitchTS, r.CommitTS, s.shape.ID)
			}
		}
	}
}

// dueLocked checks that a DDL's time has come.
func (w *world) dueLocked(c *change) {
	for _, s := range c.touched {
		for s.applied < len(s.rows) && s.rows[s.applied].applied {
			s.applied++
		}
		if s.applied < len(s.rows) && s.rows[s.applied].CommitTS <= c.SwitchTS {
			w.failLocked("P6: DDL %d at %d is carried out before row %d of table %d", c.JobID, c.SwitchTS, s.rows[s.applied].CommitTS, s.shape.ID)
		}
		for _, e := range s.ddls {
			if e.SwitchTS < c.SwitchTS && !e.done {
				w.failLocked("P6: DDL %d at %d is carried out before DDL %d at %d", c.JobID, c.SwitchTS, e.JobID, e.SwitchTS)
			}
		}
	}
	if c.SwitchTS > w.down.nextSync() {
		w.failLocked("P6: DDL %d at %d is carried out before sync point %d", c.JobID, c.SwitchTS, w.down.nextSync())
	}
	if !w.down.fenced && w.durable.Checkpoint < c.SwitchTS.Prev() {
		w.failLocked("P6: DDL %d at %d is carried out without a record, and %d is durable", c.JobID, c.SwitchTS, w.durable.Checkpoint)
	}
}

func (s ddlSink) SyncPoint(ctx context.Context, leave sink.Leave, p event.SyncPoint) error {
	if err := leave.Check(); err != nil {
		return err
	}
	s.w.at(s.n)
	defer s.w.at(s.n)
	if err := s.w.pass(ctx, 30); err != nil {
		return err
	}
	if err := leave.Check(); err != nil {
		return err
	}
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := s.refusedLocked(); err != nil {
		return err
	}
	failed := w.injectedLocked()
	if failed != nil && w.rng.IntN(2) == 0 {
		return failed
	}
	w.inLogLocked(s.n, "sync point", p.TS, 0)
	if d := &w.down; p.TS > d.synced {
		if missing := w.wholeLocked(p.TS); missing != "" || p.TS != d.nextSync() {
			w.failLocked("P6: sync point %d is noted, %d was next, missing %q", p.TS, d.nextSync(), missing)
		}
		d.synced = p.TS
		d.syncs++
	} else if d.highest > p.TS {
		w.failLocked("P6: sync point %d is noted again after row %d", p.TS, d.highest)
	}
	return failed
}

func (s ddlSink) Checkpoint(_ context.Context, ts tso.TS) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if ts > s.w.durable.Checkpoint {
		s.w.failLocked("P3: the sink hears that %d is durable, and %d is", ts, s.w.durable.Checkpoint)
	}
	return nil
}

func (s fullSink) Fences() bool { return true }

func (s fullSink) Raise(ctx context.Context, id string, term uint64) error {
	s.w.at(s.n)
	defer s.w.at(s.n)
	if err := s.w.pass(ctx, 40); err != nil {
		return err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if err := s.refusedLocked(); err != nil {
		return err
	}
	err := s.w.injectedLocked()
	if err == nil && s.w.rng.Float64() < s.w.weather.fence {
		err = errInjected
	}
	if err == nil || s.w.rng.IntN(2) == 0 {
		s.w.down.floors[capture.ID(id)] = max(s.w.down.floors[capture.ID(id)], scheduler.Term(term))
	}
	return err
}

func (s fullSink) Floors(context.Context) (out []string, err error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for id := range s.w.down.floors {
		out = append(out, string(id))
	}
	slices.Sort(out)
	return out, nil
}

func (s fullSink) Keeps() bool { return true }

func (s fullSink) Recorded(context.Context) (out []sink.Recorded, err error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, c := range s.w.up.ddls {
		if c.begun {
			x := sink.Recorded{Job: c.JobID, TS: c.SwitchTS, Done: c.done}
			for _, t := range c.touched {
				x.Tables = append(x.Tables, t.shape.ID)
			}
			out = append(out, x)
		}
	}
	return out, nil
}
