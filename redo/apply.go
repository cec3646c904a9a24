package redo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// ApplyConfig is how a log is applied.
type ApplyConfig struct {
	Merge MergeConfig
	// BatchRows and BatchBytes end a batch at the next transaction.
	BatchRows  int
	BatchBytes int64
	// TxnBytes is the largest transaction that is held whole. A larger one goes to the
	// sink in pieces, and is read three times.
	TxnBytes int64
	// Part is what of the log is wanted; the zero Part is all of it.
	Part Part
	// Force goes on where the downstream or the storage tells that what comes of it is no
	// snapshot.
	Force bool
	// Progress is told now and then how far it is.
	Progress func(Progress)
}

// Progress is how much of a log is downstream, durably.
type Progress struct {
	TS         tso.TS // everything up to here
	Bytes, All int64  // of the log's files those that are, and of all
}

// Part leaves tables of a log out.
type Part struct {
	Name string // what leaves them out, in words; empty: nothing does
	Rows func(*event.Table) bool
	// DDL is the part of a DDL that is wanted, nil for none.
	DDL func(*event.DDL) (*event.DDL, error)
}

// DefaultApply applies what the meta says is to be applied.
func DefaultApply(inv *Inventory) ApplyConfig {
	return ApplyConfig{Merge: DefaultMerge(inv), BatchRows: 2048, BatchBytes: 2 << 20, TxnBytes: 64 << 20, Progress: func(Progress) {}}
}

// Applied is what has been given to the sink.
type Applied struct {
	Rows, Txns, DDLs uint64
	TS               tso.TS // everything up to here is downstream, and flushed
	Doubts           []Doubt
	// Unproven are reasons for which the downstream is not known to be a snapshot.
	Unproven []string
	// Before tells that all of this had been applied before: nothing was done. Nothing tells
	// that the log is about none of the tables of the part.
	Before, Nothing bool
}

// Snapshot tells whether the downstream is known to be what upstream was.
func (a *Applied) Snapshot() bool { return len(a.Doubts) == 0 && len(a.Unproven) == 0 }

// Apply brings a downstream that holds everything up to the log's checkpoint, and
// nothing above its resolved-ts, to exactly the resolved-ts, and has the sink note
// that as a sync point, where that is so of every table. It refuses a log of which a file is
// missing, which has a DDL that this downstream cannot carry out without the upstream, or of
// which the downstream tells that it makes no snapshot of it,
// before it writes anything; one that is damaged ends it when it is come to, with nothing noted: once
// the file is brought back Apply is begun again.
//
// It may be ended at any point and begun again: a sink that writes rows so that
// twice is once, and knows which DDLs it has carried out, ends at the same.
func Apply(ctx context.Context, b objstore.Bucket, inv *Inventory, cfg ApplyConfig, s sink.Sink, leave sink.Leave) (done Applied, err error) {
	w, err := newWitness(ctx, b, inv, cfg, s)
	if err != nil {
		return Applied{}, err
	}
	done.Unproven, done.Before = slices.Clone(w.unproven), w.before
	if f, ok := s.(sink.Foreseer); ok {
		if done.Doubts, err = Foresee(ctx, b, inv, cfg, f.Foresee); err != nil {
			return done, err
		}
		if err := stops(done.Doubts); err != nil {
			return done, fmt.Errorf("the redo log %v: %w", inv.ID, err)
		}
	}
	w.recall(&done)
	if done.Before {
		done.TS = cfg.Merge.To
		return done, nil
	}
	a := &applier{bucket: b, inv: inv, cfg: cfg, sink: s, leave: leave, witness: w, mounter: mount.New(), done: done}
	err = a.all(ctx)
	if err == nil && a.done.Snapshot() && cfg.Part.Rows == nil {
		err = s.SyncPoint(ctx, leave, event.SyncPoint{TS: cfg.Merge.To})
	}
	// Of a part that has nothing to do the downstream is what it was before: that it was
	// applied would forbid to apply what was meant.
	a.done.Nothing = a.left && !a.took
	if err == nil && !a.done.Nothing {
		err = s.Checkpoint(ctx, cfg.Merge.To)
	}
	if err == nil && !a.done.Nothing {
		err = w.ended(ctx, leave)
	}
	if err != nil {
		return a.done, fmt.Errorf("applying the redo log %v: %s: %w", inv.ID, a.reached(), err)
	}
	a.reach(cfg.Merge.To)
	return a.done, nil
}

// all applies everything. Where the log cannot be read on, what was read before is flushed:
// then it is known where the downstream is.
func (a *applier) all(ctx context.Context) error {
	a.flushed = time.Now()
	err := a.entries(ctx)
	if err == nil {
		err = a.finishTxn(ctx)
	}
	if err == nil {
		err = a.flush(ctx)
	}
	if err != nil && !a.broken && ctx.Err() == nil {
		_ = a.flush(ctx) // the first error counts
	}
	return err
}

