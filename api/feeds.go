package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/strict"
	"github.com/sluice-cdc/sluice/tso"
)

// states are what a changefeed can be in.
func states() []string {
	return []string{"normal", "pending", "failed", "stopped", "finished", "removed", "warning"}
}

// feeds are the changefeeds that the query asks for: all that are not over,
// where it says nothing.
func (c *call) feeds() ([]Feed, error) {
	want := c.URL.Query().Get("state")
	known := append(states(), "all")
	if want != "" && !slices.Contains(known, want) {
		near := ""
		if n := strict.Nearest(want, known); n != "" {
			near = fmt.Sprintf(", did you mean %q?", n)
		}
		return nil, cdcerr.InvalidArgument.New("state: %q is none of %s%s", clip(want), strings.Join(known, ", "), near)
	}
	all, err := c.node().List(c.Context())
	if err != nil {
		return nil, err
	}
	q := c.URL.Query()
	everywhere := !q.Has("keyspace") && !q.Has("namespace")
	var out []Feed
	for _, f := range all {
		over := f.State == "finished" || f.State == "removed"
		if (want == "all" || want == f.State || want == "" && !over) && (everywhere || f.ID.Keyspace == c.keyspace()) {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b Feed) int {
		return cmp.Or(strings.Compare(a.ID.Keyspace, b.ID.Keyspace), strings.Compare(a.ID.Name, b.ID.Name))
	})
	return out, nil
}

func (c *call) listFeeds() (any, error) {
	feeds, err := c.feeds()
	items := make([]FeedItem, 0, len(feeds))
	for i := range feeds {
		items = append(items, feeds[i].item())
	}
	return list(items), err
}

// item is a changefeed in a list.
func (f *Feed) item() FeedItem {
	return FeedItem{UpstreamID: f.UpstreamID, Namespace: f.ID.Keyspace, Keyspace: f.ID.Keyspace, ID: f.ID.Name, State: f.State,
		CheckpointTSO: f.Checkpoint, CheckpointTime: at(f.Checkpoint), Error: f.trouble().wire()}
}

// at is when a timestamp was, never for 0.
func at(ts tso.TS) Time {
	if ts == 0 {
		return Time{}
	}
	return Time(ts.Time())
}

// trouble is what went wrong last, an error before a warning.
func (f *Feed) trouble() *Fault {
	if f.Error != nil {
		return f.Error
	}
	return f.Warning
}

func (f *Fault) wire() *RunningError {
	if f == nil {
		return nil
	}
	return &RunningError{Time: f.At, Addr: f.Addr, Code: f.Code, Message: f.Message}
}

// wire is all of a changefeed.
func (f *Feed) wire() FeedInfo {
	config := f.Config
	if len(config) == 0 {
		config = json.RawMessage("{}")
	}
	return FeedInfo{
		UpstreamID: f.UpstreamID, Namespace: f.ID.Keyspace, Keyspace: f.ID.Keyspace, ID: f.ID.Name,
		SinkURI: f.SinkURI, CreateTime: f.Created, StartTS: f.StartTS, TargetTS: f.TargetTS, AdminJobType: f.AdminJob,
		Config: config, State: f.State, Error: f.trouble().wire(), CreatorVersion: f.Creator,
		ResolvedTS: f.Resolved, CheckpointTS: f.Checkpoint, CheckpointTime: at(f.Checkpoint), TaskStatus: f.tasks(), MaintainerAddr: f.Writer,
		Notes: f.Notes,
	}
}

func (f *Feed) tasks() []TaskStatus {
	out := []TaskStatus{}
	for _, t := range f.Tasks {
		t.TableIDs = some(t.TableIDs)
		out = append(out, t)
	}
	return out
}

func (c *call) createFeed() (any, error) {
	creation, err := c.creation()
	if err != nil {
		return nil, err
	}
	f, err := c.node().Create(c.Context(), creation)
	return f.wire(), err
}

func (c *call) verify() (any, error) {
	creation, err := c.creation()
	if err != nil {
		return nil, err
	}
	t, err := c.node().Verify(c.Context(), creation)
	t.Ineligible, t.Eligible, t.All = some(t.Ineligible), some(t.Eligible), some(t.All)
	return t, err
}

// creation reads what a body asks for. Who gives no name gets one, as at TiCDC.
func (c *call) creation() (Creation, error) {
	var in CreateFeed
	if err := c.read(&in); err != nil {
		return Creation{}, err
	}
	if err := in.refuse(); err != nil {
		return Creation{}, err
	}
	keyspace := cmp.Or(in.Keyspace, in.Namespace, c.keyspace())
	return Creation{ID: FeedID{Keyspace: keyspace, Name: cmp.Or(in.ID, NewID())}, StartTS: in.StartTS, TargetTS: in.TargetTS,
		SinkURI: in.SinkURI, Config: in.ReplicaConfig, Paused: in.Paused, UpstreamID: in.UpstreamID}, nil
}

// NewID is a UUID of version 4: what TiCDC names changefeeds by that have no name, and
// captures.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it would end the process
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (c *call) getFeed() (any, error) {
	f, err := c.node().Get(c.Context(), c.feed())
	return f.wire(), err
}

