package agent

import (
	"context"

	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// Path is what a part drives. A Capture has one; tests have others.
type Path interface {
	// TS is the upstream's present.
	TS(ctx context.Context) (tso.TS, error)
	// Feed makes a feed of the schema, Engine an engine that writes spans; both are run
	// once.
	Feed(schemafeed.Config) Feed
	Engine(pipeline.SpansConfig, pipeline.Schema) Engine
	// LogFeed makes what feeds a redo log; it is run once.
	LogFeed(pipeline.LogFeedConfig, pipeline.Schema) LogFeed
	// Snapshot reads rows that no event carries; nil where nobody can.
	Snapshot() *Snapshot
	// Regions is how many regions each span has that is followed.
	Regions() map[span.Span]int
}

// Feed is the schema of one changefeed; *schemafeed.Feed is one.
type Feed interface {
	pipeline.Schema
	Load(ctx context.Context) error
	Run(ctx context.Context) error
}

// Engine writes spans, each from its own place and up to its own limit; *pipeline.Spans
// is one, whose words say what each call does.
type Engine interface {
	Run(ctx context.Context) error
	Prepare(s span.Span, from tso.TS)
	Write(s span.Span, from tso.TS)
	Stop(s span.Span)
	Look()
	Counts() pipeline.Progress
}

// dataPath is a capture's.
type dataPath struct{ *Capture }

func (d dataPath) TS(ctx context.Context) (tso.TS, error) { return d.Client.TS(ctx) }

func (d dataPath) Feed(cfg schemafeed.Config) Feed {
	return schemafeed.New(cfg, shared{d.Client, d.ingest})
}

func (d dataPath) Engine(cfg pipeline.SpansConfig, schema pipeline.Schema) Engine {
	return pipeline.NewSpans(cfg, d.ingest, schema)
}

func (d dataPath) LogFeed(cfg pipeline.LogFeedConfig, schema pipeline.Schema) LogFeed {
	return pipeline.NewLogFeed(cfg, d.ingest, schema)
}

func (d dataPath) Snapshot() *Snapshot { return &Snapshot{client: d.Client} }

func (d dataPath) Regions() map[span.Span]int { return d.Client.Regions() }

// shared is an upstream whose subscriptions all feeds of the capture have together.
type shared struct {
	*upstream.Client
	in *ingest.Ingest
}

func (s shared) Subscribe(ctx context.Context, sub upstream.Subscription, out func(upstream.Batch) error) error {
	return s.in.Subscribe(ctx, sub, out)
}

// known is the schema as an engine sees it: DDLs are the part's to take, and what is
// not needed any more to forget; that more is known is told by a look at the limits.
type known struct{ Feed }

func (known) Advanced() <-chan struct{} { return nil }
func (known) Forget(tso.TS)             {}
