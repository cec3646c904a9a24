package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

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

// notedVersion is that of noted's JSON. Releases before this one wrote format 1
// (notedBefore), which is read.
const notedVersion = 2

// noted is what stands downstream about the DDLs of one changefeed. DDLs run one at a
// time. Where a sink writes everything each waits for all that is before it (P6); where
// captures write the rows, in an order that is only that of their tables, so that some
// above the checkpoint may be done and others not.
//
//	begin: marks before statement 0 ─▶ row: statement 0 ─▶ statement 0
//	       marks before statement 1 ─▶ row: statement 1 ─▶ statement 1 … ─▶ row: done
//
// No database makes a DDL and a row one transaction. So the row goes first, and
// whether an unfinished statement took place is found out by the marks.
type noted struct {
	Version int    `json:"version"`
	Life    string `json:"life"`
	// Rows is up to where all rows are downstream, whatever their table. Below it
	// or at it no row is to come again that parts is not about.
	Rows tso.TS `json:"rows"`
	// Since is where the first run of this life began: what was made upstream above it
	// nobody but this life can have brought. 0: not known.
	Since tso.TS `json:"since,omitempty"`
	// Below is from where on DDLs are told one by one: all below are done.
	Below tso.TS    `json:"below"`
	Done  []ddlNote `json:"executed,omitempty"`
	// Begun are those that have begun and are not done: at most one, and those that
	// were given up when an operator's filter left them out.
	Begun []underway `json:"begun,omitempty"`
	// Building are indexes of DDLs that are done but for these.
	Building []building `json:"building,omitempty"`

	ts    tso.TS           // of the DDL that is noted
	from  tso.TS           // Rows as it was read at the start
	parts map[int64]tso.TS // as read at the start: up to where the rows of a physical table are downstream
	last  tso.TS           // the latest of them
}

// ddlNote is one DDL, and whose rows it parts: those at or below TS of the physical
// tables are downstream, and those above come after it.
type ddlNote struct {
	Job    int64   `json:"job"`
	TS     tso.TS  `json:"ts"`
	Tables []int64 `json:"tables,omitempty"`
}

// underway is a DDL that has begun.
type underway struct {
	ddlNote
	// Script is a digest of the statements, of which this is one.
	Script    string `json:"script"`
	Statement int    `json:"statement"`
	Before    marks  `json:"before"`
	// Refused tells that the server answered, and did not carry the statement out: what
	// is changed about its tables from then on is somebody else's doing.
	Refused bool `json:"refused,omitempty"`
}

func noteOf(d *event.DDL) ddlNote {
	n := ddlNote{Job: d.JobID, TS: d.SwitchTS}
	for _, c := range d.Tables {
		if c.Before != nil && c.Before.Kind == event.BaseTable {
			n.Tables = append(n.Tables, c.Before.SpanIDs()...)
		}
	}
	return n
}

func (n *ddlNote) is(d *event.DDL) bool { return n.Job == d.JobID && n.TS == d.SwitchTS }

// holds tells whether a DDL is done. One that no job stands for is never noted.
func (n *noted) holds(d *event.DDL) bool {
	return n != nil && d.JobID != 0 && (d.SwitchTS < n.Below || slices.ContainsFunc(n.Done, func(o ddlNote) bool { return o.is(d) }))
}

// begun is how far a DDL is that an end of the process interrupted; nil where it is
// to begin at its first statement.
func (n *noted) begun(d *event.DDL, s *script) (*underway, error) {
	if n == nil || d.JobID == 0 || len(s.fill) > 0 {
		return nil, nil // what is filled begins with an empty table each time
	}
	at := slices.IndexFunc(n.Begun, func(u underway) bool { return u.is(d) })
	if at < 0 {
		return nil, nil
	}
	now := &n.Begun[at]
	if now.Refused && now.Statement == 0 {
		return nil, nil // nothing of it is in effect, whatever its statements were
	}
	if now.Script != s.digest() {
		return nil, cdcerr.ExecDDLFailed.New("job %d at %d: tidb_cdc.ddl_ts_v1 says that its statement %d was under way, and the statements were others than now (%s), so another release, "+
			"configuration or version of the downstream began them: see what of the DDL is in effect, finish it by hand, and resume with an event filter that leaves this DDL out",
			d.JobID, d.SwitchTS, now.Statement+1, strings.Join(s.statements, "; "))
	}
	return now, nil
}

