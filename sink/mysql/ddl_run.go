package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// DDL implements sink.Sink. A statement that has begun is waited for without
// end: an ALTER of a large table takes hours, and goes on in the server even if
// nobody waits.
func (s *Sink) DDL(ctx context.Context, leave sink.Leave, d *event.DDL) error {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.cfg.Role == sink.Rows {
		return cdcerr.Bug("job %d came to a sink that writes a capture's rows", d.JobID)
	}
	if err := s.Flush(ctx); err != nil {
		return err
	}
	defer s.settled(d)
	if err := leave.Check(); err != nil {
		return err
	}
	if err := s.claim(ctx, leave); err != nil {
		return err
	}
	if err := s.noteSince(ctx, leave); err != nil {
		return err
	}
	if s.noted.holds(d) {
		s.log.Info("DDL is noted downstream as done", "job", d.JobID, "ts", uint64(d.SwitchTS))
		return nil
	}
	if err := s.again(ctx, "the session", s.session.wake); err != nil {
		return err
	}
	if err := s.awaitBuilding(ctx, leave, d); err != nil {
		return err
	}
	script, err := planDDL(d, s.session.dialect, s.snapshot != nil)
	if err != nil {
		return err
	}
	for _, n := range script.notes {
		s.log.Info("DDL differs downstream", "job", d.JobID, "ts", uint64(d.SwitchTS), "feature", n.feature, "about", n.about)
	}
	run := ddlRun{Sink: s, leave: leave, ddl: d, script: script}
	if run.begun, err = s.noted.begun(d, script); err != nil {
		return err
	}
	if err := run.all(ctx); err != nil {
		return err
	}
	for _, t := range script.fill {
		if err := s.fill(ctx, leave, d, t); err != nil {
			return err
		}
	}
	if script.empty() {
		return nil // nothing was noted either
	}
	if err := s.verify(ctx, leave, d); err != nil {
		return err
	}
	return run.note(ctx, s.done(d))
}

// settled ends a DDL, whatever came of it. An owner's writes no rows but those with
// which it fills a table: the connections that took are given back.
func (s *Sink) settled(d *event.DDL) {
	s.claimer.forget(d)
	if s.cfg.Role == sink.Owner {
		for _, l := range s.lanes {
			l.session.lose()
		}
	}
}

// again does what may be done twice, until it passes or the downstream has been
// away for too long.
func (s *Sink) again(ctx context.Context, what string, do func(context.Context) error) error {
	p := s.patience()
	for {
		err := do(ctx)
		if err == nil {
			return nil
		}
		if isGone(err) {
			s.session.lose()
		}
		if ctx.Err() != nil || !p.again(ctx, err) {
			return err
		}
		s.log.Warn("the downstream went away, trying again", "doing", what, "error", err)
	}
}

// A ddlRun carries out one script.
type ddlRun struct {
	*Sink
	leave  sink.Leave
	ddl    *event.DDL
	script *script
	// begun is how far an end of the process has left the DDL, nil: it begins here.
	begun *underway
	// ready is the connection that has the script's database and clock; another
	// one has to be given them first.
	ready *sql.Conn
}

