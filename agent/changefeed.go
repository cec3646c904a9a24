package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// Config is one changefeed on this capture. Zero values stand for Default's.
type Config struct {
	Name string
	// StartTS is where the changefeed was created to begin; 0 is now.
	StartTS tso.TS
	// Checkpoint is what was persisted last, 0 for a changefeed that never ran.
	Checkpoint tso.TS
	// TargetTS ends it; 0 never.
	TargetTS tso.TS
	Filter   filter.Config
	// ForceReplicate takes tables without a key too. FilterLoop leaves out what
	// another changefeed wrote upstream, as two clusters that replicate both ways
	// have to: its rows, and DDLs that are not the primary's.
	ForceReplicate bool
	FilterLoop     bool
	// SyncPoints is how often the downstream notes a moment at which it equals the
	// upstream; 0 never.
	SyncPoints time.Duration

	// GCService is the name in which PD keeps what the changefeed has still to read;
	// GCTTL for how long after this process has died. Without a name it is the
	// caller's to hold.
	GCService string
	GCTTL     time.Duration

	// Save persists how far the changefeed is; nil: nobody wants to resume it. Its
	// calls come one at a time.
	Save func(ctx context.Context, checkpoint, resolved tso.TS) error
	// SaveEvery bounds how often.
	SaveEvery time.Duration
	// Grant is asked before anything becomes durable downstream (P1).
	Grant sink.Leave
	Log   *slog.Logger
}

// Default is a Config without its names.
func Default() Config {
	return Config{
		// A day is time enough to repair what keeps a changefeed from running.
		GCTTL: 24 * time.Hour,
		// What is written again after a crash is at most this much; etcd takes
		// hundreds of such writes a second, for all changefeeds together.
		SaveEvery: 500 * time.Millisecond,
		Grant:     sink.Endless,
		Log:       slog.New(slog.DiscardHandler),
	}
}

func (c Config) orDefault() Config {
	d := Default()
	if c.GCTTL == 0 {
		c.GCTTL = d.GCTTL
	}
	if c.SaveEvery == 0 {
		c.SaveEvery = d.SaveEvery
	}
	if c.Grant == nil {
		c.Grant = d.Grant
	}
	if c.Log == nil {
		c.Log = d.Log
	}
	return c
}

// Validate names the first key that cannot be used.
func (c *Config) Validate() error {
	switch {
	case c.Name == "":
		return cdcerr.InvalidArgument.New("Name: missing")
	case c.SaveEvery < 0:
		return cdcerr.InvalidArgument.New("SaveEvery %v: must be positive", c.SaveEvery)
	case c.StartTS == 0 && c.Checkpoint != 0:
		return cdcerr.InvalidArgument.New("Checkpoint %d: a changefeed that begins now has none", c.Checkpoint)
	}
	return nil
}

// Changefeed is one changefeed whose schema is known at its checkpoint.
type Changefeed struct {
	// StartTS is the changefeed's, also where Config says now.
	StartTS tso.TS
	Filter  *filter.Filter
	// Databases and Tables are those that are wanted, as they stood at the
	// checkpoint: just before StartTS for a changefeed that never ran. Databases are
	// also those with room for wanted tables.
	Databases []*event.Database
	Tables    []*event.Table
	// Feed is the schema's.
	Feed *schemafeed.Feed

	cfg      Config
	capture  *Capture
	recorder *pipeline.Recorder
	at       tso.TS // the checkpoint that it goes on from

	pipeline atomic.Pointer[pipeline.Pipeline] // nil before Run
	written  atomic.Uint64                     // commit-ts of the last rows that the sink took; at before
	due      atomic.Uint64                     // downstream up to here
	saved    atomic.Uint64                     // and persisted up to here
	saving   sync.Mutex                        // held while a checkpoint is persisted
	moved    chan struct{}                     // one signal: more than one advance is still one reason to look
}

// recorded is how many moves of each timestamp a changefeed keeps: the checkpoint's
// last minutes and the regions' last second, in half a megabyte.
const recorded = 1024

