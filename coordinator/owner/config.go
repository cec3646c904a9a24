package owner

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Line is how the owner speaks with the captures about one changefeed. What it carries
// may be lost, doubled, late and out of order.
type Line interface {
	// Ready gets a token when something can be taken.
	Ready() <-chan struct{}
	// Take gives what has come, the oldest first.
	Take() []Heard
	// Send goes to the capture that the head names. It does not block.
	Send(scheduler.Orders)
}

// Heard is what a capture reports, or that the stream to or from it broke.
type Heard struct {
	From   capture.ID
	Report *scheduler.Report // nil: it broke
}

// Feed is the schema of the changefeed, above the checkpoint from which it was loaded:
// schemafeed.Feed.
type Feed interface {
	Run(ctx context.Context) error
	Resolved() tso.TS
	Advanced() <-chan struct{}
	DDLs(upto tso.TS) []*event.DDL
	Tables(ts tso.TS) []*event.Table
	Forget(below tso.TS)
}

// Config is one run of one changefeed, for the owner of the moment. Zero sizes stand for
// Default's.
type Config struct {
	Changefeed string
	// Scheduler decides. Owner is the revision of the leadership, Epoch the number of the
	// run; Fenced is found out from the sink.
	Scheduler scheduler.Config
	// Watermark is the durable one, read after the election.
	Watermark scheduler.Watermark
	// Term is what Loop.Term was of the run before in this reign, 0 for the first.
	Term scheduler.Term
	// Scope is what the changefeed replicates.
	Scope filter.Scope

	Line Line
	// Members are the captures in etcd by id, as they were last seen, and which of them are
	// to be emptied: at first after the election, and never without one whose lease may
	// live. Changed gets a token when any of it is another.
	Members func() []scheduler.Member
	Changed <-chan struct{}

	// Open connects to the downstream in the role of an owner, and raises the record's
	// fence. Run closes what it gives.
	Open func(ctx context.Context) (sink.Sink, error)
	// Load reads the schema at a checkpoint.
	Load func(ctx context.Context, checkpoint tso.TS) (Feed, error)
	// Save persists a watermark under the owner's fence: an owner that was deposed is
	// told so by cdcerr.NotOwner. Its calls come one at a time.
	Save func(ctx context.Context, checkpoint, resolved tso.TS) error
	// SaveEvery bounds how often, but for what the cluster waits for.
	SaveEvery time.Duration
	// Grant is the leave to lead and to write downstream, as it stands. It is asked
	// from any goroutine.
	Grant sink.Leave
	// Borders are the keys inside a span at which its regions meet, in order. It may be
	// nil where Scheduler.Split is off.
	Borders func(ctx context.Context, s span.Span) ([]span.Key, error)
	// Divisible tells which tables may be written in parts; nil: all. None that is a unit
	// is.
	Divisible func(*event.Table) bool

	// Redo takes over the changefeed's redo log: one of which nothing is there yet begins
	// at a checkpoint. Nil: there is none.
	Redo func(ctx context.Context, checkpoint tso.TS) (Redo, error)
	// Journal is what the downstream is to keep of that log: which it is, and where.
	Journal sink.Journal

	// Self is this capture, and Deaf is called as long as it cannot follow all of the
	// upstream while another can: who leads has to know the schema. It may be nil.
	Self capture.ID
	Deaf func()

	// Fault is the error that a capture told: it ends the run. Warn takes what a capture
	// rides out, again and again while it does; nil: nobody wants to know.
	Fault func(scheduler.Fault) error
	Warn  func(scheduler.Fault)
	// Silent is told, again and again, of a capture that is waited for and has said
	// nothing since then. It may be nil.
	Silent func(id capture.ID, since time.Time)

	// TickEvery is scheduler's beat.
	TickEvery time.Duration
	Log       *slog.Logger
}

// Default is a Config without what is the changefeed's.
func Default() Config {
	c := Config{
		Scheduler: scheduler.Default(),
		// What is written again after an owner and a capture were lost is at most this
		// much; etcd takes hundreds of such writes a second, for all changefeeds together.
		SaveEvery: 500 * time.Millisecond,
		TickEvery: 50 * time.Millisecond, // scheduler.Default counts in these
		Grant:     sink.Endless,
		Log:       slog.New(slog.DiscardHandler),
	}
	c.Scheduler.Split.Regions, c.Scheduler.Split.Traffic = 0, 0 // off
	return c
}

func (c Config) orDefault() Config {
	d := Default()
	if c.SaveEvery == 0 {
		c.SaveEvery = d.SaveEvery
	}
	if c.TickEvery == 0 {
		c.TickEvery = d.TickEvery
	}
	if c.Grant == nil {
		c.Grant = d.Grant
	}
	if c.Fault == nil {
		c.Fault = func(f scheduler.Fault) error { return cdcerr.Unexpected.New("capture %s: %s", f.Capture, f.Err) }
	}
	if c.Deaf == nil {
		c.Deaf = func() {}
	}
	if c.Silent == nil {
		c.Silent = func(capture.ID, time.Time) {}
	}
	if c.Warn == nil {
		c.Warn = func(scheduler.Fault) {}
	}
	if c.Log == nil {
		c.Log = d.Log
	}
	return c
}

// Validate names the first key that cannot be used.
func (c *Config) Validate() error {
	switch {
	case c.Changefeed == "":
		return cdcerr.InvalidArgument.New("Changefeed: missing")
	case c.Watermark.Checkpoint == 0 || c.Watermark.Resolved < c.Watermark.Checkpoint:
		return cdcerr.InvalidArgument.New("Watermark %d–%d: a run begins somewhere, and nothing is downstream that has not arrived", c.Watermark.Checkpoint, c.Watermark.Resolved)
	case c.Line == nil || c.Members == nil || c.Open == nil || c.Load == nil || c.Save == nil || c.Scope.Rules == nil:
		return cdcerr.InvalidArgument.New("Line, Members, Open, Load, Save, Scope.Rules: all must be given")
	case c.SaveEvery < 0 || c.TickEvery < 0:
		return cdcerr.InvalidArgument.New("SaveEvery %v, TickEvery %v: must be positive", c.SaveEvery, c.TickEvery)
	case c.Borders == nil && c.splits():
		return cdcerr.InvalidArgument.New("Borders: missing, and tables are to be split")
	}
	return c.Scheduler.Validate()
}
