package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/collation"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
)

// ddlTTL is the time to live of a step's locks: nobody may take the owner of
// DDL for dead while its cluster is in trouble, for the catalog is a step ahead.
const ddlTTL = 10 * time.Minute

// Server stands for the TiDB servers of a cluster.
type Server struct {
	client *live.Client
	sort   encode.Sorter

	// step is held from one step of a job to the moment at which every writer
	// knows it: no more than two versions of the schema are in use.
	step sync.Mutex

	mu       sync.Mutex // guards what follows
	catalog  *catalog.Catalog
	current  *version
	previous *version // nil when every writer knows the current one
	rows     memory
	history  history
	rowID    int64
	cut      map[int64]bool // physical tables that have a region of their own
}

// version is the schema as some writers know it.
type version struct {
	tables []*catalog.Shape // public ones, by name
	users  int
	idle   chan struct{} // not nil: no more users, closed when the last is gone
}

// NewServer sets a new cluster up: the system tables, and an empty database test.
func NewServer(ctx context.Context, client *live.Client) (*Server, error) {
	sort, err := collation.New()
	if err != nil {
		return nil, err
	}
	s := &Server{client: client, sort: sort, rows: memory{}, history: history{absent: map[columnID]Cell{}}, cut: map[int64]bool{}}
	txn, err := client.Begin(ctx, live.Options{TTL: ddlTTL})
	if err != nil {
		return nil, err
	}
	var writes []catalog.KV
	if s.catalog, writes, err = catalog.Bootstrap(txn.StartTS()); err != nil {
		return nil, err
	}
	at, err := put(ctx, txn, writes)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.publishLocked(at)
}

// Cluster is the cluster of the servers.
func (s *Server) Cluster() *fake.Cluster { return s.client.Cluster() }

// put commits the writes of a step.
func put(ctx context.Context, txn *live.Txn, writes []catalog.KV) (tso.TS, error) {
	for _, kv := range writes {
		if kv.Value == nil {
			txn.Delete(kv.Key)
		} else {
			txn.Put(kv.Key, kv.Value)
		}
	}
	return txn.Commit(ctx)
}

// publishLocked makes a version of the schema as it is since a commit the
// current one.
func (s *Server) publishLocked(at tso.TS) error {
	next := &version{}
	ids := map[int64]bool{}
	for _, db := range s.catalog.Databases() {
		if db.Name.L == "mysql" {
			continue
		}
		for _, t := range s.catalog.Tables(db.ID) {
			if t.State == catalog.StateNone || t.View != nil || t.Sequence != nil {
				continue
			}
			for _, id := range physical(t) {
				ids[id] = true
			}
			if t.State != catalog.StatePublic || db.State != catalog.StatePublic {
				continue // on its way out
			}
			shape, err := catalog.NewShape(db, t, s.catalog.OldCollations)
			if err != nil {
				return err
			}
			if err := s.history.columns(shape); err != nil {
				return err
			}
			next.tables = append(next.tables, shape)
			s.cutLocked(t)
		}
	}
	s.history.eras = append(s.history.eras, era{at, ids})
	slices.SortFunc(next.tables, func(a, b *catalog.Shape) int { return cmp.Compare(a.Table.FullName(), b.Table.FullName()) })
	s.previous, s.current = s.current, next
	return nil
}

// cutLocked gives every new table, and each of its partitions, a region.
func (s *Server) cutLocked(t *catalog.TableInfo) {
	for _, id := range append(physical(t), t.ID) {
		if !s.cut[id] {
			s.cut[id] = true
			s.client.Cluster().Split(encode.RecordKey(id, nil)[:9]) // t and the id
		}
	}
}

// Between is called after each step of a job, while writers may use the schema
// of this step and that of the step before.
type Between func(ctx context.Context, step *catalog.Step) error

// linger is how long writers go on to use the old version after a step, at most.
const linger = 20 * time.Millisecond

// Linger lets writers use both versions for a moment.
func Linger(rng *rand.Rand) Between {
	return func(ctx context.Context, _ *catalog.Step) error {
		timer := time.NewTimer(time.Duration(rng.Int64N(int64(linger))))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Exec carries DDL out: the statements of a text, one job after the other, each
// with all its steps. What TiDB would refuse, and a job that failed, is a
// *catalog.Error.
func (s *Server) Exec(ctx context.Context, sql string, session catalog.Session, between Between) error {
	if session.SQLMode == 0 {
		session.SQLMode = catalog.DefaultSQLMode
	}
	s.mu.Lock()
	jobs, err := s.catalog.Plan(sql, session)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if err := s.run(ctx, j, between); err != nil {
			return err
		}
	}
	return nil
}

// CreateTogether carries out several CREATE TABLE of one database as one job, as
// TiDB does with those that wait at the same time where tables are created fast.
func (s *Server) CreateTogether(ctx context.Context, statements []string, session catalog.Session, between Between) error {
	if session.SQLMode == 0 {
		session.SQLMode = catalog.DefaultSQLMode
	}
	s.mu.Lock()
	var jobs []*catalog.Job
	for _, sql := range statements {
		planned, err := s.catalog.Plan(sql, session)
		if err != nil {
			s.mu.Unlock()
			return err
		}
		jobs = append(jobs, planned...)
	}
	j, err := catalog.Merge(jobs)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.run(ctx, j, between)
}

func (s *Server) run(ctx context.Context, j *catalog.Job, between Between) error {
	for !j.Ended() {
		step, err := s.advance(ctx, j, between)
		if err != nil {
			return err
		}
		if step.Backfill == nil {
			continue
		}
		err = s.backfill(ctx, step.Backfill)
		var refused *catalog.Error
		if errors.As(err, &refused) {
			s.mu.Lock()
			err = j.Fail(refused.Code, refused.Message)
			s.mu.Unlock()
		}
		if err != nil {
			return err
		}
	}
	if info := j.Info(); info.State != catalog.JobSynced {
		failure := &catalog.Error{Message: fmt.Sprintf("job %d ended in state %d", info.ID, info.State)}
		if info.Err != nil {
			failure.Code, failure.Message = info.Err.Code, info.Err.Message
		}
		return failure
	}
	return nil
}

// advance does one step: its transaction, and then what makes every writer know
// of it.
func (s *Server) advance(ctx context.Context, j *catalog.Job, between Between) (*catalog.Step, error) {
	s.step.Lock()
	defer s.step.Unlock()
	txn, err := s.client.Begin(ctx, live.Options{TTL: ddlTTL})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	step, err := j.Next(txn.StartTS())
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	at, err := put(ctx, txn, step.Writes)
	if err != nil {
		return nil, fmt.Errorf("step of job %d: %w", step.Job.ID, err)
	}
	s.mu.Lock()
	if step.Version != 0 {
		err = s.publishLocked(at)
	}
	s.history.step(&step.Job)
	s.mu.Unlock()
	if err == nil && between != nil {
		err = between(ctx, step)
	}
	if err != nil {
		return nil, err
	}
	return step, s.retire(ctx)
}

// retire lets nobody begin with the old version any more, and waits for those
// that have.
func (s *Server) retire(ctx context.Context) error {
	s.mu.Lock()
	old := s.previous
	s.previous = nil
	if old == nil {
		s.mu.Unlock()
		return nil
	}
	old.idle = make(chan struct{})
	if old.users == 0 {
		close(old.idle)
	}
	s.mu.Unlock()
	select {
	case <-old.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
