package redo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// Mark is what a meta is to say.
type Mark struct {
	Checkpoint tso.TS // everything at or below is downstream
	Resolved   tso.TS // everything at or below is on the storage: rows and DDLs
	// Extents are the files that hold what lies between. Those that were given once
	// are kept as long as they are needed: the files of a writer that is gone are not.
	Extents []record.Extent
}

// Meta is the owner's hand on a log's meta. Its calls come from one goroutine.
type Meta struct {
	cfg    Config
	id     ID
	bucket objstore.Bucket
	gate   *Gate

	stored record.Meta // on the storage
	number uint64      // the last that is taken there
	stale  []uint64    // metas of this writer that nobody needs any more
}

// OpenMeta takes the meta of a log over for the owner of this revision, or begins
// one that holds everything up to start for downstream. It is cdcerr.NotOwner where
// a later owner has been there. The place must have been claimed.
func OpenMeta(ctx context.Context, cfg Config, b objstore.Bucket, id ID, revision int64, start tso.TS) (*Meta, error) {
	if err := errors.Join(cfg.Validate(), id.Validate()); err != nil {
		return nil, err
	}
	m := &Meta{cfg: cfg, id: id, bucket: b, gate: NewGate(0)}
	var last *record.Meta
	err := cfg.retry(ctx, "reading the meta", func() (err error) {
		last, m.number, err = latest(ctx, b, id)
		return err
	})
	if err != nil && !cdcerr.RedoMetaNotFound.Is(err) {
		return nil, fmt.Errorf("redo log %v: %w", id, err)
	}
	m.stored = record.Meta{
		Version: record.Version, Cluster: id.Cluster, Servers: id.Servers, Namespace: id.Namespace, Changefeed: id.Changefeed, Incarnation: id.Incarnation,
		Owner: revision, Life: 1, Began: start, Checkpoint: start, Resolved: start,
	}
	if last != nil {
		if err := m.follow(last, revision); err != nil {
			return nil, err
		}
	} else if cfg.Ahead != nil {
		if m.stored.ExactFrom, err = cfg.Ahead(ctx); err != nil {
			return nil, fmt.Errorf("redo log %v: %w", id, err)
		}
	}
	if err := m.claim(ctx); err != nil {
		return nil, err
	}
	m.gate.Open(m.stored.Resolved)
	return m, nil
}

// claim puts the first meta of this writer, and looks that nothing is behind it.
//
// Without the look: the listing said that n is the last. Before this claim is put, an
// earlier owner puts n+1 and n+2, and removes n+1. The claim finds n+1 free, and would
// stop nobody: n+3, which the earlier owner puts next, is free too. So it is put again,
// behind what was found, until it is the last. From then on an earlier owner's last is
// before it, and the number after that one is taken: by this claim, or by another claim
// or a half meta in between, which are never removed.
func (m *Meta) claim(ctx context.Context) error {
	for {
		next := m.stored
		next.Claim = true
		if err := m.persist(ctx, next); err != nil {
			return err
		}
		var last *record.Meta
		var taken uint64
		err := m.cfg.retry(ctx, "reading the meta", func() (err error) {
			last, taken, err = latest(ctx, m.bucket, m.id)
			return err
		})
		if err != nil {
			return fmt.Errorf("redo log %v: %w", m.id, err)
		}
		if taken == m.number {
			return nil
		}
		m.number = taken
		if last.Number > m.stored.Number {
			if m.stored, err = m.meet(m.stored, last); err != nil {
				return err
			}
		}
	}
}

// follow makes this meta the next after one that is on the storage.
func (m *Meta) follow(last *record.Meta, revision int64) error {
	if last.Cluster != m.id.Cluster || last.Namespace != m.id.Namespace || last.Changefeed != m.id.Changefeed || last.Incarnation != m.id.Incarnation {
		return cdcerr.RedoForeign.New("redo log %v: the meta there is that of %s/%s (%s) of the cluster %d", m.id, last.Namespace, last.Changefeed, last.Incarnation, last.Cluster)
	}
	switch cmp.Compare(last.Owner, revision) {
	case +1:
		return cdcerr.NotOwner.New("redo log %v: revision %d has written its meta, this owner's is %d", m.id, last.Owner, revision)
	case 0:
		m.stored.Life = last.Life + 1
	}
	if start := m.stored.Checkpoint; last.Resolved < start {
		m.cfg.Log.Warn("redo log: the checkpoint is above the newest meta, so that the log was switched off meanwhile, or a newer meta was removed from the storage; the log goes on from the checkpoint",
			"log", m.id.String(), "meta", last.Number, "resolved", last.Resolved, "checkpoint", start)
	}
	m.stored = merged(m.stored, Mark{Checkpoint: last.Checkpoint, Resolved: last.Resolved, Extents: last.Writers})
	m.stored.Began, m.stored.ExactFrom = last.Began, last.ExactFrom
	return nil
}

