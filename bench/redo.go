package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/objstore/objstoretest"
)

// What a redo log is held to.
const (
	redoSpeed = 0.8                     // of the rows a second without it, at least
	redoReads = 5.0                     // times as fast as it is written, at least, into a black hole
	redoShare = 0.9                     // of what the sink takes of the same transactions from memory, at least
	redoPairs = 3                       // at most
	redoTimes = 3                       // that each log is read
	redoLag   = 2500 * time.Millisecond // at p99
	redoRPO   = 500 * time.Millisecond  // on top of the resolved-ts interval and the storage's latency, at p99
)

// storage is where redo logs are.
type storage struct {
	name string
	uri  func() string // a new place in it each time
}

// withStorages calls do with a directory and a real S3 server.
func withStorages(ctx context.Context, do func(dir string, all []storage) error) (err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-redo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s3, stop, err := objstoretest.OpenS3(ctx, dir)
	if err != nil {
		return err
	}
	defer stop()
	n := 0
	return do(dir, []storage{
		{"file", func() string { n++; return fmt.Sprintf("file://%s/logs/%d", dir, n) }},
		{"s3", func() string {
			n++
			at, query, _ := strings.Cut(s3, "?")
			return fmt.Sprintf("%s/logs/%d?%s", at, n, query)
		}},
	})
}

