package origin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// BeatDB is the heartbeat's database. Its tables b0, b1 … hold one row each, with
// the wall's time in milliseconds in the column at.
const BeatDB = "beats"

// load is what happens on the cluster.
type load struct {
	cfg     Config
	cluster *fake.Cluster
	work    *workload.Workload
	stop    context.CancelFunc // nil: it has not begun
	running errgroup.Group
	beats   int64 // written by the heartbeat alone; read when it has ended
	moves   int64 // the same, by the storm

	mu   sync.Mutex // guards said
	said []Statement
}

func newLoad(ctx context.Context, cfg Config, cluster *fake.Cluster) (*load, error) {
	l := &load{cfg: cfg, cluster: cluster}
	var err error
	l.work, err = workload.New(ctx, live.New(cluster), workload.Config{
		Kind: "drill", Seed: cfg.Seed, Rate: cfg.Rate, Size: cfg.Accounts, Tables: cfg.Tables, DDLEvery: cfg.DDLEvery, Told: l.told,
	})
	return l, err
}

// told keeps what was carried out: of a database one after the other, as its
// statements run.
func (l *load) told(db, sql string, refused error) {
	if refused != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, Statement{db, sql})
}

func (l *load) statements() []Statement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.said)
}

// begin makes the tables and lets the load go on until end.
func (l *load) begin(ctx context.Context) error {
	if l.stop != nil {
		return cdcerr.InvalidArgument.New("the load has begun already")
	}
	if err := l.work.Prepare(ctx); err != nil {
		return fmt.Errorf("preparing the workload: %w", err)
	}
	sql := []string{"CREATE DATABASE " + BeatDB}
	for i := range l.cfg.Beats {
		sql = append(sql, fmt.Sprintf("CREATE TABLE %s.b%d (id bigint NOT NULL PRIMARY KEY, at bigint NOT NULL)", BeatDB, i))
	}
	for _, text := range sql {
		if err := l.work.Server.Exec(ctx, text, catalog.Session{DB: BeatDB}, nil); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		l.told(BeatDB, text, nil)
	}
	until, stop := context.WithCancel(ctx)
	l.stop = stop
	l.running.Go(func() error { return l.work.RunUntil(ctx, until) })
	l.running.Go(func() error { return l.beat(ctx, until) })
	if l.cfg.MoveEvery > 0 {
		l.running.Go(func() error { return l.move(until) })
	}
	return nil
}

// move lets regions split, join and change their leaders.
func (l *load) move(until context.Context) error {
	return l.cluster.Storm(until, fake.Storm{
		Seed: l.cfg.Seed, Faults: []string{"split", "merge", "lead"}, Every: l.cfg.MoveEvery, AtOnce: 1,
		Told: func(_, what string) {
			if !strings.HasPrefix(what, "nothing") {
				l.moves++
			}
		},
	})
}

// tables are the ids of the heartbeat's tables and of the bank's.
func (l *load) tables(ctx context.Context) (map[string]int64, error) {
	x, err := l.work.Server.Begin(ctx, live.Options{}, false)
	if err != nil {
		return nil, err
	}
	defer x.End()
	ids := map[string]int64{}
	for _, db := range []string{BeatDB, workload.BankDB} {
		for _, shape := range x.Tables(db) {
			ids[db+"."+shape.Table.Name] = shape.Table.ID
		}
	}
	return ids, nil
}

// end lets what was begun be finished, and says what came of it.
func (l *load) end() (End, error) {
	if l.stop == nil {
		return End{}, nil
	}
	l.stop()
	err := l.running.Wait()
	c := l.work.Counts()
	return End{TS: l.cluster.TS(), Txns: c.Txns, DDLs: c.DDLs, Refused: c.Refused, Beats: l.beats, Moves: l.moves}, err
}

// beat writes the heartbeat.
func (l *load) beat(ctx, until context.Context) error {
	tick := time.NewTicker(l.cfg.BeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-until.Done():
			return nil
		case <-tick.C:
		}
		for i := range l.cfg.Beats {
			if err := l.beatOnce(ctx, i); err != nil && !live.Retry(err) {
				return fmt.Errorf("the heartbeat: %w", err)
			}
		}
		l.beats++
	}
}

func (l *load) beatOnce(ctx context.Context, n int) (err error) {
	x, err := l.work.Server.Begin(ctx, live.Options{}, false)
	if err != nil {
		return err
	}
	defer x.End()
	defer func() {
		if err != nil && x.CommitTS() == 0 && ctx.Err() == nil {
			if over := x.Rollback(ctx); !live.Retry(over) {
				err = errors.Join(err, over)
			}
		}
	}()
	shape := x.Table(BeatDB, "b"+strconv.Itoa(n))
	if shape == nil {
		return fmt.Errorf("table %d is gone", n)
	}
	r := &workload.Record{}
	for i, text := range []string{"1", strconv.FormatInt(time.Now().UnixMilli(), 10)} {
		c, err := workload.Text(&shape.Table.Columns[i], text)
		if err != nil {
			return err
		}
		r.Cells = append(r.Cells, c)
	}
	if err := x.Put(shape, r); err != nil {
		return err
	}
	_, err = x.Commit(ctx)
	return err
}
