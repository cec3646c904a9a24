package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// What the whole pipeline is held to, against the bare client.
const (
	wallShare = 0.5 // of the bare client's rows a second, at least
	cpuTimes  = 4.0 // the bare client's CPU time, at most

	allocsMost = 2.0 // allocations a row
)

// compare is the parent: one measurement after the other, each of which can be
// left out. Where something does not hold, that is its error, at the end.
func compare(ctx context.Context, o options, out io.Writer) error {
	if o.pairs < 0 || o.rows < 1 {
		return fmt.Errorf("-pairs %d, -rows %d: must be positive", o.pairs, o.rows)
	}
	o.judge = new(judge)
	found := false
	for _, m := range []struct {
		name string
		do   func(context.Context, io.Writer) error
	}{
		{"streams", o.streams}, {"large", o.large}, {"tables", o.tables}, {"idle", o.idles}, {"lag", o.lags},
		{"steady", o.steadies}, {"database", o.databases}, {"redo", o.redos},
	} {
		if o.only != "" && o.only != m.name {
			continue
		}
		found = true
		if err := m.do(ctx, out); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("-only %s: want streams, large, tables, idle, lag, steady, database or redo", o.only)
	}
	if o.strict {
		return o.judge.verdict()
	}
	return nil
}

// streams runs pairs of clients over the same stream: over a table with its rows
// in many regions, and with all of them in one.
func (o options) streams(ctx context.Context, out io.Writer) error {
	if o.pairs == 0 {
		return nil
	}
	fmt.Fprintf(out, "%d rows of %d bytes, PREWRITE and COMMIT; upstream in a process of its own.\n", o.rows, rowBytes)
	fmt.Fprint(out, "bare: a client that throws the stream away; stream: the whole pipeline into a black hole.\n")
	if err := o.comparePairs(ctx, out, "8 regions"); err != nil {
		return err
	}
	o.hot, o.pairs = true, min(o.pairs, 3)
	return o.comparePairs(ctx, out, "one hot region")
}

// comparePairs measures and judges. The speed over one hot region is told, not
// judged: what it should be nobody has said.
func (o options) comparePairs(ctx context.Context, out io.Writer, what string) error {
	fmt.Fprintf(out, "\n%s\n%4s  %-6s %8s %8s %12s %12s %8s\n", what, "pair", "client", "wall s", "CPU s", "rows/s", "allocs/row", "MiB")
	var walls, cpus, allocs []float64
	for pair := range o.pairs {
		used := map[string]Usage{}
		roles := []string{"bare", "stream"}
		if pair%2 == 1 { // neither always has the warmer machine
			slices.Reverse(roles)
		}
		for _, role := range roles {
			var u Usage
			if err := o.measure(ctx, role, &u); err != nil {
				return fmt.Errorf("%s: %w", role, err)
			}
			used[role] = u
		}
		for _, role := range []string{"bare", "stream"} {
			u := used[role]
			fmt.Fprintf(out, "%4d  %-6s %8.3f %8.3f %12.0f %12.2f %8d\n", pair+1, role, u.Wall.Seconds(), u.CPU.Seconds(),
				float64(o.rows)/u.Wall.Seconds(), float64(u.Mallocs)/float64(o.rows), u.RSS>>20)
		}
		walls = append(walls, used["bare"].Wall.Seconds()/used["stream"].Wall.Seconds())
		cpus = append(cpus, used["stream"].CPU.Seconds()/used["bare"].CPU.Seconds())
		allocs = append(allocs, float64(used["stream"].Mallocs)/float64(o.rows))
	}
	wall, cpu, alloc := median(walls), median(cpus), median(allocs)
	speed := ""
	if !o.hot {
		speed = fmt.Sprintf(" (hold: ≥ %.0f %%) %s", 100*wallShare, o.judge.held(what+": speed", wall >= wallShare))
	}
	fmt.Fprintf(out, "median of %d pairs: %.0f %% of the bare client's speed%s, %.2f × its CPU (hold: ≤ %.0f ×) %s, %.2f allocations a row (hold: ≤ %.0f) %s\n",
		o.pairs, 100*wall, speed,
		cpu, cpuTimes, o.judge.held(what+": CPU", cpu <= cpuTimes), alloc, allocsMost, o.judge.held(what+": allocations", alloc <= allocsMost))
	return nil
}

