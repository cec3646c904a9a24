package sorter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// segment is one file: a table of pebble's that holds some runs, each a sorted
// part of one input, under keys of its own. It is written once and removed when
// its last run was dropped.
type segment struct {
	disk *disk
	path string
	size int64
	tail []byte // the file's last bytes, as they were written

	mu    sync.Mutex
	runs  int             // not dropped
	users int             // who may read
	table *sstable.Reader // open from the first read until there is no user
	gone  bool
}

// use keeps the file until leave.
func (g *segment) use() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users++
}

func (g *segment) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users--; g.users == 0 && g.table != nil {
		if err := g.table.Close(); err != nil {
			g.disk.warn("closing "+g.path, err)
		}
		g.table = nil
	}
	g.endLocked()
}

// drop ends one run.
func (g *segment) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs--
	g.endLocked()
}

func (g *segment) endLocked() {
	if g.runs == 0 && g.users == 0 && !g.gone {
		g.gone = true
		g.disk.bury(g)
	}
}

// open gives the table to a user.
func (g *segment) open() (*sstable.Reader, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.table != nil {
		return g.table, nil
	}
	file, err := g.disk.fs.Open(g.path)
	if err != nil {
		return nil, g.disk.fail(err, "opening "+g.path)
	}
	table, err := g.read(file)
	if err != nil {
		return nil, errors.Join(g.disk.fail(err, "opening "+g.path), file.Close())
	}
	g.table = table
	return table, nil
}

// read opens the table in a file. What stands last in it says how to read the
// rest and has no checksum, so it is compared with what was written; pebble
// panics over some values there.
func (g *segment) read(file vfs.File) (table *sstable.Reader, err error) {
	defer func() {
		if p := recover(); p != nil {
			table, err = nil, fmt.Errorf("not a table: %v", p)
		}
	}()
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return nil, err
	}
	tail := make([]byte, len(g.tail))
	if readable.Size() != g.size {
		return nil, fmt.Errorf("%d bytes long, written were %d", readable.Size(), g.size)
	}
	if err := readable.ReadAt(context.Background(), tail, g.size-int64(len(tail))); err != nil {
		return nil, err
	}
	if !bytes.Equal(tail, g.tail) {
		return nil, fmt.Errorf("it ends in %X, written was %X", tail, g.tail)
	}
	return sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{})
}

// tableFormat prefixes keys against their neighbours, which are much alike here.
const tableFormat = sstable.TableFormatPebblev4

// blockSize is what a seek reads at least: large enough to compress well.
const blockSize = 32 << 10

// segmentWriter makes a segment, run after run.
type segmentWriter struct {
	segment *segment
	file    *unsynced
	table   *sstable.Writer
	next    uint32 // number of the next run
	key     []byte
	value   []byte
}

func (d *disk) create() (*segmentWriter, error) {
	d.mu.Lock()
	d.number++
	name := fmt.Sprintf("%08d.sst", d.number)
	d.mu.Unlock()
	g := &segment{disk: d, path: d.fs.PathJoin(d.dir, name)}
	file, err := d.fs.Create(g.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, d.fail(err, "creating "+g.path)
	}
	out := &unsynced{file: file}
	table := sstable.NewWriter(out, sstable.WriterOptions{
		BlockSize: blockSize, TableFormat: tableFormat, Compression: sstable.SnappyCompression,
	})
	return &segmentWriter{segment: g, file: out, table: table}, nil
}

// finish makes the file readable. Every run is for its owner to drop.
func (w *segmentWriter) finish() error {
	d := w.segment.disk
	w.segment.runs = int(w.next)
	if err := w.table.Close(); err != nil {
		w.remove()
		return d.fail(err, "writing "+w.segment.path)
	}
	w.segment.size, w.segment.tail = w.file.size, w.file.tail
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used += w.file.size
	return nil
}

// abort gives the file up.
func (w *segmentWriter) abort() {
	_ = w.table.Close() // whatever it says: the file goes
	w.remove()
}

func (w *segmentWriter) remove() {
	if err := w.segment.disk.fs.Remove(w.segment.path); err != nil {
		w.segment.disk.warn("removing half a file", err)
	}
}

var _ objstorage.Writable = (*unsynced)(nil)

// unsynced writes a file that need not survive anything.
type unsynced struct {
	file vfs.File
	size int64
	tail []byte // the last bytes written
	buf  []byte
}

// tailLen is more than what a table's footer takes.
const tailLen = 64

// writeLen is what is written at once.
const writeLen = 128 << 10

// Write implements objstorage.Writable.
func (u *unsynced) Write(p []byte) error {
	u.buf = append(u.buf, p...)
	if len(u.buf) < writeLen {
		return nil
	}
	return u.flush()
}

func (u *unsynced) flush() error {
	u.tail = append(u.tail, u.buf[max(0, len(u.buf)-tailLen):]...) // now: a file may use the buffer as it likes
	u.tail = u.tail[max(0, len(u.tail)-tailLen):]
	n, err := u.file.Write(u.buf)
	u.size += int64(n)
	u.buf = u.buf[:0]
	return err
}

// Finish implements objstorage.Writable.
func (u *unsynced) Finish() error { return errors.Join(u.flush(), u.file.Close()) }

// Abort implements objstorage.Writable.
func (u *unsynced) Abort() { _ = u.file.Close() }

// views are iterators over whole tables, one a segment, for one goroutine.
type views struct {
	open map[*segment]sstable.Iterator
}

// openMax is how many views one reader keeps open: an iterator holds a block of
// data and one of the index.
const openMax = 64

// of gives a view of a segment, which the caller uses. It must be done with it
// before the next call.
func (v *views) of(g *segment) (sstable.Iterator, error) {
	if it := v.open[g]; it != nil {
		return it, nil
	}
	if len(v.open) >= openMax {
		if err := v.close(); err != nil { // all at once: whoever reads so many comes round to none of them soon
			return nil, err
		}
	}
	table, err := g.open()
	if err != nil {
		return nil, err
	}
	it, err := table.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, g.fail(err)
	}
	if v.open == nil {
		v.open = make(map[*segment]sstable.Iterator)
	}
	v.open[g] = it
	return it, nil
}

// end closes the view of one segment.
func (v *views) end(g *segment) error {
	it := v.open[g]
	if it == nil {
		return nil
	}
	delete(v.open, g)
	if err := it.Close(); err != nil {
		return g.fail(err)
	}
	return nil
}

func (v *views) close() error {
	var all error
	for g, it := range v.open {
		if err := it.Close(); err != nil {
			all = errors.Join(all, g.fail(err))
		}
	}
	clear(v.open)
	return all
}

func (g *segment) fail(err error) error { return g.disk.fail(err, "reading "+g.path) }
