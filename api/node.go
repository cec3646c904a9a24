package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/tso"
)

// Node is what the API needs of the capture that it speaks for. The errors of
// all its methods carry a code where they are the caller's or the cluster's
// fault; one without is answered as an internal error.
type Node interface {
	Members
	Feeds
}

// Members is the cluster. Every capture can tell.
type Members interface {
	// Self is this capture. It does not wait.
	Self() Self
	// Owner is the capture to which requests about changefeeds are handed on;
	// cdcerr.OwnerNotFound, with where the election stands, while there is none.
	Owner(ctx context.Context) (capture.Info, error)
	// Captures are all members.
	Captures(ctx context.Context) ([]capture.Info, error)
	// Health is nil while changefeeds can be replicated.
	Health(ctx context.Context) error
	// Metadata is every key that the cluster keeps, secrets masked.
	Metadata(ctx context.Context) ([]Pair, error)
	// Moves are the last moves of the timestamps of what this capture does for a changefeed,
	// oldest first; cdcerr.CaptureNotFound where it does nothing.
	Moves(id FeedID) ([]tso.Move, error)
}

// Feeds is what only the owner does.
type Feeds interface {
	// Resign gives the ownership to another capture.
	Resign(ctx context.Context) error
	// Drain begins, or goes on, to take a capture's tables away, and says how many
	// it has left. It goes on, whoever leads, until the capture has left the cluster, or
	// Undrain lets it have tables again.
	Drain(ctx context.Context, id capture.ID) (Drained, error)
	Undrain(ctx context.Context, id capture.ID) error
	// MoveTable begins to move a table to a capture. A Get tells when it is there, under
	// the id that is shown: the table's, or that of one of the partitions that go with it.
	MoveTable(ctx context.Context, id FeedID, table int64, to capture.ID) (shown int64, err error)
	// Rebalance evens out now how many tables captures have.
	Rebalance(ctx context.Context, id FeedID) error

	// List are all changefeeds, of every state, by keyspace and name.
	List(ctx context.Context) ([]Feed, error)
	Get(ctx context.Context, id FeedID) (Feed, error)
	Create(ctx context.Context, c Creation) (Feed, error)
	Update(ctx context.Context, id FeedID, c Change) (Feed, error)
	Pause(ctx context.Context, id FeedID) error
	// Resume goes on from the checkpoint, or from overwrite where it is not 0.
	Resume(ctx context.Context, id FeedID, overwrite tso.TS) error
	// History is what has moved of a changefeed that runs, and where its owner has it.
	History(ctx context.Context, id FeedID) (History, error)
	// Remove of one that is not there is cdcerr.ChangefeedNotFound; the API calls
	// that success, as TiCDC does.
	Remove(ctx context.Context, id FeedID) error
	// Verify is a Create that changes nothing: what would be replicated.
	Verify(ctx context.Context, c Creation) (Tables, error)
}

// Upstream is what the API asks of the cluster that is replicated.
type Upstream interface {
	ClusterID() uint64
	TS(ctx context.Context) (tso.TS, error)
	// ResolveLocks ends what transactions that began before upto left in a region.
	ResolveLocks(ctx context.Context, region uint64, upto tso.TS) error
	// ReleaseGC gives up every hold of this cluster on the upstream's collection.
	ReleaseGC(ctx context.Context) error
}

// Self is what a capture knows of itself.
type Self struct {
	capture.Info
	ClusterID string
	Owner     bool
	Liveness  capture.Liveness
	GCHold    tso.TS // from where on the owner keeps what is upstream; 0: nothing
}

// FeedID names a changefeed.
type FeedID struct {
	Keyspace string
	Name     string
}

// Creation is a changefeed that is wanted.
type Creation struct {
	ID       FeedID
	StartTS  tso.TS // 0: now
	TargetTS tso.TS // 0: never
	SinkURI  string
	Config   json.RawMessage // empty: every default
	Paused   bool            // it stands until it is resumed
	// UpstreamID is the cluster that is meant; 0: whichever is replicated.
	UpstreamID uint64
}

// Change is what to change of a changefeed; nil leaves it.
type Change struct {
	TargetTS *tso.TS
	SinkURI  *string
	Config   json.RawMessage
}

// Feed is a changefeed as it stands.
type Feed struct {
	ID         FeedID
	UpstreamID uint64
	SinkURI    string // masked
	Created    time.Time
	Creator    string // the version that made it
	StartTS    tso.TS
	TargetTS   tso.TS
	Config     json.RawMessage // masked
	State      string
	AdminJob   int
	Error      *Fault
	Warning    *Fault
	Resolved   tso.TS
	Checkpoint tso.TS
	Tasks      []TaskStatus
	Writer     string // address of the capture that writes
	// Notes are what whoever has made or changed it has to know: keys that do nothing,
	// what is missing downstream. Else, what its first DDL waits for, once that is long.
	Notes []string
	Rows  uint64 // that the sink has taken since that capture runs it
	// SyncedAt is the commit of what was written last, as far as the present run
	// knows: the checkpoint from which it began where that has written nothing.
	SyncedAt time.Time
	// SyncedCheckInterval and CheckpointInterval are the changefeed's own bounds of
	// what counts as synced.
	SyncedCheckInterval time.Duration
	CheckpointInterval  time.Duration
	Tally               Tally
}

// History is how a changefeed has come to where it is, as far as its owner keeps it.
type History struct {
	Checkpoint, Resolved           tso.TS // as far as everything is
	SavedCheckpoint, SavedResolved tso.TS // and durable
	Schema                         tso.TS // up to where the schema is known
	Moves                          []tso.Move
	Spans                          []SpanChange
}

// SpanChange is one step of who has a span.
type SpanChange struct {
	Span               string
	TableID            int64
	From, To           string
	Primary, Secondary capture.ID
	Checkpoint         tso.TS
	Why                string
}

// Fault is what went wrong with a changefeed.
type Fault struct {
	At      time.Time
	Addr    string // of the capture where
	Code    string
	Message string
}
