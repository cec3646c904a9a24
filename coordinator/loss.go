package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/tso"
)

// sightEvery is how often a capture looks whether the upstream is there, and the owner at
// what all of them say: often enough that the least grace has a dozen looks.
const sightEvery = 2 * time.Second

// watchUpstream has this capture say to everybody whether it reaches the upstream, while
// there is a changefeed to which that matters.
func (c *Coordinator) watchUpstream(ctx context.Context) error {
	for {
		sight := capture.Unlooked
		if where, ok := c.member.guarded(); ok {
			switch {
			case c.cfg.Capture.Reached(ctx, where.PD, where.Stores):
				sight = capture.Reached
			case ctx.Err() == nil && len(where.PD) > 0 && len(where.Stores) > 0:
				// Where the stores are not known nobody can tell that all of them are gone.
				sight = capture.Unreached
			}
		}
		if err := c.announce(ctx, func() { c.sight = sight }); err != nil && ctx.Err() == nil {
			c.cfg.Log.Info("what this capture sees of the upstream is not told; trying again", "error", err)
		}
		if err := pause(ctx, sightEvery); err != nil {
			return err
		}
	}
}

// announce changes what this capture says of itself, and says it if it is something else.
func (c *Coordinator) announce(ctx context.Context, change func()) error {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.mu.Lock()
	change()
	now := c.cfg.Self
	now.Liveness, now.Upstream = c.liveness, c.sight
	c.mu.Unlock()
	if now == c.told {
		return nil
	}
	if err := c.cfg.Session.Register(ctx, now); err != nil {
		return err
	}
	c.told = now
	return nil
}

// guarded is where the upstream is of changefeeds that end when it is lost; false where
// there are none that go on.
func (m *member) guarded() (where changefeed.Addresses, any bool) {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.feeds))
	m.mu.Unlock()
	for _, kept := range all {
		// Most have no such word in them, and need not be read.
		if kept.Err != nil || !bytes.Contains(kept.Info, []byte(`"on_upstream_loss"`)) {
			continue
		}
		info, err := m.infoOf(kept)
		if err != nil || !info.Config.Consistent.Applies() || info.Loss != nil {
			continue
		}
		if s := changefeed.State(kept.Status.State); !s.Running() && s != changefeed.Pending {
			continue
		}
		any = true
		if info.Upstream != nil {
			where.PD, where.Stores = append(where.PD, info.Upstream.PD...), append(where.Stores, info.Upstream.Stores...)
		}
	}
	return where, any
}

// sights are what the captures say, of the upstream: whether one reaches it, and whether
// all have tried in vain.
func (m *member) sights() (reached, lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost = len(m.captures) > 0
	for _, c := range m.captures {
		reached = reached || c.Upstream == capture.Reached
		lost = lost && c.Upstream == capture.Unreached
	}
	return reached, lost
}

// guard sees to it that changefeeds that want it end with their redo log once the upstream
// is lost. What it goes by is of this owner alone: another one begins anew. One that came
// without an upstream leads no longer than nobody else has one.
func (r *reign) guard(ctx context.Context) error {
	begun := time.Now()
	vigils := vigils{}
	var looked time.Time
	for {
		if r.member.yields() {
			r.cfg.Log.Warn("this capture came without an upstream, and another one has one: it leaves leading to others")
			r.resign()
			return errResigned
		}
		guarded := r.guarded()
		reached, lost := r.member.sights()
		if len(guarded) > 0 && reached && time.Since(looked) > addressesEvery {
			looked = time.Now()
			r.locate(ctx, guarded)
		}
		vigils.look(ctx, guarded, changefeed.Sight{At: time.Since(begun), Reached: reached, Lost: lost})
		if err := pause(ctx, sightEvery/2); err != nil {
			return context.Cause(ctx)
		}
	}
}

// vigils are those over the changefeeds that are guarded. Each has the whole of its grace
// from when it is guarded.
type vigils map[*feed]*changefeed.Vigil

// look takes in what is seen of the upstream, and says to each what becomes of it.
func (v vigils) look(ctx context.Context, guarded []*feed, s changefeed.Sight) {
	maps.DeleteFunc(v, func(f *feed, _ *changefeed.Vigil) bool { return !slices.Contains(guarded, f) })
	for _, f := range guarded {
		if v[f] == nil {
			v[f] = &changefeed.Vigil{}
		}
		v[f].Look(s)
		f.reign.judge(ctx, f, v[f], s.Reached)
	}
}

// addressesEvery is how often PD is asked where the stores are: one that joins has no
// regions for longer.
const addressesEvery = 15 * time.Second

