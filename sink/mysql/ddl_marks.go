package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// marks are what a DDL changes about the tables that it names, whatever it does:
// by name, how the table is made, when it was made so, and by which ids the
// server knows it and its partitions. A statement of which the answer was lost
// has run if they are not what they were before it. By the ids one tells names
// that were swapped and partitions that were exchanged, by the moment columns
// that took each other's names.
type marks map[string]string

// autoIncrement is the part of a table's text that rows change.
var autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// marksBefore are the marks before a statement runs.
func (r *ddlRun) marksBefore(ctx context.Context) (marks, error) {
	var out marks
	err := r.again(ctx, "looking at the tables of a DDL", func(ctx context.Context) (err error) {
		if out, err = r.marks(ctx); err != nil || !looksTheSame(r.ddl) {
			return err
		}
		// The moment is kept in seconds.
		return r.nextSecond(ctx)
	})
	return out, err
}

// looksTheSame tells whether the moment alone may say that a DDL has run: its
// columns are called as before, and are not those that they were. A column that
// was converted in its place does not count, since that may be done twice.
func looksTheSame(d *event.DDL) bool {
	for _, c := range d.Tables {
		if c.Before == nil || c.After == nil || len(c.Before.Columns) != len(c.After.Columns) {
			continue
		}
		other := false
		for i := range c.Before.Columns {
			was, is := &c.Before.Columns[i], &c.After.Columns[i]
			if !sameName(was.Name, is.Name) {
				other = false
				break
			}
			other = other || was.ID != is.ID && !slices.ContainsFunc(d.Conversions, func(c event.Conversion) bool { return c.ToID == is.ID })
		}
		if other {
			return true
		}
	}
	return false
}

// nextSecond waits until the server's clock shows another second.
func (r *ddlRun) nextSecond(ctx context.Context) error {
	conn, err := r.session.use(ctx)
	if err != nil {
		return err
	}
	var left float64
	if err := conn.QueryRowContext(ctx, "SELECT 1 - MICROSECOND(SYSDATE(6)) / 1000000").Scan(&left); err != nil {
		return err
	}
	return pause(ctx, time.Duration(left*float64(time.Second))+10*time.Millisecond)
}

