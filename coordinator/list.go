package coordinator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// List implements api.Node.
func (c *Coordinator) List(context.Context) ([]api.Feed, error) {
	r, err := c.owner()
	if err != nil {
		return nil, err
	}
	var out []api.Feed
	for _, f := range r.all() {
		out = append(out, f.describe(false))
	}
	return out, nil
}

// Get implements api.Node.
func (c *Coordinator) Get(_ context.Context, id api.FeedID) (api.Feed, error) {
	f, err := c.find(id)
	if err != nil {
		return api.Feed{}, err
	}
	return f.describe(true), nil
}

func (c *Coordinator) find(id api.FeedID) (*feed, error) {
	r, err := c.owner()
	if err != nil {
		return nil, err
	}
	return r.get(meta.ChangefeedID{Namespace: id.Keyspace, Name: id.Name})
}

// describe is the changefeed as it stands, secrets masked; whole: with the ids of
// its tables, which may be very many, and not only how many there are.
func (f *feed) describe(whole bool) api.Feed {
	self := f.reign.cfg.Self
	out := api.Feed{ID: api.FeedID{Keyspace: f.id.Namespace, Name: f.id.Name}}
	out.Tally = f.tally.read()
	f.mu.Lock()
	if f.life == nil {
		defer f.mu.Unlock()
		fault := changefeed.NewFault(f.broken, self.Address, f.reign.cfg.Now())
		out.State, out.AdminJob, out.Error = string(changefeed.Failed), changefeed.Failed.AdminJob(), faultOf(fault)
		out.Checkpoint, out.Resolved = f.kept.Status.CheckpointTS, f.kept.Status.ResolvedTS
		return out
	}
	info, status, run := f.life.Info(), f.life.Status(), f.run
	// What is durable: the life knows of what is about to be, and the next owner, who
	// begins with what is, may not tell less (P3).
	out.Checkpoint, out.Resolved = f.kept.Status.CheckpointTS, f.kept.Status.ResolvedTS
	if was := changefeed.State(f.kept.Status.State); status.State == changefeed.Finished && was != "" {
		status.State = was // it is over once that, and how far it came, are durable
	}
	f.mu.Unlock()

	out.UpstreamID, out.SinkURI, out.Created, out.Creator = info.UpstreamID, info.SinkURI.String(), info.CreateTime, info.CreatorVersion
	out.StartTS, out.TargetTS = info.StartTS, info.TargetTS
	if text, err := json.Marshal(info.Config); err == nil { // secrets mask themselves
		out.Config = text
	}
	out.State, out.AdminJob = string(status.State), status.State.AdminJob()
	out.Error, out.Warning = faultOf(info.Error), faultOf(info.Warning)
	if w := out.Warning; w != nil && w.Code == cdcerr.UpstreamAway.ID {
		out.Error = nil // it says why, and what will come
	}
	out.SyncedAt = out.Checkpoint.Time() // where the next run begins
	out.SyncedCheckInterval = time.Duration(info.Config.SyncedStatus.SyncedCheckInterval) * time.Second
	out.CheckpointInterval = time.Duration(info.Config.SyncedStatus.CheckpointInterval) * time.Second
	if run == nil {
		return out
	}
	out.Writer = self.Address
	loop := run.loop.Load()
	if loop == nil {
		return out
	}
	if out.Error == nil && out.Warning == nil {
		out.Warning = faultOf(run.keptOut(f.reign.Coordinator))
	}
	if why := loop.Waits(); why != "" {
		out.Notes = []string{why}
	}
	p := loop.Progress()
	out.Rows, out.SyncedAt = p.Rows, max(p.Written, run.from).Time()
	out.Tasks = run.tasks(whole)
	return out
}

func faultOf(f *changefeed.Fault) *api.Fault {
	if f == nil {
		return nil
	}
	return &api.Fault{At: f.Time, Addr: f.Addr, Code: f.Code, Message: f.Message}
}

