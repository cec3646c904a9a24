package agent_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, name string) *fake.Recording {
	t.Helper()
	rec, err := fake.LoadRecording("../testdata/golden/" + name + ".jsonl.gz")
	must(t, err)
	return rec
}

// world is an upstream that replays a recording to whoever comes.
type world struct {
	recording *fake.Recording
	cluster   *fake.Cluster
}

func newWorld(t *testing.T, rec *fake.Recording) *world {
	t.Helper()
	cluster, err := fake.Start(fake.Config{Recording: rec, HoldForSubscriber: true, ResolvedInterval: 5 * time.Millisecond})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cluster.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	return &world{rec, cluster}
}

// live is one life of a capture with the changefeed, until it ends by itself.
func (w *world) live(ctx context.Context, cfg agent.Config, to sink.Sink, loaded func(*agent.Changefeed)) (err error) {
	node := agent.DefaultCapture()
	node.Upstream.PD = w.cluster.PD()
	c, err := agent.Open(ctx, node)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var served errgroup.Group
	served.Go(func() error { return c.Run(ctx) })
	defer func() {
		stop()
		if over := served.Wait(); !errors.Is(over, context.Canceled) {
			err = errors.Join(err, over)
		}
		err = errors.Join(err, c.Close())
	}()
	cfg.Name, cfg.GCService, cfg.ForceReplicate = "test", "test", true
	cfg.StartTS, cfg.TargetTS = w.recording.StartTS, w.recording.EndTS
	f, err := c.Load(ctx, cfg)
	if err != nil {
		return err
	}
	if loaded != nil {
		loaded(f)
	}
	return f.Run(ctx, to)
}

// collector is a sink that keeps what it was given.
type collector struct {
	*blackhole.Sink
	mu         sync.Mutex
	took       map[string]bool
	rows       int
	checkpoint tso.TS
	at         func(tso.TS) // told of every checkpoint
}

func newCollector(t *testing.T) *collector {
	s, err := blackhole.Open("blackhole://")
	must(t, err)
	return &collector{Sink: s, took: map[string]bool{}}
}

func (c *collector) Write(_ context.Context, _ sink.Leave, txns []event.Txn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range txns {
		for _, r := range t.Rows {
			c.took[fmt.Sprintf("%d-%d %X", r.CommitTS, r.StartTS, r.Key)] = true
			c.rows++
		}
	}
	return nil
}

func (c *collector) DDL(_ context.Context, _ sink.Leave, d *event.DDL) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took[fmt.Sprintf("DDL %d", d.JobID)] = true
	return nil
}

func (c *collector) Checkpoint(_ context.Context, ts tso.TS) error {
	c.mu.Lock()
	c.checkpoint = ts
	c.mu.Unlock()
	if c.at != nil {
		c.at(ts)
	}
	return nil
}

const recording = "12_ddl_table"

// A changefeed that was torn off goes on from what was persisted, and nothing is
// missing in what both lives brought. Nothing is persisted that the sink has not.
func TestGoesOnFromWhatWasPersisted(t *testing.T) {
	rec := load(t, recording)
	whole := newCollector(t)
	must(t, newWorld(t, rec).live(t.Context(), agent.Config{}, whole, nil))

	w, both := newWorld(t, rec), newCollector(t)
	var persisted tso.TS
	cfg := agent.Config{SaveEvery: time.Millisecond, Save: func(_ context.Context, checkpoint, resolved tso.TS) error {
		both.mu.Lock()
		defer both.mu.Unlock()
		if checkpoint > both.checkpoint || checkpoint <= persisted || resolved < checkpoint {
			t.Errorf("persisted %d after %d, resolved %d, while %d is downstream", checkpoint, persisted, resolved, both.checkpoint)
		}
		persisted = checkpoint
		return nil
	}}
	lives := 0
	for ; persisted < rec.EndTS; lives++ {
		ctx, tear := context.WithCancel(t.Context())
		left := 6
		both.at = func(tso.TS) {
			if left--; left == 0 && lives < 4 {
				tear()
			}
		}
		cfg.Checkpoint = persisted
		both.checkpoint = persisted
		if err := w.live(ctx, cfg, both, nil); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		tear()
	}
	if !maps.Equal(whole.took, both.took) {
		for k := range whole.took {
			if !both.took[k] {
				t.Errorf("%s is missing", k)
			}
		}
		t.Errorf("%d taken, want %d", len(both.took), len(whole.took))
	}
	t.Logf("%d lives, %d rows of %d", lives, both.rows, whole.rows)
	if lives < 3 {
		t.Errorf("only %d lives", lives)
	}
}

// An etcd that is away stops no writes, and what was written meanwhile is persisted
// when it is back; that somebody else is the owner ends the changefeed.
func TestPersistingFails(t *testing.T) {
	rec := load(t, "16_batch_ddl")
	var tried int
	var persisted []tso.TS
	cfg := agent.Config{SaveEvery: time.Millisecond, Save: func(_ context.Context, checkpoint, _ tso.TS) error {
		if tried++; tried < 4 {
			return cdcerr.MetaUnreachable.New("etcd is away")
		}
		persisted = append(persisted, checkpoint)
		return nil
	}}
	must(t, newWorld(t, rec).live(t.Context(), cfg, newCollector(t), nil))
	if len(persisted) == 0 || persisted[len(persisted)-1] != rec.EndTS || !slices.IsSorted(persisted) {
		t.Errorf("persisted %v, want up to %d", persisted, rec.EndTS)
	}
	cfg.Save = func(context.Context, tso.TS, tso.TS) error { return cdcerr.NotOwner.New("deposed") }
	if err := newWorld(t, rec).live(t.Context(), cfg, newCollector(t), nil); !cdcerr.NotOwner.Is(err) {
		t.Errorf("got %v", err)
	}
}

func TestConfig(t *testing.T) {
	rec := load(t, "16_batch_ddl")
	err := newWorld(t, rec).live(t.Context(), agent.Config{SaveEvery: -1}, newCollector(t), nil)
	if !cdcerr.InvalidArgument.Is(err) {
		t.Errorf("got %v", err)
	}
}
