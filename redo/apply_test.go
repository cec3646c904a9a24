package redo_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/redo/redotest"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// notes is a sink that notes what it is given.
type notes struct {
	txns    []event.Txn
	ddls    []*event.DDL
	order   []string // of what came, in words
	flushed bool
	noted   tso.TS
	whole   bool
	largest int

	kept  *sink.Journal // nil: it keeps none
	blank bool          // kept is what was noted, and nothing was
	dead  error         // what the next write fails with
	after error         // what a DDL fails with once it is done
}

// newNotes is one that the log has written up to its checkpoint.
func newNotes(inv *redo.Inventory) *notes {
	return &notes{kept: &sink.Journal{Log: inv.ID.Incarnation, Passed: inv.Meta.Checkpoint}}
}

func (n *notes) Journals() bool { return n.kept != nil }
func (n *notes) Journal(context.Context) (*sink.Journal, error) {
	if n.blank {
		return nil, nil
	}
	return n.kept, nil
}
func (n *notes) Note(_ context.Context, _ sink.Leave, change func(*sink.Journal) bool) error {
	change(n.kept)
	return nil
}

func (n *notes) Write(_ context.Context, _ sink.Leave, txns []event.Txn) error {
	n.flushed = false
	if n.dead != nil {
		return n.dead
	}
	n.txns = append(n.txns, txns...)
	for _, t := range txns {
		n.largest = max(n.largest, len(t.Rows))
		n.order = append(n.order, fmt.Sprintf("txn %d %d", t.CommitTS, t.StartTS))
	}
	return nil
}
func (n *notes) Flush(context.Context) error { n.flushed = true; return nil }
func (n *notes) Whole() bool                 { return n.whole }
func (n *notes) DDL(_ context.Context, _ sink.Leave, d *event.DDL) error {
	if !n.flushed {
		return errors.New("P6: rows before it are not flushed")
	}
	n.ddls = append(n.ddls, d)
	n.order = append(n.order, fmt.Sprintf("ddl %d", d.SwitchTS))
	return n.after
}
func (n *notes) SyncPoint(_ context.Context, _ sink.Leave, p event.SyncPoint) error {
	if !n.flushed {
		return errors.New("not all is flushed")
	}
	n.noted = p.TS
	return nil
}
func (n *notes) Checkpoint(context.Context, tso.TS) error { return nil }
func (n *notes) Close() error                             { return nil }

// write makes a log of changes and DDLs, by so many writers at once, and says that
// all of it is to be applied.
func write(t testing.TB, b objstore.Bucket, cfg redo.Config, rec *redotest.Recording, writers int) *redo.Inventory {
	t.Helper()
	must(t, redo.Claim(t.Context(), cfg, b, testID))
	meta, err := redo.OpenMeta(t.Context(), cfg, b, testID, 1, rec.Start)
	must(t, err)
	ddls, err := redo.NewDDLWriter(cfg, b, testID)
	must(t, err)
	for _, d := range rec.DDLs {
		must(t, ddls.Write(t.Context(), d))
	}
	mark := redo.Mark{Checkpoint: rec.Start, Resolved: rec.End, Extents: []record.Extent{ddls.Extent()}}
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	var all []*redo.Writer
	for i := range writers {
		w := redo.NewWriter(cfg, b, testID, rec.Start)
		all = append(all, w)
		g.Go(func() error { return w.Run(ctx) })
		for _, c := range rec.Changes {
			if hash(c.Raw.Key)%writers == i || hash(c.Raw.Key)%3 == 0 { // some are written by all
				must(t, w.Append(ctx, c.Raw, c.Table))
			}
		}
		w.Resolve(rec.End)
	}
	for _, w := range all {
		for w.Durable().TS < rec.End {
			<-w.Moved()
		}
		mark.Extents = append(mark.Extents, w.Durable().Extent)
	}
	cancel()
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	must(t, meta.Advance(t.Context(), mark))
	inv, err := redo.Open(t.Context(), b, testID)
	must(t, err)
	return inv
}

func hash(b []byte) (sum int) {
	for _, c := range b {
		sum += int(c)
	}
	return sum
}

// Every recording goes through the log, by two writers that write some of it
// twice, and comes to the sink as the transactions and DDLs that the upstream made,
// in their order.
func TestRecordingsAreApplied(t *testing.T) {
	for i, path := range golden.Recordings(t) {
		if strings.Contains(path, "/kafka/") || testing.Short() && i%8 != 0 {
			continue // the same statements once more; in short form a few
		}
		t.Run(golden.Name(t, path), func(t *testing.T) {
			rec := redotest.Load(t, path)
			cfg := testConfig()
			cfg.MaxLogBytes, cfg.Codec = 1<<20, record.Codec(i%3)
			b := objstore.NewMemory()
			inv := write(t, b, cfg, rec, 2)
			got := newNotes(inv)
			applied, err := redo.Apply(t.Context(), b, inv, redo.DefaultApply(inv), got, sink.Endless)
			must(t, err)
			holdsAll(t, rec, got)
			if got.noted != rec.End || applied.DDLs != uint64(len(got.ddls)) {
				t.Errorf("%+v, noted %d", applied, got.noted)
			}
		})
	}
}