// Metadata implements api.Node.
func (c *Coordinator) Metadata(ctx context.Context) ([]api.Pair, error) {
	all, err := c.cfg.Store.Changefeeds(ctx)
	if err != nil {
		return nil, err
	}
	var out []api.Pair
	for _, kept := range all {
		text := "cannot be read"
		if info, err := changefeed.ParseInfo(kept.Info); err == nil {
			if masked, err := json.Marshal(info); err == nil {
				text = string(masked)
			}
		}
		status, err := json.Marshal(kept.Status)
		if err != nil {
			return nil, cdcerr.Bug("the status of %s is no JSON: %v", kept.ID, err)
		}
		out = append(out,
			api.Pair{Key: "changefeed/" + kept.ID.String() + "/info", Value: text},
			api.Pair{Key: "changefeed/" + kept.ID.String() + "/status", Value: string(status)})
	}
	return out, nil
}

// read looks at a life.
func (f *feed) read(look func(l *changefeed.Life) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life == nil {
		return f.broken
	}
	return look(f.life)
}

// command has an operator's order carried out on a life, and persisted. That it
// cannot be persisted now is an error, and it will be as soon as it can.
func (f *feed) command(ctx context.Context, order func(l *changefeed.Life) error) error {
	if err := f.read(order); err != nil {
		return err
	}
	defer f.look()
	return f.persist(ctx)
}

// pauseWait bounds how long a pause waits for the end of a run, whose sink may be busy:
// it ends all the same.
const pauseWait = 3 * time.Second

