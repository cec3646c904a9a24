package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

var present = tso.At(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))

// board is a cluster in memory: what a Node is asked to do, done at once.
type board struct {
	mu    sync.Mutex
	self  api.Self
	owner *capture.Info
	feeds []api.Feed
	sick  error
	down  error // of the upstream
}

func newBoard() *board {
	owner := capture.Info{ID: "capture-1", Address: "10.0.0.1:8300", Version: "1.0.0"}
	b := &board{
		self:  api.Self{Info: owner, ClusterID: "default", Owner: true},
		owner: &owner,
		feeds: []api.Feed{
			{ID: api.FeedID{Keyspace: "default", Name: "orders"}, UpstreamID: 7, SinkURI: "mysql://root:xxxxx@db:3306/", Created: present.Time().Add(-time.Hour),
				Creator: "1.0.0", StartTS: tso.At(present.Time().Add(-time.Hour)), Config: json.RawMessage(`{"case_sensitive":false}`), State: "normal",
				Resolved: tso.At(present.Time().Add(-time.Second)), Checkpoint: tso.At(present.Time().Add(-2 * time.Second)),
				Tasks: []api.TaskStatus{{CaptureID: "capture-1", TableIDs: []int64{104, 106}}}, Writer: "10.0.0.1:8300",
				SyncedAt: present.Time().Add(-10 * time.Minute), SyncedCheckInterval: 5 * time.Minute, CheckpointInterval: 15 * time.Second},
			{ID: api.FeedID{Keyspace: "default", Name: "old"}, UpstreamID: 7, SinkURI: "blackhole:///", Created: present.Time(), Creator: "1.0.0",
				StartTS: 100, TargetTS: 200, State: "finished", AdminJob: 4, Resolved: 200, Checkpoint: 200},
			{ID: api.FeedID{Keyspace: "default", Name: "broken"}, UpstreamID: 7, SinkURI: "mysql://db:3306/", Created: present.Time(), Creator: "1.0.0",
				StartTS: 100, State: "failed", AdminJob: 1, Resolved: 200, Checkpoint: 150, CheckpointInterval: 15 * time.Second, SyncedCheckInterval: 5 * time.Minute,
				Error: &api.Fault{At: present.Time(), Addr: "10.0.0.1:8300", Code: "CDC:ErrSnapshotLostByGC", Message: "checkpoint 150 is below the safepoint"}},
			{ID: api.FeedID{Keyspace: "other", Name: "orders"}, State: "stopped", AdminJob: 1, StartTS: 5, Checkpoint: 5, Resolved: 5, Created: present.Time()},
		},
	}
	return b
}

func (b *board) Self() api.Self {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.self
}

func (b *board) Owner(context.Context) (capture.Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owner == nil {
		return capture.Info{}, cdcerr.OwnerNotFound.New("the session of capture-9 at 10.0.0.9:8300 ends in 4s")
	}
	return *b.owner, nil
}

func (b *board) Captures(context.Context) ([]capture.Info, error) {
	return []capture.Info{{ID: "capture-1", Address: "10.0.0.1:8300"}, {ID: "capture-2", Address: "10.0.0.2:8300"}}, nil
}

func (b *board) Health(context.Context) error { return b.sick }

func (b *board) Metadata(context.Context) ([]api.Pair, error) {
	return []api.Pair{{Key: "/sluice/default/owner/1", Value: "capture-1"}}, nil
}

func (b *board) Resign(context.Context) error { return nil }

func (b *board) Drain(_ context.Context, id capture.ID) (int, error) {
	if id != "capture-2" {
		return 0, cdcerr.CaptureNotFound.New("capture %q", id)
	}
	return 3, nil
}

func (b *board) List(context.Context) ([]api.Feed, error) { return b.feeds, nil }

func (b *board) at(id api.FeedID) (int, error) {
	for i, f := range b.feeds {
		if f.ID == id {
			return i, nil
		}
	}
	return 0, cdcerr.ChangefeedNotFound.New("changefeed %s/%s", id.Keyspace, id.Name)
}

