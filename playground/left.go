package playground

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// leftSchema is the database in which the playground writes down what it leaves
// in a downstream of somebody else's, so that its next run knows its own tables
// from theirs.
const leftSchema = "sluice_playground"

const leftTable = "`" + leftSchema + "`.`left_tables`"

// tableName is a table on record.
type tableName struct{ db, table string }

// rememberMax bounds the last words to a downstream when the command ends.
const rememberMax = 10 * time.Second

// leftBefore are the tables that earlier commands left in each database.
func (d *database) leftBefore(ctx context.Context) (map[string][]string, error) {
	if there, err := d.tables(ctx, leftSchema); err != nil || len(there) == 0 {
		return nil, err
	}
	rows, err := d.db.QueryContext(ctx, "SELECT db, tbl FROM "+leftTable)
	if err != nil {
		return nil, cdcerr.MySQLConnection.Wrap(err, "reading %s downstream", leftTable)
	}
	defer rows.Close()
	left := map[string][]string{}
	for rows.Next() {
		var db, table string
		if err := rows.Scan(&db, &table); err != nil {
			return nil, cdcerr.MySQLConnection.Wrap(err, "reading %s downstream", leftTable)
		}
		left[db] = append(left[db], table)
	}
	if err := rows.Err(); err != nil {
		return nil, cdcerr.MySQLConnection.Wrap(err, "reading %s downstream", leftTable)
	}
	return left, nil
}

// makeRecord makes room for the record. A run that cannot keep one is refused
// before it writes anything: the next run could not tell what is its own.
func (d *database) makeRecord(ctx context.Context) error {
	if d.own || d.recording {
		return nil
	}
	for _, q := range []string{
		"CREATE DATABASE IF NOT EXISTS `" + leftSchema + "`",
		"CREATE TABLE IF NOT EXISTS " + leftTable + " (db varchar(64) NOT NULL, tbl varchar(64) NOT NULL) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
	} {
		if _, err := d.db.ExecContext(ctx, q); err != nil {
			return cdcerr.ExecDDLFailed.Wrap(err, "downstream %s: the playground writes down in %s which tables are its own, and may not; grant the user all rights on %s.*", d.cfg, leftTable, leftSchema)
		}
	}
	d.recording = true
	return nil
}

// record writes down tables before they are made: a run may be killed at any
// moment, and the next one has to know what it left.
func (d *database) record(ctx context.Context, tables []tableName) error {
	if d.own {
		return nil
	}
	for _, t := range tables {
		if d.recorded[t] {
			continue
		}
		if _, err := d.db.ExecContext(ctx, "INSERT INTO "+leftTable+" VALUES (?, ?)", t.db, t.table); err != nil {
			return cdcerr.MySQLTxn.Wrap(err, "writing down in %s what is about to be made", leftTable)
		}
		d.recorded[t] = true
	}
	return nil
}

// unrecord forgets what stood in a database that is there no more.
func (d *database) unrecord(ctx context.Context, name string) error {
	if d.own {
		return nil
	}
	if _, err := d.db.ExecContext(ctx, "DELETE FROM "+leftTable+" WHERE db = ?", name); err != nil {
		return cdcerr.MySQLTxn.Wrap(err, "writing down in %s what is gone", leftTable)
	}
	maps.DeleteFunc(d.recorded, func(t tableName, _ bool) bool { return t.db == name })
	return nil
}

// remember brings the record to what stands in the databases which this command
// filled. It stays for whoever wants to look; what other runs left in other
// databases stays on record.
func (d *database) remember(ctx context.Context) error {
	if len(d.touched) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rememberMax)
	defer cancel()
	for _, name := range d.touched {
		var stand []tableName
		if slices.Contains(d.ours, name) {
			tables, err := d.tables(ctx, name)
			if err != nil {
				return err
			}
			for _, table := range tables {
				stand = append(stand, tableName{name, table})
			}
		}
		// First what stands, then what does not: killed between, too much is on
		// record, and not too little.
		if err := d.record(ctx, stand); err != nil {
			return err
		}
		for t := range d.recorded {
			if t.db == name && !slices.Contains(stand, t) {
				if _, err := d.db.ExecContext(ctx, "DELETE FROM "+leftTable+" WHERE db = ? AND tbl = ?", t.db, t.table); err != nil {
					return cdcerr.MySQLTxn.Wrap(err, "writing down in %s what is gone", leftTable)
				}
			}
		}
	}
	return nil
}

func (d *database) tables(ctx context.Context, name string) ([]string, error) {
	tables, err := listing(ctx, d.db, "SELECT table_name FROM information_schema.tables WHERE table_schema = ?", name)
	if err != nil {
		return nil, cdcerr.MySQLConnection.Wrap(err, "listing tables of %s downstream", name)
	}
	return tables, nil
}

// programs are the routines and events that stand in a database: a database
// without tables is not therefore empty.
func (d *database) programs(ctx context.Context, name string) ([]string, error) {
	if d.own {
		return nil, nil // nobody else's are there
	}
	out, err := listing(ctx, d.db, `SELECT routine_name FROM information_schema.routines WHERE routine_schema = ?
		UNION ALL SELECT event_name FROM information_schema.events WHERE event_schema = ?`, name, name)
	if err != nil {
		return nil, cdcerr.MySQLConnection.Wrap(err, "listing routines and events of %s downstream", name)
	}
	return out, nil
}

// strangers are those of tables that are not on record, each with its database.
func strangers(database string, tables, record []string) []string {
	var out []string
	for _, t := range tables {
		if !slices.Contains(record, t) {
			out = append(out, database+"."+t)
		}
	}
	return out
}

// strangersShown bounds a message.
const strangersShown = 5

func few(names []string) string {
	if more := len(names) - strangersShown; more > 0 {
		return strings.Join(names[:strangersShown], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}
