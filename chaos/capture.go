package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// Capture is what a process is told that runs one changefeed from its persisted
// checkpoint on.
type Capture struct {
	ID       capture.ID
	PD       []string
	Meta     meta.Config
	Session  time.Duration
	StartTS  tso.TS
	TargetTS tso.TS // 0: it runs until it is told to end
	Journal  string // the directory of what it delivered
	SinkURI  string // empty: nothing but the journal
	Memory   int64  // of the sorter, in bytes
	DataDir  string // of the sorter; empty: in memory only
}

// feedID is the one changefeed of a run.
func feedID() meta.ChangefeedID {
	return meta.ChangefeedID{Namespace: meta.DefaultNamespace, Name: "chaos"}
}

// RunCapture is the process: it stands for election, runs the changefeed as long as
// it leads, and is done when the target-ts is reached or ctx ends. What may be
// retried is; the rest is its error. Each checkpoint that it begins
// from, and that was persisted, is told to progress, a line each.
func RunCapture(ctx context.Context, c Capture, progress io.Writer, log *slog.Logger) (err error) {
	c.Meta.Log = log
	store, err := meta.Open(ctx, c.Meta)
	if err != nil {
		return err
	}
	defer store.Close()
	session, err := store.NewSession(ctx, c.ID, c.Session)
	if err != nil {
		return err
	}
	g, serving := errgroup.WithContext(ctx)
	g.Go(func() error { return store.Run(serving) })
	g.Go(func() error { return session.Run(serving) })
	p := &process{Capture: c, store: store, session: session, progress: progress, log: log}
	g.Go(func() error { return p.watchBounds(serving) })
	g.Go(func() error {
		if err := p.lead(serving); err != nil {
			return err
		}
		return errDone
	})
	if err := g.Wait(); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

var errDone = errors.New("the target-ts is reached")

// process is a capture while its session lives.
type process struct {
	Capture
	store    *meta.Store
	session  *meta.Session
	progress io.Writer
	log      *slog.Logger
	node     atomic.Pointer[agent.Capture] // nil between two tries
}

// lead waits for its turn, then tries until the changefeed is done.
func (p *process) lead(ctx context.Context) error {
	if err := p.session.Register(ctx, capture.Info{ID: p.ID, Version: "0.0.0"}); err != nil {
		return err
	}
	leader, err := p.session.Campaign(ctx)
	if err != nil {
		return err
	}
	pause := pauseMin
	for {
		begun := time.Now()
		err := p.once(ctx, leader)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case cdcerr.Fate(err) != cdcerr.Retry, cdcerr.NotOwner.Is(err):
			return err
		case time.Since(begun) > pauseMax:
			pause = pauseMin // it went well for a while
		}
		p.log.Warn("trying again", "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		pause = min(2*pause, pauseMax)
	}
}

// The pauses between two tries: short, so that a run meets many of them.
const (
	pauseMin = 50 * time.Millisecond
	pauseMax = 2 * time.Second
)

// changefeed reads what is persisted; the first capture creates it.
func (p *process) changefeed(ctx context.Context, f meta.Fence) (*meta.Changefeed, error) {
	now, err := p.store.Changefeed(ctx, feedID())
	if cdcerr.ChangefeedNotFound.Is(err) {
		info, err := json.Marshal(map[string]any{"start-ts": p.StartTS, "sink-uri": p.SinkURI})
		if err != nil {
			return nil, err
		}
		return p.store.CreateChangefeed(ctx, f, feedID(), info,
			meta.Status{CheckpointTS: p.StartTS.Prev(), ResolvedTS: p.StartTS.Prev(), Epoch: 1, State: "normal"})
	}
	if err == nil {
		err = now.Err
	}
	return now, err
}

// once runs the changefeed until something fails.
func (p *process) once(ctx context.Context, leader *meta.Leadership) (err error) {
	feed, err := p.changefeed(ctx, leader.Fence)
	if err != nil {
		return err
	}
	checkpoint := feed.Status.CheckpointTS
	if p.TargetTS != 0 && checkpoint >= p.TargetTS {
		return nil
	}
	node, err := agent.Open(ctx, p.upstream())
	if err != nil {
		return err
	}
	p.node.Store(node)
	ctx, stop := context.WithCancel(ctx)
	var served errgroup.Group
	served.Go(func() error { return node.Run(ctx) })
	defer func() {
		stop()
		if over := served.Wait(); !errors.Is(over, context.Canceled) {
			err = errors.Join(err, over)
		}
		p.node.Store(nil)
		err = errors.Join(err, node.Close())
	}()
	if _, err := fmt.Fprintf(p.progress, "begin %d\n", checkpoint); err != nil {
		return err
	}
	track := p.store.Track(leader.Fence, feed)
	changefeed, err := node.Load(ctx, p.config(checkpoint, leader, track))
	if err != nil {
		return err
	}
	to, err := p.sink(ctx, changefeed, checkpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return changefeed.Run(ctx, to)
}

// config is the changefeed from a checkpoint on.
func (p *process) config(checkpoint tso.TS, leader *meta.Leadership, track *meta.Track) agent.Config {
	cfg := agent.Default()
	cfg.Name, cfg.GCService = feedID().Name, "sluice-chaos"
	cfg.StartTS, cfg.TargetTS, cfg.ForceReplicate, cfg.Log = p.StartTS, p.TargetTS, true, p.log
	cfg.SaveEvery = 50 * time.Millisecond
	if checkpoint >= p.StartTS {
		cfg.Checkpoint = checkpoint
	}
	cfg.Grant = func() sink.Grant {
		return sink.Grant{Deadline: time.Now().Add(p.session.Left()), Epoch: 1, Fence: uint64(leader.Revision())}
	}
	cfg.Save = func(ctx context.Context, checkpoint, resolved tso.TS) error {
		if err := track.Advance(ctx, checkpoint, resolved); err != nil {
			return err
		}
		_, err := fmt.Fprintf(p.progress, "saved %d\n", checkpoint)
		return err
	}
	return cfg
}

// upstream is a client that is quick to judge, as befits a cluster whose faults are
// over in a second.
func (p *process) upstream() agent.CaptureConfig {
	cfg := agent.CaptureConfig{Upstream: upstream.Default(), Sorter: sorter.Default()}
	u := &cfg.Upstream
	u.PD, u.Log = p.PD, p.log
	u.OpenTimeout, u.TSOTimeout = 3*time.Second, 3*time.Second
	u.StuckAfter, u.SearchEvery = 300*time.Millisecond, 300*time.Millisecond
	u.SlowAfter, u.RenewAfter, u.SilentAfter, u.UnansweredAfter = time.Second, 3*time.Second, 2*time.Second, 5*time.Second
	cfg.Sorter.MemoryQuota, cfg.Sorter.Dir, cfg.Sorter.Log = p.Memory, p.DataDir, p.log
	return cfg
}

// sink is the journal, and the downstream that it stands before.
func (p *process) sink(ctx context.Context, f *agent.Changefeed, checkpoint tso.TS) (sink.Sink, error) {
	from := beginning{StartTS: f.StartTS, Tables: f.Tables}
	if checkpoint >= p.StartTS {
		from.Checkpoint = checkpoint
	}
	for _, db := range f.Databases {
		from.Databases = append(from.Databases, db.Name)
	}
	var behind sink.Sink
	if p.SinkURI != "" {
		var err error
		if behind, err = downstream.Open(ctx, p.SinkURI, downstream.Config{
			Snapshot: f.Snapshot(), Cluster: "chaos", Changefeed: feedID().Name, Life: p.Journal, Log: p.log,
		}); err != nil {
			return nil, err
		}
		if from.Checkpoint == 0 {
			if err := f.CopyStart(ctx, behind); err != nil {
				return nil, errors.Join(err, behind.Close())
			}
		}
	}
	return openJournal(p.Journal, from, behind)
}

// The bounds of a process that keeps its queues bounded.
const (
	// A cluster of sixty regions, one store's streams, two tables of jobs: each
	// subscription has two goroutines, each stream three.
	goroutinesMax = 1500
	// What the sorter holds beyond its quota: a batch that is on its way in.
	beyondQuota = 8 << 20
)

// watchBounds looks again and again at what may only grow so far.
func (p *process) watchBounds(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if n := runtime.NumGoroutine(); n > goroutinesMax {
			return cdcerr.Bug("%d goroutines", n)
		}
		if node := p.node.Load(); node != nil && p.DataDir != "" {
			if used := node.Used(); used.Memory+used.Lent > p.Memory+beyondQuota {
				return cdcerr.Bug("the sorter holds %d bytes of rows and %d of prewrites, its quota is %d", used.Memory, used.Lent, p.Memory)
			}
		}
	}
}
