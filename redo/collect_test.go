package redo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// handmade is a log of one writer, file by file.
type handmade struct {
	*objstore.Memory
	t      *testing.T
	meta   *redo.Meta
	before tso.TS
	paths  []string
}

func newHandmade(t *testing.T) *handmade {
	h := &handmade{Memory: objstore.NewMemory(), t: t}
	h.meta = openMeta(t, h.Memory, 5)
	return h
}

// file puts the writer's next file, with a change at each of these commit-ts above start.
func (h *handmade) file(run uint64, at ...tso.TS) {
	h.t.Helper()
	p, err := record.NewPacker(record.Plain)
	must(h.t, err)
	b := record.NewBuilder(record.Rows)
	for i, ts := range at {
		b.Change(change(start+ts, start, fmt.Sprintf("k%d-%d", len(h.paths), i), 1), testTable)
	}
	name, data, err := b.Encode(record.Head{
		Cluster: testID.Cluster, Namespace: testID.Namespace, Changefeed: testID.Changefeed, Incarnation: testID.Incarnation,
		Writer: "r1", Run: run, Number: uint64(len(h.paths) + 1), BeforeMax: h.before,
	}, p)
	must(h.t, err)
	h.before = max(h.before, name.Max)
	h.paths = append(h.paths, "default/orders/1-x/"+name.String())
	must(h.t, h.PutNew(h.t.Context(), h.paths[len(h.paths)-1], data))
}

// counted puts a meta that counts on the first of the files.
func (h *handmade) counted(checkpoint, resolved tso.TS, count int, highest tso.TS) {
	h.t.Helper()
	must(h.t, h.meta.Advance(h.t.Context(), redo.Mark{
		Checkpoint: start + checkpoint, Resolved: start + resolved, Extents: []record.Extent{extent("r1", uint64(count), start+highest)},
	}))
}

func (h *handmade) lose(numbers ...int) {
	for _, n := range numbers {
		must(h.t, h.Delete(h.t.Context(), h.paths[n-1]))
	}
}

func (h *handmade) collect() int {
	h.t.Helper()
	n, err := h.meta.Collect(h.t.Context())
	must(h.t, err)
	return n
}

func (h *handmade) open() *redo.Inventory {
	h.t.Helper()
	inv, err := redo.Open(h.t.Context(), h, testID)
	must(h.t, err)
	return inv
}

// What GC removes is never taken for lost, also where the order of commit-ts goes back.
func TestCollectedIsNotLost(t *testing.T) {
	h := newHandmade(t)
	h.file(1, 50, 100) // ahead of the sink
	h.file(2, 10)      // a span that came catches up
	h.file(2, 20)
	h.file(2, 30)
	h.file(2, 80, 104)
	h.counted(40, 104, 5, 104)
	if n := h.collect(); n != 0 {
		t.Errorf("%d files removed behind one that is needed", n)
	}
	if inv := h.open(); inv.Err() != nil || len(inv.Files) != 2 || inv.Below != 3 {
		t.Errorf("%d files: %v", len(inv.Files), inv.Err())
	}
	h.counted(102, 110, 5, 104)
	if n := h.collect(); n != 4 {
		t.Errorf("%d files removed", n)
	}
	if inv := h.open(); inv.Err() != nil || len(inv.Files) != 1 {
		t.Errorf("%d files: %v", len(inv.Files), inv.Err())
	}
	h.counted(104, 110, 5, 104)
	if n := h.collect(); n != 1 {
		t.Errorf("the last: %d", n)
	}
	must(t, h.open().Err())
}

// A file that comes before, by number, may still be on its way to the storage: what
// comes after it stays until that may be anything.
func TestCollectWaitsForFilesOnTheirWay(t *testing.T) {
	for _, late := range []tso.TS{10, 100} {
		h := newHandmade(t)
		h.file(1, late)
		h.file(2, 20)
		text, err := h.Get(t.Context(), h.paths[0], 0, objstore.ToEnd)
		must(t, err)
		h.lose(1)
		h.counted(40, 50, 0, 0)
		if n, want := h.collect(), map[tso.TS]int{10: 1, 100: 0}[late]; n != want {
			t.Errorf("up to %d is on its way: %d files removed, want %d", late, n, want)
		}
		must(t, h.PutNew(t.Context(), h.paths[0], text))
		h.counted(40, 110, 2, max(late, 20))
		must(t, h.open().Err())
	}
}