// sweep removes the logs that are there.
func sweep(dir string) error {
	err := os.RemoveAll(filepath.Join(dir, "logs"))
	inside, listErr := filepath.Glob(filepath.Join(dir, objstoretest.BucketName, "*"))
	for _, path := range inside {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return errors.Join(err, listErr)
}

// redos measures what a redo log costs and gives: a whole server, without one and
// with one, and redo apply.
func (o options) redos(ctx context.Context, out io.Writer) error {
	if o.redo == 0 {
		return nil
	}
	quota := o.quota
	o.pairs = min(max(1, o.pairs), redoPairs)
	o.quota = 0 // of all but the large transaction it is the usual one
	return withStorages(ctx, func(dir string, all []storage) error {
		if err := o.redoSpeeds(ctx, out, dir, all); err != nil {
			return err
		}
		if err := o.redoApplies(ctx, out, dir, all[0]); err != nil {
			return err
		}
		if err := o.redoLags(ctx, out, all); err != nil {
			return err
		}
		return o.redoLarge(ctx, out, dir, all[0], quota)
	})
}

// redoSpeeds is how fast a server is with a log, and how fast such a log is read again.
func (o options) redoSpeeds(ctx context.Context, out io.Writer, dir string, all []storage) error {
	o.rows, o.sink = o.redo, "blackhole://"
	fmt.Fprintf(out, "\n%d rows through a server into a black hole, without and with a redo log; and as many in a log applied to one\n%4s  %-6s %8s %8s %12s %8s %12s\n",
		o.rows, "pair", "log", "wall s", "CPU s", "rows/s", "MiB", "applied/s")
	speeds, reads := map[string][]float64{}, map[string][]float64{}
	for pair := range o.pairs {
		kinds := slices.Concat([]storage{{"none", func() string { return "" }}}, all)
		if pair%2 == 1 { // none always has the warmer machine
			slices.Reverse(kinds)
		}
		rate := map[string]float64{}
		for _, kind := range kinds {
			o.storage = kind.uri()
			var l Large
			if err := o.measure(ctx, "served", &l); err != nil {
				return fmt.Errorf("served, %s: %w", kind.name, err)
			}
			rate[kind.name] = float64(o.rows) / l.Wall.Seconds()
			fmt.Fprintf(out, "%4d  %-6s %8.3f %8.3f %12.0f %8d", pair+1, kind.name, l.Wall.Seconds(), l.CPU.Seconds(), rate[kind.name], l.RSS>>20)
			if o.storage != "" {
				applied, err := o.read(ctx, kind)
				if err != nil {
					return err
				}
				fmt.Fprintf(out, " %12.0f", applied)
				reads[kind.name] = append(reads[kind.name], applied/rate[kind.name])
			}
			fmt.Fprintln(out)
			if err := sweep(dir); err != nil {
				return err
			}
		}
		for _, kind := range all {
			speeds[kind.name] = append(speeds[kind.name], rate[kind.name]/rate["none"])
		}
	}
	for _, kind := range all {
		speed, read := median(speeds[kind.name]), median(reads[kind.name])
		fmt.Fprintf(out, "%s: median of %d pairs: %.0f %% of the speed without a log (hold: ≥ %.0f %%) %s, read %.1f × as fast as written (hold: ≥ %.0f ×) %s\n",
			kind.name, o.pairs, 100*speed, 100*redoSpeed, o.judge.held("redo log, "+kind.name+": speed", speed >= redoSpeed),
			read, redoReads, o.judge.held("redo log, "+kind.name+": reading", read >= redoReads))
	}
	return nil
}

// read is how many rows a second of a log are applied to o.sink, the median of some
// times. The server's own log will not do: what is downstream is removed from it.
func (o options) read(ctx context.Context, kind storage) (float64, error) {
	o.storage = kind.uri()
	if err := o.alone(ctx, "logged", new(Usage)); err != nil {
		return 0, fmt.Errorf("logged, %s: %w", kind.name, err)
	}
	times := redoTimes
	if o.sink != "blackhole://" {
		times = 1 // a second time the rows would be there
	}
	var all []float64
	for range times {
		var u Usage
		if err := o.alone(ctx, "applied", &u); err != nil {
			return 0, fmt.Errorf("applied, %s: %w", kind.name, err)
		}
		all = append(all, float64(o.rows)/u.Wall.Seconds())
	}
	return median(all), nil
}

// redoApplies is how fast a log is applied to a MariaDB, beside what its sink takes of the
// same rows from memory.
func (o options) redoApplies(ctx context.Context, out io.Writer, dir string, file storage) error {
	if o.database == 0 {
		return nil
	}
	return o.onServer(ctx, []string{"--innodb-log-file-size=1G"}, func(o options) error {
		o.rows, o.workers = o.database, databaseUsual
		fmt.Fprintf(out, "\n%d rows of a redo log into a MariaDB whose commits do not wait, and from memory\n%4s %12s %12s\n", o.rows, "pair", "applied/s", "written/s")
		var shares []float64
		for pair := range o.pairs {
			var direct Usage
			if err := o.alone(ctx, "direct", &direct); err != nil {
				return fmt.Errorf("direct: %w", err)
			}
			applied, err := o.read(ctx, file)
			if err != nil {
				return err
			}
			written := float64(o.rows) / direct.Wall.Seconds()
			fmt.Fprintf(out, "%4d %12.0f %12.0f\n", pair+1, applied, written)
			shares = append(shares, applied/written)
			if err := sweep(dir); err != nil {
				return err
			}
		}
		share := median(shares)
		fmt.Fprintf(out, "median of %d pairs: %.0f %% of what the sink takes (hold: ≥ %.0f %%) %s\n", o.pairs, 100*share, 100*redoShare, o.judge.held("redo apply into a database", share >= redoShare))
		return nil
	})
}

// redoLarge is what one transaction larger than memory takes of whoever writes it to a
// log, and of whoever applies it.
func (o options) redoLarge(ctx context.Context, out io.Writer, dir string, file storage, quota int) error {
	if quota == 0 {
		return nil
	}
	o.rows = int(largeTimes * (int64(quota) << 20) / (rowBytes + 19))
	quota = max(quota, quotaLeast)
	o.quota, o.limit, o.sink = quota, max(quota, limitLeast), "blackhole://"
	o.storage = file.uri()
	var l Large
	if err := o.measure(ctx, "served-one", &l); err != nil {
		return fmt.Errorf("served, one transaction: %w", err)
	}
	above := l.RSS - l.Idle
	most := int64(quota)<<20 + int64(quota)<<18
	fmt.Fprintf(out, "\none transaction of %d rows through a server with a redo log and a quota of %d MiB: %.1f s, %d MiB above the %d of an idle one (hold: ≤ %d) %s\n",
		o.rows, quota, l.Wall.Seconds(), above>>20, l.Idle>>20, most>>20, o.judge.held("redo log, one large transaction: memory", above <= most))
	if err := sweep(dir); err != nil {
		return err
	}
	o.storage = file.uri()
	if err := o.alone(ctx, "logged-one", new(Usage)); err != nil {
		return fmt.Errorf("logged, one transaction: %w", err)
	}
	var u Usage
	if err := o.alone(ctx, "applied", &u); err != nil {
		return fmt.Errorf("applied, one transaction: %w", err)
	}
	fmt.Fprintf(out, "applied with --memory-limit of %d MiB: %.1f s, %d MiB in all (hold: ≤ the limit) %s\n", o.limit, u.Wall.Seconds(), u.RSS>>20,
		o.judge.held("redo apply, one large transaction: memory", u.RSS <= int64(o.limit)<<20))
	return sweep(dir)
}

// What a server and redo apply run in at least, in MiB.
const (
	quotaLeast = 160
	limitLeast = 256
)

// redoLags is how late a database is behind a redo log, and how late the log's meta is.
func (o options) redoLags(ctx context.Context, out io.Writer, all []storage) error {
	if o.lagFor == 0 {
		return nil
	}
	o.interval, o.workers = 200*time.Millisecond, databaseUsual
	fmt.Fprintf(out, "\nlag with a redo log, at %d rows a second into a MariaDB whose commits wait for the disk (hold: p99 ≤ %v; of the meta ≤ interval + what a put takes + %v)\n%10s  %-6s %-12s %10s %10s %10s\n",
		steadyRate, redoLag, redoRPO, "interval", "log", "from", "p50", "p99", "max")
	return o.onServer(ctx, synced(), func(o options) error {
		for _, kind := range all {
			o.storage = kind.uri()
			var p Protected
			if err := o.measure(ctx, "protected", &p); err != nil {
				return fmt.Errorf("protected, %s: %w", kind.name, err)
			}
			rpo := o.interval + p.Put.P99 + redoRPO
			for _, line := range []struct {
				from string
				s    Spread
				most time.Duration
			}{{"checkpoint", p.Checkpoint, redoLag}, {"heartbeats", p.Row, redoLag}, {"meta", p.Meta, rpo}, {"a put", p.Put, 0}} {
				word := ""
				if line.most > 0 {
					word = o.judge.held("lag with a redo log, "+kind.name+", "+line.from, line.s.P99 <= line.most)
				}
				fmt.Fprintf(out, "%10v  %-6s %-12s %10v %10v %10v %s\n", o.interval, kind.name, line.from, line.s.P50.Round(time.Millisecond), line.s.P99.Round(time.Millisecond), line.s.Max.Round(time.Millisecond), word)
			}
		}
		return nil
	})
}
