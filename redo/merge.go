package redo

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// MergeConfig is how a log is read.
type MergeConfig struct {
	// From and To bound what is given out: commit-ts in (From, To].
	From, To tso.TS
	// AheadBytes is how much is fetched ahead, as it lies on the storage.
	AheadBytes int64
	// Fetchers fetch at the same time.
	Fetchers int
	// Done is told of each file that has been read to its end.
	Done func(LogFile)
}

// DefaultMerge reads what the meta says is to be applied.
func DefaultMerge(inv *Inventory) MergeConfig {
	return MergeConfig{From: inv.Meta.Checkpoint, To: inv.Meta.Resolved, AheadBytes: 256 << 20, Fetchers: 8, Done: func(LogFile) {}}
}

// Merge gives out the changes and DDLs of a log, each once, in the order in which
// they are to be applied: by commit-ts, changes before DDLs of the same, changes by
// start-ts and key, DDLs by job. An entry, and what it points to, stays as it is.
//
// The files of a run follow one another, so that of each run one file is held, and
// AheadBytes of what comes next.
func Merge(ctx context.Context, b objstore.Bucket, inv *Inventory, cfg MergeConfig, emit func(record.Entry) error) error {
	files := slices.DeleteFunc(slices.Clone(inv.Files), func(f LogFile) bool { return f.Max <= cfg.From || f.Min > cfg.To })
	slices.SortStableFunc(files, func(a, b LogFile) int { return cmp.Compare(a.Min, b.Min) })
	f := newFetcher(b, files, cfg.AheadBytes)
	g, ctx := errgroup.WithContext(ctx)
	for range max(1, cfg.Fetchers) {
		g.Go(func() error { return f.ahead(ctx) })
	}
	g.Go(func() error {
		defer f.stop()
		return merge(ctx, f, inv, files, cfg, emit)
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("redo log %v: %w", inv.ID, err)
	}
	return nil
}

func merge(ctx context.Context, f *fetcher, inv *Inventory, files []LogFile, cfg MergeConfig, emit func(record.Entry) error) error {
	h := runsOf(files)
	heap.Init(&h)
	var last record.Entry
	for len(h) > 0 {
		r := h[0]
		if !r.opened() {
			if err := r.open(ctx, f, inv.ID); err != nil {
				return err
			}
		} else {
			e := r.entry
			if e.TS() > cfg.To {
				return nil
			}
			if e.TS() > cfg.From && !sameEntry(&e, &last) {
				if err := emit(e); err != nil {
					return err
				}
				last = e
			}
			if err := r.next(); err != nil {
				return err
			}
		}
		if err := r.settle(f, cfg.Done); err != nil {
			return err
		}
		if r.empty() {
			heap.Pop(&h)
			continue
		}
		heap.Fix(&h, 0)
	}
	return nil
}

// sameEntry tells whether two are one, written twice.
func sameEntry(a, b *record.Entry) bool {
	switch {
	case a.DDL != nil && b.DDL != nil:
		return a.DDL.SwitchTS == b.DDL.SwitchTS && a.DDL.JobID == b.DDL.JobID
	case a.Raw != nil && b.Raw != nil:
		return a.Raw.CommitTS == b.Raw.CommitTS && a.Raw.StartTS == b.Raw.StartTS && bytes.Equal(a.Raw.Key, b.Raw.Key)
	}
	return false
}

// run is the files of one run, of which the first may be open.
type run struct {
	files  []LogFile
	file   *record.File
	entry  record.Entry // the next of it
	done   bool         // there is none
	unpack *record.Unpacker
}

func runsOf(files []LogFile) runs {
	type id struct {
		writer string
		kind   record.Kind
		run    uint64
	}
	at := map[id]*run{}
	var out runs
	for _, f := range files {
		k := id{f.Writer, f.Kind, f.Run}
		if at[k] == nil {
			at[k] = &run{}
			out = append(out, at[k])
		}
		at[k].files = append(at[k].files, f)
	}
	for _, r := range out {
		slices.SortFunc(r.files, func(a, b LogFile) int { return cmp.Compare(a.Number, b.Number) })
	}
	return out
}

func (r *run) opened() bool { return r.file != nil }
func (r *run) empty() bool  { return r.file == nil && len(r.files) == 0 }

// open fetches the first file and reads to its first entry.
func (r *run) open(ctx context.Context, f *fetcher, id ID) (err error) {
	if r.unpack == nil {
		if r.unpack, err = record.NewUnpacker(); err != nil {
			return err
		}
	}
	name := r.files[0]
	data, err := f.get(ctx, name)
	if err != nil {
		return err
	}
	if r.file, err = record.Open(name.Path, data, r.unpack); err != nil {
		return r.explain(err)
	}
	if err := checkHead(name, r.file.Head, id); err != nil {
		return err
	}
	return r.next()
}

// checkHead refuses a file that is not what its name says.
func checkHead(f LogFile, h record.Head, id ID) error {
	if h.Cluster != id.Cluster || h.Namespace != id.Namespace || h.Changefeed != id.Changefeed || h.Incarnation != id.Incarnation ||
		h.Kind != f.Kind || h.Writer != f.Writer || h.Run != f.Run || h.Number != f.Number {
		return cdcerr.RedoCorrupted.New("%s: it says of itself %+v", f.Path, h)
	}
	return nil
}

// explain says what a damaged file may be about.
func (r *run) explain(err error) error {
	f := r.files[0]
	return fmt.Errorf("commit-ts %d to %d are in it: %w", f.Min, f.Max, err)
}

// next reads on in the open file.
func (r *run) next() error {
	e, err := r.file.Next()
	switch {
	case errors.Is(err, io.EOF):
		r.done = true
		return nil
	case err != nil:
		return r.explain(err)
	}
	if f := r.files[0]; e.TS() < f.Min || e.TS() > f.Max {
		return cdcerr.RedoCorrupted.New("%s: a commit-ts of %d is not in its name", f.Path, e.TS())
	}
	if r.entry.Raw != nil && e.Raw != nil && e.Raw.Less(r.entry.Raw) {
		return cdcerr.RedoCorrupted.New("%s: commit-ts %d, start-ts %d after %d, %d: out of order", r.files[0].Path,
			e.Raw.CommitTS, e.Raw.StartTS, r.entry.Raw.CommitTS, r.entry.Raw.StartTS)
	}
	r.entry = e
	return nil
}

// settle closes a file that has been read to its end.
func (r *run) settle(f *fetcher, done func(LogFile)) error {
	if r.file == nil || !r.done {
		return nil
	}
	f.release(r.files[0])
	done(r.files[0])
	r.files, r.file, r.done = r.files[1:], nil, false
	return nil
}

// least is where the run goes on: its entry, or the least that may be in its next file.
func (r *run) compare(o *run) int {
	ts := func(r *run) tso.TS {
		if r.opened() {
			return r.entry.TS()
		}
		return r.files[0].Min
	}
	// A file that is not open may hold anything of its least timestamp: it is opened
	// before anything of that is given out.
	rank := func(r *run) int {
		switch {
		case !r.opened():
			return 0
		case r.entry.DDL == nil:
			return 1
		}
		return 2
	}
	if c := cmp.Or(cmp.Compare(ts(r), ts(o)), cmp.Compare(rank(r), rank(o))); c != 0 || !r.opened() {
		return c
	}
	if a, b := r.entry.DDL, o.entry.DDL; a != nil {
		return cmp.Compare(a.JobID, b.JobID)
	}
	a, b := r.entry.Raw, o.entry.Raw
	return cmp.Or(cmp.Compare(a.StartTS, b.StartTS), bytes.Compare(a.Key, b.Key))
}

// runs is a heap.
type runs []*run

func (h runs) Len() int           { return len(h) }
func (h runs) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h runs) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runs) Push(any)          {} // nothing is ever pushed
func (h *runs) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// fetcher fetches files ahead of their use, in the order in which that is likely.
type fetcher struct {
	bucket objstore.Bucket
	budget int64
	room   chan struct{} // holds one token

	mu      sync.Mutex
	waiting []LogFile           // not begun
	begun   map[string]*fetched // by path
	used    int64
	stopped bool
}

