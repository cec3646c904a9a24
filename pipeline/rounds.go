package pipeline

import (
	"context"
	"fmt"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/tso"
)

const (
	// sliceBatches is how many batches a span gets queued at once while others wait:
	// as many as the queue holds, so that the sink has work while the next one begins.
	sliceBatches = queueLen
	// largeMost is how many spans may be in the midst of a large transaction. Each
	// holds a piece, and what is read at once from disk, so that a span with a small
	// one need not wait for one that takes minutes.
	largeMost = 4
	// movesMost is how many places with nothing to write are told of at once.
	movesMost = 256
)

const (
	causeLimit = "its rows may be written up to here"
	causeCover = "its partitions are others from here on"
)

// rounds reads the places, one after the other.
type rounds struct {
	*Spans
	queue   chan<- parcel
	cutter  *cutter
	opening <-chan struct{} // closed when there is a sink; nil since then
	open    bool
	gate    <-chan struct{} // a token, or closed, when the gate has moved
	current *place          // whose rows are cut
	round   []*place        // taken from ready
	held    []*place        // may go on once a limit moves; some perhaps not any more
	crowded []*place        // wait for a large transaction to end
	moves   []move
	paused  *place // whose turn is open, without a large transaction
}

func newRounds(s *Spans, queue chan<- parcel) *rounds {
	r := &rounds{Spans: s, queue: queue, opening: s.opened, gate: s.stages.Gate.Moved()}
	r.cutter = newCutter(&s.stages, s.schema, func() bool { return s.sink.Whole() }, r.putRows, s.note)
	r.cutter.most = largeMost
	return r
}