// guarded are the changefeeds that the owner has to guard.
func (r *reign) guarded() (out []*feed) {
	for _, f := range r.all() {
		if f.read(func(l *changefeed.Life) error {
			if !l.Guarded() {
				return errUnguarded
			}
			return nil
		}) == nil {
			out = append(out, f)
		}
	}
	return out
}

var errUnguarded = errors.New("not guarded")

// locate has the changefeeds keep where the upstream is.
func (r *reign) locate(ctx context.Context, guarded []*feed) {
	ctx, cancel := context.WithTimeout(ctx, sightEvery)
	defer cancel()
	var found changefeed.Addresses
	var err error
	found.PD, found.Stores, err = r.cfg.Capture.Addresses(ctx)
	if err != nil {
		r.cfg.Log.Info("PD does not tell where its stores are; asking again", "error", err)
		return
	}
	for _, f := range guarded {
		f.tell(func(l *changefeed.Life) { l.Found(found) })
	}
}

// stillThere looks for the upstream once more, right before it is taken for lost: what the
// captures say may be some seconds old.
func (r *reign) stillThere(ctx context.Context, f *feed, v *changefeed.Vigil) bool {
	var where changefeed.Addresses
	over := false
	_ = f.read(func(l *changefeed.Life) error { // one that cannot be read is not judged either
		info := l.Info()
		if info.Upstream != nil {
			where = *info.Upstream
		}
		over = v.Lost(info.Config.Consistent.Grace())
		return nil
	})
	return over && r.cfg.Capture.Reached(ctx, where.PD, where.Stores)
}

// judge says to a changefeed what becomes of it. Before anybody can tell, what an owner
// before has said stands: that it is away may last longer than any other trouble.
func (r *reign) judge(ctx context.Context, f *feed, v *changefeed.Vigil, reached bool) {
	if r.stillThere(ctx, f, v) {
		*v, reached = changefeed.Vigil{}, true
	}
	if ctx.Err() != nil {
		return
	}
	now := r.cfg.Now()
	lost := false
	f.tell(func(l *changefeed.Life) {
		info := l.Info()
		grace := info.Config.Consistent.Grace()
		switch {
		case reached:
			l.Reached(now)
		case v.Lost(grace):
			l.Lose(now, r.cfg.Self.Address)
			lost = true
		case v.Away():
			l.Away(now, changefeed.NewFault(cdcerr.UpstreamAway.New("if that goes on for %v, the changefeed ends with what its redo log holds: the downstream becomes the upstream's snapshot at the log's resolved-ts, and nothing of the upstream is replicated after that; pause it to keep it from that",
				v.Left(grace).Round(time.Second)), r.cfg.Self.Address, now))
		}
	})
	if lost {
		f.log.Warn("the upstream is lost: the changefeed ends with its redo log")
		select {
		case r.urgent <- f:
		case <-r.over:
		}
	}
}

// tell changes the life, and has the loop look, if it runs.
func (f *feed) tell(change func(l *changefeed.Life)) {
	if f.read(func(l *changefeed.Life) error { change(l); return nil }) == nil {
		f.look()
	}
}

// ends tells whether it is decided that the changefeed ends with its redo log.
func (f *feed) ends() bool {
	return f.read(func(l *changefeed.Life) error {
		if info := l.Info(); !info.Ends() {
			return errUnguarded
		}
		return nil
	}) == nil
}

// beginApply has the redo log applied beside the loop, which ends it.
func (f *feed) beginApply(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	r := &run{applies: true, stop: stop, done: make(chan struct{})}
	f.mu.Lock()
	info, status := f.life.Info(), f.life.Status()
	f.run = r
	f.mu.Unlock()
	f.reign.group.Go(func() error {
		defer close(r.done)
		defer stop()
		to, inexact, err := f.applyUntilDone(ctx, &info, status)
		f.mu.Lock()
		if f.run == r {
			f.run = nil
		}
		f.mu.Unlock()
		self, now := f.reign.cfg.Self.Address, f.reign.cfg.Now()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			f.log.Error("the redo log cannot be applied", "error", err)
			f.tell(func(l *changefeed.Life) { l.ApplyFails(changefeed.NewFault(err, self, now)) })
		default:
			f.tell(func(l *changefeed.Life) { l.Applied(now, self, to, inexact...) })
		}
		return nil
	})
}

const (
	applyPauseMin = time.Second
	applyPauseMax = 30 * time.Second
)