// fetched is a file that is being fetched, or is there.
type fetched struct {
	ready chan struct{} // closed: data or err is there
	data  []byte
	err   error
}

func newFetcher(b objstore.Bucket, files []LogFile, budget int64) *fetcher {
	return &fetcher{bucket: b, budget: budget, room: make(chan struct{}, 1), waiting: slices.Clone(files), begun: map[string]*fetched{}}
}

// begin takes the named file, or the next where none is named, to be fetched.
func (f *fetcher) begin(path string) (LogFile, *fetched, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := 0
	if path != "" {
		i = slices.IndexFunc(f.waiting, func(w LogFile) bool { return w.Path == path })
	} else if f.stopped || len(f.waiting) > 0 && f.used+f.waiting[0].Size > f.budget && f.used > 0 {
		return LogFile{}, nil, !f.stopped
	}
	if i < 0 || i >= len(f.waiting) {
		return LogFile{}, nil, false
	}
	file := f.waiting[i]
	f.waiting = slices.Delete(f.waiting, i, i+1)
	f.used += file.Size
	f.begun[file.Path] = &fetched{ready: make(chan struct{})}
	return file, f.begun[file.Path], true
}

// ahead fetches while there is room and something to fetch.
func (f *fetcher) ahead(ctx context.Context) error {
	for {
		file, got, more := f.begin("")
		if !more {
			wake(f.room) // the others end too
			return nil
		}
		if got != nil {
			wake(f.room) // there may be room for another one
			f.fetch(ctx, file, got)
			continue
		}
		select {
		case <-f.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fetcher) fetch(ctx context.Context, file LogFile, into *fetched) {
	into.data, into.err = f.bucket.Get(ctx, file.Path, 0, objstore.ToEnd)
	if cdcerr.ObjectNotFound.Is(into.err) {
		into.err = cdcerr.RedoGap.New("%s is gone since it was listed; commit-ts %d to %d were in it", file.Path, file.Min, file.Max)
	}
	close(into.ready)
}

// get is a file's bytes. One that nobody has begun to fetch is fetched at once,
// room or not: everything else waits for it.
func (f *fetcher) get(ctx context.Context, file LogFile) ([]byte, error) {
	f.mu.Lock()
	got := f.begun[file.Path]
	f.mu.Unlock()
	if got == nil {
		if _, mine, ok := f.begin(file.Path); ok {
			f.fetch(ctx, file, mine)
			got = mine
		} else {
			f.mu.Lock()
			got = f.begun[file.Path]
			f.mu.Unlock()
		}
	}
	select {
	case <-got.ready:
		return got.data, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// release gives a file's room back.
func (f *fetcher) release(file LogFile) {
	f.mu.Lock()
	f.used -= file.Size
	delete(f.begun, file.Path)
	f.mu.Unlock()
	wake(f.room)
}

// stop ends what fetches ahead.
func (f *fetcher) stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	wake(f.room)
}

// tables are the names of the tables that can be read of a damaged file.
func tables(data []byte, u *record.Unpacker) []string {
	seen := map[string]bool{}
	f, err := record.Open("", data, u)
	for err == nil {
		var e record.Entry
		if e, err = f.Next(); err == nil && e.Table != nil {
			seen[e.Table.FullName()] = true
		}
	}
	var out []string
	for name := range seen {
		out = append(out, name)
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