// Pause implements api.Node. What is shown of the changefeed afterwards stands still.
func (c *Coordinator) Pause(ctx context.Context, id api.FeedID) error {
	f, err := c.find(id)
	if err != nil {
		return err
	}
	f.mu.Lock()
	r := f.run
	f.mu.Unlock()
	if err := f.command(ctx, func(l *changefeed.Life) error { return l.Pause() }); err != nil || r == nil {
		return err
	}
	timer := time.NewTimer(pauseWait)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// Resume implements api.Node. What is to be read again is held before the life
// goes on: then GC can no longer be faster.
func (c *Coordinator) Resume(ctx context.Context, id api.FeedID, overwrite tso.TS) error {
	f, err := c.find(id)
	if err != nil {
		return err
	}
	if done, err := f.resumeLost(ctx, overwrite); done {
		return err
	}
	present, err := c.cfg.Capture.Client.TS(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	from := overwrite
	if from == 0 && f.life != nil {
		from = f.life.Status().CheckpointTS
	}
	f.mu.Unlock()
	service := c.cfg.GCService + "-resuming-" + id.Keyspace + "_" + id.Name
	if from != 0 && from <= present {
		if _, err := c.cfg.Capture.Client.HoldGC(ctx, service, creatingTTL, from.Prev()); err != nil {
			if overwrite != 0 && cdcerr.SnapshotLostByGC.Is(err) {
				return cdcerr.StartTSBeforeGC.New("overwrite-checkpoint-ts %d: %s", overwrite, cdcerr.Detail(err))
			}
			return err
		}
	}
	err = f.command(ctx, func(l *changefeed.Life) error {
		err := l.Resume(c.cfg.Now(), changefeed.Resumption{Overwrite: overwrite, Present: present})
		if err == nil {
			f.reclaims.Store(true)
		}
		return err
	})
	// Also where it could not be persisted the life has moved, and runs as soon as it
	// can be: the cluster's own hold covers it before this one goes, or it ends by itself.
	held := f.reign.holdNow(ctx)
	if held == nil {
		_, _ = c.cfg.Capture.Client.ReleaseGC(context.WithoutCancel(ctx), service) // it ends by itself
	}
	if err != nil {
		return err
	}
	return held
}

// resumeLost resumes what needs no upstream for that, or cannot be: then it is done.
func (f *feed) resumeLost(ctx context.Context, overwrite tso.TS) (done bool, err error) {
	var info changefeed.Info
	if err := f.read(func(l *changefeed.Life) error { info = l.Info(); return nil }); err != nil {
		return true, err
	}
	if info.Loss != nil {
		return true, f.command(ctx, func(l *changefeed.Life) error {
			return l.Resume(f.reign.cfg.Now(), changefeed.Resumption{Overwrite: overwrite})
		})
	}
	err = f.reign.cfg.Limits.Allow(&info.Config)
	return err != nil, err
}

// Remove implements api.Node.
func (c *Coordinator) Remove(ctx context.Context, id api.FeedID) error {
	f, err := c.find(id)
	if err != nil {
		return err
	}
	f.mu.Lock()
	readable := f.life != nil
	f.mu.Unlock()
	if !readable {
		_, err := f.remove(ctx)
		return err
	}
	if err := f.command(ctx, func(l *changefeed.Life) error { l.Remove(); return nil }); err != nil {
		return err
	}
	return f.gone(ctx)
}

// gone waits until the loop has forgotten the changefeed. That it ended of something
// else is an error: the changefeed stands.
func (f *feed) gone(ctx context.Context) error {
	select {
	case <-f.ended:
	case <-f.reign.over: // it may never have begun
	case <-ctx.Done():
		return ctx.Err()
	}
	if now, err := f.reign.get(f.id); err == nil && now == f {
		return cdcerr.NotOwner.New("capture %s is the owner no more, and changefeed %s is not removed: remove it again", f.reign.cfg.Self.ID, f.id)
	}
	return nil
}

// Update implements api.Node.
func (c *Coordinator) Update(ctx context.Context, id api.FeedID, ch api.Change) (api.Feed, error) {
	f, err := c.find(id)
	if err != nil {
		return api.Feed{}, err
	}
	// What takes its time is looked at first, and beside the life.
	var was, next changefeed.Info
	var change changefeed.Change
	var checkpoint tso.TS
	err = f.read(func(l *changefeed.Life) (err error) {
		if change, err = c.changeOf(l, ch); err != nil {
			return err
		}
		was, checkpoint = l.Info(), l.Status().CheckpointTS
		next, _, err = l.Updated(change)
		return err
	})
	if err != nil {
		return api.Feed{}, err
	}
	if err := f.reign.recheck(ctx, &was, &next, checkpoint, change); err != nil {
		return api.Feed{}, err
	}
	var notes []string
	err = f.command(ctx, func(l *changefeed.Life) error {
		change, err := c.changeOf(l, ch)
		if err != nil {
			return err
		}
		notes, err = l.Update(change)
		return err
	})
	if err != nil {
		return api.Feed{}, err
	}
	f.remark(notes)
	out := f.describe(true)
	out.Notes = notes
	return out, nil
}

// changeOf is a change as the life takes it, if etcd can keep what comes of it.
func (c *Coordinator) changeOf(l *changefeed.Life, ch api.Change) (changefeed.Change, error) {
	change := changefeed.Change{TargetTS: ch.TargetTS, Limits: c.cfg.Limits}
	if ch.SinkURI != nil {
		uri := changefeed.URI(*ch.SinkURI)
		change.SinkURI = &uri
	}
	if len(ch.Config) > 0 {
		cfg, err := changefeed.ParseJSON(ch.Config, l.Info().Config)
		if err != nil {
			return change, err
		}
		change.Config = &cfg
	}
	return change, fits(l, change)
}

// fits tells whether etcd can keep what the changefeed would be: what it cannot keep
// must not become of it.
func fits(l *changefeed.Life, ch changefeed.Change) error {
	info := l.Info()
	if ch.SinkURI != nil {
		info.SinkURI = *ch.SinkURI
	}
	if ch.Config != nil {
		info.Config = *ch.Config
	}
	text, err := info.Stored()
	if err != nil {
		return err
	}
	return keepable(info.ID(), len(text))
}

// keepable leaves room for the errors that come to stand beside a configuration.
func keepable(id changefeed.ID, size int) error {
	const room = 32 << 10
	if most := meta.ValueMax - room; size > most {
		return cdcerr.InvalidArgument.New("changefeed %s: its configuration takes %d bytes, %d is the most", id, size, most)
	}
	return nil
}
