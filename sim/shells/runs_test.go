package shells_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// status is what etcd says of the changefeed: the number of its run, and whether it runs
// or an operator has to resume it.
type status struct {
	run  uint64
	runs bool
}

// errRunOver is what is answered to who saves for a run that is over.
var errRunOver = errors.New("the run is over")

// errInjected is in all errors that the downstream makes up, errFatal in those that end
// the changefeed until an operator resumes it.
var (
	errInjected = errors.New("injected")
	errFatal    = errors.New("for good")
)

// sayLocked has etcd say something else.
func (w *world) sayLocked(s status) {
	w.status = s
	close(w.news)
	w.news = make(chan struct{})
}

// pause and resume are an operator's.
func (w *world) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status.runs {
		w.sayLocked(status{w.status.run, false})
	}
}

func (w *world) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.status.runs {
		w.runs++
		w.sayLocked(status{w.status.run + 1, true})
	}
}

// next waits until etcd says something else of the changefeed, as a node hears it.
func (n *node) next(ctx context.Context, was status) (is status, err error) {
	w := n.w
	for {
		w.mu.Lock()
		is, news, away := w.status, w.news, time.Until(n.away)
		w.mu.Unlock()
		if is != was && away <= 0 {
			return is, w.pass(ctx, 20)
		}
		if is == was {
			away = time.Hour
		}
		timer := time.NewTimer(away)
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return is, ctx.Err()
		}
		timer.Stop()
	}
}

// sit has a node take part in the changefeed's runs. The next one waits for the end of
// the last one: they write the same rows.
func (n *node) sit(ctx context.Context) error {
	w := n.w
	for has := (status{}); ; {
		is, err := n.next(ctx, has)
		if err != nil {
			return err
		}
		if has = is; !is.runs {
			continue
		}
		own, stop := context.WithCancel(ctx)
		part, err := w.part(n, is.run)
		if err != nil {
			w.mu.Lock()
			w.failLocked("%v", err)
			w.mu.Unlock()
			stop()
			return err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = part.Run(own) // it ends with own
			w.mu.Lock()
			defer w.mu.Unlock()
			n.part, n.line = nil, nil
		}()
		_, err = n.next(ctx, has)
		stop()
		<-ended
		if err != nil {
			return err
		}
	}
}

// part makes a node's part in a run.
func (w *world) part(n *node, run uint64) (p *agent.Part, err error) {
	line := &partLine{n: n, ready: make(chan struct{}, 1)}
	w.mu.Lock()
	n.floor = max(n.floor, w.reign)
	floor, at := n.floor, w.durable.Checkpoint
	w.mu.Unlock()
	cfg := agent.PartConfig{
		Name: "d/f", ID: n.id, Epoch: run, Floor: floor, StartTS: 2, Checkpoint: at,
		Filter: filter.Config{Rules: []string{"d.*"}}, Line: line,
		Liveness: func() capture.Liveness { w.mu.Lock(); defer w.mu.Unlock(); return n.life },
		Lease:    func() time.Time { return w.leaseOf(n) },
		Open: func(ctx context.Context, o agent.Opening) (sink.Sink, error) {
			if err := w.pass(ctx, 20); err != nil {
				return nil, err
			}
			return &rowSink{w: w, n: n, part: p, term: o.Term, replayed: o.Replayed, grants: map[span.Span]uint64{}}, w.injected()
		},
	}
	if w.splits {
		cfg.CountEvery = 300 * time.Millisecond
	}
	if w.storage != nil {
		cfg.Redo = n.logWriter
	}
	if p, err = agent.NewPart(cfg, path{n}); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n.part, n.line = p, line
	return p, nil
}

// injected is an error of the downstream's, now and then.
func (w *world) injected() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.injectedLocked()
}

func (w *world) injectedLocked() error {
	switch {
	case w.rng.Float64() >= w.weather.sink:
		return nil
	case w.rng.IntN(4) == 0:
		return errors.Join(errInjected, errFatal)
	}
	return errInjected
}

// lead is a node's time as owner.
type lead struct {
	rev scheduler.Revision
	end context.CancelFunc

	// Guarded by the world's mu.
	loop *owner.Loop // of the run of the moment; nil: there is none
	line *ownerLine
	term scheduler.Term // the last that a run has given

	drains []capture.ID // whom an operator wants to be empty
}

// leadLocked has a node lead the changefeed's runs, until its reign is over.
func (w *world) leadLocked(n *node, rev scheduler.Revision) {
	ctx, end := context.WithCancel(context.Background())
	l := &lead{rev: rev, end: end}
	n.lead = l
	w.all.Go(func() error {
		defer end()
		for has := (status{}); ; {
			is, err := n.next(ctx, has)
			if err != nil {
				break
			}
			if has = is; is.runs && !w.leadRun(ctx, n, l, is) {
				break
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		n.lead = nil
		if w.leader == n && w.reign == rev { // somebody else goes on
			w.leader, w.reign = nil, 0
		}
		return nil
	})
}

// leadRun leads one run to its end, and tells whether the reign goes on.
func (w *world) leadRun(ctx context.Context, n *node, l *lead, is status) (goesOn bool) {
	loop, err := w.loop(n, l, is.run)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failLocked("%v", err)
		return false
	}
	own, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer stop()
		_, _ = n.next(own, is) // it ends with own
	}()
	err = loop.Run(own)
	told := own.Err() != nil
	stop()
	<-watched
	w.mu.Lock()
	l.loop, l.line, l.term = nil, nil, max(l.term, loop.Term())
	w.mu.Unlock()
	if told {
		return ctx.Err() == nil
	}
	return w.faulted(ctx, n, l, is, err)
}

