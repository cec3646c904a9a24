package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
	stages Config // the same, as the stages know it
	schema Schema
	group  *ingest.Group
	wake   chan struct{} // one token: the reader looks at all of below
	first  chan struct{} // closed when the first span is to be written
	opened chan struct{} // closed when sink is there
	sink   sink.Sink     // set before opened is closed

	mu       sync.Mutex // held for moments only: the sorter calls with its own lock held
	orders   []order
	looked   bool
	ready    []*place // to be looked at, each once
	ended    []*place // the writer has done with them
	places   map[span.Span]*place
	progress Progress
}

// order is a call that waits for the reader.
type order struct {
	verb verb
	of   span.Span
	from tso.TS
}

type verb uint8

const (
	toPrepare verb = iota
	toWrite
	toStop
)

// NewSpans makes a part that has no spans. Of the schema it uses Resolved and TableAt
// only: DDLs, Advanced and Forget are its caller's, who calls Look when it has advanced.
func NewSpans(cfg SpansConfig, in *ingest.Ingest, schema Schema) *Spans {
	stages := Config{
		Changefeed: cfg.Changefeed, StartTS: cfg.StartTS, Filter: cfg.Filter, ForceReplicate: cfg.ForceReplicate, FilterLoop: cfg.FilterLoop,
		BatchRows: cfg.BatchRows, BatchBytes: cfg.BatchBytes, TxnBytes: cfg.TxnBytes, FlushEvery: cfg.FlushEvery,
		Gate: cfg.Gate, Grant: cfg.Grant, Recorder: cfg.Recorder, Log: cfg.Log, Now: cfg.Now,
	}.orDefault()
	return &Spans{
		cfg: cfg, stages: stages, schema: schema, group: in.NewGroup(),
		wake: make(chan struct{}, 1), first: make(chan struct{}), opened: make(chan struct{}),
		places: make(map[span.Span]*place),
	}
}

// Validate names the first key that cannot be used.
func (c *SpansConfig) Validate() error {
	if c.Limit == nil || c.Open == nil || c.Tell == nil {
		return cdcerr.InvalidArgument.New("Limit, Open, Tell: all must be given")
	}
	return nil
}

// Run works until ctx ends or something fails; an error names the table. It runs once.
// When it returns nobody writes or is told any more.
func (s *Spans) Run(ctx context.Context) error {
	defer s.close()
	for _, v := range []interface{ Validate() error }{&s.cfg, &s.stages} {
		if err := v.Validate(); err != nil {
			return fmt.Errorf("changefeed %s: %w", s.cfg.Changefeed, err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan parcel, queueLen)
	g.Go(func() error { return newRounds(s, queue).run(ctx) })
	g.Go(func() error { return s.write(ctx, queue) })
	return fmt.Errorf("changefeed %s: %w", s.cfg.Changefeed, g.Wait())
}

// close is called when both goroutines have ended.
func (s *Spans) close() {
	s.mu.Lock()
	places := s.places
	s.places = map[span.Span]*place{}
	s.mu.Unlock()
	for _, p := range places {
		p.rows.Close()
	}
	if s.sink == nil {
		return
	}
	if err := s.sink.Close(); err != nil {
		s.stages.Log.Warn("closing the sink", "changefeed", s.cfg.Changefeed, "err", err)
	}
}

// Prepare follows a span from a timestamp on and reads nothing of it yet. Like Write,
// Stop and Look it may be called by any goroutine, before Run and after it too, and
// does not wait. Calls count in their order; one that was done already does nothing.
func (s *Spans) Prepare(of span.Span, from tso.TS) { s.give(order{toPrepare, of, from}) }

// Write lets the rows of a span above from be written, up to its Limit. A span that was
// not prepared is.
func (s *Spans) Write(of span.Span, from tso.TS) { s.give(order{toWrite, of, from}) }

// Stop ends a span: nothing more of it is read, what is queued is written and flushed.
// What comes for the span before it has Ended waits until then.
func (s *Spans) Stop(of span.Span) { s.give(order{verb: toStop, of: of}) }

// Look says that limits, or the schema, may have moved.
func (s *Spans) Look() {
	s.mu.Lock()
	s.looked = true
	s.mu.Unlock()
	s.rouse()
}

func (s *Spans) give(o order) {
	s.mu.Lock()
	s.orders = append(s.orders, o)
	s.mu.Unlock()
	s.rouse()
}

func (s *Spans) rouse() {
	select {
	case s.wake <- struct{}{}:
	default: // a token is there already
	}
}

// advanced has a place looked at. It is called in the midst of the sorter's work.
func (s *Spans) advanced(p *place) {
	s.mu.Lock()
	news := !p.ready
	if news {
		p.ready = true
		s.ready = append(s.ready, p)
	}
	s.mu.Unlock()
	if news {
		s.rouse()
	}
}

// Progress is a snapshot: counts over all spans there ever were, and the least
// Checkpoint and Resolved of those that are written, tso.Max where there is none.
func (s *Spans) Progress() Progress {
	s.mu.Lock()
	out := s.progress
	out.Checkpoint, out.Resolved = tso.Max, tso.Max
	for _, p := range s.places {
		if c, r, written := p.at(); written {
			out.Checkpoint, out.Resolved = min(out.Checkpoint, c), min(out.Resolved, r)
		}
	}
	s.mu.Unlock()
	if out.Checkpoint != tso.Max {
		out.Lag = s.stages.Now().Sub(out.Checkpoint.Time())
	}
	return out
}

func (s *Spans) note(change func(*Progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.progress)
}

// Counts is Progress without its timestamps, which cost a look at every span.
func (s *Spans) Counts() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}