// Load holds what the changefeed has still to read, and reads its schema. The
// capture must be running.
func (c *Capture) Load(ctx context.Context, cfg Config) (*Changefeed, error) {
	cfg = cfg.orDefault()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &Changefeed{StartTS: cfg.StartTS, cfg: cfg, capture: c, moved: make(chan struct{}, 1), recorder: pipeline.NewRecorder(recorded)}
	var err error
	if f.Filter, err = filter.New(cfg.Filter); err != nil {
		return nil, err
	}
	if f.StartTS == 0 {
		if f.StartTS, err = c.Client.TS(ctx); err != nil {
			return nil, err
		}
	}
	if f.at = cfg.Checkpoint; f.at == 0 {
		f.at = f.StartTS.Prev()
	}
	f.due.Store(uint64(f.at))
	f.written.Store(uint64(f.at))
	f.saved.Store(uint64(f.at))
	// The hold comes before the first read (P7).
	if cfg.GCService != "" {
		if _, err := c.Client.HoldGC(ctx, cfg.GCService, cfg.GCTTL, f.at); err != nil {
			return nil, err
		}
	}
	f.Feed = schemafeed.New(schemafeed.Config{StartTS: f.at.Next(), Record: func(m []tso.Move) { f.recorder.Record(m...) }}, c.Client)
	if err := f.Feed.Load(ctx); err != nil {
		return nil, err
	}
	for _, t := range f.Feed.Tables(f.at) {
		if f.Filter.Table(t.Schema, t.Name) {
			f.Tables = append(f.Tables, t)
		}
	}
	return f, f.databases(ctx)
}

// databases reads which databases stood at the checkpoint.
func (f *Changefeed) databases(ctx context.Context) error {
	from, end := schema.DatabasesRange()
	return f.capture.Client.Scan(ctx, from, end, f.at, func(key, value []byte) error {
		if k, ok := schema.ParseMetaKey(key); !ok || k.TableID != 0 {
			return nil
		}
		db, err := schema.ParseDBInfo(value)
		if err != nil || !f.Filter.Schema(db.Name.O) {
			return err
		}
		f.Databases = append(f.Databases, &event.Database{ID: db.ID, Name: db.Name.O, Charset: db.Charset, Collation: db.Collate})
		return nil
	})
}

// errDone ends what serves a changefeed that is done.
var errDone = errors.New("everything up to the target-ts is downstream")

// Run replicates into a sink until ctx ends or something fails, or the target-ts is
// reached; then it is nil. It runs once: to go on, load the changefeed again from
// what was persisted. The sink stays its caller's to close.
func (f *Changefeed) Run(ctx context.Context, to sink.Sink) error {
	p := pipeline.New(pipeline.Config{
		Changefeed: f.cfg.Name, StartTS: f.StartTS, Checkpoint: f.cfg.Checkpoint, TargetTS: f.cfg.TargetTS,
		Filter: f.Filter, ForceReplicate: f.cfg.ForceReplicate, FilterLoop: f.cfg.FilterLoop, SyncPoints: f.cfg.SyncPoints,
		Grant: f.cfg.Grant, Recorder: f.recorder, Log: f.cfg.Log,
	}, f.capture.ingest, f.Feed, noting{to, f})
	f.pipeline.Store(p)
	g, serving := errgroup.WithContext(ctx)
	g.Go(func() error { return f.Feed.Run(serving) })
	if f.cfg.GCService != "" {
		g.Go(func() error { return f.hold(serving) })
	}
	g.Go(func() error { return f.save(serving) })
	g.Go(func() error {
		if err := p.Run(serving); err != nil {
			return err
		}
		return errDone
	})
	err := g.Wait()
	last := f.saveLast(ctx)
	if errors.Is(err, errDone) {
		return last
	}
	if last != nil {
		f.cfg.Log.Info("the last checkpoint is not persisted", "changefeed", f.cfg.Name, "error", last)
	}
	return err
}

// Progress is what was done since Run began; its checkpoint is what is downstream,
// which may not be persisted yet.
func (f *Changefeed) Progress() pipeline.Progress {
	if p := f.pipeline.Load(); p != nil {
		return p.Progress()
	}
	return pipeline.Progress{Checkpoint: f.at, Resolved: f.at}
}

// History is the last moves of the changefeed's timestamps, oldest first.
func (f *Changefeed) History() []tso.Move { return f.recorder.Moves() }

// Written is the commit-ts of the last rows that the sink took; where it took none
// yet, the checkpoint from which it goes on: what lies below may be of just now.
func (f *Changefeed) Written() tso.TS { return tso.TS(f.written.Load()) }

// Persisted is the last checkpoint that was persisted.
func (f *Changefeed) Persisted() tso.TS { return tso.TS(f.saved.Load()) }

// Snapshot reads rows that no event carries from the upstream.
func (f *Changefeed) Snapshot() *Snapshot { return &Snapshot{client: f.capture.Client} }

// Release takes the hold on GC back: the changefeed will not be resumed.
func (f *Changefeed) Release(ctx context.Context) error {
	_, err := f.capture.Client.ReleaseGC(ctx, f.cfg.GCService)
	return err
}

// hold renews the hold on GC until ctx ends. A changefeed that goes on from what is
// persisted reads its schema there, and rows above it.
func (f *Changefeed) hold(ctx context.Context) error {
	keeper := upstream.GCKeeper{Service: f.cfg.GCService, TTL: f.cfg.GCTTL, Every: min(time.Minute, f.cfg.GCTTL/10), At: f.Persisted}
	return f.capture.Client.KeepGC(ctx, keeper)
}