// merged is a meta with what it says brought forward, never back.
func merged(m record.Meta, to Mark) record.Meta {
	m.Checkpoint = max(m.Checkpoint, to.Checkpoint)
	m.Resolved = max(m.Resolved, to.Resolved, m.Checkpoint)
	extents := map[string]record.Extent{}
	for _, e := range slices.Concat(m.Writers, to.Extents) {
		was := extents[e.Writer]
		e.Files, e.Max = max(e.Files, was.Files), max(e.Max, was.Max)
		extents[e.Writer] = e
	}
	m.Writers = nil
	for _, e := range extents {
		if e.Files > 0 && e.Max > m.Checkpoint {
			m.Writers = append(m.Writers, e)
		}
	}
	slices.SortFunc(m.Writers, record.CompareExtents)
	return m
}

// Stored is the meta that is on the storage.
func (m *Meta) Stored() record.Meta { return m.stored }

// Gate is open up to the stored resolved-ts.
func (m *Meta) Gate() *Gate { return m.gate }

// Advance puts a meta that is not behind the last and not behind the mark, and then
// opens the gate. It does nothing where nothing moves.
func (m *Meta) Advance(ctx context.Context, to Mark) error {
	if err := m.advance(ctx, to); err != nil {
		return err
	}
	if m.stale = m.clean(ctx, m.stale); len(m.stale) > 0 {
		return ctx.Err()
	}
	return nil
}

// advance is Advance, but that the metas behind the last stay, in m.stale.
func (m *Meta) advance(ctx context.Context, to Mark) error {
	next := merged(m.stored, to)
	if next.Checkpoint == m.stored.Checkpoint && next.Resolved == m.stored.Resolved {
		return nil
	}
	next.Claim = false
	if err := m.persist(ctx, next); err != nil {
		return err
	}
	m.gate.Open(m.stored.Resolved)
	return nil
}

// persist puts a meta under the next number that is free.
//
// Number n+1 is taken, and the last valid meta is that of
//   - a later writer: this one is no owner any more. That it finds n+1 taken, however
//     late it comes, is because the first meta of each writer is never removed, and
//     the later writer's first was put at n+1 if this one's last is n.
//   - an earlier writer, who is not told yet: it may have opened its gate. What it
//     says is taken over, and the next number tried. When it comes to this one's
//     number it is told.
//   - this writer itself: n+1 is half a meta, which a storage that breaks its promise
//     left behind, and which opened no gate. The next number is tried.
func (m *Meta) persist(ctx context.Context, next record.Meta) error {
	for {
		next.Number = m.number + 1
		name := m.id.dir() + record.MetaName(next.Number)
		text, err := next.Encode()
		if err != nil {
			return err
		}
		err = m.cfg.retry(ctx, "writing the meta", func() error { return objstore.PutOnce(ctx, m.bucket, name, text) })
		if err == nil {
			break
		}
		if !cdcerr.ObjectExists.Is(err) {
			return fmt.Errorf("redo log %v: %w", m.id, err)
		}
		var last *record.Meta
		err = m.cfg.retry(ctx, "reading the meta", func() (err error) {
			last, m.number, err = latest(ctx, m.bucket, m.id)
			return err
		})
		switch {
		case cdcerr.RedoMetaNotFound.Is(err): // halves only
		case err != nil:
			return fmt.Errorf("redo log %v: %w", m.id, err)
		default:
			if next, err = m.meet(next, last); err != nil {
				return err
			}
		}
	}
	if last := m.stored; last.Number != 0 && !last.Claim {
		m.stale = append(m.stale, last.Number)
	}
	m.number = next.Number
	m.stored = next
	return nil
}

