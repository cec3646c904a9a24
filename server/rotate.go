package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// rotateStamp is in the name of a file that is full, so that names sort by age.
const rotateStamp = "2006-01-02T15-04-05.000"

// rotating is a log file that is put aside when it is full: cdc.log becomes
// cdc-2026-01-02T15-04-05.000.log, and the oldest of these go.
type rotating struct {
	path    string
	max     int64 // bytes at which a file is full
	backups int   // how many full files are kept; 0: all
	age     time.Duration
	now     func() time.Time

	mu   sync.Mutex
	file *os.File // guarded by mu
	size int64    // guarded by mu
}

func openRotating(path string, cfg Log, now func() time.Time) (*rotating, error) {
	r := &rotating{path: path, max: int64(cfg.File.MaxSizeMB) << 20, backups: cfg.File.MaxBackups,
		age: time.Duration(cfg.File.MaxDays) * 24 * time.Hour, now: now}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r, r.openLocked()
}

func (r *rotating) openLocked() error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	at, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.file, r.size = f, at.Size()
	return nil
}

// Write is one line. A full file that cannot be put aside is written on: a log
// that is too long is better than none.
func (r *rotating) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size > 0 && r.size+int64(len(line)) > r.max {
		if err := r.rotateLocked(); err != nil {
			return 0, err
		}
	}
	n, err := r.file.Write(line)
	r.size += int64(n)
	return n, err
}

func (r *rotating) rotateLocked() error {
	full := r.name(r.now())
	if err := os.Rename(r.path, full); err != nil {
		r.size = 0 // asks again after as many bytes more
		return nil //nolint:nilerr // the file is written on, which loses nothing
	}
	err := r.file.Close()
	if again := r.openLocked(); again != nil {
		return errors.Join(err, again)
	}
	r.prune()
	return nil
}

// name is what the file is called that is full at now.
func (r *rotating) name(now time.Time) string {
	ext := filepath.Ext(r.path)
	return strings.TrimSuffix(r.path, ext) + "-" + now.Format(rotateStamp) + ext
}

// prune removes full files that are too many or too old. One that cannot be
// removed is tried again when the next file is full.
func (r *rotating) prune() {
	ext := filepath.Ext(r.path)
	stem := strings.TrimSuffix(filepath.Base(r.path), ext) + "-"
	entries, err := os.ReadDir(filepath.Dir(r.path))
	if err != nil {
		return
	}
	type old struct {
		name string
		at   time.Time
	}
	var full []old
	for _, e := range entries {
		stamp, ok := strings.CutPrefix(e.Name(), stem)
		at, err := time.ParseInLocation(rotateStamp, strings.TrimSuffix(stamp, ext), r.now().Location())
		if ok && err == nil {
			full = append(full, old{e.Name(), at})
		}
	}
	slices.SortFunc(full, func(a, b old) int { return b.at.Compare(a.at) })
	for i, f := range full {
		if r.backups > 0 && i >= r.backups || r.age > 0 && r.now().Sub(f.at) > r.age {
			_ = os.Remove(filepath.Join(filepath.Dir(r.path), f.name)) // tried again at the next rotation
		}
	}
}

// Close ends the file.
func (r *rotating) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}
