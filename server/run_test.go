package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/server"
	"github.com/sluice-cdc/sluice/transport"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; a test that needs it has failed.
const patience = 3 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// running is a server on a fake PD with metadata of its own.
type running struct {
	address string
	leave   context.CancelFunc
	done    chan error
	logs    *lines
	client  *http.Client
	scheme  string
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func config(t *testing.T) server.Config {
	cluster, err := fake.Start(fake.Config{Stores: 1})
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
	cfg := server.Default()
	cfg.PD = nil
	for _, e := range cluster.PD() {
		cfg.PD = append(cfg.PD, "http://"+strings.TrimPrefix(e, "http://"))
	}
	cfg.Addr, cfg.AdvertiseAddr, cfg.DataDir = "127.0.0.1:0", "127.0.0.1:8300", t.TempDir()
	cfg.Meta.Backend = "embedded"
	return cfg
}

func start(t *testing.T, cfg server.Config, plane func(context.Context, server.Given) (server.Plane, error)) *running {
	return startWith(t, cfg, plane, nil)
}

// startWith starts a server that is cut when cut is closed.
func startWith(t *testing.T, cfg server.Config, plane func(context.Context, server.Given) (server.Plane, error), cut <-chan struct{}) *running {
	ctx, leave := context.WithCancel(context.Background())
	r := &running{leave: leave, done: make(chan error, 1), logs: &lines{}, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, scheme: "http"}
	bound := make(chan string, 1)
	parts := server.Parts{Version: "1.0.0", GitHash: "abc", PID: 42, Plane: plane, Cut: cut, Stderr: r.logs,
		Listening: func(a net.Addr) { bound <- a.String() }}
	g := new(errgroup.Group)
	g.Go(func() error {
		r.done <- server.Run(ctx, cfg, parts)
		return nil
	})
	t.Cleanup(func() {
		leave()
		_ = g.Wait() // has no error
		if t.Failed() {
			t.Log(r.logs.String())
		}
	})
	select {
	case r.address = <-bound:
	case err := <-r.done:
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("not listening")
	}
	return r
}

// get asks until the answer is as wanted.
func (r *running) get(t *testing.T, path string, want func(status int, body string) bool) string {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		res, err := r.client.Get(r.scheme + "://" + r.address + path)
		must(t, err)
		body, err := io.ReadAll(res.Body)
		must(t, err)
		must(t, res.Body.Close())
		if want(res.StatusCode, string(body)) {
			return string(body)
		}
		if time.Now().After(end) {
			t.Fatalf("GET %s: %d %s", path, res.StatusCode, body)
		}
	}
}

func (r *running) stop(t *testing.T) error {
	t.Helper()
	r.leave()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		t.Fatal("does not end")
		return nil
	}
}

func ok(status int, _ string) bool { return status == http.StatusOK }

// plane is a control plane that replicates nothing.
type plane struct {
	api.Node
	given server.Given
	leave chan struct{} // closed when Run was told to leave
	hand  chan struct{} // Run returns when it can read
	fail  error
}

func (p *plane) Self() api.Self {
	return api.Self{Info: p.given.Self, ClusterID: "default", Owner: true}
}
func (p *plane) Owner(context.Context) (capture.Info, error) { return p.given.Self, nil }
func (p *plane) Work() []api.Work                            { return nil }
func (p *plane) Health(context.Context) error                { return nil }
func (p *plane) Captures(ctx context.Context) ([]capture.Info, error) {
	return p.given.Store.Captures(ctx)
}
func (p *plane) List(context.Context) ([]api.Feed, error) {
	now, err := p.given.Capture.Client.TS(context.Background())
	return []api.Feed{{ID: api.FeedID{Keyspace: "default", Name: "orders"}, State: "warning", Checkpoint: tso.At(now.Time().Add(-time.Minute)),
		Resolved: tso.At(now.Time().Add(-time.Second)), Tasks: []api.TaskStatus{{CaptureID: "c", Tables: 2}}}}, err
}