// meet is what a meta becomes that finds another one in its place.
func (m *Meta) meet(next record.Meta, last *record.Meta) (record.Meta, error) {
	order := last.CompareWriters(&next)
	switch {
	case next.Claim && last.Owner == next.Owner:
		next.Life = last.Life + 1 // two lives began at once: one has to be the later
	case order > 0:
		return next, cdcerr.NotOwner.New("redo log %v: the owner of revision %d (life %d) has written its meta %d, this one is %d (life %d)",
			m.id, last.Owner, last.Life, last.Number, next.Owner, next.Life)
	}
	claim := next.Claim
	next = merged(next, Mark{Checkpoint: last.Checkpoint, Resolved: last.Resolved, Extents: last.Writers})
	next.Claim, next.ExactFrom = claim, last.ExactFrom
	return next, nil
}

// clean removes metas that are behind the last, and tells which are left: they are
// tried again with the next, and harm nobody.
func (m *Meta) clean(ctx context.Context, stale []uint64) []uint64 {
	gone := make([]bool, len(stale))
	var g errgroup.Group
	g.SetLimit(removers)
	for i, number := range stale {
		g.Go(func() error {
			err := m.bucket.Delete(ctx, m.id.dir()+record.MetaName(number))
			gone[i] = err == nil
			return err
		})
	}
	if err := g.Wait(); err != nil {
		m.cfg.Log.Debug("redo log: old metas stay for now", "log", m.id.String(), "error", err)
	}
	var left []uint64
	for i, number := range stale {
		if !gone[i] {
			left = append(left, number)
		}
	}
	return left[max(0, len(left)-staleMax):]
}

// staleMax bounds what a storage that refuses to remove makes us remember.
const staleMax = 1024

// readMeta reads one by its number.
func readMeta(ctx context.Context, b objstore.Bucket, id ID, number uint64) (*record.Meta, error) {
	name := id.dir() + record.MetaName(number)
	text, err := b.Get(ctx, name, 0, objstore.ToEnd)
	if err != nil {
		return nil, err
	}
	m, err := record.ParseMeta(name, text)
	if err == nil && m.Number != number {
		return nil, cdcerr.RedoCorrupted.New("%s says that it is number %d", name, m.Number)
	}
	return m, err
}

// LastMeta is what the meta of a log says that somebody may be writing.
func LastMeta(ctx context.Context, b objstore.Bucket, id ID) (*record.Meta, error) {
	m, _, err := latest(ctx, b, id)
	return m, err
}

// latest is the meta with the largest number that is not torn, and the largest number
// that is taken. One that is whole and not what was written may have opened a gate: no
// older one may stand for it.
//
// A listing may miss what comes and goes while it is made, and a meta that is gone when it
// is read has a successor: then another listing tells. Claims are never removed, so that
// one at the end of a listing may be all that was not missed.
func latest(ctx context.Context, b objstore.Bucket, id ID) (*record.Meta, uint64, error) {
	for gone, again := uint64(0), false; ; again = true {
		m, taken, lost, err := newest(ctx, b, id)
		switch {
		case err != nil:
			return nil, taken, err
		case lost > gone:
			gone = lost
		case m == nil:
			return nil, taken, cdcerr.RedoMetaNotFound.New("%s holds no meta of %v", b, id)
		case taken == m.Number && !m.Claim || again:
			return m, taken, nil
		}
	}
}

// newest is the last meta of one listing, nil where there is none, and the largest number
// that is gone since. Metas are numbered one after the other, and one goes once a later one
// is durable: so behind a hole there was one, and what is there now was cut short.
func newest(ctx context.Context, b objstore.Bucket, id ID) (m *record.Meta, taken, gone uint64, err error) {
	objects, err := objstore.All(ctx, b, id.dir()+"meta/", "")
	if err != nil {
		return nil, 0, 0, err
	}
	behind := uint64(0) // the one that was looked at before
	for _, o := range slices.Backward(objects) {
		number, err := record.ParseMetaName(o.Name[len(id.dir()):])
		if err != nil {
			continue // somebody's copy, or what a tool has left
		}
		taken = max(taken, number)
		m, err := readMeta(ctx, b, id, number)
		switch {
		case err == nil && behind > number+1 && gone == 0:
			return nil, taken, 0, cdcerr.RedoCorrupted.New("the metas of %v from %d to %d, without which nobody knows what is downstream: those before the last were removed, which is done once it is whole, and it ends too soon", id, number+1, taken)
		case err == nil:
			return m, taken, gone, nil
		case cdcerr.ObjectNotFound.Is(err):
			gone = max(gone, number)
		case !cdcerr.RedoTorn.Is(err): // a torn one has opened no gate
			return nil, taken, 0, fmt.Errorf("the newest meta, without which nobody knows what is downstream: %w", err)
		}
		behind = number
	}
	return nil, taken, gone, nil
}

