package playground

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/upstream/fake"
)

// A cluster that goes on after what it was recorded to do is followed until the
// command is told to end; what it wrote is downstream by then.
func TestFollowARunningCluster(t *testing.T) {
	recording, err := fake.LoadRecording(golden + "/09_conflict.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := fake.Start(fake.Config{Recording: recording, HoldForSubscriber: true})
	if err != nil {
		t.Fatal(err)
	}
	e := serve(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cluster.Run(ctx) })
	words, stderr := io.Pipe()
	var stdout bytes.Buffer
	status := allEqual
	command, stop := context.WithCancel(ctx)
	g.Go(func() error {
		defer stderr.Close()
		status = Main(command, []string{"--pd", strings.Join(cluster.PD(), ","), "--sink-uri", e.URI()}, &stdout, stderr)
		return nil
	})
	after := recording.EndTS.Time().Format("15:04:05.000")
	lines := bufio.NewScanner(words)
	for lines.Scan() {
		_, rest, found := strings.Cut(lines.Text(), "checkpoint ")
		if at, _, _ := strings.Cut(rest, " "); found && at > after {
			break
		}
	}
	var n int
	if err := client(t, e).QueryRow("SELECT v FROM test.c1 WHERE id = 1").Scan(&n); err != nil || n != 777 {
		t.Errorf("v = %d, %v", n, err)
	}
	stop()
	for lines.Scan() {
		t.Log(lines.Text()) // a full pipe would hold the command
	}
	end()
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if status != allEqual || stdout.Len() > 0 {
		t.Errorf("status %d, stdout %q", status, stdout.String())
	}
}

// A recording and a cluster are two things.
func TestOneUpstreamAtATime(t *testing.T) {
	for _, args := range [][]string{
		{"--pd", "127.0.0.1:1", "--verify"},
		{"--pd", "127.0.0.1:1", "--recording", golden},
		{"--pd", "127.0.0.1:1", "--speed", "1"},
		{"--filter", "a.*"},
		{"--ca", "ca.pem", "--verify"},
	} {
		if status, _, stderr := command(t, args...); status != couldNotRun || !strings.Contains(stderr, "--pd") {
			t.Errorf("%v: status %d, %q", args, status, stderr)
		}
	}
	status, _, stderr := command(t, "--pd", "127.0.0.1:1", "--filter", "a[", "--sink-uri", "blackhole://")
	if status != couldNotRun || !strings.Contains(stderr, "a[") {
		t.Errorf("status %d, %q", status, stderr)
	}
}