// judge notes what does not hold.
type judge struct{ broken []string }

func (j *judge) held(what string, ok bool) string {
	if ok {
		return "held"
	}
	j.broken = append(j.broken, what)
	return "NOT HELD"
}

func (j *judge) verdict() error {
	if len(j.broken) == 0 {
		return nil
	}
	return fmt.Errorf("does not hold: %s", strings.Join(j.broken, "; "))
}

// lags watches how late a changefeed is, for each resolved-ts interval.
func (o options) lags(ctx context.Context, out io.Writer) error {
	if o.lagFor == 0 {
		return nil
	}
	fmt.Fprintf(out, "\nlag of %s at recorded speed (hold: p50 ≤ interval + 100 ms, p99 ≤ 2 s)\n%10s  %-12s %10s %10s %10s\n", o.recording, "interval", "from", "p50", "p99", "max")
	for _, interval := range []time.Duration{200 * time.Millisecond, time.Second} {
		o.interval = interval
		var l Lag
		if err := o.measure(ctx, "lag", &l); err != nil {
			return fmt.Errorf("lag: %w", err)
		}
		for _, line := range []struct {
			from string
			s    Spread
		}{{"checkpoint", l.Checkpoint}, {fmt.Sprintf("%d rows", l.Rows), l.Row}} {
			ok := line.s.P50 <= o.interval+100*time.Millisecond && line.s.P99 <= 2*time.Second
			fmt.Fprintf(out, "%10v  %-12s %10v %10v %10v %s\n", o.interval, line.from, line.s.P50, line.s.P99, line.s.Max, o.judge.held("lag", ok))
		}
	}
	return nil
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// measure runs a client against a fresh upstream and reads its result.
func (o options) measure(ctx context.Context, role string, result any) (err error) {
	ctx, stop := context.WithTimeoutCause(ctx, o.patience, fmt.Errorf("not done within %v", o.patience))
	defer stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	args := []string{"-rows", fmt.Sprint(o.rows), "-interval", o.interval.String(), fmt.Sprintf("-one=%v", role == "large" || role == "served-one"), fmt.Sprintf("-hot=%v", o.hot), "-recording", ""}
	if role == "lag" {
		args[len(args)-1] = o.recording
	}
	if role == "steady" || role == "outside" || role == "protected" {
		args = append(args, "-steady")
	}
	if role == "idle" {
		args = append(args, "-spans", fmt.Sprint(o.spans), "-regions", fmt.Sprint(o.regions))
	}
	if role == "tables" {
		args = append(args, "-tables", fmt.Sprint(o.creates), "-made")
	}
	up, err := spawn(ctx, "upstream", args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.end()) }()
	var h hello
	if err := up.hear(&h); err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	return o.spawn(ctx, role, h, result)
}

// alone runs a client that has no upstream.
func (o options) alone(ctx context.Context, role string, result any) error {
	ctx, stop := context.WithTimeoutCause(ctx, o.patience, fmt.Errorf("not done within %v", o.patience))
	defer stop()
	err := o.spawn(ctx, role, hello{}, result)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// spawn runs a client and reads its result.
func (o options) spawn(ctx context.Context, role string, h hello, result any) error {
	client, err := spawn(ctx, role, "-rows", fmt.Sprint(o.rows), "-pd", h.PD, "-start", fmt.Sprint(uint64(h.StartTS)),
		"-lag", o.lagFor.String(), "-cpuprofile", o.profile, "-quota", fmt.Sprint(o.quota), "-spans", fmt.Sprint(o.spans), "-idle", o.idleFor.String(), "-tables", fmt.Sprint(o.creates),
		"-sink", o.sink, "-workers", fmt.Sprint(o.workers), "-storage", o.storage, "-limit", fmt.Sprint(o.limit))
	if err != nil {
		return err
	}
	return errors.Join(client.hear(result), client.end())
}

// process is a running child.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *json.Decoder
}

func spawn(ctx context.Context, role string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{role}, args...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, stdin, json.NewDecoder(stdout)}, cmd.Start()
}

// hear reads the next line of the child.
func (p *process) hear(into any) error { return p.lines.Decode(into) }

// end closes the child's standard input and waits for it.
func (p *process) end() error { return cmp.Or(p.stdin.Close(), p.cmd.Wait()) }