// above are the transactions that are not known to be downstream.
func (n *noted) above(txns []event.Txn) []event.Txn {
	if n == nil || len(txns) == 0 || txns[0].CommitTS > max(n.from, n.last) {
		return txns
	}
	txns = txns[sort.Search(len(txns), func(i int) bool { return txns[i].CommitTS > n.from }):]
	if len(n.parts) == 0 {
		return txns
	}
	out := make([]event.Txn, 0, len(txns))
	for _, txn := range txns {
		there := func(r *event.Row) bool { return txn.CommitTS <= n.parts[r.PhysicalID] }
		if slices.ContainsFunc(txn.Rows, there) {
			if txn.Rows = slices.DeleteFunc(slices.Clone(txn.Rows), there); len(txn.Rows) == 0 {
				continue
			}
		}
		out = append(out, txn)
	}
	return out
}

// beginning is what is noted before a statement, nil where nothing is.
func (s *Sink) beginning(d *event.DDL, on *script, statement int, before marks) *noted {
	next := s.following(d)
	if next != nil {
		next.Begun = append(next.Begun, underway{ddlNote: noteOf(d), Script: on.digest(), Statement: statement, Before: before})
	}
	return next
}

// refusing is what is noted after the server refused a statement.
func (s *Sink) refusing(d *event.DDL, on *script, statement int) *noted {
	next := s.beginning(d, on, statement, marks{})
	if next != nil {
		next.Begun[len(next.Begun)-1].Refused = true
	}
	return next
}

// done is what is noted after the last statement.
func (s *Sink) done(d *event.DDL) *noted {
	next := s.following(d)
	if next != nil {
		next.Done = append(next.Done, noteOf(d))
	}
	return next
}

// following is what stands on record beside a DDL that is noted: what is below the
// checkpoint, or where everything is below this DDL, is not told one by one.
func (s *Sink) following(d *event.DDL) *noted {
	n := s.noted
	if n == nil || d.JobID == 0 {
		return nil
	}
	rows, below := d.SwitchTS, d.SwitchTS
	if s.cfg.Role == sink.Owner {
		if rows, below = s.durable(), 0; rows > 0 {
			below = rows.Next()
		}
	}
	next := &noted{Version: notedVersion, Life: n.Life, Rows: max(rows, n.Rows), Since: s.since(), Below: max(below, n.Below), ts: d.SwitchTS, from: n.from, parts: n.parts, last: n.last}
	for _, o := range n.Done {
		if o.TS >= next.Below {
			next.Done = append(next.Done, o)
		}
	}
	for _, o := range n.Begun {
		if o.TS >= next.Below && !o.is(d) {
			next.Begun = append(next.Begun, o)
		}
	}
	return next
}

// since is above which what was made upstream can only be this life's downstream; 0:
// not known. Without a record it is so for this run alone.
func (s *Sink) since() tso.TS {
	if s.noted != nil && s.noted.Since != 0 {
		return s.noted.Since
	}
	return s.cfg.replayed()
}

// noteSince notes where this life began, before the first thing that its first run
// writes: a run that comes after it cannot know any more. What earlier lives have noted
// goes then, where nobody applies a redo log of theirs.
func (s *Sink) noteSince(ctx context.Context, leave sink.Leave) error {
	if s.noted == nil || s.noted.Since != 0 || s.cfg.replayed() == 0 {
		return nil
	}
	next := *s.noted
	next.Since, next.ts = s.cfg.replayed(), next.Rows
	err := s.again(ctx, "noting where a changefeed begins", func(ctx context.Context) error {
		if err := leave.Check(); err != nil {
			return err
		}
		if err := s.writeNoted(ctx, leave, &next); err != nil || s.cfg.KeepLives {
			return err
		}
		return s.passing(ctx, leave, "DELETE FROM tidb_cdc.ddl_ts_v1"+s.cfg.anyLife()+" AND ticdc_cluster_id <> "+quoted(s.cfg.writer()))
	})
	if err != nil {
		return coded(err, "noting in tidb_cdc.ddl_ts_v1 where the changefeed begins")
	}
	s.noted = &next
	return nil
}

// Keeps implements sink.Recorder.
func (s *Sink) Keeps() bool { return s.noted != nil }

// Recorded implements sink.Recorder. What it tells was read when the sink was opened,
// after the place at the fence was taken from whoever wrote it.
func (s *Sink) Recorded(context.Context) (out []sink.Recorded, err error) {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.cfg.Role != sink.Owner {
		return nil, cdcerr.Bug("the record of DDLs is an owner's, and this sink has another role")
	}
	n := s.noted
	if n == nil {
		return nil, nil
	}
	if n.Below > 0 {
		out = append(out, sink.Recorded{TS: n.Below, Done: true})
	}
	add := func(o ddlNote, done bool) {
		out = append(out, sink.Recorded{Job: o.Job, TS: o.TS, Done: done, Tables: slices.Clone(o.Tables)})
	}
	for _, o := range n.Done {
		add(o, true)
	}
	for _, o := range n.Begun {
		add(o.ddlNote, false)
	}
	slices.SortStableFunc(out, func(a, b sink.Recorded) int { return cmp.Compare(a.TS, b.TS) })
	return out, nil
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
		quoted(s.cfg.writer()), quoted(s.cfg.Changefeed), s.cfg.recordID(), n.ts, len(n.Begun) == 0, quoted(string(text))))
}

