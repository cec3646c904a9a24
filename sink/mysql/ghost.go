package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"
)

// ghost is a connection that was lost in the midst of a transaction. What was sent
// goes on in the server, whoever still listens: it may write and commit after the
// same has been written again, and after what came later.
//
//	lost:  BEGIN; REPLACE (1, 'a'); COMMIT ············▶ commits last
//	again: BEGIN; REPLACE (1, 'a'); COMMIT, then BEGIN; REPLACE (1, 'b'); COMMIT
//
// So it is ended before anything is written again.
type ghost struct {
	id   int64
	host string // of the server that counts it
}

// ghostOf is what a connection would leave.
func ghostOf(ctx context.Context, conn *sql.Conn) (g ghost, err error) {
	err = conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), @@hostname").Scan(&g.id, &g.host)
	if isServerError(err) && !isGone(err) {
		return ghost{}, nil // a server that counts none
	}
	return g, err
}

// layToRest ends the ghosts of a session and waits until they are gone. Another
// server than theirs, after a failover, has none of them.
func (s *session) layToRest(ctx context.Context, conn *sql.Conn) error {
	for len(s.ghosts) > 0 {
		if g := s.ghosts[0]; s.self.host == g.host || s.dialect.Kind == TiDB {
			if err := s.end(ctx, conn, g.id); err != nil {
				return fmt.Errorf("waiting for the end of connection %d: %w", g.id, err)
			}
		}
		s.ghosts = s.ghosts[1:]
	}
	return nil
}

func (s *session) end(ctx context.Context, conn *sql.Conn, id int64) error {
	view := "PROCESSLIST"
	if s.dialect.Kind == TiDB {
		view = "CLUSTER_PROCESSLIST" // of all its servers, over which ids are counted
	}
	text := "SELECT COUNT(*) FROM information_schema." + view + " WHERE ID = " + strconv.FormatInt(id, 10) + " AND ID <> CONNECTION_ID() AND USER = SUBSTRING_INDEX(USER(), '@', 1)"
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, pauseMin) {
		var there int
		err := conn.QueryRowContext(ctx, text).Scan(&there)
		if isServerError(err) && !isGone(err) {
			return nil // a server without such a list
		}
		if err != nil || there == 0 {
			return err
		}
		// It may have ended meanwhile; who may see it may end it.
		if _, err := conn.ExecContext(ctx, "KILL "+strconv.FormatInt(id, 10)); err != nil && (!isServerError(err) || isGone(err)) {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}
