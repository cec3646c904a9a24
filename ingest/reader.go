package ingest

import (
	"context"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// ReaderConfig says what a reader is for.
type ReaderConfig struct {
	// FilterLoop leaves out rows that another change-data-capture wrote.
	FilterLoop bool
	// Record gets every move of the subscriptions that the reader shares, from
	// their goroutines; nil for nobody.
	Record func(...tso.Move)
	// Wake is called whenever Advanced gets a token and when Failed is closed, so that
	// one goroutine can follow many readers. It is called in the midst of the rows'
	// arrival, and may neither wait nor call back; nil for nobody.
	Wake func()
}

// Group is readers that one goroutine reads in turns, each at a place of its own.
type Group struct {
	in   *Ingest
	rows *sorter.Group
}

// NewGroup makes a group without readers.
func (n *Ingest) NewGroup() *Group { return &Group{in: n, rows: n.rows.NewGroup()} }

// Reader gives one changefeed the rows of the spans that it follows. It is used
// by one goroutine, and by another one that calls Forget.
type Reader struct {
	in         *Ingest
	filterLoop bool
	record     func(...tso.Move)
	wake       func() // nil: nobody's
	rows       *sorter.Reader
	failed     chan struct{} // closed when a subscription has failed

	// Guarded by Ingest.mu.
	pulls map[span.Span]*pull
	late  map[span.Span]struct{} // those of pulls that are not their subject's oldest
	err   error
}

// NewReader makes a reader that follows nothing, and is a group by itself. It must be
// closed.
func (n *Ingest) NewReader(cfg ReaderConfig) *Reader { return n.NewGroup().NewReader(cfg) }

// NewReader makes a reader that follows nothing. It must be closed.
func (g *Group) NewReader(cfg ReaderConfig) *Reader {
	return &Reader{
		in: g.in, filterLoop: cfg.FilterLoop, record: cfg.Record, wake: cfg.Wake,
		rows:   g.rows.NewReader(cfg.Wake),
		failed: make(chan struct{}),
		pulls:  make(map[span.Span]*pull),
		late:   make(map[span.Span]struct{}),
	}
}

// Follow begins a span: rows with commit-ts > from. A span that is followed
// already stays as it is.
func (r *Reader) Follow(ctx context.Context, s span.Span, from tso.TS) error {
	fresh, err := r.join(s, from)
	if fresh == nil || err != nil {
		return err
	}
	select {
	case r.in.starts <- fresh:
		return nil
	case <-r.in.stopped:
		err = errStopped
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.in.fail(fresh, err) // another reader may have joined it by now
	return err
}

// join finds a pull that still has what the reader needs, or makes one.
func (r *Reader) join(s span.Span, from tso.TS) (fresh *pull, err error) {
	n := r.in
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.pulls[s] != nil {
		return nil, nil
	}
	of := subject{s, r.filterLoop}
	for i, p := range n.pulls[of] {
		if !r.rows.Attach(p.input, from) {
			continue
		}
		p.joinLocked(r)
		if i > 0 {
			r.late[s] = struct{}{}
		}
		return nil, nil
	}
	p := &pull{subject: of, from: from, input: n.rows.NewInput(s, from), readers: make(map[*Reader]struct{})}
	if !r.rows.Attach(p.input, from) {
		return nil, cdcerr.Bug("a reader was not let to a new input of %v", s)
	}
	p.joinLocked(r)
	if len(n.pulls[of]) > 0 {
		r.late[s] = struct{}{}
	}
	n.pulls[of] = append(n.pulls[of], p)
	return p, nil
}

// Leave ends a span: rows that were not read are not this reader's any more.
func (r *Reader) Leave(s span.Span) {
	n := r.in
	n.mu.Lock()
	p := r.pulls[s]
	if p == nil {
		n.mu.Unlock()
		return
	}
	delete(r.late, s)
	r.rows.Detach(p.input)
	done := n.leaveLocked(p, r)
	n.mu.Unlock()
	done()
}

// Close leaves every span.
func (r *Reader) Close() {
	n := r.in
	n.mu.Lock()
	r.rows.Close()
	var done []func()
	for _, p := range r.pulls {
		done = append(done, n.leaveLocked(p, r))
	}
	n.mu.Unlock()
	for _, f := range done {
		f()
	}
}

// Forget gives up all rows at or below upto.
func (r *Reader) Forget(upto tso.TS) {
	r.rows.Forget(upto)
	for _, done := range r.merge() {
		done()
	}
}

// merge puts the reader over to the oldest pull of each subject for which it has
// one of its own, as far as it has caught up.
func (r *Reader) merge() (done []func()) {
	n := r.in
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range r.late {
		p := r.pulls[s]
		if p.over {
			continue // it has failed, and so has the reader
		}
		oldest := n.pulls[p.subject][0]
		if oldest == p {
			delete(r.late, s)
			continue
		}
		if !r.rows.Swap(p.input, oldest.input) {
			continue
		}
		delete(r.late, s)
		oldest.joinLocked(r)
		done = append(done, n.leaveLocked(p, r))
	}
	return done
}

func (r *Reader) failLocked(err error) {
	if r.err == nil {
		r.err = err
		close(r.failed)
		if r.wake != nil {
			r.wake()
		}
	}
}

// Failed is closed when a subscription has failed: the reader gets no further.
func (r *Reader) Failed() <-chan struct{} { return r.failed }

// Err says why, once Failed is closed.
func (r *Reader) Err() error {
	r.in.mu.Lock()
	defer r.in.mu.Unlock()
	return r.err
}

// Resolved is the least resolved-ts of all spans, tso.Max without any.
func (r *Reader) Resolved() tso.TS { return r.rows.Resolved() }

// Advanced gets a token when Resolved has risen since the last one was taken.
func (r *Reader) Advanced() <-chan struct{} { return r.rows.Advanced() }

// Fetch reads the rows with lower < commit-ts <= upper of all spans, in order.
func (r *Reader) Fetch(lower, upper tso.TS) (*sorter.Iterator, error) {
	return r.rows.Fetch(lower, upper)
}

// Readable says that the reader will read and forget everything at or below
// upto that is resolved, without waiting for any further row.
func (r *Reader) Readable(upto tso.TS) { r.rows.Readable(upto) }

// Look is Readable, and says up to where the spans are resolved, and whether there may
// be a row above lower and at or below both.
func (r *Reader) Look(lower, upto tso.TS) (resolved tso.TS, rows bool) {
	return r.rows.Look(lower, upto)
}