// The same on a real S3 server.
func TestAppliedFromS3(t *testing.T) {
	b, err := objstore.Open(t.Context(), objstoretest.S3(t))
	must(t, err)
	defer b.Close()
	rec := redotest.Load(t, filepath.Join(golden.Dir(t), "08_txn"))
	inv := write(t, b, testConfig(), rec, 2)
	got := newNotes(inv)
	_, err = redo.Apply(t.Context(), b, inv, redo.DefaultApply(inv), got, sink.Endless)
	must(t, err)
	holdsAll(t, rec, got)
	ids, err := redo.Find(t.Context(), b)
	must(t, err)
	if len(ids) != 1 || ids[0] != testID {
		t.Errorf("%v", ids)
	}
	must(t, redo.Remove(t.Context(), b, testID))
	if ids, err = redo.Find(t.Context(), b); err != nil || len(ids) != 0 {
		t.Errorf("after its removal: %v %v", ids, err)
	}
}

// holdsAll holds what came to what is in (start, end] of a recording.
func holdsAll(t *testing.T, rec *redotest.Recording, got *notes) {
	t.Helper()
	var want []*event.Row
	for _, c := range rec.Changes {
		if c.Raw.CommitTS > rec.Start && c.Raw.CommitTS <= rec.End {
			row, err := mount.Row(c.Raw, c.Table)
			must(t, err)
			if row != nil {
				want = append(want, row)
			}
		}
	}
	i := 0
	for _, txn := range got.txns {
		for _, row := range txn.Rows {
			if i >= len(want) || !redotest.Equal(row, want[i]) || row.CommitTS != txn.CommitTS || row.StartTS != txn.StartTS {
				t.Fatalf("row %d of %d differs", i, len(want))
			}
			i++
		}
	}
	ddls := slices.DeleteFunc(slices.Clone(rec.DDLs), func(d *event.DDL) bool { return d.SwitchTS <= rec.Start || d.SwitchTS > rec.End })
	if i != len(want) || !redotest.Equal(got.ddls, ddls) {
		t.Fatalf("%d rows of %d, %d DDLs of %d", i, len(want), len(got.ddls), len(ddls))
	}
	var last tso.TS
	for _, o := range got.order {
		var ts tso.TS
		_, err := fmt.Sscanf(o[4:], "%d", &ts)
		must(t, err)
		if ts < last {
			t.Fatalf("%s after %d", o, last)
		}
		last = ts
	}
}

// largeTxn is one transaction of n rows that each take the next one's key.
func largeTxn(n int) *redotest.Recording {
	table := &event.Table{ID: 9, Schema: "d", Name: "large", Columns: []event.Column{
		{ID: 1, Name: "id", Type: event.TypeLonglong, Flag: event.FlagPriKey | event.FlagNotNull},
		{ID: 2, Name: "u", Type: event.TypeLonglong},
		{ID: 3, Name: "v", Type: event.TypeVarchar, Charset: "utf8mb4"},
	}, Indexes: []event.Index{
		{ID: 0, Name: "PRIMARY", Primary: true, Unique: true, Parts: []event.IndexPart{{Column: 0, Length: -1}}},
		{ID: 1, Name: "u", Unique: true, Parts: []event.IndexPart{{Column: 1, Length: -1}}},
	}, Handle: event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{Column: 0, Length: -1}}}, Key: []int{0}}
	rec := &redotest.Recording{Start: start, End: start + 10}
	value := func(u int) []byte { // row format 2: columns 2 and 3, neither NULL
		v := strings.Repeat("x", 1000)
		out := []byte{128, 0, 2, 0, 0, 0, 2, 3, 2, 0, byte((2 + len(v)) & 255), byte((2 + len(v)) >> 8), byte(u), byte(u >> 8)}
		return append(out, v...)
	}
	for i := range n {
		key := []byte{'t', 0x80, 0, 0, 0, 0, 0, 0, 9, '_', 'r', 0x80, 0, 0, 0, 0, 0, byte(i >> 8), byte(i)}
		raw := &event.RawKV{Op: event.Put, StartTS: start + 1, CommitTS: start + 5, Key: key, Value: value(i + 257), Old: value(i + 256)}
		switch i % 10 {
		case 0:
			raw.Op, raw.Value = event.Delete, nil
		case 1:
			raw.Old = nil
		case 2:
			raw.Value = append(value(i + 256)[:1013:1013], 'y')
		}
		rec.Changes = append(rec.Changes, redotest.Change{Raw: raw, Table: table})
	}
	return rec
}

