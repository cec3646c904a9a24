package redo

import (
	"context"
	"sync"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// Lead is an owner's hand on a log: its meta, and the DDLs, which the owner puts there.
type Lead struct {
	meta   *Meta
	keeper *Keeper
	ddls   *DDLWriter

	exactFrom tso.TS

	mu     sync.Mutex
	extent record.Extent // of ddls; guarded by mu
}

// TakeOver claims the place and the log's meta for an owner of this revision. A log of
// which nothing is there yet begins at the checkpoint.
func TakeOver(ctx context.Context, cfg Config, b objstore.Bucket, id ID, revision int64, checkpoint tso.TS) (*Lead, error) {
	if err := Claim(ctx, cfg, b, id); err != nil {
		return nil, err
	}
	meta, err := OpenMeta(ctx, cfg, b, id, revision, checkpoint)
	if err != nil {
		return nil, err
	}
	ddls, err := NewDDLWriter(cfg, b, id)
	if err != nil {
		return nil, err
	}
	return &Lead{meta: meta, keeper: NewKeeper(meta), ddls: ddls, exactFrom: meta.stored.ExactFrom}, nil
}

// DDLs returns when the DDLs are on the storage.
func (l *Lead) DDLs(ctx context.Context, ddls ...*event.DDL) error {
	if err := l.ddls.Write(ctx, ddls...); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extent = l.ddls.Extent()
	return nil
}

// Advance says what the meta may say: everything at or below resolved is in files of
// these extents, as captures tell them, of earlier ones, or of the DDLs. It does not wait.
func (l *Lead) Advance(checkpoint, resolved tso.TS, extents [][]byte) error {
	m := Mark{Checkpoint: checkpoint, Resolved: resolved}
	for _, text := range extents {
		all, err := record.ParseExtents(text)
		if err != nil {
			return err
		}
		m.Extents = append(m.Extents, all...)
	}
	l.mu.Lock()
	if l.extent.Files > 0 {
		m.Extents = append(m.Extents, l.extent)
	}
	l.mu.Unlock()
	l.keeper.Advance(m)
	return nil
}

// Exact tells whether the log makes a snapshot by itself: not before its meta has passed
// what the downstream may have held when it began.
func (l *Lead) Exact() bool { return l.Limit() >= l.exactFrom }

// Limit is what the meta on the storage says.
func (l *Lead) Limit() tso.TS { return l.meta.Gate().Limit() }

// Moved gets a token when Limit has risen.
func (l *Lead) Moved() <-chan struct{} { return l.meta.Gate().Moved() }

// Run puts metas until ctx ends, or a later owner has.
func (l *Lead) Run(ctx context.Context) error { return l.keeper.Run(ctx) }