// Whatever is lost of what is needed is a problem, wherever it was.
func TestLossIsFound(t *testing.T) {
	for what, c := range map[string]struct {
		files   [][]tso.TS // run, then commit-ts
		highest tso.TS
		lose    []int
	}{
		"the end of a transaction": {[][]tso.TS{{1, 50, 100}, {1, 100}, {1, 100}}, 100, []int{3}},
		"what caught up":           {[][]tso.TS{{1, 50, 100}, {2, 20, 60}, {2, 70, 100}}, 100, []int{2, 3}},
		"between":                  {[][]tso.TS{{1, 50, 100}, {2, 20, 60}, {2, 70, 100}}, 100, []int{2}},
		"the first":                {[][]tso.TS{{1, 50, 100}, {2, 20, 60}, {2, 70, 100}}, 100, []int{1}},
		"all":                      {[][]tso.TS{{1, 50, 100}, {2, 20, 60}}, 100, []int{1, 2}},
		"one that reached above, and one between": {[][]tso.TS{{1, 50, 100}, {2, 20}, {2, 101}}, 101, []int{1, 2}},
	} {
		h := newHandmade(t)
		for _, f := range c.files {
			h.file(uint64(f[0]), f[1:]...)
		}
		h.counted(0, 104, len(c.files), c.highest)
		must(t, h.open().Err())
		h.lose(c.lose...)
		if err := h.open().Err(); !cdcerr.RedoGap.Is(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A log that loses a file while it is written is told of, however often its meta moves.
func TestOpenEndsOnALiveLog(t *testing.T) {
	h := newHandmade(t)
	h.file(1, 50)
	h.file(1, 100)
	h.counted(0, 100, 2, 100)
	h.lose(2)
	moved := tso.TS(0)
	b := &objstoretest.Faulty{Bucket: h.Memory, Decide: func(_ context.Context, c objstoretest.Call) objstoretest.Fault {
		if c.Op == objstoretest.List && strings.Contains(c.Name, "/rows/") && moved < 20 {
			moved++
			h.counted(moved, 100+moved, 2, 100)
		}
		return objstoretest.None
	}}
	inv, err := redo.Open(t.Context(), b, testID)
	must(t, err)
	if !cdcerr.RedoGap.Is(inv.Err()) || moved != 1 {
		t.Errorf("after %d listings: %v", moved, inv.Err())
	}
}

// A meta that is gone when it is read has a successor, and what was collected since it was
// listed is not lost.
func TestOpenWhileMetasMove(t *testing.T) {
	h := newHandmade(t)
	h.file(1, 10)
	h.file(1, 20)
	h.file(1, 30)
	h.file(1, 50, 100)
	h.counted(30, 50, 4, 100)
	h.lose(1, 2)
	meta := "default/orders/1-x/" + record.MetaName(h.meta.Stored().Number)
	moved := false
	b := &objstoretest.Faulty{Bucket: h.Memory, Decide: func(_ context.Context, c objstoretest.Call) objstoretest.Fault {
		switch {
		case c.Op == objstoretest.Get && c.Name == meta && !moved:
			moved = true
			h.counted(40, 60, 4, 100)
		case c.Op == objstoretest.Get && c.Name == h.paths[2]:
			h.lose(3)
		}
		return objstoretest.None
	}}
	inv, err := redo.Open(t.Context(), b, testID)
	must(t, err)
	if inv.Err() != nil || inv.Meta.Resolved != start+60 || len(inv.Files) != 1 {
		t.Errorf("meta %+v, %d files: %v", inv.Meta, len(inv.Files), inv.Err())
	}
	if _, err := h.Get(t.Context(), h.paths[2], 0, objstore.ToEnd); !moved || !cdcerr.ObjectNotFound.Is(err) {
		t.Errorf("the log did not move: %v", err)
	}
}

// One that ends too soon was whole if those before it are gone.
func TestMetaIsCutShort(t *testing.T) {
	h := newHandmade(t)
	h.file(1, 50)
	h.counted(0, 20, 0, 0)
	h.counted(0, 50, 1, 50)
	h.counted(10, 60, 1, 50)
	name := "default/orders/1-x/" + record.MetaName(h.meta.Stored().Number)
	text, err := h.Get(t.Context(), name, 0, objstore.ToEnd)
	must(t, err)
	must(t, h.Put(t.Context(), name, text[:len(text)/2]))
	if _, err = redo.Open(t.Context(), h, testID); !cdcerr.RedoCorrupted.Is(err) {
		t.Errorf("a reader: %v", err)
	}
}

// An older meta never stands for one that was written and is damaged.
func TestDamagedMeta(t *testing.T) {
	h := newHandmade(t)
	h.file(1, 50)
	h.counted(0, 50, 1, 50)
	name := "default/orders/1-x/" + record.MetaName(h.meta.Stored().Number)
	text, err := h.Get(t.Context(), name, 0, objstore.ToEnd)
	must(t, err)
	must(t, h.Put(t.Context(), name, []byte(strings.Replace(string(text), "1050", "1051", 1))))
	_, err = redo.Open(t.Context(), h, testID)
	if !cdcerr.RedoCorrupted.Is(err) || !strings.Contains(err.Error(), name) {
		t.Errorf("a reader: %v", err)
	}
	if _, err = redo.OpenMeta(t.Context(), redo.Default(), h, testID, 6, start); !cdcerr.RedoCorrupted.Is(err) {
		t.Errorf("an owner: %v", err)
	}
	must(t, h.Put(t.Context(), name, text))
	must(t, h.open().Err())
}

// A checkpoint above all that the log knows of does not pass without a word.
func TestMetaBehindTheCheckpoint(t *testing.T) {
	for at, warns := range map[tso.TS]bool{start + 50: false, start + 51: true} {
		h := newHandmade(t)
		h.counted(0, 50, 0, 0)
		var text strings.Builder
		cfg := redo.Default()
		cfg.Log = slog.New(slog.NewTextHandler(&text, nil))
		m, err := redo.OpenMeta(t.Context(), cfg, h, testID, 6, at)
		must(t, err)
		if strings.Contains(text.String(), "checkpoint=1051") != warns || m.Stored().Checkpoint != at || m.Stored().Resolved != at {
			t.Errorf("%d: %+v, %q", at, m.Stored(), text.String())
		}
	}
}

// What is strange and no loss is a note.
func TestNotes(t *testing.T) {
	ctx, h := t.Context(), newHandmade(t)
	h.file(1, 50)
	h.counted(0, 50, 1, 50)
	if inv := h.open(); len(inv.Notes) > 0 {
		t.Errorf("%v", inv.Notes)
	}
	for _, stray := range []string{"rows/x.bak", "meta/x.bak"} {
		must(t, h.PutNew(ctx, "default/orders/1-x/"+stray, []byte("x")))
	}
	must(t, h.Delete(ctx, "sluice-redo.json"))
	ids, err := redo.Find(ctx, h)
	must(t, err)
	if len(ids) != 1 || ids[0] != testID {
		t.Errorf("%v", ids)
	}
	h.file(1, tso.New(120_000, 0))
	inv := h.open()
	must(t, inv.Err())
	for i, want := range []string{"sluice-redo.json", "x.bak", "1 files reach up to"} {
		if len(inv.Notes) != 3 || !strings.Contains(inv.Notes[i], want) {
			t.Errorf("no %q: %q", want, inv.Notes)
		}
	}
	other := testID
	other.Cluster++
	if _, err := redo.Open(ctx, h, other); !cdcerr.RedoForeign.Is(err) {
		t.Errorf("another cluster's: %v", err)
	}
}

// What a removal that was cut off has left is found, and is no log.
func TestRemovalIsFinished(t *testing.T) {
	ctx, h := t.Context(), newHandmade(t)
	h.file(1, 50)
	metas, err := objstore.All(ctx, h, "default/orders/1-x/meta/", "")
	must(t, err)
	b := &objstoretest.Faulty{Bucket: h, Decide: func(_ context.Context, c objstoretest.Call) objstoretest.Fault {
		if c.Op == objstoretest.Delete && strings.Contains(c.Name, "/rows/") {
			return objstoretest.Fail
		}
		return objstoretest.None
	}}
	if err := redo.Remove(ctx, b, testID); err == nil || len(metas) == 0 {
		t.Fatal(err)
	}
	if ids, err := redo.Find(ctx, h); err != nil || len(ids) != 0 {
		t.Errorf("%v %v", ids, err)
	}
	all, err := redo.Folders(ctx, h, testID)
	must(t, err)
	if len(all) != 1 || all[0] != testID {
		t.Fatalf("%v", all)
	}
	must(t, redo.Remove(ctx, h, all[0]))
	if all, err = redo.Folders(ctx, h, testID); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
}

// Sinks wait for a meta, and a meta for nothing that is removed.
func TestMetaDoesNotWaitForRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandmade(t)
		for i := range tso.TS(5) {
			h.file(1, 1+i)
		}
		hang := make(chan struct{})
		b := &objstoretest.Faulty{Bucket: h, Decide: func(_ context.Context, c objstoretest.Call) objstoretest.Fault {
			if c.Op == objstoretest.Delete {
				<-hang
			}
			return objstoretest.None
		}}
		cfg := testConfig()
		m, err := redo.OpenMeta(t.Context(), cfg, b, testID, 6, start)
		must(t, err)
		k := redo.NewKeeper(m)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		for i := range tso.TS(200) {
			k.Advance(redo.Mark{Checkpoint: start + 10 + i, Resolved: start + 20 + i})
			pass(cfg.MetaEvery)
			synctest.Wait()
			if limit := m.Gate().Limit(); limit != start+20+i {
				t.Fatalf("gate %d, want %d", limit, start+20+i)
			}
		}
		close(hang)
		pass(time.Minute)
		if left, err := objstore.All(ctx, h, "default/orders/1-x/", ""); err != nil || len(left) != 3 {
			t.Errorf("two claims and the last meta, there is %v %v", left, err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// An extent that comes late takes nothing back of a later one.
func TestKeeperKeepsTheLargerExtent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandmade(t)
		k := redo.NewKeeper(h.meta)
		k.Advance(redo.Mark{Resolved: start + 9, Extents: []record.Extent{extent("w", 4, start+9)}})
		k.Advance(redo.Mark{Resolved: start + 8, Extents: []record.Extent{extent("w", 3, start+8)}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		synctest.Wait()
		cancel()
		<-ended
		if w := h.meta.Stored().Writers; len(w) != 1 || w[0] != extent("w", 4, start+9) {
			t.Errorf("%+v", w)
		}
	})
}

// A storage that does not answer at all is told of while it is waited for.
func TestSilentStorageIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		cfg := testConfig()
		cfg.Trouble = func(err error) { told = append(told, err) }
		b := &objstoretest.Faulty{Bucket: objstore.NewMemory(), Decide: func(context.Context, objstoretest.Call) objstoretest.Fault {
			pass(time.Minute)
			return objstoretest.None
		}}
		must(t, redo.Claim(t.Context(), cfg, b, redo.ID{Cluster: 7}))
		if len(told) != 2 || !cdcerr.StorageAPI.Is(told[0]) || told[1] != nil {
			t.Errorf("%v", told)
		}
	})
}

// While a file waits for the storage a quiet feed's resolved-ts cost nothing.
func TestQuietFeedWhileStorageIsGone(t *testing.T) {
	b := &objstoretest.Faulty{Bucket: objstore.NewMemory(), Decide: func(context.Context, objstoretest.Call) objstoretest.Fault { return objstoretest.Fail }}
	running(t, testConfig(), b, func(ctx context.Context, t *testing.T, w *redo.Writer) {
		must(t, w.Append(ctx, change(start+1, start, "k", 1), testTable))
		for i := range tso.TS(100) {
			w.Resolve(start + 1 + i)
			pass(10 * time.Millisecond)
		}
		if n := w.Marks(); n != 1 {
			t.Errorf("%d marks for one file", n)
		}
	})
}
