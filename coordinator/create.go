package coordinator

import (
	"context"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/meta"
)

// wanted is a changefeed that somebody wants, checked as far as can be.
type wanted struct {
	info   changefeed.Info
	status changefeed.Status
	notes  []string // keys that do nothing, and what is to be looked at downstream
	plan   *changefeed.Plan
	begun  []string // statements on its tables that were under way at the start-ts
}

// want checks what an operator asks for. Nothing is written; what it takes of the
// upstream's garbage collection is given back by release.
func (r *reign) want(ctx context.Context, c api.Creation) (w *wanted, release func(), err error) {
	id, err := changefeed.ParseID(c.ID.Keyspace, c.ID.Name)
	if err != nil {
		return nil, nil, err
	}
	if err := r.unknown(id); err != nil {
		return nil, nil, err
	}
	if own := r.cfg.Capture.Client.ClusterID(); c.UpstreamID != 0 && c.UpstreamID != own {
		return nil, nil, cdcerr.NotInRelease.New("changefeed %s follows the cluster %d: this one follows %d, the one that its servers were started with", id, c.UpstreamID, own)
	}
	cfg, err := changefeed.ParseJSON(c.Config, changefeed.Default())
	if err != nil {
		return nil, nil, err
	}
	present, err := r.cfg.Capture.Client.TS(ctx)
	if err != nil {
		return nil, nil, err
	}
	w = &wanted{}
	w.info, w.status, w.notes, err = changefeed.Create(changefeed.Creation{
		ID: id, UpstreamID: r.cfg.Capture.Client.ClusterID(), SinkURI: changefeed.URI(c.SinkURI), StartTS: c.StartTS, TargetTS: c.TargetTS,
		Config: cfg, Version: r.cfg.Version, Now: r.cfg.Now(), Present: present, Limits: r.cfg.Limits,
	})
	if err != nil {
		return nil, nil, err
	}
	if c.Paused {
		w.status.State = changefeed.Stopped
	}
	service := r.cfg.GCService + "-creating-" + id.Namespace + "_" + id.Name
	release = func() {
		// The hold would end by itself: what keeps it from being released is no reason
		// to take the changefeed for not made.
		if _, err := r.cfg.Capture.Client.ReleaseGC(context.WithoutCancel(ctx), service); err != nil {
			r.cfg.Log.Info("a hold on GC is left to its end", "service", service, "error", err)
		}
	}
	if err := r.look(ctx, w, service); err != nil {
		release()
		return nil, nil, err
	}
	return w, release, nil
}

// creatingTTL is how long a hold outlives an owner that dies while it makes a
// changefeed.
const creatingTTL = time.Hour

// keyed refuses tables that cannot be replicated, unless they may be left out. Who
// only asks is told of them instead.
func (w *wanted) keyed() error {
	if keyless := w.plan.Of(changefeed.Ineligible); len(keyless) > 0 && !w.info.Config.IgnoreIneligibleTable {
		return cdcerr.TableIneligible.New("%s; ignore-ineligible-table = true leaves them out", names(keyless))
	}
	return nil
}

// tables are those at the start-ts, by whether they would be replicated.
func (w *wanted) tables() (out api.Tables) {
	out.BegunDDLs, out.Notes = w.begun, w.notes
	for _, t := range w.plan.Tables {
		line := api.Table{Schema: t.Schema, Table: t.Table, ID: t.ID}
		out.All = append(out.All, line)
		switch t.Verdict {
		case changefeed.Replicated:
			out.Eligible = append(out.Eligible, line)
		case changefeed.Ineligible:
			line.Reason = t.Why
			out.Ineligible = append(out.Ineligible, line)
		case changefeed.LeftOut, changefeed.NoRows, changefeed.Invalid:
		}
	}
	return out
}

// namesMax is how many tables an error lists.
const namesMax = 10

func names(tables []changefeed.Fate) (out string) {
	for i, t := range tables {
		switch {
		case i == namesMax:
			return out + ", …"
		case i > 0:
			out += ", "
		}
		out += t.Schema + "." + t.Table
	}
	return out
}

// Verify implements api.Node.
func (c *Coordinator) Verify(ctx context.Context, creation api.Creation) (api.Tables, error) {
	r, err := c.owner()
	if err != nil {
		return api.Tables{}, err
	}
	w, release, err := r.want(ctx, creation)
	if err != nil {
		return api.Tables{}, err
	}
	defer release()
	return w.tables(), nil
}

// Create implements api.Node. The hold on GC that the check took stays until the
// cluster's own hold covers the changefeed.
func (c *Coordinator) Create(ctx context.Context, creation api.Creation) (api.Feed, error) {
	r, err := c.owner()
	if err != nil {
		return api.Feed{}, err
	}
	w, release, err := r.want(ctx, creation)
	if err != nil {
		return api.Feed{}, err
	}
	defer release()
	if err := w.keyed(); err != nil {
		return api.Feed{}, err
	}
	text, err := w.info.Stored()
	if err != nil {
		return api.Feed{}, err
	}
	if err := keepable(w.info.ID(), len(text)); err != nil {
		return api.Feed{}, err
	}
	if err := r.unknown(w.info.ID()); err != nil {
		return api.Feed{}, err
	}
	kept, err := r.cfg.Store.CreateChangefeed(ctx, r.fence.Fence, keyOf(w.info.ID()), text, statusOf(w.status))
	if err != nil {
		return api.Feed{}, err
	}
	f := r.begin(kept)
	if f == nil {
		return api.Feed{}, cdcerr.OwnerNotFound.New("capture %s is the owner no more: the changefeed stands, and the next one runs it", r.cfg.Self.ID)
	}
	out := f.describe(true)
	out.Notes = w.notes
	f.remark(w.notes)
	return out, r.holdNow(ctx)
}

// unknown refuses a name that a changefeed has, also one whose removal is not done.
func (r *reign) unknown(id changefeed.ID) error {
	if _, err := r.get(keyOf(id)); err == nil {
		return cdcerr.ChangefeedExists.New("changefeed %s", id)
	}
	return nil
}

func keyOf(id changefeed.ID) meta.ChangefeedID {
	return meta.ChangefeedID{Namespace: id.Namespace, Name: id.Name}
}

// statusOf is a status as etcd keeps it.
func statusOf(s changefeed.Status) meta.Status {
	return meta.Status{CheckpointTS: s.CheckpointTS, ResolvedTS: s.ResolvedTS, Epoch: s.Epoch, Run: s.Run, State: string(s.State)}
}
