package ingest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// Upstream gives the changes of a span; *upstream.Client is one.
type Upstream interface {
	Subscribe(ctx context.Context, s upstream.Subscription, out func(upstream.Batch) error) error
}

// Ingest holds a capture's subscriptions.
type Ingest struct {
	up      Upstream
	rows    *sorter.Sorter
	starts  chan *pull    // pulls that want a goroutine from Run
	stopped chan struct{} // closed when Run has ended

	mu    sync.Mutex
	pulls map[subject][]*pull // those that work, the oldest first
}

// subject is what one subscription can be shared for.
type subject struct {
	span       span.Span
	filterLoop bool
}

// pull is one subscription on its way into the sorter.
type pull struct {
	subject
	from  tso.TS
	input *sorter.Input

	// Guarded by Ingest.mu.
	readers map[*Reader]struct{}
	stop    context.CancelFunc // nil before Run has begun it
	over    bool               // it failed, or nobody reads it

	listeners atomic.Pointer[[]func(...tso.Move)] // of the readers
}

// New makes an Ingest. The sorter stays its caller's to close.
func New(up Upstream, rows *sorter.Sorter) *Ingest {
	return &Ingest{
		up: up, rows: rows,
		starts:  make(chan *pull),
		stopped: make(chan struct{}),
		pulls:   make(map[subject][]*pull),
	}
}

// errStopped is for readers that outlive the context of Run by a moment.
var errStopped = fmt.Errorf("the capture's subscriptions have been stopped: %w", context.Canceled)

// Run pulls until ctx ends. It is called once; readers wait for it.
func (n *Ingest) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(n.stopped)
		for {
			select {
			case p := <-n.starts:
				n.begin(ctx, g, p)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return g.Wait()
}

func (n *Ingest) begin(ctx context.Context, g *errgroup.Group, p *pull) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.over {
		return // its reader has left again
	}
	ctx, p.stop = context.WithCancel(ctx)
	stop := p.stop
	g.Go(func() error {
		defer stop()
		n.fail(p, n.pull(ctx, p))
		return nil // one pull is not the others' fate
	})
}

// pull subscribes until ctx ends or the subscription fails.
func (n *Ingest) pull(ctx context.Context, p *pull) error {
	memory := n.rows.NewPrewrites()
	defer memory.Close()
	sub := upstream.Subscription{Span: p.span, StartTS: p.from, FilterLoop: p.filterLoop, Memory: memory}
	err := n.up.Subscribe(ctx, sub, func(b upstream.Batch) error {
		if len(b.Moves) > 0 {
			for _, record := range *p.listeners.Load() {
				record(b.Moves...)
			}
		}
		return p.input.Add(ctx, b.Rows, b.Resolved)
	})
	switch {
	case ctx.Err() != nil:
		err = errStopped
	case err == nil:
		err = cdcerr.Bug("the subscription of %v ended without being told to", p.span)
	}
	return fmt.Errorf("following table %d: %w", p.span.TableID, err)
}

// fail ends a pull and tells its readers, unless it was told to end.
func (n *Ingest) fail(p *pull, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.over {
		return
	}
	n.endLocked(p)
	for r := range p.readers {
		r.failLocked(err)
	}
}

// endLocked takes a pull out of the list.
func (n *Ingest) endLocked(p *pull) {
	p.over = true
	if p.stop != nil {
		p.stop()
	}
	rest := slices.DeleteFunc(n.pulls[p.subject], func(o *pull) bool { return o == p })
	if n.pulls[p.subject] = rest; len(rest) == 0 {
		delete(n.pulls, p.subject)
	}
}

// joinLocked notes that a reader sits at the pull's input.
func (p *pull) joinLocked(r *Reader) {
	p.readers[r] = struct{}{}
	r.pulls[p.span] = p
	p.listenLocked()
}

// leaveLocked notes that a reader does not any more. The last one to leave ends
// the pull; then its input is to be closed, which may take a moment.
func (n *Ingest) leaveLocked(p *pull, r *Reader) (close func()) {
	delete(p.readers, r)
	if r.pulls[p.span] == p {
		delete(r.pulls, p.span)
	}
	p.listenLocked()
	if len(p.readers) > 0 {
		return func() {}
	}
	if !p.over {
		n.endLocked(p)
	}
	return p.input.Close
}

func (p *pull) listenLocked() {
	var all []func(...tso.Move)
	for r := range p.readers {
		if r.record != nil {
			all = append(all, r.record)
		}
	}
	p.listeners.Store(&all)
}
