package changefeed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Life is the life of one changefeed, as its owner leads it.
//
//	normal ──error──▶ pending ──time──▶ warning ──checkpoint goes on──▶ normal
//	   │                 ▲                 │ error
//	   │                 └─────────────────┘      … for longer than changefeed-error-stuck-duration ──▶ failed
//	   ├── error that is terminal, or what was needed is collected ──▶ failed
//	   ├── target-ts reached ──▶ finished
//	   └── upstream lost ──▶ pending, for good ──redo log applied──▶ finished
//
// and by an operator: stopped, resumed to normal, removed.
type Life struct {
	info   Info
	status Status
	opts   Options
	luck   *rand.Rand

	run       uint64 // the number of the present or the last run
	running   bool   // a run was begun and has not ended
	continues bool   // run is of an owner before this one, and goes on by the first Start
	applying  bool   // the redo log is being applied
	// movedAt is when the checkpoint was last seen to move, by this owner.
	movedAt time.Time
	kept    struct{ info, status bool } // nothing has changed since the last Ready
	out     Ready
}

// Options are the server's.
type Options struct {
	// GCTTL is how long a changefeed that does not go on may hold GC back; 0 is a day.
	GCTTL time.Duration
	// Seed spreads the retries of many changefeeds over time.
	Seed uint64
	// Runs is above the number of every run that earlier owners began: the owner's
	// revision, shifted, will do, where it has led none of this name. Runs that this owner
	// begins have higher ones.
	Runs uint64
}

const gcTTLDefault = 24 * time.Hour

// Report is what the capture that runs a changefeed says of it.
type Report struct {
	Run          uint64 // as Start had it
	CheckpointTS tso.TS // 0: as before
	ResolvedTS   tso.TS
	Err          *Fault // the run has ended with it
	Warning      *Fault // the run goes on in spite of it
	Done         bool   // the run has ended at the target-ts
}

// View is what the owner sees at a tick.
type View struct {
	// Now is the wall clock in PD's time.
	Now time.Time
	// Safepoint is below what GC may collect, as PD says; 0 is not known. Where PD only
	// said that it has passed what is held, it is the least that it can be, and Why is
	// what PD said.
	Safepoint tso.TS
	Why       string
	// Blocking says that it is our own hold that stands at Safepoint.
	Blocking bool
}

// Ready is what follows, in the order in which it has to be done: what is to be
// kept is kept first, then a run is ended, then one is begun, then it is logged.
type Ready struct {
	Info   *Info   // nil: as kept
	Status *Status // nil: as kept
	Remove bool    // forget the changefeed instead
	Stop   bool
	Start  *Start
	Apply  bool // the redo log, since the upstream is lost; instead of a run
	Moves  []tso.Move
	Trace  []Transition
}

// Start begins a run, or takes it up.
type Start struct {
	Run          uint64
	Epoch        uint64
	CheckpointTS tso.TS
	// Continues says that it is a run of an owner before this one, with which captures
	// go on.
	Continues bool
}

// Transition says that the state changed, or why it did not.
type Transition struct {
	From, To State
	Why      string
}

// New takes up the life of a changefeed where it was kept. A state that was
// running goes on with its run at the first Tick, or runs again where none is kept.
func New(info Info, status Status, opts Options, now time.Time) (*Life, error) {
	if status.State == "" {
		status.State = Normal
	}
	if status.State.Number() < 0 {
		return nil, cdcerr.ConfigInvalid.New("changefeed %s is in state %q, which there is not", info.ID(), status.State)
	}
	if opts.GCTTL <= 0 {
		opts.GCTTL = gcTTLDefault
	}
	l := &Life{info: info, status: status, opts: opts, luck: rand.New(rand.NewPCG(opts.Seed, 0)), movedAt: now}
	if l.run = max(opts.Runs, status.Run); status.Run != 0 && status.State.Running() {
		l.run, l.continues = status.Run, true
	}
	l.kept.info, l.kept.status = true, true
	l.beginAnew(now)
	return l, l.check()
}

// beginAnew counts a trouble that an owner before has had from this owner's beginning, as TiCDC
// does: it may have been that owner's own, or nobody may have led for a long time, and a
// changefeed that could go on would be given up at the first error. For how long it may hold
// GC back nobody begins anew.
func (l *Life) beginAnew(now time.Time) {
	if l.info.Trouble == nil || l.info.Trouble.Away {
		return
	}
	t := *l.info.Trouble // what was handed out is not changed
	t.Since, t.Attempts = now, 0
	if first := now.Add(backoffFirst); t.RetryAt.After(first) {
		t.RetryAt = first
	}
	l.info.Trouble = &t
}

// Info is what the changefeed is now.
func (l *Life) Info() Info { return l.info }