// run looks at what is ready until ctx ends.
func (r *rounds) run(ctx context.Context) error {
	defer func() {
		for _, p := range r.places {
			r.leave(p)
		}
	}()
	for {
		p, err := r.take(ctx)
		switch {
		case err != nil:
			return err
		case p != nil:
			err = r.visit(ctx, p)
		default:
			if err = r.flushMoves(ctx); err == nil {
				err = r.wait(ctx)
			}
		}
		if err != nil {
			return err
		}
		r.listen()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// wait returns when there may be something to do.
func (r *rounds) wait(ctx context.Context) error {
	select {
	case <-r.wake:
	case <-r.opening:
		r.begin()
	case <-r.gate:
		r.gateMoved()
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// listen hears what else has happened while places were read.
func (r *rounds) listen() {
	select {
	case <-r.opening:
		r.begin()
	default:
	}
	select {
	case <-r.gate:
		r.gateMoved()
	default:
	}
}

func (r *rounds) gateMoved() {
	r.gate = r.stages.Gate.Moved() // before anybody asks for the limit
	r.look()
}

// begin is called when there is a sink.
func (r *rounds) begin() {
	r.opening, r.open = nil, true
	var waiting []*place
	for _, p := range r.places { // only the reader changes it
		if p.phase == writing {
			waiting = append(waiting, p)
		}
	}
	r.again(waiting)
}

// take does what was ordered, and gives the next place to be looked at, nil for none.
func (r *rounds) take(ctx context.Context) (*place, error) {
	r.mu.Lock()
	orders, ended, looked := r.orders, r.ended, r.looked
	r.orders, r.ended, r.looked = nil, nil, false
	r.mu.Unlock()
	for _, p := range ended {
		if err := r.forget(ctx, p); err != nil {
			return nil, err
		}
	}
	for _, o := range orders {
		if err := r.obey(ctx, o); err != nil {
			return nil, err
		}
	}
	if looked {
		r.look()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.round) == 0 {
		r.round, r.ready = r.ready, nil
	}
	if len(r.round) == 0 {
		return nil, nil
	}
	p := r.round[0]
	r.round[0] = nil
	r.round = r.round[1:]
	p.ready = false
	return p, nil
}

// look has those looked at that a limit held back.
func (r *rounds) look() {
	held := r.held
	r.held = r.held[:0]
	for _, p := range held {
		p.waits = false
	}
	r.again(held)
}

// again has places looked at.
func (r *rounds) again(places []*place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range places {
		if !p.ready {
			p.ready = true
			r.ready = append(r.ready, p)
		}
	}
}

// obey does one order.
func (r *rounds) obey(ctx context.Context, o order) error {
	p := r.places[o.of]
	if p != nil && p.phase == ending {
		p.then = append(p.then, o)
		return nil
	}
	switch o.verb {
	case toPrepare:
		if p != nil {
			return nil
		}
		_, err := r.follow(ctx, o)
		return err
	case toWrite:
		if p != nil && p.phase == writing {
			return nil
		}
		return r.write(ctx, p, o)
	case toStop:
		if p == nil {
			return nil
		}
		return r.stop(ctx, p)
	}
	return nil
}

// follow begins a place.
func (r *rounds) follow(ctx context.Context, o order) (*place, error) {
	p := &place{of: o.of, from: o.from, last: max(o.from, r.cfg.StartTS), cover: cover{of: o.of}}
	p.rows = r.group.NewReader(ingest.ReaderConfig{
		FilterLoop: r.cfg.FilterLoop, Record: r.stages.Recorder.Record, Wake: func() { r.advanced(p) },
	})
	r.mu.Lock()
	r.places[o.of] = p
	r.mu.Unlock()
	r.advanced(p)
	return p, nil
}

func (r *rounds) write(ctx context.Context, p *place, o order) error {
	if p == nil {
		var err error
		if p, err = r.follow(ctx, o); err != nil {
			return err
		}
	}
	if o.from < p.from {
		return cdcerr.Bug("%v is to be written from %d on, and was prepared from %d", p.of, o.from, p.from)
	}
	p.begin(o.from, r.cfg.StartTS)
	p.rows.Forget(p.last)
	select {
	case <-r.first:
	default:
		close(r.first)
	}
	r.advanced(p)
	return nil
}

// stop reads no more of a place. Of one that has nothing queued that is all.
func (r *rounds) stop(ctx context.Context, p *place) error {
	was := p.phase
	p.phase = ending
	r.leave(p)
	if was == writing && r.open {
		return r.send(ctx, parcel{of: p, end: true, due: due{bytes: p.bytes}})
	}
	told := Told{Span: p.of, What: Ended}
	told.Checkpoint, told.Resolved, _ = p.at()
	p.rows.Close()
	r.cfg.Tell(told)
	return r.forget(ctx, p)
}

// forget ends a place of which nothing is written any more, and goes on with what was
// ordered since.
func (r *rounds) forget(ctx context.Context, p *place) error {
	p.phase = over
	r.mu.Lock()
	delete(r.places, p.of)
	r.mu.Unlock()
	for _, o := range p.then {
		if err := r.obey(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// leave gives up the turn of a place.
func (r *rounds) leave(p *place) {
	if p.turn == nil {
		return
	}
	if r.paused == p {
		r.paused = nil
	}
	p.bytes += p.turn.bytes
	r.cutter.end(p.turn)
	p.turn = nil
	r.admit()
}

// admit lets those go on who wait for a large transaction to end, once one has.
func (r *rounds) admit() {
	if len(r.crowded) > 0 && r.cutter.larges < largeMost {
		r.again(r.crowded)
		r.crowded = nil
	}
}

// visit does what there is to do for one place.
func (r *rounds) visit(ctx context.Context, p *place) error {
	if p.phase == ending || p.phase == over {
		return nil
	}
	select {
	case <-p.rows.Failed():
		return p.rows.Err()
	default:
	}
	if known, err := r.settle(ctx, p); !known || err != nil {
		return err
	}
	switch {
	case p.phase == following:
		if resolved := p.rows.Resolved(); !p.arrived && resolved > max(p.from, r.cfg.StartTS) {
			p.arrived = true
			r.cfg.Tell(Told{Span: p.of, What: Arrived, Resolved: resolved})
		}
		return nil
	case !r.open:
		return nil // it is looked at when there is a sink
	case p.turn != nil:
		return r.read(ctx, p, p.resolved)
	}
	bound, cause := r.bound(p)
	changes := p.cover.upto < bound
	if changes {
		bound, cause = p.cover.upto, causeCover
	}
	resolved, rows := p.rows.Look(p.last, bound)
	if resolved <= bound {
		bound, cause = resolved, causeSpans
	} else if !changes {
		r.hold(p)
	}
	switch {
	case bound <= p.upto:
		return nil
	case rows && bound > p.last:
		if bound > p.resolved {
			r.stages.Recorder.Record(moveOf(p, cause, bound))
		}
		return r.read(ctx, p, bound)
	}
	if changes && bound == p.cover.upto {
		r.advanced(p) // it goes on there with others
	}
	p.last, p.upto, p.resolved = max(p.last, bound), bound, bound
	r.moves = append(r.moves, move{p, due{forget: p.last, upto: bound, resolved: bound, bytes: p.bytes}})
	p.bytes = 0
	if len(r.moves) < movesMost {
		return nil
	}
	return r.flushMoves(ctx)
}

// bound is up to where the rows of a place may be written.
func (r *rounds) bound(p *place) (bound tso.TS, cause string) {
	bound, cause = r.cfg.Limit(p.of), causeLimit
	if known := r.schema.Resolved(); known < bound {
		bound, cause = known, causeSchema
	}
	if gate := r.stages.Gate.Limit(); gate < bound {
		bound, cause = gate, causeGate
	}
	return bound, cause
}

// read goes on with the turn of a place, or takes one up to bound.
func (r *rounds) read(ctx context.Context, p *place, bound tso.TS) error {
	if err := r.takeUp(ctx, p, bound); err != nil {
		return err
	}
	t := p.turn
	s, err := r.cutter.run(ctx, t, sliceBatches)
	if err != nil {
		return r.fail(ctx, p, err)
	}
	r.admit()
	switch {
	case s == turnOver:
		return r.done(ctx, p)
	case s == turnCrowded:
		r.crowded = append(r.crowded, p)
		return r.part(ctx, p)
	case t.large == nil:
		r.paused = p
	}
	r.advanced(p)
	return nil
}

// takeUp makes the turn of a place the current one. Beside those with large transactions
// one is kept open, so that a place that is alone reads on where it is.
func (r *rounds) takeUp(ctx context.Context, p *place, bound tso.TS) error {
	if q := r.paused; q != nil {
		if r.paused = nil; q != p {
			if err := r.part(ctx, q); err != nil {
				return err
			}
		}
	}
	r.current, r.cutter.span = p, p.of.TableID
	if p.turn != nil {
		return nil
	}
	t, err := r.cutter.begin(p.rows, p.last, bound, p.upto)
	if err != nil {
		return r.fail(ctx, p, err)
	}
	p.turn, p.resolved = t, max(p.resolved, bound)
	return nil
}

// done ends a turn that has come to its bound.
func (r *rounds) done(ctx context.Context, p *place) error {
	it := item{forget: p.resolved, upto: p.resolved}
	if err := r.cutter.flush(ctx, p.turn, it); err != nil {
		return err
	}
	p.last = p.resolved
	r.leave(p)
	r.advanced(p) // what was resolved since it began was not looked at
	if p.upto == p.resolved {
		return nil // the last batch says so
	}
	return r.putRows(ctx, it)
}

// part ends a turn at the row that comes next: from there on rows are read anew.
func (r *rounds) part(ctx context.Context, p *place) error {
	raw, err := p.turn.peek()
	if err != nil {
		return r.fail(ctx, p, err)
	}
	p.last = raw.CommitTS.Prev()
	r.leave(p)
	return nil
}

// fail hands an error on to the writer, who raises it once everything before it is
// downstream.
func (r *rounds) fail(ctx context.Context, p *place, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if err := r.send(ctx, parcel{item: item{err: fmt.Errorf("table %d: %w", p.of.TableID, err)}}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// putRows queues what the cutter has cut of the current place.
func (r *rounds) putRows(ctx context.Context, it item) error {
	p := r.current
	p.upto = max(p.upto, it.upto)
	bytes := p.bytes
	p.bytes = 0
	if t := p.turn; t != nil {
		bytes, t.bytes = bytes+t.bytes, 0
	}
	return r.send(ctx, parcel{of: p, item: it, due: due{forget: it.forget, upto: it.upto, resolved: p.resolved, bytes: bytes}})
}

func (r *rounds) flushMoves(ctx context.Context) error {
	if len(r.moves) == 0 {
		return nil
	}
	return r.send(ctx, parcel{})
}

// send queues a parcel behind the moves before it.
func (r *rounds) send(ctx context.Context, x parcel) error {
	x.moves, r.moves = r.moves, nil
	select {
	case r.queue <- x:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func moveOf(p *place, cause string, bound tso.TS) tso.Move {
	return tso.Move{Stage: tso.StageGlobal, TableID: p.of.TableID, From: p.resolved, To: bound, Cause: cause}
}
