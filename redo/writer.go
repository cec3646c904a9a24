package redo

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// Durable is up to where what a Writer was given is on the storage, and in which
// of its files.
type Durable struct {
	TS     tso.TS
	Extent record.Extent
}

// Writer writes the changes of one changefeed on one capture. Its rows come from
// one goroutine; what it says may be asked by any.
//
// A change is copied into the file that is being built; that file is ended when a
// resolved-ts follows it, when it is large enough, or after the flush interval.
// Ended files wait for a worker that compresses and puts them, several at a time.
// A resolved-ts is durable when all files that were ended up to its coming are: one
// that no row precedes is so at once.
type Writer struct {
	cfg    Config
	id     ID
	bucket objstore.Bucket
	name   string

	wake  chan struct{} // something for the one that ends files
	work  chan *sealed  // to the workers; each of them takes one, so that none waits here for long
	moved chan struct{} // holds one token
	room  chan struct{} // holds one token: memory was given back
	gone  chan struct{} // closed: Run has ended

	mu       sync.Mutex
	building *record.Builder // guarded by mu, as all below
	since    time.Time       // the first change in building came
	ended    time.Time       // the last file was ended
	last     uint64          // number of the last file that was ended
	run      uint64
	tail     *event.RawKV // the last that came
	before   tso.TS
	queue    []*sealed         // ended, and not with a worker: bounded by busy
	held     int64             // bytes that wait, building not counted
	done     map[uint64]tso.TS // the largest commit-ts of files that are there before one that is not
	resolved tso.TS            // the last that came
	marks    []mark            // resolved-ts that wait for files; one a file at most
	counted  record.Extent
	durable  tso.TS
}

// sealed is a file that was ended.
type sealed struct {
	head    record.Head
	builder *record.Builder
	bytes   int64
}

// mark is a resolved-ts that is durable with the files up to a number.
type mark struct {
	number uint64
	ts     tso.TS
}

// NewWriter is one that has written nothing; everything up to ts is downstream or
// somebody else's matter. It has a name that no other has or will have.
func NewWriter(cfg Config, b objstore.Bucket, id ID, ts tso.TS) *Writer {
	name := writerName("r")
	return &Writer{
		cfg: cfg, id: id, bucket: b, name: name,
		wake: make(chan struct{}, 1), moved: make(chan struct{}, 1), room: make(chan struct{}, 1),
		work: make(chan *sealed), gone: make(chan struct{}),
		building: record.NewBuilder(record.Rows), run: 1, done: map[uint64]tso.TS{},
		resolved: ts, durable: ts, counted: record.Extent{Writer: name, Kind: record.Rows},
	}
}

