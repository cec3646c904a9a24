package chaos

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/playground"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/verify"
)

// Config is what all runs share.
type Config struct {
	Program   string   // of the capture's process: this very one
	Golden    string   // where recordings lie
	Endpoints []string // of an etcd that stays up
	Dir       string   // for journals and data
	Patience  time.Duration
}

// Result is one run.
type Result struct {
	Plan
	*Verdict
	Processes int
	Killed    int
	Struck    map[string]int
	MemoryMax int64
	Took      time.Duration
	Err       error  // it could not be judged
	locks     int    // left by clients that died, on a recording's tables
	Said      string // by processes
}

// OK tells whether everything is equal.
func (r *Result) OK() bool { return r.Err == nil && len(r.Wrong) == 0 }

// Run is one run. What is left of it on disk is removed if everything is equal.
func Run(ctx context.Context, c Config, p Plan) *Result {
	begun := time.Now()
	r := &Result{Plan: p, Verdict: &Verdict{}, Struck: map[string]int{}}
	ctx, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	r.Err = r.run(ctx, c)
	r.Took = time.Since(begun)
	return r
}

func (r *Result) run(ctx context.Context, c Config) error {
	dir := filepath.Join(c.Dir, fmt.Sprintf("seed-%d", r.Seed))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	services, serving := errgroup.WithContext(serving)
	s, err := newSubject(serving, r.Plan, c.Golden, func(on *fake.Cluster) {
		services.Go(func() error { return on.Run(serving) })
	})
	if err == nil {
		err = r.act(serving, c, s, dir)
	}
	stop()
	err = errors.Join(services.Wait(), err) // the cluster's error ends everything else
	if err == nil && len(r.Wrong) == 0 {
		err = os.RemoveAll(dir)
	}
	return err
}

// act lets everything happen, and judges it.
func (r *Result) act(ctx context.Context, c Config, s subject, dir string) (failed error) {
	ch := &child{config: r.capture(c, s, dir), program: c.Program, reached: make(chan struct{})}
	if err := os.MkdirAll(ch.config.Journal, 0o700); err != nil {
		return err
	}
	var db *sql.DB
	if r.Database {
		server, err := mariadb.Open(filepath.Join(dir, "mariadb"))
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, server.Close()) }()
		ch.config.SinkURI, db = server.URI(), server.DB()
		if _, recorded := s.(*replay); recorded {
			ch.config.SinkURI += "?verify-rewriting-ddl=false" // what a backfill wrote is in no recording
		}
	}
	var end tso.TS
	g, acting := errgroup.WithContext(ctx)
	// Faults end when what happens upstream has, or when they have been enough: what
	// waits for a calm moment gets one.
	bad, calm := context.WithTimeout(acting, stormMax*r.Lasts)
	defer calm()
	var faults errgroup.Group
	faults.Go(func() error { return r.storm(bad, s.cluster()) })
	faults.Go(func() error { return r.away(bad, s.cluster()) })
	faults.Go(func() error { return r.litter(bad, s) })
	g.Go(func() error {
		var err error
		if end, err = s.play(acting); err != nil {
			err = fmt.Errorf("what happens upstream has not ended: %w", err)
		}
		calm()
		if err = errors.Join(err, faults.Wait()); err != nil {
			return err
		}
		if s.target() == 0 { // else it knows by itself
			ch.finish(end)
		}
		return nil
	})
	g.Go(func() error { return r.lives(acting, ch) })
	err := g.Wait()
	calm()
	err = errors.Join(err, faults.Wait())
	r.Struck["lock"] += r.locks // the storm's own are its goroutine's while it lasts
	r.Processes, r.MemoryMax, r.Said = ch.processes, ch.memoryMax, ch.said.String()
	if err != nil {
		return fmt.Errorf("%w (%d processes, %d killed, persisted %d, target %d)", err, ch.processes, r.Killed, ch.saved, s.target())
	}
	return r.judge(ctx, s, ch, db, end)
}

// judge compares what was delivered, up to the end of what happened upstream, with
// what was; the contents with those of the database, where there is one.
func (r *Result) judge(ctx context.Context, s subject, ch *child, db *sql.DB, end tso.TS) error {
	files, err := journals(ch.config.Journal)
	if err != nil {
		return err
	}
	if r.Verdict, err = judge(s, files, end, func(j *verify.Judge, databases []string) (*verify.Verdict, error) {
		if db == nil {
			return j.End(), nil
		}
		contents, err := playground.ReadBack(ctx, db, databases, j.Table)
		if err != nil {
			return nil, err
		}
		return j.EndOf(contents), nil
	}); err != nil {
		return err
	}
	for _, w := range ch.wrong {
		r.wrong("%s", w)
	}
	if most := ch.config.Memory + besideMemory; ch.memoryMax > most {
		r.wrong("a process took %d bytes, %d is the most", ch.memoryMax, most)
	}
	return nil
}

// stormMax is for how many times a plan's length its faults may last.
const stormMax = 4