// marks asks for the present marks of the tables that the DDL names.
func (r *ddlRun) marks(ctx context.Context) (marks, error) {
	conn, err := r.session.use(ctx)
	if err != nil {
		return nil, err
	}
	out := marks{}
	if r.session.dialect.Kind == TiDB {
		if out[lastJob], err = newestJob(ctx, conn); err != nil {
			return nil, err
		}
	}
	for _, c := range r.ddl.Tables {
		for _, t := range []*event.Table{c.Before, c.After} {
			if t == nil || out[t.FullName()] != "" {
				continue
			}
			if out[t.FullName()], err = r.mark(ctx, conn, t); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

const absent = "absent"

// lastJob is where marks have the id of TiDB's newest DDL job. No table is called so.
const lastJob = ""

// newestJob is the id of TiDB's newest DDL job, empty where this user may not know.
func newestJob(ctx context.Context, conn *sql.Conn) (string, error) {
	rows, err := conn.QueryContext(ctx, "ADMIN SHOW DDL JOBS 1") // the running ones, and as many that ended
	if isServerError(err) && !isGone(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	newest := int64(0)
	cells, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range cells {
		to[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return "", err
		}
		id, err := strconv.ParseInt(cells[0].String, 10, 64)
		if err != nil {
			return "", cdcerr.MySQLQuery.New("ADMIN SHOW DDL JOBS begins with %q, which is no job id", cells[0].String)
		}
		newest = max(newest, id)
	}
	return strconv.FormatInt(newest, 10), rows.Err()
}

// jobDone tells whether TiDB has finished a job of that statement since the one
// that was the newest.
func (r *ddlRun) jobDone(ctx context.Context, text, newest string) (done bool, err error) {
	err = r.again(ctx, "looking for a DDL's job", func(ctx context.Context) error {
		conn, err := r.session.use(ctx)
		if err != nil {
			return err
		}
		n, err := cellOf(ctx, conn, "SELECT COUNT(*) FROM information_schema.ddl_jobs WHERE JOB_ID > "+newest+
			" AND STATE IN ('done', 'synced') AND QUERY = "+quoted(text), 1)
		done = n != "" && n != "0"
		return err
	})
	return done, err
}

func (r *ddlRun) mark(ctx context.Context, conn *sql.Conn, t *event.Table) (string, error) {
	text, err := cellOf(ctx, conn, "SHOW CREATE TABLE "+qualified(t.Schema, t.Name), 2)
	switch e := serverError(err); {
	case e != nil && (e.Number == errNoSuchTable || e.Number == errUnknownDB):
		return absent, nil
	case e != nil && !isGone(err):
		text = fmt.Sprintf("error %d", e.Number) // a view of what is gone, or a privilege that is lacking
	case err != nil:
		return "", err
	}
	if r.session.dialect.Kind == Other {
		return digestOf(text) + " " + noIDs, nil // what it knows of a moment and of ids may be anything
	}
	made, err := cellOf(ctx, conn, "SELECT CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+
		quoted(t.Schema)+" AND TABLE_NAME = "+quoted(t.Name), 1)
	if err != nil {
		return "", err
	}
	ids, err := r.tableIDs(ctx, conn, t)
	if err != nil {
		return "", err
	}
	mark := digestOf(strings.Join([]string{autoIncrement.ReplaceAllString(text, ""), made, ids}, "\n"))
	if ids == noIDs {
		mark += " " + noIDs
	}
	return mark, nil
}

// digestOf is short enough to be kept for each of many tables.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// cellOf is the text of one column, counted from 1, of a query's first row;
// empty where there is no row.
func cellOf(ctx context.Context, conn *sql.Conn, query string, at int) (string, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	if !rows.Next() {
		return "", rows.Err()
	}
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	cells, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range cells {
		to[i] = &cells[i]
	}
	if err := rows.Scan(to...); err != nil {
		return "", err
	}
	return cells[at-1].String, nil
}

// tableIDs are the server's own ids of a table and its partitions, in one text.
// Where they cannot be asked for, it is noIDs.
func (r *ddlRun) tableIDs(ctx context.Context, conn *sql.Conn, t *event.Table) (string, error) {
	var query string
	switch d := r.session.dialect; d.Kind {
	case TiDB:
		where := " WHERE TABLE_SCHEMA = " + quoted(t.Schema) + " AND TABLE_NAME = " + quoted(t.Name)
		query = "SELECT '', TIDB_TABLE_ID FROM information_schema.TABLES" + where +
			" UNION ALL SELECT PARTITION_NAME, TIDB_PARTITION_ID FROM information_schema.PARTITIONS" + where + " AND PARTITION_NAME IS NOT NULL"
	case MySQL, MariaDB:
		view := "INNODB_SYS_TABLES"
		if d.Kind == MySQL && d.atLeast(8, 0, 0) {
			view = "INNODB_TABLES"
		}
		name := filePattern(t.Schema) + "/" + filePattern(t.Name)
		query = "SELECT NAME, TABLE_ID FROM information_schema." + view + " WHERE NAME LIKE " + quoted(name) + " OR NAME LIKE " + quoted(name+"#p#%")
	case Other:
	}
	rows, err := conn.QueryContext(ctx, query)
	if isServerError(err) && !isGone(err) {
		return noIDs, nil // it takes a privilege that not every user has
	}
	if err != nil {
		return "", err
	}
	defer rows.Close()
	ids := map[string]string{}
	for rows.Next() {
		var name, id string
		if err := rows.Scan(&name, &id); err != nil {
			return "", err
		}
		ids[name] = id
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		out = append(out, name+"="+ids[name])
	}
	return strings.Join(out, " "), rows.Err()
}

const noIDs = "ids unknown"

// filePattern is a LIKE pattern for the file name that InnoDB knows a name by:
// what is no plain letter stands there in a form of its own.
func filePattern(name string) string {
	var b strings.Builder
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
			b.WriteRune(c)
		case c == '_':
			b.WriteString(`\_`)
		default:
			b.WriteString("@%")
		}
	}
	return b.String()
}

// tookEffect tells whether a statement whose answer was lost has run. Statements
// that may be repeated whatever they did say no.
func (r *ddlRun) tookEffect(ctx context.Context, text string, before marks) (bool, error) {
	if r.async(text, before) {
		return r.goesOn(ctx, text, before)
	}
	if err := r.awaitEnd(ctx, text); err != nil {
		return false, err
	}
	if text == r.script.main && (r.script.zone != nil || len(r.script.first) > 0) {
		return false, nil // made of several, each of which finds out for itself
	}
	if before[lastJob] != "" {
		return r.jobDone(ctx, text, before[lastJob])
	}
	var after marks
	err := r.again(ctx, "looking at the tables of a DDL", func(ctx context.Context) (err error) {
		after, err = r.marks(ctx)
		return err
	})
	if err != nil {
		return false, err
	}
	if !maps.Equal(before, after) {
		return true, nil
	}
	if undoesItself(r.ddl) && strings.HasSuffix(after[r.ddl.Tables[0].Before.FullName()], noIDs) {
		return false, cdcerr.ExecDDLFailed.New("job %d: the connection was lost during %s, and whether it took effect cannot be told: "+
			"look at the tables, do by hand what it did not, and resume the changefeed behind this DDL; the PROCESS privilege would have told", r.ddl.JobID, text)
	}
	return false, nil
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
