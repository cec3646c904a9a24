package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
)

// Config says what happens on the cluster.
type Config struct {
	Kind    string // one of Kinds
	Seed    uint64
	Rate    int     // transactions a second of all writers together; default 200
	Writers int     // default 4
	Size    int     // accounts, or rows of each table; default 200
	Tables  int     // of the bank; default 3
	Abandon float64 // the part of transactions whose client dies half way
	// DDLEvery is the time between the DDLs of a stream; 0: one follows the other.
	DDLEvery time.Duration
	// Told, where set, hears of each statement of DDL when it is over, and of what
	// it was refused for; it may be called by several goroutines.
	Told func(db, sql string, refused error)
}

// Kinds are the workloads.
func Kinds() []string { return []string{"bank", "rows", "ddl", "drill"} }

// Default fills the fields that are zero.
func (c Config) Default() Config {
	if c.Rate == 0 {
		c.Rate = 200
	}
	if c.Writers == 0 {
		c.Writers = 4
	}
	if c.Size == 0 {
		c.Size = 200
	}
	if c.Tables == 0 {
		c.Tables = 3
	}
	return c
}

// Validate names the first field that cannot be used, and why.
func (c Config) Validate() error {
	bad := cdcerr.InvalidArgument.New
	switch {
	case !slices.Contains(Kinds(), c.Kind):
		return bad("Kind: %q, want one of %v", c.Kind, Kinds())
	case c.Rate < 1 || c.Rate > 100_000:
		return bad("Rate: %d, want 1 to 100000 transactions a second", c.Rate)
	case c.Writers < 1 || c.Writers > 64:
		return bad("Writers: %d, want 1 to 64", c.Writers)
	case c.Size < 2 || c.Size > 1_000_000:
		return bad("Size: %d, want 2 to 1000000", c.Size)
	case c.Tables < 1 || c.Tables > 100:
		return bad("Tables: %d, want 1 to 100", c.Tables)
	case c.Abandon < 0 || c.Abandon > 0.5:
		return bad("Abandon: %v, want 0 to 0.5", c.Abandon)
	case c.DDLEvery < 0:
		return bad("DDLEvery: %v, below 0", c.DDLEvery)
	}
	return nil
}

// Workload is writers, and what runs DDL, on one cluster.
type Workload struct {
	Server *Server
	cfg    Config
	game   game
	pace   pacer

	txns, abandoned, ddls, refused atomic.Int64
}

// Counts is what has happened so far.
type Counts struct {
	Txns      int64 // committed
	Abandoned int64 // left with locks
	DDLs      int64 // statements carried out
	Refused   int64 // statements that TiDB would refuse, and jobs that failed
}

// Counts tells what has happened so far.
func (w *Workload) Counts() Counts {
	return Counts{w.txns.Load(), w.abandoned.Load(), w.ddls.Load(), w.refused.Load()}
}

// game is what the writers of one kind of workload do.
type game interface {
	databases() []string
	// prepare makes the tables and fills them.
	prepare(ctx context.Context, w *Workload) error
	// play is one transaction, up to its commit. It is committed if play says so.
	play(ctx context.Context, x *Session, rng *rand.Rand) (commit bool, err error)
	// alter runs one more DDL of a stream of them; done means that there are none.
	alter(ctx context.Context, w *Workload, stream int, rng *rand.Rand) (done bool, err error)
	// streams is how many streams of DDL run at the same time.
	streams() int
}

// New sets a new cluster up, with none of the workload's tables yet: see Prepare.
func New(ctx context.Context, client *live.Client, cfg Config) (*Workload, error) {
	cfg = cfg.Default()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := NewServer(ctx, client)
	if err != nil {
		return nil, err
	}
	w := &Workload{Server: s, cfg: cfg, pace: pacer{every: time.Second / time.Duration(cfg.Rate)}}
	switch cfg.Kind {
	case "bank":
		w.game = &bank{cfg: cfg}
	case "rows":
		w.game = &rows{cfg: cfg}
	case "ddl":
		w.game = &storm{rows: rows{cfg: cfg}}
	case "drill":
		w.game = &drill{bank: bank{cfg: cfg}, rows: rows{cfg: cfg}}
	}
	return w, nil
}

