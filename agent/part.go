package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/span"
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
	// Lives is how many lives of scheduler's half there were in this run and process.
	Lives uint64
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
	// Deaf tells whether something of the upstream cannot be heard from here; nil: all can.
	Deaf func() bool
	// Open connects to the downstream, before the first row of each term.
	Open func(ctx context.Context, o Opening) (sink.Sink, error)
	// Redo makes a writer of the changefeed's redo log, for as long as one engine lives;
	// nil where there is no log. What is wrong with the storage it tells, and nil when
	// it works again.
	Redo func(trouble func(error)) RedoWriter
	// CountEvery is how often the regions of spans are counted, for their load to be told;
	// 0: nobody asks for it.
	CountEvery time.Duration
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
	cfg      PartConfig
	path     Path
	scope    filter.Scope
	recorder *pipeline.Recorder

	mu      sync.Mutex
	half    *scheduler.Capture   // guarded by mu, like all below: the engine asks it for limits
	passed  tso.TS               // every DDL at or below is done, and durably known
	fresh   map[span.Span]uint64 // orders to write whose rows wait until replay has looked, by their number
	orders  uint64               // numbers those
	engine  Engine               // nil: there is none
	past    pipeline.Progress    // of engines that have ended
	before  uint64               // rows written in lives before
	floor   scheduler.Progress   // of what is written; 0 where nothing is
	warning warning
	refused int // lives in a row that ended, each soon, because the leave to write was over
	// logTrouble is what is wrong with the redo log's storage at this moment.
	logTrouble string
}

// Part makes a changefeed's part on this capture, which must be running.
func (c *Capture) Part(cfg PartConfig) (*Part, error) {
	if cfg.Deaf == nil {
		cfg.Deaf = c.deaf
	}
	return NewPart(cfg, dataPath{c})
}

// NewPart makes a part that drives a path of its caller's.
func NewPart(cfg PartConfig, path Path) (*Part, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Encode == nil {
		cfg.Encode = error.Error
	}
	if cfg.Deaf == nil {
		cfg.Deaf = func() bool { return false }
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	rules, err := filter.New(cfg.Filter)
	if err != nil {
		return nil, err
	}
	half, err := scheduler.NewCapture(scheduler.CaptureConfig{
		ID: cfg.ID, Epoch: cfg.Epoch, Incarnation: cfg.Lives + 1, Floor: cfg.Floor, Gated: cfg.Redo != nil, StatusesMax: scheduler.StatusesMax,
	})
	if err != nil {
		return nil, err
	}
	return &Part{
		cfg: cfg, path: path, half: half, passed: cfg.Checkpoint, fresh: map[span.Span]uint64{},
		scope:    filter.Scope{Rules: rules, ForceReplicate: cfg.ForceReplicate, PrimaryOnly: cfg.FilterLoop},
		recorder: pipeline.NewRecorder(recorded),
	}, nil
}

// Between two lives that fail nothing is opened and read for so long, twice as long
// each time: what fails at once would else ask upstream and downstream for their
// schema a thousand times a second. A life that lasts is a new beginning.
const (
	restMin = 100 * time.Millisecond
	restMax = 5 * time.Second
	lasting = 30 * time.Second
)

// Run obeys until ctx ends; nothing of the part writes any more when it returns. What
// fails meanwhile is told to the owner and begun anew.
func (p *Part) Run(ctx context.Context) error {
	var rest time.Duration
	for {
		began := time.Now()
		err := p.live(ctx, began.Add(rest))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > lasting {
			rest = 0
			p.mu.Lock()
			p.refused = 0
			p.mu.Unlock()
		}
		rest = min(max(restMin, 2*rest), restMax)
		p.end(err)
	}
}

// refusedMax is how many lives in a row may end soon because the leave to write is over,
// before that is told: one or two do where an owner fences a capture off, or places anew.
const refusedMax = 5

// end goes over to the next life, when everything of the last one has ended.
func (p *Part) end(err error) {
	fault, refused := "", false
	switch {
	case errors.Is(err, errOutdated), errors.Is(err, context.Canceled):
		// Nobody's fault: the second when the capture itself ends.
		p.cfg.Log.Info("beginning anew", "changefeed", p.cfg.Name, "capture", p.cfg.ID, "why", err)
	case cdcerr.LeaveEnded.Is(err), cdcerr.Fenced.Is(err):
		// What it had is somebody else's by now, or will be: that is the owner's to know.
		refused = true
		p.cfg.Log.Info("the leave to write is over; beginning anew", "changefeed", p.cfg.Name, "capture", p.cfg.ID, "error", err)
	default:
		fault = p.cfg.Encode(err)
		p.cfg.Log.Warn("replicating failed on this capture; beginning anew", "changefeed", p.cfg.Name, "capture", p.cfg.ID, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.half, p.before = p.half.Next(fault), p.past.Rows
	clear(p.fresh)
	p.warning, p.logTrouble = warning{}, ""
	if !refused {
		p.refused = 0
	} else if p.refused++; p.refused >= refusedMax {
		p.warning.text = p.cfg.Encode(fmt.Errorf("%d times in a row: %w", p.refused, err))
	}
}

// Limit is up to where rows of a span may be written now.
func (p *Part) limit(s span.Span) tso.TS {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.fresh) > 0 {
		if _, ok := p.fresh[s]; ok {
			return 0
		}
	}
	return p.half.Limit(s)
}

// Progress is what was done since Run began, over all lives. Checkpoint and resolved-ts
// are the least of the spans that are written; of none, where the changefeed is.
func (p *Part) Progress() pipeline.Progress {
	out := p.did()
	p.mu.Lock()
	at := p.floor
	if at.Checkpoint == 0 {
		at = scheduler.Progress{Checkpoint: p.passed, Resolved: p.passed}
	}
	p.mu.Unlock()
	out.Checkpoint, out.Resolved = at.Checkpoint, at.Resolved
	out.Lag = time.Since(out.Checkpoint.Time())
	return out
}

// did is what all engines have done together.
func (p *Part) did() pipeline.Progress {
	p.mu.Lock()
	out, engine := p.past, p.engine
	p.mu.Unlock()
	if engine != nil { // unlocked, since it asks for limits with locks of its own
		out = plus(out, engine.Counts())
	}
	return out
}

// plus adds what two engines have done.
func plus(a, b pipeline.Progress) pipeline.Progress {
	a.Rows += b.Rows
	a.Txns += b.Txns
	a.Unknown += b.Unknown
	a.LeftOut += b.LeftOut
	a.Written = max(a.Written, b.Written)
	return a
}

// History is the last moves of the part's timestamps, oldest first.
func (p *Part) History() []tso.Move { return p.recorder.Moves() }

// Spans are what the part has something of, in no order.
func (p *Part) Spans() []scheduler.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.half.Statuses()
}

// Len is how many Spans there are: none is what a capture waits for that is on its way
// out.
func (p *Part) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.half.Len()
}

// warning is what the sink rides out. It is over when everything is downstream that
// had been read when it came, and something that was read later.
type warning struct {
	text string
	upto tso.TS // 0 until the next report
}

func (p *Part) warn(err error) {
	w := warning{text: p.cfg.Encode(err)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warning = w
}

// Term is the leave under which the part writes, 0 before an owner has given it one.
func (p *Part) Term() scheduler.Term {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.half.Term()
}