func (p *plane) Run(ctx context.Context, leave <-chan struct{}) error {
	if p.fail != nil {
		return p.fail
	}
	select {
	case <-leave:
		close(p.leave)
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-p.hand:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A server without a control plane is a member that says what it lacks.
func TestWithoutPlane(t *testing.T) {
	t.Parallel() // it waits more than it works
	r := start(t, config(t), nil)
	body := r.get(t, "/status", ok)
	var status api.ServerStatus
	must(t, json.Unmarshal([]byte(body), &status))
	if status.Version != "1.0.0" || status.PID != 42 || status.ClusterID != "default" || status.IsOwner {
		t.Fatalf("%+v", status)
	}
	r.get(t, "/api/v2/health", func(status int, body string) bool {
		return status == http.StatusServiceUnavailable && strings.Contains(body, "has no control plane")
	})
	// PD is there, and the API passes its timestamps on.
	for end := time.Now().Add(patience); ; {
		res, err := r.client.Post("http://"+r.address+"/api/v2/tso", "application/json", nil)
		must(t, err)
		must(t, res.Body.Close())
		if res.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no timestamp")
		}
	}
	metrics := r.get(t, "/metrics", func(status int, body string) bool {
		return status == http.StatusOK && strings.Contains(body, "ticdc_subscription_client_subscribed_region_count 0")
	})
	for _, name := range []string{
		"ticdc_server_build_info{", "ticdc_server_go_max_procs ", "ticdc_server_go_gc ", "ticdc_sorter_in_memory_data_size_gauge 0",
		"ticdc_owner_ownership_counter 0", "go_memstats_heap_alloc_bytes ", "process_cpu_seconds_total ",
	} {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("metrics lack %s", name)
		}
	}
	r.get(t, "/status", func(int, string) bool { return strings.Contains(r.logs.String(), "replicates nothing") })
	r.get(t, "/debug/pprof/goroutine?debug=1", func(status int, body string) bool { return ok(status, body) && strings.Contains(body, "server.Run") })
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	if log := r.logs.String(); !strings.Contains(log, "replicates nothing") || strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
}