func (r *ddlRun) all(ctx context.Context) error {
	defer r.resetClock(ctx)
	first := 0
	if r.begun != nil {
		first = r.begun.Statement
	}
	for i := first; i < len(r.script.statements); i++ {
		if err := r.step(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// step carries out one statement. If its answer is lost, what the statement did
// is looked for before it is repeated: some would undo themselves.
func (r *ddlRun) step(ctx context.Context, i int) error {
	text := r.script.statements[i]
	before, took, err := r.beginStep(ctx, i)
	if errors.As(err, new(takenBack)) {
		return r.refuse(ctx, tried{statement: i, err: err}, r.failed(text, err))
	}
	if err != nil {
		return r.failed(text, err)
	}
	if took {
		return nil
	}
	p := r.patience()
	for {
		sent, err := r.attempt(ctx, text, before)
		this := tried{i, before, sent, err}
		if err == nil {
			return nil
		}
		if cdcerr.LeaveEnded.Is(err) || cdcerr.Fenced.Is(err) {
			return r.failed(text, err)
		}
		if faultOf(err) != gone && faultOf(err) != contention {
			if badly := r.settle(ctx, text, err); badly != nil {
				return r.refuse(ctx, this, badly)
			}
			return nil
		}
		if isGone(err) {
			r.session.lose()
		}
		if ctx.Err() != nil || !p.again(ctx, err) {
			return r.refuse(ctx, this, r.failed(text, err))
		}
		r.log.Warn("DDL was interrupted", "job", r.ddl.JobID, "statement", text, "error", err)
		if !sent || isContention(err) {
			continue // it has not run
		}
		took, err := r.tookEffect(ctx, i, before)
		if err != nil {
			this.err = err
			return r.refuse(ctx, this, r.failed(text, err))
		}
		if took {
			r.log.Info("DDL took effect although its answer was lost", "job", r.ddl.JobID, "statement", text)
			return nil
		}
	}
}

// tried is a statement that was tried, and ended with an error.
type tried struct {
	statement int
	before    marks
	sent      bool // the server may have begun it
	err       error
}

// refuse takes back that a statement is under way which the server said that it has not
// carried out; badly is what comes of the DDL. Whoever comes next would compare the
// tables with what they were before it, and read as its effect what somebody has done
// about the refusal:
//
//	RENAME a TO b ─▶ refused, b is there ─▶ somebody drops b ─▶ “b is not what it was”
//
// Until that stands downstream the error is that of a connection, so that the
// changefeed comes again by itself and nobody is asked to mend anything. An error after
// which the statement may have run leaves the note as it is.
func (r *ddlRun) refuse(ctx context.Context, t tried, badly error) error {
	if t.sent && !r.answered(t.err) || isGone(t.err) || ctx.Err() != nil {
		return badly
	}
	text := r.script.statements[t.statement]
	var after marks
	lookErr := r.again(ctx, "looking at the tables of a DDL", func(ctx context.Context) (err error) {
		after, err = r.marks(ctx)
		return err
	})
	switch {
	case lookErr != nil:
	case r.wholeTells(text) && t.before.compare(after, r.ddl) == tookPlace:
		r.log.Warn("the downstream refused a DDL, and its tables are not what they were before: it stays noted as under way", "job", r.ddl.JobID, "statement", text, "error", t.err)
		return badly
	default:
		lookErr = r.note(ctx, r.refusing(r.ddl, r.script, t.statement))
	}
	if lookErr == nil {
		return badly
	}
	return coded(lookErr, "job %d at %d: noting that the downstream refused it (%s)", r.ddl.JobID, r.ddl.SwitchTS, badly.Error())
}

// answered tells whether an error is the server's word that a statement was not
// carried out. On TiDB a job may go on whatever its server says of stores and schemas.
func (r *ddlRun) answered(err error) bool {
	e := serverError(err)
	switch {
	case faultOf(err) == oversized, errors.As(err, new(takenBack)):
		return true
	case e == nil, isGone(err):
		return false
	}
	return !isContention(err) || e.Number < firstOfTiDB
}

// firstOfTiDB is from where on numbers are TiDB's own.
const firstOfTiDB = 8000

// beginStep looks at what a statement is about to change and notes it downstream,
// or finds out whether one took place that was under way when the process ended.
func (r *ddlRun) beginStep(ctx context.Context, i int) (before marks, took bool, err error) {
	text := r.script.statements[i]
	if r.begun != nil && i == r.begun.Statement && !r.begun.Refused {
		if took, err = r.tookEffect(ctx, i, r.begun.Before); err != nil {
			return before, false, err
		}
		r.log.Info("DDL was under way when Sluice ended", "job", r.ddl.JobID, "statement", text, "took effect", took)
		return r.begun.Before, took, nil
	}
	if before, err = r.marksBefore(ctx); err != nil {
		return before, false, err
	}
	return before, false, r.note(ctx, r.beginning(r.ddl, r.script, i, before))
}

// attempt runs one statement of the script once; sent tells whether the server
// may have begun it.
func (r *ddlRun) attempt(ctx context.Context, text string, before marks) (sent bool, err error) {
	if err := r.prepare(ctx); err != nil {
		return false, err
	}
	// Asked anew before every statement, and before one that was cut is sent again:
	// the one before may have taken hours.
	if err := r.leave.Check(); err != nil {
		return false, err
	}
	if err := r.passing(ctx, r.leave, ""); err != nil {
		return false, err
	}
	term := r.leave().Fence
	defer r.session.guarded(term)()
	switch {
	case r.async(text, before):
		// The driver closes the connection when nobody waits any more; TiDB goes on.
		err = r.session.exec(ctx, r.cfg.AsyncDDLTimeout, text)
	case text != r.script.main:
		err = r.session.exec(ctx, 0, text)
	case r.script.zone != nil:
		err = r.inZone(ctx, r.ddl, r.script)
	default:
		err = r.execMain(ctx, r.script)
	}
	return true, r.session.post.fenced(ctx, r.session, term, err)
}

// prepare gives a session the script's database and clock.
func (r *ddlRun) prepare(ctx context.Context) error {
	conn, err := r.session.use(ctx)
	if err != nil || conn == r.ready {
		return err
	}
	if r.script.use != "" {
		if err := r.session.exec(ctx, 0, "USE "+ident(r.script.use)); err != nil {
			if e := serverError(err); e == nil || e.Number != errUnknownDB {
				return fmt.Errorf("USE %s: %w", r.script.use, err)
			}
		}
	}
	if err := r.setClock(ctx); err != nil {
		return fmt.Errorf("SET SESSION timestamp: %w", err)
	}
	r.ready = conn
	return nil
}

// resetClock lets the session's clock go again, whatever came of the DDL. A
// session of which that is not sure is given up; one that is lost has no clock.
func (r *ddlRun) resetClock(ctx context.Context) {
	if r.session.conn == nil || r.session.conn != r.ready {
		return
	}
	if err := r.session.exec(ctx, 0, "SET SESSION timestamp = DEFAULT"); err != nil && !isServerError(err) {
		r.session.lose()
	}
}

// setClock makes the session's clock show the moment of the statement upstream,
// for conversions and defaults that depend on it (a TIME becomes a DATETIME of
// the day). A server that has no such clock, or not for this user, goes by its
// own.
func (r *ddlRun) setClock(ctx context.Context) error {
	at := r.ddl.SwitchTS.Time()
	err := r.session.exec(ctx, 0, fmt.Sprintf("SET SESSION timestamp = %d.%03d", at.Unix(), at.Nanosecond()/int(time.Millisecond)))
	if isServerError(err) && !isGone(err) {
		r.log.Warn("the downstream's clock cannot be set: what depends on it may differ", "job", r.ddl.JobID, "error", err)
		return nil
	}
	return err
}

func (s *Sink) execMain(ctx context.Context, script *script) error {
	for _, text := range script.first {
		if err := s.session.exec(ctx, 0, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return s.session.exec(ctx, 0, script.main)
}

// settle decides about a statement that the server refused. A DDL is delivered
// again after a crash, so a statement that fails because its result is there
// already has succeeded; that is not believed on the error's number alone.
func (r *ddlRun) settle(ctx context.Context, text string, err error) error {
	e := serverError(err)
	if e == nil || !saysDone(e.Number) {
		return r.failed(text, err)
	}
	if r.ddl.Action == event.ActionDropForeignKey && e.Number == errCantDrop {
		// Upstream's and downstream's names of a foreign key without a name differ.
		r.log.Warn("foreign key to drop is not there", "job", r.ddl.JobID, "error", err)
		return nil
	}
	done := r.script.twin(text) != nil // it tells alone
	lookErr := r.again(ctx, "looking at a DDL's result", func(ctx context.Context) (err error) {
		if !done {
			done, err = r.inEffect(ctx, r.ddl)
		}
		return err
	})
	if lookErr != nil {
		return r.failed(text, lookErr)
	}
	if !done {
		return r.failed(text, err)
	}
	if lookErr = r.sameAsWanted(ctx, text); lookErr != nil {
		return r.failed(text, lookErr)
	}
	r.log.Info("DDL was in effect already", "job", r.ddl.JobID, "ts", uint64(r.ddl.SwitchTS), "statement", text, "error", err)
	return nil
}

// failed gives an error of a statement its code.
func (r *ddlRun) failed(text string, err error) error {
	code := cdcerr.ExecDDLFailed
	if cdcerr.MySQLTableDiffers.Is(err) {
		return fmt.Errorf("job %d at %d: %w", r.ddl.JobID, r.ddl.SwitchTS, err)
	}
	switch faultOf(err) {
	case gone:
		r.session.lose()
		code = cdcerr.MySQLConnection
	case denied:
		code = cdcerr.MySQLAccessDenied
	}
	return code.Wrap(err, "job %d at %d: %s", r.ddl.JobID, r.ddl.SwitchTS, text)
}

// saysDone are the errors of a statement whose result was there before.
func saysDone(number uint16) bool {
	switch number {
	case errDBExists, errDBNotExists, errTableExists, errUnknownTable, errUnknownColumn, errDuplicateColumn,
		errDuplicateKeyName, errMultiplePrimary, errCantDrop, errNoSuchTable, errKeyNotExists,
		errDropPartition, errSamePartition, errDuplicateIndex, errDuplicateCheck:
		return true
	}
	return false
}
