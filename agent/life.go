package agent

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/tso"
)

const (
	// reportSoon is how long news waits for more: an answer to the owner takes no
	// longer, and spans that move by the thousand are one report.
	reportSoon = 10 * time.Millisecond
	// reportLate is how often the owner hears that there is no news.
	reportLate = 200 * time.Millisecond
	// wordsMax is how many words of the engine are taken with the limits locked, which
	// the engine's goroutines ask for meanwhile: a millisecond.
	wordsMax = 1024
)

// errOutdated ends a life whose schema feed began where GC has been since.
var errOutdated = errors.New("the schema cannot be read any more where this began, and need not be")

// life is one of a part: the loop, which owns all that is here, and what it has begun.
type life struct {
	*Part
	works *errgroup.Group // whose first error ends the life, and the contexts below

	notBefore time.Time        // nothing is begun before
	todo      []scheduler.Work // that waits for notBefore, or for an engine to end
	feed      Feed             // nil before the first span
	forgotten tso.TS           // by the feed
	writing   *writing         // nil where there is no engine
	ended     <-chan struct{}  // closed when the engine of a term that is over has ended; nil: none is ending

	stepped  bool      // by an owner since the half was asked what follows
	moved    bool      // there is news since the last report
	reported time.Time // the last

	loads loads
}

// live is one life: it ends with ctx or by an error, and everything in it with it.
func (p *Part) live(ctx context.Context, notBefore time.Time) error {
	g, ctx := errgroup.WithContext(ctx)
	l := &life{Part: p, works: g, notBefore: notBefore, loads: newLoads(p.cfg.CountEvery, time.Now())}
	g.Go(func() error { return l.loop(ctx) })
	return g.Wait()
}

// loop takes what comes, one thing after the other.
func (l *life) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.cfg.Line.Ready():
			if err := l.hear(); err != nil {
				return err
			}
		case <-l.advanced():
			l.learn()
		case <-l.words():
			l.settle()
		case <-l.logged():
			if err := l.tellLog(); err != nil {
				return err
			}
		case <-l.ended:
			l.ended, l.writing = nil, nil
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if l.ended != nil {
			continue // neither told nor begun is anything before what was written under another term has ended
		}
		if err := l.turn(ctx); err != nil {
			return err
		}
		timer.Reset(time.Until(l.next()))
	}
}

func (l *life) advanced() <-chan struct{} {
	if l.feed == nil {
		return nil
	}
	return l.feed.Advanced()
}

func (l *life) words() <-chan struct{} {
	if l.writing == nil || l.ended != nil { // what one that ends still tells means nothing under the next term
		return nil
	}
	return l.writing.box.ready
}

// next is when the loop has something to do by itself.
func (l *life) next() time.Time {
	at := l.due()
	if len(l.todo) > 0 && l.notBefore.Before(at) {
		return l.notBefore
	}
	return at
}

func (l *life) due() time.Time {
	if l.moved {
		return l.reported.Add(reportSoon)
	}
	return l.reported.Add(reportLate)
}

// hear takes orders; an error ends the life.
func (l *life) hear() error {
	all := l.cfg.Line.Take()
	l.mu.Lock()
	was, owner, term := l.half.Barrier(), l.half.Owner(), l.half.Term()
	for i := range all {
		l.half.Step(all[i])
		// Who brings only a barrier needs no answer.
		l.moved = l.moved || len(all[i].Orders) > 0 || all[i].Incarnation == 0
	}
	is := l.half.Barrier()
	l.moved = l.moved || l.half.Owner() != owner || l.half.Term() != term
	l.passed = max(l.passed, is.Passed)
	err := l.half.Err()
	l.mu.Unlock()
	l.stepped = true
	if loosened(was, is) {
		l.look()
	}
	l.forget()
	return err
}

// loosened tells whether limits may have risen.
func loosened(was, is scheduler.Barrier) bool {
	return was.Known != is.Known || was.Passed != is.Passed || was.Sync != is.Sync || was.Gate != is.Gate || len(is.Tables) > 0
}

// learn takes what is new of the schema: DDLs before the resolved-ts that passes them.
func (l *life) learn() {
	resolved := l.feed.Resolved()
	var blocks []scheduler.Block
	for _, d := range l.feed.DDLs(resolved) {
		turn := l.scope.Turn(d, func() []*event.Table { return l.feed.Tables(d.SwitchTS.Prev()) })
		if turn.Counts() {
			blocks = append(blocks, scheduler.Block{TS: d.SwitchTS, Tables: turn.Tables, Added: turn.Added})
		}
	}
	l.mu.Lock()
	l.half.Schema(resolved, blocks...)
	l.mu.Unlock()
	l.forget()
	l.look()
}

