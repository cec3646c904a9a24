package sorter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/sorter/sortertest"
	"github.com/sluice-cdc/sluice/tso"
)

// small is a sorter with room for a few rows in memory.
func small(t *rapid.T, fs vfs.FS) (*sorter.Sorter, int64) {
	quota := int64(rapid.IntRange(1, 20_000).Draw(t, "quota"))
	s, err := sorter.OpenOn(fs, sorter.Config{MemoryQuota: quota, Dir: "/data", DiskQuota: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, quota
}

func TestDiskAgainstTwin(t *testing.T) {
	sortertest.Run(t, func(t *rapid.T) sortertest.World {
		s, quota := small(t, vfs.NewMem())
		return sortertest.World{Sorter: s, Memory: quota}
	})
}

// Any operation on a file may fail, the device may be full, and what is read may
// be damaged: then there is an error, and never a wrong row.
func TestFaultsAgainstTwin(t *testing.T) {
	sortertest.Run(t, func(t *rapid.T) sortertest.World {
		f := &faults{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), one: rapid.IntRange(1, 60).Draw(t, "one in")}
		s, quota := small(t, errorfs.Wrap(rotten{vfs.NewMem(), f}, f))
		return sortertest.World{Sorter: s, Memory: quota, Faulty: true}
	})
}

// faults fails one in so many operations on tables.
type faults struct {
	rng *rand.Rand
	one int
}

func (f *faults) String() string { return "at random" }

func (f *faults) MaybeError(op errorfs.Op) error {
	switch {
	case !strings.HasSuffix(op.Path, ".sst") || f.rng.IntN(f.one) > 0:
		return nil
	case op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate:
		return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
	}
	return errorfs.ErrInjected
}

// rotten damages one in so many pieces that are read.
type rotten struct {
	vfs.FS
	*faults
}

func (r rotten) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := r.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return rottenFile{f, r.faults}, nil
}

type rottenFile struct {
	vfs.File
	*faults
}

func (r rottenFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.File.ReadAt(p, off)
	if n > 0 && r.rng.IntN(r.one) == 0 {
		p[r.rng.IntN(n)] ^= 1 << r.rng.IntN(8)
	}
	return n, err
}

// open makes a sorter in a directory that has room for ten rows of 1 kB in memory.
func openAt(t *testing.T, dir string, diskQuota int64) *sorter.Sorter {
	t.Helper()
	s, err := sorter.Open(sorter.Config{MemoryQuota: 20_000, Dir: dir, DiskQuota: diskQuota})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// A span that stands still behind others: what is ahead goes to disk, and memory
// never holds more than its quota and what has just come.
func TestStuckSpanDoesNotFillMemory(t *testing.T) {
	s := openAt(t, t.TempDir(), 1<<30)
	stuck, ahead := newInput(s, 1, 100), newInput(s, 2, 100)
	r := read(t, s, stuck, ahead)
	r.Readable(tso.Max)
	const n = 500
	for i := range tso.TS(n) {
		must(t, ahead.Add(context.Background(), rows(101+i, 1), 101+i))
		if used := s.Used(); used.Memory > 20_000+2_000 {
			t.Fatalf("%+v in use after %d rows", used, i)
		}
	}
	if s.Used().Disk == 0 {
		t.Fatal("nothing is on disk")
	}
	must(t, stuck.Add(context.Background(), rowsOf(2, 101, n), 100+n))
	if got := count(t, r, 100, 100+n); got != 2*n {
		t.Fatalf("%d rows", got)
	}
	r.Forget(100 + n)
	if s.Used() != (sorter.Used{}) {
		t.Fatalf("%+v is left", s.Used())
	}
}

// What only a slow reader still needs goes to disk; the fast one's does not have to.
func TestSlowReaderIsServedFromDisk(t *testing.T) {
	s := openAt(t, t.TempDir(), 1<<30)
	in := newInput(s, 1, 100)
	fast, slow := read(t, s, in), read(t, s, in)
	for i := range tso.TS(200) {
		must(t, in.Add(context.Background(), rows(101+i, 1), 101+i))
		fast.Readable(101 + i)
		slow.Readable(100 + i/10)
		if got := count(t, fast, 100+i, 101+i); got != 1 {
			t.Fatalf("%d rows at %d", got, 101+i)
		}
		fast.Forget(101 + i)
		if i%10 == 9 {
			slow.Forget(100 + i/10)
		}
	}
	if s.Used().Disk == 0 {
		t.Fatal("nothing is on disk")
	}
	if got := count(t, slow, 119, 300); got != 181 {
		t.Fatalf("%d rows", got)
	}
}

func TestDiskQuota(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, 30_000)
	stuck, ahead := newInput(s, 1, 100), newInput(s, 2, 100)
	r := read(t, s, stuck, ahead)
	var err error
	for i := tso.TS(0); err == nil; i++ {
		if i == 1000 {
			t.Fatalf("%+v in use", s.Used())
		}
		err = ahead.Add(context.Background(), noise(101+i), 101+i)
	}
	if !cdcerr.DiskFull.Is(err) || cdcerr.Fate(err) != cdcerr.Retry {
		t.Fatal(err)
	}
	for _, want := range []string{filepath.Join(dir, "sorter"), "of at most 30000", "bytes free"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if s.Used().Disk > 30_000 {
		t.Fatalf("%+v in use", s.Used())
	}
	r.Close()
	ahead.Close()
	stuck.Close()
	if s.Used() != (sorter.Used{}) {
		t.Fatalf("%+v is left", s.Used())
	}
}

// noise is one row of 1 kB that cannot be compressed.
func noise(commit tso.TS) []event.RawKV {
	rng := rand.New(rand.NewPCG(uint64(commit), 0))
	out := rows(commit, 1)
	for i := range out[0].Value {
		out[0].Value[i] = byte(rng.Uint32())
	}
	return out
}

// A table that is gone, or shorter than it was, is an error to be retried.
func TestDamagedTables(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"missing":   os.Remove,
		"truncated": func(path string) error { return os.Truncate(path, 100) },
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"other":     func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 4096)), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openAt(t, dir, 1<<30)
			in := newInput(s, 1, 100)
			r := read(t, s, in)
			for i := range tso.TS(100) {
				must(t, in.Add(context.Background(), noise(101+i), 101+i))
			}
			tables, err := filepath.Glob(filepath.Join(dir, "sorter", "*.sst"))
			must(t, err)
			if len(tables) == 0 {
				t.Fatal("nothing is on disk")
			}
			must(t, damage(tables[0]))
			it, err := r.Fetch(100, 200)
			must(t, err)
			_, err = it.Next(make([]*event.RawKV, 1000))
			it.Close()
			if !cdcerr.SorterIO.Is(err) || cdcerr.Fate(err) != cdcerr.Retry || !strings.Contains(err.Error(), tables[0]) {
				t.Fatal(err)
			}
			r.Close()
			in.Close()
			if s.Used() != (sorter.Used{}) {
				t.Fatalf("%+v is left", s.Used())
			}
		})
	}
}

