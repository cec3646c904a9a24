package objstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// staging is the folder in which objects are written before they have a name.
const staging = ".staging"

// stagedMax is how old a file in there may grow: nobody writes one object for a
// day, so that an older one is what a crash left behind.
const stagedMax = 24 * time.Hour

// file is a directory. An object is written beside, flushed to the disk, and then
// given its name by a link (which fails where the name is taken) or a rename; then
// the folder that holds the name is flushed. All of that is by a handle on the
// directory: one that was removed or mounted over in the meantime is an error, and
// not a new, empty log.
type file struct {
	dir  string
	root *os.Root
	text string

	reading bool // nothing is made or written here

	durable sync.Map             // folders that their parents know for good
	flush   func(*os.File) error // (*os.File).Sync
}

func openFile(l *location, reading bool) (Bucket, error) {
	if err := l.only(); err != nil {
		return nil, err
	}
	if l.Host != "" && l.Host != "localhost" {
		return nil, cdcerr.StorageURIInvalid.New("storage URI %s: %q would be a host; write %s:///directory", l.text, l.Host, l.Scheme)
	}
	if !path.IsAbs(l.Path) || path.Clean(l.Path) == "/" {
		return nil, cdcerr.StorageURIInvalid.New("storage URI %s: no directory; write %s:///directory", l.text, l.Scheme)
	}
	b := &file{dir: filepath.FromSlash(path.Clean(l.Path)), text: l.text, reading: reading, flush: (*os.File).Sync}
	if reading {
		if err := b.openReader(); err != nil {
			return nil, err
		}
		return b, nil
	}
	switch err := makeDurable(b.dir); {
	case errors.Is(err, syscall.ENOTDIR):
		return nil, cdcerr.StorageURIInvalid.Wrap(err, "storage URI %s: no directory can be there", l.text)
	case err != nil:
		return nil, b.wrap(err, "making the directory")
	}
	var err error
	if b.root, err = os.OpenRoot(b.dir); err != nil {
		return nil, b.wrap(err, "opening the directory")
	}
	if err := b.root.Mkdir(staging, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, errors.Join(b.wrap(err, "making the folder %s", staging), b.root.Close())
	}
	if err := b.sweep(); err != nil {
		return nil, errors.Join(err, b.root.Close())
	}
	return b, nil
}

// openReader opens the directory as it is.
func (b *file) openReader() error {
	info, err := os.Stat(b.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return cdcerr.StorageGone.Wrap(err, "%s", b.text)
	case err == nil && !info.IsDir():
		return cdcerr.StorageURIInvalid.New("storage URI %s: it names a file, and no directory", b.text)
	case err == nil:
		b.root, err = os.OpenRoot(b.dir)
	}
	if err != nil {
		return b.wrap(err, "opening the directory")
	}
	return nil
}

// makeDurable makes a directory and those above it that are missing, each known
// to its parent for good.
func makeDurable(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s: %w", dir, syscall.ENOTDIR)
		}
		return nil
	}
	if err := makeDurable(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
		return errors.Join(err, os.Remove(dir)) // one that is there counts as known
	}
	return nil
}

// sweep removes what crashes have left in the staging folder.
func (b *file) sweep() error {
	entries, err := fs.ReadDir(b.root.FS(), staging)
	if err != nil {
		return b.wrap(err, "reading the folder %s", staging)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // gone: its writer was at work
		}
		if time.Since(info.ModTime()) > stagedMax {
			if err := b.root.Remove(path.Join(staging, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return b.wrap(err, "removing what a crash left in %s", staging)
			}
		}
	}
	return nil
}

// wrap gives an error of the file system its code.
func (b *file) wrap(err error, format string, args ...any) error {
	what := b.text + ": " + fmt.Sprintf(format, args...)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return cdcerr.StorageFull.Wrap(err, "%s", what)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return cdcerr.StorageDenied.Wrap(err, "%s", what)
	case errors.Is(err, syscall.ESTALE):
		return cdcerr.StorageGone.Wrap(err, "%s", what)
	}
	return cdcerr.StorageAPI.Wrap(err, "%s", what)
}

// there says whether the directory is still the one that was opened.
func (b *file) there() error {
	opened, err := b.root.Stat(".")
	if err != nil {
		return cdcerr.StorageGone.Wrap(err, "%s: asking for the directory", b.text)
	}
	now, err := os.Stat(b.dir)
	if err != nil {
		return cdcerr.StorageGone.Wrap(err, "%s: the directory was there when it was opened", b.text)
	}
	if !os.SameFile(opened, now) {
		return cdcerr.StorageGone.New("%s: this is another directory than the one that was opened: it was removed, or mounted over", b.text)
	}
	return nil
}

// writable is an error for a bucket that was opened to be read.
func (b *file) writable(name string) error {
	if b.reading {
		return cdcerr.Bug("%s was opened to be read, and %s is to be written or removed", b.text, name)
	}
	return nil
}

// Put implements Bucket.
func (b *file) Put(ctx context.Context, name string, data []byte) error {
	return b.put(ctx, name, data, b.root.Rename)
}

