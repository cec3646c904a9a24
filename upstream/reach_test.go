package upstream_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// A cluster is lost when neither PD nor any store says a word; each of them alone keeps it.
func TestReached(t *testing.T) {
	cluster, err := fake.Start(fake.Config{Stores: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	g := new(errgroup.Group)
	g.Go(func() error { return cluster.Run(ctx) })
	defer func() {
		stop()
		_ = g.Wait() // it was told to end
	}()
	cfg := upstream.Default()
	cfg.PD = cluster.PD()
	c, err := upstream.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	where, err := c.Addresses(ctx)
	if err != nil || len(where.PD) != 1 || !slices.Equal(where.Stores, slices.Sorted(slices.Values(cluster.Stores()))) {
		t.Fatalf("%+v, %v", where, err)
	}
	absent, err := upstream.Absent(cfg, c.ClusterID())
	if err != nil {
		t.Fatal(err)
	}
	defer absent.Close()
	want := func(what string, want bool) {
		t.Helper()
		look := time.NewTicker(100 * time.Millisecond)
		defer look.Stop()
		for begun := time.Now(); !want && c.Reached(ctx, where) && time.Since(begun) < time.Minute; { // PD has just answered it
			<-look.C
		}
		if c.Reached(ctx, where) != want || absent.Reached(ctx, where) != want {
			t.Errorf("%s: reached %v, by who never was there %v", what, c.Reached(ctx, where), absent.Reached(ctx, where))
		}
	}
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	want("all of it", true)
	must(cluster.StopStore(ctx, 1), cluster.StopStore(ctx, 2))
	want("PD alone", true)
	must(cluster.StopPD(ctx, 0))
	want("nothing", false)
	must(cluster.StartStore(2))
	want("one store", true)
	must(cluster.StopStore(ctx, 2), cluster.StartPD(0))
	want("PD again", true)
	// PD's client goes on as before.
	if _, err := c.TS(ctx); err != nil {
		t.Error(err)
	}
}

// A port that takes connections and says nothing is not the cluster; one that refuses our
// certificate may be.
func TestAnAnswerIsAByte(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for nothing to be said")
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	if upstream.AnyAnswers(t.Context(), upstream.TLS{}, []string{mute.Addr().String()}) {
		t.Error("a port that says nothing answers")
	}
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := new(errgroup.Group)
	g.Go(func() error {
		conn, err := refusing.Accept()
		if err != nil {
			return err
		}
		_, err = conn.Write([]byte{21, 3, 3, 0, 2, 2, 46}) // an alert: certificate unknown
		return err
	})
	all := []string{mute.Addr().String(), refusing.Addr().String()}
	if !upstream.AnyAnswers(t.Context(), upstream.TLS{CA: "there is no such file"}, all) {
		t.Error("who refuses a handshake is taken for dead")
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	refusing.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	if !upstream.AnyAnswers(t.Context(), upstream.TLS{}, []string{secure.Listener.Addr().String()}) {
		t.Error("who speaks TLS is taken for dead by who was told of none")
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	if !upstream.AnyAnswers(t.Context(), upstream.TLS{CA: "x"}, []string{plain.Listener.Addr().String()}) {
		t.Error("who speaks no TLS is taken for dead by who was told of some")
	}
	if upstream.AnyAnswers(t.Context(), upstream.TLS{}, []string{refusing.Addr().String()}) {
		t.Error("a port that nobody has answers")
	}
}

// Whatever is asked of a cluster that was never there is refused as by a PD that is away.
func TestAbsent(t *testing.T) {
	cfg := upstream.Default()
	cfg.PD = []string{"127.0.0.1:1"}
	c, err := upstream.Absent(cfg, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.ClusterID() != 7 || !c.Absent() {
		t.Errorf("cluster %d, absent %v", c.ClusterID(), c.Absent())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, noTime := c.TS(ctx)
	_, noHold := c.HoldGC(cancelled(ctx), "sluice", time.Hour, 9)
	_, noRelease := c.ReleaseGC(cancelled(ctx), "sluice")
	_, nowhere := c.Addresses(ctx)
	for _, err := range []error{noTime, noHold, noRelease, nowhere} {
		if !cdcerr.PDUnreachable.Is(err) {
			t.Error(err)
		}
	}
	for what, err := range map[string]error{
		"locks": c.ResolveLocks(ctx, 3, 9), "TiDBs": func() error { _, err := c.TiDBs(ctx); return err }(),
		"rows": c.Scan(cancelled(ctx), nil, nil, 9, func(_, _ []byte) error { return nil }),
	} {
		if err == nil {
			t.Errorf("%s are found", what)
		}
	}
}

// cancelled is a context with which nothing is tried twice.
func cancelled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