// The API speaks for the control plane, and goes on while it hands over.
func TestHandsOver(t *testing.T) {
	t.Parallel() // it waits more than it works
	made := make(chan *plane, 1)
	r := start(t, config(t), func(_ context.Context, g server.Given) (server.Plane, error) {
		p := &plane{given: g, leave: make(chan struct{}), hand: make(chan struct{})}
		made <- p
		return p, nil
	})
	var p *plane
	select {
	case p = <-made:
	case <-time.After(patience):
		t.Fatal("no plane")
	}
	r.get(t, "/api/v2/health", ok)
	if body := r.get(t, "/api/v1/captures", ok); !strings.Contains(body, string(p.given.Self.ID)) || !strings.Contains(body, `"is_owner":true`) {
		t.Fatal(body)
	}
	metrics := r.get(t, "/metrics", ok)
	for _, line := range []string{
		`ticdc_owner_status{changefeed="orders",namespace="default"} 6`, `ticdc_owner_checkpoint_ts_lag{changefeed="orders",namespace="default"} 60`,
		`ticdc_owner_resolved_ts_lag{changefeed="orders",namespace="default"} 1`, `ticdc_processor_num_of_tables{capture="c",changefeed="orders",namespace="default"} 2`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	calls(t, p.given.Self.ID, r.address)
	r.leave()
	select {
	case <-p.leave:
	case <-time.After(patience):
		t.Fatal("not told to leave")
	}
	// Handing over, the node still answers, is a member, and reads PD.
	r.get(t, "/api/v2/health", ok)
	r.get(t, "/api/v1/captures", func(_ int, body string) bool { return strings.Contains(body, string(p.given.Self.ID)) })
	if _, err := p.given.Capture.Client.TS(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := p.given.Transport.Counts(); n.Callers != 1 || n.Unclaimed != 1 {
		t.Errorf("%+v", n)
	}
	close(p.hand)
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
}

// A server that is cut hands nothing over, and its session is left to run out.
func TestCut(t *testing.T) {
	t.Parallel() // it waits more than it works
	etcd := meta.Default()
	etcd.Backend, etcd.Embedded.DataDir = meta.BackendEmbedded, t.TempDir()
	store, err := meta.Open(t.Context(), etcd)
	must(t, err)
	defer store.Close()
	cfg := config(t)
	cfg.Meta.Backend, cfg.Meta.Endpoints, cfg.ClusterID = meta.BackendExternal, store.Endpoints(), etcd.Cluster
	cut, told, ran, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan error, 1)
	parts := server.Parts{Version: "1.0.0", Stderr: io.Discard, Cut: cut, Plane: func(_ context.Context, g server.Given) (server.Plane, error) {
		close(ran)
		return &plane{given: g, leave: told, hand: make(chan struct{})}, nil
	}}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	g := new(errgroup.Group)
	g.Go(func() error {
		ended <- server.Run(ctx, cfg, parts)
		return nil
	})
	<-ran
	close(cut)
	must(t, <-ended)
	must(t, g.Wait())
	select {
	case <-told:
		t.Error("it was told to hand over")
	default:
	}
	all, err := store.Captures(t.Context())
	must(t, err)
	if len(all) != 1 {
		t.Errorf("etcd was told of its end: %+v", all)
	}
}

// calls is another capture that has said something to this one, which nobody takes.
func calls(t *testing.T, id capture.ID, address string) {
	cfg := transport.Default()
	cfg.Self, cfg.Cluster = "other", "default"
	other, err := transport.New(cfg)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	g := new(errgroup.Group)
	g.Go(func() error { return other.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		_ = g.Wait() // it was told to end
	})
	other.SetPeers([]capture.Info{{ID: id, Address: address}})
	must(t, other.Send(id, transport.Message{Orders: &scheduler.Orders{Head: scheduler.Head{Capture: id}}}))
	for end := time.Now().Add(patience); other.Counts().Refused == 0; {
		if time.Now().After(end) {
			t.Fatalf("%+v", other.Peers())
		}
		<-time.After(time.Millisecond)
	}
}

// Whoever loses its session begins anew under another name, and what is terminal
// ends the server.
func TestBeginsAnew(t *testing.T) {
	t.Parallel() // it waits more than it works
	ids := make(chan capture.ID, 3)
	fates := []error{cdcerr.SessionLost.New("test"), cdcerr.ServerListen.New("also"), cdcerr.Bug("broken")}
	n := 0
	r := start(t, config(t), func(_ context.Context, g server.Given) (server.Plane, error) {
		ids <- g.Self.ID
		n++
		return &plane{given: g, fail: fates[n-1]}, nil
	})
	select {
	case err := <-r.done:
		if !cdcerr.Unexpected.Is(err) {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("lives on")
	}
	a, b, c := <-ids, <-ids, <-ids
	if a == b || b == c || a == "" {
		t.Fatalf("%s, %s, %s", a, b, c)
	}
}

// What keeps a server from starting is said with a code.
func TestRefusals(t *testing.T) {
	t.Parallel() // it waits more than it works
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	for name, c := range map[string]struct {
		change func(*server.Config)
		code   *cdcerr.Code
	}{
		"taken address": {func(c *server.Config) { c.Addr = l.Addr().String() }, cdcerr.ServerListen},
		"dead PD":       {func(c *server.Config) { c.PD = []string{"http://127.0.0.1:1"} }, cdcerr.PDUnreachable},
		"no data dir":   {func(c *server.Config) { c.DataDir = "/proc/none" }, cdcerr.ServerConfigInvalid},
		"bad level":     {func(c *server.Config) { c.LogLevel = "loud" }, cdcerr.ServerConfigInvalid},
		"no log file":   {func(c *server.Config) { c.LogFile = "/proc/none/x.log" }, cdcerr.ServerConfigInvalid},
	} {
		cfg := config(t)
		c.change(&cfg)
		err := server.Run(t.Context(), cfg, server.Parts{Stderr: io.Discard})
		if !c.code.Is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Where there is a log file, the reason stands in it too.
	cfg := config(t)
	cfg.Addr, cfg.LogFile = l.Addr().String(), filepath.Join(t.TempDir(), "log")
	if err := server.Run(t.Context(), cfg, server.Parts{Stderr: io.Discard}); !cdcerr.ServerListen.Is(err) {
		t.Error(err)
	}
	text, err := os.ReadFile(cfg.LogFile)
	must(t, err)
	if got := string(text); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "CDC:ErrServeHTTP") {
		t.Errorf("the log: %s", got)
	}
}
