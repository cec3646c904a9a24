package mysql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// DDL implements sink.Sink. A statement that has begun is waited for without
// end: an ALTER of a large table takes hours, and goes on in the server even if
// nobody waits.
func (s *Sink) DDL(ctx context.Context, g sink.Grant, d *event.DDL) error {
	if err := expired(g); err != nil {
		return err
	}
	if err := s.session.wake(ctx); err != nil {
		return err
	}
	script, err := planDDL(d, s.session.dialect, s.snapshot != nil)
	if err != nil {
		return err
	}
	for _, n := range script.notes {
		s.log.Info("DDL differs downstream", "job", d.JobID, "ts", uint64(d.SwitchTS), "feature", n.feature, "about", n.about)
	}
	if err := s.run(ctx, d, script); err != nil {
		return err
	}
	for _, t := range script.fill {
		if err := s.fill(ctx, g, d, t); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sink) run(ctx context.Context, d *event.DDL, script *script) error {
	if len(script.statements) == 0 {
		return nil
	}
	if script.use != "" {
		if err := s.session.exec(ctx, 0, "USE "+ident(script.use)); err != nil {
			if e := serverError(err); e == nil || e.Number != errUnknownDB {
				return s.ddlError(d, "USE "+script.use, err)
			}
		}
	}
	defer s.resetClock(ctx)
	if err := s.setClock(ctx, d); err != nil {
		return s.ddlError(d, "SET SESSION timestamp", err)
	}
	for i, text := range script.statements {
		if err := s.settle(ctx, d, text, s.attempt(ctx, d, script, i)); err != nil {
			return err
		}
	}
	return nil
}

// resetClock lets the session's clock go again, whatever came of the DDL. A
// session of which that is not sure is given up; one that is lost has no clock.
func (s *Sink) resetClock(ctx context.Context) {
	if s.session.conn == nil {
		return
	}
	if err := s.session.exec(ctx, 0, "SET SESSION timestamp = DEFAULT"); err != nil && !isServerError(err) {
		s.session.lose()
	}
}

// setClock makes the session's clock show the moment of the statement upstream,
// for conversions and defaults that depend on it (a TIME becomes a DATETIME of
// the day). A server that has no such clock, or not for this user, goes by its
// own.
func (s *Sink) setClock(ctx context.Context, d *event.DDL) error {
	at := d.SwitchTS.Time()
	err := s.session.exec(ctx, 0, fmt.Sprintf("SET SESSION timestamp = %d.%03d", at.Unix(), at.Nanosecond()/int(time.Millisecond)))
	if isServerError(err) {
		s.log.Warn("the downstream's clock cannot be set: what depends on it may differ", "job", d.JobID, "error", err)
		return nil
	}
	return err
}

// attempt runs one statement of a script, again where its tables were locked.
func (s *Sink) attempt(ctx context.Context, d *event.DDL, script *script, i int) error {
	for try := 1; ; try++ {
		var err error
		switch text := script.statements[i]; {
		case text != script.main:
			err = s.session.exec(ctx, 0, text)
		case script.zone != nil:
			err = s.inZone(ctx, d, script)
		default:
			err = s.execMain(ctx, script)
		}
		if e := serverError(err); e == nil || !isContention(e.Number) || try == tries {
			return err
		}
		s.log.Warn("DDL met a lock, trying again", "job", d.JobID, "try", try, "error", err)
		if err := pause(ctx, backoff<<(try-1)); err != nil {
			return err
		}
	}
}

func (s *Sink) execMain(ctx context.Context, script *script) error {
	for _, text := range script.first {
		if err := s.session.exec(ctx, 0, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return s.session.exec(ctx, 0, script.main)
}

// settle decides about the outcome of one statement. A DDL is delivered again
// after a crash, so a statement that fails because its result is there already
// has succeeded; that is not believed on the error's number alone.
func (s *Sink) settle(ctx context.Context, d *event.DDL, text string, err error) error {
	e := serverError(err)
	if e == nil || !saysDone(e.Number) {
		return s.ddlError(d, text, err)
	}
	if d.Action == event.ActionDropForeignKey && e.Number == errCantDrop {
		// Upstream's and downstream's names of a foreign key without a name differ.
		s.log.Warn("foreign key to drop is not there", "job", d.JobID, "error", err)
		return nil
	}
	done, lookErr := s.inEffect(ctx, d)
	if lookErr != nil {
		return s.ddlError(d, text, lookErr)
	}
	if !done {
		return s.ddlError(d, text, err)
	}
	s.log.Info("DDL was in effect already", "job", d.JobID, "ts", uint64(d.SwitchTS), "statement", text, "error", err)
	return nil
}

func (s *Sink) ddlError(d *event.DDL, text string, err error) error {
	if err == nil {
		return nil
	}
	if connectionLost(err) {
		s.session.lose()
		return cdcerr.MySQLConnection.Wrap(err, "job %d at %d: %s", d.JobID, d.SwitchTS, text)
	}
	return cdcerr.ExecDDLFailed.Wrap(err, "job %d at %d: %s", d.JobID, d.SwitchTS, text)
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

// inEffect compares what a DDL changes with what is downstream. Only names that
// the DDL brings or takes away count: the rest may differ for reasons of its own.
func (s *Sink) inEffect(ctx context.Context, d *event.DDL) (bool, error) {
	last := map[int64]*event.Table{} // a table may be renamed twice in one job
	for _, c := range d.Tables {
		if c.After != nil {
			last[c.After.ID] = c.After
		}
	}
	for _, c := range d.Tables {
		if c.After == nil || c.After != last[c.After.ID] {
			continue
		}
		ok, err := s.shaped(ctx, c.Before, c.After)
		if !ok || err != nil {
			return false, err
		}
	}
	for _, c := range d.Tables {
		if c.Before == nil || c.After != nil && strings.EqualFold(c.Before.FullName(), c.After.FullName()) {
			continue
		}
		stays := false
		for _, t := range last {
			stays = stays || strings.EqualFold(t.FullName(), c.Before.FullName())
		}
		if stays {
			continue
		}
		columns, err := s.names(ctx, columnsOf, c.Before)
		if err != nil || len(columns) > 0 {
			return false, err
		}
	}
	return true, nil
}

// shaped tells whether a table downstream has gone from before to after.
func (s *Sink) shaped(ctx context.Context, before, after *event.Table) (bool, error) {
	dialect := s.session.dialect
	for _, what := range []namesOf{columnsOf, indexesOf, partitionsOf} {
		if what == partitionsOf && (!dialect.keepsPartitions(after) || before != nil && !dialect.keepsPartitions(before)) {
			continue
		}
		have, err := s.names(ctx, what, after)
		if err != nil {
			return false, err
		}
		if what == columnsOf && len(have) == 0 {
			return false, nil // no such table
		}
		want, gone := expected(what, after, dialect), map[string]bool{}
		if before != nil {
			gone = expected(what, before, dialect)
		}
		for name := range want {
			if !gone[name] && !have[name] {
				return false, nil
			}
		}
		for name := range gone {
			if !want[name] && have[name] {
				return false, nil
			}
		}
	}
	return true, nil
}

// namesOf is a kind of names that information_schema lists for a table.
type namesOf struct{ view, column string }

var (
	columnsOf    = namesOf{"COLUMNS", "COLUMN_NAME"}
	indexesOf    = namesOf{"STATISTICS", "INDEX_NAME"}
	partitionsOf = namesOf{"PARTITIONS", "PARTITION_NAME"}
)

func (s *Sink) names(ctx context.Context, what namesOf, t *event.Table) (map[string]bool, error) {
	conn, err := s.session.use(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := conn.QueryContext(ctx, "SELECT DISTINCT "+what.column+" FROM information_schema."+what.view+
		" WHERE TABLE_SCHEMA = "+quoted(t.Schema)+" AND TABLE_NAME = "+quoted(t.Name)+" AND "+what.column+" IS NOT NULL")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		out[strings.ToLower(name)] = true
	}
	return out, rows.Err()
}

// expected are the names that the downstream has for a table of that shape.
func expected(what namesOf, t *event.Table, d Dialect) map[string]bool {
	out := map[string]bool{}
	switch what {
	case columnsOf:
		for i := range t.Columns {
			out[strings.ToLower(t.Columns[i].Name)] = true
		}
	case indexesOf:
		for i := range t.Indexes {
			if x := &t.Indexes[i]; d.carried(x) && !(x.Primary && (!staysUnique(x, d) || d.Kind == MariaDB && onGenerated(t, x))) {
				out[strings.ToLower(x.Name)] = true
			}
		}
	case partitionsOf:
		for _, p := range t.Partitions {
			out[strings.ToLower(p.Name)] = true
		}
	}
	return out
}
