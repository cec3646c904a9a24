package disaster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/chaos/process"
	"github.com/sluice-cdc/sluice/chaos/servers"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// Result is what a disaster came to.
type Result struct {
	Plan
	Wrong []string // where the downstream differs; empty: it is the snapshot

	Behind time.Duration // the changefeed's checkpoint, at the disaster
	RPO    time.Duration // the log's resolved-ts, at the disaster
	RTO    time.Duration // all attempts to apply the log together; Offline: from the disaster to the end
	At     tso.TS        // the snapshot
	Rows   uint64        // applied by the attempt that ended well
	DDLs   uint64
	Applys int // attempts
	Err    error

	lost time.Time // the upstream
}

// OK tells whether every table is what it was upstream.
func (r *Result) OK() bool { return r.Err == nil && len(r.Wrong) == 0 }

// Run carries a plan out. What is left of it on disk is removed if all is equal.
func Run(ctx context.Context, cfg Config, p Plan) *Result {
	r := &Result{Plan: p}
	dir, err := os.MkdirTemp(cfg.Dir, fmt.Sprintf("seed-%d-", p.Seed))
	if err == nil {
		err = r.run(ctx, cfg, dir)
	}
	r.Err = err
	if r.OK() {
		r.Err = os.RemoveAll(dir)
	}
	return r
}

func (r *Result) run(ctx context.Context, cfg Config, dir string) (err error) {
	storage := "file://" + filepath.Join(dir, "redo")
	if r.S3 {
		if storage, err = cfg.Storage(); err != nil {
			return err
		}
	}
	cfg.Origin.Journal = filepath.Join(dir, "journal")
	s, err := servers.Open(ctx, cfg.site(r.Plan, dir, storage))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rng := rand.New(rand.NewPCG(r.Seed, 12))
	kill := func(who Victim) error { return r.kill(ctx, s, rng, who) }
	databases, err := r.strike(ctx, s, kill)
	if err != nil {
		return err
	}
	log := &redoLog{cfg: cfg, storage: storage, sink: s.SinkURI(), out: filepath.Join(dir, "redo.log")}
	if r.Offline {
		err = r.outlive(ctx, s, log, kill)
	} else {
		err = errors.Join(r.among(ctx, s, log), r.recover(ctx, log))
	}
	if err != nil {
		return err
	}
	left, err := origin.Remember(cfg.Origin.Journal, databases)
	if err != nil {
		return err
	}
	return r.judge(ctx, left, origin.Downstream{Host: s.Down.Host, Port: s.Down.Port, At: r.At})
}

// strike lets the load run, and then loses the upstream.
func (r *Result) strike(ctx context.Context, s *servers.Site, kill func(Victim) error) (databases []string, err error) {
	if databases, err = s.Upstream.Databases(); err != nil {
		return nil, err
	}
	before, err := s.Upstream.Place()
	if err != nil {
		return nil, err
	}
	if err := s.Upstream.Begin(); err != nil {
		return nil, err
	}
	if err := s.Reach(ctx, before.TS); err != nil { // it replicates
		return nil, err
	}
	if r.Offline {
		if err := s.Located(ctx); err != nil {
			return nil, err
		}
	}
	const shortly = time.Second
	half := (r.After - shortly) / 2
	if err := errors.Join(kill(r.Early), wait(ctx, half)); err != nil {
		return nil, err
	}
	for _, trouble := range r.Troubles {
		if err := trouble.Do(ctx, s); err != nil {
			return nil, fmt.Errorf("%s: %w", trouble.Name, err)
		}
	}
	if err := errors.Join(wait(ctx, r.After-shortly-half), kill(r.Before), wait(ctx, shortly)); err != nil {
		return nil, err
	}
	f, asked := s.Feed(ctx)
	r.lost, r.Behind = time.Now(), -1
	if err := s.Lose(); err != nil {
		return nil, err
	}
	if asked == nil { // else its server was killed
		r.Behind = r.lost.Sub(f.Checkpoint.Time())
	}
	return databases, errors.Join(kill(r.With), wait(ctx, r.Left))
}

// kill kills a server, which is started again.
func (r *Result) kill(ctx context.Context, s *servers.Site, rng *rand.Rand, who Victim) error {
	node := rng.IntN(len(s.Nodes))
	switch who {
	case Anybody:
		return servers.Signal(servers.KilledName, node, syscall.SIGKILL).Do(ctx, s)
	case TheOwner:
		return servers.SignalOwner(servers.KilledOwnerName, syscall.SIGKILL).Do(ctx, s)
	}
	return nil
}

