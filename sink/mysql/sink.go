package mysql

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// Snapshot reads rows that no event carries: those of a table that a FLASHBACK
// or RECOVER statement brought back, and those that are left of a table of which
// a statement took a partition that the downstream cuts otherwise.
type Snapshot interface {
	// Rows hands fn every row of t as of at, as inserts.
	Rows(ctx context.Context, t *event.Table, at tso.TS, fn func(*event.Row) error) error
}

// Sink writes to one database. It implements sink.Sink.
type Sink struct {
	cfg      Config
	session  *session
	snapshot Snapshot // nil: DDL that needs it is refused
	log      *slog.Logger

	texts      tableTexts
	syncPoints syncPoints
}

var _ sink.Sink = (*Sink)(nil)

// Open connects to the database and learns its dialect. Snapshot may be nil:
// then a DDL whose rows no event carries is refused where the downstream cannot
// carry it out by itself.
func Open(ctx context.Context, cfg Config, snapshot Snapshot, log *slog.Logger) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := openSession(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := s.use(ctx); err != nil {
		_ = s.close()
		return nil, err
	}
	log.Info("downstream connected", "uri", cfg.String(), "dialect", s.dialect.String(), "version", s.dialect.Text)
	return &Sink{cfg: cfg, session: s, snapshot: snapshot, log: log}, nil
}

// Dialect is what the downstream is.
func (s *Sink) Dialect() Dialect { return s.session.dialect }

// Whole tells whether every upstream transaction is to be written at once.
func (s *Sink) Whole() bool { return s.cfg.Atomicity == PerTable }

// Checkpoint does nothing: what Write returned for is durable already.
func (s *Sink) Checkpoint(context.Context, tso.TS) error { return nil }

// Close gives the connection back.
func (s *Sink) Close() error { return s.session.close() }

func (s *Sink) patience() *patience { return &patience{budget: s.cfg.Absence} }

// expired is an error if the grant has ended: nothing may begin to commit.
func expired(g sink.Grant) error {
	if !g.Deadline.IsZero() && !time.Now().Before(g.Deadline) {
		return cdcerr.MySQLTxn.New("the leave to write ended at %s, before this could commit", g.Deadline.Format(time.RFC3339Nano))
	}
	return nil
}
