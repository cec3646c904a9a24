package disaster_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/chaos/disaster"
	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/chaos/servers"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
)

var (
	runs    = flag.Int("runs", 0, "how many seeds to run, in a row; 0: three, in short form")
	seed    = flag.Uint64("seed", 1, "the first of them")
	sluice  = flag.String("sluice", "", "the command of Sluice; it is built, where it is not given")
	summary = flag.String("summary", "", "a file to write the results to, in Markdown")
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
func config(t *testing.T) disaster.Config {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	c := disaster.Config{
		Sluice: *sluice, Program: program, Dir: *keep, Origin: origin.Default(), Patience: 4 * time.Minute,
		Storage: func() (string, error) { return objstoretest.S3(t), nil },
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

// Whenever the upstream is lost, what is left makes the downstream what the upstream was
// at one moment. With -runs as often as wanted, without thrice: by a directory, by an S3,
// and by the servers themselves.
func TestDisasters(t *testing.T) {
	cfg := config(t)
	n := *runs
	if n == 0 {
		n = 3
		if testing.Short() {
			n = 1
		}
	}
	var all []*disaster.Result
	outage := disaster.Outage
	if *runs == 0 {
		outage = 3 * time.Second
	}
	for i := range uint64(n) {
		p := disaster.Draw(*seed+i, outage)
		if *runs == 0 {
			p.After, p.Left, p.Live = min(p.After, 2*time.Second), min(p.Left, time.Second), min(p.Live, time.Second)
			p.Kills = p.Kills[:min(len(p.Kills), 1)]
		}
		r := disaster.Run(t.Context(), cfg, p)
		fmt.Println(r.Line())
		if all = append(all, r); !r.OK() {
			t.Errorf("make disaster RUNS=1 SEED=%d: %v %q", p.Seed, r.Err, r.Wrong)
		}
	}
	var b bytes.Buffer
	disaster.Write(&b, all)
	if *summary != "" {
		must(t, os.WriteFile(filepath.Clean(*summary), b.Bytes(), 0o600))
	}
	t.Log("\n" + b.String())
}

// A plan is its seed's, and seeds have all kinds of them.
func TestPlans(t *testing.T) {
	kinds := map[string]int{}
	for s := range uint64(200) {
		p := disaster.Draw(s, disaster.Outage)
		if fmt.Sprint(p) != fmt.Sprint(disaster.Draw(s, disaster.Outage)) {
			t.Fatalf("seed %d has two plans", s)
		}
		for _, kind := range []string{
			fmt.Sprint("s3 ", p.S3), fmt.Sprint("servers ", p.Servers), fmt.Sprint("slow ", p.Slow), fmt.Sprint("kills ", len(p.Kills)),
			fmt.Sprint(p.Early, " early"), fmt.Sprint(p.Before, " before"), fmt.Sprint(p.With, " with it"), fmt.Sprint("live ", p.Live > 0),
			fmt.Sprint("offline ", p.Offline), fmt.Sprint(p.Decided, " meanwhile"),
		} {
			kinds[kind]++
		}
		for _, trouble := range p.Troubles {
			kinds[trouble.Name]++
		}
	}
	if len(kinds) != 2+2+4+3+3*3+2+2+3+5 {
		t.Errorf("%v", kinds)
	}
	var b bytes.Buffer
	disaster.Write(&b, []*disaster.Result{{Plan: disaster.Draw(1, 0), Wrong: []string{"a|b"}}})
	if !bytes.Contains(b.Bytes(), []byte(`NOT EQUAL: a\|b`)) || !bytes.Contains(b.Bytes(), []byte("0 of 1 are equal")) {
		t.Error(b.String())
	}
}
