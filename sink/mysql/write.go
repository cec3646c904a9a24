package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// What may be taken on and not be written yet: enough for every lane to find its
// next downstream transaction ready when it has written one, and never more
// bytes than that, beside one transaction that is larger.
const (
	aheadTxns  = 2
	aheadBytes = 16 << 20
)

// A burst is what is written between two flushes. Its goroutines end with it.
type burst struct {
	graph  *graph
	group  *errgroup.Group
	start  func(lanes []*lane) // lets lanes begin
	over   <-chan struct{}     // closed when one of them has failed, or the context ended
	cancel context.CancelFunc
	tables shapes // of the rows that were taken on
}

// shapes are tables as they were when rows of theirs were taken on, by id and by
// name: of each there is one.
type shapes struct {
	known  map[*event.Table]struct{}
	byID   map[int64]*event.Table
	byName map[[2]string]*event.Table
	fresh  []*event.Table // of the last transaction, those that were not known before
}

func newShapes() shapes {
	return shapes{known: map[*event.Table]struct{}{}, byID: map[int64]*event.Table{}, byName: map[[2]string]*event.Table{}}
}

// take notes the tables of a transaction. It is false, and notes nothing more,
// if one has another shape than before, or another table has its name: what is
// claimed by rows of one and of the other is not to be compared. That comes
// without a flush where a DDL is ignored, and the rows meet downstream all the
// same: the table there is one, and may still have an index that upstream dropped.
func (s *shapes) take(rows []*event.Row) bool {
	s.fresh = s.fresh[:0]
	for _, r := range rows {
		t := r.Table
		if _, ok := s.known[t]; ok {
			continue
		}
		name := nameOf(t)
		if s.byID[t.ID] != nil || s.byName[name] != nil {
			return false
		}
		s.known[t], s.byID[t.ID], s.byName[name] = struct{}{}, t, t
		s.fresh = append(s.fresh, t)
	}
	return true
}

// Write implements sink.Sink.
func (s *Sink) Write(ctx context.Context, leave sink.Leave, txns []event.Txn) error {
	if s.cfg.Role == sink.Owner {
		return cdcerr.Bug("rows came to an owner's sink, which writes none")
	}
	return s.put(ctx, leave, s.noted.above(txns))
}

func (s *Sink) put(ctx context.Context, leave sink.Leave, txns []event.Txn) error {
	if len(txns) == 0 {
		return nil
	}
	err := s.claim(ctx, leave)
	if err == nil {
		err = s.noteSince(ctx, leave)
	}
	if err != nil {
		return fmt.Errorf("transactions from commit-ts %d on: %w", txns[0].CommitTS, err)
	}
	b := s.burst
	if b == nil {
		b = s.begin(ctx)
	}
	replayed := s.cfg.replayed()
	for i := range txns {
		if !b.tables.take(txns[i].Rows) {
			if err := s.Flush(ctx); err != nil {
				return err
			}
			b = s.begin(ctx)
			b.tables.take(txns[i].Rows)
		}
		if err := s.know(ctx, b.tables.fresh); err != nil {
			b.cancel()
			_ = s.end(ctx) // it says that it was ended
			return fmt.Errorf("transactions from commit-ts %d on: %w", txns[i].CommitTS, err)
		}
		for _, u := range s.claimer.units(&s.cfg, leave, &txns[i]) {
			if !b.awaitRoom(len(s.lanes) * s.cfg.MaxTxnRows * aheadTxns) {
				return s.end(ctx)
			}
			u.fresh = replayed != 0 && u.txn.CommitTS > replayed
			b.start(b.graph.add(u))
		}
	}
	b.graph.nudge()
	if b.isOver() {
		return s.end(ctx)
	}
	return nil
}

// Flush implements sink.Sink.
func (s *Sink) Flush(ctx context.Context) error {
	if s.burst == nil {
		return nil
	}
	defer context.AfterFunc(ctx, s.burst.cancel)()
	s.burst.graph.close()
	return s.end(ctx)
}

func (s *Sink) begin(ctx context.Context) *burst {
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	b := &burst{graph: newGraph(s.lanes, s.width, s.cfg.MaxTxnRows), group: group, over: ctx.Done(), cancel: cancel, tables: newShapes()}
	b.start = func(lanes []*lane) {
		for _, l := range lanes {
			group.Go(func() error { return s.work(ctx, b, l) })
		}
	}
	s.burst = b
	return b
}

// end waits for the burst's lanes: the burst is closed, or one of them has failed,
// or the context ended.
func (s *Sink) end(ctx context.Context) error {
	b := s.burst
	s.burst = nil
	over := b.isOver() // before it is cancelled here
	err := b.group.Wait()
	over = over || b.isOver() && err != nil
	b.cancel()
	switch {
	case err == nil && !over && b.graph.left() == 0:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return context.Canceled // under the context of the Write that began it
	}
	return err
}

func (b *burst) isOver() bool {
	select {
	case <-b.over:
		return true
	default:
		return false
	}
}

// awaitRoom waits until another unit may be taken on; false if the burst is over.
func (b *burst) awaitRoom(rows int) bool {
	for !b.graph.room(rows, aheadBytes) {
		b.graph.nudge()
		select {
		case <-b.graph.freed:
		case <-b.over:
			return false
		}
	}
	return !b.isOver()
}

