package coordinator

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/tso"
)

// tickEvery is how often a changefeed's life is asked what follows of the time
// that went by: retries have whole seconds.
const tickEvery = time.Second

// feed is one changefeed of a reign: its life, what etcd keeps of it, and its run.
type feed struct {
	reign *reign
	id    meta.ChangefeedID
	log   *slog.Logger
	wake  chan struct{} // one signal: more than one reason to look is still one
	ended chan struct{} // closed when the loop has ended
	tally *tally

	writing sync.Mutex // held while etcd is written, so that writes are in order

	mu     sync.Mutex
	life   *changefeed.Life // nil: what etcd keeps cannot be read; guarded by mu
	broken error            // why; guarded by mu
	kept   *meta.Changefeed // as etcd has it; guarded by mu
	ready  changefeed.Ready // what follows and is not done yet; guarded by mu
	run    *run             // nil: none; guarded by mu
	term   scheduler.Term   // the last that a run has given, in this reign and under this name; guarded by mu
	// reclaims says that an operator wants it to go on since its last run: whoever has its
	// place downstream, as `redo apply` takes it, has it no longer.
	reclaims atomic.Bool
	lost     bool   // etcd has it that the upstream is lost; guarded by mu
	safe     tso.TS // what GC has passed, where it was faster than we; guarded by mu
	safeWhy  string // what PD said of it; guarded by mu
}

// runShift makes room for the runs of one owner between those of the next.
const runShift = 20

func newFeed(r *reign, kept *meta.Changefeed) *feed {
	f := &feed{reign: r, id: kept.ID, kept: kept, wake: make(chan struct{}, 1), ended: make(chan struct{}), tally: r.tallyOf(kept.ID), log: r.cfg.Log.With("changefeed", kept.ID.String())}
	f.life, f.broken = lifeOf(r, kept)
	if f.life != nil {
		info := f.life.Info()
		f.lost = info.Loss != nil
		warnLater(f.log, &info)
	}
	f.term = r.spentOn(kept.ID).term
	if f.broken != nil {
		f.log.Error("the changefeed cannot be run: what is kept of it cannot be read", "error", f.broken)
	}
	return f
}

// infoOf is what is kept of a changefeed, if it is of this upstream.
func (c *Coordinator) infoOf(kept *meta.Changefeed) (*changefeed.Info, error) {
	if kept.Err != nil {
		return nil, kept.Err
	}
	info, err := changefeed.ParseInfo(kept.Info)
	if err != nil {
		return nil, err
	}
	if own := c.cfg.Capture.Client.ClusterID(); info.UpstreamID != 0 && info.UpstreamID != own {
		// Its timestamps are of another clock, and its tables of another cluster.
		return nil, cdcerr.OtherUpstream.New("changefeed %s was made for cluster %d, and PD is of cluster %d", info.ID(), info.UpstreamID, own)
	}
	return info, nil
}

// warnLater says what of a changefeed has no effect on this capture.
func warnLater(log *slog.Logger, info *changefeed.Info) {
	if keys := info.Later(); len(keys) > 0 {
		log.Warn("a later release has written keys of the changefeed that are not known here: they are kept, and have no effect on this capture until it is of that release", "keys", keys)
	}
}

func lifeOf(r *reign, kept *meta.Changefeed) (*changefeed.Life, error) {
	info, err := r.infoOf(kept)
	if err != nil {
		return nil, err
	}
	st := changefeed.Status{CheckpointTS: kept.Status.CheckpointTS, ResolvedTS: kept.Status.ResolvedTS, Epoch: kept.Status.Epoch, Run: kept.Status.Run, State: changefeed.State(kept.Status.State)}
	runs := uint64(r.fence.Revision()) << runShift
	return changefeed.New(*info, st, changefeed.Options{GCTTL: r.cfg.GCTTL, Seed: runs, Runs: max(runs, r.spentOn(kept.ID).run)}, r.cfg.Now())
}