// Status is how far it is.
func (l *Life) Status() Status { return l.status }

// State is where it stands.
func (l *Life) State() State { return l.status.State }

// Step takes in a report, and tells whether what it says of timestamps is taken over.
// Reports of earlier runs, which may come late, do not count: their errors are over.
func (l *Life) Step(now time.Time, r Report) (counts bool) {
	if r.Run != l.run || l.status.State == Removed {
		l.note("a report of run %d does not count, run %d is the last", r.Run, l.run)
		return false
	}
	if fault := l.advance(now, r); fault != nil {
		l.fail(fault)
		return false
	}
	if !l.running {
		// What it had written before it ended counts; its errors do not, but for
		// those that say that it cannot be resumed.
		if r.Err.lost() && l.status.State == Stopped {
			l.fail(r.Err)
		}
		return true
	}
	l.recover()
	switch {
	case r.Err != nil:
		l.running = false
		l.stumble(now, r.Err)
	case l.reached() || r.Done:
		l.running = l.running && !r.Done
		l.finish()
	case r.Warning != nil:
		l.warn(now, r.Warning)
	}
	return true
}

// advance takes timestamps over (P3). What is behind has come late.
func (l *Life) advance(now time.Time, r Report) *Fault {
	checkpoint, resolved := max(r.CheckpointTS, l.status.CheckpointTS), max(r.ResolvedTS, l.status.ResolvedTS)
	if checkpoint > resolved {
		return NewFault(cdcerr.Bug("P3: checkpoint-ts %d above resolved-ts %d", checkpoint, resolved), "", now)
	}
	l.move(tso.StageGlobal, &l.status.ResolvedTS, resolved, "reported")
	if l.move(tso.StageCheckpoint, &l.status.CheckpointTS, checkpoint, "reported") {
		l.movedAt = now
	}
	return nil
}

func (l *Life) move(stage tso.Stage, at *tso.TS, to tso.TS, cause string) bool {
	if *at == to {
		return false
	}
	l.out.Moves = append(l.out.Moves, tso.Move{Stage: stage, From: *at, To: to, Cause: cause})
	*at = to
	l.kept.status = false
	return true
}

// recover ends a trouble once the checkpoint has passed where it stood.
func (l *Life) recover() {
	t := l.info.Trouble
	if t == nil || l.status.CheckpointTS <= t.From || t.Away {
		return
	}
	l.info.Trouble, l.info.Error, l.info.Warning = nil, nil, nil
	l.kept.info = false
	if l.status.State == Warning {
		l.enter(Normal, "the checkpoint goes on")
	}
}

// stumble deals with the error that ended a run.
func (l *Life) stumble(now time.Time, f *Fault) {
	if f.class() == cdcerr.Terminal {
		l.fail(f)
		return
	}
	t := l.trouble(now)
	l.info.Error, l.info.Warning = f, nil
	if stuck := l.stuck(now); stuck > 0 {
		f := *f
		f.Message = fmt.Sprintf("given up after %s without progress: %s", stuck.Round(time.Second), f.Message)
		l.fail(&f)
		return
	}
	t.Attempts++
	t.RetryAt = now.Add(l.wait(t.Attempts))
	t.From = l.status.CheckpointTS
	l.enter(Pending, "tried again at "+t.RetryAt.UTC().Format(time.RFC3339)+" after "+f.Code)
}

// rewordEvery is how often a warning of one code is kept in other words.
const rewordEvery = 10 * time.Second

// warn shows an error that a run goes on in spite of, and gives up if that does
// not help.
func (l *Life) warn(now time.Time, f *Fault) {
	if l.info.Trouble == nil {
		l.trouble(now).From = l.status.CheckpointTS
	}
	l.show(f)
	if stuck := l.stuck(now); stuck > 0 {
		l.fail(NewFault(cdcerr.ChangefeedStuck.New("no progress for %s: %s", stuck.Round(time.Second), f.Message), f.Addr, now))
		return
	}
	l.enter(Warning, f.Code)
}

// show keeps a warning.
func (l *Life) show(f *Fault) {
	// The same again is not kept again: many workers of a sink may meet it, and often,
	// each in words of its own: ports and timestamps differ. Other words are kept now
	// and then, so that what is shown is not old.
	if w := l.info.Warning; w == nil || w.Code != f.Code || w.Message != f.Message && f.Time.Sub(w.Time) >= rewordEvery {
		l.info.Warning = f
		l.kept.info = false
	}
}

func (l *Life) trouble(now time.Time) *Trouble {
	l.kept.info = false
	var t Trouble
	if l.info.Trouble == nil {
		t.Since = now
	} else {
		t = *l.info.Trouble // what was handed out is not changed
	}
	l.info.Trouble = &t
	return &t
}