// applyUntilDone applies the redo log, and begins again until nothing but an operator can
// help.
func (f *feed) applyUntilDone(ctx context.Context, info *changefeed.Info, status changefeed.Status) (to tso.TS, inexact []string, err error) {
	for wait := applyPauseMin; ; wait = min(2*wait, applyPauseMax) {
		to, inexact, err := f.applyRedo(ctx, info, status)
		// Another one may have had the place for a while: the command, or an owner of before
		// in its last seconds.
		taken := cdcerr.Fenced.Is(err) || cdcerr.LeaveEnded.Is(err)
		if err == nil || ctx.Err() != nil || cdcerr.Fate(err) >= cdcerr.Terminal && !taken {
			return to, inexact, err
		}
		f.applyWarns(err)
		f.log.Warn("the redo log is not applied yet; beginning again", "error", err)
		if err := pause(ctx, wait); err != nil {
			return 0, nil, err
		}
	}
}

func (f *feed) applyWarns(err error) {
	fault := changefeed.NewFault(err, f.reign.cfg.Self.Address, f.reign.cfg.Now())
	f.tell(func(l *changefeed.Life) { l.ApplyWarns(fault) })
}

// applyRedo brings the downstream to the redo log's resolved-ts, which it returns. First
// no earlier owner can move the log's meta any more, then nobody else can write, and only
// then the log is read: nothing above what its meta says is downstream, or will be.
func (f *feed) applyRedo(ctx context.Context, info *changefeed.Info, status changefeed.Status) (to tso.TS, inexact []string, err error) {
	l, err := f.reign.redoLog(ctx, info, status.Epoch, f.log)
	if err != nil {
		return 0, nil, err
	}
	if l == nil {
		return 0, nil, cdcerr.Bug("changefeed %s ends with a redo log, and has none", f.id)
	}
	defer l.close()
	l.cfg.Trouble = func(err error) {
		if err != nil {
			f.applyWarns(err)
		}
	}
	if err := redo.Claim(ctx, l.cfg, l.bucket, l.id); err != nil {
		return 0, nil, err
	}
	// A log of which there is no meta yet has let nothing through. What was written without
	// it, or with the one before, is not known.
	l.cfg.Ahead = func(context.Context) (tso.TS, error) { return tso.Max, nil }
	m, err := redo.OpenMeta(ctx, l.cfg, l.bucket, l.id, f.reign.fence.Revision(), status.CheckpointTS)
	if err != nil {
		return 0, nil, err
	}
	if err := l.alone(ctx, m.Gate().Limit()); err != nil {
		return 0, nil, err
	}
	inv, err := redo.Open(ctx, l.bucket, l.id)
	if err != nil {
		return 0, nil, err
	}
	if err := inv.Err(); err != nil {
		return 0, nil, err
	}
	s, leave, err := f.takeOver(ctx, info, status.Epoch)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	cfg := redo.DefaultApply(inv)
	if info.TargetTS != 0 {
		cfg.Merge.To = min(cfg.Merge.To, info.TargetTS)
	}
	cfg.Merge.AheadBytes = min(cfg.Merge.AheadBytes, info.Config.RedoQuota()/4)
	cfg.TxnBytes = min(cfg.TxnBytes, info.Config.RedoQuota()/4)
	cfg.Progress = f.applyProgress(cfg.Merge.To)
	f.log.Info("the redo log is being applied", "log", l.id.String(), "from", cfg.Merge.From, "to", cfg.Merge.To, "bytes", inv.Bytes())
	done, err := redo.Apply(ctx, l.bucket, inv, cfg, s, leave)
	if err != nil {
		return 0, nil, err
	}
	what := "the redo log is applied: the downstream is the upstream's snapshot at its end"
	switch {
	case len(done.Unproven) > 0:
		what = "the redo log is applied; that the downstream is the upstream's snapshot at its end is not proven"
	case len(done.Doubts) > 0:
		what = "the redo log is applied: but for the tables named before, the downstream is the upstream's snapshot at its end"
	}
	for _, d := range done.Doubts {
		inexact = append(inexact, d.String())
		f.log.Warn("a table is not what upstream had: there was no upstream to be asked", "table", d.Table, "job", d.Job, "ts", d.TS, "why", d.Why)
	}
	for _, why := range done.Unproven {
		inexact = append(inexact, why)
		f.log.Warn("that the downstream is a snapshot is not proven", "why", why)
	}
	f.log.Info(what, "resolved-ts", cfg.Merge.To, "time", cfg.Merge.To.Time().UTC(), "inexact tables", len(done.Doubts), "rows", done.Rows, "transactions", done.Txns, "DDLs", done.DDLs)
	return cfg.Merge.To, inexact, nil
}