// besideMemory is what a capture may take beside what its sorter is allowed: the
// program, what streams have received, a transaction that is put together, and as
// much garbage as there is of all that.
const besideMemory = 700 << 20

// capture is the process's configuration.
func (r *Result) capture(c Config, s subject, dir string) Capture {
	out := Capture{
		PD: s.cluster().PD(), Meta: meta.Default(), Session: 2 * time.Second,
		StartTS: s.start(), TargetTS: s.target(), Journal: filepath.Join(dir, "journal"), Memory: 256 << 20,
	}
	out.Meta.Cluster = fmt.Sprintf("seed-%d", r.Seed)
	out.Meta.RequestTimeout = 2 * time.Second
	out.Meta.Backend, out.Meta.Endpoints = meta.BackendExternal, c.Endpoints
	if r.Embedded {
		out.Meta.Backend, out.Meta.Endpoints = meta.BackendEmbedded, nil
		out.Meta.Embedded.DataDir, out.Meta.Embedded.Tick = filepath.Join(dir, "etcd"), 20*time.Millisecond
	}
	if r.OnDisk {
		out.DataDir, out.Memory = filepath.Join(dir, "data"), 4<<20
	}
	return out
}

// livesMax bounds how often a capture begins anew: one that cannot live is a failure.
const livesMax = 30

// lives lets the capture live again and again until it has reached the end.
func (r *Result) lives(ctx context.Context, ch *child) error {
	kills := r.Kills
	for ch.processes < livesMax {
		select {
		case <-ch.reached: // and killed just then
			return nil
		default:
		}
		var kill *Kill
		if len(kills) > 0 {
			kill, kills = &kills[0], kills[1:]
		}
		e, err := ch.live(ctx, kill)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("persisted up to %d, to go on to %d: %w", ch.saved, ch.until, context.Cause(ctx))
		case e.killed:
			r.Killed++
		case e.status == 0:
			return nil
		case e.status == StatusAgain:
		default:
			return fmt.Errorf("the capture ended with status %d", e.status)
		}
	}
	return fmt.Errorf("the capture has begun %d times", livesMax)
}

// How a capture's process ends, beside 0.
const (
	StatusTerminal = 3 // an error that nobody should try again
	StatusAgain    = 4 // its session is lost, or etcd or PD was away: it is to be started again
	StatusLeak     = 5 // goroutines were left
)

// storm lets the plan's faults strike.
func (r *Result) storm(ctx context.Context, c *fake.Cluster) error {
	return c.Storm(ctx, fake.Storm{Seed: r.Seed, Faults: r.Faults, Every: r.Every, For: r.For,
		Told: func(name, _ string) { r.Struck[name]++ }})
}

// away takes all members of PD away for a while.
func (r *Result) away(ctx context.Context, c *fake.Cluster) error {
	if r.PDGone == 0 || !pause(ctx, r.PDAfter) {
		return nil
	}
	n := len(c.PD())
	for i := range n {
		if err := c.StopPD(ctx, i); err != nil && ctx.Err() == nil {
			return err
		}
	}
	// It is away for its time, whether or not the others are calm by then.
	timer := time.NewTimer(r.PDGone)
	defer timer.Stop()
	<-timer.C
	var errs []error
	for i := range n {
		errs = append(errs, c.StartPD(i))
	}
	return errors.Join(errs...)
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// litter leaves locks on a recording's tables, by clients that die before they
// commit; those of workloads do so by themselves.
func (r *Result) litter(ctx context.Context, s subject) error {
	if !r.Locks || s.oracle() != nil {
		return nil
	}
	rng := rand.New(rand.NewPCG(r.Seed, 3))
	c := live.New(s.cluster())
	for pause(ctx, 50*time.Millisecond+time.Duration(rng.Int64N(int64(400*time.Millisecond)))) {
		all := s.cluster().Regions()
		table := all[rng.IntN(len(all))].RawStart
		if len(table) < tablePrefix || table[0] != 't' {
			continue
		}
		// Not by async commit: that is committed once it is prewritten.
		txn, err := c.Begin(ctx, live.Options{TTL: 500 * time.Millisecond})
		if err == nil {
			for range 1 + rng.IntN(3) {
				txn.Put(spareKey(table, rng.Uint64()), []byte{128, 0, 0, 0, 0, 0})
			}
			err = txn.Prewrite(ctx)
		}
		switch {
		case err == nil:
			r.locks++
		case ctx.Err() == nil && !live.Retry(err):
			return fmt.Errorf("leaving a lock: %w", err)
		}
	}
	return nil
}

// tablePrefix is t and a physical table id.
const tablePrefix = 9

// spareKey is a row's key of a table that no recording has.
func spareKey(table []byte, n uint64) []byte {
	key := append(append([]byte(nil), table[:tablePrefix]...), "_r"...)
	return binary.BigEndian.AppendUint64(key, 1<<63|3<<61|n>>8)
}
