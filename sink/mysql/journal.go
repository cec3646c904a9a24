package mysql

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/sink"
)

// The table of journals: a row of each changefeed that has, or had, a redo log. It is
// written under the record's place at the fence, so that whoever was taken over adds
// nothing to it.
const (
	createJournal = `CREATE TABLE IF NOT EXISTS ` + journalTable + ` (
		cluster varchar(128) NOT NULL,
		changefeed varchar(260) NOT NULL,
		upstream bigint unsigned NOT NULL,
		journal longtext NOT NULL,
		PRIMARY KEY (cluster, changefeed, upstream)
	) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin`
	journalTable = "tidb_cdc.sluice_redo_v1"
)

// Journals implements sink.Journaler: without a fence anybody might have written.
func (s *Sink) Journals() bool { return s.Fences() }

// Journal implements sink.Journaler.
func (s *Sink) Journal(ctx context.Context) (j *sink.Journal, err error) {
	on := newSession(s.session.cfg, s.pool)
	defer on.lose()
	for p := s.patience(); ; on.lose() {
		if j, err = s.journalBy(ctx, on, ""); err == nil || ctx.Err() != nil || !p.again(ctx, err) {
			return j, journalError(err)
		}
	}
}

// Note implements sink.Journaler.
func (s *Sink) Note(ctx context.Context, leave sink.Leave, change func(*sink.Journal) bool) error {
	on := newSession(s.session.cfg, s.pool)
	defer on.lose()
	for p := s.patience(); ; on.lose() {
		err := leave.Check()
		if err == nil {
			err = s.note(ctx, on, leave, change)
		}
		if err == nil || cdcerr.LeaveEnded.Is(err) || cdcerr.Fenced.Is(err) || ctx.Err() != nil || !p.again(ctx, err) {
			return journalError(err)
		}
		s.log.Warn("the redo log's journal is not written yet, trying again", "error", err)
	}
}

// note changes the row in one transaction. The fence's row is locked until its end, so that
// whoever takes the place afterwards reads what was noted.
func (s *Sink) note(ctx context.Context, on *session, leave sink.Leave, change func(*sink.Journal) bool) (err error) {
	ctx, cancel := within(ctx, leave)
	defer cancel()
	j, err := s.journalBy(ctx, on, "")
	if err != nil {
		return err
	}
	if j == nil {
		// Tables are made outside of the transaction, and only where there is something to note.
		if !change(&sink.Journal{}) {
			return nil
		}
		for _, text := range []string{createControl, createJournal} {
			if err := on.exec(ctx, s.cfg.ReadTimeout, text); err != nil {
				return err
			}
		}
	}
	conn, err := on.fresh(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			on.abandon(conn, err)
		}
	}()
	if err := on.exec(ctx, s.cfg.ReadTimeout, on.dialect.begin()); err != nil {
		return err
	}
	term := leave().Fence
	floor, err := cellOf(ctx, conn, "SELECT term FROM "+fenceTable+s.cfg.fenceOf("")+" AND lane = 0 FOR UPDATE", 1)
	if err != nil {
		return err
	}
	if at, bad := strconv.ParseUint(floor, 10, 64); bad != nil || at > term {
		return cdcerr.Fenced.New("this writes the redo log's journal under term %d, and %s has term %q", term, fenceTable, floor)
	}
	if j, err = s.journalBy(ctx, on, " FOR UPDATE"); err != nil {
		return err
	}
	if j == nil {
		j = &sink.Journal{}
	}
	if change(j) {
		text, err := json.Marshal(j)
		if err != nil {
			return cdcerr.Bug("a redo log's journal is no JSON: %v", err)
		}
		if err := on.exec(ctx, s.cfg.ReadTimeout, "REPLACE INTO "+journalTable+" (cluster, changefeed, upstream, journal) VALUES ("+
			quoted(s.cfg.Cluster)+", "+quoted(s.cfg.Changefeed)+", "+strconv.FormatUint(s.cfg.Upstream, 10)+", "+quoted(string(text))+")"); err != nil {
			return err
		}
	}
	return on.exec(ctx, s.cfg.ReadTimeout, "COMMIT")
}

// journalBy reads the row; nil where there is none.
func (s *Sink) journalBy(ctx context.Context, on *session, lock string) (*sink.Journal, error) {
	conn, err := on.use(ctx)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	text, err := cellOf(wait, conn, "SELECT journal FROM "+journalTable+s.cfg.fenced()+lock, 1)
	if e := serverError(err); e != nil && (e.Number == errNoSuchTable || e.Number == errUnknownDB) {
		return nil, nil
	}
	if err != nil || text == "" {
		return nil, unanswered(ctx, s.cfg.ReadTimeout, err)
	}
	j := &sink.Journal{}
	if err := json.Unmarshal([]byte(text), j); err != nil {
		return nil, cdcerr.RedoCorrupted.New("%s%s cannot be read: %v: %.200q", journalTable, s.cfg.fenced(), err, text)
	}
	return j, nil
}

func journalError(err error) error {
	if unprivileged(err) {
		return cdcerr.MySQLAccessDenied.Wrap(err, "a changefeed with a redo log notes how far that let it write in %s: GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON tidb_cdc.* to the user", journalTable)
	}
	if err == nil || cdcerr.Of(err) != nil {
		return err
	}
	return coded(err, "the redo log's journal in %s", journalTable)
}
