package schemafeed

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// Upstream is what a feed needs of the upstream: upstream.Client has it.
type Upstream interface {
	Scan(ctx context.Context, start, end []byte, at tso.TS, fn func(key, value []byte) error) error
	Subscribe(ctx context.Context, s upstream.Subscription, out func(upstream.Batch) error) error
}

// waitingMax is how many DDLs may wait to be taken, and how many job rows to be
// resolved. A changefeed that is resumed after days meets all DDLs of those days
// within seconds; a DDL with its tables is some ten kilobytes, so this many are
// some tens of megabytes. A busy cluster makes a few DDLs a second.
const waitingMax = 4096

// Config says where a feed begins.
type Config struct {
	// StartTS is a new changefeed's start-ts, or the timestamp after the checkpoint
	// of one that is resumed: the schema is read at StartTS − 1, DDLs above count.
	StartTS tso.TS
	// Record takes each move of the resolved-ts, one call at a time. It must not
	// call the feed. nil: nobody wants them.
	Record func([]tso.Move)
}

// Validate names what cannot be used.
func (c Config) Validate() error {
	if c.StartTS < 2 {
		return cdcerr.InvalidArgument.New("start-ts %d: the schema is read at start-ts − 1, and no timestamp of a cluster is that small", c.StartTS)
	}
	return nil
}

// Feed is the schema of one changefeed.
type Feed struct {
	cfg      Config
	upstream Upstream
	columns  mount.JobColumns // set by Load, then left alone
	systemID int64            // of the database mysql; set by Load too

	advanced chan struct{} // one signal: more than one advance is still one reason to look
	asked    chan struct{} // one signal: there are reads

	mu    sync.RWMutex
	store *schema.Store
	jobs  source // mysql.tidb_ddl_job
	past  source // mysql.tidb_ddl_history
	ddls  []*event.DDL
	reads []schema.Read // one per job that recovers a database: few run at once
	room  chan struct{} // closed and made new by roomLocked
	at    tso.TS        // resolved-ts
}

// source is one of the two tables that the feed follows.
type source struct {
	table    span.TableID
	resolved tso.TS
}

// errFull ends a subscription whose rows nobody takes. Blocking it instead would
// hold back the rows of all other subscriptions on the same streams, and it may
// be for these that the taker waits.
var errFull = errors.New("more DDLs wait than may")

// New makes a feed; Load and then Run bring it to life.
func New(cfg Config, up Upstream) *Feed {
	at := cfg.StartTS.Prev()
	return &Feed{
		cfg: cfg, upstream: up, columns: mount.DefaultJobColumns(),
		advanced: make(chan struct{}, 1), asked: make(chan struct{}, 1), room: make(chan struct{}),
		store: schema.NewStore(cfg.StartTS), at: at,
		jobs: source{table: mount.JobTableID, resolved: at},
		past: source{table: mount.HistoryTableID, resolved: at},
	}
}

// Run follows the job tables until ctx ends or something cannot go on. Load
// comes first.
func (f *Feed) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.follow(ctx, &f.jobs) })
	g.Go(func() error { return f.follow(ctx, &f.past) })
	g.Go(func() error { return f.readDatabases(ctx) })
	return g.Wait()
}

// follow subscribes to one job table, again and again where it had to let go
// because too much was waiting.
func (f *Feed) follow(ctx context.Context, s *source) error {
	for {
		room, full, from := f.look(s)
		if full {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-room:
				continue
			}
		}
		sub := upstream.Subscription{Span: span.OfTable(s.table), StartTS: from}
		err := f.upstream.Subscribe(ctx, sub, func(b upstream.Batch) error { return f.take(s, b) })
		switch {
		case errors.Is(err, errFull):
		case err == nil:
			return cdcerr.Bug("the subscription to table %d ended without a reason", s.table)
		default:
			return err
		}
	}
}

// look tells whether the source has to wait, on what, and where it stands.
func (f *Feed) look(s *source) (room <-chan struct{}, full bool, from tso.TS) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.room, f.fullLocked(s), s.resolved
}

// roomLocked has sources that wait look again: DDLs were taken, or the source
// that is behind came on.
func (f *Feed) roomLocked() {
	close(f.room)
	f.room = make(chan struct{})
}

