package playground

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dolthub/vitess/go/mysql"
)

// serial lets one transaction after the other through. The engine does not keep
// transactions apart: of two that write one table at the same time the later commit
// takes the other one's rows back, as where two captures write partitions of one table.
type serial struct {
	mu     sync.Mutex    // guards what follows
	holder *mysql.Conn   // whose turn it is, nil: nobody's
	within bool          // it is in a transaction, and keeps its turn until the end of that
	free   chan struct{} // closed when holder lets go
}

const (
	// turnMax is how long a statement waits: whoever leaves a transaction open in a
	// client, to look around, holds up nobody for good without a word.
	turnMax = 10 * time.Second
	// turnLook is how often a waiter looks whether the holder's connection is gone.
	turnLook = 10 * time.Millisecond
)

// onlyReads are the words with which statements begin that change nothing.
var onlyReads = []string{"", "SELECT", "SHOW", "SET", "USE", "EXPLAIN", "DESC", "DESCRIBE"}

// run carries a statement out when it is its turn.
func (s *serial) run(ctx context.Context, c *mysql.Conn, query string, carryOut func() error) error {
	word, _, _ := strings.Cut(strings.TrimLeft(strings.ToUpper(code(query)), " \t\r\n")+" ", " ")
	switch word = strings.TrimRight(word, ";\t\r\n"); {
	case slices.Contains(onlyReads, word):
		return carryOut()
	case word == "COMMIT" || word == "ROLLBACK":
		defer s.leave(c)
		return carryOut()
	}
	if err := s.take(ctx, c, word == "BEGIN" || word == "START"); err != nil {
		return err
	}
	defer s.leaveAlone(c)
	return carryOut()
}

// take waits until it is a connection's turn.
func (s *serial) take(ctx context.Context, c *mysql.Conn, begins bool) error {
	patience := time.NewTimer(turnMax)
	defer patience.Stop()
	look := time.NewTicker(turnLook)
	defer look.Stop()
	for {
		free := s.taken(c, begins)
		if free == nil {
			return nil
		}
		select {
		case <-free:
		case <-look.C:
		case <-patience.C:
			return mysql.NewSQLError(mysql.ERLockWaitTimeout, mysql.SSUnknownSQLState,
				"the embedded database carries out one transaction after the other, and one has been open for %v", turnMax)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// taken takes the turn; where it is another's it returns what tells of its end. That of
// a connection which is gone is over.
func (s *serial) taken(c *mysql.Conn, begins bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder != nil && s.holder != c {
		if !gone(s.holder) {
			return s.free
		}
		s.leaveLocked()
	}
	if s.holder == nil {
		s.holder, s.free = c, make(chan struct{})
	}
	s.within = s.within || begins
	return nil
}

// gone tells whether the server has closed a connection, which the engine does beneath
// the one that it shows. It has no deadlines that this could take away.
func gone(c *mysql.Conn) bool { return errors.Is(c.Conn.SetReadDeadline(time.Time{}), net.ErrClosed) }

// leave ends a connection's turn, leaveAlone that of a statement outside transactions.
func (s *serial) leave(c *mysql.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == c {
		s.leaveLocked()
	}
}

func (s *serial) leaveAlone(c *mysql.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == c && !s.within {
		s.leaveLocked()
	}
}

func (s *serial) leaveLocked() {
	close(s.free)
	s.holder, s.within, s.free = nil, false, nil
}
