package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/tso"
)

// options are those of the parent and of its children.
type options struct {
	rows      int
	pairs     int
	lagFor    time.Duration
	recording string
	profile   string
	quota     int // MiB
	regions   int
	idleFor   time.Duration
	creates   int
	patience  time.Duration
	strict    bool

	// Between parent and children.
	pd       string
	start    uint64
	interval time.Duration
	oneTxn   bool
	spans    int
	made     bool
	database int
	sink     string
	workers  int
	hot      bool
	steady   bool
	redo     int
	only     string
	storage  string
	limit    int // MiB

	judge *judge // the parent's
}

// Main runs one process: the parent without a word, else the child that it
// names. It returns the exit status.
func Main(ctx context.Context, args []string, stdin io.ReadCloser, stdout, stderr io.Writer) int {
	role := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		role, args = args[0], args[1:]
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rows, "rows", 2_000_000, "rows of 200 bytes that each run streams")
	flags.IntVar(&o.pairs, "pairs", 5, "pairs of runs, bare and whole; 0 leaves them out. With and without a redo log there are three at most, and one at least")
	flags.DurationVar(&o.lagFor, "lag", 8*time.Second, "how long lag is watched for each resolved-ts interval; 0 leaves it out")
	flags.StringVar(&o.recording, "recording", "testdata/golden/workloads/bank.jsonl.gz", "a recording, the load under which lag is watched")
	flags.IntVar(&o.quota, "quota", 256, "memory quota in MiB, of which one transaction takes four; 0 leaves it out")
	flags.IntVar(&o.regions, "regions", 100_000, "regions that are followed while nothing happens; 0 leaves it out")
	flags.DurationVar(&o.idleFor, "idle", 5*time.Second, "how long they are watched once all are resolved")
	flags.IntVar(&o.creates, "tables", 5000, "tables that are created and followed; 0 leaves it out")
	flags.IntVar(&o.database, "database", 200_000, "rows that are written to a MariaDB; 0 leaves it out")
	flags.IntVar(&o.redo, "redo", 1_000_000, "rows that go through a server with a redo log; 0 leaves it out")
	flags.StringVar(&o.only, "only", "", "the one measurement that is made: streams, large, tables, idle, lag, steady, database or redo; empty: all")
	flags.StringVar(&o.storage, "storage", "", "for children: where the redo log is")
	flags.IntVar(&o.limit, "limit", 0, "for children: memory limit of redo apply in MiB")
	flags.StringVar(&o.sink, "sink", "", "for children: the database's sink URI")
	flags.IntVar(&o.workers, "workers", 1, "for children: workers that write to it")
	flags.DurationVar(&o.patience, "patience", 2*time.Minute, "how long one measurement may take")
	flags.StringVar(&o.profile, "cpuprofile", "", "a file for the whole pipeline's CPU profile")
	flags.StringVar(&o.pd, "pd", "", "for children: where PD is")
	flags.Uint64Var(&o.start, "start", 0, "for children: start-ts")
	flags.IntVar(&o.spans, "spans", 0, "for children: subscriptions that share the regions")
	flags.BoolVar(&o.made, "made", false, "for children: replay the creation of tables")
	flags.BoolVar(&o.strict, "strict", true, "end with an error where something does not hold")
	flags.BoolVar(&o.hot, "hot", false, "for children: all rows are in one region")
	flags.BoolVar(&o.steady, "steady", false, "for children: rows are written at a steady rate")
	flags.BoolVar(&o.oneTxn, "one", false, "for children: all rows are one transaction")
	flags.DurationVar(&o.interval, "interval", 200*time.Millisecond, "for children: how often resolved-ts moves")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	var err error
	if role == "" {
		err = compare(ctx, o, stdout)
	} else {
		err = child(ctx, role, o, stdin, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// child runs one role until its work is done or its standard input, which the
// parent holds, ends.
func child(ctx context.Context, role string, o options, stdin io.ReadCloser, stdout io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	g.Go(func() error {
		defer stop()
		_, _ = io.Copy(io.Discard, stdin) // whatever ends it
		return nil
	})
	err := play(ctx, role, o, json.NewEncoder(stdout).Encode)
	if err != nil {
		return err // the process ends, and the reader, whose input stays open, with it
	}
	_ = stdin.Close() // ends the reader
	_ = g.Wait()
	return err
}

// play is one role; say hands a line to the parent.
func play(ctx context.Context, role string, o options, say func(any) error) error {
	var result any
	var err error
	switch role {
	case "upstream":
		return serve(ctx, o, say)
	case "bare":
		result, err = bare(ctx, o.pd, o.rows)
	case "stream":
		result, err = stream(ctx, o)
	case "large":
		result, err = large(ctx, o)
	case "idle":
		result, err = idle(ctx, o)
	case "tables":
		result, err = tables(ctx, o)
	case "lag":
		result, err = lag(ctx, o.pd, tso.TS(o.start), o.lagFor)
	case "served", "served-one":
		result, err = served(ctx, o)
	case "logged":
		result, err = Usage{}, logged(ctx, o)
	case "logged-one":
		o.oneTxn = true
		result, err = Usage{}, logged(ctx, o)
	case "applied":
		result, err = applied(ctx, o)
	case "direct":
		result, err = direct(ctx, o)
	case "protected":
		result, err = protected(ctx, o)
	case "database":
		result, err = database(ctx, o)
	case "outside":
		result, err = outside(ctx, o)
	case "steady":
		result, err = steady(ctx, o)
	default:
		return fmt.Errorf("no role %q: want upstream, bare, stream, large, idle, tables, lag, steady, database, outside, served, served-one, logged, logged-one, applied, direct or protected", role)
	}
	if err != nil {
		return err
	}
	return say(result)
}