// writer stands where TiCDC has its cluster. TiCDC's own removes of a changefeed all
// rows of its name, and a cluster may well have one name in both. Each life has a row of
// its own: a redo log of an earlier one is of no use without what that one had done.
func (c *Config) writer() string { return c.writers() + digestOf(c.Life) }

// writers begins the writer of every life.
func (c *Config) writers() string { return "sluice/" + c.Cluster + "#" }

// recordID stands where TiCDC has a table's id: the upstream's cluster.
func (c *Config) recordID() int64 { return int64(c.Upstream) } //nolint:gosec // the same 64 bits

// whose is the row's key.
func (c *Config) whose() string {
	return " WHERE ticdc_cluster_id = " + quoted(c.writer()) + c.named()
}

// anyLife is what the rows of all lives have in common.
func (c *Config) anyLife() string {
	n := utf8.RuneCountInString(c.writers())
	return fmt.Sprintf(" WHERE LEFT(ticdc_cluster_id, %d) = %s AND CHAR_LENGTH(ticdc_cluster_id) = %d", n, quoted(c.writers()), n+len(digestOf(""))) + c.named()
}

func (c *Config) named() string {
	return " AND changefeed = " + quoted(c.Changefeed) + " AND table_id = " + strconv.FormatInt(c.recordID(), 10)
}

// readNoted reads what this life of the changefeed has noted, and makes the table
// where it is not there.
func (s *Sink) readNoted(ctx context.Context) error {
	if s.cfg.Life == "" || s.cfg.NoDDLRecord || s.cfg.Role == sink.Rows {
		return nil
	}
	var text string
	err := s.again(ctx, "reading what is noted of DDLs", func(ctx context.Context) (err error) {
		text, err = s.notedText(ctx)
		return err
	})
	if unprivileged(err) {
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
	found, err := s.parseNoted(text)
	if err == nil && found != nil {
		s.noted, s.building = found, found.Building
	}
	return err
}

// notedBefore is format 1: DDLs were in the order of their TS, and of this one the rows
// at or below it were downstream, of all tables.
type notedBefore struct {
	TS       tso.TS     `json:"ts"`
	Done     []int64    `json:"done"` // of that TS: several may share it
	Now      *underway  `json:"now"`
	Building []building `json:"building"`
}

func (n *notedBefore) now(life string) *noted {
	out := &noted{Version: notedVersion, Life: life, Rows: n.TS, Below: n.TS, Building: n.Building}
	for _, job := range n.Done {
		out.Done = append(out.Done, ddlNote{Job: job, TS: n.TS})
	}
	if n.Now != nil {
		n.Now.TS = n.TS
		out.Begun = []underway{*n.Now}
	}
	return out
}

// parseNoted reads what stands in the record; nil is another life's.
func (s *Sink) parseNoted(text string) (found *noted, err error) {
	parse := func(to any) bool {
		if err == nil {
			err = json.Unmarshal([]byte(text), to)
		}
		if err != nil && cdcerr.Of(err) == nil {
			err = cdcerr.ExecDDLFailed.Wrap(err, "sluice_record in tidb_cdc.ddl_ts_v1%s cannot be read: %.200s; if no DDL was under way, delete the row", s.cfg.whose(), text)
		}
		return err == nil
	}
	var head struct {
		Version int    `json:"version"`
		Life    string `json:"life"`
	}
	if !parse(&head) || head.Life != s.cfg.Life {
		return nil, err
	}
	switch head.Version {
	case notedVersion:
		found = new(noted)
		parse(found)
	case 1:
		var before notedBefore
		parse(&before)
		found = before.now(head.Life)
	default:
		err = cdcerr.ExecDDLFailed.New("tidb_cdc.ddl_ts_v1%s was written by another release (format %d, this one reads 1 and %d): resume with the release that wrote it, or delete the row "+
			"if no DDL was under way", s.cfg.whose(), head.Version, notedVersion)
	}
	if err != nil {
		return nil, err
	}
	found.reached()
	return found, nil
}

// reached notes which rows are downstream, as of now.
func (n *noted) reached() {
	n.from, n.parts = n.Rows, map[int64]tso.TS{}
	part := func(o ddlNote) {
		for _, id := range o.Tables {
			if o.TS > max(n.from, n.parts[id]) {
				n.parts[id], n.last = o.TS, max(n.last, o.TS)
			}
		}
	}
	for _, o := range n.Done {
		part(o)
	}
	for _, o := range n.Begun {
		part(o.ddlNote)
	}
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