// PutNew implements Bucket.
func (b *file) PutNew(ctx context.Context, name string, data []byte) error {
	return b.put(ctx, name, data, func(staged, name string) error {
		if err := b.root.Link(staged, name); err != nil {
			return err
		}
		// The object has its name. A second name in the staging folder is swept some day.
		_ = b.root.Remove(staged)
		return nil
	})
}

func (b *file) put(ctx context.Context, name string, data []byte, place func(staged, name string) error) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	if err := b.writable(name); err != nil {
		return err
	}
	if err := b.there(); err != nil {
		return err
	}
	staged := path.Join(staging, rand.Text())
	if err := b.stage(staged, data); err != nil {
		return b.wrap(err, "writing %s", name)
	}
	if err := b.makeParents(path.Dir(name)); err != nil {
		return errors.Join(b.wrap(err, "making the folder of %s", name), b.root.Remove(staged))
	}
	if err := place(staged, name); err != nil {
		gone := b.root.Remove(staged)
		if errors.Is(err, fs.ErrExist) {
			// Who takes it for its own, put by an attempt that failed in flushing the
			// folder, counts on its name.
			if err := b.sync(path.Dir(name)); err != nil {
				return b.wrap(err, "flushing the folder of %s", name)
			}
			return exists(b, name)
		}
		return errors.Join(b.wrap(err, "giving %s its name", name), gone)
	}
	if err := b.sync(path.Dir(name)); err != nil {
		return b.wrap(err, "flushing the folder of %s", name)
	}
	return nil
}

// stage writes a file and flushes it; on an error there is none.
func (b *file) stage(staged string, data []byte) error {
	f, err := b.root.OpenFile(staged, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, b.root.Remove(staged))
	}
	return nil
}

// makeParents makes a folder and those above it, each known to its parent for good. That
// a folder is there does not say so: it may have failed when it was made, or another
// process made it just now. So each is flushed once in the life of this bucket.
func (b *file) makeParents(dir string) error {
	if dir == "." {
		return nil
	}
	if _, known := b.durable.Load(dir); known {
		if _, err := b.root.Stat(dir); err == nil {
			return nil
		}
	}
	if err := b.makeParents(path.Dir(dir)); err != nil {
		return err
	}
	if err := b.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := b.sync(path.Dir(dir)); err != nil {
		return err
	}
	b.durable.Store(dir, nil)
	return nil
}

func (b *file) sync(dir string) error {
	f, err := b.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(b.flush(f), f.Close())
}

// Get implements Bucket.
func (b *file) Get(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if err := ready(ctx, name); err != nil {
		return nil, err
	}
	if err := checkRange(name, offset, length); err != nil {
		return nil, err
	}
	f, err := b.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(notFound(b, name), b.there())
	}
	if err != nil {
		return nil, b.wrap(err, "opening %s", name)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, b.wrap(err, "asking for the size of %s", name)
	}
	left := max(0, info.Size()-offset)
	if length == ToEnd || length > left {
		length = left
	}
	out := make([]byte, length)
	if n, err := f.ReadAt(out, offset); err != nil && (!errors.Is(err, io.EOF) || int64(n) < length) {
		return nil, b.wrap(err, "reading %s", name)
	}
	return out, nil
}

// List implements Bucket. The folders are read one at a time: of a name's bytes
// '/' is not the least, so that the entries of a folder are put in order first.
func (b *file) List(ctx context.Context, prefix, after string, visit func(Object) error) error {
	if err := b.there(); err != nil {
		return err
	}
	return b.list(ctx, ".", prefix, after, visit)
}

func (b *file) list(ctx context.Context, dir, prefix, after string, visit func(Object) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := fs.ReadDir(b.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since its parent was read
	}
	if err != nil {
		return b.wrap(err, "reading the folder %s", dir)
	}
	name := func(e fs.DirEntry) string {
		n := path.Join(dir, e.Name())
		if e.IsDir() {
			n += "/"
		}
		return n
	}
	slices.SortFunc(entries, func(x, y fs.DirEntry) int { return strings.Compare(name(x), name(y)) })
	for _, e := range entries {
		n := name(e)
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			// Anything inside begins with n.
			if (strings.HasPrefix(n, prefix) || strings.HasPrefix(prefix, n)) && (n > after || strings.HasPrefix(after, n)) {
				if err := b.list(ctx, path.Join(dir, e.Name()), prefix, after, visit); err != nil {
					return err
				}
			}
		case strings.HasPrefix(n, prefix) && n > after:
			info, err := e.Info()
			if err != nil {
				continue // removed since the folder was read
			}
			if err := visit(Object{Name: n, Size: info.Size()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delete implements Bucket. Folders stay: one that is empty may be about to be
// written to.
func (b *file) Delete(ctx context.Context, name string) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	if err := errors.Join(b.writable(name), b.there()); err != nil {
		return err
	}
	if err := b.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b.wrap(err, "removing %s", name)
	}
	return nil
}

// String implements Bucket.
func (b *file) String() string { return b.text }

// Close implements Bucket.
func (b *file) Close() error { return b.root.Close() }