// forget lets the schema go that no row needs any more.
func (l *life) forget() {
	if l.feed == nil {
		return
	}
	if upto := min(l.passed, l.feed.Resolved()); upto > l.forgotten {
		l.forgotten = upto
		l.feed.Forget(upto)
	}
}

func (l *life) look() {
	if l.writing == nil {
		return
	}
	l.writing.engine.Look()
	if l.writing.log != nil {
		l.writing.log.feed.Look()
	}
}

// settle takes what the engine has told.
func (l *life) settle() {
	words := l.writing.box.take()
	for len(words) > 0 {
		n := min(len(words), wordsMax)
		l.mu.Lock()
		for i := range words[:n] {
			l.heed(&words[i])
		}
		l.mu.Unlock()
		words = words[n:]
	}
	l.moved = true
}

// heed takes one word. Between a stop and its end the engine still speaks of what was
// stopped, and not of what may have been begun under the same name since.
func (l *life) heed(t *pipeline.Told) {
	stops := l.writing.stops
	if t.What != pipeline.Ended {
		if stops[t.Span] > 0 {
			return
		}
		l.loads.add(t.Span, t.Traffic)
	}
	switch t.What {
	case pipeline.Arrived:
		l.half.Prepared(t.Span, t.Resolved)
	case pipeline.Moved:
		l.half.Progress(t.Span, scheduler.Progress{Checkpoint: t.Checkpoint, Resolved: max(t.Checkpoint, t.Resolved)})
	case pipeline.Ended:
		if stops[t.Span]--; stops[t.Span] > 0 {
			return
		}
		delete(stops, t.Span)
		l.half.Ended(t.Span, t.Checkpoint)
		l.unlog(t.Span)
	}
}

// turn does what follows, and tells the owner if it is time to.
func (l *life) turn(ctx context.Context) error {
	now := time.Now()
	l.weigh(now)
	var report *scheduler.Report
	if due := !now.Before(l.due()); l.stepped || due {
		r := l.tick()
		l.stepped = false
		l.todo = append(l.todo, r.Work...)
		if due {
			report = r.Report
		}
	}
	if err := l.work(ctx, now); err != nil {
		return err
	}
	if l.ended != nil {
		return nil
	}
	if !now.Before(l.due()) {
		l.moved, l.reported = false, now
	}
	if report != nil {
		l.cfg.Line.Report(*report)
	}
	return nil
}

// tick asks the half what follows.
func (l *life) tick() scheduler.CaptureReady {
	liveness, deaf, did := l.cfg.Liveness(), l.cfg.Deaf(), l.did()
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.half.Tick(liveness)
	if r.Report != nil {
		r.Report.Rows, r.Report.Written = did.Rows-l.before, did.Written
		l.fill(r.Report)
		r.Report.Warning, r.Report.Deaf = l.warning.text, deaf
		if l.logTrouble != "" {
			r.Report.Warning = l.logTrouble // nothing goes on before it is over
		}
	}
	return r
}

// fill adds to a report what the half does not know. The caller holds mu.
func (l *life) fill(r *scheduler.Report) {
	l.floor = r.Floor
	if r.Writes == 0 {
		return
	}
	switch w := &l.warning; {
	case w.text == "":
	case w.upto == 0:
		w.upto = r.Floor.Resolved
	case r.Floor.Checkpoint > w.upto: // while it stands where it stood nothing is got over
		*w = warning{}
	}
}

// startFeed begins to follow the schema, from where every DDL before is done.
func (l *life) startFeed(ctx context.Context) {
	l.mu.Lock()
	began := l.passed
	l.mu.Unlock()
	f := l.path.Feed(schemafeed.Config{StartTS: began.Next(), Record: func(m []tso.Move) { l.recorder.Record(m...) }})
	l.feed, l.forgotten = f, began
	l.works.Go(func() error {
		if err := f.Load(ctx); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			if ctx.Err() == nil && l.passed > began {
				l.cfg.Log.Info("the schema could not be read; beginning anew further on", "changefeed", l.cfg.Name, "from", began, "to", l.passed, "error", err)
				return errOutdated
			}
			return err
		}
		return f.Run(ctx)
	})
}
