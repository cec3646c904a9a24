package api

import (
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// FeedHistory is how a changefeed has come to where it is, as its owner keeps it. Ours.
type FeedHistory struct {
	CheckpointTS      tso.TS      `json:"checkpoint_ts"`
	ResolvedTS        tso.TS      `json:"resolved_ts"`
	SavedCheckpointTS tso.TS      `json:"saved_checkpoint_ts"`
	SavedResolvedTS   tso.TS      `json:"saved_resolved_ts"`
	SchemaResolvedTS  tso.TS      `json:"schema_resolved_ts"`
	Moves             []Move      `json:"moves"`
	Spans             []SpanMoved `json:"spans"`
}

// CaptureHistory is what moved of a capture's share of a changefeed. Ours.
type CaptureHistory struct {
	Moves []Move `json:"moves"`
}

// Move is one step of one timestamp. Ours.
type Move struct {
	Stage   string `json:"stage"`
	TableID int64  `json:"table_id,omitempty"`
	Region  uint64 `json:"region_id,omitempty"`
	From    tso.TS `json:"from"`
	To      tso.TS `json:"to"`
	Cause   string `json:"cause"`
}

// SpanMoved is one step of who has a span. Ours.
type SpanMoved struct {
	TableID      int64  `json:"table_id"`
	Span         string `json:"span"`
	From         string `json:"from"`
	To           string `json:"to"`
	Primary      string `json:"primary"`
	Secondary    string `json:"secondary"`
	CheckpointTS tso.TS `json:"checkpoint_ts"`
	Cause        string `json:"cause"`
}

func movesOf(all []tso.Move) []Move {
	out := make([]Move, len(all))
	for i, m := range all {
		out[i] = Move{Stage: string(m.Stage), TableID: m.TableID, Region: m.Region, From: m.From, To: m.To, Cause: m.Cause}
	}
	return out
}

// feedHistory is the owner's.
func (c *call) feedHistory() (any, error) {
	h, err := c.node().History(c.Context(), c.feed())
	if err != nil {
		return nil, err
	}
	out := FeedHistory{
		CheckpointTS: h.Checkpoint, ResolvedTS: h.Resolved, SavedCheckpointTS: h.SavedCheckpoint, SavedResolvedTS: h.SavedResolved,
		SchemaResolvedTS: h.Schema, Moves: movesOf(h.Moves), Spans: make([]SpanMoved, len(h.Spans)),
	}
	for i, s := range h.Spans {
		out.Spans[i] = SpanMoved{s.TableID, s.Span, s.From, s.To, string(s.Primary), string(s.Secondary), s.Checkpoint, s.Why}
	}
	return out, nil
}

// captureHistory is that of the capture that the path names.
func (c *call) captureHistory() (any, error) {
	all, err := c.node().Moves(c.feed())
	return CaptureHistory{Moves: movesOf(all)}, err
}

// addressee is the capture that a path names.
func (c *call) addressee() (capture.Info, error) {
	id := capture.ID(c.PathValue("capture_id"))
	all, err := c.node().Captures(c.Context())
	if err != nil {
		return capture.Info{}, err
	}
	for _, info := range all {
		if info.ID == id {
			return info, nil
		}
	}
	return capture.Info{}, cdcerr.CaptureNotFound.New("capture %q", id)
}
