package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// The table of DDLs. Name and columns are those of TiCDC, which may have made it;
// sluice_record is ours, and holds noted as JSON.
const (
	createDDLRecord = `CREATE TABLE IF NOT EXISTS tidb_cdc.ddl_ts_v1 (
		ticdc_cluster_id varchar(255) NOT NULL,
		changefeed varchar(255) NOT NULL,
		ddl_ts varchar(18),
		table_id bigint NOT NULL,
		finished bool,
		is_syncpoint bool,
		sluice_record longtext,
		PRIMARY KEY (ticdc_cluster_id, changefeed, table_id)
	) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin`
	widenDDLRecord = "ALTER TABLE tidb_cdc.ddl_ts_v1 ADD COLUMN sluice_record longtext"
)

// notedVersion is that of noted's JSON.
const notedVersion = 1

// noted is what stands downstream about the DDLs of one changefeed: which was the
// last to begin, and how far it is. Everything before it is done, and so are the
// rows at or below its TS, since a DDL waits for all of them (P6).
//
//	begin: marks before statement 0 ─▶ row: statement 0 ─▶ statement 0
//	       marks before statement 1 ─▶ row: statement 1 ─▶ statement 1 … ─▶ row: done
//
// No database makes a DDL and a row one transaction. So the row goes first, and
// whether an unfinished statement took place is found out by the marks.
type noted struct {
	Version int    `json:"version"`
	Life    string `json:"life"`
	TS      tso.TS `json:"ts"`
	// Done are the jobs of that TS that are done: several may share it.
	Done []int64   `json:"done,omitempty"`
	Now  *underway `json:"now,omitempty"`
	// Building are indexes of DDLs that are done but for these.
	Building []building `json:"building,omitempty"`

	from tso.TS // TS as it was read at the start: rows up to there are downstream
}

// underway is a DDL that has begun.
type underway struct {
	Job int64 `json:"job"`
	// Script is a digest of the statements, of which this is one.
	Script    string `json:"script"`
	Statement int    `json:"statement"`
	Before    marks  `json:"before"`
}

// holds tells whether a DDL is done. One that no job stands for is never noted.
func (n *noted) holds(d *event.DDL) bool {
	return n != nil && d.JobID != 0 && (d.SwitchTS < n.TS || d.SwitchTS == n.TS && slices.Contains(n.Done, d.JobID))
}

// begun is how far a DDL is that an end of the process interrupted; nil where it is
// to begin at its first statement.
func (n *noted) begun(d *event.DDL, s *script) (*underway, error) {
	if n == nil || n.Now == nil || d.JobID == 0 || n.Now.Job != d.JobID || n.TS != d.SwitchTS || len(s.fill) > 0 {
		return nil, nil // what is filled begins with an empty table each time
	}
	if n.Now.Script != s.digest() {
		return nil, cdcerr.ExecDDLFailed.New("job %d at %d: tidb_cdc.ddl_ts_v1 says that its statement %d was under way, and the statements were others than now (%s), so another release, "+
			"configuration or version of the downstream began them: see what of the DDL is in effect, finish it by hand, and resume with an event filter that leaves this DDL out",
			d.JobID, d.SwitchTS, n.Now.Statement+1, strings.Join(s.statements, "; "))
	}
	return n.Now, nil
}

// above are the transactions that are not known to be downstream.
func (n *noted) above(txns []event.Txn) []event.Txn {
	if n == nil || len(txns) == 0 || txns[0].CommitTS > n.from {
		return txns
	}
	return txns[sort.Search(len(txns), func(i int) bool { return txns[i].CommitTS > n.from }):]
}

// beginning is what is noted before a statement, nil where nothing is.
func (n *noted) beginning(d *event.DDL, s *script, statement int, before marks) *noted {
	if n == nil || d.JobID == 0 {
		return nil
	}
	next := n.at(d.SwitchTS)
	next.Now = &underway{Job: d.JobID, Script: s.digest(), Statement: statement, Before: before}
	return next
}

// done is what is noted after the last statement.
func (n *noted) done(d *event.DDL) *noted {
	if n == nil || d.JobID == 0 {
		return nil
	}
	next := n.at(d.SwitchTS)
	next.Done = append(next.Done, d.JobID)
	return next
}

func (n *noted) at(ts tso.TS) *noted {
	next := &noted{Version: notedVersion, Life: n.Life, TS: ts, from: n.from}
	if n.TS == ts {
		next.Done = slices.Clone(n.Done)
	}
	return next
}

func (s *script) digest() string {
	return digestOf(strings.Join(s.statements, "\x00"))
}

// note writes what is noted next, as often as it takes; nil is nothing.
func (r *ddlRun) note(ctx context.Context, next *noted) error {
	if next == nil {
		return nil
	}
	next.Building = r.building
	err := r.again(ctx, "noting a DDL", func(ctx context.Context) error {
		if err := r.leave.Check(); err != nil {
			return err
		}
		return r.writeNoted(ctx, r.leave, next)
	})
	if err != nil {
		return coded(err, "noting DDL job %d in tidb_cdc.ddl_ts_v1", r.ddl.JobID)
	}
	r.noted = next
	return nil
}