// stuck is for how long the trouble has lasted, where that is too long.
func (l *Life) stuck(now time.Time) time.Duration {
	if t := l.info.Trouble; t != nil && !t.Away { // it cannot go on, and is waited for
		if d := now.Sub(t.Since); d > l.info.Config.ErrorStuckDuration.duration() {
			return d
		}
	}
	return 0
}

// TiCDC's numbers for trying again.
const (
	backoffFirst = 10 * time.Second
	backoffMax   = 10 * time.Minute
	jitter       = 0.1
)

// wait is the time before an attempt: doubled each time, ± a tenth.
func (l *Life) wait(attempt int) time.Duration {
	d := backoffFirst
	for i := 1; i < attempt && d < backoffMax; i++ {
		d *= 2
	}
	d = min(d, backoffMax)
	return time.Duration(float64(d) * (1 + jitter*(2*l.luck.Float64()-1)))
}

// fail ends the changefeed until an operator acts.
func (l *Life) fail(f *Fault) {
	l.info.Error, l.info.Warning, l.info.Trouble = f, nil, nil
	l.kept.info = false
	l.stop()
	l.enter(Failed, f.Code)
}

func (l *Life) reached() bool {
	return l.info.TargetTS != 0 && l.status.CheckpointTS >= l.info.TargetTS
}

func (l *Life) finish() {
	l.info.Error, l.info.Warning, l.info.Trouble = nil, nil, nil
	l.kept.info = false
	l.stop()
	l.enter(Finished, fmt.Sprintf("target-ts %d is reached", l.info.TargetTS))
}

func (l *Life) stop() {
	if l.running || l.applying {
		l.running, l.applying, l.out.Stop = false, false, true
	}
	l.continues = false
	l.out.Start, l.out.Apply = nil, false
}

func (l *Life) enter(s State, why string) {
	if l.status.State == s {
		return
	}
	l.out.Trace = append(l.out.Trace, Transition{l.status.State, s, why})
	l.status.State = s
	l.kept.status = false
}

func (l *Life) note(format string, args ...any) {
	l.out.Trace = append(l.out.Trace, Transition{l.status.State, l.status.State, fmt.Sprintf(format, args...)})
}

// Tick lets time pass and says what follows from everything since the last one.
func (l *Life) Tick(v View) Ready {
	l.collected(v)
	if l.info.Loss != nil {
		l.apply()
	} else if t := l.info.Trouble; l.status.State == Pending && (t == nil || !v.Now.Before(t.RetryAt)) {
		l.enter(Warning, "tried again")
	}
	if l.status.State.Running() && !l.running {
		if l.reached() {
			l.finish()
		} else {
			l.begin()
		}
	}
	if err := l.check(); err != nil && l.status.State != Failed {
		l.fail(NewFault(err, "", v.Now))
	}
	return l.take()
}

// begin begins a run, or takes up the one that an owner before has begun. Its number
// is kept before anybody acts by it: captures know a run by what is kept.
func (l *Life) begin() {
	continues := l.continues
	if !continues {
		l.next()
	}
	l.running, l.continues = true, false
	if l.status.Run != l.run {
		l.status.Run, l.kept.status = l.run, false
	}
	l.out.Start = &Start{Run: l.run, Epoch: l.status.Epoch, CheckpointTS: l.status.CheckpointTS, Continues: continues}
}

// next is the number of the run that follows.
func (l *Life) next() {
	l.run, l.continues = max(l.run, l.opts.Runs)+1, false
}

// take hands out what has changed.
func (l *Life) take() Ready {
	out := l.out
	l.out = Ready{}
	if l.status.State == Removed {
		out.Remove = true
		return out
	}
	if !l.kept.info {
		info := l.info
		out.Info = &info
	}
	if !l.kept.status {
		status := l.status
		out.Status = &status
	}
	l.kept.info, l.kept.status = true, true
	return out
}

// check holds what is believed of every life.
func (l *Life) check() error {
	s := &l.status
	switch {
	case s.CheckpointTS > s.ResolvedTS:
		return cdcerr.Bug("P3: checkpoint-ts %d above resolved-ts %d", s.CheckpointTS, s.ResolvedTS)
	case !slices.Contains(states, s.State):
		return cdcerr.Bug("state %q", s.State)
	case l.running && !s.State.Running():
		return cdcerr.Bug("a run goes on in state %s", s.State)
	case s.State.Running() && l.info.Loss != nil, l.applying && s.State != Pending:
		return cdcerr.Bug("state %s after the upstream was lost", s.State)
	case s.State == Failed && l.info.Error == nil:
		return cdcerr.Bug("failed without an error")
	}
	return nil
}
