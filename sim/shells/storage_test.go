package shells_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

var logID = redo.ID{Cluster: 7, Namespace: "d", Changefeed: "f", Incarnation: "1"}

const logDir = "d/f/1/"

// storage is where the redo log is, and what is known of it. What changes it happens
// under the world's mu.
type storage struct {
	objstore.Bucket
	w      *world
	cfg    redo.Config
	unpack *record.Unpacker

	// Guarded by the world's mu.
	meta    record.Meta // the last that is whole
	metas   int
	files   int
	removed int
	losses  int // of the upstream
}

// newStorage is an empty one.
func newStorage(w *world, rng *rand.Rand) *storage {
	u, err := record.NewUnpacker()
	if err != nil {
		panic(err)
	}
	cfg := redo.Default()
	cfg.MaxLogBytes, cfg.QuotaBytes, cfg.Codec = 1<<20, 1<<20, record.Plain
	cfg.FlushWorkers = 1 + rng.IntN(2)
	cfg.FlushInterval = time.Duration(50+rng.IntN(500)) * time.Millisecond
	cfg.FlushEvery = time.Duration(10+rng.IntN(100)) * time.Millisecond
	cfg.MetaEvery = time.Duration(10+rng.IntN(100)) * time.Millisecond
	cfg.CollectEvery = time.Duration(rng.IntN(500)) * time.Millisecond
	return &storage{Bucket: objstore.NewMemory(), w: w, cfg: cfg, unpack: u}
}

// PutNew looks into what is put.
func (s *storage) PutNew(ctx context.Context, name string, data []byte) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if err := s.Bucket.PutNew(ctx, name, data); err != nil {
		return err
	}
	switch rest := strings.TrimPrefix(name, logDir); {
	case rest == name: // not of the log
	case strings.HasPrefix(rest, "meta/"):
		if m, err := record.ParseMeta(name, data); err == nil && m.Number > s.meta.Number {
			s.saysLocked(m)
		}
	default:
		s.putLocked(rest, data)
	}
	return nil
}

// putLocked notes what is in a file; of half a file nothing.
func (s *storage) putLocked(name string, data []byte) {
	n, err := record.ParseName(name)
	if err != nil {
		s.w.failLocked("a file is called %q: %v", name, err)
		return
	}
	var rows []*row
	var ddls []*change
	f, err := record.Open(name, data, s.unpack)
	for err == nil {
		var e record.Entry
		if e, err = f.Next(); err != nil {
			break
		}
		if e.DDL != nil {
			ddls = append(ddls, s.w.up.ddls[e.DDL.JobID-1])
			continue
		}
		id, _, _ := mount.ParseRecordKey(e.Raw.Key)
		rows = append(rows, s.w.up.all[id].byTS[e.Raw.CommitTS])
	}
	if !errors.Is(err, io.EOF) {
		return
	}
	s.files++
	for _, r := range rows {
		r.logged = append(r.logged, n)
	}
	for _, c := range ddls {
		c.logged = append(c.logged, n)
	}
}

// saysLocked takes a meta in. All that it says has to be there.
func (s *storage) saysLocked(m *record.Meta) {
	w, was := s.w, s.meta
	s.meta = *m
	s.metas++
	if m.Resolved < was.Resolved || m.Checkpoint < was.Checkpoint {
		w.failLocked("P3: meta %d says %d–%d, and %d said %d–%d", m.Number, m.Checkpoint, m.Resolved, was.Number, was.Checkpoint, was.Resolved)
	}
	if m.Checkpoint > w.durable.Checkpoint {
		w.failLocked("P3: meta %d says that %d is downstream, and %d is durable", m.Number, m.Checkpoint, w.durable.Checkpoint)
	}
	s.wholeLocked()
}