func (c *call) updateFeed() (any, error) {
	var in UpdateFeed
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if err := in.refuse(); err != nil {
		return nil, err
	}
	if in.StartTS != nil && *in.StartTS != 0 {
		return nil, cdcerr.UpdateRefused.New("start_ts: is history; resume with overwrite_checkpoint_ts to go on from elsewhere")
	}
	if in.TargetTS == nil && in.SinkURI == nil && len(in.ReplicaConfig) == 0 {
		return nil, cdcerr.InvalidArgument.New("request body: names nothing to change; it may hold target_ts, sink_uri and replica_config")
	}
	change := Change{TargetTS: in.TargetTS, SinkURI: in.SinkURI, Config: in.ReplicaConfig}
	switch {
	case in.TargetTS == nil:
	case *in.TargetTS == 0:
		change.TargetTS = nil // TiCDC's clients send 0 for what they do not change
	case *in.TargetTS == NoTarget:
		change.TargetTS = new(tso.TS)
	}
	if in.SinkURI != nil && *in.SinkURI == "" {
		change.SinkURI = nil
	}
	f, err := c.node().Update(c.Context(), c.feed(), change)
	return f.wire(), err
}

func (c *call) removeFeed() (any, error) {
	err := c.node().Remove(c.Context(), c.feed())
	if cdcerr.ChangefeedNotFound.Is(err) {
		err = nil
	}
	return Empty{}, err
}

func (c *call) pauseFeed() (any, error) { return Empty{}, c.node().Pause(c.Context(), c.feed()) }

func (c *call) resumeFeed() (any, error) {
	var in ResumeFeed
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if err := in.refuse(); err != nil {
		return nil, err
	}
	return Empty{}, c.node().Resume(c.Context(), c.feed(), in.OverwriteCheckpointTS)
}

func (c *call) feedStatus() (any, error) {
	f, err := c.node().Get(c.Context(), c.feed())
	if err != nil {
		return nil, err
	}
	out := FeedStatus{State: f.State, ResolvedTS: f.Resolved, CheckpointTS: f.Checkpoint, Count: f.Rows}
	// What was got over is no longer news: the checkpoint has passed it.
	if f.Error != nil && f.Error.At.After(f.Checkpoint.Time()) {
		out.LastError = f.Error.wire()
	}
	if f.Warning != nil && f.Warning.At.After(f.Checkpoint.Time()) {
		out.LastWarning = f.Warning.wire()
	}
	return out, nil
}

func (c *call) feedTables() (any, error) {
	f, err := c.node().Get(c.Context(), c.feed())
	if err != nil {
		return nil, err
	}
	items := []NodeTables{}
	for _, t := range f.tasks() {
		items = append(items, NodeTables{NodeID: t.CaptureID, TableIDs: t.TableIDs})
	}
	return list(items), nil
}

// presentWait bounds how long the question whether all is synced waits for PD: the
// answer without PD is of use to whoever has lost it.
const presentWait = 3 * time.Second

func (c *call) synced() (any, error) {
	f, err := c.node().Get(c.Context(), c.feed())
	if err != nil {
		return nil, err
	}
	out := Synced{SinkCheckpointTS: at(f.Checkpoint), PullerResolvedTS: at(f.Resolved), LastSyncedTS: Time(f.SyncedAt)}
	now, err := c.present()
	switch {
	case c.Context().Err() != nil:
		return nil, c.Context().Err()
	case err != nil:
		out.Info = f.syncedWithoutPD(err)
	default:
		out.NowTS = at(now)
		out.Synced, out.Info = f.judgeSynced(now)
	}
	return out, nil
}

// present is PD's present, if PD tells it soon.
func (c *call) present() (tso.TS, error) {
	up, err := c.upstream()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(c.Context(), presentWait)
	defer cancel()
	return up.TS(ctx)
}

// judgeSynced tells whether nothing was written for long enough while the
// checkpoint kept up, and if not, why that cannot be said.
func (f *Feed) judgeSynced(now tso.TS) (bool, string) {
	lag, ahead := now.Sub(f.Checkpoint), f.Resolved.Sub(f.Checkpoint)
	quiet := now.Time().Sub(f.SyncedAt) > f.SyncedCheckInterval
	upto := f.Checkpoint.Time().Format(time.RFC3339)
	switch {
	case f.State == "finished":
		return false, fmt.Sprintf("the changefeed is finished: all up to its target-ts is downstream, and what upstream has written since %s is not", upto)
	case f.State != "normal" && f.State != "warning":
		return false, fmt.Sprintf("the changefeed is %s: what upstream has written since %s is not downstream", f.State, upto)
	case quiet && lag < f.CheckpointInterval:
		return true, "all that upstream had written is downstream"
	case quiet && ahead < f.CheckpointInterval:
		return false, fmt.Sprintf("all that came from upstream is downstream, but nothing has come for %s: if PD and every region of TiKV are there, wait; if they are lost for good, this is all there will be", lag.Round(time.Second))
	case quiet:
		return false, fmt.Sprintf("the checkpoint is %s behind what has come from upstream, wait", ahead.Round(time.Second))
	}
	return false, fmt.Sprintf("rows were written, or the changefeed began to run, less than %s ago, wait", f.SyncedCheckInterval)
}

// syncedWithoutPD says what is known where PD gives no present: whether it is
// synced cannot be said, but whether all that has come is downstream.
func (f *Feed) syncedWithoutPD(err error) string {
	if ahead := f.Resolved.Sub(f.Checkpoint); ahead >= f.CheckpointInterval {
		return fmt.Sprintf("PD gives no time (%v), and the checkpoint is %s behind what has come from upstream: not all is downstream", err, ahead.Round(time.Second))
	}
	return fmt.Sprintf("PD gives no time (%v): if PD is there, ask again; if upstream is lost for good, all that came from it is downstream once more than %s have passed since last_synced_ts, by PD's clock", err, f.SyncedCheckInterval)
}

// minuteBefore is the present a minute ago.
func minuteBefore(now tso.TS) tso.TS { return tso.At(now.Time().Add(-time.Minute)) }
