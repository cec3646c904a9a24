package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/chaos"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/meta"
)

var (
	runs     = flag.Int("runs", 0, "how many seeds to run, in a row; 0: a few, in short form")
	seed     = flag.Uint64("seed", 0, "the first of them")
	atOnce   = flag.Int("at-once", 3, "how many runs at the same time: they wait more than they work")
	summary  = flag.String("summary", "", "a file to write the summary to, in Markdown")
	keep     = flag.String("keep", "", "a directory for journals and data of runs that fail; they are removed otherwise")
	subjects = flag.String("subject", "", "only these subjects: part of the name")
)

func TestMain(m *testing.M) {
	if config := os.Getenv(chaos.CaptureEnv); config != "" {
		os.Exit(runCapture(config))
	}
	goleak.VerifyTestMain(m)
}

// runCapture is the process that is killed. Its words go to stderr.
func runCapture(config string) int {
	var c chaos.Capture
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return chaos.StatusTerminal
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	err := chaos.RunCapture(ctx, c, os.Stdout, log)
	switch {
	case err == nil, errors.Is(err, context.Canceled) && ctx.Err() != nil:
	case cdcerr.Fate(err) == cdcerr.Terminal:
		fmt.Fprintln(os.Stderr, "terminal:", err)
		return chaos.StatusTerminal
	default:
		fmt.Fprintln(os.Stderr, "again:", err)
		return chaos.StatusAgain
	}
	stop()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return chaos.StatusLeak
	}
	return 0
}

// shared is what all runs of a test share: an etcd that stays up, and this program.
func shared(t *testing.T) chaos.Config {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	cfg := meta.Default()
	cfg.Backend, cfg.Embedded.DataDir, cfg.Embedded.Tick = meta.BackendEmbedded, t.TempDir(), 20*time.Millisecond
	etcd, err := meta.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(etcd.Close)
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	}
	return chaos.Config{Program: program, Golden: golden.Dir(t), Endpoints: etcd.Endpoints(), Dir: dir, Patience: 3 * time.Minute}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func allSubjects(t *testing.T) []string {
	var names []string
	for _, r := range golden.Recordings(t) {
		names = append(names, golden.Name(t, r))
	}
	return chaos.Subjects(names)
}

// Whatever befalls the cluster, and whenever the capture is killed, everything
// arrives as it was. With -runs as many seeds as wanted, without a few of them, with
// little time each.
func TestChaos(t *testing.T) {
	size := chaos.Size{Lasts: 4 * time.Second, PDGone: 30 * time.Second, KillsMax: 4, Databases: true}
	all := allSubjects(t)
	var plans []chaos.Plan
	if *runs == 0 {
		size = chaos.Size{Lasts: time.Second, PDGone: time.Second, KillsMax: 2}
		short := uint64(6)
		if testing.Short() {
			short = 4
		}
		for n := range short {
			plans = append(plans, chaos.NewPlan(uint64(len(all))-4+n, all, size))
		}
	}
	for n := range uint64(*runs) {
		if p := chaos.NewPlan(*seed+n, all, size); strings.Contains(p.Subject, *subjects) {
			plans = append(plans, p)
		}
	}
	var mu sync.Mutex
	var sum chaos.Summary
	fmt.Println(chaos.Head())
	cfg := shared(t)
	var g errgroup.Group
	g.SetLimit(*atOnce)
	for _, p := range plans {
		g.Go(func() error {
			r := chaos.Run(t.Context(), cfg, p)
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(r.Line())
			if sum.Add(r); !r.OK() {
				t.Errorf("go test ./chaos -run TestChaos -v -args -runs 1 -seed %d\n%s", p.Seed, r.Explain())
				fmt.Println(r.Explain())
			}
			return nil
		})
	}
	must(t, g.Wait())
	var b bytes.Buffer
	sum.Write(&b)
	if *summary != "" {
		must(t, os.WriteFile(filepath.Clean(*summary), b.Bytes(), 0o600))
	}
	t.Log("\n" + b.String())
}
