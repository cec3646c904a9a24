// Package apitest owns a cluster in memory, for tests of what asks one: a Node
// and an Upstream that do at once what they are asked to.
package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/tso"
)

// Present is the upstream's.
var Present = tso.At(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))

// Board is a cluster in memory: what a Node is asked to do, done at once. Its
// fields are for whoever changes the world; they are not to be changed while a
// request is under way.
type Board struct {
	Is     api.Self
	Leader *capture.Info
	Sick   error // what Health says
	Down   error // what every question to the upstream is answered with
	Refuse error // what Create and Verify are answered with
	Keyed  bool  // every table has a key
	// Reachable has Captures tell Leader's address of capture-1.
	Reachable bool

	mu     sync.Mutex
	feeds  []api.Feed
	drains int // how often capture-2 was asked to be drained
}

// NewBoard is a cluster of two captures with four changefeeds; capture-1 is
// asked, and owns it.
func NewBoard() *Board {
	owner := capture.Info{ID: "capture-1", Address: "10.0.0.1:8300", Version: "1.0.0"}
	b := &Board{
		Is:     api.Self{Info: owner, ClusterID: "default", Owner: true},
		Leader: &owner,
		feeds: []api.Feed{
			{ID: api.FeedID{Keyspace: "default", Name: "orders"}, UpstreamID: 7, SinkURI: "mysql://root:xxxxx@db:3306/", Created: Present.Time().Add(-time.Hour),
				Creator: "1.0.0", StartTS: tso.At(Present.Time().Add(-time.Hour)), Config: json.RawMessage(`{"case_sensitive":false}`), State: "normal",
				Resolved: tso.At(Present.Time().Add(-time.Second)), Checkpoint: tso.At(Present.Time().Add(-2 * time.Second)),
				Tasks: []api.TaskStatus{{CaptureID: "capture-1", TableIDs: []int64{104, 106}}}, Writer: "10.0.0.1:8300",
				SyncedAt: Present.Time().Add(-10 * time.Minute), SyncedCheckInterval: 5 * time.Minute, CheckpointInterval: 15 * time.Second},
			{ID: api.FeedID{Keyspace: "default", Name: "old"}, UpstreamID: 7, SinkURI: "blackhole:///", Created: Present.Time(), Creator: "1.0.0",
				StartTS: 100, TargetTS: 200, State: "finished", AdminJob: 4, Resolved: 200, Checkpoint: 200},
			{ID: api.FeedID{Keyspace: "default", Name: "broken"}, UpstreamID: 7, SinkURI: "mysql://db:3306/", Created: Present.Time(), Creator: "1.0.0",
				StartTS: 100, State: "failed", AdminJob: 1, Resolved: 200, Checkpoint: 150, CheckpointInterval: 15 * time.Second, SyncedCheckInterval: 5 * time.Minute,
				Error: &api.Fault{At: Present.Time(), Addr: "10.0.0.1:8300", Code: "CDC:ErrSnapshotLostByGC", Message: "checkpoint 150 is below the safepoint"}},
			{ID: api.FeedID{Keyspace: "other", Name: "orders"}, State: "stopped", AdminJob: 1, StartTS: 5, Checkpoint: 5, Resolved: 5, Created: Present.Time()},
		},
	}
	return b
}

// Lose has the upstream lost, and the changefeed orders ended for it.
func (b *Board) Lose() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Down = cdcerr.PDUnreachable.New("PD has given no timestamp for 10s")
	f := &b.feeds[0]
	f.State, f.AdminJob, f.Checkpoint, f.Tasks, f.Writer = "finished", 4, f.Resolved, nil, ""
	f.Warning = &api.Fault{At: Present.Time(), Addr: "10.0.0.1:8300", Code: cdcerr.UpstreamLost.ID,
		Message: fmt.Sprintf("[%s] upstream lost, applied to %d (%s UTC)", cdcerr.UpstreamLost.ID, f.Resolved, f.Resolved.Time().UTC().Format("2006-01-02 15:04:05.000"))}
}

// Self is this capture.
func (b *Board) Self() api.Self {
	return b.Is
}

// Owner is Leader.
func (b *Board) Owner(context.Context) (capture.Info, error) {
	if b.Leader == nil {
		return capture.Info{}, cdcerr.OwnerNotFound.New("the session of capture-9 at 10.0.0.9:8300 ends in 4s")
	}
	return *b.Leader, nil
}

// Captures are two.
func (b *Board) Captures(context.Context) ([]capture.Info, error) {
	first := capture.Info{ID: "capture-1", Address: "10.0.0.1:8300"}
	if l := b.Leader; b.Reachable && l != nil {
		first.Address = l.Address
	}
	return []capture.Info{first, {ID: "capture-2", Address: "10.0.0.2:8300"}}, nil
}

// Health is Sick.
func (b *Board) Health(context.Context) error { return b.Sick }

