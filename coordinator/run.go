package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/tso"
)

// leaseMargin is how long before the session's end the leave to write ends: what
// is on its way to the downstream then arrives before another capture may write (P1).
const leaseMargin = 500 * time.Millisecond

// run is one run of a changefeed on this capture, from a checkpoint on.
type run struct {
	number uint64
	loaded atomic.Pointer[agent.Changefeed] // nil until its schema is known
	stop   context.CancelFunc
	done   chan struct{} // closed when nothing of it goes on

	mu      sync.Mutex
	counted count // guarded by mu
}

// beginRun starts a run beside the loop, which ends it.
func (f *feed) beginRun(ctx context.Context, s changefeed.Start) {
	ctx, stop := context.WithCancel(ctx)
	r := &run{number: s.Run, stop: stop, done: make(chan struct{})}
	f.mu.Lock()
	info := f.life.Info()
	f.run = r
	f.mu.Unlock()
	f.log.Info("changefeed runs", "checkpoint-ts", s.CheckpointTS, "epoch", s.Epoch, "run", s.Run)
	f.reign.group.Go(func() error {
		defer close(r.done)
		defer stop()
		err := f.replicate(ctx, r, info, s)
		f.mu.Lock()
		if f.run == r {
			f.run = nil
		}
		f.mu.Unlock()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			f.tally.add(func(t *api.Tally) { t.RunErrors++ })
			f.log.Warn("the run ended", "run", s.Run, "error", err)
			f.report(changefeed.Report{Run: s.Run, Err: changefeed.NewFault(err, f.reign.cfg.Self.Address, f.reign.cfg.Now())})
		default:
			f.report(changefeed.Report{Run: s.Run, Done: true})
		}
		return nil
	})
}

// endRun ends the run, if there is one, and waits: nothing of it writes afterwards.
func (f *feed) endRun() {
	f.mu.Lock()
	r := f.run
	f.run = nil
	f.mu.Unlock()
	if r != nil {
		r.stop()
		<-r.done
	}
}

// replicate is a run: nil when the target-ts is reached.
func (f *feed) replicate(ctx context.Context, r *run, info changefeed.Info, s changefeed.Start) (err error) {
	c := f.reign.cfg
	cfg := info.Config
	ac := agent.Config{
		Name: info.ID().String(), StartTS: info.StartTS, Checkpoint: s.CheckpointTS, TargetTS: info.TargetTS,
		Filter: cfg.FilterConfig(c.Zone), ForceReplicate: cfg.ForceReplicate, FilterLoop: cfg.BDRMode,
		Save: func(ctx context.Context, checkpoint, resolved tso.TS) error {
			return f.save(ctx, s.Run, checkpoint, resolved)
		},
		SaveEvery: c.SaveEvery,
		Grant:     func() sink.Grant { return f.grant(s.Epoch) },
		Log:       f.log,
	}
	if s.CheckpointTS < info.StartTS { // an operator set it further back
		ac.StartTS = s.CheckpointTS.Next()
	}
	if cfg.EnableSyncPoint {
		ac.SyncPoints = time.Duration(cfg.SyncPointInterval)
	}
	// The hold comes before the first read (P7).
	if err := f.reign.holdFor(ctx, s.CheckpointTS.Prev()); err != nil {
		return err
	}
	loaded, err := c.Capture.Load(ctx, ac)
	if err != nil {
		return err
	}
	uri, notes, err := cfg.Handed(info.SinkURI)
	if err != nil {
		return err
	}
	for _, n := range notes {
		f.log.Warn(n)
	}
	// Earlier runs have ended, or may not write any more: what comes from now on they
	// have not written.
	now, err := c.Capture.Client.TS(ctx)
	if err != nil {
		return err
	}
	down := f.reign.downstream(&info, s.Epoch)
	down.Snapshot, down.Log, down.Replayed = loaded.Snapshot(), f.log, func() tso.TS { return now }
	down.Spared = loaded.Filter.LeavesUpdates
	down.Warn = func(err error) {
		f.tally.add(func(t *api.Tally) { t.SinkErrors++ })
		p := loaded.Progress()
		f.warn(s.Run, p.Checkpoint, max(p.Checkpoint, p.Resolved), err)
	}
	to, err := downstream.Open(ctx, uri.Reveal(), down)
	if err != nil {
		return f.tally.failed(ctx, err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	r.loaded.Store(loaded)
	return loaded.Run(ctx, counted{to, f.tally, f.reign.cfg.Now})
}

// warn shows what a run rides out. It is over when the checkpoint passes where it
// stands now.
func (f *feed) warn(number uint64, checkpoint, resolved tso.TS, err error) {
	fault := changefeed.NewFault(err, f.reign.cfg.Self.Address, f.reign.cfg.Now())
	f.report(changefeed.Report{Run: number, CheckpointTS: checkpoint, ResolvedTS: resolved, Warning: fault})
}

// downstream is what a changefeed's downstream is told of it in an epoch.
func (r *reign) downstream(info *changefeed.Info, epoch uint64) downstream.Config {
	return downstream.Config{
		Cluster: r.cfg.ClusterID, Changefeed: info.ID().String(), SyncPointRetention: time.Duration(info.Config.SyncPointRetention), BDR: info.Config.BDRMode,
		Upstream: info.UpstreamID, Life: fmt.Sprintf("%s/%d", info.CreateTime.UTC().Format(time.RFC3339Nano), epoch), Log: r.cfg.Log,
	}
}

// grant is the leave to write as it stands: this capture's session gives it.
func (f *feed) grant(epoch uint64) sink.Grant {
	return sink.Grant{Deadline: time.Now().Add(f.reign.cfg.Session.Left() - leaseMargin), Epoch: epoch, Fence: uint64(f.reign.fence.Revision())}
}

// save persists how far a run is.
func (f *feed) save(ctx context.Context, number uint64, checkpoint, resolved tso.TS) error {
	f.report(changefeed.Report{Run: number, CheckpointTS: checkpoint, ResolvedTS: resolved})
	return f.persist(ctx)
}

// count is how many tables a run replicates, as of when it was looked.
type count struct {
	tables  int
	at      tso.TS // the checkpoint then
	ddls    uint64 // how many were carried out by then
	settled bool   // and the checkpoint had passed them
}

// count is len(tables()), which is counted only when a DDL may have changed it:
// every scrape of the metrics asks.
func (r *run) count() int {
	loaded := r.loaded.Load()
	if loaded == nil {
		return 0
	}
	p := loaded.Progress()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch c := &r.counted; {
	case c.at == 0 || c.ddls != p.DDLs:
		*c = count{tables: len(r.tables()), at: p.Checkpoint, ddls: p.DDLs}
	case !c.settled && p.Checkpoint > c.at:
		// The DDL was there before the checkpoint that shows it.
		c.tables, c.settled = len(r.tables()), true
	}
	return r.counted.tables
}

// tables are the tables that the run replicates, by id.
func (r *run) tables() (out []int64) {
	loaded := r.loaded.Load()
	if loaded == nil {
		return nil
	}
	for _, t := range loaded.Feed.Tables(loaded.Progress().Checkpoint) {
		if loaded.Filter.Table(t.Schema, t.Name) {
			out = append(out, t.PhysicalIDs()...)
		}
	}
	return out
}
