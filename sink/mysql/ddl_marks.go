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

// marks are what a DDL changes about the tables that it names, whatever it does. A
// statement of which the answer was lost has run if they are not what they were
// before it.
type marks struct {
	// Server is the server that was asked: when a table was made and under which ids
	// are its own affair. Empty: it does not say who it is.
	Server string `json:"server,omitempty"`
	// Version is the server's: another one may print the same table otherwise.
	Version string `json:"version,omitempty"`
	// Started is when the server began, in seconds by its own clock; 0: it does not say.
	Started int64 `json:"started,omitempty"`
	// LastJob is TiDB's newest DDL job, 0 where there is none or this user may not know.
	LastJob int64           `json:"job,string,omitempty"`
	Tables  map[string]mark `json:"tables,omitempty"` // by name
}

// A mark is of one table. What is empty is not known, for want of a privilege.
type mark struct {
	Text string `json:"text,omitempty"` // a digest of how it is made
	Made string `json:"made,omitempty"` // when it was made so: it tells columns that took each other's names
	IDs  string `json:"ids,omitempty"`  // a digest of its and its partitions' ids: they tell what was swapped or exchanged
}

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
func (r *ddlRun) marks(ctx context.Context) (out marks, err error) {
	conn, err := r.session.use(ctx)
	if err != nil {
		return out, err
	}
	if out.Server, out.Version, err = serverOf(ctx, conn, r.session.dialect.Kind); err != nil {
		return out, err
	}
	if r.session.dialect.Kind == TiDB {
		if out.LastJob, err = newestJob(ctx, conn); err != nil || out.LastJob != 0 {
			return out, err // the job tells alone
		}
	}
	if out.Started, err = startOf(ctx, conn); err != nil {
		return out, err
	}
	switch r.ddl.Action {
	case event.ActionCreateSchema, event.ActionDropSchema, event.ActionSchemaCharset:
		return out, nil // may be repeated, and a database may have ten thousand tables
	}
	out.Tables = map[string]mark{}
	for _, c := range r.ddl.Tables {
		for _, t := range []*event.Table{c.Before, c.After} {
			if t == nil {
				continue
			}
			if _, asked := out.Tables[t.FullName()]; asked {
				continue
			}
			if out.Tables[t.FullName()], err = r.mark(ctx, conn, t); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// serverOf is what a server is told by from others, and its version. Behind one
// address there may be several. What it does not say is empty.
func serverOf(ctx context.Context, conn *sql.Conn, kind Kind) (server, version string, err error) {
	ask := func(query string) (text string) {
		if err != nil {
			return ""
		}
		if text, err = cellOf(ctx, conn, query, 1); isServerError(err) && !isGone(err) {
			text, err = "", nil
		}
		return text
	}
	version = ask("SELECT @@version")
	switch kind {
	case TiDB:
		// Ids are the cluster's, whichever of its servers answers.
		return ask("SELECT variable_value FROM mysql.tidb WHERE variable_name = 'cluster_id'"), version, err
	case MySQL:
		server = ask("SELECT @@server_uuid")
	case MariaDB, Other:
	}
	if server == "" {
		server = ask("SELECT CONCAT_WS(' ', @@hostname, @@port, @@server_id, @@datadir)")
	}
	if server != "" {
		server += " " + version // an upgrade may number tables anew
	}
	return server, version, err
}

// startOf is when a server began, as near as its uptime in seconds tells; 0 where it
// does not say.
func startOf(ctx context.Context, conn *sql.Conn) (int64, error) {
	now, err := cellOf(ctx, conn, "SELECT CAST(UNIX_TIMESTAMP(SYSDATE()) AS SIGNED)", 1)
	up := ""
	if err == nil {
		up, err = cellOf(ctx, conn, "SHOW GLOBAL STATUS LIKE 'Uptime'", 2)
	}
	if isServerError(err) && !isGone(err) {
		return 0, nil
	}
	at, noTime := strconv.ParseInt(now, 10, 64)
	since, noUptime := strconv.ParseInt(up, 10, 64)
	if noTime != nil || noUptime != nil {
		return 0, err
	}
	return at - since, err
}

// startSlack is by how many seconds a server's start may look later or earlier: both
// numbers that it is made of are cut.
const startSlack = 2

// restarted tells whether the server has begun anew since.
func (m marks) restarted(after marks) bool {
	return m.Started != 0 && after.Started != 0 && (after.Started-m.Started > startSlack || m.Started-after.Started > startSlack)
}

// newestJob is the id of TiDB's newest DDL job, 0 where this user may not know.
func newestJob(ctx context.Context, conn *sql.Conn) (newest int64, err error) {
	rows, err := conn.QueryContext(ctx, "ADMIN SHOW DDL JOBS 1") // the running ones, and as many that ended
	if isServerError(err) && !isGone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	cells, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range cells {
		to[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return 0, err
		}
		id, err := strconv.ParseInt(cells[0].String, 10, 64)
		if err != nil {
			return 0, cdcerr.MySQLQuery.New("ADMIN SHOW DDL JOBS begins with %q, which is no job id", cells[0].String)
		}
		newest = max(newest, id)
	}
	return newest, rows.Err()
}

// absent is the mark of a table that is not there. That is told by all servers alike.
var absent = mark{Text: "absent", Made: "absent", IDs: "absent"}

func (r *ddlRun) mark(ctx context.Context, conn *sql.Conn, t *event.Table) (m mark, err error) {
	text, err := cellOf(ctx, conn, "SHOW CREATE TABLE "+qualified(t.Schema, t.Name), 2)
	switch e := serverError(err); {
	case e != nil && (e.Number == errNoSuchTable || e.Number == errUnknownDB):
		return absent, nil
	case faultOf(err) == denied && e != nil: // not known
	case e != nil && !isGone(err):
		m.Text = fmt.Sprintf("error %d", e.Number) // a view of what is gone
	case err != nil:
		return m, err
	default:
		m.Text = digestOf(autoIncrement.ReplaceAllString(text, ""))
	}
	if r.session.dialect.Kind == Other {
		return m, nil // what it knows of a moment and of ids may be anything
	}
	m.Made, err = cellOf(ctx, conn, "SELECT CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+
		quoted(t.Schema)+" AND TABLE_NAME = "+quoted(t.Name), 1)
	if err != nil {
		return m, err
	}
	m.IDs, err = r.tableIDs(ctx, conn, t)
	return m, err
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

// tableIDs is a digest of the server's own ids of a table and its partitions, empty
// where they cannot be asked for.
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
		return "", nil // it takes a privilege that not every user has
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
	return digestOf(strings.Join(out, " ")), rows.Err()
}

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
