package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// Schema gives the tables and the DDLs; *schemafeed.Feed is one.
type Schema interface {
	// Resolved is up to where all DDLs and table versions are known.
	Resolved() tso.TS
	// Advanced gets a token, or is closed, when Resolved has risen.
	Advanced() <-chan struct{}
	// DDLs takes those with SwitchTS <= upto, in order; each is given once.
	DDLs(upto tso.TS) []*event.DDL
	// TableAt is the table by which a row of this commit-ts is decoded.
	TableAt(physicalID int64, commitTS tso.TS) (*event.Table, bool)
	// Version is the table of a logical id just after ts, and up to where it is that, as
	// far as is known; nil where there is none. Where ts was forgotten it may be later.
	Version(id int64, ts tso.TS) (t *event.Table, upto tso.TS)
	// Tables are all tables just after ts.
	Tables(ts tso.TS) []*event.Table
	// Forget drops what no row above below needs.
	Forget(below tso.TS)
}

// Gate holds rows back until something else has happened to them (P5).
type Gate interface {
	// Limit is up to where rows may be written. It never falls.
	Limit() tso.TS
	// Moved gets a token, or is closed, when Limit has risen.
	Moved() <-chan struct{}
}

// openGate is the gate of a changefeed that has none.
type openGate struct{}

func (openGate) Limit() tso.TS          { return tso.Max }
func (openGate) Moved() <-chan struct{} { return nil }

// Config is one changefeed. Zero sizes and nil values stand for Default's.
type Config struct {
	Changefeed string
	// StartTS is where the changefeed was created to begin: rows above it, DDLs
	// from it on.
	StartTS tso.TS
	// Checkpoint is where an earlier run ended, 0 for a changefeed that has never
	// run, which is the same as StartTS − 1: rows and DDLs above it are due. A DDL
	// at it was carried out and does not come again.
	Checkpoint tso.TS
	// TargetTS ends the changefeed once everything up to it is downstream; 0 never.
	TargetTS tso.TS
	Filter   *filter.Filter
	// ForceReplicate takes tables without a key too.
	ForceReplicate bool
	// FilterLoop leaves out what another changefeed wrote upstream: its rows, and
	// DDLs that are not of the primary of the clusters that replicate both ways.
	FilterLoop bool

	// SyncPoints is how often the downstream notes a moment at which it equals the
	// upstream: at each timestamp whose wall clock is a multiple of it; 0 never.
	SyncPoints time.Duration

	// BatchRows and BatchBytes (raw and mounted) end a batch at the next transaction.
	BatchRows  int
	BatchBytes int64
	// TxnBytes (raw and mounted) is the largest transaction that is held whole. A
	// larger one goes to the sink in pieces, or ends the changefeed where the sink
	// wants it whole.
	TxnBytes int64

	// FlushEvery is how long what the sink has taken may wait for being flushed while
	// more comes; below 0 it is flushed whatever waits.
	FlushEvery time.Duration

	Gate  Gate
	Grant sink.Leave // asked before anything becomes durable downstream
	// Recorder keeps the moves of timestamps; give the schema's feed the same one,
	// or its moves are not in the history.
	Recorder *Recorder
	Log      *slog.Logger
	Now      func() time.Time
}

// Default is a changefeed of every table, without start.
func Default() Config {
	return Config{
		// A batch is what the sink gets at once. 2,048 rows of 200 bytes are a few
		// milliseconds of work for any sink, far more than what a hand-over costs.
		BatchRows:  2048,
		BatchBytes: 2 << 20,
		// An eighth of the half gigabyte that a capture is given: while it is put
		// together it takes this beside what the sorter holds.
		TxnBytes: 64 << 20,
		// A flush lets a sink that works on many things at once run empty, and a
		// checkpoint need not move more often.
		FlushEvery: 100 * time.Millisecond,
		Gate:       openGate{},
		Grant:      sink.Endless,
		Log:        slog.New(slog.DiscardHandler),
		Now:        time.Now,
	}
}

func (c Config) orDefault() Config {
	d := Default()
	if c.BatchRows == 0 {
		c.BatchRows = d.BatchRows
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = d.BatchBytes
	}
	if c.TxnBytes == 0 {
		c.TxnBytes = d.TxnBytes
	}
	if c.FlushEvery == 0 {
		c.FlushEvery = d.FlushEvery
	}
	if c.Gate == nil {
		c.Gate = d.Gate
	}
	if c.Grant == nil {
		c.Grant = d.Grant
	}
	if c.Log == nil {
		c.Log = d.Log
	}
	if c.Now == nil {
		c.Now = d.Now
	}
	if c.Recorder == nil {
		c.Recorder = NewRecorder(recorderLen)
	}
	if c.Checkpoint == 0 {
		c.Checkpoint = c.StartTS.Prev()
	}
	return c
}

