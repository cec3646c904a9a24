package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// writing is an engine with its sink, under one term.
type writing struct {
	engine   Engine
	log      *logging // nil: there is no redo log
	box      *mailbox
	stops    map[span.Span]int // orders to stop whose end was not told yet; the loop's
	term     atomic.Uint64     // 0 until something is written
	replayed atomic.Uint64     // up to here others may have written
	ask      chan struct{}     // one signal: spans wait for replayed to rise
	stop     context.CancelFunc
	ended    chan struct{} // closed when nothing of it writes any more
}

// work does what is to be done, in order, as far as it may be begun now.
func (l *life) work(ctx context.Context, now time.Time) error {
	if now.Before(l.notBefore) {
		return nil
	}
	for len(l.todo) > 0 {
		x := l.todo[0]
		l.todo = l.todo[1:]
		if x.Verb == scheduler.Reset {
			if l.writing == nil {
				continue
			}
			l.cfg.Log.Info("fenced off: everything that was written here ends", "changefeed", l.cfg.Name, "capture", l.cfg.ID)
			l.writing.stop()
			l.ended = l.writing.ended
			l.loads.clear()
			l.mu.Lock()
			clear(l.fresh)
			l.mu.Unlock()
			return nil // what follows waits for the end
		}
		if err := l.do(ctx, x); err != nil {
			return err
		}
	}
	l.todo = nil
	return nil
}

// do begins one piece of work.
func (l *life) do(ctx context.Context, x scheduler.Work) error {
	if l.writing == nil {
		if l.feed == nil {
			l.startFeed(ctx)
		}
		l.startEngine(ctx)
	}
	w := l.writing
	switch x.Verb {
	case scheduler.Prepare:
		w.engine.Prepare(x.Span, x.From)
	case scheduler.Write:
		if was := w.term.Swap(uint64(x.Term)); was != 0 && was != uint64(x.Term) {
			return cdcerr.Bug("%v is to be written under term %d by a sink of term %d", x.Span, x.Term, was)
		}
		l.mu.Lock()
		l.orders++
		l.fresh[x.Span] = l.orders
		l.mu.Unlock()
		signal(w.ask)
		l.logFrom(x.Span, x.From) // first: rows wait for it
		w.engine.Write(x.Span, x.From)
	case scheduler.Stop:
		w.stops[x.Span]++
		w.engine.Stop(x.Span)
	}
	return nil
}

// startEngine begins an engine that has nothing. It is its own term's: whatever was
// written under another has ended.
func (l *life) startEngine(living context.Context) {
	ctx, stop := context.WithCancel(living)
	w := &writing{
		box: newMailbox(), stops: map[span.Span]int{}, ask: make(chan struct{}, 1), stop: stop, ended: make(chan struct{}),
	}
	w.engine = l.path.Engine(pipeline.SpansConfig{
		Changefeed: l.cfg.Name, StartTS: l.cfg.StartTS,
		Filter: l.scope.Rules, ForceReplicate: l.cfg.ForceReplicate, FilterLoop: l.cfg.FilterLoop,
		Limit: l.limit, Tell: w.box.put, Recorder: l.recorder, Log: l.cfg.Log,
		Grant: func() sink.Grant {
			return sink.Grant{Deadline: l.cfg.Lease(), Epoch: l.cfg.Epoch, Fence: w.term.Load()}
		},
		Open: func(ctx context.Context) (sink.Sink, error) {
			return l.cfg.Open(ctx, Opening{
				Term: scheduler.Term(w.term.Load()), Replayed: func() tso.TS { return tso.TS(w.replayed.Load()) },
				Warn: l.warn, Filter: l.scope.Rules, Snapshot: l.path.Snapshot(),
			})
		},
	}, known{l.feed})
	l.writing = w
	w.log = l.startLog(ctx, living)
	l.mu.Lock()
	l.engine = w.engine
	l.mu.Unlock()
	l.works.Go(func() error {
		defer close(w.ended)
		defer stop()
		err := w.engine.Run(ctx)
		did := w.engine.Counts()
		l.mu.Lock()
		l.past, l.engine = plus(l.past, did), nil
		l.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return living.Err() // nil: only the term is over
		case err == nil:
			return cdcerr.Bug("the engine ended without being told to")
		}
		return err
	})
	l.works.Go(func() error {
		l.replay(ctx, w)
		return living.Err()
	})
}

// replay finds, for spans that are to be written, up to where others may have written
// them: they had stopped, so none of their rows is later than now. Rows wait for it.
func (l *life) replay(ctx context.Context, w *writing) {
	for {
		select {
		case <-w.ask:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		last := l.orders
		l.mu.Unlock()
		ts, err := l.path.TS(ctx)
		for err != nil && ctx.Err() == nil {
			l.cfg.Log.Info("spans wait for the upstream's present to be written", "changefeed", l.cfg.Name, "error", err)
			if pause(ctx, restMin) == nil {
				ts, err = l.path.TS(ctx)
			}
		}
		if err != nil {
			continue // told to end
		}
		w.replayed.Store(max(w.replayed.Load(), uint64(ts)))
		l.mu.Lock()
		for s, order := range l.fresh {
			if order <= last {
				delete(l.fresh, s)
			}
		}
		l.mu.Unlock()
		w.engine.Look()
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
