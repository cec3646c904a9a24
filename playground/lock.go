package playground

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// locks are the databases that no other playground may write meanwhile. The
// server gives them up when the connection that took them ends, however it ends.
type locks struct {
	conn *sql.Conn // nil: none is held
	held []string
}

// lockWait is how many seconds a lock is waited for: a server that is busy learns
// late that the connection of a run that has just ended is gone.
const lockWait = 2

// lock takes databases for this run alone. A server without such locks, as the
// one in this process is of use to nobody else, is written without.
func (d *database) lock(ctx context.Context, databases []string) error {
	if d.own {
		return nil
	}
	if d.locks.conn == nil {
		conn, err := d.db.Conn(ctx)
		if err != nil {
			return cdcerr.MySQLConnection.Wrap(err, "downstream %s", d.cfg)
		}
		// It says nothing for as long as the run lasts, and must not be closed for that.
		if _, err := conn.ExecContext(ctx, "SET SESSION wait_timeout = 2147483"); err != nil {
			d.log.Warn("the lock against a second playground may end early", "error", err)
		}
		d.locks.conn = conn
	}
	for _, name := range databases {
		if slices.Contains(d.locks.held, name) {
			continue
		}
		var got sql.NullInt64
		if err := d.locks.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", lockName(name), lockWait).Scan(&got); err != nil {
			d.log.Warn("nothing keeps a second playground out: the downstream has no GET_LOCK", "database", name, "error", err)
			return nil
		}
		if got.Int64 != 1 {
			return cdcerr.InvalidArgument.New("downstream %s: another playground writes to database %s now; wait until it has ended, or give another --sink-uri", d.cfg, name)
		}
		d.locks.held = append(d.locks.held, name)
	}
	return nil
}

// lockName is a database's, in the server's one space of names of at most 64
// characters; they are compared without regard to case.
func lockName(database string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.ToLower(database)))
	return fmt.Sprintf("sluice_playground/%016x", h.Sum64())
}

// release gives all of them back.
func (l *locks) release() error {
	if l.conn == nil {
		return nil
	}
	conn := l.conn
	l.conn, l.held = nil, nil
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closed, not kept for others
	if err := conn.Close(); !errors.Is(err, sql.ErrConnDone) {
		return err
	}
	return nil
}
