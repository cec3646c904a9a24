package mysql

import (
	"context"
	"database/sql"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// The table of sync points. Its name and its columns are those that tools for
// TiDB read. secondary_ts is wider, since not only TiDB has moments.
const (
	createControl    = "CREATE DATABASE IF NOT EXISTS tidb_cdc"
	createSyncPoints = `CREATE TABLE IF NOT EXISTS tidb_cdc.syncpoint_v1 (
		ticdc_cluster_id varchar(255) NOT NULL,
		changefeed varchar(255) NOT NULL,
		primary_ts varchar(18) NOT NULL,
		secondary_ts varchar(64) NOT NULL,
		created_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
		PRIMARY KEY (ticdc_cluster_id, changefeed, primary_ts),
		KEY (created_at)
	) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin`
)

// syncPoints is what a sink knows of its table.
type syncPoints struct {
	ready   bool
	cleared time.Time // when rows that are too old were last removed
}

// SyncPoint implements sink.Sink. The row is written once: after a crash the
// moment that was found first still is the right one, since nothing above it was
// written before its row stood there.
func (s *Sink) SyncPoint(ctx context.Context, leave sink.Leave, p event.SyncPoint) error {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.cfg.Role == sink.Rows {
		return cdcerr.Bug("the sync point %d came to a sink that writes a capture's rows", p.TS)
	}
	if err := s.Flush(ctx); err != nil {
		return err
	}
	if err := s.claim(ctx, leave); err != nil {
		return err
	}
	patience := s.patience()
	for {
		err := s.syncPoint(ctx, leave, p)
		over := leave.Check()
		switch {
		case err == nil:
			return nil
		case over != nil:
			return coded(over, "noting the sync point %d", p.TS)
		case !patience.again(ctx, err):
			return coded(err, "noting the sync point %d", p.TS)
		}
		s.log.Warn("sync point failed, trying again", "ts", uint64(p.TS), "error", err)
	}
}

func (s *Sink) syncPoint(ctx context.Context, leave sink.Leave, p event.SyncPoint) error {
	if err := leave.Check(); err != nil {
		return err
	}
	ctx, cancel := within(ctx, leave)
	defer cancel()
	conn, err := s.session.fresh(ctx)
	if err != nil {
		return err
	}
	term := leave().Fence
	if err := s.noteSyncPoint(ctx, conn, p, term); err != nil {
		s.session.abandon(conn, err)
		return s.session.post.fenced(ctx, s.session, term, err)
	}
	return nil
}

func (s *Sink) noteSyncPoint(ctx context.Context, conn *sql.Conn, p event.SyncPoint, term uint64) error {
	run := func(text string, args ...any) (int64, error) {
		wait, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
		defer cancel()
		r, err := conn.ExecContext(wait, text, args...)
		if err != nil {
			return 0, err
		}
		return r.RowsAffected()
	}
	if !s.syncPoints.ready {
		for _, text := range []string{createControl, createSyncPoints} {
			if _, err := run(text); err != nil {
				return err
			}
		}
		s.syncPoints.ready = true
	}
	begin := func() error {
		if _, err := run("BEGIN"); err != nil {
			return err
		}
		return s.session.post.pass(s.session.dialect, term, func(text string) error { _, err := run(text); return err })
	}
	var err error
	if s.session.dialect.Kind == TiDB {
		err = s.syncWithTiDB(ctx, conn, begin, run, p)
	} else {
		err = s.syncWithBinlog(ctx, conn, begin, run, p)
	}
	if err != nil {
		return err
	}
	return s.clearSyncPoints(run)
}

// runner runs a statement and says how many rows it changed.
type runner func(text string, args ...any) (int64, error)

const insertSyncPoint = "INSERT IGNORE INTO tidb_cdc.syncpoint_v1 (ticdc_cluster_id, changefeed, primary_ts, secondary_ts) VALUES (?, ?, ?, ?)"

// syncWithTiDB notes the transaction's own start-ts, which sees all that was
// written before, and lets readers of the whole server follow it.
func (s *Sink) syncWithTiDB(ctx context.Context, conn *sql.Conn, begin func() error, run runner, p event.SyncPoint) error {
	if err := begin(); err != nil {
		return err
	}
	var secondary string
	if err := conn.QueryRowContext(ctx, "SELECT @@tidb_current_ts").Scan(&secondary); err != nil {
		return err
	}
	if _, err := run(insertSyncPoint, s.cfg.Cluster, s.cfg.Changefeed, p.TS.String(), secondary); err != nil {
		return err
	}
	if _, err := run("SET GLOBAL tidb_external_ts = " + secondary); err != nil && !isUnknownVariable(err) {
		return err
	}
	_, err := run("COMMIT")
	return err
}

func isUnknownVariable(err error) bool {
	e := serverError(err)
	return e != nil && e.Number == errUnknownVariable
}

// syncWithBinlog notes the place in the binary log of the transaction that writes
// the row. It is known only afterwards: until it stands in the row, the row is as
// good as none. It stays empty where the server keeps no such log.
func (s *Sink) syncWithBinlog(ctx context.Context, conn *sql.Conn, begin func() error, run runner, p event.SyncPoint) error {
	key := []any{s.cfg.Cluster, s.cfg.Changefeed, p.TS.String()}
	const of = " WHERE ticdc_cluster_id = ? AND changefeed = ? AND primary_ts = ?"
	if err := begin(); err != nil {
		return err
	}
	if _, err := run("DELETE FROM tidb_cdc.syncpoint_v1"+of+" AND secondary_ts = ''", key...); err != nil {
		return err
	}
	written, err := run(insertSyncPoint, s.cfg.Cluster, s.cfg.Changefeed, p.TS.String(), "")
	if err != nil {
		return err
	}
	if _, err := run("COMMIT"); err != nil || written == 0 {
		return err
	}
	secondary, err := s.lastGTID(ctx, conn)
	if err != nil || secondary == "" {
		return err
	}
	_, err = run("UPDATE tidb_cdc.syncpoint_v1 SET secondary_ts = ?"+of, append([]any{secondary}, key...)...)
	return err
}

// lastGTID is the name of the session's last transaction in the binary log, or
// empty where the server does not say.
func (s *Sink) lastGTID(ctx context.Context, conn *sql.Conn) (gtid string, err error) {
	var text string
	switch s.session.dialect.Kind {
	case MariaDB:
		text = "SELECT @@last_gtid"
	case MySQL:
		text = `SELECT gtid FROM performance_schema.events_transactions_history
			WHERE thread_id = PS_CURRENT_THREAD_ID() AND state = 'COMMITTED' AND gtid LIKE '%:%' ORDER BY event_id DESC LIMIT 1`
	default:
		return "", nil
	}
	err = conn.QueryRowContext(ctx, text).Scan(&gtid)
	if err == sql.ErrNoRows || isServerError(err) {
		return "", nil
	}
	return gtid, err
}

// clearSyncPoints removes rows that are too old, once in a while.
func (s *Sink) clearSyncPoints(run runner) error {
	keep := s.cfg.SyncPointRetention
	if keep == 0 || time.Since(s.syncPoints.cleared) < keep {
		return nil
	}
	_, err := run("DELETE FROM tidb_cdc.syncpoint_v1 WHERE ticdc_cluster_id = ? AND changefeed = ? AND created_at < NOW() - INTERVAL ? SECOND",
		s.cfg.Cluster, s.cfg.Changefeed, int64(keep.Seconds()))
	if err == nil {
		s.syncPoints.cleared = time.Now()
	}
	return err
}