// The directory is one process's at a time, and what a dead one left goes.
func TestDataDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	left := filepath.Join(dir, "sorter", "00000001.sst")
	must(t, os.MkdirAll(filepath.Dir(left), 0o755))
	must(t, os.WriteFile(left, []byte("left"), 0o600))
	cfg := sorter.Config{MemoryQuota: 1, Dir: dir, DiskQuota: 1}
	s, err := sorter.Open(cfg)
	must(t, err)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("what was left is there: %v", err)
	}
	if _, err := sorter.Open(cfg); !cdcerr.DataDirInUse.Is(err) || !strings.Contains(err.Error(), dir) {
		t.Fatal(err)
	}
	must(t, s.Close())
	s, err = sorter.Open(cfg)
	must(t, err)
	must(t, s.Close())

	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := sorter.Open(sorter.Config{MemoryQuota: 1, Dir: file, DiskQuota: 1}); !cdcerr.SorterIO.Is(err) {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	good := sorter.Default()
	must(t, good.Validate())
	for i, change := range []func(*sorter.Config){
		func(c *sorter.Config) { c.MemoryQuota = 0 },
		func(c *sorter.Config) { c.Dir, c.DiskQuota = "x", 0 },
	} {
		bad := good
		change(&bad)
		if _, err := sorter.Open(bad); !cdcerr.InvalidArgument.Is(err) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// Where the disk refuses, memory has to wait for a reader, if one has work left.
func TestDiskThatRefuses(t *testing.T) {
	refuse := true
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if refuse && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return syscall.EIO
		}
		return nil
	}))
	s, err := sorter.OpenOn(fs, sorter.Config{MemoryQuota: 20_000, Dir: "/data", DiskQuota: 1 << 30})
	must(t, err)
	in := newInput(s, 1, 100)
	busy, idle := read(t, s, in), read(t, s, in)
	must(t, in.Add(context.Background(), rows(101, 16), 116))
	busy.Readable(116)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := fmt.Errorf("told to stop")
	cancel(why)
	if err := in.Add(ctx, rows(117, 1), 117); !errors.Is(err, why) {
		t.Fatalf("a reader can free something, yet Add did not wait: %v", err)
	}
	busy.Forget(116)
	if err := in.Add(ctx, rows(117, 1), 117); !cdcerr.SorterIO.Is(err) {
		t.Fatalf("nobody can free anything: %v", err)
	}
	refuse = false
	must(t, in.Add(context.Background(), rows(117, 1), 117))
	if got := count(t, idle, 100, 117); got != 17 {
		t.Fatalf("%d rows", got)
	}
}
