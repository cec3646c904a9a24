package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
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
}

// Result is what a run came to.
type Result struct {
	Plan
	*Verdict
	Origin   origin.Config
	Outcomes []Outcome
	Load     origin.End
	Lives    int      // processes of all servers
	Fell     []string // ended when they should not have
	Took     time.Duration
	Err      error // it could not be judged
}

// OK tells whether everything is equal, and no server has ended by itself.
func (r *Result) OK() bool { return r.Err == nil && len(r.Wrong) == 0 && len(r.Fell) == 0 }

// Run is one run. What is left of it on disk is removed if everything is equal.
func Run(ctx context.Context, cfg Config, p Plan, told func(Outcome)) *Result {
	begun := time.Now()
	r := &Result{Plan: p, Verdict: &Verdict{}}
	cfg.Servers, cfg.Apart, cfg.Origin.Seed = p.Servers, p.Apart, p.Seed
	r.Origin = cfg.Origin
	// What an earlier run has left lies beside it.
	if cfg.Dir, r.Err = os.MkdirTemp(cfg.Dir, fmt.Sprintf("seed-%d-", p.Seed)); r.Err == nil {
		r.Err = r.run(ctx, cfg, told)
	}
	r.Took = time.Since(begun)
	if r.OK() {
		r.Err = os.RemoveAll(cfg.Dir)
	}
	return r
}

func (r *Result) run(ctx context.Context, cfg Config, told func(Outcome)) (err error) {
	script := Scripts()[r.Script]
	if script == nil {
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
	if r.Outcomes, err = s.Play(ctx, script(r.Seed, r.Events, r.Servers), told); err != nil {
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
