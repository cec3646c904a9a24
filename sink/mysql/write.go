package mysql

import (
	"context"
	"database/sql"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// tries is how often one downstream transaction is attempted: a connection that
// idled away and a lost deadlock pass at the second try, and what does not pass
// at the fourth is for the changefeed's own backoff.
const tries = 4

// backoff is the pause before the second try; it doubles.
const backoff = 50 * time.Millisecond

// packetSlack is what a packet holds beside the text of its statement.
const packetSlack = 1 << 10

// Write implements sink.Sink.
func (s *Sink) Write(ctx context.Context, g sink.Grant, txns []event.Txn) error {
	for len(txns) > 0 {
		n := s.cfg.group(txns)
		changes := merge(txns[:n])
		for try := 1; ; try++ {
			err := s.commit(ctx, g, changes)
			if err == nil {
				break
			}
			first, last := txns[0].CommitTS, txns[n-1].CommitTS
			if try == tries || ctx.Err() != nil || !worthAnother(err) {
				return cdcerr.MySQLTxn.Wrap(err, "transactions of commit-ts %d to %d", first, last)
			}
			s.log.Warn("downstream transaction failed, trying again", "try", try, "first-ts", first, "last-ts", last, "error", err)
			if err := pause(ctx, backoff<<(try-1)); err != nil {
				return err
			}
		}
		txns = txns[n:]
	}
	return nil
}

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// worthAnother tells whether an error passes by itself within a second. The
// changes may be delivered twice, so it does not matter whether a COMMIT whose
// answer was lost took place.
func worthAnother(err error) bool {
	if e := serverError(err); e != nil {
		return isContention(e.Number) || connectionLost(err)
	}
	return connectionLost(err) && !cdcerr.MySQLConnection.Is(err)
}

// commit writes changes in one downstream transaction.
func (s *Sink) commit(ctx context.Context, g sink.Grant, changes []change) error {
	if !g.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, g.Deadline)
		defer cancel()
	}
	if err := expired(g); err != nil {
		return err
	}
	conn, err := s.session.use(ctx)
	if err != nil {
		return err
	}
	if err := s.transact(ctx, g, conn, changes); err != nil {
		s.abandon(conn, err)
		return err
	}
	return nil
}

func (s *Sink) transact(ctx context.Context, g sink.Grant, conn *sql.Conn, changes []change) error {
	run := func(text string) error { return s.session.exec(ctx, s.cfg.ReadTimeout, text) }
	if err := run("BEGIN"); err != nil {
		return err
	}
	w := writer{
		dialect: s.session.dialect,
		target:  s.cfg.MaxStatementBytes,
		max:     max(s.session.maxPacket-packetSlack, packetSlack),
		run:     run,
	}
	if err := w.plan(makePlan(changes, &s.texts, s.session.dialect)); err != nil {
		return err
	}
	if err := expired(g); err != nil {
		return err
	}
	// From here on the grant's end must not tear the connection down: a COMMIT
	// that has begun may finish.
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ReadTimeout)
	defer cancel()
	_, err := conn.ExecContext(wait, "COMMIT")
	return err
}

// abandon takes a failed transaction back. If the server cannot be asked to,
// it does so itself when it sees the connection gone.
func (s *Sink) abandon(conn *sql.Conn, cause error) {
	if !connectionLost(cause) {
		ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DialTimeout)
		defer cancel()
		if _, err := conn.ExecContext(ctx, "ROLLBACK"); err == nil {
			return
		}
	}
	s.session.lose()
}
