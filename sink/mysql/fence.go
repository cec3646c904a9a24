package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/sink"
)

// The table of fences. A row is of one connection that writes: of one lane, of one
// capture, of one changefeed. Its term is the lowest under which anything may still
// be written there, its life says which opening of the sink, and which attempt of its,
// may.
//
// Every transaction that writes begins by locking its connection's row and comparing:
//
//	BEGIN; SELECT … WHERE id = 3 AND term <= mine AND life = mine FOR UPDATE; REPLACE …; COMMIT
//
// and whoever raises term or life locks for it too. So when it has been raised, what
// began before is durable or never will be, and what comes with less is refused: a
// process that was stopped and goes on, and a COMMIT whose connection was lost on the
// way. One row for each connection, since TiDB has no lock that several may share; and
// with a short key, since most of what the comparing costs is the reading of its text.
const createFence = `CREATE TABLE IF NOT EXISTS tidb_cdc.sluice_fence_v1 (
		id bigint NOT NULL AUTO_INCREMENT,
		cluster varchar(128) NOT NULL,
		changefeed varchar(260) NOT NULL,
		upstream bigint unsigned NOT NULL,
		capture varchar(128) NOT NULL,
		lane int NOT NULL,
		term bigint unsigned NOT NULL,
		life bigint unsigned NOT NULL,
		PRIMARY KEY (id),
		UNIQUE KEY (cluster, changefeed, upstream, capture, lane)
	) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin`

const fenceTable = "tidb_cdc.sluice_fence_v1"

// A post is a connection's place at the fence. It belongs to who has the session.
type post struct {
	where string // its row; empty: nothing is compared
	life  uint64
	// next is the life to be raised to before anything else is written: what was sent
	// last may still be under way. 0: nothing is.
	next uint64
}

// check is the statement that compares, with an error of the server's own where the
// row is another or gone: it goes along with those that write, in one packet, and
// these must not run. EXP(0) is 1, and EXP(999) is more than a double holds.
func (p *post) check(term uint64) string {
	return "SELECT EXP(999 * (1 - COUNT(*))) FROM " + fenceTable + p.where +
		" AND term <= " + strconv.FormatUint(term, 10) + " AND life = " + strconv.FormatUint(p.life, 10) + " FOR UPDATE"
}

// pass runs the statements at a transaction's beginning.
func (p *post) pass(d Dialect, term uint64, run func(text string) error) error {
	if p.where == "" {
		return nil
	}
	if d.Kind == TiDB {
		// The row is locked by a statement that reads nothing else, whatever TiDB makes
		// of locks under an aggregate.
		if err := run("SELECT life FROM " + fenceTable + p.where + " FOR UPDATE"); err != nil {
			return err
		}
	}
	return run(p.check(term))
}

// doubt notes that what was sent last may still come to pass.
func (p *post) doubt() {
	if p.where != "" && p.next == 0 {
		p.next = lifeAfter(p.life)
	}
}

// lifeAfter is a life above another one, and above all that there were before, also
// where the rows were removed meanwhile.
func lifeAfter(life uint64) uint64 {
	return max(life+1, uint64(time.Now().UnixMicro())) //nolint:gosec // after 1970
}

// settle waits until what was sent before is durable or refused. Its own answer may be
// lost as well: the second time it finds nothing to do.
func (p *post) settle(ctx context.Context, on *session) error {
	if p.next == 0 {
		return nil
	}
	err := on.exec(ctx, on.cfg.ReadTimeout, fmt.Sprintf("UPDATE %s SET life = %d%s AND life = %d", fenceTable, p.next, p.where, p.life))
	if err != nil {
		return fmt.Errorf("waiting for what was sent before the connection was lost: %w", err)
	}
	p.life, p.next = p.next, 0
	return nil
}

// fenced finds out whether an error is that of a check, and is the error with a code
// if it is.
func (p *post) fenced(ctx context.Context, on *session, term uint64, err error) error {
	e := serverError(err)
	if p.where == "" || e == nil || e.Number != errValueRange && e.Number != errNoSuchTable {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, on.cfg.ReadTimeout)
	defer cancel()
	conn, gone := on.use(wait)
	if gone != nil {
		return gone
	}
	var floor, life uint64
	switch found := conn.QueryRowContext(wait, "SELECT term, life FROM "+fenceTable+p.where).Scan(&floor, &life); {
	case found == sql.ErrNoRows:
		return cdcerr.Fenced.New("the row of %s%s is gone: the changefeed was removed", fenceTable, p.where)
	case isServerError(found) && serverError(found).Number == errNoSuchTable:
		return cdcerr.Fenced.New("this server has no %s: it is another one than before", fenceTable)
	case found != nil:
		return found
	case floor <= term && life == p.life:
		return err
	}
	return cdcerr.Fenced.New("this writes under term %d as life %d, and %s has term %d and life %d", term, p.life, fenceTable, floor, life)
}

