package shells_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// row is one committed change.
type row struct {
	event.RawKV
	of      *source
	applied bool
	logged  []record.Name // files of the redo log that have it
}

// source is an upstream table, with what the downstream has of it.
type source struct {
	shape   *event.Table
	rows    []*row
	byTS    map[tso.TS]*row
	ddls    []*change // those that part its rows, in order
	dropped bool
	from    tso.TS  // its rows are above
	born    *change // the DDL that makes it; nil: it was there

	applied int               // rows before it are all downstream
	grants  map[string]uint64 // by key, the latest placement that wrote it
	content map[string]tso.TS // by key, the commit-ts of the row that is downstream
}

// livesAt tells whether a table is there at ts.
func (s *source) livesAt(ts tso.TS) bool {
	return s.from <= ts && (!s.dropped || s.ddls[len(s.ddls)-1].SwitchTS > ts)
}

// change is a DDL upstream.
type change struct {
	*event.DDL
	touched     []*source
	begun, done bool
	logged      []record.Name // files of the redo log that have it
}

// database is TiDB: a clock, tables, and the log of what was committed.
type database struct {
	begin time.Time
	last  tso.TS
	ids   int64
	live  []*source
	all   map[int64]*source
	log   []*row
	ddls  []*change
}

// keys is how many rows a table has.
const keys = 6

// next is a timestamp of now.
func (u *database) next() tso.TS {
	u.last = max(u.last.Next(), tso.New(1000+time.Since(u.begin).Milliseconds(), 0))
	return u.last
}

func (u *database) create(name string) *source {
	u.ids++
	s := &source{byTS: map[tso.TS]*row{}, content: map[string]tso.TS{}, grants: map[string]uint64{}, from: u.last, shape: &event.Table{
		ID: u.ids, Schema: "d", Name: name,
		Columns: []event.Column{
			{ID: 1, Name: "id", Type: event.TypeLong, Flag: event.FlagNotNull | event.FlagPriKey, Flen: 11},
			{ID: 2, Name: "v", Type: event.TypeLong, Flen: 11},
		},
		Handle: event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{Column: 0, Length: event.FullLength}}},
		Key:    []int{0},
	}}
	u.live = append(u.live, s)
	u.all[u.ids] = s
	return s
}

// commit writes a row.
func (u *database) commit(rng *rand.Rand) {
	if len(u.live) == 0 {
		return
	}
	s, ts := u.live[rng.IntN(len(u.live))], u.next()
	r := &row{of: s, RawKV: event.RawKV{
		Op: event.Put, StartTS: ts.Prev(), CommitTS: ts, Value: value(byte(rng.IntN(100))),
		Key: span.AppendInt(span.RecordPrefix(s.shape.ID), int64(rng.IntN(keys))),
	}}
	s.rows, s.byTS[ts], u.log = append(s.rows, r), r, append(u.log, r)
}

// value is row format v2 with column 2 = v.
func value(v byte) []byte {
	b := []byte{128, 0}
	b = binary.LittleEndian.AppendUint16(b, 1)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = append(b, 2)
	b = binary.LittleEndian.AppendUint16(b, 1)
	return append(b, v)
}