// wholeLocked checks that everything above the checkpoint of the last meta that it says
// is in the log is in a file that it counts on (P5).
func (s *storage) wholeLocked() {
	counted := map[string]uint64{}
	for _, e := range s.meta.Writers {
		counted[e.Writer] = e.Files
	}
	in := func(ts tso.TS, files []record.Name) bool {
		return ts <= s.meta.Checkpoint || ts > s.meta.Resolved || slices.ContainsFunc(files, func(n record.Name) bool { return n.Number <= counted[n.Writer] })
	}
	for _, r := range s.w.up.log {
		if !in(r.CommitTS, r.logged) {
			s.w.failLocked("P5: meta %d says %d–%d, and row %d of table %d is in no file that it counts on", s.meta.Number, s.meta.Checkpoint, s.meta.Resolved, r.CommitTS, r.of.shape.ID)
		}
	}
	for _, c := range s.w.up.ddls {
		if !in(c.SwitchTS, c.logged) {
			s.w.failLocked("P5: meta %d says %d–%d, and DDL %d at %d is in no file that it counts on", s.meta.Number, s.meta.Checkpoint, s.meta.Resolved, c.JobID, c.SwitchTS)
		}
	}
}

// Delete takes a file from those that are there.
func (s *storage) Delete(ctx context.Context, name string) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if err := s.Bucket.Delete(ctx, name); err != nil {
		return err
	}
	rest := strings.TrimPrefix(name, logDir)
	n, err := record.ParseName(rest)
	if err != nil {
		if rest == record.MetaName(s.meta.Number) {
			s.w.failLocked("P5: meta %d is removed, and is the last", s.meta.Number)
		}
		return nil
	}
	s.removed++
	is := func(x record.Name) bool { return x == n }
	for _, r := range s.w.up.log {
		r.logged = slices.DeleteFunc(r.logged, is)
	}
	for _, c := range s.w.up.ddls {
		c.logged = slices.DeleteFunc(c.logged, is)
	}
	s.wholeLocked()
	return nil
}

// way is how a node reaches the storage. What it has asked for may happen after it has
// gone, or got no answer.
type way struct {
	*objstoretest.Faulty
	n *node
}

// storageOf is the storage as a node has it, nil where there is no redo log.
func (w *world) storageOf(n *node) objstore.Bucket {
	return way{n: n, Faulty: &objstoretest.Faulty{Bucket: w.storage, Decide: func(context.Context, objstoretest.Call) objstoretest.Fault {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.rng.Float64() >= w.weather.store {
			return objstoretest.None
		}
		return []objstoretest.Fault{objstoretest.Fail, objstoretest.Lost, objstoretest.Tear}[w.rng.IntN(3)]
	}}}
}