// SchemaStart is the start-ts of the schema's feed for this changefeed: it reads
// its snapshot at the checkpoint, and the first DDL that it gives is above.
func (c Config) SchemaStart() tso.TS { return c.orDefault().Checkpoint.Next() }

// Validate names the first key that cannot be used.
func (c *Config) Validate() error {
	switch {
	case c.StartTS == 0:
		return cdcerr.InvalidArgument.New("StartTS: there is no changefeed from 0 on")
	case c.Checkpoint != 0 && c.Checkpoint < c.StartTS.Prev():
		return cdcerr.InvalidArgument.New("Checkpoint %d: further back than just below StartTS %d", c.Checkpoint, c.StartTS)
	case c.TargetTS != 0 && c.TargetTS <= max(c.StartTS, c.Checkpoint):
		return cdcerr.InvalidArgument.New("TargetTS %d: not above StartTS %d and Checkpoint %d", c.TargetTS, c.StartTS, c.Checkpoint)
	case c.Filter == nil:
		return cdcerr.InvalidArgument.New("Filter: missing")
	case c.BatchRows < 0 || c.BatchBytes < 0:
		return cdcerr.InvalidArgument.New("BatchRows %d, BatchBytes %d: must be positive", c.BatchRows, c.BatchBytes)
	case c.SyncPoints < 0 || c.SyncPoints%time.Millisecond != 0:
		return cdcerr.InvalidArgument.New("SyncPoints %v: must be whole milliseconds, not below 0", c.SyncPoints)
	case c.TxnBytes < 0:
		return cdcerr.InvalidArgument.New("TxnBytes %d: must be positive", c.TxnBytes)
	}
	return nil
}

// Pipeline is one changefeed on one capture.
type Pipeline struct {
	cfg    Config
	schema Schema
	sink   sink.Sink
	rows   *ingest.Reader

	mu       sync.Mutex
	progress Progress // guarded by mu
}

// New makes a pipeline that reads the capture's subscriptions. The sink stays
// its caller's to close. Run has to be called, since it gives up what New takes.
func New(cfg Config, in *ingest.Ingest, schema Schema, s sink.Sink) *Pipeline {
	cfg = cfg.orDefault()
	return &Pipeline{
		cfg: cfg, schema: schema, sink: s,
		rows:     in.NewReader(ingest.ReaderConfig{FilterLoop: cfg.FilterLoop, Record: cfg.Recorder.Record}),
		progress: Progress{Checkpoint: cfg.Checkpoint, Resolved: cfg.Checkpoint},
	}
}

// errTarget ends the stages when there is nothing left to do.
var errTarget = errors.New("everything up to the target-ts is downstream")

// queueLen is how many batches may wait for the sink. Two keep it busy while the
// reader works on the next; two more even out batches of unlike size.
const queueLen = 4

// Run replicates until ctx ends, a stage fails, or the target-ts is reached; then
// it is nil. A pipeline runs once: to go on after an error, make a new one that
// whose Config.Checkpoint is Checkpoint.
func (p *Pipeline) Run(ctx context.Context) error {
	defer p.rows.Close()
	if err := p.cfg.Validate(); err != nil {
		return fmt.Errorf("changefeed %s: %w", p.cfg.Changefeed, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan item, queueLen)
	g.Go(func() error { return newReader(p, queue).run(ctx) })
	g.Go(func() error { return p.write(ctx, queue) })
	g.Go(func() error {
		select {
		case <-p.rows.Failed():
			return p.rows.Err()
		case <-ctx.Done():
			return nil
		}
	})
	if err := g.Wait(); !errors.Is(err, errTarget) {
		return fmt.Errorf("changefeed %s: %w", p.cfg.Changefeed, err)
	}
	return nil
}

// Checkpoint is up to where everything is downstream, DDLs too. It begins just
// below StartTS, where a DDL may be due.
func (p *Pipeline) Checkpoint() tso.TS { return p.Progress().Checkpoint }

// Resolved is up to where the pipeline has begun to read: all of it has arrived
// and may be written.
func (p *Pipeline) Resolved() tso.TS { return p.Progress().Resolved }

// Progress is what a pipeline has done so far.
type Progress struct {
	Rows       uint64 // rows that the sink has taken
	Txns       uint64
	DDLs       uint64
	Unknown    uint64 // rows dropped because no schema knows their physical id
	LeftOut    uint64 // rows of tables that the filter leaves out
	Written    tso.TS // the greatest commit-ts of the rows that the sink has taken
	SyncPoint  tso.TS // the last one that the sink has noted
	Checkpoint tso.TS
	Resolved   tso.TS
	Lag        time.Duration // from Checkpoint to now
}

// Progress is a snapshot.
func (p *Pipeline) Progress() Progress {
	p.mu.Lock()
	out := p.progress
	p.mu.Unlock()
	out.Lag = p.cfg.Now().Sub(out.Checkpoint.Time())
	return out
}

// History is the last moves of every timestamp, oldest first.
func (p *Pipeline) History() []tso.Move { return p.cfg.Recorder.Moves() }
