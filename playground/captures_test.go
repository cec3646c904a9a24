package playground

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/internal/mariadb"
)

// wantEvents holds what a run with captures printed against what it has to.
func wantEvents(t *testing.T, status int, stdout, stderr string, events ...string) {
	t.Helper()
	if status != allEqual || !regexp.MustCompile(`^bank rows=unseen end=equal \d+\.\d\n$`).MatchString(stdout) {
		t.Errorf("status %d, %s", status, stdout)
	}
	events = append(events, `(?m)^capture 3 at http://127\.0\.0\.1:\d+$`, `(?m)^bank: the accounts hold 200000 together, as they should hold 200000$`)
	for _, e := range events {
		if !regexp.MustCompile(e).MatchString(stderr) {
			t.Errorf("nothing like %s", e)
		}
	}
	if t.Failed() {
		t.Log(stderr)
	}
}

// One of each befalls three servers under load, and nothing is lost.
func TestCaptures(t *testing.T) {
	status, stdout, stderr := command(t, "--workload", "bank", "--captures", "3", "--duration", "2s", "--verify")
	wantEvents(t, status, stdout, stderr,
		`— drain: capture \d has no table`, `— drain: without capture \d everything`,
		`— kill: capture \d is killed with [1-9]`, `— kill: without capture \d everything`,
		`— join: capture 4 is there, with [1-9]`, `session has run out, 5 s: this downstream cannot refuse`)
}

// A downstream that can refuse stale writes needs no lease to run out, and is left
// without what the changefeed kept in it.
func TestCapturesIntoMariaDB(t *testing.T) {
	server := mariadb.Start(t)
	status, stdout, stderr := command(t, "--workload", "bank", "--captures", "3", "--duration", "1s", "--verify",
		"--sink-uri", server.URI(), "--script", "300ms kill")
	wantEvents(t, status, stdout, stderr, `— kill: without capture \d everything`, `the downstream refuses what it may still write`)
	db := server.DB()
	defer db.Close()
	for _, q := range []string{"SELECT COUNT(*) FROM tidb_cdc.ddl_ts_v1", "SELECT COUNT(*) FROM tidb_cdc.sluice_fence_v1"} {
		var n int
		if err := db.QueryRow(q).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", q, n, err)
		}
	}
	if status, stdout, stderr = command(t, "--workload", "bank", "--sink-uri", server.URI(), "--duration", "200ms", "--verify"); status != allEqual {
		t.Errorf("the tables are not on the playground's record: %d, %s, %s", status, stdout, stderr)
	}
}

func TestCaptureOptionsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ args, why string }{
		{"--captures 0 --workload bank", "want 1 to 16 servers"},
		{"--captures -1 --workload bank", "want 1 to 16 servers"},
		{"--captures 17 --workload bank", "want 1 to 16 servers"},
		{"--captures 3", "give a --workload"},
		{"--captures 3 --recording x", "judged row by row"},
		{"--captures 3 --pd x", "several of `sluice server`"},
		{"--captures 3 --workload bank --sink-uri blackhole://", "blackhole:// would leave nothing to judge"},
		{"--workload bank --script 1s_kill", "belongs to --captures"},
		{"--captures 1 --workload bank --script 1s_kill", "would leave no capture"},
		{"--captures 2 --workload bank --script 1s_kill,2s_drain,3s_join", "would leave no capture"},
		{"--captures 16 --workload bank --script 1s_join", "at most 16"},
		{"--captures 3 --workload bank --script kill", "want times and events"},
		{"--captures 3 --workload bank --script soon_kill", "is no time"},
		{"--captures 3 --workload bank --script 1s_stop", "none of drain, kill, join"},
		{"--captures 3 --workload bank --script 1s_join_leader", "says nothing here"},
		{"--captures 3 --workload bank --script 2s_join,1s_kill", "in their order"},
		{"--captures 3 --workload bank --duration 2s --script 3s_kill", "a longer --duration"},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		if status, _, stderr := command(t, args...); status != couldNotRun || !strings.Contains(stderr, c.why) {
			t.Errorf("%s: status %d, %s", c.args, status, stderr)
		}
	}
}

// The default script can be typed, and leaves somebody at every moment.
func TestDefaultScript(t *testing.T) {
	for n := 1; n <= capturesMax; n++ {
		events := defaultScript(n, 30*time.Second)
		again, err := parseScript(scriptText(events), n)
		if err != nil || !slices.Equal(again, events) {
			t.Errorf("%d captures: %v, %v, %v", n, events, again, err)
		}
	}
}
