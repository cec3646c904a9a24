package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// SpansConfig is one changefeed's part on one capture. Zero sizes and nil values
// stand for those of Config, whose fields mean the same.
type SpansConfig struct {
	Changefeed string
	// StartTS is where the changefeed was created to begin: rows above it only,
	// whatever a span's From says.
	StartTS        tso.TS
	Filter         *filter.Filter
	ForceReplicate bool
	FilterLoop     bool

	BatchRows  int
	BatchBytes int64
	TxnBytes   int64
	FlushEvery time.Duration

	// Limit is up to where a span's rows may be written now. It never falls for a span
	// that is written. When it has risen somebody has to call Look.
	Limit func(span.Span) tso.TS
	Gate  Gate // redo; open while nil
	// Open gives the downstream. It is asked once, when the first span is to be
	// written, and what it gives is closed by Run.
	Open  func(ctx context.Context) (sink.Sink, error)
	Grant sink.Leave
	// Tell gets what becomes of the spans, of each in order, from more than one
	// goroutine at once. Rows wait while it does not return.
	Tell     func(Told)
	Recorder *Recorder
	Log      *slog.Logger
	Now      func() time.Time
}

// What is what is told of a span.
type What uint8

// What there is to tell.
const (
	// Arrived: the rows of a prepared span have arrived up to Resolved, which is above
	// its From. It is told once, and not of a span that is written already.
	Arrived What = iota + 1
	// Moved: of a span that is written everything at or below Checkpoint is durable
	// downstream, and everything at or below Resolved has arrived and may be written.
	Moved
	// Ended: it was stopped and nothing of it is written any more; up to Checkpoint
	// it is durable downstream. Of a span that was never written Checkpoint is 0.
	Ended
)

// Told is news of one span.
type Told struct {
	Span       span.Span
	What       What
	Checkpoint tso.TS
	Resolved   tso.TS
	Traffic    uint64 // bytes of its rows that were read since it was last told of
}

// Spans is one changefeed's part on one capture: the spans that the capture has of
// it, each at a place of its own, before one downstream.
type Spans struct {
	cfg    SpansConfig
	in     *ingest.Ingest
	schema Schema

	mu       sync.Mutex
	progress Progress // guarded by mu
}

// NewSpans makes a part that has no spans. Of the schema it uses Resolved and TableAt
// only: DDLs, Advanced and Forget are its caller's, who calls Look when it has advanced.
func NewSpans(cfg SpansConfig, in *ingest.Ingest, schema Schema) *Spans {
	return &Spans{cfg: cfg, in: in, schema: schema}
}

// Run works until ctx ends or something fails. It runs once.
func (s *Spans) Run(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("changefeed %s: %w", s.cfg.Changefeed, cdcerr.Bug("spans are not read yet"))
}

// Prepare follows a span from a timestamp on and reads nothing of it yet. Like Write,
// Stop and Look it may be called by any goroutine, before Run and after it too, and
// does not wait. Calls count in their order; one that was done already does nothing.
func (s *Spans) Prepare(of span.Span, from tso.TS) {}

// Write lets the rows of a span above from be written, up to its Limit. A span that was
// not prepared is.
func (s *Spans) Write(of span.Span, from tso.TS) {}

// Stop ends a span: nothing more of it is read, what is queued is written and flushed.
func (s *Spans) Stop(of span.Span) {}

// Look says that limits, or the schema, may have moved.
func (s *Spans) Look() {}

// Progress is a snapshot: counts over all spans there ever were, and the least
// Checkpoint and Resolved of those that are written, tso.Max where there is none.
func (s *Spans) Progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}
