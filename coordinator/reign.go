package coordinator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/scheduler"
)

// reign is the time as owner of one leadership.
type reign struct {
	*Coordinator
	fence *meta.Leadership
	stop  context.CancelCauseFunc // set before run shows itself to the API

	group *errgroup.Group
	come  chan *feed    // those that are made while it goes on; unbuffered, so that none is lost
	over  chan struct{} // closed when none is taken any more
	// urgent are those that are to be looked after whether anything is held upstream or not.
	urgent chan *feed

	gc gcHold

	mu      sync.Mutex
	feeds   map[meta.ChangefeedID]*feed // guarded by mu
	drained map[capture.ID]bool         // guarded by mu: who is to be empty, until it has left
	spent   map[meta.ChangefeedID]spent // guarded by mu: what those of a name that are removed have used up
}

// spent are the last numbers that the changefeeds of a name have used in a reign: who
// takes part in one, and writes under it, may not know yet that it is removed.
type spent struct {
	run  uint64
	term scheduler.Term
}

// errResigned ends a reign whose owner gave it up.
var errResigned = errors.New("the owner resigned")

func newReign(c *Coordinator, l *meta.Leadership) *reign {
	return &reign{
		Coordinator: c, fence: l, come: make(chan *feed), over: make(chan struct{}), urgent: make(chan *feed),
		feeds: map[meta.ChangefeedID]*feed{}, drained: map[capture.ID]bool{}, spent: map[meta.ChangefeedID]spent{}, gc: gcHold{now: make(chan struct{}, 1), first: make(chan struct{})},
	}
}

// run owns the cluster until it resigns, which is nil, leaves, which is errLeft, or
// may not go on.
func (r *reign) run(ctx, leaving context.Context) error {
	all, err := r.cfg.Store.Changefeeds(ctx)
	if err != nil {
		return err
	}
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	defer context.AfterFunc(leaving, func() { r.stop(context.Cause(leaving)) })()
	// No capture that an owner before has known is missing from here on.
	if err := r.member.sees(ctx, scheduler.Revision(r.fence.Revision())); err != nil {
		return err
	}
	drained, err := r.cfg.Store.Drained(ctx)
	if err != nil {
		return err
	}
	for _, id := range drained {
		r.drained[id] = true
	}
	r.group, ctx = errgroup.WithContext(ctx)
	// The hold is of what all of them need, so that all are known before the first
	// one runs.
	known := make([]*feed, 0, len(all))
	for _, kept := range all {
		f := newFeed(r, kept)
		r.know(f)
		known = append(known, f)
	}
	r.group.Go(func() error { return r.holdGC(ctx) })
	r.group.Go(func() error { return r.guard(ctx) })
	r.group.Go(func() error {
		defer close(r.over)
		return r.take(ctx, known)
	})
	r.Coordinator.mu.Lock()
	r.Coordinator.reign = r
	r.Coordinator.mu.Unlock()
	switch err := r.group.Wait(); {
	case errors.Is(err, errResigned):
		return nil
	default:
		return err
	}
}

// take starts those that are known as soon as what they need is held, and takes in
// those that are made.
func (r *reign) take(ctx context.Context, waiting []*feed) error {
	first := r.gc.first
	hurry := func(f *feed) {
		if i := slices.Index(waiting, f); i >= 0 {
			waiting = slices.Delete(waiting, i, i+1)
			r.start(ctx, f)
		}
	}
	for _, f := range slices.Clone(waiting) {
		if f.ends() {
			hurry(f)
		}
	}
	for {
		select {
		case <-first:
			for _, f := range waiting {
				r.start(ctx, f)
			}
			first, waiting = nil, nil
		case f := <-r.urgent:
			hurry(f)
		case f := <-r.come:
			if first != nil {
				waiting = append(waiting, f)
			} else {
				r.start(ctx, f)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// start runs one changefeed's loop.
func (r *reign) start(ctx context.Context, f *feed) {
	r.group.Go(func() error { return f.loop(ctx) })
}

// begin is start for a changefeed that was just made; nil: the reign is over.
func (r *reign) begin(kept *meta.Changefeed) *feed {
	f := newFeed(r, kept)
	r.know(f) // whoever made it may ask for it at once
	select {
	case r.come <- f:
		return f
	case <-r.over:
		return nil
	}
}

func (r *reign) know(f *feed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.feeds[f.id] = f
}

// spends keeps what a changefeed has used up, which has no run any more.
func (r *reign) spends(f *feed) {
	f.mu.Lock()
	s := spent{term: f.term}
	if f.life != nil {
		s.run = f.life.Status().Run
	}
	f.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.spent[f.id]
	r.spent[f.id] = spent{max(s.run, was.run), max(s.term, was.term)}
}

// spentOn is what the changefeeds of a name have used up.
func (r *reign) spentOn(id meta.ChangefeedID) spent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spent[id]
}

func (r *reign) resign() { r.stop(errResigned) }

// get is one changefeed that is known.
func (r *reign) get(id meta.ChangefeedID) (*feed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.feeds[id]; f != nil {
		return f, nil
	}
	return nil, cdcerr.ChangefeedNotFound.New("%s", id)
}

// all are the changefeeds by namespace and name.
func (r *reign) all() []*feed {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*feed
	for _, f := range r.feeds {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *feed) int { return strings.Compare(a.id.String(), b.id.String()) })
	return out
}

// drop forgets a changefeed that was removed, and not one that has its name since.
func (r *reign) drop(f *feed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.feeds[f.id] == f {
		delete(r.feeds, f.id)
	}
}
