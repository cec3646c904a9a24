package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cli"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// Etcd's members leave some connections between them to the end of the process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"), goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"))
}

// patience bounds every wait; a test that needs it has failed.
const patience = 3 * time.Minute

// site is a server in this process, between a cluster with a bank on it and a
// database.
type site struct {
	*testing.T
	cluster *fake.Cluster
	bank    *workload.Workload
	down    *mariadb.Server
	dir     string
	address string // of the server
}

func newSite(t *testing.T) *site {
	t.Helper()
	cluster, err := fake.Start(fake.Config{Stores: 1, ResolvedInterval: 50 * time.Millisecond})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	g := new(errgroup.Group)
	g.Go(func() error { return cluster.Run(ctx) })
	t.Cleanup(func() {
		stop()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	s := &site{T: t, cluster: cluster, down: mariadb.Start(t), dir: t.TempDir()}
	s.bank, err = workload.New(ctx, live.New(cluster), workload.Config{Kind: "bank", Seed: 1, Rate: 400, Size: 50})
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) pd() string { return "http://" + strings.TrimPrefix(s.cluster.PD()[0], "http://") }

func (s *site) log() string { return filepath.Join(s.dir, "sluice.log") }

// serve runs `sluice server` until the test ends, with what is given in its file.
func (s *site) serve(file string) {
	s.Helper()
	config := filepath.Join(s.dir, "sluice.toml")
	must(s.T, os.WriteFile(config, []byte(file+"\n[meta]\nbackend = \"embedded\"\n"), 0o600))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int, 1)
	var errs bytes.Buffer
	env := cli.System()
	env.Out, env.Err = &errs, &errs
	go func() {
		done <- cli.Main(ctx, []string{"server", "--config", config, "--pd", s.pd(), "--addr", "127.0.0.1:0", "--advertise-addr", "127.0.0.1:8300",
			"--data-dir", filepath.Join(s.dir, "data"), "--log-file", s.log()}, env)
	}()
	s.Cleanup(func() {
		stop()
		if status := <-done; status != cli.StatusDone {
			s.Errorf("the server ended with %d: %s", status, errs.String())
		}
	})
	listens := regexp.MustCompile(`msg="server started".* address=(\S+)`)
	s.until("the server listens", func() bool {
		text, err := os.ReadFile(s.log())
		m := listens.FindSubmatch(text)
		if err == nil && m != nil {
			s.address = string(m[1])
		}
		return m != nil
	})
	s.until("it owns the cluster", func() bool { status, _, _ := s.sluice("cli changefeed list"); return status == cli.StatusDone })
}

// until waits for something to become true.
func (s *site) until(what string, ok func() bool) {
	s.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// sluice is what an operator types; {…} of the words are filled in by hand.
func (s *site) sluice(line string, more ...string) (status int, out, errs string) {
	s.Helper()
	var stdout, stderr bytes.Buffer
	args := append(strings.Fields(line), more...)
	if args[0] == "cli" {
		args = append(args, "--server", s.address)
	}
	status = cli.Main(s.Context(), args, cli.Env{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" },
		Home: s.dir, Now: time.Now, After: time.After})
	return status, stdout.String(), stderr.String()
}

// does is sluice for what has to succeed.
func (s *site) does(line string, more ...string) string {
	s.Helper()
	status, out, errs := s.sluice(line, more...)
	if status != cli.StatusDone {
		s.Fatalf("%s: %d\n%s%s", line, status, out, errs)
	}
	return out
}

// feed is a changefeed as the server shows it.
func (s *site) feed(name string) (f api.FeedInfo) {
	s.Helper()
	must(s.T, json.Unmarshal([]byte(s.does("cli changefeed query -o json -c "+name)), &f))
	return f
}

// caught waits until a changefeed has everything up to now downstream, and says up
// to where it has.
func (s *site) caught(name string) tso.TS {
	s.Helper()
	now := s.cluster.TS()
	s.until("the checkpoint reaches the present", func() bool { return s.feed(name).CheckpointTS >= now })
	return s.feed(name).CheckpointTS
}

// sum is what the downstream's accounts hold, and how many there are.
func (s *site) sum() (sum, accounts int) {
	s.Helper()
	db := s.down.DB()
	defer db.Close()
	must(s.T, db.QueryRowContext(s.Context(), `SELECT SUM(balance), COUNT(*) FROM (
		SELECT balance FROM bank.a0 UNION ALL SELECT balance FROM bank.a1 UNION ALL SELECT balance FROM bank.a2) all_of_them`).Scan(&sum, &accounts))
	return sum, accounts
}