// faulted is the end of a run by an error: etcd says so, where this is the owner still,
// and a while later there is another one.
func (w *world) faulted(ctx context.Context, n *node, l *lead, is status, err error) (goesOn bool) {
	fatal := err != nil && strings.Contains(err.Error(), errFatal.Error())
	if passErr := w.pass(ctx, 300); passErr != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
	case strings.Contains(err.Error(), errInjected.Error()), errors.Is(err, errRunOver), // as a capture tells it, too
		cdcerr.NotOwner.Is(err), cdcerr.Fenced.Is(err), cdcerr.LeaveEnded.Is(err), strings.Contains(err.Error(), "begins anew under another name"):
		if w.reign != l.rev {
			return false
		}
		if w.status != is {
			return true
		}
		w.faults++
		if fatal {
			w.sayLocked(status{is.run, false})
		} else {
			w.runs++
			w.sayLocked(status{is.run + 1, true})
		}
		return true
	}
	w.failLocked("P8: run %d on %s ended: %v", is.run, n.id, err)
	return false
}

// loop makes the owner's loop for a run.
func (w *world) loop(n *node, l *lead, run uint64) (*owner.Loop, error) {
	rev := l.rev
	line := &ownerLine{n: n, rev: rev, ready: make(chan struct{}, 1)}
	cfg := owner.Default()
	w.mu.Lock()
	cfg.Changefeed, cfg.Scope, cfg.Line, cfg.Changed, cfg.Watermark, cfg.Term = "d/f", w.scope, line, w.changed[n], w.durable, l.term
	cfg.Scheduler.Owner, cfg.Scheduler.Epoch, cfg.Scheduler.SyncEvery = rev, run, w.down.syncEvery
	w.mu.Unlock()
	if w.local {
		cfg.Scheduler.Local = func(text string) bool {
			return strings.Contains(text, errInjected.Error()) && !strings.Contains(text, errFatal.Error())
		}
	}
	cfg.SaveEvery = 100 * time.Millisecond
	cfg.Members = func() []scheduler.Member {
		all := w.members(n)
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range all {
			all[i].Draining = slices.Contains(l.drains, all[i].ID)
		}
		return all
	}
	cfg.Open = func(context.Context) (sink.Sink, error) { return w.openForOwner(n, rev) }
	cfg.Load = func(ctx context.Context, at tso.TS) (owner.Feed, error) {
		w.at(n)
		f := w.feed(schemafeed.Config{StartTS: at.Next()})
		return f, f.Load(ctx)
	}
	cfg.Save = func(ctx context.Context, checkpoint, resolved tso.TS) error {
		return w.save(ctx, n, rev, run, scheduler.Watermark{Checkpoint: checkpoint, Resolved: resolved})
	}
	cfg.Grant = func() sink.Grant { return sink.Grant{Deadline: w.leaseOf(n), Epoch: 1, Fence: uint64(rev)} }
	cfg.Log = slog.New(slog.DiscardHandler)
	if w.splits {
		cfg.Scheduler.Split = scheduler.SplitConfig{Regions: 3, Each: 2, PartMax: 3, RestTicks: 20}
		cfg.Borders = func(ctx context.Context, s span.Span) ([]span.Key, error) { return borders(s), w.pass(ctx, 10) }
	}
	if w.storage != nil {
		cfg.Redo = func(ctx context.Context, at tso.TS) (owner.Redo, error) { return w.leadLog(ctx, n, rev, at) }
	}
	loop, err := owner.New(cfg)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l.loop, l.line = loop, line
	return loop, nil
}

// operate is what an operator asks for.
func (w *world) operate(rng *rand.Rand) {
	w.mu.Lock()
	runs := w.status.runs
	w.mu.Unlock()
	switch x := rng.IntN(60); {
	case !runs && x < 20:
		w.resume()
	case runs && x < 1:
		w.pause()
	case x >= 58:
		w.drain(rng)
	case x >= 57:
		if l := w.loopOf(); l != nil {
			_ = l.Rebalance() // refused is an answer
		}
	}
}

// drain has the owner empty some node, or lets it have spans again. Its successor knows
// nothing of it.
func (w *world) drain(rng *rand.Rand) {
	w.mu.Lock()
	if w.leader == nil || w.leader.lead == nil || len(w.nodes) == 0 {
		w.mu.Unlock()
		return
	}
	l, id := w.leader.lead, w.nodes[rng.IntN(len(w.nodes))].id
	if i := slices.Index(l.drains, id); i < 0 {
		l.drains = append(l.drains, id)
	} else if rng.IntN(3) == 0 {
		l.drains = slices.Delete(l.drains, i, i+1)
	}
	w.drained++
	changed := w.changed[w.leader]
	w.mu.Unlock()
	select {
	case changed <- struct{}{}:
	default:
	}
}

// at is a point in what a node does: at some of them, few, somebody else becomes the
// owner, or the node dies. Its caller does not hold mu.
func (w *world) at(n *node) {
	w.mu.Lock()
	w.points--
	hit := w.points == 0 && !w.over
	what := w.rng.IntN(5)
	if hit {
		w.points = 1 + w.rng.IntN(pointsEvery)
		w.turns++
	}
	w.mu.Unlock()
	switch {
	case !hit:
	case what == 0:
		w.crash(n)
		w.start()
	default:
		w.resign(what < 3)
		if what%2 == 0 {
			w.elect()
		}
	}
}

// pointsEvery is how many points are passed, at most, from one at which something happens
// to the next: a seed has some hundred in a second.
const pointsEvery = 100
