package api

import (
	"encoding/json"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// The JSON forms of version 1, where they differ from version 2's.

// FirstDrain names a capture to drain.
type FirstDrain struct {
	CaptureID string `json:"capture_id"`
}

// FirstMove names a table, and the capture that is to have it.
type FirstMove struct {
	CaptureID string `json:"capture_id"`
	TableID   int64  `json:"table_id"`
}

// FirstItem is a changefeed in a list.
type FirstItem struct {
	UpstreamID     uint64        `json:"upstream_id"`
	Namespace      string        `json:"namespace"`
	ID             string        `json:"id"`
	State          string        `json:"state"`
	CheckpointTSO  tso.TS        `json:"checkpoint_tso"`
	CheckpointTime Time          `json:"checkpoint_time"`
	Error          *RunningError `json:"error"`
}

// FirstFeed is all of a changefeed.
type FirstFeed struct {
	UpstreamID     uint64        `json:"upstream_id"`
	Namespace      string        `json:"namespace"`
	ID             string        `json:"id"`
	SinkURI        string        `json:"sink_uri"`
	CreateTime     Time          `json:"create_time"`
	StartTS        tso.TS        `json:"start_ts"`
	ResolvedTS     tso.TS        `json:"resolved_ts"`
	TargetTS       tso.TS        `json:"target_ts"`
	CheckpointTSO  tso.TS        `json:"checkpoint_tso"`
	CheckpointTime Time          `json:"checkpoint_time"`
	State          string        `json:"state"`
	Error          *RunningError `json:"error"`
	CreatorVersion string        `json:"creator_version"`
	TaskStatus     []TaskStatus  `json:"task_status"`
}

// FirstProcessor is what a capture does for a changefeed.
type FirstProcessor struct {
	CheckpointTS tso.TS        `json:"checkpoint_ts"`
	ResolvedTS   tso.TS        `json:"resolved_ts"`
	TableIDs     []int64       `json:"table_ids"`
	Error        *RunningError `json:"error"`
}

// FirstSettings are the settings that version 1 knows.
type FirstSettings struct {
	FilterRules       []string        `json:"filter_rules"`
	IgnoreTxnStartTS  []tso.TS        `json:"ignore_txn_start_ts"`
	MounterWorkerNum  int             `json:"mounter_worker_num"`
	ForceReplicate    bool            `json:"force_replicate"`
	IgnoreIneligible  bool            `json:"ignore_ineligible_table"`
	SinkConfig        json.RawMessage `json:"sink_config"`
	CaseSensitiveName bool            `json:"case_sensitive"`
}

// FirstCreate asks for a new changefeed.
type FirstCreate struct {
	ID        string `json:"changefeed_id"`
	Namespace string `json:"namespace"`
	StartTS   tso.TS `json:"start_ts"`
	TargetTS  tso.TS `json:"target_ts"`
	SinkURI   string `json:"sink_uri"`
	TimeZone  string `json:"timezone"` // accepted and unused, as by TiCDC
	FirstSettings
}

// FirstUpdate asks for other settings.
type FirstUpdate struct {
	TargetTS         tso.TS          `json:"target_ts"`
	SinkURI          string          `json:"sink_uri"`
	FilterRules      []string        `json:"filter_rules"`
	IgnoreTxnStartTS []tso.TS        `json:"ignore_txn_start_ts"`
	MounterWorkerNum int             `json:"mounter_worker_num"`
	SinkConfig       json.RawMessage `json:"sink_config"`
}

// NodeTables are the tables that a capture replicates.
type NodeTables struct {
	NodeID   string  `json:"node_id"`
	TableIDs []int64 `json:"table_ids"`
}

// config is the settings in version 2's form.
func (s FirstSettings) config() (json.RawMessage, error) {
	filter := map[string]any{}
	if len(s.FilterRules) > 0 {
		filter["rules"] = s.FilterRules
	}
	if len(s.IgnoreTxnStartTS) > 0 {
		filter["ignore_txn_start_ts"] = s.IgnoreTxnStartTS
	}
	tree := map[string]any{}
	if len(filter) > 0 {
		tree["filter"] = filter
	}
	for key, set := range map[string]bool{
		"force_replicate": s.ForceReplicate, "ignore_ineligible_table": s.IgnoreIneligible, "case_sensitive": s.CaseSensitiveName,
	} {
		if set {
			tree[key] = true
		}
	}
	if s.MounterWorkerNum != 0 {
		tree["mounter"] = map[string]any{"worker_num": s.MounterWorkerNum}
	}
	if len(s.SinkConfig) > 0 && string(s.SinkConfig) != "null" {
		tree["sink"] = s.SinkConfig
	}
	if len(tree) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(tree)
	return text, cdcerr.InvalidArgument.Wrap(err, "sink_config")
}

func (c *call) firstCreate() (any, error) {
	var in FirstCreate
	if err := c.read(&in); err != nil {
		return nil, err
	}
	config, err := in.config()
	if err != nil {
		return nil, err
	}
	id := FeedID{Keyspace: c.keyspace(), Name: in.ID}
	if in.Namespace != "" {
		id.Keyspace = in.Namespace
	}
	if id.Name == "" {
		id.Name = NewID()
	}
	_, err = c.node().Create(c.Context(), Creation{ID: id, StartTS: in.StartTS, TargetTS: in.TargetTS, SinkURI: in.SinkURI, Config: config})
	return Empty{}, err
}

func (c *call) firstUpdate() (any, error) {
	var in FirstUpdate
	if err := c.read(&in); err != nil {
		return nil, err
	}
	var change Change
	if in.TargetTS != 0 {
		change.TargetTS = &in.TargetTS
	}
	if in.SinkURI != "" {
		change.SinkURI = &in.SinkURI
	}
	config, err := FirstSettings{FilterRules: in.FilterRules, IgnoreTxnStartTS: in.IgnoreTxnStartTS,
		MounterWorkerNum: in.MounterWorkerNum, SinkConfig: in.SinkConfig}.config()
	if err != nil {
		return nil, err
	}
	change.Config = config
	if change.TargetTS == nil && change.SinkURI == nil && len(config) == 0 {
		return nil, cdcerr.InvalidArgument.New("request body: names nothing to change")
	}
	_, err = c.node().Update(c.Context(), c.feed(), change)
	return Empty{}, err
}

func (c *call) feedArray() (any, error) {
	feeds, err := c.feeds()
	out := make([]FirstItem, 0, len(feeds))
	for i := range feeds {
		f := &feeds[i]
		out = append(out, FirstItem{UpstreamID: f.UpstreamID, Namespace: f.ID.Keyspace, ID: f.ID.Name, State: f.State,
			CheckpointTSO: f.Checkpoint, CheckpointTime: at(f.Checkpoint), Error: f.trouble().wire()})
	}
	return out, err
}

func (c *call) firstFeed() (any, error) {
	f, err := c.node().Get(c.Context(), c.feed())
	return FirstFeed{UpstreamID: f.UpstreamID, Namespace: f.ID.Keyspace, ID: f.ID.Name, SinkURI: f.SinkURI, CreateTime: Time(f.Created),
		StartTS: f.StartTS, ResolvedTS: f.Resolved, TargetTS: f.TargetTS, CheckpointTSO: f.Checkpoint, CheckpointTime: at(f.Checkpoint),
		State: f.State, Error: f.trouble().wire(), CreatorVersion: f.Creator, TaskStatus: f.tasks()}, err
}

func (c *call) firstProcessor() (any, error) {
	f, task, err := c.task()
	return FirstProcessor{CheckpointTS: f.Checkpoint, ResolvedTS: f.Resolved, TableIDs: task.TableIDs, Error: f.trouble().wire()}, err
}
