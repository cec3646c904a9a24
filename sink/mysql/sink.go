package mysql

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// Snapshot reads rows that no event carries: those of a table that a FLASHBACK
// or RECOVER statement brought back, those that are left of a table of which
// a statement took a partition that the downstream cuts otherwise, and those whose
// column a statement rewrote.
type Snapshot interface {
	// Rows hands fn every row of t as of at, as inserts.
	Rows(ctx context.Context, t *event.Table, at tso.TS, fn func(*event.Row) error) error
}

// Sink writes to one database. It implements sink.Sink.
type Sink struct {
	cfg      Config
	pool     *sql.DB
	session  *session // of DDL and of all that is no row
	lanes    []*lane
	width    *width
	snapshot Snapshot // nil: DDL that needs it is refused
	log      *slog.Logger

	// calls is held by calls that use the session, so that an owner may tell of its
	// checkpoint while a DDL runs.
	calls sync.Mutex
	upTo  atomic.Uint64 // the latest checkpoint that is durable

	claimed bool // the fence's rows are this sink's
	claimer *claimer
	burst   *burst // nil: nothing is being written

	texts      tableTexts
	noted      *noted
	building   []building // at most one a table: another DDL of the table waits
	looked     time.Time  // when building was last asked for
	syncPoints syncPoints
}

var (
	_ sink.Sink      = (*Sink)(nil)
	_ sink.Fencer    = (*Sink)(nil)
	_ sink.Recorder  = (*Sink)(nil)
	_ sink.Foreseer  = (*Sink)(nil)
	_ sink.Journaler = (*Sink)(nil)
)

// Open connects to the database and learns its dialect. Snapshot may be nil:
// then a DDL whose rows no event carries is refused where the downstream cannot
// carry it out by itself.
func Open(ctx context.Context, cfg Config, snapshot Snapshot, log *slog.Logger) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	pool, err := openPool(&connector{cfg: cfg, multi: cfg.Multi})
	if err != nil {
		return nil, err
	}
	s := &Sink{cfg: cfg, pool: pool, session: newSession(cfg, pool), snapshot: snapshot, log: log}
	if err := s.connect(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	if err := s.suits(); err != nil {
		_ = s.Close()
		return nil, err
	}
	workers := cfg.workersOn(s.Dialect())
	pool = s.pool // it may be another one by now
	// One each, and a second only while a lost one is being given back.
	pool.SetMaxOpenConns(2 * (workers + 1))
	for range workers {
		s.lanes = append(s.lanes, &lane{session: &session{cfg: s.session.cfg, pool: pool, strict: true}})
	}
	s.width = newWidth(workers)
	s.claimer = newClaimer(s.Dialect())
	if err := s.enter(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	for _, n := range cfg.Notes {
		log.Warn(n)
	}
	log.Info("downstream connected", "uri", cfg.String(), "dialect", s.session.dialect.String(), "version", s.session.dialect.Text, "workers", workers)
	return s, nil
}

// enter reads what stands downstream about the changefeed. An owner takes the place of
// those before it first: from then on they note nothing more.
func (s *Sink) enter(ctx context.Context) error {
	if err := s.apart(ctx); err != nil {
		return err
	}
	if s.cfg.Role != sink.Owner {
		if err := s.readNoted(ctx); err != nil {
			return err
		}
		return s.reachFence(ctx)
	}
	if err := s.reachFence(ctx); err != nil {
		return err
	}
	if err := s.claim(ctx, s.cfg.Leave); err != nil {
		return err
	}
	if err := s.clearFence(ctx, s.cfg.Leave); err != nil {
		return err
	}
	if err := s.readNoted(ctx); err != nil {
		return err
	}
	return s.noteSince(ctx, s.cfg.Leave)
}

// Dialect is what the downstream is.
func (s *Sink) Dialect() Dialect { return s.session.dialect }

// Whole tells whether every upstream transaction is to be written at once.
func (s *Sink) Whole() bool { return s.cfg.Atomicity == PerTable }

// Close ends what is being written and gives the connections back.
func (s *Sink) Close() error {
	if s.burst != nil {
		s.burst.cancel()
		_ = s.burst.group.Wait() // its error is that it was ended
		s.burst = nil
	}
	s.session.lose()
	for _, l := range s.lanes {
		l.session.lose()
	}
	return s.pool.Close()
}

func (s *Sink) patience() *patience { return &patience{budget: s.cfg.Absence, warn: s.cfg.Warn} }