func (b way) do(ctx context.Context, do func(context.Context) error) error {
	w := b.n.w
	w.at(b.n)
	defer w.at(b.n)
	err := w.pass(ctx, 15)
	if err == nil {
		return do(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rng.IntN(2) == 0 {
		w.late++
		time.AfterFunc(time.Duration(w.rng.IntN(3000))*time.Millisecond, func() {
			if !w.isOver() {
				_ = do(context.Background()) // who would hear of it is gone
			}
		})
	}
	return err
}

func (b way) PutNew(ctx context.Context, name string, data []byte) error {
	return b.do(ctx, func(ctx context.Context) error { return b.Faulty.PutNew(ctx, name, data) })
}

func (b way) Delete(ctx context.Context, name string) error {
	return b.do(ctx, func(ctx context.Context) error { return b.Faulty.Delete(ctx, name) })
}

func (b way) Get(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if err := b.n.w.pass(ctx, 5); err != nil {
		return nil, err
	}
	return b.Faulty.Get(ctx, name, offset, length)
}

func (b way) List(ctx context.Context, prefix, after string, visit func(objstore.Object) error) error {
	if err := b.n.w.pass(ctx, 5); err != nil {
		return err
	}
	return b.Faulty.List(ctx, prefix, after, visit)
}

// leadLog takes the log over for an owner.
func (w *world) leadLog(ctx context.Context, n *node, rev scheduler.Revision, checkpoint tso.TS) (owner.Redo, error) {
	return redo.TakeOver(ctx, w.storage.cfg, w.storageOf(n), logID, int64(rev), checkpoint)
}

// logWriter is a capture's writer of the log, for an engine.
func (n *node) logWriter(func(error)) agent.RedoWriter {
	return logWriter{redo.NewWriter(n.w.storage.cfg, n.w.storageOf(n), logID, 0)}
}

type logWriter struct{ *redo.Writer }

func (l logWriter) Durable() (upto tso.TS, extents []byte, err error) {
	d := l.Writer.Durable()
	if d.Extent.Files > 0 {
		extents, err = record.EncodeExtents(d.Extent)
	}
	return d.TS, extents, err
}

// lose plays that the upstream is lost at this moment, and everybody with it: the log
// has to make the downstream the upstream's snapshot at the resolved-ts of its meta.
func (w *world) lose() {
	ctx := context.Background()
	d := rest{w: w, content: map[int64]map[string]tso.TS{}, done: map[int64]bool{}}
	there := objstore.NewMemory()
	w.mu.Lock()
	w.storage.losses++
	err := w.storage.Bucket.List(ctx, "", "", func(o objstore.Object) error {
		data, err := w.storage.Bucket.Get(ctx, o.Name, 0, objstore.ToEnd)
		if err != nil {
			return err
		}
		return there.PutNew(ctx, o.Name, data)
	})
	for id, s := range w.up.all {
		d.content[id] = maps.Clone(s.content)
	}
	for _, c := range w.up.ddls {
		d.done[c.JobID] = c.done
	}
	meta := w.storage.meta
	w.mu.Unlock()
	if meta.Number == 0 {
		return // nothing has begun
	}
	inv, openErr := redo.Open(ctx, there, logID)
	if err = errors.Join(err, openErr); err == nil {
		cfg := redo.DefaultApply(inv)
		cfg.Merge.Fetchers = 1
		_, err = redo.Apply(ctx, there, inv, cfg, d, sink.Endless)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failLocked("P5: the upstream is lost, and the log cannot be applied: %v", err)
		return
	}
	if inv.Meta.Number != meta.Number {
		w.failLocked("P5: the upstream is lost, and meta %d is read, %d is the last", inv.Meta.Number, meta.Number)
	}
	d.checkLocked(inv.Meta.Resolved)
}

// rest is what is left of the downstream when the upstream is lost: a sink for the log.
type rest struct {
	w       *world
	content map[int64]map[string]tso.TS // by table and key, the commit-ts of the row that is there
	done    map[int64]bool              // DDLs
}

func (d rest) Write(_ context.Context, _ sink.Leave, txns []event.Txn) error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	for i := range txns {
		for _, r := range txns[i].Rows {
			id, _, _ := mount.ParseRecordKey(r.Key)
			if c := d.w.up.all[id].born; c != nil && !d.done[c.JobID] {
				return cdcerr.Bug("row %d of table %d comes before DDL %d, which makes it", r.CommitTS, id, c.JobID)
			}
			d.content[id][string(r.Key)] = r.CommitTS
		}
	}
	return nil
}

func (d rest) DDL(_ context.Context, _ sink.Leave, x *event.DDL) error {
	d.done[x.JobID] = true
	return nil
}

func (d rest) Flush(context.Context) error                                  { return nil }
func (d rest) Whole() bool                                                  { return false }
func (d rest) SyncPoint(context.Context, sink.Leave, event.SyncPoint) error { return nil }
func (d rest) Checkpoint(context.Context, tso.TS) error                     { return nil }
func (d rest) Close() error                                                 { return nil }

// checkLocked holds what is there against the upstream at ts.
func (d rest) checkLocked(ts tso.TS) {
	for _, c := range d.w.up.ddls {
		if d.done[c.JobID] != (c.SwitchTS <= ts) {
			d.w.failLocked("P5: the upstream is lost, the log goes up to %d, and DDL %d at %d is done: %v", ts, c.JobID, c.SwitchTS, d.done[c.JobID])
		}
	}
	for id, s := range d.w.up.all {
		if !s.livesAt(ts) {
			continue
		}
		want := map[string]tso.TS{}
		for _, r := range s.rows {
			if r.CommitTS <= ts {
				want[string(r.Key)] = r.CommitTS
			}
		}
		if !maps.Equal(d.content[id], want) {
			d.w.failLocked("P5: the upstream is lost, the log goes up to %d, and table %d has %v, want %v", ts, id, slices.Sorted(maps.Values(d.content[id])), slices.Sorted(maps.Values(want)))
		}
	}
}