// Config is what the workload was made with, defaults filled in.
func (w *Workload) Config() Config { return w.cfg }

// Databases are the names of those that the workload makes and writes.
func (w *Workload) Databases() []string { return w.game.databases() }

// Prepare makes the workload's tables, and fills them.
func (w *Workload) Prepare(ctx context.Context) error { return w.game.prepare(ctx, w) }

// Run writes for some time, and returns when the last transaction and the last
// DDL have ended. Clients that died have left their locks.
func (w *Workload) Run(ctx context.Context, d time.Duration) error {
	until, stop := context.WithTimeout(ctx, d)
	defer stop()
	return w.RunUntil(ctx, until)
}

// RunUntil is Run with an end that is not known beforehand: that of until.
func (w *Workload) RunUntil(ctx, until context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	for id := range w.cfg.Writers {
		rng := rand.New(rand.NewPCG(w.cfg.Seed, uint64(100+id)))
		tasks.Go(func() error { return w.write(ctx, until, rng) })
	}
	for i := range w.game.streams() {
		rng := rand.New(rand.NewPCG(w.cfg.Seed, uint64(10+i)))
		tasks.Go(func() error {
			pace := pacer{every: w.cfg.DDLEvery}
			for pace.wait(until) == nil && ctx.Err() == nil {
				if done, err := w.game.alter(ctx, w, i, rng); done || err != nil {
					return err
				}
			}
			return nil
		})
	}
	return tasks.Wait()
}

// write is one writer: transactions at the common pace until the time is up.
func (w *Workload) write(ctx, until context.Context, rng *rand.Rand) error {
	for w.pace.wait(until) == nil {
		if err := w.once(ctx, rng); err != nil {
			return err
		}
	}
	return nil
}

func (w *Workload) once(ctx context.Context, rng *rand.Rand) error {
	x, err := w.Server.Begin(ctx, live.Options{
		Pessimistic: rng.IntN(2) == 0, AsyncCommit: rng.IntN(2) == 0, OnePhase: rng.IntN(2) == 0, TTL: time.Second,
	}, rng.IntN(2) == 0)
	if err != nil {
		return err
	}
	defer x.End()
	commit, err := w.game.play(ctx, x, rng)
	var refused *catalog.Error
	switch {
	case live.Retry(err), errors.As(err, &refused):
		return again(x.Rollback(ctx))
	case err != nil:
		return err
	case !commit:
		return again(x.Rollback(ctx))
	case rng.Float64() < w.cfg.Abandon:
		w.abandoned.Add(1)
		return again(x.abandon(ctx, rng))
	}
	done, err := x.finish(ctx)
	if done {
		w.txns.Add(1)
	}
	return err
}

// again forgives an error that says to begin anew: nothing was written.
func again(err error) error {
	if live.Retry(err) {
		return nil
	}
	return err
}

// abandon lets the client die: of a transaction that is not begun to be written,
// before its commit is decided, or after.
func (x *Session) abandon(ctx context.Context, rng *rand.Rand) error {
	err := x.Prewrite(ctx)
	if err == nil && rng.IntN(2) == 0 {
		_, err = x.CommitPrimary(ctx)
	}
	if err == nil || x.CommitTS() != 0 || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, again(x.Rollback(ctx)))
}

// pacer spaces what several writers do evenly.
type pacer struct {
	every time.Duration

	mu   sync.Mutex // guards next
	next time.Time
}

// wait waits for the next turn. A writer that was held up does not catch up.
func (p *pacer) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	turn := p.next
	p.next = p.next.Add(p.every)
	p.mu.Unlock()
	timer := time.NewTimer(turn.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// told counts a statement of DDL.
func (w *Workload) told(db, sql string, refused error) {
	if refused == nil {
		w.ddls.Add(1)
	} else {
		w.refused.Add(1)
	}
	if w.cfg.Told != nil {
		w.cfg.Told(db, sql, refused)
	}
}

// create runs DDL before anything else is there.
func (w *Workload) create(ctx context.Context, db string, statements ...string) error {
	for _, sql := range statements {
		if err := w.Server.Exec(ctx, sql, catalog.Session{DB: db}, nil); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		w.told(db, sql, nil)
	}
	return nil
}