// Collect removes the files that nobody needs, and tells how many. What it cannot
// remove it tries at the next call.
func (m *Meta) Collect(ctx context.Context) (removed int, err error) {
	return collect(ctx, m.bucket, m.id, m.stored.Checkpoint)
}

// Keeper persists marks as they come: at most every MetaEvery, and never more than
// one at a time, so that what comes meanwhile becomes one meta. What nobody needs any
// more it removes beside that: a meta, for which sinks wait, waits for none of it.
type Keeper struct {
	meta *Meta
	wake chan struct{} // holds one token
	past chan struct{} // holds one token: there is something in stale

	mu         sync.Mutex
	mark       Mark     // guarded by mu, as all below: the newest
	stale      []uint64 // metas that nobody needs
	checkpoint tso.TS   // of the meta that is on the storage
}

// NewKeeper keeps a meta.
func NewKeeper(m *Meta) *Keeper {
	return &Keeper{meta: m, wake: make(chan struct{}, 1), past: make(chan struct{}, 1)}
}

// Advance says what the meta should say; it does not wait for it.
func (k *Keeper) Advance(to Mark) {
	k.mu.Lock()
	k.mark.Checkpoint = max(k.mark.Checkpoint, to.Checkpoint)
	k.mark.Resolved = max(k.mark.Resolved, to.Resolved)
	// A writer that is not named any more may be gone; its files are needed as before.
	for _, e := range to.Extents {
		i := slices.IndexFunc(k.mark.Extents, func(had record.Extent) bool { return had.Writer == e.Writer })
		if i < 0 {
			k.mark.Extents = append(k.mark.Extents, e)
			continue
		}
		had := &k.mark.Extents[i]
		had.Files, had.Max = max(had.Files, e.Files), max(had.Max, e.Max)
	}
	k.mu.Unlock()
	wake(k.wake)
}

// Run persists until ctx ends, or another owner has.
func (k *Keeper) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return k.persist(ctx) })
	g.Go(func() error { return k.clean(ctx) })
	g.Go(func() error { return k.collect(ctx) })
	return g.Wait()
}

func (k *Keeper) persist(ctx context.Context) error {
	for {
		select {
		case <-k.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		k.mu.Lock()
		to := k.mark
		k.mark.Extents = slices.DeleteFunc(slices.Clone(k.mark.Extents), func(e record.Extent) bool { return e.Max <= to.Checkpoint })
		k.mu.Unlock()
		if err := k.meta.advance(ctx, to); err != nil {
			return err
		}
		k.mu.Lock()
		k.checkpoint = k.meta.stored.Checkpoint
		k.stale = append(k.stale, k.meta.stale...)
		k.stale = k.stale[max(0, len(k.stale)-staleMax):]
		k.mu.Unlock()
		k.meta.stale = nil
		wake(k.past)
		if err := sleep(ctx, k.meta.cfg.MetaEvery); err != nil {
			return err
		}
	}
}

// clean removes the metas behind the last.
func (k *Keeper) clean(ctx context.Context) error {
	for {
		select {
		case <-k.past:
		case <-ctx.Done():
			return ctx.Err()
		}
		k.mu.Lock()
		stale := k.stale
		k.stale = nil
		k.mu.Unlock()
		left := k.meta.clean(ctx, stale)
		k.mu.Lock()
		k.stale = append(left, k.stale...)
		k.mu.Unlock()
	}
}

// collect removes files.
func (k *Keeper) collect(ctx context.Context) error {
	var collected tso.TS
	for {
		if err := sleep(ctx, max(k.meta.cfg.CollectEvery, k.meta.cfg.MetaEvery)); err != nil {
			return err
		}
		k.mu.Lock()
		checkpoint := k.checkpoint
		k.mu.Unlock()
		if checkpoint <= collected {
			continue
		}
		n, err := collect(ctx, k.meta.bucket, k.meta.id, checkpoint)
		if err == nil {
			collected = checkpoint
		} else if ctx.Err() == nil {
			k.meta.cfg.Log.Warn("redo log: files that nobody needs could not be removed; it is tried again", "log", k.meta.id.String(), "removed", n, "error", err)
		}
	}
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