// outlive leaves it to the servers to end the changefeed with its log.
func (r *Result) outlive(ctx context.Context, s *servers.Site, log *redoLog, kill func(Victim) error) error {
	if err := s.Decided(ctx); err != nil {
		return err
	}
	if err := kill(r.Decided); err != nil {
		return err
	}
	f, err := s.Finished(ctx)
	if err != nil {
		return err
	}
	r.RTO = time.Since(r.lost)
	r.at(f.Checkpoint)
	if err := s.Abandon(ctx); err != nil {
		return err
	}
	left, _, err := log.command(ctx, 0, "verify")
	if err != nil {
		return err
	}
	r.Rows, r.DDLs = left.Rows, left.DDLs
	if left.ResolvedTS != r.At {
		r.Wrong = append(r.Wrong, fmt.Sprintf("it was applied to %d, and the log ends at %d", r.At, left.ResolvedTS))
	}
	if why := fmt.Sprintf("upstream lost, applied to %d (", r.At); f.LastWarning == nil || !strings.Contains(f.LastWarning.Message, why) {
		r.Wrong = append(r.Wrong, fmt.Sprintf("the changefeed does not say %q: %v", why, f))
	}
	return nil
}

// at says of which moment the snapshot is.
func (r *Result) at(ts tso.TS) { r.At, r.RPO = ts, r.lost.Sub(ts.Time()) }

// among ends the servers, in some plans while the log is applied already. They do not
// write then, or take the place again, which the command has to say. What of that holds
// is seen by applying the log once more.
func (r *Result) among(ctx context.Context, s *servers.Site, log *redoLog) error {
	if r.Live == 0 {
		return s.Abandon(ctx)
	}
	var attempt errgroup.Group
	attempt.Go(func() error {
		r.Applys++
		begun := time.Now()
		_, _, err := log.apply(ctx, 0)
		r.RTO += time.Since(begun)
		if err != nil && strings.Contains(err.Error(), cdcerr.Fenced.ID) {
			return nil
		}
		return err
	})
	err := errors.Join(wait(ctx, r.Live), s.Abandon(ctx))
	return errors.Join(err, attempt.Wait())
}

// recover applies the log, and begins again as often as it is killed.
func (r *Result) recover(ctx context.Context, log *redoLog) error {
	meta, err := log.meta(ctx)
	if err != nil {
		return err
	}
	r.at(meta.ResolvedTS)
	for i := 0; ; i++ {
		r.Applys++
		after := time.Duration(0)
		if i < len(r.Kills) {
			after = r.Kills[i]
		}
		begun := time.Now()
		done, whole, err := log.apply(ctx, after)
		r.RTO += time.Since(begun)
		if err != nil {
			return err
		}
		if whole {
			r.Rows, r.DDLs = done.Rows, done.DDLs
			return nil
		}
	}
}

// judge holds every table against what the upstream held, and the accounts' sum with it.
func (r *Result) judge(ctx context.Context, left *origin.Remains, d origin.Downstream) error {
	differ, err := left.Compare(ctx, d)
	if err != nil {
		return err
	}
	r.Wrong = append(r.Wrong, differ...)
	held, err := left.Balances([]tso.TS{d.At})
	if err != nil {
		return err
	}
	if a := held[0]; a.Sum != int64(a.Number)*workload.Opening {
		r.Wrong = append(r.Wrong, fmt.Sprintf("upstream %d accounts held %d at %d: that is no snapshot", a.Number, a.Sum, d.At))
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// redoLog is what is left of the changefeed.
type redoLog struct {
	cfg           Config
	storage, sink string
	out           string // a file for what the command says
	n             int
}

// logText is what the command says of a log.
type logText struct {
	CheckpointTS tso.TS `json:"checkpoint-ts"`
	ResolvedTS   tso.TS `json:"resolved-ts"`
	Rows         uint64 `json:"rows"`
	DDLs         uint64 `json:"ddls"`
}

func (l *redoLog) meta(ctx context.Context) (text logText, err error) {
	text, _, err = l.command(ctx, 0, "meta")
	return text, err
}

// apply runs the command, and kills it after some time, if that is not 0. Whole tells
// whether it ended by itself.
func (l *redoLog) apply(ctx context.Context, after time.Duration) (text logText, whole bool, err error) {
	return l.command(ctx, after, "apply", "--sink-uri", l.sink)
}

func (l *redoLog) command(ctx context.Context, after time.Duration, verb string, args ...string) (text logText, whole bool, err error) {
	l.n++
	out := fmt.Sprintf("%s.%d", l.out, l.n)
	p, err := process.Start(process.Command{
		Name: "sluice redo " + verb, Program: l.cfg.Sluice, Log: out,
		Args: append([]string{"redo", verb, "--storage", l.storage, "--output", "json"}, args...),
	})
	if err != nil {
		return text, false, err
	}
	kill := make(<-chan time.Time)
	if after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		kill = timer.C
	}
	select {
	case <-p.Over():
	case <-kill:
		p.Kill()
		return text, false, nil
	case <-ctx.Done():
		p.Kill()
		return text, false, ctx.Err()
	}
	said, err := os.ReadFile(filepath.Clean(out))
	if err != nil {
		return text, false, err
	}
	if err := p.Wait(); err != nil {
		return text, false, fmt.Errorf("%w: %s", err, said)
	}
	return text, true, json.Unmarshal(said, &text)
}