// ddl changes some table, or makes one.
func (u *database) ddl(rng *rand.Rand) {
	ts := u.next()
	c := &change{DDL: &event.DDL{JobID: int64(len(u.ddls) + 1), SwitchTS: ts, FinishedTS: ts, StartTS: ts.Prev(), Schema: "d"}}
	kind := rng.IntN(6)
	if len(u.live) == 0 || kind == 0 && len(u.live) < 5 {
		c.Action = event.ActionCreateTable
		s := u.create(fmt.Sprintf("t%d", c.JobID))
		s.born, c.Tables = c, []event.TableChange{{After: s.shape}}
		u.ddls = append(u.ddls, c)
		return
	}
	at := rng.IntN(len(u.live))
	s := u.live[at]
	c.touched, s.ddls = append(c.touched, s), append(s.ddls, c)
	switch kind {
	case 1:
		c.Action, c.Tables = event.ActionDropTable, []event.TableChange{{Before: s.shape}}
	case 2, 3:
		next := u.create(s.shape.Name)
		next.born = c
		c.Action, c.Tables = event.ActionTruncateTable, []event.TableChange{{Before: s.shape, After: next.shape}}
	default:
		c.Action, c.Tables = event.ActionAddColumn, []event.TableChange{{Before: s.shape, After: s.shape}}
	}
	if c.Action != event.ActionAddColumn {
		s.dropped = true
		u.live = append(u.live[:at:at], u.live[at+1:]...)
	}
	u.ddls = append(u.ddls, c)
}

// stream is the upstream of one node's ingest.
type stream struct{ w *world }

// Subscribe implements ingest.Upstream.
func (s stream) Subscribe(ctx context.Context, sub upstream.Subscription, out func(upstream.Batch) error) error {
	w := s.w
	w.mu.Lock()
	of, every := w.up.all[sub.Span.TableID], time.Duration(20+w.rng.IntN(80))*time.Millisecond
	w.mu.Unlock()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; {
		var b upstream.Batch
		w.mu.Lock()
		for ; n < len(of.rows); n++ {
			if of.rows[n].CommitTS > sub.StartTS && sub.Span.Contains(span.EncodeKey(of.rows[n].Key)) {
				b.Rows = append(b.Rows, of.rows[n].RawKV)
			}
		}
		b.Resolved = w.up.next()
		w.mu.Unlock()
		if err := out(b); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// schema is a feed of the upstream's.
type schema struct {
	w        *world
	advanced chan struct{}

	// Guarded by the world's mu.
	at    tso.TS
	given int
}

func (w *world) feed(cfg schemafeed.Config) *schema {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := &schema{w: w, at: cfg.StartTS.Prev(), advanced: make(chan struct{}, 1)}
	for f.given < len(w.up.ddls) && w.up.ddls[f.given].SwitchTS < cfg.StartTS {
		f.given++
	}
	return f
}

func (f *schema) Load(ctx context.Context) error { return f.w.pass(ctx, 30) }

func (f *schema) Run(ctx context.Context) error {
	for {
		if err := f.w.pass(ctx, 120); err != nil {
			return err
		}
		f.w.mu.Lock()
		f.at = f.w.up.next()
		f.w.mu.Unlock()
		signal(f.advanced)
	}
}

func (f *schema) Advanced() <-chan struct{} { return f.advanced }

func (f *schema) Resolved() tso.TS {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.at
}

func (f *schema) DDLs(upto tso.TS) (out []*event.DDL) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for ; f.given < len(f.w.up.ddls) && f.w.up.ddls[f.given].SwitchTS <= upto; f.given++ {
		out = append(out, f.w.up.ddls[f.given].DDL)
	}
	return out
}

func (f *schema) TableAt(id int64, _ tso.TS) (*event.Table, bool) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	s := f.w.up.all[id]
	if s == nil {
		return nil, false
	}
	return s.shape, true
}

func (f *schema) Tables(ts tso.TS) (out []*event.Table) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for id := int64(1); id <= f.w.up.ids; id++ {
		if s := f.w.up.all[id]; s.livesAt(ts) {
			out = append(out, s.shape)
		}
	}
	return out
}

// Forget must not go above what is durable: who comes next begins there.
func (f *schema) Forget(below tso.TS) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if below > f.w.durable.Checkpoint {
		f.w.failLocked("P3: the schema below %d is forgotten, and %d is durable", below, f.w.durable.Checkpoint)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Version is for tables that have partitions, of which there are none.
func (f *schema) Version(id int64, ts tso.TS) (*event.Table, tso.TS) {
	t, _ := f.TableAt(id, ts)
	return t, tso.Max
}