// A transaction that is larger than what may be held comes in pieces: what gives a
// unique value up before what takes one, and nothing twice or not at all.
func TestLargeTransaction(t *testing.T) {
	rec := largeTxn(5000)
	b := objstore.NewMemory()
	cfg := testConfig()
	cfg.MaxLogBytes, cfg.Codec = 1<<20, record.Plain
	inv := write(t, b, cfg, rec, 1)
	if len(inv.Files) < 8 {
		t.Fatalf("%d files", len(inv.Files))
	}
	how := redo.DefaultApply(inv)
	how.TxnBytes, how.BatchRows, how.Merge.AheadBytes = 1<<20, 100, 2<<20
	got := newNotes(inv)
	_, err := redo.Apply(t.Context(), b, inv, how, got, sink.Endless)
	must(t, err)
	taken := map[string]bool{}
	rows := 0
	for i, txn := range got.txns {
		if txn.Piece != i+1 || txn.More != (i+1 < len(got.txns)) || len(txn.Rows) > 100 {
			t.Fatalf("piece %d of %d: %d, more %v, %d rows", i, len(got.txns), txn.Piece, txn.More, len(txn.Rows))
		}
		for _, row := range txn.Rows {
			rows++
			u := func(im event.Image) string { return im[1].Text(&row.Table.Columns[1]) }
			if row.Before != nil && taken[u(row.Before)] && row.After == nil {
				t.Fatalf("%s is given up after it was taken", u(row.Before))
			}
			if row.After != nil {
				taken[u(row.After)] = true
			}
		}
	}
	// Seven of ten move a unique value, and come as two.
	if want := 5000 + 5000*7/10; rows != want {
		t.Errorf("%d rows, want %d", rows, want)
	}
	if _, err := redo.Apply(t.Context(), b, inv, how, &notes{whole: true}, sink.Endless); !cdcerr.TxnTooLarge.Is(err) {
		t.Errorf("a sink that wants it whole: %v", err)
	}
}

// What is missing or damaged is named, with its timestamps and tables, and nothing
// is applied.
func TestDamagedLog(t *testing.T) {
	rec := largeTxn(3000)
	for i, c := range rec.Changes { // each its own transaction
		c.Raw.CommitTS, c.Raw.StartTS = start+2*tso.TS(i)+2, start+2*tso.TS(i)+1
	}
	rec.End = start + 7000
	cfg := testConfig()
	cfg.MaxLogBytes, cfg.Codec = 1<<20, record.Plain
	fresh := func() (objstore.Bucket, *redo.Inventory) {
		b := objstore.NewMemory()
		return b, write(t, b, cfg, rec, 1)
	}
	for name, tt := range map[string]struct {
		damage func(b objstore.Bucket, f redo.LogFile) error
		at     int // the file; -1 the last
		says   string
		verify bool // only reading it tells
	}{
		"removed":          {func(b objstore.Bucket, f redo.LogFile) error { return b.Delete(t.Context(), f.Path) }, 2, "files 3 to 3", false},
		"the first is not": {func(b objstore.Bucket, f redo.LogFile) error { return b.Delete(t.Context(), f.Path) }, 0, "files 1 to 1", false},
		"the last is not":  {func(b objstore.Bucket, f redo.LogFile) error { return b.Delete(t.Context(), f.Path) }, -1, "not on the storage", false},
		"cut off":          {cut, 1, "d.large", true},
		"a bit":            {flip, 1, "d.large", true},
		"another's": {func(b objstore.Bucket, f redo.LogFile) error {
			return b.Put(t.Context(), f.Path, []byte("SLUICER\x01"))
		}, 1, "ends after 8 bytes", true},
	} {
		t.Run(name, func(t *testing.T) {
			b, inv := fresh()
			at := tt.at
			if at < 0 {
				at = len(inv.Files) - 1
			}
			f := inv.Files[at]
			must(t, tt.damage(b, f))
			inv, err := redo.Open(t.Context(), b, testID)
			must(t, err)
			got := newNotes(inv)
			_, err = redo.Apply(t.Context(), b, inv, redo.DefaultApply(inv), got, sink.Endless)
			if code := cdcerr.Of(err); code != cdcerr.RedoGap && code != cdcerr.RedoTorn && code != cdcerr.RedoCorrupted {
				t.Errorf("apply: %v", err)
			}
			if got.noted != 0 || !tt.verify && len(got.txns) > 0 {
				t.Errorf("%d transactions were applied, noted %d", len(got.txns), got.noted)
			}
			rep, err := redo.Verify(t.Context(), b, inv, 2)
			must(t, err)
			if err := rep.Err(); !cdcerr.RedoGap.Is(err) || !strings.Contains(err.Error(), tt.says) || rep.Recoverable() >= f.Min && tt.verify || rep.Recoverable() >= f.Max {
				t.Errorf("verify: recoverable %d, the file begins at %d: %v", rep.Recoverable(), f.Min, err)
			}
		})
	}
}

func cut(b objstore.Bucket, f redo.LogFile) error {
	data, err := b.Get(context.Background(), f.Path, 0, objstore.ToEnd)
	if err != nil {
		return err
	}
	return b.Put(context.Background(), f.Path, data[:len(data)-3])
}

func flip(b objstore.Bucket, f redo.LogFile) error {
	data, err := b.Get(context.Background(), f.Path, 0, objstore.ToEnd)
	if err != nil {
		return err
	}
	data[len(data)*2/3] ^= 4
	return b.Put(context.Background(), f.Path, data)
}
