package servers_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/chaos/servers"
)

var (
	runs    = flag.Int("runs", 0, "how many seeds to run, in a row; 0: one, in short form")
	seed    = flag.Uint64("seed", 1, "the first of them")
	script  = flag.String("script", "kills", "what befalls the servers: kills, pauses or outages")
	events  = flag.Int("events", 100, "how many events of the script's main kind")
	nodes   = flag.Int("servers", 1, "how many servers; with more than one, etcd is in a process of its own")
	rate    = flag.Int("rate", origin.Default().Rate, "transactions a second")
	tables  = flag.Int("tables", origin.Default().Tables, "tables that the accounts are in")
	pause   = flag.Duration("ddl-every", origin.Default().DDLEvery, "time between two DDLs of each of three streams")
	sluice  = flag.String("sluice", "", "the command of Sluice; it is built, where it is not given")
	summary = flag.String("summary", "", "a file to write the results to, in Markdown")
	only    = flag.String("only", "", "the trials of a cluster, by their keys; empty: all")
	keep    = flag.String("keep", "", "a directory for logs and data of runs that fail; they are removed otherwise")
)

func TestMain(m *testing.M) {
	if started, err := servers.ServeChild(context.Background()); started {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// config is what all runs share.
func config(t *testing.T) servers.Config {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	c := servers.Config{
		Sluice: *sluice, Program: program, Dir: *keep, Origin: origin.Default(),
		SyncPointEvery: time.Second, Patience: 2 * time.Minute,
	}
	c.Origin.Rate, c.Origin.Tables, c.Origin.DDLEvery = *rate, *tables, *pause
	if *runs == 0 { // without a machine of one's own: what it cannot carry only makes a lag that nobody asks about
		c.Origin.Rate, c.Origin.DDLEvery = min(*rate, 30), max(*pause, time.Second)
		c.Patience = 4 * time.Minute
	}
	c.Origin.Accounts = max(c.Origin.Accounts, 2*c.Origin.Tables)
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if c.Sluice == "" {
		c.Sluice = filepath.Join(t.TempDir(), "sluice")
		out, err := exec.Command("go", "build", "-o", c.Sluice, "github.com/sluice-cdc/sluice/cmd/sluice").CombinedOutput()
		if err != nil {
			t.Fatalf("building the command: %v\n%s", err, out)
		}
	}
	return c
}

// say tells whoever watches.
func say(what fmt.Stringer) { fmt.Println(what) }

// Whenever a server is killed, nothing is lost, no DDL runs twice, and every sync
// point is what it says. With -runs and -events as often as wanted, without a few times.
func TestServers(t *testing.T) {
	var plans []servers.Plan
	for n := range uint64(*runs) {
		plans = append(plans, servers.Plan{Seed: *seed + n, Servers: *nodes, Apart: *nodes > 1 || (*seed+n)%2 == 0, Script: *script, Events: *events})
	}
	if *runs == 0 {
		short := 2
		if testing.Short() {
			short = 1
		}
		plans = append(plans, servers.Plan{Seed: *seed, Servers: 1, Script: "kills", Events: short})
	}
	cfg := config(t)
	var all []*servers.Result
	for _, p := range plans {
		r := servers.Run(t.Context(), cfg, p, say)
		all = append(all, r)
		if !r.OK() {
			t.Errorf("make chaos-server RUNS=1 SEED=%d KILLS=%d: %v %q", p.Seed, p.Events, r.Err, r.Wrong)
		}
	}
	var b bytes.Buffer
	servers.Write(&b, all)
	if *summary != "" {
		must(t, os.WriteFile(filepath.Clean(*summary), b.Bytes(), 0o600))
	}
	t.Log("\n" + b.String())
}

// trials are those that -only names, all of them where it names none.
func trials(t *testing.T, only string) (out []servers.Trial) {
	t.Helper()
	all := servers.Trials()
	if only == "" {
		return all
	}
	for key := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(t servers.Trial) bool { return t.Key == key })
		if i < 0 {
			t.Fatalf("there is no trial %q", key)
		}
		out = append(out, all[i])
	}
	return out
}

// Whatever befalls a cluster, nothing is lost, no DDL runs twice, nothing stale is
// written, and every sync point is what it says. How late the changefeed may be is
// asked with -runs only: in short form it is the machine's, too.
func TestCluster(t *testing.T) {
	cfg := config(t)
	cfg.Origin.Stores, cfg.Origin.MoveEvery = 3, 500*time.Millisecond
	plan := servers.Plan{Seed: *seed, Servers: 3, Spare: 2, Apart: true}
	if *runs == 0 {
		cfg.Origin.Beats = 3
		plan.Trials = trials(t, "rolling,move,kill")
		if testing.Short() {
			plan.Trials = trials(t, "kill")
		}
		for i := range plan.Trials {
			plan.Trials[i].Times = 1
		}
		r := servers.Run(t.Context(), cfg, plan, say)
		if !r.OK() {
			t.Errorf("%v %q %q", r.Err, r.Wrong, r.Fell)
		}
		return
	}
	cfg.Origin.Rate, cfg.Origin.Tables, cfg.Origin.Beats = 500, 100, 9
	cfg.Origin.Accounts, cfg.Origin.DDLEvery, cfg.SyncPointEvery = 1000, 2*time.Second, 15*time.Second
	plan.Trials = trials(t, *only)
	var all []*servers.Result
	for range *runs {
		r := servers.Run(t.Context(), cfg, plan, say)
		all = append(all, r)
		if late := r.Late(); !r.OK() || len(late) > 0 {
			t.Errorf("make chaos SEED=%d: %v %q %q %q", plan.Seed, r.Err, r.Wrong, r.Fell, late)
		}
		plan.Seed++
	}
	var b bytes.Buffer
	servers.WriteTable(&b, all)
	if *summary != "" {
		must(t, os.WriteFile(filepath.Clean(*summary), b.Bytes(), 0o600))
	}
	t.Log("\n" + b.String())
}
