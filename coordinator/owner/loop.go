package owner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// Loop leads one run of one changefeed.
type Loop struct {
	cfg  Config
	wake chan struct{} // one token: something has ended, or was asked for
	save chan struct{} // one token: there is a watermark to be saved
	rush chan struct{} // one token: at once
	todo chan struct{} // one token: there may be an errand whose time has come

	// Set before any goroutine but the loop's runs, then left alone.
	sink    sink.Sink
	fencer  sink.Fencer    // nil: nothing is fenced
	journal sink.Journaler // nil: the downstream keeps none
	keeps   bool           // the sink keeps a record of DDLs
	feed    Feed
	redo    Redo // nil: there is no redo log
	record  record

	lessons chan lesson // at most one

	// The loop's own.
	known tso.TS // the schema, as scheduler knows it
	beats uint64
	turns map[int64]filter.Turn // by job, of DDLs that scheduler has
	first waiting               // the first DDL that is not done

	mu       sync.Mutex
	owner    *scheduler.Owner    // nil before Run has begun; guarded by mu
	mark     scheduler.Watermark // as far as everything is; guarded by mu
	saved    scheduler.Watermark // and durable; guarded by mu
	errands  []errand            // in the order in which they were handed out; guarded by mu
	progress Progress            // guarded by mu
	waits    string              // what the first DDL waits for, once that is long; guarded by mu
	history  history             // guarded by mu
	term     scheduler.Term      // guarded by mu
	broken   bool                // guarded by mu
	teaching bool                // a lesson is on its way to scheduler; guarded by mu
	endsAt   tso.TS              // the first DDL with which the changefeed ends, 0 for none; guarded by mu
}

// Progress is what was done since Run began.
type Progress struct {
	Watermark scheduler.Watermark // as far as everything is
	Saved     scheduler.Watermark // what is durable of it
	DDLs      uint64
	SyncPoint tso.TS // the last that was noted
	Rows      uint64 // as captures tell
	Written   tso.TS // the commit-ts of the last of them
}

// New makes a loop; Run brings it to life, once.
func New(cfg Config) (*Loop, error) {
	cfg = cfg.orDefault()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Loop{
		cfg: cfg, term: cfg.Term, mark: cfg.Watermark, saved: cfg.Watermark, turns: map[int64]filter.Turn{},
		lessons: make(chan lesson, 1),
		wake:    make(chan struct{}, 1), save: make(chan struct{}, 1), rush: make(chan struct{}, 1), todo: make(chan struct{}, 1),
	}, nil
}

// errDone ends what serves a run that is done.
var errDone = errors.New("everything up to the target-ts is downstream")

// Run leads until ctx ends, something fails, or everything up to the target is
// downstream and that is durable; then it is nil.
func (l *Loop) Run(ctx context.Context) (err error) {
	if err := l.begin(ctx); err != nil {
		if l.sink != nil {
			err = errors.Join(err, l.sink.Close())
		}
		return err
	}
	defer func() { err = errors.Join(err, l.sink.Close()) }()
	g, all := errgroup.WithContext(ctx)
	g.Go(func() error { return l.feed.Run(all) })
	g.Go(func() error { return l.saveAll(all) })
	g.Go(func() error { return l.runErrands(all) })
	if l.redo != nil {
		g.Go(func() error { return l.redo.Run(all) })
		g.Go(func() error { return l.runLessons(all) })
		g.Go(func() error { return l.keepJournal(all) })
	}
	g.Go(func() error { return l.lead(all, g) })
	err = g.Wait()
	last := l.saveLast(ctx, err)
	if errors.Is(err, errDone) {
		return last
	}
	if last != nil {
		l.cfg.Log.Info("the last checkpoint is not persisted", "changefeed", l.cfg.Changefeed, "error", last)
	}
	return err
}

// look has the loop look again.
func (l *Loop) look() { signal(l.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// lead is the loop: what has come, then what follows of it.
func (l *Loop) lead(ctx context.Context, g *errgroup.Group) error {
	tick := time.NewTicker(l.cfg.TickEvery)
	defer tick.Stop()
	beat := true
	for {
		l.hear()
		l.learn()
		l.gate()
		if l.cfg.Grant.Check() == nil {
			if err := l.act(ctx, g, l.step(beat)); err != nil {
				return err
			}
			l.listen()
			if beat && l.beats%waitBeats == 0 {
				l.tellWait()
			}
			if beat && l.beats%warnBeats == 0 {
				l.warnAgain()
			}
		}
		beat = false
		select {
		case <-l.cfg.Line.Ready():
		case <-l.cfg.Changed:
		case <-l.feed.Advanced():
		case <-l.gated():
		case <-l.wake:
		case <-tick.C:
			beat = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// listen finds out whether somebody else should lead.
func (l *Loop) listen() {
	l.mu.Lock()
	deaf := l.owner.Deaf(l.cfg.Self)
	l.mu.Unlock()
	if deaf {
		l.cfg.Deaf()
	}
}

// hear takes what captures have said.
func (l *Loop) hear() {
	all := l.cfg.Line.Take()
	if len(all) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range all {
		if h.Report == nil {
			l.owner.Broken(h.From)
		} else {
			l.owner.Step(*h.Report)
		}
	}
}

// step asks scheduler what follows.
func (l *Loop) step(beat bool) scheduler.Ready {
	members := l.cfg.Members()
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.owner.Look
	if beat {
		next = l.owner.Tick
		l.beats++
	}
	r := next(scheduler.View{Members: members})
	l.mark, l.term = r.Watermark, l.owner.Term()
	l.progress.Rows, l.progress.Written = l.owner.Rows()
	l.history.note(r)
	return r
}

// act does what follows, in its order: what is to be durable is asked for first, then
// what goes on beside the loop, then messages, and what is only to be known last.
func (l *Loop) act(ctx context.Context, g *errgroup.Group, r scheduler.Ready) error {
	if r.Err != nil {
		return l.breakOff(r.Err)
	}
	if len(r.Faults) > 0 {
		return l.cfg.Fault(r.Faults[0])
	}
	if l.reached() {
		return errDone
	}
	l.wantSaved(r.Urgent)
	if err := l.advanceLog(r.Log); err != nil {
		return err
	}
	for _, f := range r.Fences {
		g.Go(func() error { return l.raise(ctx, f) })
	}
	for _, c := range r.Cuts {
		g.Go(func() error { return l.cut(ctx, c) })
	}
	l.handOut(r)
	for _, m := range r.Messages {
		l.cfg.Line.Send(m)
	}
	l.tell(r)
	return nil
}

// reached tells whether everything up to the target is downstream, and that durable.
func (l *Loop) reached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.cfg.Scheduler.Target
	return t != 0 && l.saved.Checkpoint >= t
}

// breakOff is what is said of a belief that does not hold, with what led there (P8).
func (l *Loop) breakOff(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	return fmt.Errorf("%w; before that, the last at the end: %s", err, l.history.text())
}

// raise has the downstream refuse a capture.
func (l *Loop) raise(ctx context.Context, f scheduler.Fence) error {
	if err := l.alive(ctx); err != nil {
		return err
	}
	if err := l.fencer.Raise(ctx, string(f.Capture), uint64(f.Term)); err != nil {
		return fmt.Errorf("fencing off capture %s: %w", f.Capture, err)
	}
	l.mu.Lock()
	l.owner.Raised(f)
	l.mu.Unlock()
	l.look()
	return nil
}

// alive waits until the leave to write stands.
func (l *Loop) alive(ctx context.Context) error {
	for l.cfg.Grant.Check() != nil {
		if err := pause(ctx, l.cfg.TickEvery); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