// Metadata is one key.
func (b *Board) Metadata(context.Context) ([]api.Pair, error) {
	return []api.Pair{{Key: "/sluice/default/owner/1", Value: "capture-1"}}, nil
}

// Resign always succeeds.
func (b *Board) Resign(context.Context) error { return nil }

// Drain takes the three tables of capture-2 between two questions.
func (b *Board) Drain(_ context.Context, id capture.ID) (out api.Drained, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch id {
	case "capture-1":
		return out, cdcerr.SchedulerRequest.New("capture %s is the only one that takes tables: nobody could take its tables over", id)
	case "capture-2":
		if b.drains++; b.drains == 1 {
			out = api.Drained{CurrentTableCount: 3, Reason: "changefeed default/orders: 2 Prepare, 1 Replicating"}
		}
		return out, nil
	}
	return out, cdcerr.CaptureNotFound.New("capture %q", id)
}

// Undrain lets capture-2 have its tables again.
func (b *Board) Undrain(_ context.Context, id capture.ID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == "capture-2" {
		b.drains = 0
	}
	return nil
}

// MoveTable moves a table at once. 105 is one whose partition 106 is shown.
func (b *Board) MoveTable(_ context.Context, id api.FeedID, table int64, to capture.ID) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if table == 105 {
		table = 106
	}
	i, err := b.at(id)
	if err != nil {
		return 0, err
	}
	if to != "capture-1" && to != "capture-2" {
		return 0, cdcerr.CaptureNotFound.New("capture %q", to)
	}
	f := &b.feeds[i]
	known := false
	tasks := map[string][]int64{string(to): {table}}
	for _, t := range f.Tasks {
		for _, at := range t.TableIDs {
			if known = known || at == table; at != table {
				tasks[t.CaptureID] = append(tasks[t.CaptureID], at)
			}
		}
	}
	if !known {
		return 0, cdcerr.SchedulerRequest.New("table %d is none of changefeed %s", table, id.Name)
	}
	f.Tasks = nil
	for _, at := range slices.Sorted(maps.Keys(tasks)) {
		slices.Sort(tasks[at])
		f.Tasks = append(f.Tasks, api.TaskStatus{CaptureID: at, TableIDs: tasks[at]})
	}
	return table, nil
}

// History is that the checkpoint of orders has moved, and where a table went.
func (b *Board) History(_ context.Context, id api.FeedID) (api.History, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, err := b.at(id)
	if err != nil {
		return api.History{}, err
	}
	f := &b.feeds[i]
	return api.History{
		Checkpoint: f.Checkpoint, Resolved: f.Resolved, SavedCheckpoint: f.Checkpoint.Prev(), SavedResolved: f.Resolved, Schema: f.Resolved,
		Moves: []tso.Move{{Stage: tso.StageCheckpoint, From: f.Checkpoint.Prev(), To: f.Checkpoint, Cause: "every span is downstream up to here"}},
		Spans: []api.SpanChange{{Span: "table 104 [a, b)", TableID: 104, From: "Commit", To: "Replicating", Primary: "capture-1", Checkpoint: f.Checkpoint, Why: "it writes"}},
	}, nil
}

// Moves are one region's.
func (b *Board) Moves(id api.FeedID) ([]tso.Move, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, err := b.at(id)
	if err != nil {
		return nil, err
	}
	at := b.feeds[i].Resolved
	return []tso.Move{{Stage: tso.StageRegion, TableID: 104, Region: 12, From: at.Prev(), To: at, Cause: "TiKV said so"}}, nil
}

// Rebalance finds everything even.
func (b *Board) Rebalance(_ context.Context, id api.FeedID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.at(id)
	return err
}

// List is all.
func (b *Board) List(context.Context) ([]api.Feed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.feeds), nil
}

// check is a configuration as it is shown, if it can be one with this sink.
func check(text json.RawMessage, over changefeed.Config, uri string) (json.RawMessage, error) {
	config, err := changefeed.ParseJSON(text, over)
	if err == nil {
		err = config.Validate(changefeed.Limits{})
	}
	if err == nil {
		_, err = config.Check(changefeed.URI(uri))
	}
	if err != nil {
		return nil, err
	}
	return config.JSON()
}

func (b *Board) at(id api.FeedID) (int, error) {
	for i, f := range b.feeds {
		if f.ID == id {
			return i, nil
		}
	}
	return 0, cdcerr.ChangefeedNotFound.New("changefeed %s/%s", id.Keyspace, id.Name)
}

// Get is one.
func (b *Board) Get(_ context.Context, id api.FeedID) (api.Feed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, err := b.at(id)
	if err != nil {
		return api.Feed{}, err
	}
	return b.feeds[i], nil
}