// writerName is a name for one life of a writer.
func writerName(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// Append takes a change and the table by which it is decoded. It waits while more
// than the quota is not flushed. What is not above the writer's beginning need not
// come, and does no harm.
func (w *Writer) Append(ctx context.Context, raw *event.RawKV, t *event.Table) error {
	for {
		w.mu.Lock()
		full := w.held+int64(w.building.Bytes()) >= w.cfg.QuotaBytes && w.held > 0
		if !full {
			break
		}
		w.mu.Unlock()
		select {
		case <-w.room:
		case <-w.gone:
			return cdcerr.RedoStopped.New("redo log %v", w.id)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer w.mu.Unlock()
	if w.tail != nil && raw.Less(w.tail) {
		w.sealLocked()
		w.run++
	}
	w.tail = raw
	if w.building.Empty() {
		w.since = time.Now()
		wake(w.wake) // for the flush interval
	}
	w.building.Change(raw, t)
	if int64(w.building.Bytes()) >= w.cfg.MaxLogBytes {
		w.sealLocked()
	}
	return nil
}

// Resolve says that every change at or below ts has been appended.
func (w *Writer) Resolve(ts tso.TS) {
	w.mu.Lock()
	if ts > w.resolved {
		w.resolved = ts
		wake(w.wake)
	}
	w.mu.Unlock()
}

// Durable is up to where all is on the storage. A quiet changefeed's moves too.
func (w *Writer) Durable() Durable {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Durable{TS: w.durable, Extent: w.counted}
}

// Moved gets a token when Durable has changed.
func (w *Writer) Moved() <-chan struct{} { return w.moved }

// sealLocked ends the file that is being built, if there is anything in it.
func (w *Writer) sealLocked() {
	if w.building.Empty() {
		return
	}
	w.last++
	h := record.Head{
		Cluster: w.id.Cluster, Namespace: w.id.Namespace, Changefeed: w.id.Changefeed, Incarnation: w.id.Incarnation,
		Writer: w.name, Run: w.run, Number: w.last, BeforeMax: w.before, Program: w.cfg.Program,
	}
	s := &sealed{head: h, builder: w.building, bytes: int64(w.building.Bytes())}
	w.before = max(w.before, w.building.Max())
	w.held += s.bytes
	w.queue = append(w.queue, s)
	w.building = record.NewBuilder(record.Rows)
	w.ended = time.Now()
	wake(w.wake)
}

// busy tells whether the workers have enough: the file that is being built may as
// well grow.
func (w *Writer) busy() bool { return len(w.queue) >= w.cfg.FlushWorkers }

// look decides what is due: a file to end, a resolved-ts that needs none, a file
// for a worker. Wait is how long until something is.
func (w *Writer) look(now time.Time) (next *sealed, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait = w.cfg.FlushInterval
	newest := w.durable
	if len(w.marks) > 0 {
		newest = w.marks[len(w.marks)-1].ts
	}
	if !w.building.Empty() && !w.busy() {
		due := w.since.Add(w.cfg.FlushInterval)
		if w.resolved > newest {
			due = w.ended.Add(w.cfg.FlushEvery)
		}
		if wait = due.Sub(now); wait <= 0 {
			w.sealLocked()
		}
	}
	if w.building.Empty() && w.resolved > newest {
		// One mark a file: while a file waits for the storage, resolved-ts keep coming.
		if n := len(w.marks); n > 0 && w.marks[n-1].number == w.last {
			w.marks[n-1].ts = w.resolved
		} else {
			w.marks = append(w.marks, mark{w.last, w.resolved})
		}
		w.settleLocked()
	}
	if len(w.queue) > 0 {
		next = w.queue[0]
	}
	return next, max(wait, time.Millisecond)
}

// settleLocked counts the files that are there, and moves the resolved-ts that
// waited for them.
func (w *Writer) settleLocked() {
	for ts, there := w.done[w.counted.Files+1]; there; ts, there = w.done[w.counted.Files+1] {
		w.counted.Files++
		w.counted.Max = max(w.counted.Max, ts)
		delete(w.done, w.counted.Files)
	}
	before := w.durable
	for len(w.marks) > 0 && w.marks[0].number <= w.counted.Files {
		w.durable = w.marks[0].ts
		w.marks = w.marks[1:]
	}
	if w.durable > before {
		wake(w.moved)
	}
	wake(w.room)
}

// Run ends files and puts them, until ctx ends or a file cannot be put for good.
func (w *Writer) Run(ctx context.Context) error {
	if err := w.cfg.Validate(); err != nil {
		return err
	}
	defer close(w.gone)
	g, ctx := errgroup.WithContext(ctx)
	for range w.cfg.FlushWorkers {
		g.Go(func() error { return w.flush(ctx) })
	}
	g.Go(func() error { return w.deal(ctx) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("redo log %v: %w", w.id, err)
	}
	return nil
}

// deal hands files to the workers in the order of their numbers.
func (w *Writer) deal(ctx context.Context) error {
	for {
		next, wait := w.look(time.Now())
		var work chan<- *sealed
		if next != nil {
			work = w.work
		}
		timer := time.NewTimer(wait)
		select {
		case work <- next:
			w.mu.Lock()
			w.queue[0] = nil // its bytes are the worker's to keep
			w.queue = w.queue[1:]
			w.mu.Unlock()
		case <-w.wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// flush is a worker.
func (w *Writer) flush(ctx context.Context) error {
	packer, err := record.NewPacker(w.cfg.Codec)
	if err != nil {
		return err
	}
	for {
		var s *sealed
		select {
		case s = <-w.work:
		case <-ctx.Done():
			return ctx.Err()
		}
		name, data, err := s.builder.Encode(s.head, packer)
		if err != nil {
			return err
		}
		if err := put(ctx, &w.cfg, w.bucket, w.id, name, data); err != nil {
			return err
		}
		w.mu.Lock()
		w.done[s.head.Number] = name.Max
		w.held -= s.bytes
		w.settleLocked()
		w.mu.Unlock()
	}
}

// put puts a file until it is there. A name that is taken by other bytes is taken
// by half of it, which a storage that breaks its promise left behind: the writer
// ends, and the next has another name.
func put(ctx context.Context, cfg *Config, b objstore.Bucket, id ID, name record.Name, data []byte) error {
	err := cfg.retry(ctx, "writing "+name.String(), func() error {
		return objstore.PutOnce(ctx, b, id.dir()+name.String(), data)
	})
	if cdcerr.ObjectExists.Is(err) {
		return cdcerr.RedoStopped.New("the file %s is there with other content, which nobody but this writer can have begun: it begins anew under another name", name)
	}
	return err
}

// DDLWriter writes DDLs: each is on the storage before it is carried out. It
// belongs to the owner, and to one goroutine.
type DDLWriter struct {
	cfg    Config
	id     ID
	bucket objstore.Bucket
	packer *record.Packer
	extent record.Extent
}

// NewDDLWriter is one that has written nothing.
func NewDDLWriter(cfg Config, b objstore.Bucket, id ID) (*DDLWriter, error) {
	packer, err := record.NewPacker(cfg.Codec)
	if err != nil {
		return nil, err
	}
	return &DDLWriter{cfg: cfg, id: id, bucket: b, packer: packer, extent: record.Extent{Writer: writerName("d"), Kind: record.DDLs}}, nil
}

// Write returns when the DDLs are on the storage. After an error it takes no more:
// another one is made.
func (w *DDLWriter) Write(ctx context.Context, ddls ...*event.DDL) error {
	if len(ddls) == 0 {
		return nil
	}
	b := record.NewBuilder(record.DDLs)
	for _, d := range ddls {
		b.DDL(d)
	}
	h := record.Head{
		Cluster: w.id.Cluster, Namespace: w.id.Namespace, Changefeed: w.id.Changefeed, Incarnation: w.id.Incarnation,
		Writer: w.extent.Writer, Run: 1, Number: w.extent.Files + 1, BeforeMax: w.extent.Max, Program: w.cfg.Program,
	}
	name, data, err := b.Encode(h, w.packer)
	if err != nil {
		return err
	}
	if err := put(ctx, &w.cfg, w.bucket, w.id, name, data); err != nil {
		return fmt.Errorf("redo log %v: %w", w.id, err)
	}
	w.extent.Files++
	w.extent.Max = max(w.extent.Max, name.Max)
	return nil
}

// Extent is what has been written.
func (w *DDLWriter) Extent() record.Extent { return w.extent }
