package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/chaos/origin"
)

// Plan is one run.
type Plan struct {
	Seed    uint64
	Servers int
	Apart   bool   // metadata is in an etcd of its own
	Script  string // one of Scripts
	Events  int    // of the script's main kind

	// Trials take the place of a script: of a cluster, with metadata apart and servers
	// that come and go.
	Trials []Trial
	Spare  int // servers that rest at first
}

// Result is what a run came to.
type Result struct {
	Plan
	*Verdict
	Origin   origin.Config
	Outcomes []Outcome
	Attempts []*Attempt
	Load     origin.End
	Lives    int      // processes of all servers
	Fell     []string // ended when they should not have
	Took     time.Duration
	Machine  string // how busy it was otherwise
	Err      error  // it could not be judged
}

// OK tells whether everything is equal, each trial came about, and no server has ended
// by itself. How late it was is another question.
func (r *Result) OK() bool {
	return r.Err == nil && len(r.Wrong) == 0 && len(r.Fell) == 0 &&
		!slices.ContainsFunc(r.Attempts, func(a *Attempt) bool { return a.Err != nil })
}

// Run is one run. What is left of it on disk is removed if everything is equal.
func Run(ctx context.Context, cfg Config, p Plan, told func(fmt.Stringer)) *Result {
	begun := time.Now()
	r := &Result{Plan: p, Verdict: &Verdict{}}
	before := machineLoad()
	cfg.Servers, cfg.Apart, cfg.Origin.Seed = p.Servers, p.Apart, p.Seed
	cfg.Spare, cfg.Wired = p.Spare, len(p.Trials) > 0
	r.Origin = cfg.Origin
	// What an earlier run has left lies beside it.
	if cfg.Dir, r.Err = os.MkdirTemp(cfg.Dir, fmt.Sprintf("seed-%d-", p.Seed)); r.Err == nil {
		r.Err = r.run(ctx, cfg, told)
	}
	r.Took = time.Since(begun)
	r.Machine = fmt.Sprintf("%s, %s, %d", before, machineLoad(), runtime.NumCPU())
	if r.OK() {
		r.Err = os.RemoveAll(cfg.Dir)
	}
	return r
}

// machineLoad is the average of how many wanted the processor in the last minute.
func machineLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

func (r *Result) run(ctx context.Context, cfg Config, told func(fmt.Stringer)) (err error) {
	script := Scripts()[r.Script]
	if script == nil && len(r.Trials) == 0 {
		return cdcerr.InvalidArgument.New("Script: %q, want one of %v", r.Script, slices.Sorted(maps.Keys(Scripts())))
	}
	s, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		for _, n := range s.Nodes {
			r.Lives += n.Lives()
		}
		r.Fell = s.fell()
		err = errors.Join(err, s.Close())
	}()
	if err := s.Upstream.Begin(); err != nil {
		return err
	}
	if len(r.Trials) > 0 {
		r.try(ctx, s, told)
	} else if r.Outcomes, err = s.Play(ctx, script(r.Seed, r.Events, r.Servers), told); err != nil {
		return err
	}
	if r.Load, err = s.Upstream.End(); err != nil {
		return fmt.Errorf("the load: %w", err)
	}
	if err := s.Reach(ctx, r.Load.TS); err != nil {
		return err
	}
	if err := s.StopServers(); err != nil {
		return err
	}
	v, err := s.Judge(ctx, r.Load.TS)
	if err == nil {
		r.Verdict = v
	}
	return err
}

// try carries the trials out. One that does not come about leaves the others be.
func (r *Result) try(ctx context.Context, s *Site, told func(fmt.Stringer)) {
	begun := time.Now()
	for _, t := range r.Trials {
		for range t.Times {
			if ctx.Err() != nil {
				return
			}
			a := s.Try(ctx, t, begun)
			r.Attempts = append(r.Attempts, a)
			told(a)
		}
	}
}