// work writes what comes to a lane until the burst is over.
func (s *Sink) work(ctx context.Context, b *burst, l *lane) error {
	for {
		units, over := b.graph.take(l, &s.cfg)
		if over {
			return nil
		}
		if len(units) == 0 {
			select {
			case <-l.wake:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err := s.deliver(ctx, l.session, units); err != nil {
			return err
		}
		b.start(b.graph.finish(l, units))
	}
}

// deliver writes units in one downstream transaction, as often as it takes: they
// may be delivered twice, so it does not matter whether a COMMIT whose answer was
// lost took place.
func (s *Sink) deliver(ctx context.Context, on *session, units []*unit) error {
	leave := units[len(units)-1].leave
	changes, plain := merge(units), s.plain(units)
	p := s.patience()
	for {
		err := s.commit(ctx, leave, on, changes, plain)
		if err == nil {
			return nil
		}
		if plain {
			// Whether it is there now is not known; and if another row was in its place,
			// that is not upstream's.
			plain = false
			if e := serverError(err); e != nil && e.Number == errDuplicateKey {
				s.log.Warn("a row is there already downstream, rows are replaced", "first-ts", uint64(units[0].txn.CommitTS), "error", err)
				continue
			}
		}
		if faultOf(err) == misshapen {
			err = s.explain(ctx, on, changes, err)
		}
		err = s.about(changes, err)
		first, last := units[0].txn.CommitTS, units[len(units)-1].txn.CommitTS
		over := leave.Check()
		if over == nil && p.again(ctx, err) {
			over = leave.Check() // it may have ended in the pause
		} else if over == nil {
			over = err
		}
		if over != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("transactions of commit-ts %d to %d: %w", first, last, ctx.Err())
			}
			return coded(over, "transactions of commit-ts %d to %d", first, last)
		}
		s.log.Warn("downstream transaction failed, trying again", "first-ts", uint64(first), "last-ts", uint64(last), "error", err)
	}
}

// plain tells whether nothing of these was ever written, and whether that is to be
// made use of.
func (s *Sink) plain(units []*unit) bool {
	return !s.cfg.Safe && !slices.ContainsFunc(units, func(u *unit) bool { return !u.fresh })
}

// commit writes changes in one downstream transaction.
func (s *Sink) commit(ctx context.Context, leave sink.Leave, on *session, changes []change, plain bool) error {
	if err := leave.Check(); err != nil {
		return err
	}
	ctx, cancel := within(ctx, leave)
	defer cancel()
	conn, err := on.fresh(ctx)
	if err != nil {
		return err
	}
	if err := on.post.settle(ctx, on); err != nil {
		on.abandon(conn, err)
		return err
	}
	term := leave().Fence
	if err := s.transact(ctx, leave, on, conn, changes, plain, term); err != nil {
		if isGone(err) {
			on.post.doubt()
		}
		on.abandon(conn, err)
		return on.post.fenced(ctx, on, term, err)
	}
	return nil
}

func (s *Sink) transact(ctx context.Context, leave sink.Leave, on *session, conn *sql.Conn, changes []change, plain bool, term uint64) error {
	p := packet{session: on, wait: s.cfg.ReadTimeout, max: min(on.maxStatement(), s.cfg.MaxPacketBytes), most: on.maxStatement(), text: on.packed}
	w := s.writer(on, func(text []byte) error { return p.add(ctx, text) })
	w.buf = on.printed
	defer func() { on.printed, on.packed = kept(w.buf), kept(p.text) }()
	run := func(text string) error { return p.add(ctx, []byte(text)) }
	if err := run("BEGIN"); err != nil {
		return err
	}
	if err := on.post.pass(on.dialect, term, run); err != nil {
		return err
	}
	w.odd = func(text string, cells int) error {
		if err := p.send(ctx); err != nil {
			return err
		}
		return on.execOdd(ctx, s.cfg.ReadTimeout, text, cells)
	}
	if err := w.plan(makePlan(changes, &s.texts, on.dialect, plain)); err != nil {
		return err
	}
	// COMMIT goes alone, when all rows are locked: the transaction of a connection that
	// is lost before is taken back, and whoever writes its rows again after a COMMIT of
	// which the answer was lost waits for it. Sent along, it could come last.
	if err := p.send(ctx); err != nil {
		return err
	}
	if err := leave.Check(); err != nil {
		return err
	}
	// From here on the grant's end must not tear the connection down: a COMMIT
	// that has begun may finish.
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ReadTimeout)
	defer cancel()
	_, err := conn.ExecContext(wait, "COMMIT")
	if err = unanswered(context.WithoutCancel(ctx), s.cfg.ReadTimeout, err); errors.As(err, new(silence)) {
		return fmt.Errorf("COMMIT: %w", err)
	}
	return err
}

// about says of an error that is no table's own which downstream it is about, and which
// tables' rows were on their way.
func (s *Sink) about(changes []change, err error) error {
	if kind := faultOf(err); kind != gone && kind != contention || cdcerr.Of(err) != nil {
		return err
	}
	const some = 3
	var names []string
	for i := range changes {
		if name := changes[i].table.FullName(); !slices.Contains(names, name) {
			if len(names) == some {
				names[some-1] += " and others"
				break
			}
			names = append(names, name)
		}
	}
	return fmt.Errorf("%s, rows of %s: %w", s.cfg, strings.Join(names, ", "), err)
}

func (s *Sink) writer(on *session, run func(text []byte) error) *writer {
	w := &writer{dialect: on.dialect, target: s.cfg.MaxStatementBytes, rows: batchRows, max: on.maxStatement(), run: run}
	w.updates, w.average = s.cfg.MultiUpdateRows, s.cfg.MultiUpdateBytes
	if !s.cfg.Batch {
		w.rows, w.updates = 1, 1
	}
	return w
}