// Create adds one.
func (b *Board) Create(_ context.Context, c api.Creation) (api.Feed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Refuse != nil {
		return api.Feed{}, b.Refuse
	}
	if _, err := b.at(c.ID); err == nil {
		return api.Feed{}, cdcerr.ChangefeedExists.New("changefeed %s", c.ID.Name)
	}
	config, err := check(c.Config, changefeed.Default(), c.SinkURI)
	if err != nil {
		return api.Feed{}, err
	}
	if c.TargetTS != 0 && c.TargetTS <= c.StartTS {
		return api.Feed{}, cdcerr.TargetTSInvalid.New("target-ts %d, start-ts %d", c.TargetTS, c.StartTS)
	}
	if err := b.follows(c); err != nil {
		return api.Feed{}, err
	}
	f := api.Feed{ID: c.ID, SinkURI: changefeed.URI(c.SinkURI).String(), StartTS: c.StartTS, TargetTS: c.TargetTS, Config: config, State: "normal", Created: Present.Time(),
		Checkpoint: c.StartTS, Resolved: c.StartTS}
	if c.Paused {
		f.State, f.AdminJob = "stopped", 1
	}
	b.feeds = append(b.feeds, f)
	return f, nil
}

// follows refuses what follows another cluster.
func (b *Board) follows(c api.Creation) error {
	if c.UpstreamID != 0 && c.UpstreamID != b.ClusterID() {
		return cdcerr.NotInRelease.New("changefeed %s follows the cluster %d, this one follows %d", c.ID.Name, c.UpstreamID, b.ClusterID())
	}
	return nil
}

// Update changes one that stands.
func (b *Board) Update(_ context.Context, id api.FeedID, c api.Change) (api.Feed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
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
		f.SinkURI = changefeed.URI(*c.SinkURI).String()
	}
	if len(c.Config) > 0 {
		config, err := check(c.Config, changefeed.Default(), "blackhole:///")
		if err != nil {
			return api.Feed{}, err
		}
		f.Config = config
	}
	return *f, nil
}

// Pause stops one.
func (b *Board) Pause(_ context.Context, id api.FeedID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.set(id, "stopped", 1)
}

// Resume goes on with one that stands.
func (b *Board) Resume(_ context.Context, id api.FeedID, overwrite tso.TS) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, err := b.at(id)
	if err != nil {
		return err
	}
	if b.feeds[i].State == "normal" {
		return cdcerr.UpdateRefused.New("changefeed %s is normal: there is nothing to resume", id.Name)
	}
	if w := b.feeds[i].Warning; w != nil && w.Code == cdcerr.UpstreamLost.ID {
		return cdcerr.UpdateRefused.New("changefeed %s has ended (upstream lost, applied to %d) and cannot be resumed", id.Name, b.feeds[i].Checkpoint)
	}
	if overwrite != 0 {
		b.feeds[i].Checkpoint = overwrite
	}
	return b.set(id, "normal", 0)
}

func (b *Board) set(id api.FeedID, state string, job int) error {
	i, err := b.at(id)
	if err != nil {
		return err
	}
	b.feeds[i].State, b.feeds[i].AdminJob = state, job
	return nil
}

// Remove takes one away.
func (b *Board) Remove(_ context.Context, id api.FeedID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, err := b.at(id)
	if err != nil {
		return err
	}
	b.feeds = append(b.feeds[:i], b.feeds[i+1:]...)
	return nil
}

// Verify has one table with a key and one without.
func (b *Board) Verify(_ context.Context, c api.Creation) (api.Tables, error) {
	if b.Refuse != nil {
		return api.Tables{}, b.Refuse
	}
	if _, err := check(c.Config, changefeed.Default(), c.SinkURI); err != nil {
		return api.Tables{}, err
	}
	if err := b.follows(c); err != nil {
		return api.Tables{}, err
	}
	good, bad := api.Table{Schema: "a", Table: "t", ID: 104}, api.Table{Schema: "a", Table: "keyless", ID: 106, Reason: "no primary key and no usable unique key"}
	if b.Keyed {
		return api.Tables{Eligible: []api.Table{good}, All: []api.Table{good}}, nil
	}
	return api.Tables{Eligible: []api.Table{good}, Ineligible: []api.Table{bad}, All: []api.Table{good, bad}}, nil
}

// ClusterID is 7.
func (b *Board) ClusterID() uint64 { return 7 }

// TS is Present.
func (b *Board) TS(context.Context) (tso.TS, error) { return Present, b.Down }

// ResolveLocks knows no region 404.
func (b *Board) ResolveLocks(_ context.Context, region uint64, upto tso.TS) error {
	if region == 404 {
		return cdcerr.RegionLookup.New("region %d", region)
	}
	if upto != tso.At(Present.Time().Add(-time.Minute)) && upto != 5 {
		return fmt.Errorf("upto %d", upto)
	}
	return nil
}

// ReleaseGC always succeeds.
func (b *Board) ReleaseGC(context.Context) error { return nil }
