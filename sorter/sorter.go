package sorter

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Config says how much a Sorter may hold, and where.
type Config struct {
	// MemoryQuota bounds what is held in memory, in bytes.
	MemoryQuota int64
	// Dir takes what memory has no room for. Everything in its folder "sorter" is
	// removed first. Without it the quota is passed where nothing can be freed.
	Dir string
	// DiskQuota bounds the files in Dir, in bytes.
	DiskQuota int64
	// Log gets what an operator may want to know; nil keeps it quiet.
	Log *slog.Logger
}

// Default is a Config without a place on disk.
func Default() Config {
	return Config{
		// Five eighths of the half gigabyte that a capture is given. The rest is for
		// what streams have received, transactions that are being put together, what
		// is read from disk, and the collector's work.
		MemoryQuota: 320 << 20,
		// A day of a changefeed that stands still at a megabyte a second.
		DiskQuota: 80 << 30,
	}
}

// Validate names the first key that cannot be used.
func (c *Config) Validate() error {
	switch {
	case c.MemoryQuota <= 0:
		return cdcerr.InvalidArgument.New("MemoryQuota %d: must be positive", c.MemoryQuota)
	case c.Dir != "" && c.DiskQuota <= 0:
		return cdcerr.InvalidArgument.New("DiskQuota %d: must be positive", c.DiskQuota)
	}
	return nil
}

// Sorter holds the rows of many spans for many readers.
type Sorter struct {
	quota int64
	disk  *disk // nil: there is none

	lent    atomic.Int64 // bytes of prewrites in memory, against the same quota
	holders atomic.Int64 // accounts that have some

	mu       sync.Mutex
	inputs   map[*Input]struct{} // open ones
	groups   map[*Group]struct{} // those with a reader that is open
	used     int64
	epoch    uint64 // of what comes in now
	filled   int64  // what has come in during the epoch, in bytes
	evicting bool
	freed    chan struct{} // closed when somebody who waits should look again; nil while nobody waits
}

// epochs is how many there are to a full quota: what is written to disk at once
// is one of them, large enough for a file and soon done.
const epochs = 16

// NewMemory makes a Sorter without a place on disk.
func NewMemory(quota int64) *Sorter {
	return &Sorter{quota: quota, inputs: make(map[*Input]struct{}), groups: make(map[*Group]struct{})}
}

// Open makes a Sorter. Its Dir is its own until Close.
func Open(cfg Config) (*Sorter, error) { return openOn(vfs.Default, cfg) }

func openOn(fs vfs.FS, cfg Config) (*Sorter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := NewMemory(cfg.MemoryQuota)
	if cfg.Dir == "" {
		return s, nil
	}
	var err error
	s.disk, err = openDisk(fs, cfg)
	return s, err
}

// Close removes what is on disk. All inputs and readers must be closed.
func (s *Sorter) Close() error {
	if s.disk == nil {
		return nil
	}
	return s.disk.close()
}

// Used is what is held, in bytes.
type Used struct {
	Memory int64 // by rows
	Lent   int64 // by prewrites
	Disk   int64
}

// Used is a snapshot.
func (s *Sorter) Used() Used {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := Used{Memory: s.used, Lent: s.lent.Load()}
	if s.disk != nil {
		u.Disk = s.disk.size()
	}
	return u
}

// NewInput begins one subscription to a span. Rows at or below from are nobody's
// and are dropped. One span may have several inputs: they know nothing of each other.
func (s *Sorter) NewInput(of span.Span, from tso.TS) *Input {
	in := &Input{sorter: s, span: of, from: from, resolved: from, floor: from}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inputs[in] = struct{}{}
	return in
}

// admit counts size bytes in, and says in which epoch. Over quota it makes room,
// or waits for it.
func (s *Sorter) admit(ctx context.Context, size int64) (epoch uint64, err error) {
	if size == 0 {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used > 0 && s.used+min(s.lent.Load(), s.quota-s.quota/rowsShare)+size > s.quota {
		more, err := s.makeRoomLocked(ctx)
		if err != nil {
			return 0, err
		}
		if !more {
			break
		}
	}
	s.used += size
	if s.filled += size; s.filled > s.quota/epochs {
		s.epoch++
		s.filled = 0
	}
	return s.epoch, nil
}

// rowsShare is the part of the quota that is left to rows however much is lent:
// with less they would go to disk by the handful, and wait for nothing that they
// can free.
const rowsShare = 4

// makeRoomLocked waits, or writes to disk; false when it can do neither.
//
// It waits while every group of readers has something to give up: then each is at
// work already, and nobody is kept from anything by the wait. As soon as one has
// not, only more input can help it on, so what is held must go to disk.
func (s *Sorter) makeRoomLocked(ctx context.Context) (bool, error) {
	all, some := s.canFreeLocked()
	if all || s.evicting {
		return true, s.waitLocked(ctx)
	}
	if s.disk == nil {
		return false, nil
	}
	done, err := s.evictLocked()
	if err != nil && some {
		s.disk.warn("rows stay in memory until a reader has freed some", err)
		return true, s.waitLocked(ctx)
	}
	return done, err
}

// canFreeLocked tells whether all groups can give up enough as things stand, and
// whether some can give up anything. Without any reader nobody can.
func (s *Sorter) canFreeLocked() (all, some bool) {
	all = true
	for g := range s.groups {
		if g.seats == 0 {
			continue
		}
		enough, any := g.canFreeLocked()
		all = all && enough
		some = some || any
	}
	return all && some, some
}

func (s *Sorter) waitLocked(ctx context.Context) error {
	if s.freed == nil {
		s.freed = make(chan struct{})
	}
	freed := s.freed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-freed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Sorter) wakeLocked() {
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}

// refund gives back what was counted and is not held.
func (s *Sorter) refund(size int64) {
	if size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= size
	s.wakeLocked()
}

// sweep removes the files that nobody needs any more.
func (s *Sorter) sweep() {
	if s.disk != nil {
		s.disk.sweep()
	}
}
