package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// packetSlack is what a packet holds beside the text of its statement.
const packetSlack = 1 << 10

// Write implements sink.Sink.
func (s *Sink) Write(ctx context.Context, g sink.Grant, txns []event.Txn) error {
	for len(txns) > 0 {
		n := s.cfg.group(txns)
		if err := s.deliver(ctx, g, txns[:n]); err != nil {
			return err
		}
		txns = txns[n:]
	}
	return nil
}

// deliver writes transactions in one downstream transaction, as often as it
// takes: they may be delivered twice, so it does not matter whether a COMMIT
// whose answer was lost took place.
func (s *Sink) deliver(ctx context.Context, g sink.Grant, txns []event.Txn) error {
	changes := merge(txns)
	p := s.patience()
	for {
		err := s.commit(ctx, g, changes)
		if err == nil {
			return nil
		}
		first, last := txns[0].CommitTS, txns[len(txns)-1].CommitTS
		if expired(g) != nil || !p.again(ctx, err) {
			if ctx.Err() != nil {
				return fmt.Errorf("transactions of commit-ts %d to %d: %w", first, last, ctx.Err())
			}
			return coded(err, "transactions of commit-ts %d to %d", first, last)
		}
		s.log.Warn("downstream transaction failed, trying again", "first-ts", uint64(first), "last-ts", uint64(last), "error", err)
	}
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
	if !isGone(cause) {
		ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DialTimeout)
		defer cancel()
		if _, err := conn.ExecContext(ctx, "ROLLBACK"); err == nil {
			return
		}
	}
	s.session.lose()
}
