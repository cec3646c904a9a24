package sorter

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// disk is the place of segments. Nothing in it outlives the process: what the
// last one left is removed, and files are never synced.
type disk struct {
	fs    vfs.FS
	dir   string // the segments' own
	quota int64
	log   *slog.Logger
	lock  io.Closer

	mu     sync.Mutex
	number uint64     // of the last segment
	used   int64      // bytes of all segments that are there
	dead   []*segment // to be removed
}

// The names in a data directory.
const (
	lockName = "sorter.lock"
	dirName  = "sorter"
)

func openDisk(fs vfs.FS, cfg Config) (*disk, error) {
	d := &disk{fs: fs, dir: fs.PathJoin(cfg.Dir, dirName), quota: cfg.DiskQuota, log: cfg.Log}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if err := fs.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, cdcerr.SorterIO.Wrap(err, "making %s", cfg.Dir)
	}
	lock, err := fs.Lock(fs.PathJoin(cfg.Dir, lockName))
	if err != nil {
		return nil, cdcerr.DataDirInUse.Wrap(err, "locking %s", fs.PathJoin(cfg.Dir, lockName))
	}
	d.lock = lock
	if err = fs.RemoveAll(d.dir); err == nil {
		err = fs.MkdirAll(d.dir, 0o755)
	}
	if err != nil {
		return nil, errors.Join(cdcerr.SorterIO.Wrap(err, "emptying %s", d.dir), lock.Close())
	}
	return d, nil
}

func (d *disk) close() error {
	err := d.fs.RemoveAll(d.dir)
	if err := errors.Join(err, d.lock.Close()); err != nil {
		return cdcerr.SorterIO.Wrap(err, "leaving %s", d.dir)
	}
	return nil
}

func (d *disk) size() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

func (d *disk) warn(what string, err error) {
	d.log.Warn("sorter: "+what, "dir", d.dir, "error", err)
}

// fail gives an error of a file its code. What is wrong with a disk may pass, or
// the data can be had from upstream again: all of it is retried.
func (d *disk) fail(err error, doing string) error {
	if vfs.IsNoSpaceError(err) {
		return cdcerr.DiskFull.Wrap(err, "%s: %s", doing, d.space())
	}
	return cdcerr.SorterIO.Wrap(err, "%s in %s", doing, d.dir)
}

// space says how the place stands.
func (d *disk) space() string {
	free := "an unknown number of"
	if u, err := d.fs.GetDiskUsage(d.dir); err == nil {
		free = strconv.FormatUint(u.AvailBytes, 10)
	}
	return fmt.Sprintf("%s holds %d bytes of at most %d, its device has %s bytes free", d.dir, d.size(), d.quota, free)
}

// admit refuses a segment that might become too large.
func (d *disk) admit(size int64) error {
	if d.size()+size > d.quota {
		return cdcerr.DiskFull.New("no room for %d bytes more: %s", size, d.space())
	}
	return nil
}

// bury takes a segment that nobody needs; sweep removes its file.
func (d *disk) bury(g *segment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = append(d.dead, g)
}

func (d *disk) sweep() {
	d.mu.Lock()
	dead := d.dead
	d.dead = nil
	d.mu.Unlock()
	for _, g := range dead {
		d.remove(g)
	}
}

func (d *disk) remove(g *segment) {
	if err := d.fs.Remove(g.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.warn("a file that nobody needs cannot be removed; it goes at the next start", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used -= g.size
}
