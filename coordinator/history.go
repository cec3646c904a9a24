package coordinator

import (
	"context"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// History implements api.Node. It is of the run, as long as this owner leads it.
func (c *Coordinator) History(_ context.Context, id api.FeedID) (out api.History, err error) {
	f, err := c.find(id)
	if err != nil {
		return out, err
	}
	l := f.leads()
	if l == nil {
		return out, cdcerr.SchedulerRequest.New("changefeed %s does not run: what has moved is kept as long as a run", f.id)
	}
	p := l.Progress()
	out.Checkpoint, out.Resolved = p.Watermark.Checkpoint, p.Watermark.Resolved
	out.SavedCheckpoint, out.SavedResolved = p.Saved.Checkpoint, p.Saved.Resolved
	out.Schema = l.Resolved()
	moves, trace := l.History()
	out.Moves = moves
	for _, t := range trace {
		out.Spans = append(out.Spans, api.SpanChange{
			Span: t.Span.String(), TableID: int64(t.Span.TableID), From: t.From.String(), To: t.To.String(),
			Primary: t.Primary, Secondary: t.Secondary, Checkpoint: t.Checkpoint, Why: t.Why,
		})
	}
	return out, nil
}

// Moves implements api.Node.
func (c *Coordinator) Moves(id api.FeedID) ([]tso.Move, error) {
	p := c.member.part(meta.ChangefeedID{Namespace: id.Keyspace, Name: id.Name})
	if p == nil {
		return nil, cdcerr.CaptureNotFound.New("capture %s has no part in changefeed %s/%s", c.cfg.Self.ID, id.Keyspace, id.Name)
	}
	return p.History(), nil
}
