package coordinator

import (
	"context"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/tso"
)

// look reads the schema at the start-ts, finds out what would be replicated, and
// whether the downstream can be written to.
func (r *reign) look(ctx context.Context, w *wanted, service string) error {
	found, plan, err := r.plan(ctx, &w.info, agent.Config{StartTS: w.info.StartTS, GCService: service, GCTTL: creatingTTL})
	if cdcerr.SnapshotLostByGC.Is(err) {
		return cdcerr.StartTSBeforeGC.New("start-ts %d: %s", w.info.StartTS, cdcerr.Detail(err))
	}
	if err != nil {
		return err
	}
	w.plan = plan
	for _, begun := range found.Feed.Begun() {
		if begun.Touches(found.Filter.Table) {
			w.begun = append(w.begun, begun.Query)
		}
	}
	notes, err := r.reach(ctx, &w.info, rowsOf(found, plan))
	if found.Filter.TakesNone() {
		w.notes = append(w.notes, plan.Notes...)
	}
	w.notes = append(w.notes, notes...)
	if err != nil {
		return err
	}
	return r.probeRedo(ctx, &w.info)
}

// probeRedo tells whether the redo log's storage can be written to, where there is one.
func (r *reign) probeRedo(ctx context.Context, info *changefeed.Info) error {
	l, err := r.redoLog(ctx, info, 0, r.cfg.Log)
	if l == nil || err != nil {
		return err
	}
	defer l.close()
	return l.probe(ctx)
}

// plan reads the schema from where of says, and judges by it.
func (r *reign) plan(ctx context.Context, info *changefeed.Info, of agent.Config) (*agent.Changefeed, *changefeed.Plan, error) {
	cfg := &info.Config
	of.Name, of.Filter, of.ForceReplicate, of.Log = info.ID().String(), cfg.FilterConfig(r.cfg.Zone), cfg.ForceReplicate, r.cfg.Log
	found, err := r.cfg.Capture.Load(ctx, of)
	if err != nil {
		return nil, nil, err
	}
	at := of.Checkpoint
	if at == 0 {
		at = of.StartTS.Prev()
	}
	plan, err := changefeed.NewPlan(cfg, r.cfg.Zone, found.Feed.Tables(at))
	if err != nil {
		return nil, nil, err
	}
	if bad := plan.Of(changefeed.Invalid); len(bad) > 0 {
		return nil, nil, bad[0].Err
	}
	return found, plan, nil
}

// rowsOf are the tables whose rows will be written.
func rowsOf(found *agent.Changefeed, plan *changefeed.Plan) (out []*event.Table) {
	wanted := make(map[int64]bool)
	for _, f := range plan.Of(changefeed.Replicated) {
		wanted[f.ID] = true
	}
	for _, t := range found.Tables {
		if wanted[t.ID] {
			out = append(out, t)
		}
	}
	return out
}

// reach opens the downstream, looks for what stands in the way of these tables'
// rows, and lets it go again.
func (r *reign) reach(ctx context.Context, info *changefeed.Info, tables []*event.Table) (notes []string, err error) {
	uri, _, err := info.Config.Handed(info.SinkURI)
	if err != nil {
		return nil, err
	}
	s, err := downstream.Open(ctx, uri.Reveal(), r.downstream(info, 0))
	if err != nil {
		return nil, err
	}
	if surveyor, ok := s.(sink.Surveyor); ok {
		notes, err = surveyor.Survey(ctx, tables)
	}
	if err == nil {
		err = refusesStale(info, s)
	}
	if closed := s.Close(); err == nil {
		err = closed
	}
	return notes, err
}

// recheck looks at what an update would make of a changefeed: whether expressions
// fit the tables that there are at its checkpoint, and whether its downstream can be
// written to, where that has changed.
func (r *reign) recheck(ctx context.Context, was, next *changefeed.Info, checkpoint tso.TS, ch changefeed.Change) error {
	if ch.Config != nil {
		_, _, err := r.plan(ctx, next, agent.Config{StartTS: min(next.StartTS, checkpoint.Next()), Checkpoint: checkpoint})
		if cdcerr.SnapshotLostByGC.Is(err) {
			err = nil // from there it cannot be resumed anyway; a checkpoint that it can be is checked by its run
		}
		if err != nil {
			return err
		}
	}
	if now, then := &next.Config.Consistent, &was.Config.Consistent; now.On() && (!then.On() || now.Storage != then.Storage) {
		if err := r.probeRedo(ctx, next); err != nil {
			return err
		}
	}
	begins := next.Config.Consistent.Applies() && !was.Config.Consistent.Applies()
	if next.SinkURI == was.SinkURI && next.Config.BDRMode == was.Config.BDRMode && !begins {
		return nil
	}
	_, err := r.reach(ctx, next, nil)
	return err
}

// remark says in the log what whoever asked is told too.
func (f *feed) remark(notes []string) {
	for _, n := range notes {
		f.log.Warn("to be noted of the changefeed", "note", n)
	}
}