// fullLocked tells whether nothing more may come from this source: DDLs wait to
// be taken, or rows wait for the other source, which is behind.
func (f *Feed) fullLocked(s *source) bool {
	behind := min(f.jobs.resolved, f.past.resolved)
	return len(f.ddls) >= waitingMax || (s.resolved > behind && f.store.Buffered() >= waitingMax)
}

// take brings one batch into the store.
func (f *Feed) take(s *source, b upstream.Batch) error {
	rows := make([]schema.JobRow, 0, len(b.Rows))
	for i := range b.Rows {
		row, ok, err := f.columns.JobRow(&b.Rows[i])
		if err != nil {
			return err
		}
		if ok {
			rows = append(rows, row)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range rows {
		if err := f.store.Step(row); err != nil {
			return err
		}
	}
	if behind := min(f.jobs.resolved, f.past.resolved); b.Resolved > s.resolved {
		s.resolved = b.Resolved
		if min(f.jobs.resolved, f.past.resolved) > behind {
			f.roomLocked()
		}
	}
	if err := f.store.Resolve(min(f.jobs.resolved, f.past.resolved)); err != nil {
		return err
	}
	f.publishLocked()
	if f.fullLocked(s) {
		return errFull
	}
	return nil
}

// publishLocked takes what the store has ready.
func (f *Feed) publishLocked() {
	r := f.store.Ready()
	f.ddls = append(f.ddls, r.DDLs...)
	if len(r.Reads) > 0 {
		f.reads = append(f.reads, r.Reads...)
		signal(f.asked)
	}
	if len(r.Moves) > 0 && f.cfg.Record != nil {
		f.cfg.Record(r.Moves)
	}
	if r.Resolved > f.at {
		f.at = r.Resolved
		signal(f.advanced)
	}
}

// readDatabases reads the tables of recovered databases.
func (f *Feed) readDatabases(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.asked:
		}
		f.mu.Lock()
		reads := f.reads
		f.reads = nil
		f.mu.Unlock()
		for _, r := range reads {
			tables, err := f.tablesOf(ctx, r.SchemaID, r.At)
			if err != nil {
				return fmt.Errorf("tables of database %d, which job %d recovered: %w", r.SchemaID, r.JobID, err)
			}
			f.mu.Lock()
			if err = f.store.Answer(r, tables); err == nil {
				f.publishLocked()
			}
			f.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
}

// Resolved is the timestamp up to which all DDLs are known and every row can be
// decoded.
func (f *Feed) Resolved() tso.TS {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.at
}

// Held is the job for whose outcome Resolved waits, its Job nil where none does,
// and up to where all job rows have come.
func (f *Feed) Held() (held schema.Held, seen tso.TS) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.store.Held()
}

// Begun are the jobs that were under way just before the start-ts and count as
// carried out.
func (f *Feed) Begun() []schema.Begun {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.store.Begun()
}

// Advanced gets a signal after Resolved has moved. Signals do not pile up: look
// at Resolved after each.
func (f *Feed) Advanced() <-chan struct{} { return f.advanced }

// DDLs takes the DDLs with SwitchTS <= upto, in order of SwitchTS. Each is given
// out once.
func (f *Feed) DDLs(upto tso.TS) []*event.DDL {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(f.ddls) && f.ddls[n].SwitchTS <= upto {
		n++
	}
	if n == 0 {
		return nil
	}
	out := append([]*event.DDL(nil), f.ddls[:n]...)
	f.ddls = append([]*event.DDL(nil), f.ddls[n:]...)
	f.roomLocked()
	return out
}

// TableAt is the table by which a row of this physical id and commit-ts is
// decoded; ok is false where no table has the id then.
func (f *Feed) TableAt(physicalID int64, commitTS tso.TS) (*event.Table, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.store.TableAt(physicalID, commitTS)
}

// Version is the table of a logical id just after ts, and up to where it is that, as far
// as is known; nil where there is none.
func (f *Feed) Version(id int64, ts tso.TS) (t *event.Table, upto tso.TS) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.store.Version(id, ts)
}

// Tables are all tables, views and sequences just after ts, by id.
func (f *Feed) Tables(ts tso.TS) []*event.Table {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.store.Tables(ts)
}

// Forget drops what no row above below needs.
func (f *Feed) Forget(below tso.TS) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store.Forget(below)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