func (b *board) Get(_ context.Context, id api.FeedID) (api.Feed, error) {
	i, err := b.at(id)
	if err != nil {
		return api.Feed{}, err
	}
	return b.feeds[i], nil
}

func (b *board) Create(_ context.Context, c api.Creation) (api.Feed, error) {
	if _, err := b.at(c.ID); err == nil {
		return api.Feed{}, cdcerr.ChangefeedExists.New("changefeed %s", c.ID.Name)
	}
	if c.TargetTS != 0 && c.TargetTS <= c.StartTS {
		return api.Feed{}, cdcerr.TargetTSInvalid.New("target-ts %d, start-ts %d", c.TargetTS, c.StartTS)
	}
	f := api.Feed{ID: c.ID, SinkURI: c.SinkURI, StartTS: c.StartTS, TargetTS: c.TargetTS, Config: c.Config, State: "normal", Created: present.Time(),
		Checkpoint: c.StartTS, Resolved: c.StartTS}
	b.feeds = append(b.feeds, f)
	return f, nil
}

func (b *board) Update(_ context.Context, id api.FeedID, c api.Change) (api.Feed, error) {
	i, err := b.at(id)
	if err != nil {
		return api.Feed{}, err
	}
	f := &b.feeds[i]
	if f.State != "stopped" && f.State != "failed" {
		return api.Feed{}, cdcerr.UpdateRefused.New("changefeed %s is %s", id.Name, f.State)
	}
	if c.TargetTS != nil {
		f.TargetTS = *c.TargetTS
	}
	if c.SinkURI != nil {
		f.SinkURI = *c.SinkURI
	}
	if len(c.Config) > 0 {
		f.Config = c.Config
	}
	return *f, nil
}

func (b *board) Pause(_ context.Context, id api.FeedID) error { return b.set(id, "stopped", 1) }

func (b *board) Resume(_ context.Context, id api.FeedID, overwrite tso.TS) error {
	i, err := b.at(id)
	if err != nil {
		return err
	}
	if b.feeds[i].State == "normal" {
		return cdcerr.UpdateRefused.New("changefeed %s is normal: there is nothing to resume", id.Name)
	}
	if overwrite != 0 {
		b.feeds[i].Checkpoint = overwrite
	}
	return b.set(id, "normal", 0)
}

func (b *board) set(id api.FeedID, state string, job int) error {
	i, err := b.at(id)
	if err != nil {
		return err
	}
	b.feeds[i].State, b.feeds[i].AdminJob = state, job
	return nil
}

func (b *board) Remove(_ context.Context, id api.FeedID) error {
	i, err := b.at(id)
	if err != nil {
		return err
	}
	b.feeds = append(b.feeds[:i], b.feeds[i+1:]...)
	return nil
}

func (b *board) Verify(_ context.Context, c api.Creation) (api.Tables, error) {
	if c.SinkURI == "" {
		return api.Tables{}, cdcerr.SinkURIInvalid.New("sink_uri: is missing")
	}
	good, bad := api.Table{Schema: "a", Table: "t", ID: 104}, api.Table{Schema: "a", Table: "keyless", ID: 106, Reason: "no primary key and no usable unique key"}
	return api.Tables{Eligible: []api.Table{good}, Ineligible: []api.Table{bad}, All: []api.Table{good, bad}}, nil
}

// ClusterID and what follows make it an upstream too.
func (b *board) ClusterID() uint64 { return 7 }

func (b *board) TS(context.Context) (tso.TS, error) { return present, b.down }

func (b *board) ResolveLocks(_ context.Context, region uint64, upto tso.TS) error {
	if region == 404 {
		return cdcerr.RegionLookup.New("region %d", region)
	}
	if upto != tso.At(present.Time().Add(-time.Minute)) && upto != 5 {
		return fmt.Errorf("upto %d", upto)
	}
	return nil
}

func (b *board) ReleaseGC(context.Context) error { return nil }

var errSick = errors.New("etcd: no leader")
