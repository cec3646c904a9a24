package playground

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// gcTTL is how long the upstream keeps what the changefeed has still to read
// when this process dies; the hold is renewed ten times as often.
const gcTTL = 10 * time.Minute

// attached is a capture's upstream side: the client, what the tables look like,
// and which of them are wanted.
type attached struct {
	client *upstream.Client
	ingest *ingest.Ingest
	feed   *schemafeed.Feed
	tables *filter.Filter
	start  tso.TS
	stood  []*event.Database // those with wanted tables, or room for them, just before the start
	before []*event.Table    // the wanted ones just before the start
}

// attach opens the upstream and reads its schema at the start-ts, 0 standing for
// now. What serves until the changefeed is done runs in services; close comes
// after they have ended, also after an error.
func (a *attached) attach(ctx context.Context, services *errgroup.Group, cfg upstream.Config, start tso.TS, rules []string) error {
	var err error
	if a.tables, err = filter.New(filter.Config{Rules: rules}); err != nil {
		return err
	}
	if a.client, err = upstream.Open(ctx, cfg); err != nil {
		return err
	}
	services.Go(func() error { return a.client.Run(ctx) })
	a.ingest = ingest.New(a.client, sorter.NewMemory(sorter.Default().MemoryQuota))
	services.Go(func() error { return a.ingest.Run(ctx) })
	if a.start = start; start == 0 {
		if a.start, err = a.client.TS(ctx); err != nil {
			return err
		}
	}
	// The hold comes before the first read (P7).
	if err := a.hold(ctx, a.start); err != nil {
		return err
	}
	a.feed = schemafeed.New(schemafeed.Config{StartTS: a.start}, a.client)
	if err := a.feed.Load(ctx); err != nil {
		return err
	}
	services.Go(func() error { return a.feed.Run(ctx) })
	if err := a.databases(ctx); err != nil {
		return err
	}
	for _, t := range a.feed.Tables(a.start.Prev()) {
		if a.tables.Table(t.Schema, t.Name) {
			a.before = append(a.before, t)
		}
	}
	return nil
}

// databases reads which databases stood just before the start.
func (a *attached) databases(ctx context.Context) error {
	from, end := schema.DatabasesRange()
	return a.client.Scan(ctx, from, end, a.start.Prev(), func(key, value []byte) error {
		if k, ok := schema.ParseMetaKey(key); !ok || k.TableID != 0 {
			return nil
		}
		db, err := schema.ParseDBInfo(value)
		if err != nil || !a.tables.Schema(db.Name.O) {
			return err
		}
		a.stood = append(a.stood, &event.Database{ID: db.ID, Name: db.Name.O, Charset: db.Charset, Collation: db.Collate})
		return nil
	})
}

// names are the databases' names.
func (a *attached) names() []string {
	var out []string
	for _, db := range a.stood {
		out = append(out, db.Name)
	}
	return out
}

// hold keeps upstream what a changefeed from start on reads: schemas are read
// just below it.
func (a *attached) hold(ctx context.Context, start tso.TS) error {
	_, err := a.client.HoldGC(ctx, gcService(), gcTTL, start.Prev())
	return err
}

// keep renews the hold until ctx ends. A changefeed that goes on from a
// checkpoint reads its schemas there, and rows above it.
func (a *attached) keep(ctx context.Context, checkpoint func() tso.TS) error {
	err := a.client.KeepGC(ctx, upstream.GCKeeper{Service: gcService(), TTL: gcTTL, Every: gcTTL / 10,
		At: checkpoint})
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// close lets the upstream go.
func (a *attached) close() {
	if a.client != nil {
		a.client.Close()
	}
}

// release takes the hold back; it would end by itself after gcTTL.
func (a *attached) release(ctx context.Context) error {
	_, err := a.client.ReleaseGC(ctx, gcService())
	return err
}

// gcService names this process among those that hold PD's safepoint.
func gcService() string { return fmt.Sprintf("sluice-playground-%d", os.Getpid()) }
