package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// tookEffect tells whether a statement whose answer was lost has run. Statements
// that may be repeated whatever they did say no.
func (r *ddlRun) tookEffect(ctx context.Context, i int, before marks) (bool, error) {
	text := r.script.statements[i]
	if r.async(text, before) {
		return r.goesOn(ctx, text, before)
	}
	if err := r.awaitEnd(ctx, text); err != nil {
		return false, err
	}
	if !r.wholeTells(text) {
		return false, nil
	}
	var after marks
	err := r.again(ctx, "looking at the tables of a DDL", func(ctx context.Context) (err error) {
		after, err = r.marks(ctx)
		return err
	})
	if err != nil {
		return false, err
	}
	if before.LastJob != 0 && after.LastJob != 0 && (before.Server == after.Server || before.Server == "" || after.Server == "") {
		return r.jobDone(ctx, text, before.LastJob)
	}
	switch before.compare(after, r.ddl) {
	case tookPlace:
		return r.shows(ctx, i)
	case cannotTell:
		where := ""
		if before.Server != after.Server {
			where = ", and the server that answers now is not the one that it was sent to (" + after.Server + ", was " + before.Server + ")"
		}
		return false, cdcerr.ExecDDLFailed.New("job %d: the connection was lost during %s%s, and whether it took effect cannot be told: "+
			"look at the tables, do by hand what it did not, and resume the changefeed behind this DDL; "+
			"the PROCESS privilege, held all along, would have told on one server", r.ddl.JobID, text, where)
	}
	return false, nil
}

// wholeTells is false for a statement that is made of several, each of which finds out
// for itself what it did.
func (r *ddlRun) wholeTells(text string) bool {
	return text != r.script.main || r.script.zone == nil && len(r.script.first) == 0
}

// shows tells whether a statement, since which its tables have changed, is what changed
// them: somebody else may have, after it was refused and before that was noted. A last
// statement leaves behind what the DDL makes. One that does not show is run.
func (r *ddlRun) shows(ctx context.Context, i int) (bool, error) {
	if i != len(r.script.statements)-1 || r.session.dialect.Kind == Other {
		return true, nil
	}
	shows := false
	err := r.again(ctx, "looking at a DDL's result", func(ctx context.Context) (err error) {
		if shows, err = r.inEffect(ctx, r.ddl); !shows || err != nil {
			return err
		}
		w, err := r.changes()
		if w == nil || err != nil {
			return err
		}
		found, err := r.differences(ctx, w)
		shows = len(found) == 0
		return err
	})
	if err == nil && !shows {
		r.log.Warn("a DDL's tables have changed since it was begun, and not by it: it is carried out", "job", r.ddl.JobID, "statement", r.script.statements[i])
	}
	return shows, err
}

// A verdict is what two marks say about a statement between them.
type verdict uint8

const (
	didNot verdict = iota // or may be repeated
	tookPlace
	cannotTell
)

// compare tells from the marks before and after a DDL's statement whether it ran.
// Parts that are not known on both sides say nothing, nor do another server's
// moments and ids: it has its own for a table that is the same. Of another version,
// only whether a table is there is the same question.
//
//	marks on A ─▶ TRUNCATE sent to A ─▶ A dies, the address leads to B ─▶ marks on B:
//	other ids, other moments, and nothing of the TRUNCATE
//
// A server that has begun anew since may have taken a statement back that it was in the
// midst of. The tables are what they were, ids and all, but were made just now.
func (m marks) compare(after marks, d *event.DDL) verdict {
	same := m.Server != "" && m.Server == after.Server
	prints := m.Version != "" && m.Version == after.Version
	texts, moments, ids := true, true, true // known of all tables, on both sides
	for name, was := range m.Tables {
		is := after.Tables[name]
		there := (was == absent) == (is == absent)
		if !there && was.Text != "" && is.Text != "" {
			return tookPlace
		}
		both := func(a, b string, comparable bool, known *bool) bool {
			comparable = comparable && a != "" && b != ""
			*known = *known && comparable
			return comparable && a != b
		}
		text := both(was.Text, is.Text, prints || was == absent, &texts) && d.Action != event.ActionExchangePartition
		made := both(was.Made, is.Made, same && !m.restarted(after), &moments)
		if id := both(was.IDs, is.IDs, same, &ids); text || made || id {
			return tookPlace
		}
	}
	switch {
	case repeatable(d):
		return didNot
	case undoesItself(d) && !ids, looksTheSame(d) && !moments, !texts, len(m.Tables) == 0 && len(d.Tables) > 0:
		return cannotTell
	}
	return didNot
}

// repeatable tells whether a DDL does no more when it is run twice, whatever it did;
// its own rows come after it.
func repeatable(d *event.DDL) bool {
	switch d.Action {
	case event.ActionCreateSchema, event.ActionDropSchema, event.ActionSchemaCharset, event.ActionTruncateTable, event.ActionTruncatePartition:
		return true
	}
	return false
}

// undoesItself tells whether a DDL that is run twice is as if it never ran.
func undoesItself(d *event.DDL) bool {
	switch d.Action {
	case event.ActionExchangePartition:
		return true
	case event.ActionRenameTables:
		was, all := map[string]bool{}, true
		for _, c := range d.Tables {
			was[strings.ToLower(c.Before.FullName())] = true
		}
		for _, c := range d.Tables {
			all = all && was[strings.ToLower(c.After.FullName())]
		}
		return all
	}
	return false
}

// awaitEnd waits until no session of this user runs the statement: one whose
// client is gone is carried on with by the server.
func (r *ddlRun) awaitEnd(ctx context.Context, text string) error {
	wait := pauseMin
	for {
		running := false
		err := r.again(ctx, "looking for a DDL that still runs", func(ctx context.Context) (err error) {
			running, err = r.stillRuns(ctx, text)
			return err
		})
		if err != nil || !running {
			return err
		}
		r.log.Info("the downstream still carries a DDL out whose connection was lost", "job", r.ddl.JobID, "statement", text)
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, pauseMax)
	}
}

func (r *ddlRun) stillRuns(ctx context.Context, text string) (bool, error) {
	conn, err := r.session.use(ctx)
	if err != nil {
		return false, err
	}
	query := "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO = " + quoted(text)
	if r.session.dialect.Kind == TiDB {
		// The job goes on in TiDB's own queue, whoever asked for it.
		query = "SELECT COUNT(*) FROM information_schema.ddl_jobs WHERE STATE IN ('queueing', 'running', 'rollingback', 'cancelling', 'pausing', 'paused') AND QUERY = " + quoted(text)
	}
	var n int
	switch err := conn.QueryRowContext(ctx, query).Scan(&n); {
	case isServerError(err) && !isGone(err):
		return false, nil // a server without such a list
	case err != nil:
		return false, fmt.Errorf("looking for the statement: %w", err)
	}
	return n > 0, nil
}

// jobDone tells whether TiDB has finished a job of that statement since the one
// that was the newest.
func (r *ddlRun) jobDone(ctx context.Context, text string, newest int64) (done bool, err error) {
	err = r.again(ctx, "looking for a DDL's job", func(ctx context.Context) error {
		conn, err := r.session.use(ctx)
		if err != nil {
			return err
		}
		n, err := cellOf(ctx, conn, "SELECT COUNT(*) FROM information_schema.ddl_jobs WHERE JOB_ID > "+strconv.FormatInt(newest, 10)+
			" AND STATE IN ('done', 'synced') AND QUERY = "+quoted(text), 1)
		done = n != "" && n != "0"
		return err
	})
	return done, err
}