// look has the loop look again.
func (f *feed) look() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// loop leads the changefeed's life until the reign ends, or the changefeed was
// removed. What only another owner may write now ends the reign; anything else that
// keeps it from being persisted is this changefeed's error alone (P8).
func (f *feed) loop(ctx context.Context) error {
	defer close(f.ended)
	if f.life == nil {
		return nil
	}
	timer := time.NewTicker(tickEvery)
	defer timer.Stop()
	defer f.endRun()
	for {
		gone, err := f.act(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case gone:
			return nil
		case cdcerr.NotOwner.Is(err), cdcerr.SessionLost.Is(err):
			return err
		case err != nil:
			f.log.Warn("what became of the changefeed cannot be persisted; trying again", "error", err)
			if cdcerr.Fate(err) >= cdcerr.Terminal {
				f.fail(err)
			}
		}
		select {
		case <-f.wake:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fail has the life fail of what keeps it from being persisted, and ends the run.
// What the life has come to is tried again, and shown meanwhile.
func (f *feed) fail(err error) {
	f.mu.Lock()
	f.life.Fail(changefeed.NewFault(err, f.reign.cfg.Self.Address, f.reign.cfg.Now()))
	f.mu.Unlock()
	f.endRun()
}

// act does what follows: first what is to be kept, then the end of a run, then the
// begin of one, as changefeed.Ready has it. What fails is done again, before
// anything that follows later.
func (f *feed) act(ctx context.Context) (gone bool, err error) {
	if err := f.persist(ctx); err != nil {
		return false, err
	}
	f.mu.Lock()
	for (f.ready.Info != nil || f.ready.Status != nil) && !f.ready.Remove {
		// Somebody else has come in between, and is still writing what is to be kept
		// before anything is done.
		f.mu.Unlock()
		if err := f.persist(ctx); err != nil {
			return false, err
		}
		f.mu.Lock()
	}
	todo := f.ready
	f.ready = changefeed.Ready{Info: todo.Info, Status: todo.Status, Remove: todo.Remove}
	f.mu.Unlock()
	if todo.Remove {
		return f.remove(ctx)
	}
	if todo.Stop {
		f.endRun()
	}
	if todo.Start != nil {
		f.endRun()
		f.beginRun(ctx, *todo.Start)
	}
	if todo.Apply {
		f.endRun()
		f.beginApply(ctx)
	}
	return false, nil
}

// persist keeps what the life has come to. Ends and begins of runs are left to the
// loop, since a run calls this too.
func (f *feed) persist(ctx context.Context) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	next := f.life.Tick(f.view())
	f.ready = merge(f.ready, next)
	info, status, remove := f.ready.Info, f.ready.Status, f.ready.Remove
	f.mu.Unlock()
	for _, t := range next.Trace {
		f.log.Info("state of changefeed", "from", string(t.From), "to", string(t.To), "why", t.Why)
	}
	if next.Start != nil || next.Stop || next.Apply || remove {
		f.look()
	}
	if remove {
		return nil // the loop forgets all of it
	}
	if err := f.keep(ctx, info, status); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Only whoever holds writing puts anything there.
	f.ready.Info, f.ready.Status = nil, nil
	return nil
}

// view is what the life has to know of the time and of GC. Its caller holds mu.
func (f *feed) view() changefeed.View {
	v := changefeed.View{Now: f.reign.cfg.Now(), Safepoint: f.safe, Why: f.safeWhy}
	if v.Safepoint == 0 {
		v.Safepoint, v.Blocking = 1, true // our hold stands: only its age counts
	}
	f.safe, f.safeWhy = 0, ""
	return v
}

// merge puts what follows later behind what is not done yet.
func merge(a, b changefeed.Ready) changefeed.Ready {
	if b.Info == nil {
		b.Info = a.Info
	}
	if b.Status == nil {
		b.Status = a.Status
	}
	b.Remove = b.Remove || a.Remove
	if b.Start == nil && !b.Stop { // a later stop is one of the run that was to start
		b.Start = a.Start
		b.Apply = b.Apply || a.Apply
	}
	b.Stop = b.Stop || a.Stop
	return b
}

// keep persists info and status, where there are any. Its caller holds writing.
func (f *feed) keep(ctx context.Context, info *changefeed.Info, status *changefeed.Status) error {
	if info == nil && status == nil {
		return nil
	}
	f.mu.Lock()
	was := f.kept
	f.mu.Unlock()
	st := was.Status
	if status != nil {
		st = statusOf(*status)
	}
	var text json.RawMessage
	if info != nil {
		var err error
		if text, err = info.Stored(); err != nil {
			return err
		}
	}
	kept, err := f.reign.cfg.Store.Put(ctx, f.reign.fence.Fence, was, text, st)
	if cdcerr.MetaConflict.Is(err) || cdcerr.MetaUnreachable.Is(err) {
		// Whether it took effect is not known: the next write is compared with what
		// stands now, which only this owner may have written.
		if again, readErr := f.reign.cfg.Store.Changefeed(ctx, f.id); readErr == nil && again.Err == nil {
			f.mu.Lock()
			f.kept = again
			f.mu.Unlock()
		}
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.kept = kept
	f.lost = f.lost || info != nil && info.Loss != nil
	f.mu.Unlock()
	return nil
}

// remove forgets the changefeed.
func (f *feed) remove(ctx context.Context) (gone bool, err error) {
	f.endRun()
	f.reign.spends(f) // before the name is free
	f.mu.Lock()
	was := f.kept
	f.mu.Unlock()
	err = f.reign.cfg.Store.RemoveChangefeed(ctx, f.reign.fence.Fence, was)
	if err != nil && !cdcerr.ChangefeedNotFound.Is(err) {
		if again, readErr := f.reign.cfg.Store.Changefeed(ctx, f.id); readErr == nil {
			f.mu.Lock()
			f.kept = again
			f.mu.Unlock()
		} else if cdcerr.ChangefeedNotFound.Is(readErr) {
			err = nil
		}
		if err != nil {
			return false, err
		}
	}
	f.clearDownstream(ctx)
	f.clearRedo(ctx)
	f.reign.drop(f)
	f.reign.renewGC()
	return true, nil
}

// clearWait bounds how long a changefeed that is removed waits for its downstream.
const clearWait = 3 * time.Second

// clearDownstream removes what the changefeed has noted downstream, while its name
// is still taken. What stays means nothing to a changefeed of the same name, so an
// unreachable downstream keeps nobody from removing.
func (f *feed) clearDownstream(ctx context.Context) {
	f.mu.Lock()
	kept := f.kept
	f.mu.Unlock()
	info, err := changefeed.ParseInfo(kept.Info)
	if err != nil {
		return // it never ran
	}
	ctx, cancel := context.WithTimeout(ctx, clearWait)
	defer cancel()
	// Other captures' parts end at the same moment, and what they write without a place at
	// the fence is refused.
	f.reign.member.leaves(ctx, f.id)
	uri, _, err := info.Config.Handed(info.SinkURI)
	if err == nil {
		err = downstream.Forget(ctx, uri.Reveal(), f.reign.downstream(info, kept.Status.Epoch))
	}
	if err != nil {
		f.log.Info("what the changefeed noted downstream stays there", "error", err)
	}
}

// clearRedoMax bounds how long a changefeed that is removed waits for its redo log's
// files to go: some thousand, where a slow downstream has kept them.
const clearRedoMax = 30 * time.Second

// clearRedo removes the changefeed's redo logs, while its name is still taken. A storage
// that cannot be reached keeps nobody from removing.
func (f *feed) clearRedo(ctx context.Context) {
	f.mu.Lock()
	kept := f.kept
	f.mu.Unlock()
	info, err := changefeed.ParseInfo(kept.Info)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, clearRedoMax)
	defer cancel()
	l, err := f.reign.redoLog(ctx, info, kept.Status.Epoch, f.log)
	if l != nil && err == nil {
		defer l.close()
		err = l.remove(ctx)
	}
	if err != nil {
		f.log.Warn("the changefeed's redo log stays where it is; its files may be removed", "storage", info.Config.Consistent.Storage, "error", err)
	}
}

// holds is the least that must not be collected upstream while the changefeed may
// go on, of what GC has not passed: what its life needs, and what an owner would
// need that took it up where etcd has it (P7).
func (f *feed) holds(passed tso.TS) (low tso.TS, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	passed = max(passed, f.safe)
	take := func(at tso.TS) {
		if at >= passed && (!ok || at < low) {
			low, ok = at, true
		}
	}
	needs := true
	if f.life != nil {
		var at tso.TS
		if at, needs = f.life.Hold(); needs {
			take(at)
		}
	}
	if at := f.kept.Status.CheckpointTS.Prev(); f.mayResume(needs, at) {
		take(at)
	}
	return low, ok
}

// mayResume tells whether an owner might go on from what etcd has; needs is false
// where the life needs nothing any more. Its caller holds mu.
func (f *feed) mayResume(needs bool, at tso.TS) bool {
	if f.kept.Err != nil || f.lost {
		return false
	}
	if f.life == nil && f.reign.cfg.Now().Sub(at.Time()) > f.reign.cfg.GCTTL {
		return false // no life says so of one that cannot be read
	}
	switch changefeed.State(f.kept.Status.State) {
	case changefeed.Finished, changefeed.Removed:
		return false
	case changefeed.Failed:
		return needs
	}
	return true
}

// passed says that GC has passed what the changefeed holds: the safepoint is no lower,
// and why says what it is.
func (f *feed) passed(safepoint tso.TS, why string) {
	f.mu.Lock()
	if safepoint > f.safe {
		f.safe, f.safeWhy = safepoint, why
	}
	f.mu.Unlock()
	f.look()
}

// report gives the life what a run says, and tells whether it counts.
func (f *feed) report(r changefeed.Report) bool {
	f.mu.Lock()
	counts := f.life.Step(f.reign.cfg.Now(), r)
	f.mu.Unlock()
	f.look()
	return counts
}

// leads is the loop of the run, nil where there is none.
func (f *feed) leads() *owner.Loop {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run == nil {
		return nil
	}
	return f.run.loop.Load()
}