func (s *Sink) writeNoted(ctx context.Context, leave sink.Leave, n *noted) error {
	text, err := json.Marshal(n)
	if err != nil {
		return cdcerr.Bug("what is noted of DDLs is no JSON: %v", err)
	}
	return s.passing(ctx, leave, fmt.Sprintf("INSERT INTO tidb_cdc.ddl_ts_v1 (ticdc_cluster_id, changefeed, table_id, ddl_ts, finished, is_syncpoint, sluice_record) "+
		"VALUES (%s, %s, %d, '%d', %t, FALSE, %s) ON DUPLICATE KEY UPDATE ddl_ts = VALUES(ddl_ts), finished = VALUES(finished), sluice_record = VALUES(sluice_record)",
		quoted(s.cfg.writer()), quoted(s.cfg.Changefeed), s.cfg.recordID(), n.TS, n.Now == nil, quoted(string(text))))
}

// writer stands where TiCDC has its cluster. TiCDC's own removes of a changefeed all
// rows of its name, and a cluster may well have one name in both.
func (c *Config) writer() string { return "sluice/" + c.Cluster }

// recordID stands where TiCDC has a table's id: the upstream's cluster.
func (c *Config) recordID() int64 { return int64(c.Upstream) } //nolint:gosec // the same 64 bits

// whose is the row's key.
func (c *Config) whose() string {
	return " WHERE ticdc_cluster_id = " + quoted(c.writer()) + " AND changefeed = " + quoted(c.Changefeed) + " AND table_id = " + strconv.FormatInt(c.recordID(), 10)
}

// readNoted reads what this life of the changefeed has noted, and makes the table
// where it is not there.
func (s *Sink) readNoted(ctx context.Context) error {
	if s.cfg.Life == "" || s.cfg.NoDDLRecord {
		return nil
	}
	var text string
	err := s.again(ctx, "reading what is noted of DDLs", func(ctx context.Context) (err error) {
		text, err = s.notedText(ctx)
		return err
	})
	if faultOf(err) == denied {
		return cdcerr.MySQLAccessDenied.Wrap(err, "the user needs CREATE, ALTER, SELECT, INSERT, UPDATE and DELETE on the database tidb_cdc, in which a changefeed notes its DDLs so that "+
			"each runs once whatever happens; enable-ddl-ts=false in the sink URI does without")
	}
	if err != nil {
		return coded(err, "reading tidb_cdc.ddl_ts_v1")
	}
	s.noted = &noted{Version: notedVersion, Life: s.cfg.Life}
	if text == "" {
		return nil
	}
	var found noted
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return cdcerr.ExecDDLFailed.Wrap(err, "sluice_record in tidb_cdc.ddl_ts_v1%s cannot be read: %.200s; if no DDL was under way, delete the row", s.cfg.whose(), text)
	}
	switch {
	case found.Life != s.cfg.Life:
		return nil
	case found.Version != notedVersion:
		return cdcerr.ExecDDLFailed.New("tidb_cdc.ddl_ts_v1%s was written by another release (format %d, this one reads %d): resume with the release that wrote it, or delete the row "+
			"if no DDL was under way", s.cfg.whose(), found.Version, notedVersion)
	}
	found.from = found.TS
	s.noted, s.building = &found, found.Building
	return nil
}

func (s *Sink) notedText(ctx context.Context) (string, error) {
	conn, err := s.session.use(ctx)
	if err != nil {
		return "", err
	}
	query := "SELECT sluice_record FROM tidb_cdc.ddl_ts_v1" + s.cfg.whose()
	text, err := cellOf(ctx, conn, query, 1)
	e := serverError(err)
	switch {
	case e == nil:
		return text, err
	case e.Number == errUnknownColumn:
		return "", s.makeNoted(ctx, conn, widenDDLRecord, errDuplicateColumn)
	case e.Number == errNoSuchTable, e.Number == errUnknownDB:
		if err := s.makeNoted(ctx, conn, createControl, 0); err != nil {
			return "", err
		}
		return "", s.makeNoted(ctx, conn, createDDLRecord, 0)
	}
	return "", err
}

// makeNoted runs a statement that another changefeed may run at the same moment.
func (s *Sink) makeNoted(ctx context.Context, conn *sql.Conn, text string, beaten uint16) error {
	_, err := conn.ExecContext(ctx, text)
	if e := serverError(err); e != nil && e.Number == beaten {
		return nil
	}
	return err
}

// Forget removes what a changefeed that is no more has noted downstream.
func Forget(ctx context.Context, cfg Config) error {
	db, err := OpenDB(cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	forget := func(table, where string) error {
		_, err := db.ExecContext(ctx, "DELETE FROM "+table+where)
		if e := serverError(err); err == nil || e != nil && (e.Number == errNoSuchTable || e.Number == errUnknownDB) {
			return nil
		}
		return coded(err, "removing what is noted in %s", table)
	}
	if !cfg.NoDDLRecord {
		err = forget("tidb_cdc.ddl_ts_v1", cfg.whose())
	}
	if !cfg.NoFence && err == nil {
		err = forget(fenceTable, cfg.fenced())
	}
	return err
}
