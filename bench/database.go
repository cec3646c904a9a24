package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/mysql"
	"github.com/sluice-cdc/sluice/upstream"
)

// What writing to a database is held to.
const (
	databaseCPU    = 6.0 // the bare client's CPU time a row, at most
	databaseWidth  = 0.9 // of one worker's rows a second, at least, with the usual number
	databasePairs  = 3
	databaseUsual  = 16
	databaseAllows = 500 * time.Millisecond // on top of the resolved-ts interval, at p99
)

// synced are options of a server whose commits wait for its disk, as those of
// servers whose data matters do.
func synced() []string {
	return append(mariadb.BinLog(), "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1", "--innodb-log-file-size=1G")
}

// databases measures the whole pipeline into a MariaDB on this machine: what a row
// costs this process on its way to SQL text and the server's answer, and how many
// rows a second come through, by one worker and by the usual number.
func (o options) databases(ctx context.Context, out io.Writer) error {
	if o.database == 0 {
		return nil
	}
	for _, kind := range []struct {
		name    string
		options []string
	}{{"commits that wait for the disk", synced()}, {"commits that do not", []string{"--innodb-log-file-size=1G"}}} {
		if err := o.onServer(ctx, kind.options, func(o options) error { return o.intoDatabase(ctx, out, kind.name) }); err != nil {
			return err
		}
	}
	if o.lagFor == 0 {
		return nil
	}
	return o.onServer(ctx, synced(), func(o options) error { return o.databaseLag(ctx, out) })
}

// onServer calls do with a server that is there as long.
func (o options) onServer(ctx context.Context, options []string, do func(options) error) (err error) {
	dir, err := os.MkdirTemp("", "sluice-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := mariadb.Open(dir, options...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	o.sink = s.URI()
	return do(o)
}

func (o options) intoDatabase(ctx context.Context, out io.Writer, what string) error {
	o.rows = o.database
	fmt.Fprintf(out, "\n%d rows into a MariaDB on this machine, %s\n%4s  %-10s %8s %12s %18s\n", o.rows, what, "pair", "workers", "wall s", "rows/s", "CPU s/million rows")
	var cpus, widths []float64
	for pair := range databasePairs {
		var bare Usage
		if err := o.measure(ctx, "bare", &bare); err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		million := func(u Usage) float64 { return u.CPU.Seconds() / float64(o.rows) * 1e6 }
		fmt.Fprintf(out, "%4d  %-10s %8.3f %12.0f %18.2f\n", pair+1, "bare", bare.Wall.Seconds(), float64(o.rows)/bare.Wall.Seconds(), million(bare))
		wall := map[int]float64{}
		for _, o.workers = range []int{1, databaseUsual} {
			var u Usage
			if err := o.measure(ctx, "database", &u); err != nil {
				return fmt.Errorf("database: %w", err)
			}
			fmt.Fprintf(out, "%4d  %-10d %8.3f %12.0f %18.2f\n", pair+1, o.workers, u.Wall.Seconds(), float64(o.rows)/u.Wall.Seconds(), million(u))
			wall[o.workers] = u.Wall.Seconds()
			cpus = append(cpus, million(u)/million(bare))
		}
		widths = append(widths, wall[1]/wall[databaseUsual])
	}
	cpu, width := median(cpus), median(widths)
	fmt.Fprintf(out, "median: %.2f × the bare client's CPU (hold: ≤ %.0f ×) %s; %d workers write %.2f × what one does (hold: ≥ %.1f ×) %s\n",
		cpu, databaseCPU, o.judge.held(what+": CPU", cpu <= databaseCPU), databaseUsual, width, databaseWidth, o.judge.held(what+": workers", width >= databaseWidth))
	return nil
}

// databaseLag watches how late the database is under the steady load: by what the
// changefeed says, and by a row that says when it was written, read in the database.
func (o options) databaseLag(ctx context.Context, out io.Writer) error {
	o.interval, o.workers = 200*time.Millisecond, databaseUsual
	fmt.Fprintf(out, "\nlag at %d rows a second into a MariaDB whose commits wait for the disk (hold: p99 ≤ interval + %v)\n%10s  %-12s %10s %10s %10s\n",
		steadyRate, databaseAllows, "interval", "from", "p50", "p99", "max")
	var s Steady
	if err := o.measure(ctx, "outside", &s); err != nil {
		return fmt.Errorf("outside: %w", err)
	}
	for _, line := range []struct {
		from string
		s    Spread
	}{{"checkpoint", s.Checkpoint}, {"heartbeats", s.Row}} {
		fmt.Fprintf(out, "%10v  %-12s %10v %10v %10v %s\n", o.interval, line.from, line.s.P50.Round(time.Millisecond), line.s.P99.Round(time.Millisecond), line.s.Max.Round(time.Millisecond),
			o.judge.held("lag in the database, "+line.from, line.s.P99 <= o.interval+databaseAllows))
	}
	return nil
}

// openDatabase empties the tables of the load and opens a sink to them.
func openDatabase(ctx context.Context, o options) (_ *mysql.Sink, cfg mysql.Config, err error) {
	if cfg, err = mysql.ParseURI(o.sink + "?worker-count=" + strconv.Itoa(o.workers)); err != nil {
		return nil, cfg, err
	}
	db, err := mysql.OpenDB(cfg)
	if err != nil {
		return nil, cfg, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, text := range []string{
		"CREATE DATABASE IF NOT EXISTS bench DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		"CREATE OR REPLACE TABLE bench.`rows` (id bigint NOT NULL PRIMARY KEY, k int, c char(120), pad char(200))",
		"CREATE DATABASE IF NOT EXISTS test DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		"CREATE OR REPLACE TABLE test.steady (id bigint NOT NULL PRIMARY KEY, v varchar(200) NOT NULL)",
		"CREATE OR REPLACE TABLE test.heartbeat (id bigint NOT NULL PRIMARY KEY, at bigint NOT NULL)",
	} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return nil, cfg, fmt.Errorf("%s: %w", text, err)
		}
	}
	s, err := mysql.Open(ctx, cfg, nil, slog.New(slog.DiscardHandler))
	return s, cfg, err
}

