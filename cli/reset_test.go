package cli_test

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cli"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// A cluster without servers is forgotten, one with a server is not.
func TestReset(t *testing.T) {
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
	cfg := meta.Default()
	cfg.Backend, cfg.Embedded.DataDir = meta.BackendEmbedded, t.TempDir()
	store, err := meta.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	session, err := store.NewSession(t.Context(), "a", 10*time.Second)
	if err == nil {
		err = session.Register(t.Context(), capture.Info{ID: "a", Address: "127.0.0.1:8300"})
	}
	if err != nil {
		t.Fatal(err)
	}
	reset := func() (int, string) {
		var out bytes.Buffer
		status := cli.Main(t.Context(), []string{"cli", "unsafe", "reset", "--no-confirm", "--pd", "http://" + strings.TrimPrefix(cluster.PD()[0], "http://"),
			"--meta-endpoints", strings.Join(store.Endpoints(), ",")}, cli.Env{In: strings.NewReader(""), Out: &out, Err: &out,
			Getenv: func(string) string { return "" }})
		return status, out.String()
	}
	if status, out := reset(); status != cli.StatusTyped || !strings.Contains(out, "stop every server first: a") {
		t.Fatalf("%d %s", status, out)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if err := session.Run(over); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if status, out := reset(); status != cli.StatusDone || !regexp.MustCompile(`^[1-9]\d* keys of cluster default are removed`).MatchString(out) {
		t.Fatalf("%d %s", status, out)
	}
}
