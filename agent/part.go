package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// Line is how a part hears its owner, and is heard. What it carries may be lost,
// doubled, late and out of order.
type Line interface {
	// Ready gets a token when something can be taken.
	Ready() <-chan struct{}
	Take() []scheduler.Orders
	// Report goes to the owner that its head names. It does not block.
	Report(scheduler.Report)
}

// PartConfig is one changefeed's part on this capture, in one run of the changefeed.
type PartConfig struct {
	Name string // the changefeed's
	ID   capture.ID
	// Epoch is the changefeed's run: orders of another one are nobody's.
	Epoch uint64
	// Floor is the least owner who may be obeyed: scheduler.CaptureConfig has the rule.
	Floor scheduler.Revision
	// StartTS is where the changefeed was created to begin, Checkpoint the durable
	// watermark when the part began.
	StartTS, Checkpoint tso.TS

	Filter         filter.Config
	ForceReplicate bool
	FilterLoop     bool

	Line Line
	// Liveness is told in every report. Lease is until when a write may begin to
	// commit, as of now; the zero time has no end. Both are asked from any goroutine.
	Liveness func() capture.Liveness
	Lease    func() time.Time
	// Open connects to the downstream, before the first row of each term.
	Open func(ctx context.Context, o Opening) (sink.Sink, error)
	// Encode is how an error is told to the owner; nil is its text.
	Encode func(error) string
	Log    *slog.Logger
}

// Opening is what a part tells whoever opens its sink.
type Opening struct {
	// Term is under which it writes: the fence of its grants.
	Term scheduler.Term
	// Replayed is up to where rows may be downstream already that come now; it rises
	// when the part takes spans over.
	Replayed func() tso.TS
	// Warn takes what the sink rides out, from any goroutine.
	Warn func(error)
	// Filter is the changefeed's.
	Filter *filter.Filter
	// Snapshot reads rows that no event carries.
	Snapshot *Snapshot
}

// Validate names the first key that cannot be used.
func (c *PartConfig) Validate() error {
	switch {
	case c.Name == "" || c.ID == "" || c.Epoch == 0:
		return cdcerr.InvalidArgument.New("Name %q, ID %q, Epoch %d: all must be given", c.Name, c.ID, c.Epoch)
	case c.StartTS == 0 || c.Checkpoint < c.StartTS.Prev():
		return cdcerr.InvalidArgument.New("StartTS %d, Checkpoint %d: both must be given, the checkpoint no further back than just below", c.StartTS, c.Checkpoint)
	case c.Line == nil || c.Open == nil || c.Liveness == nil || c.Lease == nil:
		return cdcerr.InvalidArgument.New("Line, Open, Liveness, Lease: all must be given")
	}
	return nil
}

// Part is one changefeed's part on one capture: it does what the changefeed's owner
// orders.
type Part struct {
	cfg PartConfig
}

// Part makes a changefeed's part on this capture, which must be running.
func (c *Capture) Part(cfg PartConfig) (*Part, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Part{cfg: cfg}, nil
}

// Run obeys until ctx ends; nothing of the part writes any more when it returns. What
// fails meanwhile is told to the owner and begun anew.
func (p *Part) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Progress is what was done since Run began, over all lives.
func (p *Part) Progress() pipeline.Progress { return pipeline.Progress{} }

// History is the last moves of the part's timestamps, oldest first.
func (p *Part) History() []tso.Move { return nil }

// Spans are what the part has something of, in no order.
func (p *Part) Spans() []scheduler.Status { return nil }

// Len is how many Spans there are, cheaply: none is what a capture waits for that is on
// its way out.
func (p *Part) Len() int { return 0 }
