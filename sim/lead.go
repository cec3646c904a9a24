package sim

import (
	"slices"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// lead is an owner's shell: the value, and what it has under way beside it.
type lead struct {
	node    *node
	rev     scheduler.Revision
	owner   *scheduler.Owner
	members []scheduler.Member // as they were read last
	schema  int                // DDLs of the upstream that it knows
	tasks   []task
	mark    scheduler.Watermark // the last that was asked to be saved
	saved   tso.TS              // the checkpoint that it knows to be durable
	log     scheduler.Log       // what the redo log's meta is to say
	extents map[string]int
}

// task is something that goes on beside the loop, with its outcome in any order.
type task struct {
	kind  taskKind
	fence scheduler.Fence
	ddl   int64
	begun bool   // the DDL
	after tso.TS // ... waits until this is durable
	mark  scheduler.Watermark
	cut   scheduler.CutRequest
}

type taskKind uint8

const (
	taskSave taskKind = iota
	taskFence
	taskDDL
	taskSync
	taskCut
	taskMeta
)

// elect gives the cluster to a node, if nobody has it.
func (w *world) elect(n *node) {
	if w.etcdOwner != nil || !n.registered || n.cutOff(w) || n.paused(w) || n.life == capture.Stopping {
		return
	}
	w.rev++
	w.etcdOwner, w.etcdRev = n, w.rev
	w.owners++
	l := &lead{node: n, rev: w.rev, extents: map[string]int{}}
	n.lead = l
	// The record's fence first; then what it protects is read.
	w.down.fence = max(w.down.fence, l.rev)
	l.members = w.members()
	r := scheduler.Resume{Watermark: w.down.saved}
	if w.gated {
		// The meta is this owner's own before its resolved-ts is read.
		w.down.log.owner = l.rev
		r.Gate = w.down.log.resolved
	}
	for _, s := range w.up.sources {
		if s.from <= r.Watermark.Checkpoint && !w.droppedBy(s, r.Watermark) {
			r.Tables = append(r.Tables, s.id)
			if s.wholeAt(r.Watermark.Checkpoint) {
				r.Whole = append(r.Whole, s.id)
			}
		}
	}
	for id := range w.down.floors {
		r.Writers = append(r.Writers, id)
	}
	slices.Sort(r.Writers)
	for _, c := range w.up.ddls {
		if w.down.record[c.Job] || c == w.down.begun {
			r.Recorded = c.TS
		}
	}
	cfg := w.ownerConfig
	cfg.Owner, cfg.Fenced = l.rev, w.fenced
	o, err := scheduler.New(cfg, r)
	if err != nil {
		w.fail(err)
		return
	}
	l.owner, l.mark, l.saved, l.log.Resolved = o, r.Watermark, r.Watermark.Checkpoint, r.Gate
	for l.schema < len(w.up.ddls) && w.up.ddls[l.schema].TS <= r.Watermark.Checkpoint {
		l.schema++
	}
}

// droppedBy tells whether a table is gone at a checkpoint.
func (w *world) droppedBy(s *source, at scheduler.Watermark) bool {
	return s.dropped && s.ddls[len(s.ddls)-1].TS <= at.Checkpoint
}

// learn takes the schema up to where the upstream is.
func (l *lead) learn(w *world) {
	for ; l.schema < len(w.up.ddls); l.schema++ {
		c := w.up.ddls[l.schema]
		d := c.DDL
		d.Done, d.Begun = w.down.record[d.Job], c == w.down.begun
		c.logged = true // durable before it counts
		l.owner.Schema(d.TS, d)
	}
	l.owner.Schema(w.up.now)
}

// tick is one beat of the owner's loop, or a look in between. What is asked for goes on
// beside it.
func (l *lead) tick(w *world, beat bool) {
	if !l.node.cutOff(w) {
		l.members = w.members()
	}
	step := l.owner.Look
	if beat {
		step = l.owner.Tick
	}
	r := step(scheduler.View{Members: l.members})
	if r.Err != nil {
		w.fail(breaks("P8", "%v", r.Err))
		return
	}
	for i := range r.Trace {
		w.causes[r.Trace[i].Why]++
		if err := l.owner.CheckTable(r.Trace[i].Span.TableID); err != nil {
			w.fail(breaks("P2", "%v", err))
			return
		}
	}
	if r.Watermark != l.mark {
		l.mark = r.Watermark
		if len(l.tasks) == 0 || l.tasks[len(l.tasks)-1].kind != taskSave {
			l.tasks = append(l.tasks, task{kind: taskSave})
		}
		l.tasks[len(l.tasks)-1].mark = r.Watermark
	}
	if w.gated {
		l.heedLog(w, r.Log)
	}
	for _, f := range r.Fences {
		l.tasks = append(l.tasks, task{kind: taskFence, fence: f})
	}
	for _, d := range r.DDLs {
		t := task{kind: taskDDL, ddl: d.Job}
		if d.Unrecorded {
			t.after = d.TS.Prev()
		}
		l.tasks = append(l.tasks, t)
	}
	if r.Sync != 0 {
		l.tasks = append(l.tasks, task{kind: taskSync, mark: scheduler.Watermark{Checkpoint: r.Sync}})
	}
	for _, c := range r.Cuts {
		l.tasks = append(l.tasks, task{kind: taskCut, cut: c})
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		w.send(packet{from: l.node.at, to: w.slotOf(m.Capture), orders: m})
	}
}

// choose is a task to go on with, -1 where all wait. Saves keep their order, as writes of
// one key do, and DDLs are carried out one at a time; one that waits holds no other up.
func (l *lead) choose(a uint32) int {
	due := func(t task) bool { return t.after <= l.saved }
	for n := range len(l.tasks) {
		i := (int(a) + n) % len(l.tasks)
		switch k := l.tasks[i].kind; {
		case !due(l.tasks[i]):
			continue
		case k == taskDDL:
			if j := slices.IndexFunc(l.tasks, func(t task) bool { return t.begun }); j >= 0 {
				return j
			}
			return slices.IndexFunc(l.tasks, func(t task) bool { return t.kind == k && due(t) })
		case k == taskSave:
			return slices.IndexFunc(l.tasks, func(t task) bool { return t.kind == k })
		}
		return i
	}
	return -1
}

// work ends one task, and tells whether there was one.
func (l *lead) work(w *world, a uint32) bool {
	i := l.choose(a)
	if i < 0 {
		return false
	}
	l.end(w, i)
	return true
}

func (l *lead) end(w *world, i int) {
	t := l.tasks[i]
	if t.kind == taskDDL && w.up.ddls[t.ddl-1].Unrecorded {
		l.tasks = slices.Delete(l.tasks, i, i+1)
		if err := w.down.ignore(w.up.ddls[t.ddl-1], l.rev); err != nil {
			w.fail(err)
			return
		}
		l.owner.Executed(t.ddl)
		return
	}
	if t.kind == taskDDL && !t.begun {
		refused, err := w.down.begin(w.up.ddls[t.ddl-1], l.rev)
		if err != nil {
			w.fail(err)
		}
		if !refused {
			l.tasks[i].begun = true
			return
		}
	}
	if t.kind == taskSave && l.node.cutOff(w) {
		return
	}
	l.tasks = slices.Delete(l.tasks, i, i+1)
	switch t.kind {
	case taskSave:
		if w.etcdRev != l.rev {
			l.node.lead = nil // deposed, and told so
			return
		}
		if err := w.down.save(t.mark); err != nil {
			w.fail(err)
			return
		}
		l.saved = t.mark.Checkpoint
		l.owner.Saved(t.mark)
	case taskFence:
		w.down.floors[t.fence.Capture] = max(w.down.floors[t.fence.Capture], t.fence.Term)
		l.owner.Raised(t.fence)
	case taskDDL:
		if t.begun && w.down.execute(w.up.ddls[t.ddl-1], l.rev) {
			l.owner.Executed(t.ddl)
		}
	case taskSync:
		if l.rev < w.down.fence {
			return
		}
		if err := w.down.sync(t.mark.Checkpoint); err != nil {
			w.fail(err)
			return
		}
		l.owner.Synced(t.mark.Checkpoint)
	case taskMeta:
		l.meta(w)
	case taskCut:
		whole := w.wholes.of(t.cut.Span.TableID)
		lo, hi := keysOf(whole, t.cut.Span)
		var borders []span.Key
		for k := 1; k < t.cut.Parts; k++ {
			if at := lo + (hi-lo)*k/t.cut.Parts; at > lo {
				borders = append(borders, border(whole, at))
			}
		}
		l.owner.Cut(t.cut.Span, borders)
	}
}
