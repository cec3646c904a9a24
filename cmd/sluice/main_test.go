package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/upstream/fake"
)

// TestMain is the command itself where it is started by a test.
func TestMain(m *testing.M) {
	if os.Getenv("SLUICE_TEST_COMMAND") != "" {
		main()
	}
	os.Exit(m.Run())
}

func command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "SLUICE_TEST_COMMAND=1")
	return c
}

const patience = 3 * time.Minute

var listens = regexp.MustCompile(`msg="server started".* address=(\S+)`)

// The command serves until it is told to end by a signal, and then ends in good
// order; meanwhile another one asks it.
func TestServesUntilASignal(t *testing.T) {
	cluster, err := fake.Start(fake.Config{Stores: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g := new(errgroup.Group)
	g.Go(func() error { return cluster.Run(ctx) })
	defer func() {
		stop()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	config, logs := filepath.Join(dir, "sluice.toml"), filepath.Join(dir, "sluice.log")
	if err := os.WriteFile(config, []byte("[meta]\nbackend = \"embedded\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pd := "http://" + strings.TrimPrefix(cluster.PD()[0], "http://")
	server := command("server", "--config", config, "--pd", pd, "--addr", "127.0.0.1:0", "--advertise-addr", "127.0.0.1:8300",
		"--data-dir", filepath.Join(dir, "data"), "--log-file", logs)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill() }() // it has ended where all is well
	address := await(t, logs, listens)
	res, err := http.Get("http://" + address + "/status")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	await(t, logs, regexp.MustCompile(`msg="joined the cluster"()`))
	out, err := command("cli", "tso", "query", "--server", address).Output()
	if err != nil || !regexp.MustCompile(`^\d{18}\n$`).Match(out) {
		t.Errorf("tso query: %q, %v", out, err)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("told to end: %v", err)
	}
	text, err := os.ReadFile(logs)
	if err != nil || !strings.Contains(string(text), "server stopped") || strings.Contains(string(text), "level=ERROR") {
		t.Errorf("%v\n%s", err, text)
	}
}

// Where the end in good order does not come, a second signal ends the command at
// once. Here it reads a file whose end never comes, which nothing interrupts.
func TestSecondSignal(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "sluice.toml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	server := command("server", "--config", fifo)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	// It opens once the command reads: signals are looked at by then.
	writer, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
				t.Errorf("ended with %v", err)
			}
			return
		case <-again.C:
			_ = server.Process.Signal(syscall.SIGTERM) // it may have ended meanwhile
		}
	}
	_ = server.Process.Kill()
	t.Fatal("no number of signals ends it")
}

// await reads a log until something is in it, and returns what its first group is.
func await(t *testing.T, path string, what *regexp.Regexp) string {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-look.C {
		text, err := os.ReadFile(path)
		if m := what.FindSubmatch(text); err == nil && m != nil {
			return string(m[1])
		}
	}
	text, err := os.ReadFile(path)
	t.Fatalf("never: %v\n%v\n%s", what, err, text)
	return ""
}