// written is a sink that says when so many rows are downstream.
type written struct {
	*mysql.Sink
	left int
	done chan struct{}
	once sync.Once
}

func (w *written) Write(ctx context.Context, leave sink.Leave, txns []event.Txn) error {
	for i := range txns {
		w.left -= len(txns[i].Rows)
	}
	return w.Sink.Write(ctx, leave, txns)
}

func (w *written) Flush(ctx context.Context) error {
	if err := w.Sink.Flush(ctx); err != nil {
		return err
	}
	if w.left <= 0 {
		w.once.Do(func() { close(w.done) })
	}
	return nil
}

// database follows the load through the whole pipeline into a database.
func database(ctx context.Context, o options) (used Usage, err error) {
	to, _, err := openDatabase(ctx, o)
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	stop, err := o.startProfile()
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	counted := &written{Sink: to, left: o.rows, done: make(chan struct{})}
	var began sync.Once
	var watch stopwatch
	tap := func(b upstream.Batch) {
		if len(b.Rows) > 0 {
			began.Do(func() { watch = startWatch() })
		}
	}
	err = run(ctx, o.pd, inMemory(), 0, 0, counted, tap, func(ctx context.Context, _ capture) error {
		select {
		case <-counted.done:
			used = watch.stop()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return used, err
}

// outside follows the steady load into a database, and looks at its heartbeat there.
func outside(ctx context.Context, o options) (out Steady, err error) {
	to, cfg, err := openDatabase(ctx, o)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	db, err := mysql.OpenDB(cfg)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var late, checkpoints []time.Duration
	err = run(ctx, o.pd, inMemory(), 0, 0, to, func(upstream.Batch) {}, func(ctx context.Context, c capture) error {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			now, err := c.client.TS(ctx)
			if err != nil {
				return err
			}
			var at int64
			if err := db.QueryRowContext(ctx, "SELECT COALESCE(MAX(at), 0) FROM test.heartbeat").Scan(&at); err != nil {
				return err
			}
			past := time.Since(began)
			if past > steadySkip && at != 0 {
				checkpoints = append(checkpoints, now.Sub(c.p.Checkpoint()))
				// A row that is there is as late as the youngest one that is seen is old.
				late = append(late, time.Since(time.Unix(0, at)))
			}
			if past > steadySkip+o.lagFor && len(late) > 0 {
				return nil
			}
		}
	})
	out.Row, out.Checkpoint = spread(late), spread(checkpoints)
	return out, err
}
