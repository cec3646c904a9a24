package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cli"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/mysql"
	"github.com/sluice-cdc/sluice/tso"
)

// loadTable is the table of the load's rows, as the schema has it.
func loadTable() *event.Table {
	id := event.Column{ID: 1, Name: "id", Type: event.TypeLonglong, Flag: 4099, Flen: 20, Charset: "binary", Collation: "binary"}
	key := []event.IndexPart{{Column: 0, Length: event.FullLength}}
	return &event.Table{
		ID: tableID, SchemaID: schemaID, Schema: "bench", Name: "rows", Charset: "utf8mb4", Collation: "utf8mb4_bin",
		Columns: append([]event.Column{id}, columns()...), Indexes: []event.Index{{ID: 1, Name: "PRIMARY", Parts: key, Unique: true, Primary: true}},
		Handle: event.Handle{Kind: event.IntHandle, Parts: key}, Key: []int{0},
	}
}

// loadBegins is where the load lies that no upstream sends, and loadTxn how many rows a
// transaction of it has.
const (
	loadBegins = tso.TS(1_700_000_000_000 << 18)
	loadTxn    = 100
)

// loaded gives out the load's changes, a hundred to a transaction, or all in one.
func loaded(rows int, one bool, do func(*event.RawKV) error) (last tso.TS, err error) {
	b, err := load(rows)
	if err != nil {
		return 0, err
	}
	for i := range rows {
		start := loadBegins
		if !one {
			start += tso.TS(i / loadTxn * 2)
		}
		last = start.Next()
		key, value := b.Row(i)
		if err := do(&event.RawKV{Op: event.Put, StartTS: start, CommitTS: last, Key: key, Value: value}); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// logged writes a redo log of the load, of which nothing is downstream.
func logged(ctx context.Context, o options) (err error) {
	bucket, err := objstore.Open(ctx, o.storage)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	cfg, id := redo.Default(), redo.ID{Cluster: 1, Servers: "default", Namespace: "default", Changefeed: "bench", Incarnation: "1"}
	if err := redo.Claim(ctx, cfg, bucket, id); err != nil {
		return err
	}
	meta, err := redo.OpenMeta(ctx, cfg, bucket, id, 1, loadBegins)
	if err != nil {
		return err
	}
	w, table := redo.NewWriter(cfg, bucket, id, loadBegins), loadTable()
	g, inner := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(inner)
	g.Go(func() error { return w.Run(running) })
	g.Go(func() error {
		defer stop()
		last, err := loaded(o.rows, o.oneTxn, func(raw *event.RawKV) error { return w.Append(inner, raw, table) })
		if err != nil {
			return err
		}
		for w.Resolve(last); w.Durable().TS < last; {
			select {
			case <-w.Moved():
			case <-inner.Done():
				return context.Cause(inner)
			}
		}
		return meta.Advance(inner, redo.Mark{Checkpoint: loadBegins, Resolved: last, Extents: []record.Extent{w.Durable().Extent}})
	})
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err() // nil: only the writer was told to end
}

// applied is `sluice redo apply` of the log in o.storage to o.sink.
func applied(ctx context.Context, o options) (used Usage, err error) {
	stop, err := o.startProfile()
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var said, complaint bytes.Buffer
	env := cli.System()
	env.Out, env.Err = &said, &complaint
	watch := startWatch()
	args := []string{"redo", "apply", "--storage", o.storage, "--sink-uri", o.sink}
	if o.limit > 0 {
		args = append(args, "--memory-limit", fmt.Sprint(int64(o.limit)<<20))
	}
	if status := cli.Main(ctx, args, env); status != cli.StatusDone {
		return used, fmt.Errorf("status %d: %s", status, &complaint)
	}
	used = watch.stop()
	used.RSS = peakRSS()
	if want := fmt.Sprintf(" %d rows", o.rows); !strings.Contains(said.String(), want) {
		return used, fmt.Errorf("no %q in %s", want, &said)
	}
	return used, nil
}

// direct writes the load's transactions from memory to a database, as redo apply does.
func direct(ctx context.Context, o options) (used Usage, err error) {
	to, _, err := openDatabase(ctx, o)
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	var txns []event.Txn
	mounter, table := mount.New(), loadTable()
	if _, err := loaded(o.rows, false, func(raw *event.RawKV) error {
		row, err := mounter.Row(raw, table)
		if err != nil {
			return err
		}
		if n := len(txns); n == 0 || txns[n-1].StartTS != raw.StartTS {
			txns = append(txns, event.Txn{StartTS: raw.StartTS, CommitTS: raw.CommitTS})
		}
		at := &txns[len(txns)-1]
		at.Rows = append(at.Rows, row)
		return nil
	}); err != nil {
		return used, err
	}
	watch := startWatch()
	for len(txns) > 0 {
		n := min(len(txns), directTxns)
		if err := to.Write(ctx, sink.Endless, txns[:n]); err != nil {
			return used, err
		}
		txns = txns[n:]
	}
	if err := to.Flush(ctx); err != nil {
		return used, err
	}
	return watch.stop(), nil
}

// directTxns make a batch of 2,000 rows.
const directTxns = 20

// Protected is how late a database is behind a redo log, and that log's meta.
type Protected struct {
	Checkpoint Spread // from the checkpoint to the upstream's clock, sampled
	Row        Spread // of the youngest heartbeat in the database
	Meta       Spread // from the resolved-ts of the meta on the storage to the upstream's clock, sampled
	Put        Spread // what it takes to put a small object
}

// protected follows the steady load through a server with a redo log into a database, and
// looks at its heartbeat there, and at the log.
func protected(ctx context.Context, o options) (out Protected, err error) {
	to, cfg, err := openDatabase(ctx, o)
	if err != nil {
		return out, err
	}
	if err := to.Close(); err != nil {
		return out, err
	}
	db, err := mysql.OpenDB(cfg)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	bucket, err := objstore.Open(ctx, o.storage)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	var late, checkpoints, metas, puts []time.Duration
	err = withServer(ctx, o, func(ctx context.Context, s *serving) error {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for began, n := time.Now(), 0; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			meta, put, err := lookAtLog(ctx, bucket, n)
			if err != nil {
				return err
			}
			feed, err := s.plane.Get(ctx, s.id)
			if err != nil {
				return err
			}
			now, err := s.capture.Client.TS(ctx)
			if err != nil {
				return err
			}
			var at int64
			if err := db.QueryRowContext(ctx, "SELECT COALESCE(MAX(at), 0) FROM test.heartbeat").Scan(&at); err != nil {
				return err
			}
			past := time.Since(began)
			if past > protectedSkip && at != 0 && meta != 0 {
				checkpoints = append(checkpoints, now.Sub(feed.Checkpoint))
				metas = append(metas, now.Sub(meta))
				puts = append(puts, put)
				late = append(late, time.Since(time.Unix(0, at)))
			}
			if past > protectedSkip+o.lagFor && len(late) > 0 {
				return nil
			}
		}
	})
	return Protected{Checkpoint: spread(checkpoints), Row: spread(late), Meta: spread(metas), Put: spread(puts)}, err
}

// protectedSkip is left out at the start: the changefeed has to catch up first.
const protectedSkip = 4 * time.Second

// lookAtLog reads what a log's meta says, and puts a small object beside it.
func lookAtLog(ctx context.Context, b objstore.Bucket, n int) (resolved tso.TS, put time.Duration, err error) {
	began := time.Now()
	if err := b.PutNew(ctx, fmt.Sprint("beside/", n), []byte("a small object")); err != nil {
		return 0, 0, err
	}
	put = time.Since(began)
	all, err := redo.Find(ctx, b)
	if err != nil || len(all) == 0 {
		return 0, put, err // it has not begun
	}
	m, err := redo.LastMeta(ctx, b, all[0])
	if err != nil {
		return 0, 0, err
	}
	return m.Resolved, put, nil
}