// fenced is the rows of the changefeed, fenceOf those of one capture.
func (c *Config) fenced() string {
	return " WHERE cluster = " + quoted(c.Cluster) + " AND changefeed = " + quoted(c.Changefeed) + " AND upstream = " + strconv.FormatUint(c.Upstream, 10)
}

func (c *Config) fenceOf(capture string) string {
	return c.fenced() + " AND capture = " + quoted(capture)
}

func (c *Config) fenceRow(capture string, lane int, term uint64) string {
	return fmt.Sprintf("(%s, %s, %d, %s, %d, %d, 0)", quoted(c.Cluster), quoted(c.Changefeed), c.Upstream, quoted(capture), lane, term)
}

const insertFence = "INSERT IGNORE INTO " + fenceTable + " (cluster, changefeed, upstream, capture, lane, term, life) VALUES "

// Fences tells whether anything is compared. Whoever has no life has no name of its
// own either, and what an unknown server locks is not known.
func (s *Sink) Fences() bool {
	return !s.cfg.NoFence && s.cfg.Life != "" && s.Dialect().Kind != Other
}

// reachFence makes the table where it is not there, and sees that it may be written:
// who may not is to hear of it when the changefeed is made.
func (s *Sink) reachFence(ctx context.Context) error {
	if !s.Fences() {
		return nil
	}
	var readOnly error
	err := s.again(ctx, "looking at the fence", func(ctx context.Context) (err error) {
		// Nothing is under way yet: who asks is told, instead of waiting with it.
		defer func() {
			if isReadOnly(err) {
				readOnly, err = err, nil
			}
		}()
		_, err = s.onFence(ctx, "SELECT term, life FROM "+fenceTable+s.cfg.fenceOf(s.cfg.Capture))
		if e := serverError(err); e != nil && (e.Number == errNoSuchTable || e.Number == errUnknownDB) {
			for _, text := range []string{createControl, createFence} {
				if err := s.session.exec(ctx, s.cfg.ReadTimeout, text); err != nil {
					return err
				}
			}
		} else if err != nil {
			return err
		}
		// They change nothing, and are refused to whoever may not do it.
		if err := s.session.exec(ctx, s.cfg.ReadTimeout, "INSERT INTO "+fenceTable+" SELECT * FROM "+fenceTable+" WHERE FALSE"); err != nil {
			return err
		}
		return s.session.exec(ctx, s.cfg.ReadTimeout, "UPDATE "+fenceTable+" SET life = life WHERE FALSE")
	})
	return fenceError(cmp.Or(readOnly, err))
}

func fenceError(err error) error {
	if unprivileged(err) {
		return cdcerr.MySQLAccessDenied.Wrap(err, "the user needs CREATE, SELECT, INSERT, UPDATE and DELETE on the database tidb_cdc (GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON tidb_cdc.* TO …), "+
			"where what is written is compared with a fence, so that nothing stale is; enable-fence=false in the sink URI does without")
	}
	if err == nil || cdcerr.Fenced.Is(err) {
		return err
	}
	return coded(err, "the fence in %s", fenceTable)
}