// reached says where an error has left the downstream.
func (a *applier) reached() string {
	from, to := a.cfg.Merge.From, a.cfg.Merge.To
	what := "nothing was written; the downstream is as it was, no snapshot"
	if a.begun {
		what = "the downstream is no snapshot now"
	}
	return fmt.Sprintf("%s: it has everything up to %d, and some of what was committed from there to %d", what, max(from, a.done.TS), to)
}

// A chunk is what is read at once of what the sink gets next: enough that handing it over
// costs nothing, and few of them wait.
const (
	chunkEntries = 512
	chunkBytes   = 1 << 20
)

// entries reads the log on one processor while what was read goes to the sink from another.
func (a *applier) entries(ctx context.Context) error {
	g, reading := errgroup.WithContext(ctx)
	chunks := make(chan []record.Entry, 1)
	g.Go(func() error {
		defer close(chunks)
		var chunk []record.Entry
		var bytes int64
		hand := func() error {
			select {
			case chunks <- chunk:
			case <-reading.Done():
				return reading.Err()
			}
			chunk, bytes = make([]record.Entry, 0, chunkEntries), 0
			return nil
		}
		err := Merge(reading, a.bucket, a.inv, a.cfg.Merge, func(e record.Entry) error {
			chunk = append(chunk, e)
			if e.Raw != nil {
				bytes += e.Raw.Size()
			}
			if len(chunk) < chunkEntries && bytes < chunkBytes {
				return nil
			}
			return hand()
		})
		if last := hand(); last != nil {
			return cmp.Or(err, last)
		}
		return err // what was read before it has gone to the sink
	})
	g.Go(func() error {
		for chunk := range chunks {
			for _, e := range chunk {
				// What the sink writes goes on when all is read.
				if err := a.entry(ctx, e); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return g.Wait()
}

// applier puts entries together to what a sink takes.
type applier struct {
	bucket  objstore.Bucket
	inv     *Inventory
	cfg     ApplyConfig
	sink    sink.Sink
	leave   sink.Leave
	witness *witness
	mounter *mount.Mounter

	batch []event.Txn
	rows  int
	bytes int64
	txn   event.Txn // the one that is being put together
	held  int64     // bytes of it
	large bool      // it is not held: its rows pass by, and come again
	done  Applied

	took, left bool // something was wanted, something was not

	begun   bool      // the sink was given something
	broken  bool      // the sink has failed: what it has of what it was given is not known
	given   tso.TS    // below it the sink was given everything
	flushed time.Time // when the sink was flushed last
}

// rowCost is what a mounted row takes beside its bytes, and valueCost a value.
const (
	rowCost   = int64(unsafe.Sizeof(event.Row{}))
	valueCost = int64(unsafe.Sizeof(event.Value{}))
)

func costOf(r *event.Row) int64 {
	return r.Raw.Size() + rowCost + int64(len(r.Before)+len(r.After))*valueCost
}

func (a *applier) entry(ctx context.Context, e record.Entry) error {
	if e.DDL != nil {
		return a.ddl(ctx, e.DDL)
	}
	if wants := a.cfg.Part.Rows; wants != nil && !wants(e.Table) {
		a.left = true
		return nil
	}
	a.took = true
	if a.txn.CommitTS != e.Raw.CommitTS || a.txn.StartTS != e.Raw.StartTS {
		if err := a.finishTxn(ctx); err != nil {
			return err
		}
		a.txn = event.Txn{StartTS: e.Raw.StartTS, CommitTS: e.Raw.CommitTS}
	}
	if a.large {
		return nil
	}
	row, err := a.mounter.Row(e.Raw, e.Table)
	if row == nil || err != nil {
		return err
	}
	a.txn.Rows = append(a.txn.Rows, row)
	if a.held += costOf(row); a.held > a.cfg.TxnBytes {
		if a.sink.Whole() {
			return cdcerr.TxnTooLarge.New("a transaction committed at %d takes more than the %d bytes that may be held of one", a.txn.CommitTS, a.cfg.TxnBytes)
		}
		a.large, a.txn.Rows = true, nil
	}
	return nil
}

// finishTxn adds the transaction to the batch, and writes that when it is full.
func (a *applier) finishTxn(ctx context.Context) error {
	txn, large := a.txn, a.large
	a.txn, a.large = event.Txn{}, false
	bytes := a.held
	a.held = 0
	if large {
		return a.pieces(ctx, txn)
	}
	if len(txn.Rows) == 0 {
		return nil
	}
	a.batch = append(a.batch, txn)
	a.rows += len(txn.Rows)
	a.bytes += bytes
	if a.rows < a.cfg.BatchRows && a.bytes < a.cfg.BatchBytes {
		return nil
	}
	if time.Since(a.flushed) > flushEvery {
		return a.flush(ctx)
	}
	return a.write(ctx)
}

// write gives the batch to the sink.
func (a *applier) write(ctx context.Context) error {
	if len(a.batch) == 0 {
		return nil
	}
	if err := a.begin(ctx); err != nil {
		return err
	}
	if err := a.sink.Write(ctx, a.leave, a.batch); err != nil {
		a.broken = true
		return err
	}
	for i := range a.batch {
		if !a.batch[i].More {
			a.done.Txns++
			a.given = a.batch[i].CommitTS
		}
	}
	a.done.Rows += uint64(a.rows)
	a.batch, a.rows, a.bytes = nil, 0, 0
	return nil
}

// begin notes that the log is being applied before the sink is given the first of it.
func (a *applier) begin(ctx context.Context) error {
	if a.begun {
		return nil
	}
	err := a.witness.begun(ctx, a.leave)
	a.begun = err == nil
	return err
}

// flushEvery is how often the sink is flushed so that it is known, and told, how far the
// downstream is: seldom enough that what it does meanwhile never waits for long.
const flushEvery = 2 * time.Second

func (a *applier) flush(ctx context.Context) error {
	if err := a.write(ctx); err != nil {
		return err
	}
	a.flushed = time.Now()
	if err := a.sink.Flush(ctx); err != nil {
		a.broken = true
		return err
	}
	if a.given > 0 {
		// Another transaction, or a DDL, of the same commit-ts may follow.
		a.reach(a.given.Prev())
	}
	return nil
}

// reach notes up to where everything is downstream.
func (a *applier) reach(ts tso.TS) {
	if ts <= a.done.TS {
		return
	}
	a.done.TS = ts
	p := Progress{TS: ts}
	for _, f := range a.inv.Files {
		if p.All += f.Size; f.Max <= ts {
			p.Bytes += f.Size
		}
	}
	a.cfg.Progress(p)
}

// ddl carries one out, after every row before it (P6).
func (a *applier) ddl(ctx context.Context, d *event.DDL) error {
	d, err := a.cfg.Part.ddl(d)
	if d == nil || err != nil {
		a.left = true
		return err
	}
	a.took = true
	if err := a.finishTxn(ctx); err != nil {
		return err
	}
	if err := a.flush(ctx); err != nil {
		return err
	}
	if err := a.begin(ctx); err != nil {
		return err
	}
	if err := a.sink.DDL(ctx, a.leave, d); err != nil {
		a.broken = true
		return fmt.Errorf("DDL job %d at %d: %w", d.JobID, d.SwitchTS, err)
	}
	a.done.DDLs++
	a.given = d.SwitchTS
	return nil
}

// pieces writes a transaction that is too large to be held. Its rows are read again:
// first those that give up a unique value, then all that have one. An update that
// moves one is both, a deletion and an insert.
func (a *applier) pieces(ctx context.Context, txn event.Txn) error {
	if err := a.write(ctx); err != nil {
		return err
	}
	cfg := a.cfg.Merge
	cfg.From, cfg.To, cfg.Done = txn.CommitTS.Prev(), txn.CommitTS, func(LogFile) {}
	cfg.AheadBytes /= 4 // beside what the whole log's reader holds
	piece := event.Txn{StartTS: txn.StartTS, CommitTS: txn.CommitTS, Piece: 1, More: true}
	put := func(row *event.Row) error {
		piece.Rows = append(piece.Rows, row)
		if a.bytes += costOf(row); len(piece.Rows) < a.cfg.BatchRows && a.bytes < a.cfg.BatchBytes {
			return nil
		}
		err := a.piece(ctx, piece)
		piece.Piece++
		piece.Rows = nil
		return err
	}
	for _, gives := range []bool{true, false} {
		err := Merge(ctx, a.bucket, a.inv, cfg, func(e record.Entry) error {
			wants := a.cfg.Part.Rows
			if e.DDL != nil || e.Raw.StartTS != txn.StartTS || wants != nil && !wants(e.Table) {
				return nil
			}
			row, err := a.mounter.Row(e.Raw, e.Table)
			if row == nil || err != nil {
				return err
			}
			if row = half(row, gives); row == nil {
				return nil
			}
			return put(row)
		})
		if err != nil {
			return err
		}
	}
	piece.More = false
	return a.piece(ctx, piece)
}

func (a *applier) piece(ctx context.Context, piece event.Txn) error {
	a.batch, a.rows = []event.Txn{piece}, len(piece.Rows)
	return a.write(ctx)
}

// half is what of a row belongs to the first half of a transaction in pieces, where
// unique values are given up, or to the second; nil where nothing does.
func half(row *event.Row, gives bool) *event.Row {
	moves := row.Kind() == event.Update && movesUnique(row)
	if gives != (row.Kind() == event.DeleteRow) && !moves {
		return nil
	}
	if !moves {
		return row
	}
	part := *row
	if gives {
		part.After = nil
	} else {
		part.Before = nil
	}
	return &part
}

// movesUnique tells whether an update changes a value that no other row may have.
func movesUnique(row *event.Row) bool {
	for i := range row.Table.Indexes {
		index := &row.Table.Indexes[i]
		if !index.Unique && !index.Primary {
			continue
		}
		for _, p := range index.Parts {
			// What a hidden column comes of is not looked into.
			if p.Column < 0 || !row.Before[p.Column].Equal(row.After[p.Column]) || row.After[p.Column].IsMissing() {
				return true
			}
		}
	}
	return false
}
