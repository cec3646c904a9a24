package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
)

// What a table that is created and followed may cost, however many there are.
const (
	tableAsks     = 1.0   // questions to PD, and registrations, each
	tableMessages = 200.0 // received over the change streams
	// tablesOther is what is asked for beside: the tables of jobs, and their snapshot.
	tablesOther = 20
)

// Tables is what following many new tables took.
type Tables struct {
	Usage
	Lookups, Registrations, Messages uint64
}

// tables lets tables be created, as fast as they can be followed: a tenth of them
// first, and what each costs then is what each may cost among all.
func (o options) tables(ctx context.Context, out io.Writer) error {
	if o.creates == 0 {
		return nil
	}
	fmt.Fprintf(out, "\nup to %d tables are created and followed (hold, a table: ≤ %.0f look-up, ≤ %.0f registration, ≤ %.0f messages)\n%8s %8s %8s %10s %14s %10s\n", o.creates,
		tableAsks, tableAsks, tableMessages, "tables", "wall s", "CPU ms", "look-ups", "registrations", "messages")
	all := o.creates
	for _, n := range []int{max(all/10, 1), all} {
		// Time is as fast as the tables come: so are resolved-ts.
		o.creates, o.interval = n, 10*time.Millisecond
		var t Tables
		if err := o.measure(ctx, "tables", &t); err != nil {
			return fmt.Errorf("tables: %w", err)
		}
		per := func(n uint64) float64 { return float64(n) / float64(o.creates) }
		most := tableAsks*float64(n) + tablesOther
		ok := float64(t.Lookups) <= most && float64(t.Registrations) <= most && per(t.Messages) <= tableMessages
		fmt.Fprintf(out, "%8d %8.2f %8.2f %10.2f %14.2f %10.1f %s\n", n, t.Wall.Seconds(), t.CPU.Seconds()*1000/float64(n),
			per(t.Lookups), per(t.Registrations), per(t.Messages), o.judge.held(fmt.Sprintf("%d tables", n), ok))
	}
	return nil
}

// madeTables is a cluster in which n tables are created, one after the other,
// ten a second.
func madeTables(n int) (*fake.Recording, error) {
	const began, each = 1_800_000_000_000, 100 // milliseconds
	at := tso.New(began, 0)
	c, kvs, err := catalog.Bootstrap(at)
	if err != nil {
		return nil, err
	}
	var snapshot []fake.KV
	for _, kv := range kvs {
		snapshot = append(snapshot, fake.KV(kv))
	}
	var txns []fake.Txn
	for i := range n {
		sql := fmt.Sprintf("create table t%d (id bigint primary key, v varchar(20))", i)
		jobs, err := c.Plan(sql, catalog.Session{DB: "test", SQLMode: catalog.DefaultSQLMode})
		if err != nil {
			return nil, err
		}
		at = tso.New(began+int64(i+1)*each, 0)
		for _, j := range jobs {
			for !j.Ended() {
				at = tso.New(at.Physical()+1, 0)
				s, err := j.Next(at)
				if err != nil {
					return nil, err
				}
				t := fake.Txn{StartTS: at, CommitTS: at.Next()}
				for _, kv := range s.Writes {
					t.Writes = append(t.Writes, fake.KV(kv))
				}
				txns = append(txns, t)
			}
		}
	}
	return fake.MakeRecording("tables", snapshot, txns)
}

// tables follows them until all are created downstream.
func tables(ctx context.Context, o options) (t Tables, err error) {
	hole, err := blackhole.Open(blackhole.Scheme + "://")
	if err != nil {
		return t, err
	}
	counted := &created{Sink: hole, until: uint64(o.creates), done: make(chan struct{})}
	stop, err := o.startProfile()
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	watch := startWatch()
	err = run(ctx, o.pd, inMemory(), 0, tso.TS(o.start), counted, func(upstream.Batch) {}, func(ctx context.Context, c capture) error {
		select {
		case <-counted.done:
			t.Usage = watch.stop()
			n := c.client.Counts()
			t.Lookups, t.Registrations, t.Messages = n.Lookups, n.Registrations, n.Messages
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return t, err
}

// created tells when a blackhole has had so many DDLs.
type created struct {
	*blackhole.Sink
	until uint64
	done  chan struct{}
	once  sync.Once
}

func (w *created) DDL(ctx context.Context, g sink.Leave, d *event.DDL) error {
	if err := w.Sink.DDL(ctx, g, d); err != nil {
		return err
	}
	if w.Counts().DDLs >= w.until {
		w.once.Do(func() { close(w.done) })
	}
	return nil
}
