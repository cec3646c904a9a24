package scheduler

import (
	"slices"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Owner is the owner's half: it decides who writes what of one changefeed.
type Owner struct {
	cfg  Config
	now  uint64 // ticks
	term Term   // the last that was given

	tables  map[span.TableID]*table
	members []*member // by id
	lost    []*member // can write no more; their sets are taken over step by step

	rebuilding bool
	waits      []capture.ID // who has to tell, or be fenced off, before anything is placed
	writers    []capture.ID
	recorded   tso.TS
	started    bool
	mixed      []*table // of which captures reported parts
	strange    []found  // of tables that are not known yet: an executed DDL may have brought them

	absent []*ReplicationSet // to be placed; those that are not Absent any more are passed over
	due    []deadline
	moving int // sets that are moved because a policy wants it

	asked     []wish // moves that an operator asked for
	rebalance bool
	large     []weighty // worth a look whether to split
	split     []*table  // in more than one set
	merging   int       // where the last look at split ended
	balanced  uint64    // the tick of the last look at the balance

	loose  tally
	mark   Watermark
	saved  Watermark
	log    Log
	schema tso.TS

	pending      []*pending
	later        []unripe
	unripe       uint64 // how many there were
	begun        int    // of them were begun by an owner before
	barrierMoved bool   // a DDL may have become ready
	barrier      Barrier
	barrierNo    uint64 // counts its changes
	sync         tso.TS
	syncAt       syncState

	rows     uint64 // written while this owner leads, as captures tell
	written  tso.TS
	warnings []Fault

	fences []Fence
	cuts   []CutRequest
	run    []DDL
	faults []Fault
	ailing []Fault // that may be of one capture alone, not looked at yet
	spared []Fault // of captures whose spans go elsewhere
	note   tso.TS
	trace  []Transition
	moves  []tso.Move
	out    []Orders
	err    error
}

// Resume is what a new owner begins from.
type Resume struct {
	// Watermark is the durable one: DDLs at or below its checkpoint are done.
	Watermark Watermark
	// Tables are the physical ids that are wanted at the checkpoint.
	Tables []span.TableID
	// Whole are those of them that may not be in parts.
	Whole []span.TableID
	// Term is the last that was given since this owner was elected, 0 for none: the runs
	// of one reign share no terms, or a capture's half of the run before would pass for
	// one of this.
	Term Term
	// Recorded is the latest DDL on record, done or begun, 0 for none: nothing is placed before the
	// schema is known up to there, or rows from before it would come again.
	Recorded tso.TS
	// Gate is the resolved-ts of the redo log's meta, which this owner has made its own.
	Gate tso.TS
	// Writers are the captures that have a floor downstream, read after the record's
	// fence was raised to this owner: none that this owner does not know can get one.
	Writers []capture.ID
}

// View is what the shell sees of the cluster at a tick.
type View struct {
	// Members are the captures whose keys are in etcd, by ID. At an owner's first tick
	// it must have been read after the election; later it may be old, but never
	// leaves out a capture whose lease may live.
	Members []Member
}

// Standing is what the owner knows of one member.
type Standing struct {
	ID       capture.ID
	Told     bool // it has said all that it holds
	Takes    bool // it is given spans
	Liveness capture.Liveness
	Draining bool
	Deaf     bool // it cannot follow all of the upstream, and another can
	Sets     int  // in which it has a part
	Floor    Progress
	Rows     uint64
	Written  tso.TS
	Warning  string
	// Ails is the error for which it is kept out, "" for none, and Rests for how many ticks.
	Ails  string
	Rests uint64
	// Silent is for how many ticks nothing has come from a capture that the changefeed
	// waits for: as long as it is a member and not fenced off, nobody else may write what
	// it has, or may have.
	Silent uint64
}

// Member is one of them.
type Member struct {
	ID       capture.ID
	Liveness capture.Liveness
	Draining bool // an operator wants it empty
}

// Ready is what follows from a tick. The shell does it in this order, and a later
// owner's existence, which it learns when it makes the watermark durable, ends it.
type Ready struct {
	Watermark Watermark    // to be made durable, then told by Saved; may be later than the messages unless Urgent
	Log       Log          // with a redo log: what its meta is to say, then told by Gate
	Urgent    bool         // the cluster waits for the watermark to be durable
	Fences    []Fence      // to be raised downstream, then told by Raised
	DDLs      []DDL        // to be carried out once, recorded, then told by Executed
	Sync      tso.TS       // a sync point to be noted, then told by Synced; 0 for none
	Cuts      []CutRequest // borders to be looked up, then told by Cut
	Messages  []Orders
	Faults    []Fault
	Spared    []Fault      // of captures that are kept out for a while, since others are well
	Warnings  []Fault      // what captures ride out, each when it is other than before
	Trace     []Transition // to be logged
	Moves     []tso.Move
	Err       error // a broken belief: the changefeed has to stop (P8)
}

// Log is what a redo log's meta may say: every row of every span up to Resolved is in
// the files of Extents, or of earlier ones. DDLs are as far as Schema told.
type Log struct {
	Resolved tso.TS
	Extents  [][]byte // those that are new since the last Ready
}

// Transition is one step of one set.
type Transition struct {
	Span               span.Span
	From, To           State
	Primary, Secondary capture.ID
	Checkpoint         tso.TS
	Why                string
}

// Fault is an error that a capture reported.
type Fault struct {
	Capture capture.ID
	Err     string
}

// New makes the owner's half for an owner that has just been elected.
func New(cfg Config, r Resume) (*Owner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Gated && r.Gate < r.Watermark.Checkpoint {
		return nil, cdcerr.Bug("the redo log's meta says %d, the checkpoint is %d: rows are downstream that the log need not have (P5)", r.Gate, r.Watermark.Checkpoint)
	}
	o := &Owner{
		cfg: cfg, term: max(firstTerm(cfg.Owner), r.Term), rebuilding: true, writers: r.Writers, recorded: r.Recorded,
		tables: make(map[span.TableID]*table, len(r.Tables)),
		loose:  newTally(), mark: r.Watermark, saved: r.Watermark, schema: r.Watermark.Checkpoint,
	}
	o.sync = cfg.syncAbove(r.Watermark.Checkpoint)
	o.barrier.Gate, o.log.Resolved = r.Gate, r.Gate
	for _, id := range r.Tables {
		o.addTable(id, r.Watermark.Checkpoint)
	}
	for _, id := range r.Whole {
		if t := o.tables[id]; t != nil {
			t.whole = true
		}
	}
	o.tellBarrier()
	return o, nil
}

// Term is the last that was given, for who leads the next run in this reign.
func (o *Owner) Term() Term { return o.term }

// nextTerm is higher than any that was given before.
func (o *Owner) nextTerm() Term {
	o.term++
	return o.term
}

// addTable begins to want a table from ts on.
func (o *Owner) addTable(id span.TableID, ts tso.TS) {
	t := o.tables[id]
	if t == nil {
		t = &table{id: id}
		o.tables[id] = t
	}
	if t.wanted {
		return
	}
	t.wanted = true
	s := &ReplicationSet{Span: span.OfTable(id), table: t, Checkpoint: ts}
	t.sets = []*ReplicationSet{s}
	o.count(s)
	o.queue(s)
	o.claim(t)
}

// dropTable lets a table go.
func (o *Owner) dropTable(id span.TableID) {
	t := o.tables[id]
	if t == nil || !t.wanted {
		return
	}
	if t.shape != nil {
		o.endShape(t.shape)
	}
	sets := t.sets
	t.sets = nil
	for _, s := range sets {
		o.remove(s, "its table is gone")
	}
	t.wanted = false // only now, or the first set that nobody holds would let it be forgotten
	o.forget(t)
}

// forget drops a table of which nothing is left.
func (o *Owner) forget(t *table) {
	if !t.wanted && len(t.others) == 0 && t.shape == nil {
		delete(o.tables, t.id)
	}
}

// removed ends a set that nobody holds any more, and lets those go on that waited.
func (o *Owner) removed(s *ReplicationSet) {
	if s.primary.m != nil || s.secondary.m != nil {
		return
	}
	s.due = 0
	t := s.table
	for i, z := range t.others {
		if z == s {
			t.others = append(t.others[:i], t.others[i+1:]...)
			break
		}
	}
	for _, z := range t.sets {
		switch {
		case z.State == AbsentState:
			o.queue(z)
		case z.State == CommitState && z.primary.m == nil && z.secondary.m != nil:
			o.promote(z)
		}
	}
	o.forget(t)
}

// queue lets a set wait to be placed.
func (o *Owner) queue(s *ReplicationSet) {
	if !s.queued && s.counted {
		s.queued = true
		o.absent = append(o.absent, s)
	}
}

// order tells a capture something about a set, and again if nothing follows.
func (o *Owner) order(m *member, s *ReplicationSet, v Verb) {
	x := Order{Verb: v, Span: s.Span, From: s.Checkpoint}
	switch v {
	case Prepare:
		x.From = o.known(s)
	case Write:
		x.Grant = s.grant
	case Stop:
	}
	m.orders = append(m.orders, x)
	s.due = o.now + o.cfg.ResendTicks
	o.due = append(o.due, deadline{s.due, s})
}

// deadline is when something is to be told again.
type deadline struct {
	at  uint64
	set *ReplicationSet
}

// Tick is one beat of the owner's time.
func (o *Owner) Tick(v View) Ready {
	o.now++
	return o.Look(v)
}

// Look is what follows at once from what has happened since, within a beat: what is
// waited for by ticks does not come nearer by it, however often it is called.
func (o *Owner) Look(v View) Ready {
	o.meet(v)
	o.watch()
	o.nurse()
	o.takeOver()
	if o.rebuilding {
		o.rebuilt()
	}
	if !o.rebuilding {
		o.resend()
	}
	o.stepBarrier()
	if !o.rebuilding {
		o.plan()
	}
	o.advance()
	o.speak()
	r := Ready{
		Watermark: o.mark, Log: o.log, Urgent: o.urgent(),
		Fences: o.fences, Cuts: o.cuts, DDLs: o.run, Sync: o.note, Messages: o.out, Faults: o.faults, Spared: o.spared, Warnings: o.warnings, Trace: o.trace, Moves: o.moves, Err: o.err,
	}
	o.log.Extents = nil
	o.fences, o.cuts, o.run, o.note, o.out, o.trace, o.moves = nil, nil, nil, 0, nil, nil, nil
	o.faults, o.spared, o.warnings = nil, nil, nil
	return r
}

// resend reminds those of whom something is due.
func (o *Owner) resend() {
	for n := 0; len(o.due) > 0 && o.due[0].at <= o.now && n < o.cfg.BatchMax; n++ {
		d := o.due[0]
		o.due[0] = deadline{}
		o.due = o.due[1:]
		if d.set.due == d.at {
			d.set.due = 0
			o.remind(d.set)
		}
	}
}

// plan asks the policies, the most urgent first.
func (o *Owner) plan() {
	o.listen()
	o.basic()
	o.join()
	o.drain()
	o.moveAsked()
	o.rebalanceAsked()
	o.balance()
	o.reshapeSome()
}

// Saved says that a watermark is durable.
func (o *Owner) Saved(w Watermark) {
	if w.Checkpoint <= o.saved.Checkpoint {
		return
	}
	o.saved = w
	if o.saved.Checkpoint >= o.sync {
		o.sync, o.syncAt = o.cfg.syncAbove(o.saved.Checkpoint), syncAhead
		o.barrierMoved = true // DDLs above may have waited for it alone
	}
	o.ripen()
	o.tellBarrier()
}

// Gate says what the redo log's meta on the storage says now.
func (o *Owner) Gate(resolved tso.TS) {
	if resolved <= o.barrier.Gate {
		return
	}
	o.moves = append(o.moves, tso.Move{Stage: tso.StageBarrier, From: o.barrier.Gate, To: resolved, Cause: "the redo log has everything up to here"})
	o.barrier.Gate = resolved
	o.barrierMoved = true
	o.tellBarrier()
}

// urgent tells whether something waits for the watermark to be durable.
func (o *Owner) urgent() bool {
	return o.mark.Checkpoint >= o.sync && o.saved.Checkpoint < o.sync ||
		slices.ContainsFunc(o.later, func(d unripe) bool { return o.mark.Checkpoint >= d.TS })
}

// Watermark is how far the changefeed is, durable or not.
func (o *Owner) Watermark() Watermark { return o.mark }

// Rebuilding tells whether the owner still asks who has what.
func (o *Owner) Rebuilding() bool { return o.rebuilding }

// Settled tells whether nothing is under way: every span replicates.
func (o *Owner) Settled() bool {
	return !o.rebuilding && len(o.lost) == 0 && o.moving == 0 && o.loose.min() == tso.Max && len(o.pending)+len(o.later) == 0
}

// Pending is how many DDLs are known and not done.
func (o *Owner) Pending() int { return len(o.pending) }

// Rows is how many rows captures have told that they wrote since this owner knows them,
// and the latest commit-ts of any.
func (o *Owner) Rows() (n uint64, written tso.TS) { return o.rows, o.written }

// Standings are the members, by id.
func (o *Owner) Standings() []Standing {
	out := make([]Standing, 0, len(o.members))
	for _, m := range o.members {
		s := Standing{
			ID: m.id, Told: m.told, Takes: m.takes(), Liveness: m.liveness, Draining: m.draining, Deaf: o.deaf(m), Sets: len(m.sets),
			Floor: m.floor, Rows: m.rows, Written: m.written, Warning: m.warning, Silent: o.silent(m),
		}
		if m.ail.out {
			s.Ails, s.Rests = m.ail.text, m.ail.until-o.now
		}
		out = append(out, s)
	}
	return out
}

// Count is how many spans a capture has a part in.
func (o *Owner) Count(id capture.ID) int {
	if m := o.member(id); m != nil {
		return len(m.sets)
	}
	return 0
}

// States are how many spans a capture has a part in, by their state.
func (o *Owner) States(id capture.ID) map[State]int {
	out := map[State]int{}
	if m := o.member(id); m != nil {
		for _, s := range m.sets {
			out[s.State]++
		}
	}
	return out
}

// Sets shows the sets of a table, in key order.
func (o *Owner) Sets(id span.TableID) []*ReplicationSet {
	if t := o.tables[id]; t != nil {
		return t.sets
	}
	return nil
}

// All calls fn with every set of a table that is wanted, in no order.
func (o *Owner) All(fn func(*ReplicationSet)) {
	for _, t := range o.tables {
		for _, s := range t.sets {
			fn(s)
		}
	}
}

// Move asks for a table, all its spans, to be moved to a capture.
func (o *Owner) Move(id span.TableID, to capture.ID) error {
	t, m := o.tables[id], o.member(to)
	switch {
	case t == nil || !t.wanted:
		return cdcerr.SchedulerRequest.New("table %d is not replicated by this changefeed: list its tables", id)
	case m == nil || !m.takes():
		return cdcerr.SchedulerRequest.New("capture %s takes no tables: it is gone, on its way out, or has not answered yet", to)
	case len(o.asked) >= wishesMax:
		return cdcerr.SchedulerRequest.New("%d moves wait already: ask again when some are done", wishesMax)
	}
	// Of two wishes for a table the later one counts, or both would pull at it for ever.
	o.asked = slices.DeleteFunc(o.asked, func(w wish) bool { return w.table == id })
	o.asked = append(o.asked, wish{table: id, to: to})
	return nil
}

// Rebalance asks for an even spread now.
func (o *Owner) Rebalance() { o.rebalance = true }
