package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/transport"
	"github.com/sluice-cdc/sluice/tso"
)

// leaseMargin is how long before the session's end the leave to write ends: what
// is on its way to the downstream then arrives before another capture may write (P1).
const leaseMargin = 500 * time.Millisecond

// run is one run of a changefeed, as this capture leads it.
type run struct {
	number uint64
	// applies says that it is none: the redo log is applied instead.
	applies bool
	from    tso.TS                     // the checkpoint from which this owner leads it
	loop    atomic.Pointer[owner.Loop] // nil until it is made
	stop    context.CancelFunc
	done    chan struct{} // closed when nothing of it goes on
}

// beginRun starts a run beside the loop, which ends it.
func (f *feed) beginRun(ctx context.Context, s changefeed.Start) {
	ctx, stop := context.WithCancel(ctx)
	r := &run{number: s.Run, from: s.CheckpointTS, stop: stop, done: make(chan struct{})}
	f.mu.Lock()
	info, resolved := f.life.Info(), f.life.Status().ResolvedTS
	f.run = r
	f.mu.Unlock()
	f.log.Info("changefeed runs", "checkpoint-ts", s.CheckpointTS, "epoch", s.Epoch, "run", s.Run, "continues", s.Continues)
	f.reign.group.Go(func() error {
		defer close(r.done)
		defer stop()
		err := f.replicate(ctx, r, info, s, resolved)
		f.mu.Lock()
		if f.run == r {
			f.run = nil
		}
		if l := r.loop.Load(); l != nil {
			f.term = max(f.term, l.Term())
		}
		f.mu.Unlock()
		switch {
		case ctx.Err() != nil, errors.Is(err, errRunOver):
		case err != nil:
			f.tally.runError()
			f.log.Warn("the run ended", "run", s.Run, "error", err)
			fault := changefeed.NewFault(err, f.reign.cfg.Self.Address, f.reign.cfg.Now())
			if of, ok := errors.AsType[told](err); ok {
				fault = of.fault
			}
			f.report(changefeed.Report{Run: s.Run, Err: fault})
			if cdcerr.Fenced.Is(err) && f.reclaims.Swap(false) {
				f.log.Warn("another one has taken the changefeed's place downstream, and an operator wants it to go on: an owner that is elected now has it again", "error", err)
				f.reign.resign()
			}
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

// replicate leads a run: nil when the target-ts is reached.
func (f *feed) replicate(ctx context.Context, r *run, info changefeed.Info, s changefeed.Start, resolved tso.TS) error {
	// The servers may have been given other metadata since it was made.
	if err := f.reign.cfg.Limits.Allow(&info.Config); err != nil {
		return err
	}
	// The hold comes before the first read (P7).
	if err := f.reign.holdFor(ctx, s.CheckpointTS.Prev()); err != nil {
		return err
	}
	inbox, err := f.reign.cfg.Transport.Reports(info.ID())
	if err != nil {
		return err
	}
	defer inbox.Close()
	changed, end := f.reign.member.watch()
	defer end()
	cfg, err := f.loopConfig(&info, s)
	if err != nil {
		return err
	}
	cfg.Watermark = scheduler.Watermark{Checkpoint: s.CheckpointTS, Resolved: max(resolved, s.CheckpointTS)}
	cfg.Line = &ownerLine{transport: f.reign.cfg.Transport, inbox: inbox, changefeed: info.ID()}
	cfg.Changed = changed
	redo, err := f.reign.redoLog(ctx, &info, s.Epoch, f.log)
	if err != nil {
		return err
	}
	if redo != nil {
		defer redo.close()
		cfg.Journal = sink.Journal{Log: redo.id.Incarnation, Storage: redo.bucket.String()}
		cfg.Redo = func(ctx context.Context, checkpoint tso.TS) (owner.Redo, error) {
			return redo.lead(ctx, f.reign.fence.Revision(), checkpoint, f.reign.cfg.Capture.Client.TS, func(err error) {
				if err != nil {
					f.warn(s.Run, changefeed.NewFault(err, f.reign.cfg.Self.Address, f.reign.cfg.Now()))
				}
			})
		}
	}
	loop, err := owner.New(cfg)
	if err != nil {
		return err
	}
	r.loop.Store(loop)
	return loop.Run(ctx)
}

// loopConfig is how a run of a changefeed is led.
func (f *feed) loopConfig(info *changefeed.Info, s changefeed.Start) (owner.Config, error) {
	c, cfg := f.reign.cfg, info.Config
	out := owner.Default()
	rules, err := filter.New(cfg.FilterConfig(c.Zone))
	if err != nil {
		return out, err
	}
	out.Changefeed, out.Scope = info.ID().String(), filter.Scope{Rules: rules, ForceReplicate: cfg.ForceReplicate, PrimaryOnly: cfg.BDRMode}
	out.Scheduler.Owner, out.Scheduler.Epoch = scheduler.Revision(f.reign.fence.Revision()), s.Run
	out.Scheduler.Target = info.TargetTS
	if cfg.EnableSyncPoint {
		out.Scheduler.SyncEvery = time.Duration(cfg.SyncPointInterval).Milliseconds()
	}
	out.Scheduler.Local = func(text string) bool { return f.reign.decode(scheduler.Fault{Err: text}).Local() }
	f.reign.split(info, &out)
	f.mu.Lock()
	out.Term = f.term
	f.mu.Unlock()
	out.Members = f.reign.members
	out.Self, out.Deaf = c.Self.ID, f.reign.resign
	out.Open = func(ctx context.Context) (sink.Sink, error) { return f.openOwner(ctx, info, s.Epoch, rules) }
	out.Load = func(ctx context.Context, checkpoint tso.TS) (owner.Feed, error) {
		feed := c.Capture.Feed(checkpoint, nil)
		return feed, feed.Load(ctx)
	}
	out.Save = func(ctx context.Context, checkpoint, resolved tso.TS) error {
		return f.save(ctx, s.Run, checkpoint, resolved)
	}
	out.SaveEvery, out.Log = c.SaveEvery, c.Log
	out.Grant = func() sink.Grant { return f.grant(s.Epoch) }
	out.Fault = func(x scheduler.Fault) error { return told{f.reign.decode(x)} }
	out.Warn = func(x scheduler.Fault) { f.warn(s.Run, f.reign.decode(x)) }
	out.Silent = func(id capture.ID, since time.Time) { f.warn(s.Run, f.reign.member.silent(id, since)) }
	return out, nil
}

// openOwner connects to the downstream for what is not rows.
func (f *feed) openOwner(ctx context.Context, info *changefeed.Info, epoch uint64, rules *filter.Filter) (sink.Sink, error) {
	uri, notes, err := info.Config.Handed(info.SinkURI)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		f.log.Warn(n)
	}
	// Earlier runs have ended, or may not write any more: what comes from now on they
	// have not written.
	now, err := f.reign.cfg.Capture.Client.TS(ctx)
	if err != nil {
		return nil, err
	}
	down := f.reign.downstream(info, epoch)
	down.Replayed = func() tso.TS { return now }
	down.Role, down.Leave = sink.Owner, func() sink.Grant { return f.grant(epoch) }
	down.Snapshot, down.Log, down.Spared = f.reign.cfg.Capture.Snapshot(), f.log, rules.LeavesUpdates
	down.Warn = func(err error) {
		f.tally.sinkError()
		f.mu.Lock()
		number := uint64(0)
		if f.run != nil {
			number = f.run.number
		}
		f.mu.Unlock()
		f.warn(number, changefeed.NewFault(err, f.reign.cfg.Self.Address, f.reign.cfg.Now()))
	}
	to, err := downstream.Open(ctx, uri.Reveal(), down)
	if err != nil {
		return nil, f.tally.failed(ctx, err)
	}
	return asOwner(to, counted{to, f.tally, f.reign.cfg.Now}), nil
}

// warn shows what a run rides out. It is over when the checkpoint passes where it
// stands now.
func (f *feed) warn(number uint64, fault *changefeed.Fault) {
	r := changefeed.Report{Run: number, Warning: fault}
	if l := f.leads(); l != nil {
		p := l.Progress().Watermark
		r.CheckpointTS, r.ResolvedTS = p.Checkpoint, max(p.Checkpoint, p.Resolved)
	}
	f.report(r)
}

// downstream is what a changefeed's downstream is told of it in an epoch.
func (c *Coordinator) downstream(info *changefeed.Info, epoch uint64) downstream.Config {
	return downstream.Config{
		Cluster: c.cfg.ClusterID, Changefeed: info.ID().String(), SyncPointRetention: time.Duration(info.Config.SyncPointRetention), BDR: info.Config.BDRMode,
		Upstream: info.UpstreamID, Life: fmt.Sprintf("%s/%d", info.CreateTime.UTC().Format(time.RFC3339Nano), epoch), Log: c.cfg.Log,
		KeepLives: info.Config.Consistent.On(),
	}
}

// grant is the leave to write as it stands: this capture's session gives it.
func (f *feed) grant(epoch uint64) sink.Grant {
	return sink.Grant{Deadline: time.Now().Add(f.reign.cfg.Session.Left() - leaseMargin), Epoch: epoch, Fence: uint64(f.reign.fence.Revision())}
}

// errRunOver ends a run that the changefeed's life has gone beyond.
var errRunOver = errors.New("the run is over")

// save persists how far a run is. What the life takes in no more is not persisted, and
// nobody may rely on it: errRunOver.
func (f *feed) save(ctx context.Context, number uint64, checkpoint, resolved tso.TS) error {
	if !f.report(changefeed.Report{Run: number, CheckpointTS: checkpoint, ResolvedTS: resolved}) {
		return errRunOver
	}
	return f.persist(ctx)
}

// ownerLine is how a run speaks with its captures.
type ownerLine struct {
	transport  *transport.Transport
	inbox      *transport.Inbox
	changefeed changefeed.ID
}

// Ready implements owner.Line.
func (l *ownerLine) Ready() <-chan struct{} { return l.inbox.Ready() }

// Take implements owner.Line.
func (l *ownerLine) Take() (out []owner.Heard) {
	for _, r := range l.inbox.Take() {
		if r.Broken || r.Message.Report != nil {
			out = append(out, owner.Heard{From: r.From, Report: r.Message.Report})
		}
	}
	return out
}

// Send implements owner.Line. Whoever is no member hears nothing; it is the members' list
// that tells the run so.
func (l *ownerLine) Send(m scheduler.Orders) {
	_ = l.transport.Send(m.Capture, transport.Message{Changefeed: l.changefeed, Orders: &m})
}

// keptOut is what is shown of captures that have no spans of a run for a while, since they
// fail and others do not: the one that will rest for longest; nil: there is none.
func (r *run) keptOut(c *Coordinator) (fault *changefeed.Fault) {
	loop := r.loop.Load()
	if loop == nil {
		return nil
	}
	most := uint64(0)
	for _, s := range loop.Standings() {
		if s.Ails == "" || s.Rests < most {
			continue
		}
		most, fault = s.Rests, c.decode(scheduler.Fault{Capture: s.ID, Err: s.Ails})
		fault.Time = c.cfg.Now()
		fault.Message = fmt.Sprintf("capture %s fails while others do not, and gets none of the changefeed's tables for %v: %s",
			s.ID, (time.Duration(s.Rests) * owner.Default().TickEvery).Round(time.Second), fault.Message)
	}
	return fault
}

// tasks are what captures have of the run; whole: with the ids of their tables, which
// may be very many, and not only how many there are.
func (r *run) tasks(whole bool) (out []api.TaskStatus) {
	loop := r.loop.Load()
	if loop == nil {
		return nil
	}
	if !whole {
		for _, s := range loop.Standings() {
			if s.Sets > 0 {
				out = append(out, api.TaskStatus{CaptureID: string(s.ID), Tables: s.Sets})
			}
		}
		return out
	}
	all := r.tables()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		out = append(out, api.TaskStatus{CaptureID: string(id), TableIDs: all[id], Tables: len(all[id])})
	}
	return out
}

// tables are the tables that captures have of the run, and the partitions, by capture, each
// once however many parts of it there are.
func (r *run) tables() map[capture.ID][]int64 {
	loop := r.loop.Load()
	if loop == nil {
		return nil
	}
	out := map[capture.ID][]int64{}
	shown := loop.Shown()
	for _, s := range loop.Sets() {
		if s.Primary != "" {
			out[s.Primary] = append(out[s.Primary], shown(s.Span.TableID)...)
		}
	}
	for id, all := range out {
		slices.Sort(all)
		out[id] = slices.Compact(all)
	}
	return out
}