// onFence is the two numbers of each of a query's rows.
func (s *Sink) onFence(ctx context.Context, query string) (out [][2]uint64, err error) {
	conn, err := s.session.use(ctx)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	rows, err := conn.QueryContext(wait, query)
	if err != nil {
		return nil, unanswered(ctx, s.cfg.ReadTimeout, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var pair [2]uint64
		if err := rows.Scan(&pair[0], &pair[1]); err != nil {
			return nil, err
		}
		out = append(out, pair)
	}
	return out, rows.Err()
}

// claim makes all of the fence's rows this sink's own, before its first row: it waits
// for what an earlier one has begun, and refuses the rest of that. A sink whose term
// is below the floor is itself of the past.
func (s *Sink) claim(ctx context.Context, leave sink.Leave) error {
	if s.claimed || !s.Fences() {
		return nil
	}
	var life uint64
	var ids []uint64
	p := s.patience()
	for {
		err := leave.Check()
		if err == nil {
			life, ids, err = s.tryClaim(ctx, leave)
		}
		if err == nil {
			break
		}
		if cdcerr.LeaveEnded.Is(err) || ctx.Err() != nil || !p.again(ctx, err) {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return fenceError(err)
		}
		s.log.Warn("the fence is not ours yet, trying again", "error", err)
	}
	s.claimed = true
	at := func(lane int) post {
		return post{where: " WHERE id = " + strconv.FormatUint(ids[lane], 10), life: life}
	}
	s.session.post = at(0)
	for i, l := range s.lanes {
		l.session.post = at(i + 1)
	}
	return nil
}

func (s *Sink) tryClaim(ctx context.Context, leave sink.Leave) (life uint64, ids []uint64, err error) {
	ctx, cancel := within(ctx, leave)
	defer cancel()
	conn, err := s.session.fresh(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if err != nil {
			s.session.abandon(conn, err)
		}
	}()
	term := leave().Fence
	var rows []string
	for lane := range len(s.lanes) + 1 {
		rows = append(rows, s.cfg.fenceRow(s.cfg.Capture, lane, 0))
	}
	own := s.cfg.fenceOf(s.cfg.Capture)
	for _, text := range []string{s.session.dialect.begin(), insertFence + strings.Join(rows, ", ")} {
		if err := s.session.exec(ctx, s.cfg.ReadTimeout, text); err != nil {
			return 0, nil, err
		}
	}
	if err := s.ownerAllows(ctx, term); err != nil {
		return 0, nil, err
	}
	// In the order of the key, as whoever raises it locks them.
	found, err := s.onFence(ctx, "SELECT term, life FROM "+fenceTable+own+" ORDER BY lane FOR UPDATE")
	if err != nil {
		return 0, nil, err
	}
	for _, row := range found {
		if row[0] > term {
			return 0, nil, cdcerr.Fenced.New("this would write under term %d, and %s has term %d, so a later owner has written already; only if the etcd of the servers was set up anew or restored does nobody know of it any more: "+
				"then DELETE FROM %s%s", term, fenceTable, row[0], fenceTable, s.cfg.fenced())
		}
		life = max(life, row[1])
	}
	if found, err = s.onFence(ctx, "SELECT id, lane FROM "+fenceTable+own+" ORDER BY lane"); err != nil {
		return 0, nil, err
	}
	if len(found) <= len(s.lanes) {
		return 0, nil, cdcerr.Bug("%d of %d rows in %s%s", len(found), len(s.lanes)+1, fenceTable, own)
	}
	for _, row := range found {
		ids = append(ids, row[0])
	}
	life = lifeAfter(life)
	for _, text := range []string{fmt.Sprintf("UPDATE %s SET term = %d, life = %d%s", fenceTable, term, life, own), "COMMIT"} {
		if err := s.session.exec(ctx, s.cfg.ReadTimeout, text); err != nil {
			return 0, nil, err
		}
	}
	return life, ids, nil
}

// termBits is by how much an owner's revision is shifted to make the first of the terms
// that it gives.
const termBits = 20

// ownerAllows is an error if a capture's term is of an owner that a later one has
// fenced off: who reads then which captures have a floor is to know all that ever will.
func (s *Sink) ownerAllows(ctx context.Context, term uint64) error {
	if s.cfg.Capture == "" {
		return nil
	}
	look := func() ([][2]uint64, error) {
		return s.onFence(ctx, "SELECT term, life FROM "+fenceTable+s.cfg.fenceOf("")+" AND lane = 0 FOR UPDATE")
	}
	owner, err := look()
	if err == nil && len(owner) == 0 {
		// Not before it is known to be missing: to insert a row that is there shares a
		// lock on it, and of two that then want it alone the server ends one.
		if err = s.session.exec(ctx, s.cfg.ReadTimeout, insertFence+s.cfg.fenceRow("", 0, 0)); err == nil {
			owner, err = look()
		}
	}
	if err == nil && len(owner) == 1 && owner[0][0] > term>>termBits {
		err = cdcerr.Fenced.New("capture %s would write under term %d of the owner at revision %d, and a later one is at %d", s.cfg.Capture, term, term>>termBits, owner[0][0])
	}
	return err
}

// clearFence removes the places of captures that an earlier owner has fenced off and
// that did not come again: each process that ever wrote would keep one for good. What
// they sent is refused without a row as well, and a place under an earlier owner's term
// is given to nobody any more (ownerAllows).
func (s *Sink) clearFence(ctx context.Context, leave sink.Leave) error {
	if !s.Fences() {
		return nil
	}
	idle := fmt.Sprintf("life = 0 AND term < %d", leave().Fence<<termBits)
	err := s.again(ctx, "clearing the fence", func(ctx context.Context) error {
		// Row by row, since a condition on all would wait for those who write.
		rows, err := s.onFence(ctx, "SELECT id, lane FROM "+fenceTable+s.cfg.fenced()+" AND capture <> '' AND "+idle)
		for _, row := range rows {
			if err == nil {
				err = s.session.exec(ctx, s.cfg.ReadTimeout, fmt.Sprintf("DELETE FROM %s WHERE id = %d AND %s", fenceTable, row[0], idle))
			}
		}
		return err
	})
	return fenceError(err)
}

// Floors are the captures that have a place at the fence. Of an owner that has raised
// that of the empty capture to its revision first, it is all that ever will without its
// knowing.
func (s *Sink) Floors(ctx context.Context) (captures []string, err error) {
	if !s.Fences() {
		return nil, nil
	}
	on := newSession(s.session.cfg, s.pool)
	defer on.lose()
	conn, err := on.fresh(ctx)
	if err == nil {
		err = eachText(ctx, conn, "SELECT DISTINCT capture FROM "+fenceTable+s.cfg.fenced()+" AND capture <> '' ORDER BY capture", func(c string) { captures = append(captures, c) })
	}
	return captures, fenceError(err)
}

// TakeOver implements sink.Usurper: the record's fence first, then those of all who have
// a place, as an owner elected after the last one would. What stands on record is read
// anew: until then another one may have noted more.
func (s *Sink) TakeOver(ctx context.Context) (sink.Leave, error) {
	if !s.Fences() {
		return sink.Endless, nil
	}
	var last [][2]uint64
	err := s.again(ctx, "looking who writes", func(ctx context.Context) (err error) {
		last, err = s.onFence(ctx, "SELECT term, life FROM "+fenceTable+s.cfg.fenceOf("")+" ORDER BY term DESC")
		return err
	})
	if err != nil {
		return nil, fenceError(err)
	}
	term := uint64(1)
	if len(last) > 0 {
		term = last[0][0] + 1
	}
	if err := s.Raise(ctx, "", term); err != nil {
		return nil, err
	}
	captures, err := s.Floors(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range captures {
		if err := s.Raise(ctx, c, term<<termBits); err != nil {
			return nil, err
		}
	}
	return func() sink.Grant { return sink.Grant{Fence: term} }, s.readNoted(ctx)
}

// passing runs a statement of the session's in a transaction that passes the fence;
// empty: only passes.
func (s *Sink) passing(ctx context.Context, leave sink.Leave, text string) error {
	on, term := s.session, leave().Fence
	if on.post.where == "" {
		if text == "" {
			return nil
		}
		return on.exec(ctx, s.cfg.ReadTimeout, text)
	}
	conn, err := on.use(ctx)
	if err != nil {
		return err
	}
	p := packet{session: on, wait: s.cfg.ReadTimeout, max: s.cfg.MaxPacketBytes}
	run := func(text string) error { return p.add(ctx, []byte(text)) }
	err = on.post.settle(ctx, on)
	if err == nil {
		err = run("BEGIN")
	}
	if err == nil {
		err = on.post.pass(on.dialect, term, run)
	}
	if err == nil && text != "" {
		err = run(text)
	}
	if err == nil {
		err = run("COMMIT")
	}
	if err == nil {
		err = p.send(ctx)
	}
	if err == nil {
		return nil
	}
	if isGone(err) {
		on.post.doubt()
	}
	on.abandon(conn, err)
	return on.post.fenced(ctx, on, term, err)
}

// begin begins a transaction in which locks are waited for.
func (d Dialect) begin() string {
	if d.Kind == TiDB {
		return "BEGIN /*T! PESSIMISTIC */" // a comment to everybody else
	}
	return "BEGIN"
}

// Raise sees to it that a capture of this changefeed writes nothing under a term
// below this one any more: what it has begun is durable when Raise returns, or never
// will be. Under a later term it has to take its place anew, by a sink that is opened
// then. It may be called while other calls run, and again with the same term.
func (s *Sink) Raise(ctx context.Context, capture string, term uint64) error {
	if !s.Fences() {
		return cdcerr.ConfigInvalid.New("enable-fence: nothing is compared in this downstream, so nothing can be raised")
	}
	on := newSession(s.session.cfg, s.pool)
	defer on.lose()
	own := s.cfg.fenceOf(capture)
	life := ""
	if capture != "" {
		life = ", life = 0" // nobody's: whoever comes again takes its place anew
	}
	texts := []string{
		// A floor also for who has not come yet.
		insertFence + on.cfg.fenceRow(capture, 0, term),
		fmt.Sprintf("UPDATE %s SET term = %d%s%s AND term < %d ORDER BY lane", fenceTable, term, life, own, term),
	}
	p := s.patience()
	for {
		err := func() error {
			if _, err := on.fresh(ctx); err != nil {
				return err
			}
			for _, text := range append([]string{on.dialect.begin()}, append(texts, "COMMIT")...) {
				if err := on.exec(ctx, on.cfg.ReadTimeout, text); err != nil {
					on.abandon(on.conn, err)
					return err
				}
			}
			return nil
		}()
		if err == nil || ctx.Err() != nil || !p.again(ctx, err) {
			return fenceError(err)
		}
		s.log.Warn("the fence is not raised yet, trying again", "capture", capture, "term", term, "error", err)
	}
}