// alone is an error if an older log of the changefeed goes further than this one: what the
// downstream has of before is not in this one.
func (r *redoLog) alone(ctx context.Context, resolved tso.TS) error {
	others, err := r.others(ctx)
	if err != nil {
		return err
	}
	for _, id := range others {
		last, err := redo.LastMeta(ctx, r.bucket, id)
		if cdcerr.RedoMetaNotFound.Is(err) {
			continue
		}
		if err != nil {
			return err
		}
		if last.Resolved > resolved {
			return cdcerr.RedoGap.New("the redo log %s ends at %d, and that of before the changefeed's checkpoint or filter was changed, %s, at %d: it alone makes the downstream whole; "+
				"sluice redo apply --storage %s --namespace %s --changefeed-id %s --incarnation %s does it", r.id, resolved, id, last.Resolved, r.bucket, id.Namespace, id.Changefeed, id.Incarnation)
		}
	}
	return nil
}

// takeOver connects to the downstream in the place of whoever wrote there, who does no
// more when it returns. The leave is that of this owner's session too.
func (f *feed) takeOver(ctx context.Context, info *changefeed.Info, epoch uint64) (sink.Sink, sink.Leave, error) {
	uri, _, err := info.Config.Handed(info.SinkURI) // its notes are in the log since the first run
	if err != nil {
		return nil, nil, err
	}
	down := f.reign.downstream(info, epoch)
	down.Log, down.Warn = f.log, f.applyWarns
	s, err := downstream.Open(ctx, uri.Reveal(), down)
	if err != nil {
		return nil, nil, f.tally.failed(ctx, err)
	}
	session := func() sink.Grant { return f.grant(epoch) }
	u, ok := s.(sink.Usurper)
	if !ok {
		return s, session, nil
	}
	leave, err := u.TakeOver(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, func() sink.Grant {
		g := leave()
		g.Deadline = session().Deadline
		return g
	}, nil
}

// applyProgress shows how far it is, each tenth of the log.
func (f *feed) applyProgress(to tso.TS) func(redo.Progress) {
	var told int64
	return func(p redo.Progress) {
		tenths := p.Bytes * 10 / max(1, p.All)
		if tenths <= told {
			return
		}
		told = tenths
		f.log.Info("applying the redo log", "done", fmt.Sprintf("%d %%", told*10), "up to", p.TS)
		f.applyWarns(cdcerr.UpstreamLost.New("the redo log is being applied: %d %%, up to %d (%s UTC) of %d (%s UTC)", told*10,
			p.TS, p.TS.Time().UTC().Format(time.DateTime), to, to.Time().UTC().Format(time.DateTime)))
	}
}

// refusesStale is an error if a changefeed that may end with its redo log has a downstream
// that takes what comes from a capture that should not write any more.
func refusesStale(info *changefeed.Info, s sink.Sink) error {
	fence, ok := s.(sink.Fencer)
	if !info.Config.Consistent.Applies() || !ok || fence.Fences() {
		return nil
	}
	return cdcerr.ConfigInvalid.New("consistent.on-upstream-loss = \"apply\": this downstream does not refuse what a capture writes late, beside what the owner applies then: " +
		"want one of TiDB, MySQL and MariaDB without enable-fence=false in the sink URI")
}

// Outlives tells whether servers have something to do while their upstream is away, and
// which cluster that is: there is a changefeed that ends with its redo log then, or that has.
func Outlives(all []*meta.Changefeed) (cluster uint64, ok bool, err error) {
	for _, kept := range all {
		if kept.Err != nil {
			continue
		}
		info, bad := changefeed.ParseInfo(kept.Info)
		if bad != nil || !info.Config.Consistent.Applies() && info.Loss == nil {
			continue
		}
		if ok && info.UpstreamID != cluster {
			return 0, false, cdcerr.OtherUpstream.New("changefeed %s is of the cluster %d, and another one of %d; which one is at the PD endpoints cannot be asked", kept.ID, info.UpstreamID, cluster)
		}
		cluster, ok = info.UpstreamID, true
	}
	return cluster, ok, nil
}

// Applies tells whether the redo log of a changefeed is being applied, and gets on. One that
// does not keeps nobody waiting.
func Applies(all []*meta.Changefeed) bool {
	return slices.ContainsFunc(all, func(kept *meta.Changefeed) bool {
		if kept.Err != nil || changefeed.State(kept.Status.State) != changefeed.Pending {
			return false
		}
		info, err := changefeed.ParseInfo(kept.Info)
		return err == nil && info.Ends() && (info.Warning == nil || info.Warning.Code == cdcerr.UpstreamLost.ID)
	})
}
